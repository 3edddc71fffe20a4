//! The gate at work: what a call is, the question to the person, and what the answer leaves behind.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::danger::{command_line, look_twice};
use super::rules::{self, Ruled, Rules, Subject};
use super::{Case, Place, Verdict, decide};
use crate::agent::bus::Bus;
use crate::agent::core::Core;
use crate::agent::protocol::{ReviewAnswer, ReviewRequest, Update};
use crate::choice::Mode;
use crate::config::jsonc::Document;
use crate::config::settings;
use crate::event::{DecidedBy, Decision, Event};
use crate::message::ToolCall;
use crate::session::Record;
use crate::tool::path;
use crate::toolkit::{Arguments, Risk, Tool, View};

/// What the person allowed for this session.
#[derive(Debug, Default)]
pub struct Grants {
    rules: Rules,
    /// Calls that no rule can name, as tool and arguments.
    exact: HashSet<(String, String)>,
    /// Commands that run outside the sandbox.
    unfenced: HashSet<String>,
}

/// How long an interrupt may take behind the question that it dropped.
const INTERRUPT: Duration = Duration::from_secs(1);

/// What a review comes to.
#[derive(Debug)]
pub enum Passage {
    /// The call runs.
    Run(Pass),
    /// It does not, with the text for the model.
    Refused(String),
    /// The person interrupted.
    Cancelled,
}

/// How a call runs.
#[derive(Debug, Clone, Default)]
pub struct Pass {
    /// In the sandbox.
    pub fenced: bool,
    /// The real path that was reviewed: the call must not write another.
    pub writes: Option<PathBuf>,
}

/// An answer to a question, or none.
pub enum Answered {
    /// The person's.
    Said(ReviewAnswer),
    /// The person interrupted.
    Cancelled,
}

/// Puts a question and waits; an interrupt ends the wait.
pub async fn put(
    bus: &Bus,
    cancel: &CancellationToken,
    request: impl FnOnce(oneshot::Sender<ReviewAnswer>) -> ReviewRequest,
) -> Answered {
    let (sender, answer) = oneshot::channel();
    bus.send(Update::Review(request(sender))).await;
    let answer = async {
        match answer.await {
            Ok(answer) => answer,
            Err(_) => {
                // An interrupt drops the question too, and may be on its way; else nobody who could answer is a no.
                tokio::time::sleep(INTERRUPT).await;
                ReviewAnswer::No(String::new())
            }
        }
    };
    tokio::select! {
        biased;
        () = cancel.cancelled() => Answered::Cancelled,
        answer = answer => Answered::Said(answer),
    }
}

/// A call as the gate sees it.
struct Look {
    command: Option<String>,
    path: Option<PathBuf>,
    real: Option<PathBuf>,
    place: Place,
}

impl Core {
    /// Reviews a call: decides, asks where that is to be asked, tells and stores what came out.
    pub(in crate::agent) async fn review(
        &mut self,
        call: &ToolCall,
        tool: &Arc<dyn Tool>,
        arguments: &Arguments,
        wish: Option<&str>,
    ) -> Passage {
        let look = self.look(tool, arguments);
        let subject = Subject {
            tool: tool.name(),
            risk: tool.risk(),
            command: look.command.as_deref(),
            path: look.path.as_deref(),
            real: look.real.as_deref(),
            root: &self.ground.root,
        };
        let ruled = self.ground.rules.look(subject);
        let exact = (tool.name().to_owned(), Value::Object(arguments.clone()).to_string());
        let granted =
            self.grants.exact.contains(&exact) || matches!(self.grants.rules.look(subject), Some(Ruled::Allow(_)));
        let outside = "a plugin's tool runs outside it";
        let sandbox = match &self.ground.fence {
            _ if !tool.fenced() => Err(outside),
            Ok(_) => Ok(()),
            Err(why) => Err(why.as_str()),
        };
        let case = Case {
            mode: self.mode,
            risk: tool.risk(),
            ruled: ruled.as_ref(),
            granted,
            wish,
            place: &look.place,
            sandbox,
        };
        let writes = look.real.clone().filter(|_| tool.risk() == Risk::Write);
        let (by, reason) = match decide(&case) {
            Verdict::Allow { by, reason } => {
                let fenced = self.fences(tool, look.command.as_deref(), by);
                self.passed(call, tool.risk(), by, reason).await;
                return Passage::Run(Pass { fenced, writes });
            }
            Verdict::Deny { by, reason } => (by, reason),
            Verdict::Ask { reason } => {
                let rule = self.suggestion(tool, &look);
                if self.setup.headless {
                    let by = if matches!(ruled, Some(Ruled::Ask(_))) { DecidedBy::Rule } else { DecidedBy::Mode };
                    (by, self.nobody(&reason, tool.name(), rule.as_deref()).await)
                } else {
                    match self.question(call, tool, arguments, &look, reason, rule.clone()).await {
                        Answered::Cancelled => return Passage::Cancelled,
                        Answered::Said(ReviewAnswer::No(text)) => {
                            let reason =
                                Some(text.trim()).filter(|text| !text.is_empty()).unwrap_or("the user said no");
                            (DecidedBy::Person, reason.to_owned())
                        }
                        Answered::Said(answer) => {
                            let reason = self.grant(&answer, rule, exact).await;
                            let fenced = self.fences(tool, look.command.as_deref(), DecidedBy::Person);
                            self.passed(call, tool.risk(), DecidedBy::Person, reason).await;
                            return Passage::Run(Pass { fenced, writes });
                        }
                    }
                }
            }
        };
        self.told(call, tool.risk(), Decision::Denied, by, Some(reason.clone())).await;
        Passage::Refused(match by {
            DecidedBy::Person => format!("denied by the user: {reason}"),
            DecidedBy::Mode | DecidedBy::Rule | DecidedBy::Plugin => format!("denied: {reason}"),
        })
    }

    fn look(&self, tool: &Arc<dyn Tool>, arguments: &Arguments) -> Look {
        let text = |name: &str| arguments.get(name).and_then(Value::as_str).map(str::to_owned);
        let risk = tool.risk();
        let command = text("command").filter(|_| risk == Risk::Command);
        let given = tool.writes(arguments).or_else(|| text("path"));
        let given = given.or_else(|| (risk == Risk::ReadOnly).then(|| ".".to_owned()));
        let path = given.map(|given| path::resolve(&self.setup.cwd, &given));
        let real = path.as_deref().map(path::real);
        let place = match (risk, &real) {
            (Risk::Write, Some(real)) => self.ground.place(real),
            (Risk::Write, None) => Place::Outside("what it writes is not known".to_owned()),
            (Risk::ReadOnly | Risk::Command, _) => Place::Inside,
        };
        Look { command, path, real, place }
    }

    /// Whether a call runs in the sandbox: in `auto`, and in `ask` where the person did not say yes to it.
    fn fences(&self, tool: &Arc<dyn Tool>, command: Option<&str>, by: DecidedBy) -> bool {
        let unfenced = command.is_some_and(|command| self.grants.unfenced.contains(command));
        let mode = match self.mode {
            Mode::Yolo => false,
            Mode::Ask => by != DecidedBy::Person,
            Mode::Auto | Mode::Plan => true,
        };
        tool.fenced() && mode && !unfenced && self.ground.fence.is_ok()
    }

    fn suggestion(&self, tool: &Arc<dyn Tool>, look: &Look) -> Option<String> {
        match tool.risk() {
            Risk::Command => match &look.command {
                Some(command) => rules::rule_for_command(tool.name(), command),
                None => Some(tool.name().to_owned()),
            },
            Risk::Write => {
                let whole = look.place == Place::Inside;
                look.real.as_deref().map(|real| rules::rule_for_path(real, &self.ground.root, whole))
            }
            Risk::ReadOnly => Some(tool.name().to_owned()),
        }
    }

    /// What the model is told where nobody can be asked. The person is told once a run.
    async fn nobody(&mut self, reason: &str, tool: &str, rule: Option<&str>) -> String {
        let rule = rule.unwrap_or(tool);
        let out = format!(
            "Run with --mode yolo, or allow it in ~/.violin/agent/settings.json: \"permissions\": {{\"allow\": [\"{}\"]}}",
            rule.replace('\\', "\\\\").replace('"', "\\\"")
        );
        if !std::mem::replace(&mut self.told_denial, true) {
            let what = crate::text::visible(reason);
            self.bus
                .notice(format!("a call of `{tool}` was refused, because nobody can be asked ({what}). {out}"))
                .await;
        }
        format!(
            "this needs the user's yes ({reason}), and nobody can be asked in this run. Go on without it, or end and tell the user: {out}"
        )
    }

    async fn question(
        &self,
        call: &ToolCall,
        tool: &Arc<dyn Tool>,
        arguments: &Arguments,
        look: &Look,
        mut reason: String,
        rule: Option<String>,
    ) -> Answered {
        let command = look.command.as_deref().map(command_line);
        if let Some(words) = command.as_ref().and_then(look_twice) {
            reason = format!("{words} · {reason}");
        }
        let (known, context, given) = (tool.clone(), self.quiet_context(call), arguments.clone());
        // It reads files; a preview that fails is none.
        let view: Option<View> =
            tokio::task::spawn_blocking(move || known.preview(&context, &given)).await.unwrap_or_default();
        // The command is shown for itself.
        let view = view.filter(|view| !matches!(view, View::File { text, .. } if Some(text) == look.command.as_ref()));
        put(&self.bus, &self.cancel, |answer| ReviewRequest {
            call_id: call.id.clone(),
            name: tool.name().to_owned(),
            title: tool.title(arguments),
            risk: tool.risk(),
            reason,
            command,
            view,
            rule,
            answer,
        })
        .await
    }

    /// Remembers a yes; the reason that is stored with it.
    async fn grant(&mut self, answer: &ReviewAnswer, rule: Option<String>, exact: (String, String)) -> Option<String> {
        match (answer, rule) {
            (ReviewAnswer::Once | ReviewAnswer::No(_), _) => None,
            (ReviewAnswer::Always, Some(rule)) => {
                self.ground.rules.allow(&rule);
                self.grants.rules.allow(&rule);
                match self.save_rule(&rule) {
                    Ok(()) => Some(format!("always: {rule}")),
                    Err(error) => {
                        self.bus.notice(format!("the rule `{rule}` holds for this session only: {error}")).await;
                        Some(format!("for this session: {rule}"))
                    }
                }
            }
            (ReviewAnswer::Session, Some(rule)) => {
                self.grants.rules.allow(&rule);
                Some(format!("for this session: {rule}"))
            }
            (ReviewAnswer::Session | ReviewAnswer::Always, None) => {
                self.grants.exact.insert(exact);
                Some("for this session: this very call".to_owned())
            }
        }
    }

    fn save_rule(&mut self, rule: &str) -> Result<(), crate::config::Mistake> {
        let path = self.setup.home.agent("settings.json");
        let document = Document::read(&path)?;
        let known =
            document.as_ref().and_then(|document| document.value.pointer("/permissions/allow")?.as_array().cloned());
        let mut rules = known.unwrap_or_default();
        if !rules.iter().any(|known| known == rule) {
            rules.push(rule.into());
            settings::save(&path, &["permissions", "allow"], &Value::Array(rules))?;
        }
        self.loaded.settings.permissions.allow.push(rule.to_owned());
        Ok(())
    }

    /// Lets a command run outside the sandbox for the rest of the session.
    pub(in crate::agent) fn unfence(&mut self, command: &str) {
        self.grants.unfenced.insert(command.to_owned());
    }

    async fn passed(&mut self, call: &ToolCall, risk: Risk, by: DecidedBy, reason: Option<String>) {
        self.told(call, risk, Decision::Allowed, by, reason).await;
    }

    /// Tells of a review, and stores what the mode did not simply allow.
    pub(in crate::agent) async fn told(
        &mut self,
        call: &ToolCall,
        risk: Risk,
        decision: Decision,
        by: DecidedBy,
        reason: Option<String>,
    ) {
        if decision == Decision::Denied || by != DecidedBy::Mode {
            let record = Record::Review {
                tool_call_id: call.id.clone(),
                risk,
                decision: decision.into(),
                by: by.into(),
                reason: reason.clone(),
            };
            self.append_record(record).await;
        }
        self.bus.emit(Event::ToolReview { id: call.id.clone(), risk, decision, by, reason }).await;
    }
}
