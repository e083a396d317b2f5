//! The examination of a log's directory, with advice about each finding. Above [`audit`](crate::audit),
//! [`views`](crate::views) and [`sled`](crate::sled).

pub(crate) mod disk;
pub(crate) mod kept_secrets;
pub(crate) mod salvage;

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::api::error::OpenError;
use crate::api::holder::Holder;
use crate::api::note::OpenNote;
use crate::api::store::EventStore;
use crate::audit::verify::finding::FindingKind;
use crate::audit::verify::report::{Scope, Verified};
use crate::audit::verify::verifier;
use crate::audit::words::tool_server;
pub use crate::doctor::disk::{PartSize, SyncCost};
pub use crate::doctor::salvage::{Gap, SalvageError, SalvageReport, salvage};
use crate::engine::head::Head;
use crate::sled::dir::{LogHeader, blob_files, log_header};
use crate::sled::index::REQUESTED;
use crate::sled::options::SledOptions;
use crate::sled::sizes::TreeSize;
use crate::sled::store::SledStore;
use crate::views::{ChangedTool, changed_tools, tool_servers};

/// A finding: what is wrong, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Advice {
    /// The part of the log.
    pub part: &'static str,
    /// The fault in words.
    pub what: String,
    /// The advice.
    pub advice: &'static str,
}

/// The state of the file `HEAD` before the log was opened, which rewrites it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeadState {
    /// The file does not exist.
    Missing,
    /// The contents are not what was written.
    Unreadable(String),
    /// The file is intact.
    Whole {
        /// The end of the log when it was written.
        head: Head,
        /// The time since it was written, if it can be determined.
        age: Option<Duration>,
    },
}

/// The result of an examination.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Examined {
    /// The directory.
    pub dir: PathBuf,
    /// The log's header.
    pub header: LogHeader,
    /// Whether another process has the log open; its parts could not be examined then.
    pub is_held: bool,
    /// The process that has the log open, if it recorded its name.
    pub holder: Option<Holder>,
    /// The sizes of the files, by kind.
    pub sizes: Vec<PartSize>,
    /// The cost of a sync in this directory.
    pub sync: Result<SyncCost, String>,
    /// The file `HEAD`.
    pub head: HeadState,
    /// The number of files that the database never syncs; must be 0.
    pub blobs: usize,
    /// The trees of the database, if the log could be opened.
    pub trees: Vec<TreeSize>,
    /// The notes of opening, which are not faults: for example that the log had not been closed.
    pub notes: Vec<String>,
    /// The result of verifying index and chain, if the log could be opened.
    pub verified: Option<Verified>,
    /// The faults found.
    pub findings: Vec<Advice>,
    /// The parts that could not be examined, in words.
    pub unchecked: Vec<String>,
}

impl Examined {
    /// Whether there are no findings.
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty()
    }

    fn find(&mut self, part: &'static str, what: impl Into<String>, advice: &'static str) {
        self.findings.push(Advice { part, what: what.into(), advice });
    }
}

const RESTORE: &str =
    "copy the directory first; then restore the log from a copy, or export what can still be read";

const REBUILD: &str = "the index is a cache: `taskreel doctor --rebuild-index` builds it anew from the log";

const SET_ASIDE: &str = "no acknowledged event is lost; keep the files that were set aside until the cause is known, and check the disk";

/// Examines the log in `dir`. A directory without a log is left unchanged. A log that no process holds is
/// opened.
///
/// # Errors
/// [`OpenError`] if there is no log that this program can read.
pub fn examine(dir: &Path) -> Result<Examined, OpenError> {
    examine_with(dir, SledOptions { create: false, ..SledOptions::default() })
}

/// Examines the log in `dir` after its index was rebuilt from the whole log. The index is a cache: nothing is lost.
///
/// # Errors
/// [`OpenError`] if there is no log that this program can read.
pub fn rebuild_index(dir: &Path) -> Result<Examined, OpenError> {
    examine_with(dir, SledOptions { create: false, rebuild_index: true, ..SledOptions::default() })
}

fn examine_with(dir: &Path, options: SledOptions) -> Result<Examined, OpenError> {
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
        findings: Vec::new(),
        unchecked: Vec::new(),
    };
    check_files(&mut found);
    match SledStore::open_with(dir, options) {
        Ok(store) => check_contents(&store, &mut found),
        Err(OpenError::Held { holder, .. }) => {
            found.is_held = true;
            found.holder = holder;
            found.unchecked.push("chain, index and trees: another process has the log open".to_owned());
        }
        Err(error) => {
            let (part, advice) = advice_on(&error);
            found.find(part, error.to_string(), advice);
            found.unchecked.push("chain, index and trees: the log cannot be opened".to_owned());
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

/// Examines the files without opening the log.
fn check_files(found: &mut Examined) {
    match blob_files(&found.dir) {
        Ok(files) => found.blobs = files.len(),
        Err(error) => found.unchecked.push(format!("blobs/: {error}")),
    }
    if let Err(why) = &found.sync {
        let why = format!("the directory cannot be written: {why}");
        found.find(
            "disk",
            why,
            "free some space, or check the permissions of the directory; nothing can be appended until then",
        );
    }
    // A log whose first opening was interrupted has neither yet.
    if found.head == HeadState::Missing && found.dir.join("db").exists() {
        let what = "HEAD is missing: a log whose end was cut off would not be detected";
        found.find(
            "HEAD",
            what,
            "unless it was moved aside on purpose, compare the log with a copy; opening the log rewrites HEAD",
        );
    }
}

/// Examines the open log.
fn check_contents(store: &SledStore, found: &mut Examined) {
    for note in store.notes() {
        match note {
            // The usual state after a process was killed, or of a log of an earlier release.
            OpenNote::NotClosed { .. } | OpenNote::TailSetAside { .. } => {
                found.notes.push(note.to_string());
            }
            OpenNote::HeadOlder { .. } => {
                found.find(
                    "HEAD",
                    note.to_string(),
                    "find out who replaced HEAD; compare the log with a copy",
                );
            }
            OpenNote::IndexRebuilt { why } if why == REQUESTED => found.notes.push(note.to_string()),
            OpenNote::IndexRebuilt { .. } => {
                found.find("index", note.to_string(), "nothing is lost; check the disk");
            }
            _ => found.find("database", note.to_string(), SET_ASIDE),
        }
    }
    // HEAD as it was before opening rewrote it.
    let head = match &found.head {
        HeadState::Whole { head, .. } => Some(head.clone()),
        _ => None,
    };
    let scope = Scope { head: head.as_ref(), ..Scope::default() };
    let verified = verifier::verify_within(store, &scope, &mut |_| {});
    for finding in verified.findings.iter().take(5) {
        let place = finding.stream.as_ref().map_or_else(String::new, |stream| format!(" in {stream}"));
        let (part, advice) = match finding.kind {
            FindingKind::Newer => {
                ("format", "nothing is damaged: use the release of taskreel that wrote it, or a newer one")
            }
            FindingKind::Index => ("index", REBUILD),
            _ => ("chain", RESTORE),
        };
        found.find(part, format!("{}{place}: {}", finding.kind, finding.what), advice);
    }
    let more = verified.findings.len().saturating_sub(5) as u64 + verified.findings_dropped;
    if more > 0 {
        found.find(
            "chain",
            format!("{more} more faults"),
            "`taskreel verify` lists each fault with its stream and position",
        );
    }
    found.unchecked.extend(verified.unchecked.iter().map(|what| String::from(&**what)));
    found.verified = Some(verified);
    for (what, advice) in kept_secrets::faults(&found.dir, store) {
        found.find("secrets", what, advice);
    }
    check_tasks(store, found);
    match store.trees() {
        Ok(trees) => found.trees = trees,
        Err(error) => found.find("database", error.to_string(), RESTORE),
    }
    if let Err(error) = store.close() {
        found.find(
            "database",
            error.to_string(),
            "check that the directory can be written, then run the command again",
        );
    }
}

/// Notes the tasks in flight that used a tool that has changed.
fn check_tasks(store: &SledStore, found: &mut Examined) {
    match changed_tools(store) {
        Ok(changed) => found.notes.extend(changed.iter().map(note_of)),
        Err(error) => found.unchecked.push(format!("changed tools of tasks in flight: {error}")),
    }
    match tool_servers(store) {
        Ok(servers) => found.notes.extend(servers.iter().map(|seen| {
            let agent = &seen.agent;
            format!("when a program last wrote here, {}, for the agent {agent}", tool_server(seen))
        })),
        Err(error) => found.unchecked.push(format!("servers of tools: {error}")),
    }
}

/// Returns the note about a tool that changed under a task in flight.
fn note_of(changed: &ChangedTool) -> String {
    let ChangedTool { task, tool, what, is_held } = changed;
    let then = if *is_held {
        "it waits for a person, `taskreel calls` lists the approval"
    } else {
        "it goes on with the newest definition"
    };
    format!("{task} in flight used the tool `{tool}`, which has changed since: {what}; {then}")
}

/// Returns the part that an opening error is about, and the advice.
fn advice_on(error: &OpenError) -> (&'static str, &'static str) {
    match error {
        OpenError::BlobsPresent { .. } => {
            ("blobs/", "these files may not survive a power failure: restore the log from a copy")
        }
        OpenError::EndsBeforeHead { .. } => {
            ("HEAD", "restore the log from a copy; or move HEAD aside to continue without the lost events")
        }
        OpenError::Corrupt { what, .. } if what.starts_with("HEAD") => (
            "HEAD",
            "restore HEAD from a copy; or move it aside: a log whose end was cut off is then not detected",
        ),
        OpenError::Newer { .. } => {
            ("format", "nothing is damaged: use the release of taskreel that wrote it, or a newer one")
        }
        OpenError::Io { .. } => {
            ("disk", "check that the directory can be read and written, and that the disk has free space")
        }
        _ => ("database", RESTORE),
    }
}
