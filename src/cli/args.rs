//! The arguments, and how they are read.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser};

use super::Exit;
use crate::choice::{Mode, Thinking};

/// A coding agent in the terminal.
#[derive(Debug, Parser)]
#[command(name = "violin", version, about, long_about = None, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    pub subcommand: Option<Subcommand>,
    #[command(flatten)]
    pub run: RunArgs,
}

/// The command line where the first word is no subcommand.
#[derive(Debug, Parser)]
#[command(name = "violin", version, about = "A coding agent in the terminal.", max_term_width = 100)]
struct RunCli {
    #[command(flatten)]
    run: RunArgs,
}

#[derive(Debug, clap::Subcommand)]
pub enum Subcommand {
    /// List, show or delete sessions
    Sessions(SessionsArgs),
    /// List the configured models
    Models(ModelsArgs),
    /// Trust what a directory brings in .violin, as it stands now
    Trust(TrustArgs),
    /// List the plugins, or grant one what it asks for
    Plugins(PluginsArgs),
    /// Check what works here, and what to do about the rest
    Doctor(DoctorArgs),
    /// Delete what is old: sessions, whole outputs, checkpoints
    Gc(GcArgs),
    /// Print completions for a shell, or the man page
    Completions(CompletionsArgs),
}

/// What a run is begun with.
#[derive(Debug, Default, Args)]
pub struct RunArgs {
    /// What to do; `@file` words attach files and images
    #[arg(value_name = "PROMPT")]
    pub prompt: Vec<String>,
    /// Continue the newest session of this directory
    #[arg(short = 'c', long = "continue", conflicts_with_all = ["session", "fork", "resume"])]
    pub continue_newest: bool,
    /// Start in the session picker
    #[arg(short, long, conflicts_with_all = ["session", "fork", "print", "json"])]
    pub resume: bool,
    /// Open a session by its file, its id, or a unique part of that
    #[arg(short, long, value_name = "ID|PATH", conflicts_with = "fork")]
    pub session: Option<String>,
    /// Begin a new session with the messages of another
    #[arg(long, value_name = "ID|PATH")]
    pub fork: Option<String>,
    /// No interface: print the final answer
    #[arg(short, long)]
    pub print: bool,
    /// No interface: print every event, one JSON object a line
    #[arg(long)]
    pub json: bool,
    /// The model
    #[arg(short, long, value_name = "PROVIDER/ID")]
    pub model: Option<String>,
    /// How much it thinks: off, minimal, low, medium, high or xhigh
    #[arg(long, value_name = "LEVEL")]
    pub thinking: Option<Thinking>,
    /// What runs without a question: plan, ask, auto or yolo
    #[arg(long)]
    pub mode: Option<Mode>,
    /// The directory to work in
    #[arg(short = 'C', value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Attach an image; may be given several times
    #[arg(long = "image", value_name = "FILE")]
    pub images: Vec<PathBuf>,
    /// Only these tools
    #[arg(long, value_name = "A,B", value_delimiter = ',', conflicts_with = "no_tools")]
    pub tools: Option<Vec<String>>,
    /// No tools
    #[arg(long)]
    pub no_tools: bool,
    /// Stop after so many model calls
    #[arg(long, value_name = "N")]
    pub max_turns: Option<u32>,
    /// Keep no session
    #[arg(long, conflicts_with_all = ["continue_newest", "session", "fork", "resume"])]
    pub no_session: bool,
    /// In place of Violin's system prompt
    #[arg(long, value_name = "TEXT")]
    pub system_prompt: Option<String>,
    /// Behind Violin's system prompt
    #[arg(long, value_name = "TEXT")]
    pub append_system_prompt: Option<String>,
}

#[derive(Debug, Args)]
pub struct SessionsArgs {
    #[command(subcommand)]
    pub action: Option<SessionsAction>,
    /// Sessions of all directories
    #[arg(long)]
    pub all: bool,
    /// One JSON object a line
    #[arg(long, global = true)]
    pub json: bool,
}

#[derive(Debug, clap::Subcommand)]
pub enum SessionsAction {
    /// List this directory's sessions
    List {
        /// Sessions of all directories
        #[arg(long)]
        all: bool,
    },
    /// Print a session's conversation
    Show {
        /// Its file, its id, or a unique part of that
        id: String,
        /// Every change of a file, checked against the disk
        #[arg(long)]
        effects: bool,
    },
    /// Write a session into one HTML page or a Markdown file
    Export {
        /// Its file, its id, or a unique part of that
        id: String,
        /// Where to; without it, violin-ID.html in this directory
        file: Option<String>,
    },
    /// Delete a session
    Delete {
        /// Its file, its id, or a unique part of that
        id: String,
        /// Without asking
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Args)]
pub struct ModelsArgs {
    #[command(subcommand)]
    pub action: Option<ModelsAction>,
    /// One JSON object a line
    #[arg(long, global = true)]
    pub json: bool,
}

#[derive(Debug, clap::Subcommand)]
pub enum ModelsAction {
    /// List the configured models
    List,
    /// Ask each configured provider which models it offers
    Check,
}

#[derive(Debug, Args)]
pub struct TrustArgs {
    /// The directory; without it, this one
    pub directory: Option<PathBuf>,
    /// List what is trusted
    #[arg(long, conflicts_with = "directory")]
    pub list: bool,
    /// Take a directory's trust back
    #[arg(long, value_name = "DIR", conflicts_with_all = ["directory", "list"])]
    pub revoke: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct PluginsArgs {
    #[command(subcommand)]
    pub action: Option<PluginsAction>,
    /// One JSON object a line
    #[arg(long, global = true)]
    pub json: bool,
}

#[derive(Debug, clap::Subcommand)]
pub enum PluginsAction {
    /// List the plugins and what they add
    List,
    /// Grant a plugin what it asks for, as its file stands now
    Allow {
        /// Its name
        name: String,
    },
}

#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// One JSON object a line
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct GcArgs {
    /// How old, such as 90d, 12w or 48h
    #[arg(long, value_name = "AGE", default_value = "90d")]
    pub older_than: String,
    /// Without asking
    #[arg(long)]
    pub yes: bool,
    /// One JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// bash, elvish, fish, powershell or zsh; `man` for the man page
    pub shell: String,
}

impl Cli {
    /// Reads the arguments. A subcommand is one only as the first word.
    ///
    /// # Errors
    /// Help, the version, and mistakes.
    pub fn read(arguments: Vec<OsString>) -> Result<Self, clap::Error> {
        let first = arguments.get(1).and_then(|word| word.to_str());
        let command = Cli::command();
        let known = |word: &str| word == "help" || command.find_subcommand(word).is_some();
        // Help is that of the whole, with the subcommands in it.
        let whole = |word: &str| known(word) || matches!(word, "-h" | "--help");
        if first.is_some_and(whole) {
            return Cli::try_parse_from(arguments);
        }
        RunCli::try_parse_from(arguments).map(|cli| Cli { subcommand: None, run: cli.run })
    }
}

/// Prints completions for a shell.
pub fn completions(args: &CompletionsArgs) -> Result<u8, Exit> {
    let mut command = Cli::command();
    if args.shell == "man" {
        clap_mangen::Man::new(command).render(&mut io::stdout())?;
        return Ok(0);
    }
    let shell: clap_complete::Shell = args
        .shell
        .parse()
        .map_err(|_| Exit::usage(format!("`{}` is no shell that completions exist for", args.shell)))?;
    clap_complete::generate(shell, &mut command, "violin", &mut io::stdout());
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<Cli, clap::Error> {
        Cli::read(std::iter::once("violin").chain(words.iter().copied()).map(OsString::from).collect())
    }

    #[test]
    fn the_definition_holds_together() {
        Cli::command().debug_assert();
        RunCli::command().debug_assert();
    }

    #[test]
    fn a_subcommand_is_one_only_as_the_first_word() {
        assert!(read(&["sessions", "list", "--json"]).expect("reads").subcommand.is_some());
        let cli = read(&["-p", "sessions", "are", "lost"]).expect("reads");
        assert!(cli.subcommand.is_none());
        assert_eq!(cli.run.prompt.join(" "), "sessions are lost");
        let cli = read(&["--", "doctor"]).expect("reads");
        assert_eq!((cli.subcommand.is_none(), cli.run.prompt.as_slice()), (true, &["doctor".to_owned()][..]));
        assert_eq!(read(&["--json", "--", "-x"]).expect("reads").run.prompt, ["-x"]);
    }

    #[test]
    fn mistakes_are_usage_errors() {
        for words in [&["--nope"][..], &["--mode", "fast"], &["-c", "-s", "x"], &["sessions", "fly"]] {
            assert_eq!(read(words).expect_err("a mistake").exit_code(), 2, "{words:?}");
        }
        let told = read(&["--thinking", "much"]).expect_err("a mistake").to_string();
        assert!(told.contains("off, minimal, low"), "{told}");
    }
}
