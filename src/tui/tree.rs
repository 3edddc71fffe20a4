//! The tree pane's model: which nodes of the session are rows, how they are indented, and where one stands.

use std::collections::HashSet;

use crate::message::{Block, Message, text_of};
use crate::session::{Body, Entry, EntryId, Record, Tree};
use crate::text;

/// Lines before a row take at most so many bytes.
const GUIDES: usize = 120;

/// Which nodes are shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Filter {
    /// Everything but book-keeping.
    #[default]
    Default,
    /// Without tools.
    NoTools,
    /// What the person said.
    User,
    /// What has a label.
    Labelled,
    /// All nodes.
    All,
}

impl Filter {
    /// The next one.
    pub fn next(self) -> Self {
        match self {
            Filter::Default => Filter::NoTools,
            Filter::NoTools => Filter::User,
            Filter::User => Filter::Labelled,
            Filter::Labelled => Filter::All,
            Filter::All => Filter::Default,
        }
    }

    /// Its name on the screen.
    pub fn name(self) -> &'static str {
        match self {
            Filter::Default => "default",
            Filter::NoTools => "without tools",
            Filter::User => "user only",
            Filter::Labelled => "labelled",
            Filter::All => "all",
        }
    }
}

/// A row of the pane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeRow {
    /// The node's index in the tree.
    pub node: usize,
    /// The lines before it.
    pub guides: String,
    /// Whether it stands on the path to the leaf.
    pub on_path: bool,
    /// Whether something below it is folded away.
    pub folded: bool,
    /// Whether it has children that can be folded.
    pub branches: bool,
}

/// The tree pane.
#[derive(Debug, Default)]
pub struct TreePane {
    /// Its rows.
    pub rows: Vec<TreeRow>,
    /// Which one is chosen.
    pub selected: usize,
    /// The first that is drawn.
    pub scroll: usize,
    /// Which nodes are shown.
    pub filter: Filter,
    /// A text that they must hold.
    pub query: String,
    /// Whether the transcript shows the branch of the chosen node in place of its own.
    pub previewing: bool,
    /// The node that stands for the leaf: the leaf itself, or the nearest one above it that is shown.
    pub leaf: Option<usize>,
    folded: HashSet<usize>,
    built: Option<(usize, Option<usize>)>,
}

impl TreePane {
    /// Brings the rows up to date with the session; the choice stays on its node, and begins at the leaf.
    pub fn refresh(&mut self, tree: &Tree) {
        let state = (tree.nodes().len(), tree.leaf());
        if self.built == Some(state) {
            return;
        }
        let first = self.built.is_none();
        self.built = Some(state);
        let chosen = if first { tree.leaf() } else { self.node() };
        self.build(tree);
        self.choose(tree, chosen);
    }

    /// Builds the rows anew, after a change of the filter or a fold.
    pub fn rebuild(&mut self, tree: &Tree) {
        let chosen = self.node();
        self.build(tree);
        self.choose(tree, chosen);
    }

    /// The chosen node.
    pub fn node(&self) -> Option<usize> {
        self.rows.get(self.selected).map(|row| row.node)
    }

    /// Chooses a node, or the nearest one above it that is shown.
    fn choose(&mut self, tree: &Tree, node: Option<usize>) {
        let mut at = node;
        while let Some(node) = at {
            if let Some(row) = self.rows.iter().position(|row| row.node == node) {
                self.selected = row;
                return;
            }
            at = tree.nodes().get(node).and_then(|node| node.parent);
        }
        self.selected = self.selected.min(self.rows.len().saturating_sub(1));
    }

    fn shows(&self, tree: &Tree, index: usize) -> bool {
        let entry = &tree.nodes()[index].entry;
        let kind = match &entry.body {
            Body::Message(message) => match &**message {
                Message::User(_) => true,
                Message::Assistant(answer) => match self.filter {
                    Filter::Default | Filter::All => true,
                    Filter::NoTools => answer
                        .content
                        .iter()
                        .any(|block| matches!(block, Block::Text { text } if !text.trim().is_empty())),
                    Filter::User | Filter::Labelled => false,
                },
                Message::Tool(_) => matches!(self.filter, Filter::All | Filter::Default),
            },
            Body::Record(record) => match record {
                Record::Compaction { .. } | Record::BranchSummary { .. } | Record::Shell { .. } => {
                    !matches!(self.filter, Filter::User | Filter::Labelled)
                }
                Record::ModelChange { .. } | Record::ThinkingChange { .. } => {
                    matches!(self.filter, Filter::All | Filter::Default)
                }
                _ => self.filter == Filter::All,
            },
        };
        let kind = if self.filter == Filter::Labelled { tree.label(entry.id).is_some() } else { kind };
        kind && (self.query.is_empty() || summary(entry).1.to_lowercase().contains(&self.query.to_lowercase()))
    }

    fn build(&mut self, tree: &Tree) {
        self.rows.clear();
        // What is only left out by a search has not moved.
        let shown = |node: &usize| !self.query.is_empty() || self.shows(tree, *node);
        self.leaf = tree.path(tree.leaf()).into_iter().rev().find(shown);
        let mut on_path = vec![false; tree.nodes().len()];
        for index in tree.path(tree.leaf()) {
            on_path[index] = true;
        }
        // A branch that is a chain stays at one depth: only where it parts is the indent deeper.
        struct Step {
            node: usize,
            guides: String,
            own: &'static str,
        }
        let mut stack: Vec<Step> = Vec::new();
        let roots = tree.roots();
        for (at, root) in roots.iter().enumerate().rev() {
            let own = if at + 1 == roots.len() { "└ " } else { "├ " };
            stack.push(Step { node: *root, guides: String::new(), own: if roots.len() > 1 { own } else { "" } });
        }
        while let Some(Step { node, guides, own }) = stack.pop() {
            let children = &tree.nodes()[node].children;
            let folded = self.folded.contains(&node);
            let shown = self.shows(tree, node);
            if shown {
                self.rows.push(TreeRow {
                    node,
                    guides: text::head(&format!("{guides}{own}"), GUIDES).to_owned(),
                    on_path: on_path[node],
                    folded: folded && !children.is_empty(),
                    branches: children.len() > 1,
                });
            }
            if folded {
                continue;
            }
            let below = match (shown, own) {
                (_, "├ ") => format!("{guides}│ "),
                (_, "└ ") => format!("{guides}  "),
                _ => guides,
            };
            // Branches may be nested without end, and a screen is not that wide.
            let below = text::head(&below, GUIDES).to_owned();
            for (at, child) in children.iter().enumerate().rev() {
                let own = match children.len() {
                    1 => "",
                    count if at + 1 == count => "└ ",
                    _ => "├ ",
                };
                stack.push(Step { node: *child, guides: below.clone(), own });
            }
        }
    }

    /// Moves the choice.
    pub fn step(&mut self, by: isize) {
        self.selected = self.selected.saturating_add_signed(by).min(self.rows.len().saturating_sub(1));
    }

    /// Folds the chosen node, or goes to the branch point above it.
    pub fn left(&mut self, tree: &Tree) {
        let Some(node) = self.node() else { return };
        if !tree.nodes()[node].children.is_empty() && tree.nodes()[node].children.len() > 1 && self.folded.insert(node)
        {
            self.rebuild(tree);
            return;
        }
        let above = self.rows[..self.selected].iter().rposition(|row| row.branches);
        self.selected = above.unwrap_or(0);
    }

    /// Unfolds the chosen node, or goes to the next branch point.
    pub fn right(&mut self, tree: &Tree) {
        let Some(node) = self.node() else { return };
        if self.folded.remove(&node) {
            self.rebuild(tree);
            return;
        }
        let below = self.rows[self.selected + 1..].iter().position(|row| row.branches);
        self.selected = below.map_or(self.rows.len() - 1, |at| self.selected + 1 + at);
    }
}

/// Who speaks in an entry, and what of it fits in a line.
pub fn summary(entry: &Entry) -> (&'static str, String) {
    let line = |text: &str| text::visible(text::head(text::first_line(text), 400));
    match &entry.body {
        Body::Message(message) => match &**message {
            Message::User(user) => ("you", line(&text_of(&user.content))),
            Message::Assistant(answer) => {
                let said = text_of(&answer.content);
                if !said.trim().is_empty() {
                    // Marks of Markdown would only be noise in a line.
                    return ("", line(&said.replace("**", "").replace('`', "")));
                }
                let calls: Vec<&str> = answer.tool_calls().map(|call| call.name.as_str()).collect();
                (
                    "",
                    if calls.is_empty() {
                        "(nothing said)".to_owned()
                    } else {
                        text::visible(&format!("→ {}", calls.join(", ")))
                    },
                )
            }
            Message::Tool(result) => {
                let mark = if result.is_error { "✗" } else { "✓" };
                ("", text::visible(&format!("{mark} {} {}", result.name, text::first_line(&result.summary))))
            }
        },
        Body::Record(record) => match record {
            Record::Compaction { .. } => ("", "context compacted".to_owned()),
            Record::BranchSummary { summary, .. } => ("", line(&format!("summary: {summary}"))),
            Record::ModelChange { model, .. } => ("", line(&format!("model: {model}"))),
            Record::ThinkingChange { level } => ("", line(&format!("thinking: {level}"))),
            Record::Shell { command, .. } => ("you", line(&format!("!{command}"))),
            Record::Checkpoint { .. } => ("", "checkpoint".to_owned()),
            Record::Review { .. } => ("", "review".to_owned()),
            Record::Label { .. } | Record::Name { .. } | Record::Leaf { .. } => ("", String::new()),
            Record::Custom { plugin, .. } => ("", line(&format!("plugin {plugin}"))),
            Record::Unknown => ("", "(unknown)".to_owned()),
        },
    }
}

/// Where a continuation from a node puts the leaf, and the text that goes to the prompt: a user message is
/// edited and sent anew from its parent.
pub fn continuation(tree: &Tree, node: usize) -> (Option<EntryId>, Option<String>) {
    let entry = &tree.nodes()[node].entry;
    match entry.message().map(|message| &**message) {
        Some(Message::User(user)) => {
            let parent = tree.nodes()[node].parent.map(|parent| tree.nodes()[parent].entry.id);
            (parent, Some(text_of(&user.content)))
        }
        Some(Message::Assistant(_) | Message::Tool(_)) | None => (Some(entry.id), None),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn tree(lines: &[(u64, u64, &str)]) -> Tree {
        let mut tree = Tree::default();
        for (id, parent, text) in lines {
            let parent = if *parent == 0 { "null".to_owned() } else { parent.to_string() };
            let role = if text.starts_with('>') { "user" } else { "assistant" };
            let line = format!(r#"{{"id":{id},"parent_id":{parent},"role":"{role}","content":"{text}"}}"#);
            tree.push(Arc::new(Entry::parse(line.as_bytes(), 0).expect("reads")));
        }
        tree
    }

    fn shown(pane: &TreePane, tree: &Tree) -> Vec<String> {
        let line = |row: &TreeRow| {
            format!("{}{}{}", row.guides, summary(&tree.nodes()[row.node].entry).1, if row.on_path { "*" } else { "" })
        };
        pane.rows.iter().map(line).collect()
    }

    #[test]
    fn only_branches_are_indented() {
        let tree = tree(&[(1, 0, ">a"), (2, 1, "b"), (3, 2, ">c"), (4, 3, "d"), (5, 2, ">e"), (6, 5, "f")]);
        let mut pane = TreePane::default();
        pane.refresh(&tree);
        assert_eq!(shown(&pane, &tree), [">a*", "b*", "├ >c", "│ d", "└ >e*", "  f*"]);
        assert_eq!(pane.node(), Some(5));
        pane.left(&tree);
        assert_eq!(pane.node(), Some(1));
        pane.left(&tree);
        assert_eq!(shown(&pane, &tree), [">a*", "b*"]);
        pane.right(&tree);
        pane.filter = Filter::User;
        pane.rebuild(&tree);
        assert_eq!(shown(&pane, &tree), [">a*", "├ >c", "└ >e*"]);
        assert_eq!(continuation(&tree, 2), (Some(EntryId(2)), Some(">c".to_owned())));
        assert_eq!(continuation(&tree, 3), (Some(EntryId(4)), None));
    }

    #[test]
    fn ten_thousand_nodes_take_no_time() {
        let lines: Vec<(u64, u64, &str)> =
            (1..=10_000).map(|id| (id, if id % 7 == 0 { id / 2 } else { id - 1 }, ">x")).collect();
        let tree = tree(&lines);
        let begun = std::time::Instant::now();
        let mut pane = TreePane::default();
        pane.refresh(&tree);
        assert_eq!(pane.rows.len(), 10_000);
        assert!(begun.elapsed().as_secs() < 5);
    }
}
