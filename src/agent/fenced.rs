//! Running a call, and what follows where the sandbox seems to have stopped it: the person may let it run without,
//! it is never run again by itself.

use std::sync::Arc;

use super::bus::Bus;
use super::protocol::{ReviewAnswer, ReviewRequest};
use super::review::{Answered, Pass, command_line, put};
use crate::message::{Block, text_of};
use crate::tool::path;
use crate::toolkit::{Arguments, Risk, Tool, ToolContext, ToolError, ToolOutput};

/// A call that is let through.
pub struct Ready {
    /// The tool.
    pub tool: Arc<dyn Tool>,
    /// Its arguments.
    pub arguments: Arguments,
    /// What it runs with.
    pub context: ToolContext,
    /// How it was let through.
    pub pass: Pass,
    /// Where a question goes; `None`: nobody can be asked.
    pub ask: Option<Bus>,
}

/// What became of a call.
pub struct Ran {
    /// Its result.
    pub result: Result<ToolOutput, ToolError>,
    /// The person was asked whether it might leave the sandbox.
    pub left: Option<Left>,
}

/// The person's answer to that.
pub struct Left {
    /// Yes or no.
    pub yes: bool,
    /// The same for the rest of the session.
    pub session: bool,
    /// Why not.
    pub reason: Option<String>,
    /// The command, as it ran.
    pub command: Option<String>,
}

/// Words of commands that were not let do something.
const REFUSALS: &[&str] =
    &["ermission denied", "EACCES", "os error 13", "peration not permitted", "nvalid cross-device link"];

/// Runs a call.
pub async fn run(ready: Ready) -> Ran {
    let Ready { tool, arguments, context, pass, ask } = ready;
    // The path is looked at again right before: another call of the same answer may have put a link there.
    if let (Some(reviewed), Some(written)) = (&pass.writes, tool.writes(&arguments))
        && path::real(&path::resolve(&context.cwd, &written)) != *reviewed
    {
        let text = format!(
            "not run: {} leads elsewhere now than when it was reviewed; make the call again",
            crate::text::visible(&written)
        );
        return Ran { result: Err(ToolError::Model(text)), left: None };
    }
    let again = context.shell.fence.is_some().then(|| (context.clone(), arguments.clone()));
    let result = tool.run(context, arguments).await;
    let (mut output, (mut context, arguments)) = match (result, again) {
        (Ok(output), Some(again)) if seems_refused(&output) => (output, again),
        (result, _) => return Ran { result, left: None },
    };
    let Some(bus) = ask else {
        let text = "[it ran in a sandbox, in which commands write only to the project, the temporary folder and build caches; \
             if that is what stopped it, tell the user: folders are added in settings.json, sandbox.write_paths]";
        output.content.push(Block::Text { text: text.to_owned() });
        return Ran { result: Ok(output), left: None };
    };
    let question = |answer| ReviewRequest {
        call_id: context.call_id.clone(),
        name: tool.name().to_owned(),
        title: tool.title(&arguments),
        risk: Risk::Command,
        reason: "it seems to have failed because of the sandbox; run it again without?".to_owned(),
        command: arguments.get("command").and_then(|command| command.as_str()).map(command_line),
        view: output.view.clone(),
        rule: None,
        answer,
    };
    let (yes, session, reason) = match put(&bus, &context.cancel, question).await {
        Answered::Cancelled => return Ran { result: Ok(output), left: None },
        Answered::Said(ReviewAnswer::Once) => (true, false, None),
        Answered::Said(ReviewAnswer::Session | ReviewAnswer::Always) => (true, true, None),
        Answered::Said(ReviewAnswer::No(text)) => (false, false, Some(text).filter(|text| !text.trim().is_empty())),
    };
    let command = arguments.get("command").and_then(serde_json::Value::as_str).map(str::to_owned);
    let left = Some(Left { yes, session, reason: reason.clone(), command });
    if !yes {
        let why = reason.map(|reason| format!(": {}", reason.trim())).unwrap_or_default();
        let text = format!("[the sandbox may have stopped this; the user did not let it run without{why}]");
        output.content.push(Block::Text { text });
        return Ran { result: Ok(output), left };
    }
    let mut shell = (*context.shell).clone();
    shell.fence = None;
    context.shell = Arc::new(shell);
    // Its whole output is kept beside that of the first try.
    context.call_id.push_str("-again");
    let result = tool.run(context, arguments).await.map(|mut output| {
        let text = "[run again without the sandbox, which had stopped it; the user allowed that]".to_owned();
        output.content.push(Block::Text { text });
        output
    });
    Ran { result, left }
}

/// Whether a command looks as if the sandbox had stopped it.
fn seems_refused(output: &ToolOutput) -> bool {
    let text = text_of(&output.content);
    let failed = output.is_error && output.exit_code.is_some_and(|code| code != 0);
    failed && !text.contains("(publickey") && REFUSALS.iter().any(|words| text.contains(words))
}
