//! How is the log in this directory? All that can be found out about it, and what to do about each finding.

mod disk;

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::audit::{self, Scope, Verified};
use crate::store::{
    EventStore, Head, Holder, LogHeader, OpenError, OpenNote, SledOptions, SledStore, SnapshotHealth,
    TreeSize, blob_files, log_header,
};

pub use disk::{PartSize, SyncCost};

/// A finding: what is wrong, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    /// Which part of the log.
    pub part: &'static str,
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub advice: &'static str,
}

/// What the file `HEAD` said before the log was opened, which rewrites it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeadState {
    /// There is none.
    Missing,
    /// Its text is not what was written.
    Unreadable(String),
    /// It is whole.
    Whole {
        /// How far the log had gone.
        head: Head,
        /// How long ago it was written, if the clock allows to say.
        age: Option<Duration>,
    },
}

/// What was found.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Examined {
    /// The directory.
    pub dir: PathBuf,
    /// What the log says of itself.
    pub header: LogHeader,
    /// Whether another process has it open; its parts could not be looked at then.
    pub is_held: bool,
    /// Who has it open, if that one has written its name down.
    pub holder: Option<Holder>,
    /// Its files, by what they are.
    pub sizes: Vec<PartSize>,
    /// What it costs here to make something durable.
    pub sync: Result<SyncCost, String>,
    /// The file `HEAD`.
    pub head: HeadState,
    /// Files that the database never syncs; there must be none.
    pub blobs: usize,
    /// The trees of the database, if it could be opened.
    pub trees: Vec<TreeSize>,
    /// What opening it met that is no fault: that it had not been closed, say.
    pub notes: Vec<String>,
    /// Index and chain, if it could be opened.
    pub verified: Option<Verified>,
    /// The snapshots, if it could be opened.
    pub snapshots: Option<SnapshotHealth>,
    /// What is wrong.
    pub findings: Vec<Advice>,
    /// What could not be looked at, in words.
    pub unchecked: Vec<String>,
}

impl Examined {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty()
    }

    fn find(&mut self, part: &'static str, what: impl Into<String>, advice: &'static str) {
        self.findings.push(Advice { part, what: what.into(), advice });
    }
}

const RESTORE: &str = "copy the directory before anything else; then restore the log from a copy, or export what can still be read";

const SET_ASIDE: &str = "what was acknowledged is there; keep what was set aside until you know why, and see whether the disk is sound";

/// Examines the log in `dir`. Where none is, nothing is made or changed. A log that nobody holds is opened for it.
///
/// # Errors
/// [`OpenError`] if there is no log that this program knows.
pub fn examine(dir: &Path) -> Result<Examined, OpenError> {
    let header = log_header(dir)?;
    let mut found = Examined {
        dir: dir.to_owned(),
        header,
        is_held: false,
        holder: None,
        sizes: disk::sizes(dir),
        sync: disk::sync_cost(dir),
        head: head_state(dir),
        blobs: 0,
        trees: Vec::new(),
        notes: Vec::new(),
        verified: None,
        snapshots: None,
        findings: Vec::new(),
        unchecked: Vec::new(),
    };
    look_at_files(&mut found);
    let options = SledOptions { create: false, ..SledOptions::default() };
    match SledStore::open_with(dir, options) {
        Ok(store) => look_inside(&store, &mut found),
        Err(OpenError::Held { holder, .. }) => {
            found.is_held = true;
            found.holder = holder;
            found
                .unchecked
                .push("chain, index, trees and snapshots: another process has the log open".to_owned());
        }
        Err(error) => {
            let (part, advice) = advice_on(&error);
            found.find(part, error.to_string(), advice);
            found.unchecked.push("chain, index, trees and snapshots: the log cannot be opened".to_owned());
        }
    }
    Ok(found)
}

fn head_state(dir: &Path) -> HeadState {
    match Head::read(dir) {
        Ok(None) => HeadState::Missing,
        Err(why) => HeadState::Unreadable(why),
        Ok(Some(head)) => {
            let written = std::fs::metadata(dir.join("HEAD")).and_then(|file| file.modified());
            let age = written.ok().and_then(|at| SystemTime::now().duration_since(at).ok());
            HeadState::Whole { head, age }
        }
    }
}

/// What can be seen from outside.
fn look_at_files(found: &mut Examined) {
    match blob_files(&found.dir) {
        Ok(files) => found.blobs = files.len(),
        Err(error) => found.unchecked.push(format!("blobs/: {error}")),
    }
    if let Err(why) = &found.sync {
        let why = format!("the directory cannot be written: {why}");
        found.find("disk", why, "make room, or see who may write there; nothing can be appended until then");
    }
    // A log whose first opening was cut off has neither yet.
    if found.head == HeadState::Missing && found.dir.join("db").exists() {
        let what = "HEAD is missing: that the end of the log was cut off would not be noticed";
        found.find(
            "HEAD",
            what,
            "if nobody moved it aside on purpose, compare the log with a copy; opening writes it anew",
        );
    }
}

/// What opening and reading tells.
fn look_inside(store: &SledStore, found: &mut Examined) {
    for note in store.notes() {
        match note {
            // As the ordinary end of a process that was killed leaves it.
            OpenNote::NotClosed { .. } | OpenNote::TailSetAside { .. } => found.notes.push(note.to_string()),
            OpenNote::IndexRebuilt { .. } => {
                found.find("index", note.to_string(), "nothing is lost; see whether the disk is sound");
            }
            _ => found.find("database", note.to_string(), SET_ASIDE),
        }
    }
    // HEAD as it was found: opening has rewritten it since.
    let head = match &found.head {
        HeadState::Whole { head, .. } => Some(head.clone()),
        _ => None,
    };
    let scope = Scope { head: head.as_ref(), ..Scope::default() };
    let verified = audit::verify_within(store, &scope, &mut |_| {});
    for finding in verified.findings.iter().take(5) {
        let place = finding.stream.as_ref().map_or_else(String::new, |stream| format!(" in {stream}"));
        found.find("chain", format!("{}{place}: {}", finding.kind, finding.what), RESTORE);
    }
    let more = verified.findings.len().saturating_sub(5) as u64 + verified.more;
    if more > 0 {
        found.find("chain", format!("{more} more faults"), "`taskreel verify` names each with its place");
    }
    found.unchecked.extend(verified.unchecked.iter().map(|what| String::from(&**what)));
    found.verified = Some(verified);
    match store.trees() {
        Ok(trees) => found.trees = trees,
        Err(error) => found.find("database", error.to_string(), RESTORE),
    }
    match store.look_at_snapshots() {
        Ok(health) => {
            if health.unusable > 0 {
                let first = health.examples.first().cloned().unwrap_or_default();
                let what = format!("{} snapshot(s) do not fit the log: {first}", health.unusable);
                found.find(
                    "snapshots",
                    what,
                    "nothing is lost, their streams are folded from zero; see whether the disk is sound",
                );
            }
            found.snapshots = Some(health);
        }
        Err(error) => found.find("snapshots", error.to_string(), RESTORE),
    }
    if let Err(error) = store.close() {
        found.find("database", error.to_string(), "see that the directory can be written, then ask again");
    }
}

/// Which part an error of opening is about, and what to do.
fn advice_on(error: &OpenError) -> (&'static str, &'static str) {
    match error {
        OpenError::BlobsPresent { .. } => {
            ("blobs/", "these files may not survive a power failure: restore the log from a copy")
        }
        OpenError::EndsBeforeHead { .. } => {
            ("HEAD", "restore the log from a copy; or move HEAD aside to go on without the lost events")
        }
        OpenError::Corrupt { what, .. } if what.starts_with("HEAD") => {
            ("HEAD", "restore HEAD from a copy; or move it aside: then a cut-off end is not noticed")
        }
        OpenError::Io { .. } => {
            ("disk", "see that the directory can be read and written, and that there is room")
        }
        _ => ("database", RESTORE),
    }
}
