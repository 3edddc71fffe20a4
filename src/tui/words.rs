//! Numbers in few characters.

/// Bytes: `340 kB`.
pub fn bytes(count: u64) -> String {
    match count {
        0..1000 => format!("{count} B"),
        1000..1_000_000 => format!("{} kB", count / 1000),
        _ => format!("{:.1} MB", count as f64 / 1e6),
    }
}

/// A count: `2.1k`, `41k`, `1.2M`.
pub fn count(count: u64) -> String {
    match count {
        0..1000 => count.to_string(),
        1000..10_000 => format!("{:.1}k", count as f64 / 1000.0),
        10_000..1_000_000 => format!("{}k", count / 1000),
        _ => format!("{:.1}M", count as f64 / 1e6),
    }
}

/// US dollars: `$0.31`, `$0.004`.
pub fn dollars(amount: f64) -> String {
    if amount > 0.0 && amount < 0.01 { format!("${amount:.4}") } else { format!("${amount:.2}") }
}

/// How long ago a time in Unix seconds was: `now`, `5m`, `3h`, `2d`.
pub fn ago(then: i64, now: i64) -> String {
    match now.saturating_sub(then) {
        ..60 => "now".to_owned(),
        seconds @ 60..3600 => format!("{}m", seconds / 60),
        seconds @ 3600..86_400 => format!("{}h", seconds / 3600),
        seconds => format!("{}d", seconds / 86_400),
    }
}
