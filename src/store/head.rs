//! The file `HEAD` beside the log: how far the log went when the file was last written, and the frontier of the
//! Merkle tree (RFC 6962) over the leaf hashes of all records up to there. A log that ends earlier was cut off.

use std::io;
use std::path::Path;

use proto_events::id::{Digest, Position};

use super::files;

/// Name of the file.
pub(super) const HEAD_FILE: &str = "HEAD";

/// First line of the file.
const TITLE: &str = "taskreel head 1";

/// The roots of the full subtrees that a Merkle tree consists of, the largest first: all that is needed to extend
/// it and to compute its root.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Frontier {
    size: u64,
    nodes: Vec<Digest>,
}

impl Frontier {
    /// Adds the next leaf hash.
    pub fn push(&mut self, leaf: Digest) {
        let mut node = leaf;
        // Each set bit of the size is a full subtree; an odd one at the end is joined, as in binary addition.
        for _ in 0..self.size.trailing_ones() {
            if let Some(left) = self.nodes.pop() {
                node = join(left, node);
            }
        }
        self.nodes.push(node);
        self.size += 1;
    }

    /// How many leaves it has.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The roots of its full subtrees, the largest first.
    pub fn nodes(&self) -> &[Digest] {
        &self.nodes
    }

    /// RFC 6962's tree hash; that of nothing is SHA-256 of no bytes.
    pub fn root(&self) -> Digest {
        let mut nodes = self.nodes.iter().rev().copied();
        let last = nodes.next().unwrap_or_else(|| Digest::of(&[]));
        nodes.fold(last, |right, left| join(left, right))
    }
}

fn join(left: Digest, right: Digest) -> Digest {
    Digest::of_parts(&[&[1], &left.0, &right.0])
}

/// What the file says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Head {
    /// Position of the last durable event.
    pub position: Position,
    /// The tree over all records up to there; its size is their number.
    pub frontier: Frontier,
}

impl Head {
    /// Replaces the file in `dir`.
    pub(super) fn write(&self, dir: &Path) -> io::Result<()> {
        files::replace(dir, HEAD_FILE, &self.to_text())
    }

    /// Reads the file in `dir`, if there is one.
    ///
    /// # Errors
    /// The reason, if it cannot be read or is not what was written.
    pub fn read(dir: &Path) -> Result<Option<Self>, String> {
        let text = files::read(dir, HEAD_FILE).map_err(|error| error.to_string())?;
        text.map(|text| Self::parse(&text).ok_or_else(|| "its text is not what was written".to_owned()))
            .transpose()
    }

    pub(super) fn to_text(&self) -> String {
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

    /// `None` if the text is not what was written.
    pub(super) fn parse(text: &str) -> Option<Self> {
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
            lines.map(|line| line.strip_prefix("node ").and_then(digest)).collect::<Option<_>>()?;
        let whole = nodes.len() == usize::try_from(size.count_ones()).ok()?;
        whole.then_some(Self { position, frontier: Frontier { size, nodes } })
    }
}

/// The last line of such a text.
pub(super) fn checksum_line(crc: u32) -> String {
    format!("checksum {crc:08x}\n")
}

fn digest(hex: &str) -> Option<Digest> {
    let mut bytes = [0; 32];
    if hex.len() != 64 || !hex.is_ascii() {
        return None;
    }
    for (byte, at) in bytes.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(hex.get(at..at + 2)?, 16).ok()?;
    }
    Some(Digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6962, 2.1, as it is written there.
    fn tree_hash(leaves: &[Digest]) -> Digest {
        match leaves {
            [] => Digest::of(&[]),
            [leaf] => *leaf,
            _ => {
                let split = leaves.len().next_power_of_two() / 2;
                join(tree_hash(&leaves[..split]), tree_hash(&leaves[split..]))
            }
        }
    }

    fn frontier(size: u8) -> (Frontier, Vec<Digest>) {
        let leaves: Vec<_> = (0..size).map(|n| Digest::of(&[0, n])).collect();
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
