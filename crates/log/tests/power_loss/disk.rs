//! A disk that has lost power: what was synced is there, and of the rest whatever a disk may have written by
//! then.
//!
//! Only this is promised. A file's data and length are on disk once a sync of that file has begun after the
//! write ended; its name once the directory was synced. Until then a write may be there, or not, or some of
//! its sectors of 512 bytes, in any order; a file may be longer without its data; and of the changes of names
//! the first ones have happened, up to any number, possibly without one of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::dice::Dice;
use crate::traced::{Call, Deed};

/// The number of bytes that are written as a whole or not at all.
const SECTOR: usize = 512;

/// A change of a file that may not be on disk yet.
#[derive(Debug, Clone)]
enum Change {
    Write { at: usize, bytes: Vec<u8> },
    Cut(usize),
}

/// A change of the directory.
#[derive(Debug, Clone)]
enum Naming {
    Made { name: String, file: usize },
    Renamed { from: String, to: String },
    Removed { name: String },
}

#[derive(Debug, Clone, Default)]
struct File {
    synced: Vec<u8>,
    /// The changes that may not be on disk, each with the moment at which it ended.
    pending: Vec<(usize, Change)>,
}

/// The state of a disk while calls are applied.
#[derive(Debug, Clone, Default)]
pub(crate) struct Disk {
    files: Vec<File>,
    /// The names as the operating system shows them.
    names: BTreeMap<String, usize>,
    synced_names: BTreeMap<String, usize>,
    pending_names: Vec<(usize, Naming)>,
    dirs: Vec<String>,
}

/// The treatment of pending changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// All pending changes are lost.
    Lost,
    /// All pending changes are there.
    Kept,
    /// All pending names and lengths are there, but no data.
    Empty,
    /// All pending changes are there except one write, which is there in part or not at all.
    OneLost,
    /// Each pending change is there or not, at random.
    Mixed,
}

impl Disk {
    /// Whether anything is pending.
    pub(crate) fn is_idle(&self) -> bool {
        self.pending_names.is_empty() && self.files.iter().all(|file| file.pending.is_empty())
    }

    /// Applies a finished call.
    pub(crate) fn take(&mut self, call: &Call) {
        let ended = call.ended;
        match &call.deed {
            Deed::Made { file, cut } => {
                if !self.names.contains_key(file) {
                    self.files.push(File::default());
                    let number = self.files.len() - 1;
                    self.names.insert(file.clone(), number);
                    self.pending_names.push((ended, Naming::Made { name: file.clone(), file: number }));
                } else if *cut {
                    self.file(file).pending.push((ended, Change::Cut(0)));
                }
            }
            Deed::Wrote { file, at, bytes } => {
                let change = Change::Write { at: usize::try_from(*at).unwrap(), bytes: bytes.clone() };
                self.file(file).pending.push((ended, change));
            }
            Deed::Cut { file, bytes } => {
                let change = Change::Cut(usize::try_from(*bytes).unwrap());
                self.file(file).pending.push((ended, change));
            }
            Deed::Renamed { from, to } => {
                let file = self.names.remove(from).unwrap();
                self.names.insert(to.clone(), file);
                self.pending_names.push((ended, Naming::Renamed { from: from.clone(), to: to.clone() }));
            }
            Deed::Linked { from, to } => {
                let file = self.names[from];
                self.names.insert(to.clone(), file);
                self.pending_names.push((ended, Naming::Made { name: to.clone(), file }));
            }
            Deed::Removed { name } => {
                self.names.remove(name);
                self.pending_names.push((ended, Naming::Removed { name: name.clone() }));
            }
            Deed::MadeDir { name } => self.dirs.push(name.clone()),
            Deed::Synced { name } => self.sync(name, call.began),
            Deed::SyncFailed { name } => self.file(name).pending.clear(),
            Deed::Said(_) => {}
        }
    }

    fn file(&mut self, name: &str) -> &mut File {
        let number = *self.names.get(name).unwrap_or_else(|| panic!("{name} was written and never made"));
        &mut self.files[number]
    }

    /// Makes durable all that had ended before the sync began.
    fn sync(&mut self, name: &str, began: usize) {
        if name == "." || self.dirs.iter().any(|dir| dir == name) {
            let inside = |naming: &Naming| {
                let (Naming::Made { name: of, .. }
                | Naming::Renamed { to: of, .. }
                | Naming::Removed { name: of }) = naming;
                of.rsplit_once('/').map_or(".", |(dir, _)| dir) == name
            };
            let done = |entry: &(usize, Naming)| entry.0 < began && inside(&entry.1);
            for (_, naming) in self.pending_names.extract_if(.., |entry| done(entry)) {
                rename(&mut self.synced_names, &naming);
            }
            return;
        }
        let file = self.file(name);
        for (_, change) in file.pending.extract_if(.., |(ended, _)| *ended < began) {
            apply(&mut file.synced, &change);
        }
    }

    /// Writes the disk's state after the power loss to a directory.
    pub(crate) fn after(&self, fate: Fate, dice: &mut Dice, to: &Path) {
        let mut names = self.synced_names.clone();
        let kept = match fate {
            Fate::Lost => 0,
            Fate::Kept | Fate::Empty | Fate::OneLost => self.pending_names.len(),
            Fate::Mixed => below(dice, self.pending_names.len() + 1),
        };
        // Sometimes one of the changes is missing.
        let late =
            if fate == Fate::Mixed && dice.below(4) == 0 { below(dice, kept.max(1)) } else { usize::MAX };
        for (number, (_, naming)) in self.pending_names.iter().take(kept).enumerate() {
            if number != late {
                rename(&mut names, naming);
            }
        }
        let _there_may_be_none = fs::remove_dir_all(to);
        fs::create_dir_all(to).unwrap();
        for dir in &self.dirs {
            fs::create_dir_all(to.join(dir)).unwrap();
        }
        for (name, file) in names {
            let bytes = self.files[file].after(fate, dice);
            write_sparse(&to.join(name), &bytes);
        }
    }
}

impl File {
    fn after(&self, fate: Fate, dice: &mut Dice) -> Vec<u8> {
        let mut bytes = self.synced.clone();
        let lost = below(dice, self.pending.len().max(1));
        for (number, (_, change)) in self.pending.iter().enumerate() {
            match (fate, change) {
                (Fate::OneLost, change) if number == lost => maybe(&mut bytes, change, dice),
                (Fate::Lost, _) => {}
                (Fate::Empty, Change::Write { at, bytes: written }) => {
                    bytes.resize(bytes.len().max(at + written.len()), 0);
                }
                (Fate::Kept | Fate::OneLost | Fate::Empty, change) => apply(&mut bytes, change),
                (Fate::Mixed, change) => maybe(&mut bytes, change, dice),
            }
        }
        bytes
    }
}

/// Applies a change fully, partly, or not at all.
fn maybe(bytes: &mut Vec<u8>, change: &Change, dice: &mut Dice) {
    let Change::Write { at, bytes: written } = change else {
        if dice.below(2) == 0 {
            apply(bytes, change);
        }
        return;
    };
    let all = at / SECTOR..(at + written.len()).div_ceil(SECTOR);
    let place = all.start + below(dice, all.len());
    let kind = dice.below(6);
    for sector in all {
        let there = match kind {
            0 | 1 => true,
            2 => false,
            3 => sector < place,
            4 => sector >= place,
            _ => dice.below(3) > 0,
        };
        if there {
            let from = (sector * SECTOR).max(*at);
            let to = ((sector + 1) * SECTOR).min(at + written.len());
            let piece = written[from - at..to - at].to_vec();
            apply(bytes, &Change::Write { at: from, bytes: piece });
        }
    }
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Cut(length) => bytes.resize(*length, 0),
        Change::Write { at, bytes: written } => {
            bytes.resize(bytes.len().max(at + written.len()), 0);
            bytes[*at..at + written.len()].copy_from_slice(written);
        }
    }
}

fn rename(names: &mut BTreeMap<String, usize>, naming: &Naming) {
    match naming {
        Naming::Made { name, file } => drop(names.insert(name.clone(), *file)),
        Naming::Removed { name } => drop(names.remove(name)),
        Naming::Renamed { from, to } => {
            if let Some(file) = names.remove(from) {
                names.insert(to.clone(), file);
            }
        }
    }
}

fn below(dice: &mut Dice, end: usize) -> usize {
    usize::try_from(dice.below(end as u64)).unwrap()
}

/// Writes zeros at the end by setting the length: there are many.
fn write_sparse(path: &Path, bytes: &[u8]) {
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    fs::write(path, &bytes[..used]).unwrap();
    if used < bytes.len() {
        fs::OpenOptions::new().write(true).open(path).unwrap().set_len(bytes.len() as u64).unwrap();
    }
}
