//! The panes at the side: the session's tree, and whole outputs.

use super::tree::TreePane;

/// A pane.
#[derive(Debug)]
pub enum Pane {
    /// The session as a tree.
    Tree(Box<TreePane>),
    /// The output of a call.
    Output(Output),
}

/// The whole output of a call.
#[derive(Debug, Default)]
pub struct Output {
    /// The block; `None` follows the newest call.
    pub block: Option<u64>,
    /// Rows from the top; `None` follows the end.
    pub scroll: Option<usize>,
    /// Its rows as they were last laid out, and for what.
    pub rows: Vec<super::transcript::Row>,
    /// What they were laid out for.
    pub key: Option<(u64, u16, u32, usize, bool)>,
    /// The first row that is drawn.
    pub top: usize,
    /// The file that was read, and what stood in it.
    pub log: Option<(std::path::PathBuf, Result<String, String>)>,
}
