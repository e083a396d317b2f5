//! The file `HEAD` beside the log: the last position of the log when the file was written, and the frontier
//! of the Merkle tree (RFC 6962) over the leaf hashes of all records up to there. A log that ends earlier was
//! cut off.

use std::io;
use std::path::Path;

use proto_events::id::{Digest, Position};

use crate::engine::files;

/// Name of the file.
pub(crate) const HEAD_FILE: &str = "HEAD";

/// First line of the file.
const TITLE: &str = "taskreel head 1";

/// The roots of the full subtrees of a Merkle tree, the largest first: all that is needed to extend the tree
/// and to compute its root.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Frontier {
    size: u64,
    nodes: Vec<Digest>,
}

impl Frontier {
    /// Adds the next leaf hash.
    pub fn push(&mut self, leaf: Digest) {
        let mut node = leaf;
        // Each set bit of the size is a full subtree; equal subtrees at the end are joined, as in binary
        // addition.
        for _ in 0..self.size.trailing_ones() {
            if let Some(left) = self.nodes.pop() {
                node = join(left, node);
            }
        }
        self.nodes.push(node);
        self.size += 1;
    }

    /// Returns the number of leaves.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the roots of the full subtrees, the largest first.
    pub fn nodes(&self) -> &[Digest] {
        &self.nodes
    }

    /// Returns RFC 6962's tree hash; for an empty tree it is SHA-256 of no bytes.
    pub fn root(&self) -> Digest {
        let mut nodes = self.nodes.iter().rev().copied();
        let last = nodes.next().unwrap_or_else(|| Digest::compute(&[]));
        nodes.fold(last, |right, left| join(left, right))
    }
}

fn join(left: Digest, right: Digest) -> Digest {
    Digest::of_parts(&[&[1], &left.0, &right.0])
}

/// The contents of the file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Head {
    /// Position of the last durable event.
    pub position: Position,
    /// The tree over all records up to there; its size is the number of records.
    pub frontier: Frontier,
}

impl Head {
    /// Replaces the file in `dir`.
    pub(crate) fn write(&self, dir: &Path) -> io::Result<()> {
        files::replace(dir, HEAD_FILE, &self.to_text())
    }

    /// Reads the file in `dir`, if there is one.
    ///
    /// # Errors
    /// The reason, if the file cannot be read or its text is not valid.
    pub fn read(dir: &Path) -> Result<Option<Self>, String> {
        let text = files::read(dir, HEAD_FILE).map_err(|error| error.to_string())?;
        text.map(|text| Self::parse(&text).ok_or_else(|| "its text is damaged".to_owned())).transpose()
    }

    /// Returns the file's text.
    pub fn to_text(&self) -> String {
        let mut text = format!("{TITLE}\nposition {}\nrecords {}\n", self.position, self.frontier.size);
        for node in &self.frontier.nodes {
            text.push_str("node ");
            text.push_str(&node.to_string());
            text.push('\n');
        }
        let crc = crc32c::crc32c(text.as_bytes());
        text.push_str(&checksum_line(crc));
        text
    }

    /// Parses the file's text; `None` if it is not what was written.
    pub fn parse(text: &str) -> Option<Self> {
        let (body, checksum) = text.split_at_checked(text.rfind("checksum ")?)?;
        if checksum != checksum_line(crc32c::crc32c(body.as_bytes())) {
            return None;
        }
        let mut lines = body.lines();
        if lines.next()? != TITLE {
            return None;
        }
        let position = Position(lines.next()?.strip_prefix("position ")?.parse().ok()?);
        let size: u64 = lines.next()?.strip_prefix("records ")?.parse().ok()?;
        let nodes: Vec<Digest> =
            lines.map(|line| line.strip_prefix("node ").and_then(Digest::parse)).collect::<Option<_>>()?;
        let whole = nodes.len() == usize::try_from(size.count_ones()).ok()?;
        whole.then_some(Self { position, frontier: Frontier { size, nodes } })
    }
}

/// Returns the last line of a text with this checksum.
pub(crate) fn checksum_line(crc: u32) -> String {
    format!("checksum {crc:08x}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes the tree hash as RFC 6962, 2.1, defines it.
    fn tree_hash(leaves: &[Digest]) -> Digest {
        match leaves {
            [] => Digest::compute(&[]),
            [leaf] => *leaf,
            _ => {
                let split = leaves.len().next_power_of_two() / 2;
                join(tree_hash(&leaves[..split]), tree_hash(&leaves[split..]))
            }
        }
    }

    fn frontier(size: u8) -> (Frontier, Vec<Digest>) {
        let leaves: Vec<_> = (0..size).map(|n| Digest::compute(&[0, n])).collect();
        let mut frontier = Frontier::default();
        for leaf in &leaves {
            frontier.push(*leaf);
        }
        (frontier, leaves)
    }

    #[test]
    fn the_root_is_that_of_rfc_6962_for_every_size() {
        for size in 0..70 {
            let (frontier, leaves) = frontier(size);
            assert_eq!(frontier.root(), tree_hash(&leaves), "{size}");
            assert_eq!(frontier.size(), u64::from(size));
        }
    }

    #[test]
    fn a_head_comes_back_from_its_file_and_a_changed_one_does_not() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Head::read(dir.path()), Ok(None));
        for size in [0, 1, 2, 13] {
            let head = Head { position: Position(99), frontier: frontier(size).0 };
            head.write(dir.path()).unwrap();
            assert_eq!(Head::read(dir.path()), Ok(Some(head)));
        }
        let good = std::fs::read(dir.path().join(HEAD_FILE)).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            std::fs::write(dir.path().join(HEAD_FILE), bad).unwrap();
            assert!(Head::read(dir.path()).is_err(), "byte {at}");
        }
    }
}
