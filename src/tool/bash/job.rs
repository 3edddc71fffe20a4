//! Commands that run in the background: what they print and how they end is told to the model later.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::text;
use crate::toolkit::{ToolContext, ToolError, ToolOutput, View};

use super::super::truncate;
use super::capture::Capture;
use super::family::Family;
use super::shell::{self, Started};
use super::{described, drain, short};

/// Most new output that a report carries, in bytes and lines.
const REPORTED: (usize, usize) = (2048, 20);

/// The commands that run in the background for one session. Cheap to share; dropped with the session, it ends
/// them.
#[derive(Debug, Default)]
pub struct Jobs {
    jobs: Mutex<Vec<Arc<Job>>>,
    count: std::sync::atomic::AtomicUsize,
    ended: Arc<Notify>,
}

/// What happened to a job since the last report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobReport {
    /// The job's number, from 1.
    pub id: usize,
    /// Its command.
    pub command: String,
    /// For the model: the new output's end and, where it ended, how.
    pub text: String,
    /// It has ended; no report follows.
    pub ended: bool,
    /// Its exit code, once it has ended by itself.
    pub exit_code: Option<i32>,
}

#[derive(Debug)]
struct Job {
    id: usize,
    command: String,
    pid: i32,
    log: Option<PathBuf>,
    family: Mutex<Family>,
    news: Mutex<News>,
}

/// What was not reported yet.
#[derive(Debug, Default)]
struct News {
    output: VecDeque<u8>,
    /// How many bytes came, also those that `output` no longer holds.
    bytes: u64,
    end: Option<(String, Option<i32>)>,
}

impl Jobs {
    /// What happened since the last call, in the order in which the jobs were started. Jobs that have ended are
    /// told of once and then forgotten.
    pub fn take_reports(&self) -> Vec<JobReport> {
        let mut jobs = lock(&self.jobs);
        let mut reports = Vec::new();
        jobs.retain(|job| {
            let report = job.report();
            let ended = report.as_ref().is_some_and(|report| report.ended);
            reports.extend(report);
            !ended
        });
        reports
    }

    /// How many have not ended, or have ended without being reported.
    pub fn count(&self) -> usize {
        lock(&self.jobs).len()
    }

    /// Returns when a job has ended since the last time that this returned.
    pub async fn ended(&self) {
        self.ended.notified().await;
    }

    /// Ends all of them with everything that descends from them: SIGTERM, then SIGKILL. Blocks for at most about
    /// 300 ms a job.
    pub fn kill_all(&self) {
        for job in lock(&self.jobs).iter() {
            if lock(&job.news).end.is_none() {
                lock(&job.family).end_blocking();
            }
        }
    }

    /// Takes a command that was started, and returns at once.
    pub(super) fn start(
        &self,
        context: &ToolContext,
        command: &str,
        started: Started,
        limit: Option<Duration>,
    ) -> Result<ToolOutput, ToolError> {
        let id = 1 + self.count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let mut capture = Capture::new(&context.outputs, &context.call_id);
        capture.open_log();
        let log = capture.log_path().map(PathBuf::from);
        let pid = started.pid;
        let job = Arc::new(Job {
            id,
            command: command.to_owned(),
            pid,
            log: log.clone(),
            family: Mutex::new(Family::of(pid, &format!("{}={}", shell::MARKER, started.marker))),
            news: Mutex::default(),
        });
        lock(&self.jobs).push(job.clone());
        let grace = Duration::from_millis(context.shell.kill_grace_ms);
        tokio::spawn(follow(job, started, capture, limit, grace, self.ended.clone()));
        let place = log.as_ref().map_or_else(String::new, |log| format!(", output in {}", log.display()));
        let text = format!(
            "[job {id} started, process {pid}{place}]\nIts output and its end will be told to you; stop it with: kill -- -{pid}"
        );
        let mut output = ToolOutput::text(text, format!("job {id}"));
        output.view = Some(View::Terminal { text: String::new(), log });
        Ok(output)
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        self.kill_all();
    }
}

impl Job {
    fn report(&self) -> Option<JobReport> {
        let mut news = lock(&self.news);
        let news = std::mem::take(&mut *news);
        if news.bytes == 0 && news.end.is_none() {
            return None;
        }
        let raw: Vec<u8> = news.output.into();
        let output = text::strip(&String::from_utf8_lossy(&raw));
        let (bytes, lines) = REPORTED;
        let tail = truncate::tail(&output, lines, bytes);
        let state = if news.end.is_some() { "ended" } else { "is running" };
        let mut text = format!("[job {} (process {}) {state}: {}]", self.id, self.pid, short(&self.command));
        if !tail.text.trim().is_empty() {
            text.push_str("\nNew output");
            let cut = tail.text.len() < output.len() || news.bytes > raw.len() as u64;
            match (&self.log, cut) {
                (Some(log), true) => text.push_str(&format!(" (the end of it; all in {}):\n", log.display())),
                _ => text.push_str(":\n"),
            }
            text.push_str(tail.text.trim_end_matches('\n'));
        }
        let ended = news.end.is_some();
        let mut exit_code = None;
        if let Some((how, code)) = news.end {
            text.push('\n');
            text.push_str(&how);
            exit_code = code;
        }
        Some(JobReport { id: self.id, command: self.command.clone(), text, ended, exit_code })
    }

    fn note(&self, piece: &[u8]) {
        let mut news = lock(&self.news);
        news.bytes += piece.len() as u64;
        let kept = 4 * REPORTED.0;
        news.output.extend(&piece[piece.len().saturating_sub(kept)..]);
        let over = news.output.len().saturating_sub(kept);
        news.output.drain(..over);
    }
}

/// Follows a job to its end.
async fn follow(
    job: Arc<Job>,
    started: Started,
    mut capture: Capture,
    limit: Option<Duration>,
    grace: Duration,
    ended: Arc<Notify>,
) {
    let Started { mut child, mut output, .. } = started;
    let deadline = limit.map(|limit| Instant::now() + limit);
    let mut buffer = vec![0; 64 * 1024];
    let mut open = true;
    let (mut look, mut pause) = (Instant::now(), Duration::from_millis(50));
    let status = {
        let mut wait = child.wait();
        loop {
            tokio::select! {
                read = output.read(&mut buffer), if open => match read {
                    Ok(0) | Err(_) => open = false,
                    Ok(read) => {
                        capture.push(&buffer[..read]);
                        // Nobody watches a job live.
                        let _ = capture.live();
                        job.note(&buffer[..read]);
                    }
                },
                status = &mut wait => break Some(status),
                () = sleep_until(deadline.unwrap_or(look)), if deadline.is_some() => break None,
                () = sleep_until(look) => {
                    lock(&job.family).observe();
                    pause = (pause * 2).min(Duration::from_secs(60));
                    look = Instant::now() + pause;
                }
            }
        }
    };
    let end = match status {
        Some(Ok(status)) => match described(status) {
            (line, _, code) if line.is_empty() => ("[exit code 0]".to_owned(), code),
            (line, _, code) => (line, code),
        },
        Some(Err(error)) => (format!("[its exit code is not known: {error}]"), None),
        None => {
            // The lock cannot be held across an await.
            let mut family = std::mem::replace(&mut *lock(&job.family), Family::none());
            family.end(grace).await;
            let _ = child.wait().await;
            (format!("[timed out after {} s]", limit.unwrap_or_default().as_secs_f64()), None)
        }
    };
    let before = capture.bytes();
    let still_open = drain(&mut output, &mut capture, Instant::now() + super::AFTER).await;
    job.note(capture.since(before));
    lock(&job.family).release();
    lock(&job.news).end = Some(end);
    ended.notify_one();
    if still_open {
        super::discard(output).await;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
