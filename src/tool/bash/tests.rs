//! Tests of `bash` with real processes. Nothing sleeps: conditions are waited for.

use super::super::testing::{call, context, said};
use super::*;
use crate::message::text_of;
use crate::toolkit::{LiveOutput, ShellSettings};
use std::path::Path;
use tokio::sync::mpsc;

struct Place {
    dir: tempfile::TempDir,
    context: ToolContext,
    jobs: Arc<Jobs>,
}

fn place() -> Place {
    let dir = tempfile::tempdir().expect("a folder");
    let mut context = context(dir.path());
    context.shell = Arc::new(ShellSettings { kill_grace_ms: 200, ..ShellSettings::default() });
    Place { dir, context, jobs: Arc::default() }
}

impl Place {
    async fn run(&self, arguments: Value) -> Result<ToolOutput, ToolError> {
        call(&Bash::new(self.jobs.clone()), &self.context, arguments).await
    }

    async fn say(&self, command: &str) -> String {
        said(&self.run(json!({"command": command})).await)
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The process whose number a command wrote into that file.
    async fn pid(&self, name: &str) -> i32 {
        let file = self.path().join(name);
        until("the process id", || std::fs::read_to_string(&file).ok()?.trim().parse().ok()).await
    }
}

/// Waits for a condition, at most ten seconds.
async fn until<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn lives(pid: i32) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    state.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

async fn dies(pid: i32) {
    until("its end", || (!lives(pid)).then_some(())).await;
}

#[tokio::test]
async fn output_comes_in_order_with_its_exit_code() {
    let place = place();
    let output = place.run(json!({"command": "echo a; echo b >&2; echo c; exit 3"})).await.expect("ran");
    assert_eq!(text_of(&output.content), "a\nb\nc\n[exit code 3]");
    assert!(output.is_error && output.exit_code == Some(3) && output.summary == "exit 3");
    let output = place.run(json!({"command": "pwd"})).await.expect("ran");
    assert_eq!(text_of(&output.content).trim(), place.path().canonicalize().expect("real").display().to_string());
    assert!(!output.is_error && output.exit_code == Some(0) && output.summary.is_empty());
    assert_eq!(place.say("true").await, "(no output)");
    assert_eq!(place.say("false").await, "[exit code 1]");
    assert_eq!(place.say("kill -9 $$").await, "[killed by SIGKILL]");
    assert_eq!(place.say("-none 2>/dev/null").await, "[exit code 127]");
    assert!(place.say("yes | head -c 200000 >&2; echo end").await.contains("y\nend\n[lines "));
}

#[tokio::test]
async fn there_is_no_input_and_no_terminal() {
    let place = place();
    assert_eq!(place.say("cat; read x; echo got=$x").await, "got=\n");
    let text = place.say("cat </dev/tty").await;
    assert!(text.contains("/dev/tty") && text.ends_with("[exit code 1]"), "{text}");
    assert_eq!(place.say("shopt -q login_shell && echo login").await, "[exit code 1]");
    assert_eq!(place.say("echo $GIT_EDITOR $GIT_TERMINAL_PROMPT $PAGER").await, "true 0 cat\n");
}

#[tokio::test]
async fn an_editor_or_a_password_is_not_waited_for() {
    let place = place();
    let git = "git -c user.name=a -c user.email=a@b.c";
    let text = place.say(&format!("git init -q . && echo x >f && git add f && EDITOR=vi {git} commit")).await;
    assert!(text.contains("empty commit message") && text.ends_with("[exit code 1]"), "{text}");
}

#[tokio::test]
async fn settings_give_shell_and_environment() {
    let mut place = place();
    let env = vec![("VIOLIN_TEST".to_owned(), "from settings".to_owned())];
    place.context.shell = Arc::new(ShellSettings { program: Some("sh".into()), env, ..ShellSettings::default() });
    assert_eq!(place.say("echo $VIOLIN_TEST").await, "from settings\n");
    place.context.shell = Arc::new(ShellSettings { program: Some("/none/fish".into()), ..ShellSettings::default() });
    assert!(place.say("true").await.contains("/none/fish"));
}

#[tokio::test]
async fn characters_and_control_sequences() {
    let place = place();
    assert_eq!(place.say(r"printf 'P 10%%\rP 99%%\rP 100%%\nDone\n'").await, "P 100%\nDone\n");
    assert_eq!(place.say(r"printf '\303'; printf '\251 \377\376'").await, "é \u{fffd}\u{fffd}");
    assert_eq!(place.say(r"printf '\033]133;A\007\033[?1049l\033[?25lx\033[1A\033[2K\033[Gy\n'").await, "xy\n");
    let output = place.run(json!({"command": r"printf '\033[31mred\033[0m\n'"})).await.expect("ran");
    assert_eq!(output.view, Some(View::Terminal { text: "\x1b[31mred\x1b[0m\n".into(), log: None }));
}

#[tokio::test]
async fn output_is_seen_while_it_runs() {
    let mut place = place();
    let (sender, mut receiver) = mpsc::channel(4);
    place.context.live = LiveOutput::new("call_1", sender);
    let run = place.run(json!({"command": "echo first; until [ -e go ]; do sleep 0.01; done; printf last"}));
    let watch = async {
        let first = receiver.recv().await.expect("a piece");
        assert_eq!((&*first.call_id, first.text.as_str()), ("call_1", "first\n"));
        std::fs::write(place.path().join("go"), "").expect("written");
        let mut rest = String::new();
        while rest != "last" {
            rest.push_str(&receiver.recv().await.expect("a piece").text);
        }
    };
    let (result, ()) = tokio::join!(run, watch);
    assert_eq!(said(&result), "first\nlast");
}

#[tokio::test]
async fn long_output_shows_its_end_and_is_kept_whole() {
    let place = place();
    let output = place.run(json!({"command": "seq 1 3000"})).await.expect("ran");
    let text = text_of(&output.content);
    assert!(text.starts_with("1001\n") && text.contains("[lines 1001-3000 of 3000"), "{}", &text[text.len() - 200..]);
    let Some(View::Terminal { log: Some(log), .. }) = output.view else { panic!("no log") };
    assert!(log.ends_with(".outputs/call_1.log") && text.contains(&log.display().to_string()));
    assert!(std::fs::read_to_string(log).expect("read").starts_with("1\n2\n"));
}

#[tokio::test]
async fn a_child_in_the_background_holds_nothing_and_lives_on() {
    let place = place();
    for command in ["sleep 300 & echo $! >a; echo hi", "setsid sleep 300 & echo $! >a; echo hi"] {
        let begin = Instant::now();
        assert_eq!(place.say(command).await, "hi\n");
        assert!(begin.elapsed() < Duration::from_secs(5));
        let pid = place.pid("a").await;
        assert!(lives(pid));
        assert!(std::process::Command::new("kill").arg(pid.to_string()).status().expect("ran").success());
    }
    // What it prints later does not kill it.
    let text = place.say("(until [ -e go ]; do sleep 0.01; done; echo late && echo x >done) & echo hi").await;
    assert_eq!(text, "hi\n");
    std::fs::write(place.path().join("go"), "").expect("written");
    until("it to go on", || place.path().join("done").exists().then_some(())).await;
    // One that never stops printing does not hold the call either.
    let text = place.say("yes & echo $! >b; echo hi").await;
    assert!(text.contains("y\n"));
    assert!(std::process::Command::new("kill").arg(place.pid("b").await.to_string()).status().expect("ran").success());
}

#[tokio::test]
async fn a_timeout_ends_every_descendant() {
    let place = place();
    for command in [
        "echo before; bash -c 'echo $$ >a; sleep 1000 & sleep 1000'",
        "echo before; setsid bash -c 'echo $$ >a; exec sleep 1000' & sleep 1000",
        "echo before; (setsid bash -c 'echo $$ >a; exec sleep 1000' &) ; sleep 1000",
        "echo before; trap '' TERM; bash -c 'trap \"\" TERM; echo $$ >a; while :; do sleep 1; done' & wait; while :; do sleep 1; done",
        "echo before; mkfifo p; (echo $BASHPID >a; while :; do echo c; sleep 1; done) >p & cat p",
    ] {
        let _ = std::fs::remove_file(place.path().join("a"));
        let output = place.run(json!({"command": command, "timeout": 0.5})).await.expect("ran");
        let text = text_of(&output.content);
        assert!(text.starts_with("before\n") && text.ends_with("[timed out after 0.5 s]"), "{text}");
        assert!(output.is_error && output.exit_code.is_none());
        dies(place.pid("a").await).await;
    }
    assert!(said(&place.run(json!({"command": "true", "timeout": 0})).await).contains("more than 0"));
}

#[tokio::test]
async fn what_left_without_its_marks_is_known_from_before() {
    let place = place();
    // Its parent ends once the file is there, by when it was seen as a child.
    let script = "env -i setsid bash -c 'echo $$ >a; exec sleep 1000' & sleep 0.4; exit 0";
    let command = format!("bash -c '{}' ; sleep 1000", script.replace('\'', "'\\''"));
    place.run(json!({"command": command, "timeout": 1.0})).await.expect("ran");
    dies(place.pid("a").await).await;
}

#[tokio::test]
async fn an_interrupt_ends_every_descendant_and_keeps_what_was_said() {
    let place = place();
    let run = place.run(json!({"command": "echo hi; setsid bash -c 'echo $$ >a; exec sleep 1000' & sleep 1000"}));
    let interrupt = async {
        let pid = place.pid("a").await;
        place.context.cancel.cancel();
        pid
    };
    let (result, pid) = tokio::join!(run, interrupt);
    let output = result.expect("output");
    assert!(output.is_error);
    assert_eq!(text_of(&output.content), "hi\n[interrupted]");
    dies(pid).await;
    assert!(matches!(place.run(json!({"command": "true"})).await, Err(ToolError::Cancelled)));
}

#[tokio::test]
async fn a_dropped_call_leaves_nothing_running() {
    let place = place();
    let pid = {
        let mut run = std::pin::pin!(place.run(json!({"command": "echo $$ >a; exec sleep 1000"})));
        tokio::select! {
            _ = &mut run => panic!("ended"),
            pid = place.pid("a") => pid,
        }
    };
    dies(pid).await;
}

#[tokio::test]
async fn calls_beside_each_other_do_not_disturb_each_other() {
    let place = place();
    let (bad, good) = tokio::join!(place.say("exit 1"), place.say("echo a"));
    assert_eq!((bad.as_str(), good.as_str()), ("[exit code 1]", "a\n"));
}

#[tokio::test]
async fn a_job_reports_its_output_and_its_end() {
    let place = place();
    let command = "echo one; until [ -e go ]; do sleep 0.01; done; echo two; exit 4";
    let output = place.run(json!({"command": command, "background": true})).await.expect("started");
    let text = text_of(&output.content);
    assert!(text.starts_with("[job 1 started, process ") && text.contains(".outputs/call_1.log"), "{text}");
    let first = until("a report", || place.jobs.take_reports().pop()).await;
    assert!(!first.ended && first.text.contains("is running: echo one") && first.text.ends_with("New output:\none"));
    std::fs::write(place.path().join("go"), "").expect("written");
    place.jobs.ended().await;
    let last = until("a report", || place.jobs.take_reports().pop()).await;
    assert_eq!((last.id, last.ended, last.exit_code), (1, true, Some(4)));
    assert!(last.text.ends_with("New output:\ntwo\n[exit code 4]"), "{}", last.text);
    assert_eq!((place.jobs.take_reports(), place.jobs.count()), (vec![], 0));
    let log = std::fs::read_to_string(place.path().join(".outputs/call_1.log")).expect("read");
    assert_eq!(log, "one\ntwo\n");
}

#[tokio::test]
async fn jobs_end_with_their_time_or_the_session() {
    let place = place();
    let command = "setsid bash -c 'echo $$ >a; exec sleep 1000' & sleep 1000";
    place.run(json!({"command": command, "background": true, "timeout": 0.5})).await.expect("started");
    let pid = place.pid("a").await;
    place.jobs.ended().await;
    let report = place.jobs.take_reports().pop().expect("a report");
    assert!(report.ended && report.text.ends_with("[timed out after 0.5 s]"), "{}", report.text);
    dies(pid).await;
    std::fs::remove_file(place.path().join("a")).expect("removed");
    place.run(json!({"command": command, "background": true})).await.expect("started");
    let pid = place.pid("a").await;
    place.jobs.kill_all();
    dies(pid).await;
}
