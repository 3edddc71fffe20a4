//! The built-in scripted model: it plays a short task with the real loop and real tools, so that Violin can
//! be seen at work where no key is at hand.
//!
//! It only ever works on a scratch project of its own ([`scratch_project`]), and says that it is scripted.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, StreamExt};
use serde_json::{Value, json};

use super::{AnswerStream, Link, Provider, Request};
use crate::message::stream::StreamEvent;
use crate::message::{Message, StopReason, Usage};
use crate::model::Model;

/// The provider.
#[derive(Debug)]
pub struct Demo;

/// The provider's and the model's name.
pub const NAME: &str = "demo";

/// Between two words, so that it streams as a model does.
const PACE: Duration = Duration::from_millis(12);

const CART: &str = r#"# Prices are in cents.

# total PRICE COUNT DISCOUNT: what the customer pays.
total() {
  echo $(( $1 * $2 - $3 ))
}
"#;

const TEST: &str = r#"#!/bin/sh
# Runs with: sh test.sh
. ./cart.sh
failed=0
check() {
  if [ "$2" = "$3" ]; then
    printf '\033[32mok\033[0m    %s\n' "$1"
  else
    printf '\033[31mFAIL\033[0m  %s: expected %s, got %s\n' "$1" "$3" "$2"
    failed=1
  fi
}
check "two apples"                "$(total 50 2 0)"   100
check "a discount is taken off"   "$(total 50 2 30)"  70
check "a total is never negative" "$(total 50 1 80)"  0
exit $failed
"#;

const FAREWELL: &str = "The cart never goes below zero now, and all three tests pass.

**What you saw** was the real loop with real tools in a scratch project; only the words were scripted:

1. `glob` and `read` ran in parallel and found the fault
2. `bash` ran the tests, which failed
3. `edit` mended one line, and `bash` ran them again

To work with a model of your own, set one of `ANTHROPIC_API_KEY`, `OPENAI_API_KEY`, `GEMINI_API_KEY` \
(or start Ollama, llama.cpp or LM Studio on this machine) and start `violin` in your project. \
`violin doctor` tells what it finds.
";

const AGAIN: &str = "I am only a script, and my one task is played. Set a key such as `ANTHROPIC_API_KEY` or \
start a local server, then `violin` works on your own project with a real model. `violin doctor` tells what it finds.
";

/// The model's description.
pub fn model() -> Model {
    Model {
        provider: NAME.to_owned(),
        id: NAME.to_owned(),
        name: "demo (scripted)".to_owned(),
        api: NAME.to_owned(),
        base_url: String::new(),
        api_key: None,
        headers: Vec::new(),
        context_window: 128_000,
        max_tokens: None,
        reasoning: false,
        images: true,
        cost: None,
        compat: Default::default(),
        thinking_levels: Default::default(),
        chain: Vec::new(),
    }
}

/// Fills an empty folder with the project that the script works on.
///
/// # Errors
/// Those of the file system.
pub fn scratch_project(folder: &Path) -> io::Result<()> {
    std::fs::write(folder.join("cart.sh"), CART)?;
    std::fs::write(folder.join("test.sh"), TEST)?;
    std::fs::write(folder.join("README.md"), "# A shop's cart\n\n`sh test.sh` runs the tests. One of them fails.\n")
}

/// What to type for the script to begin, offered at the first start.
pub const PROMPT: &str = "fix the failing cart test";

impl Provider for Demo {
    fn api(&self) -> &'static str {
        NAME
    }

    fn stream(&self, _link: &Link, request: Request) -> AnswerStream {
        let events = answer(&request.messages);
        stream::iter(events)
            .then(|event| async move {
                if matches!(event, StreamEvent::Text { .. } | StreamEvent::Thinking { .. }) {
                    tokio::time::sleep(PACE).await;
                }
                Ok(event)
            })
            .boxed()
    }
}

/// The next answer of the script: how far it is can be told from the conversation.
fn answer(messages: &[Arc<Message>]) -> Vec<StreamEvent> {
    let answers = || messages.iter().filter(|message| matches!(message.as_ref(), Message::Assistant(_)));
    let edit = json!({"path": "cart.sh", "edits": [{
        "old_text": "  echo $(( $1 * $2 - $3 ))\n",
        "new_text": "  cents=$(( $1 * $2 - $3 ))\n  [ \"$cents\" -gt 0 ] || cents=0\n  echo \"$cents\"\n",
    }]});
    let tests = json!({"command": "sh test.sh"});
    let (thinking, text, calls) = match answers().count() {
        0 => (
            "The person wants a failing test fixed. I should look at the project first, then run the tests.",
            "I'll look at the project first.",
            vec![("glob", json!({"pattern": "*"})), ("read", json!({"path": "cart.sh"}))],
        ),
        1 => ("", "Now the tests, to see what fails.", vec![("bash", tests)]),
        2 => (
            "",
            "A discount larger than the price makes the total negative. I'll keep it at zero.",
            vec![("edit", edit)],
        ),
        3 => ("", "", vec![("bash", tests)]),
        4 => ("", FAREWELL, vec![]),
        _ => ("", AGAIN, vec![]),
    };
    let mut events: Vec<_> = words(thinking).map(|delta| StreamEvent::Thinking { slot: 0, delta }).collect();
    events.extend(words(text).map(|delta| StreamEvent::Text { slot: 1, delta }));
    let reason = if calls.is_empty() { StopReason::Stop } else { StopReason::ToolUse };
    for ((name, arguments), number) in calls.into_iter().zip(0..) {
        events.extend(call(name, &arguments, messages.len(), number));
    }
    let read = messages.iter().map(|message| crate::message::text_of(message.content()).len() / 4 + 10).sum::<usize>();
    let (input_tokens, output_tokens) = (900 + read as u64, (text.len() / 4 + 20) as u64);
    events.push(StreamEvent::Usage(Usage { input_tokens, output_tokens, ..Usage::default() }));
    events.push(StreamEvent::End(reason));
    events
}

fn call(name: &str, arguments: &Value, turn: usize, number: u32) -> [StreamEvent; 2] {
    let slot = 10 + number;
    let id = format!("demo_{turn}_{number}");
    [
        StreamEvent::CallStart { slot, id, name: name.to_owned() },
        StreamEvent::CallArguments { slot, delta: arguments.to_string() },
    ]
}

fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split_inclusive(' ').map(str::to_owned)
}
