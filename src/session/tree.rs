//! A session's entries as a tree. Pure: it holds entries and links and touches no file.
//!
//! Nodes are kept in the order of the file and named by their index, so that a file with a doubled id still
//! loads; every walk is a loop, so that a branch of any depth does.

use std::collections::HashMap;
use std::sync::Arc;

use super::entry::{Entry, EntryId, Record};

/// The tree of a session.
#[derive(Debug, Clone, Default)]
pub struct Tree {
    nodes: Vec<Node>,
    by_id: HashMap<EntryId, usize>,
    roots: Vec<usize>,
    leaf: Option<usize>,
    labels: HashMap<EntryId, String>,
    name: Option<String>,
    highest: u64,
}

/// An entry in its place.
#[derive(Debug, Clone)]
pub struct Node {
    /// The entry.
    pub entry: Arc<Entry>,
    /// The index of its parent.
    pub parent: Option<usize>,
    /// The indices of its children, oldest first.
    pub children: Vec<usize>,
}

impl Tree {
    /// Takes the next entry of the file. A parent that is not there is mended to the entry before it.
    /// `false` tells that this was needed.
    pub fn push(&mut self, entry: Arc<Entry>) -> bool {
        self.highest = self.highest.max(entry.id.0);
        match entry.record() {
            Some(Record::Label { target_id, label }) => {
                match label {
                    Some(label) => self.labels.insert(*target_id, label.clone()),
                    None => self.labels.remove(target_id),
                };
                return true;
            }
            Some(Record::Name { name }) => {
                self.name = Some(name.clone()).filter(|name| !name.is_empty());
                return true;
            }
            Some(Record::Leaf { target_id }) => {
                let target = target_id.map(|id| self.by_id.get(&id).copied());
                match target {
                    None => self.leaf = None,
                    Some(Some(index)) => self.leaf = Some(index),
                    Some(None) => return false,
                }
                return true;
            }
            _ => {}
        }
        let index = self.nodes.len();
        let found = entry.parent_id.map(|id| self.by_id.get(&id).copied());
        let (parent, whole) = match found {
            None => (None, true),
            Some(Some(parent)) => (Some(parent), true),
            Some(None) => (index.checked_sub(1), false),
        };
        match parent {
            Some(parent) => self.nodes[parent].children.push(index),
            None => self.roots.push(index),
        }
        self.by_id.insert(entry.id, index);
        self.nodes.push(Node { entry, parent, children: Vec::new() });
        self.leaf = Some(index);
        whole
    }

    /// All nodes in the order of the file.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The indices of the nodes without a parent.
    pub fn roots(&self) -> &[usize] {
        &self.roots
    }

    /// The node where the conversation stands; `None` before the first entry.
    pub fn leaf(&self) -> Option<usize> {
        self.leaf
    }

    /// The entry where the conversation stands.
    pub fn leaf_id(&self) -> Option<EntryId> {
        self.leaf.map(|index| self.nodes[index].entry.id)
    }

    /// The node of an id.
    pub fn find(&self, id: EntryId) -> Option<usize> {
        self.by_id.get(&id).copied()
    }

    /// The entry of an id.
    pub fn get(&self, id: EntryId) -> Option<&Arc<Entry>> {
        self.find(id).map(|index| &self.nodes[index].entry)
    }

    /// The indices from a root to `to`, both included.
    pub fn path(&self, to: Option<usize>) -> Vec<usize> {
        let mut path: Vec<usize> = std::iter::successors(to, |index| self.nodes[*index].parent).collect();
        path.reverse();
        path
    }

    /// The entries from the root to the leaf.
    pub fn branch(&self) -> Vec<Arc<Entry>> {
        self.path(self.leaf).into_iter().map(|index| self.nodes[index].entry.clone()).collect()
    }

    /// The label of an entry.
    pub fn label(&self, id: EntryId) -> Option<&str> {
        self.labels.get(&id).map(String::as_str)
    }

    /// All labels.
    pub fn labels(&self) -> &HashMap<EntryId, String> {
        &self.labels
    }

    /// The session's name, where it was given one.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// An id that no entry has.
    pub fn next_id(&self) -> EntryId {
        EntryId(self.highest.saturating_add(1))
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(lines: &[&str]) -> (Tree, usize) {
        let mut tree = Tree::default();
        let mut mended = 0;
        for line in lines {
            let entry = Entry::parse(line.as_bytes(), tree.next_id().0).expect("reads");
            mended += usize::from(!tree.push(Arc::new(entry)));
        }
        (tree, mended)
    }

    fn user(id: u64, parent: &str) -> String {
        format!(r#"{{"id":{id},"parent_id":{parent},"role":"user","content":"{id}"}}"#)
    }

    fn ids(tree: &Tree) -> Vec<u64> {
        tree.branch().iter().map(|entry| entry.id.0).collect()
    }

    #[test]
    fn the_leaf_is_the_last_entry_or_the_last_move() {
        let leaf = r#"{"id":4,"type":"leaf","target_id":1}"#;
        let name = r#"{"id":5,"type":"name","name":"cart"}"#;
        let (tree, mended) = tree(&[&user(1, "null"), &user(2, "1"), &user(3, "2"), leaf, name]);
        assert_eq!((ids(&tree), mended, tree.name(), tree.next_id()), (vec![1], 0, Some("cart"), EntryId(6)));
        let (tree, _) = super::tests::tree(&[&user(1, "null"), &user(2, "1"), leaf, &user(6, "1")]);
        assert_eq!((ids(&tree), tree.nodes()[0].children.len()), (vec![1, 6], 2));
    }

    #[test]
    fn a_hole_is_bridged() {
        let (tree, mended) = tree(&[&user(1, "null"), &user(2, "1"), &user(4, "3"), &user(5, "4")]);
        assert_eq!((ids(&tree), mended), (vec![1, 2, 4, 5], 1));
    }

    #[test]
    fn doubled_ids_and_circles_still_load() {
        let (tree, _) = tree(&[&user(1, "null"), &user(2, "1"), &user(2, "1"), &user(3, "2"), &user(4, "4")]);
        assert_eq!(tree.nodes().len(), 5);
        assert_eq!(ids(&tree), vec![1, 2, 3, 4]);
    }

    #[test]
    fn fifty_thousand_deep_is_walked_without_recursion() {
        let mut tree = Tree::default();
        for id in 1..=50_000 {
            let line = user(id, &if id == 1 { "null".to_owned() } else { (id - 1).to_string() });
            tree.push(Arc::new(Entry::parse(line.as_bytes(), 0).expect("reads")));
        }
        assert_eq!(tree.branch().len(), 50_000);
    }
}
