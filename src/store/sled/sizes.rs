//! How large the parts of a log are, and whether its snapshots are of any use: for whoever looks after it.

use proto_events::codec::Storable as _;
use proto_events::codec::state::Kept;
use proto_events::id::Digest;
use proto_events::session::{Session, SessionEvent};
use proto_events::task::{Task, TaskEvent};
use proto_events::tool_store::{ToolStore, ToolStoreEvent};

use super::SledStore;
use super::snapshots::guarded;
use crate::store::{EventReader, ReadError, Snapshot};

/// Examples of what is wrong with snapshots that are kept.
const EXAMPLES: usize = 5;

/// What one tree of the database holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeSize {
    /// Its name.
    pub name: &'static str,
    /// How many values, spacers apart.
    pub values: u64,
    /// Bytes of the values.
    pub bytes: u64,
}

/// The snapshots of a log. All of them may be deleted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SnapshotHealth {
    /// Those that fit the log and this program.
    pub usable: u64,
    /// Those of another revision: this program folds their streams from zero.
    pub outdated: u64,
    /// Those that are damaged or do not fit the log.
    pub unusable: u64,
    /// What is wrong with the first few of these.
    pub examples: Vec<String>,
}

impl SledStore {
    /// What each tree holds. Reads all of them.
    ///
    /// # Errors
    /// [`ReadError`] if the database cannot be read.
    pub fn trees(&self) -> Result<Vec<TreeSize>, ReadError> {
        self.read(|trees| {
            let all = [
                ("log", &trees.log),
                ("chunks", &trees.chunks),
                ("runs", &trees.runs),
                ("snapshots", &trees.snapshots),
            ];
            all.into_iter().map(|(name, tree)| size(name, tree)).collect()
        })
    }

    /// Compares every snapshot with the log.
    ///
    /// # Errors
    /// [`ReadError`] if the database cannot be read.
    pub fn look_at_snapshots(&self) -> Result<SnapshotHealth, ReadError> {
        let mut health = SnapshotHealth::default();
        let mut next = self.read(|trees| first_behind(&trees.snapshots, &[]))?;
        while let Some((key, value)) = next {
            match look(self, &key, &value) {
                Ok(true) => health.usable += 1,
                Ok(false) => health.outdated += 1,
                Err(why) => {
                    health.unusable += 1;
                    if health.examples.len() < EXAMPLES {
                        health.examples.push(why);
                    }
                }
            }
            next = self.read(|trees| first_behind(&trees.snapshots, &key))?;
        }
        Ok(health)
    }
}

type Item = (::sled::IVec, ::sled::IVec);

fn first_behind(tree: &::sled::Tree, key: &[u8]) -> Result<Option<Item>, ReadError> {
    let found = if key.is_empty() { guarded(|| tree.first()) } else { guarded(|| tree.get_gt(key)) };
    found.map_err(ReadError::Io)
}

fn size(name: &'static str, tree: &::sled::Tree) -> Result<TreeSize, ReadError> {
    let count = || {
        let mut size = TreeSize { name, values: 0, bytes: 0 };
        // At the first error it ends: sled's iterator would repeat it for ever.
        for item in tree {
            let (_, value) = item?;
            if !value.is_empty() {
                size.values += 1;
                size.bytes += value.len() as u64;
            }
        }
        Ok(size)
    };
    guarded(count).map_err(ReadError::Io)
}

/// Whether this program can use a snapshot, or why nobody can.
fn look(reader: &dyn EventReader, key: &[u8], value: &[u8]) -> Result<bool, String> {
    let snapshot = Snapshot::from_bytes(value)?;
    let of = |why: String| format!("{}: {why}", snapshot.stream);
    if *key != Digest::of(snapshot.stream.as_str().as_bytes()).0 {
        return Err(of("it is kept under another stream's name".to_owned()));
    }
    snapshot.check(reader).map_err(of)?;
    let (revision, readable) = match snapshot.stream.category() {
        TaskEvent::CATEGORY => (Task::REVISION, Task::kept(&snapshot.state).is_ok()),
        SessionEvent::CATEGORY => (Session::REVISION, Session::kept(&snapshot.state).is_ok()),
        ToolStoreEvent::CATEGORY => (ToolStore::REVISION, ToolStore::kept(&snapshot.state).is_ok()),
        _ => return Err(of("streams of its category have none".to_owned())),
    };
    if snapshot.revision != revision {
        return Ok(false);
    }
    if readable { Ok(true) } else { Err(of("its state cannot be read".to_owned())) }
}
