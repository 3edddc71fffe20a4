//! The processes of a call: the shell and everything that descends from it, also what left its group and its
//! session.
//!
//! On Linux they are found in `/proc`: by session and group, by the chain of parents, by a mark in their
//! environment, and by what was seen of them before their parent died. Elsewhere the group alone is known.

use std::collections::HashMap;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{Instant, sleep};

/// How long SIGKILL is given to take effect.
const DYING: Duration = Duration::from_secs(1);

/// The processes of a call. Dropped, it kills them, unless [`Family::release`] let them go.
#[derive(Debug)]
pub struct Family {
    leader: i32,
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only /proc shows it"))]
    mark: Vec<u8>,
    /// Processes that were seen to belong to it, with the times they started: a number alone may be used again.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only /proc shows it"))]
    known: HashMap<i32, u64>,
    armed: bool,
}

impl Family {
    /// The family of a shell that leads its session, with the mark `NAME=VALUE` in its environment.
    pub fn of(leader: i32, mark: &str) -> Self {
        let mut family = Family { leader, mark: mark.as_bytes().to_vec(), known: HashMap::new(), armed: true };
        family.observe();
        family
    }

    /// A family of nobody.
    pub fn none() -> Self {
        Family { leader: 0, mark: Vec::new(), known: HashMap::new(), armed: false }
    }

    /// Lets the processes live on.
    pub fn release(&mut self) {
        self.armed = false;
    }

    /// Ends all of it: SIGTERM, then, after `grace`, SIGKILL. Returns when nothing of it is left.
    pub async fn end(&mut self, grace: Duration) {
        self.signal(Signal::TERM);
        // A stopped process gets no signal but this one.
        self.signal(Signal::CONT);
        if !self.gone(grace).await {
            let until = Instant::now() + DYING;
            // Again and again: one of them may just be starting another.
            while Instant::now() < until {
                self.signal(Signal::KILL);
                if self.gone(Duration::from_millis(20)).await {
                    break;
                }
            }
        }
        self.armed = false;
    }

    /// Ends all of it without being able to await: blocks for at most about 300 ms.
    pub fn end_blocking(&mut self) {
        self.signal(Signal::TERM);
        self.signal(Signal::CONT);
        for _ in 0..30 {
            if !self.alive() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        self.kill();
        self.armed = false;
    }

    async fn gone(&mut self, within: Duration) -> bool {
        let until = Instant::now() + within;
        let mut pause = Duration::from_millis(2);
        while self.alive() {
            let now = Instant::now();
            if now >= until {
                return false;
            }
            sleep(pause.min(until - now)).await;
            pause = (pause * 2).min(Duration::from_millis(50));
        }
        true
    }

    /// SIGKILL to all of it, until nothing new turns up.
    fn kill(&mut self) {
        for _ in 0..5 {
            if !self.alive() {
                break;
            }
            self.signal(Signal::KILL);
        }
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        if self.armed {
            self.kill();
        }
    }
}

#[cfg(target_os = "linux")]
impl Family {
    /// Looks which processes there are now, at a cost that follows their number: one that later leaves its
    /// parent and its session is still known.
    pub fn observe(&mut self) {
        if self.known.is_empty()
            && let Some(stat) = Stat::of(self.leader)
        {
            self.known.insert(self.leader, stat.started);
        }
        let mut queue: Vec<i32> = self.known.keys().copied().collect();
        while let Some(pid) = queue.pop() {
            let Ok(children) = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")) else { continue };
            for child in children.split_ascii_whitespace().filter_map(|child| child.parse().ok()) {
                if !self.known.contains_key(&child)
                    && let Some(stat) = Stat::of(child).filter(|stat| stat.parent == pid)
                {
                    self.known.insert(child, stat.started);
                    queue.push(child);
                }
            }
        }
    }

    fn alive(&mut self) -> bool {
        !self.members().is_empty()
    }

    fn signal(&mut self, signal: Signal) {
        for pid in self.members() {
            if let Some(pid) = Pid::from_raw(pid) {
                let _ = kill_process(pid, signal);
            }
        }
    }

    /// Every living process of the family.
    fn members(&mut self) -> Vec<i32> {
        if self.leader <= 1 {
            return Vec::new();
        }
        let mut others: Vec<(i32, Stat)> = std::fs::read_dir("/proc")
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter_map(|pid: i32| Some((pid, Stat::of(pid)?)))
            .collect();
        let born = self.known.get(&self.leader).copied().unwrap_or(0);
        // Once the leader's number stands for another process, it tells nothing about sessions any more.
        let ours = |(pid, stat): &(i32, Stat)| *pid != self.leader || stat.started == born;
        let by_session = others.iter().all(ours);
        let this = std::process::id() as i32;
        others.retain(|(pid, stat)| *pid != this && *pid != 1 && stat.started >= born);
        let (mut members, mut living) = (HashMap::new(), Vec::new());
        loop {
            let before = members.len();
            others.retain(|(pid, stat)| {
                let belongs = self.known.get(pid) == Some(&stat.started)
                    || by_session && (stat.session == self.leader || stat.group == self.leader)
                    || members.contains_key(&stat.parent);
                if belongs {
                    members.insert(*pid, stat.started);
                    if stat.lives {
                        living.push(*pid);
                    }
                }
                !belongs
            });
            if members.len() > before {
                continue;
            }
            // Reading environments costs the most: once for those that nothing else tells of.
            let marked = |pid: i32| {
                let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
                environment.split(|byte| *byte == 0).any(|entry| entry == self.mark)
            };
            let found: Vec<i32> = others.iter().map(|(pid, _)| *pid).filter(|pid| marked(*pid)).collect();
            if found.is_empty() {
                break;
            }
            for (pid, stat) in others.extract_if(.., |(pid, _)| found.contains(pid)) {
                members.insert(pid, stat.started);
                if stat.lives {
                    living.push(pid);
                }
            }
        }
        self.known.extend(members);
        living
    }
}

/// What `/proc/PID/stat` tells.
#[cfg(target_os = "linux")]
struct Stat {
    lives: bool,
    parent: i32,
    group: i32,
    session: i32,
    started: u64,
}

#[cfg(target_os = "linux")]
impl Stat {
    fn of(pid: i32) -> Option<Self> {
        let bytes = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
        // The name stands in parentheses and may hold anything, parentheses too.
        let end = memchr::memrchr(b')', &bytes)?;
        let text = std::str::from_utf8(&bytes[end + 1..]).ok()?;
        let mut fields = text.split_ascii_whitespace();
        let lives = !matches!(fields.next()?, "Z" | "X" | "x");
        let mut number = || fields.next()?.parse::<i32>().ok();
        let (parent, group, session) = (number()?, number()?, number()?);
        let started = fields.nth(15)?.parse().ok()?;
        Some(Stat { lives, parent, group, session, started })
    }
}

#[cfg(not(target_os = "linux"))]
impl Family {
    /// Nothing can be learned here.
    pub fn observe(&mut self) {}

    fn alive(&mut self) -> bool {
        Pid::from_raw(self.leader).is_some_and(|group| rustix::process::test_kill_process_group(group).is_ok())
    }

    fn signal(&mut self, signal: Signal) {
        if let Some(group) = Pid::from_raw(self.leader) {
            let _ = rustix::process::kill_process_group(group, signal);
        }
    }
}
