//! When a failed model call is made again.

use std::time::Duration;

use super::ProviderError;

/// How often and how long apart (settings.json, `retry`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetryPolicy {
    /// At most so many further tries.
    pub max_retries: u32,
    /// Before the first of them; doubled for each further one.
    pub base_delay: Duration,
    /// Never longer than this by our own count.
    pub max_delay: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        RetryPolicy { max_retries: 5, base_delay: Duration::from_secs(2), max_delay: Duration::from_secs(60) }
    }
}

impl RetryPolicy {
    /// How long to wait before try `attempt`, counted from 1; `None`: give up. `jitter` is from 0 to 1, and
    /// shortens our own delays by up to a fifth so that many clients do not come back at once. What the
    /// provider asks for is never shortened.
    pub fn delay(&self, attempt: u32, error: &ProviderError, jitter: f64) -> Option<Duration> {
        if !error.retryable() || attempt > self.max_retries {
            return None;
        }
        let doubled = self.base_delay.saturating_mul(1 << (attempt - 1).min(16)).min(self.max_delay);
        let own = doubled.mul_f64(1.0 - 0.2 * jitter.clamp(0.0, 1.0));
        Some(error.retry_after.map_or(own, |asked| asked.max(Duration::from_millis(1))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::ErrorKind;

    #[test]
    fn delays_double_up_to_the_cap_and_then_end() {
        let policy = RetryPolicy { max_retries: 7, ..RetryPolicy::default() };
        let error = ProviderError::new(ErrorKind::Overloaded, "x");
        let delays: Vec<_> = (1..=8).map(|n| policy.delay(n, &error, 0.0).map(|d| d.as_secs())).collect();
        let expected = [2, 4, 8, 16, 32, 60, 60].map(Some);
        assert_eq!(delays, [&expected[..], &[None]].concat());
    }

    #[test]
    fn what_the_provider_asks_for_wins() {
        let mut error = ProviderError::new(ErrorKind::RateLimit, "x");
        error.retry_after = Some(Duration::from_secs(3600));
        assert_eq!(RetryPolicy::default().delay(1, &error, 1.0), Some(Duration::from_secs(3600)));
        let refused = ProviderError::new(ErrorKind::Auth, "x");
        assert_eq!(RetryPolicy::default().delay(1, &refused, 0.0), None);
    }
}
