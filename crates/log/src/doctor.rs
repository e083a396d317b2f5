//! The examination of a log's directory, with advice about each finding. Above [`audit`](crate::audit),
//! [`views`](crate::views) and [`sled`](crate::sled).

pub(crate) mod disk;
pub(crate) mod kept_secrets;
pub(crate) mod salvage;

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::api::error::{OpenError, ReadError};
use crate::api::holder::Holder;
use crate::api::note::OpenNote;
use crate::api::reader::EventReader;
use crate::api::store::EventStore as _;
use crate::audit::verify::finding::FindingKind;
use crate::audit::verify::report::{Scope, VerifyReport};
use crate::audit::verify::verifier;
use crate::audit::words::tool_server;
pub use crate::doctor::disk::{NoSync, PartSize, SyncCost};
pub use crate::doctor::salvage::{Gap, SalvageError, SalvageReport, salvage};
use crate::engine::head::Head;
use crate::sled::dir::{LogHeader, blob_files, is_held, log_header};
use crate::sled::index::REQUESTED;
use crate::sled::options::{ReadOnlyOptions, SledOptions};
use crate::sled::read_only::ReadOnlyLog;
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

/// The state of the file `HEAD`, read before anything else.
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
pub struct Examination {
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
    pub sync: Result<SyncCost, NoSync>,
    /// The file `HEAD`.
    pub head: HeadState,
    /// The number of files that the database never syncs; must be 0.
    pub blobs: usize,
    /// The trees of the database, if the log could be opened.
    pub trees: Vec<TreeSize>,
    /// The notes of opening, which are not faults: for example that the log had not been closed.
    pub notes: Vec<String>,
    /// The result of verifying index and chain, if the log could be opened.
    pub verified: Option<VerifyReport>,
    /// The faults found.
    pub findings: Vec<Advice>,
    /// The parts that could not be examined, in words.
    pub unchecked: Vec<String>,
}

impl Examination {
    /// Whether there are no findings.
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty()
    }

    fn held_by(&mut self, holder: Option<Holder>) {
        self.is_held = true;
        self.holder = holder;
        self.unchecked.push("chain, index and trees: another process has the log open".to_owned());
    }

    fn cannot_open(&mut self, error: &OpenError) {
        let (part, advice) = advice_on(error);
        self.find(part, error.to_string(), advice);
        self.unchecked.push("chain, index and trees: the log cannot be opened".to_owned());
    }

    fn find(&mut self, part: &'static str, what: impl Into<String>, advice: &'static str) {
        self.findings.push(Advice { part, what: what.into(), advice });
    }
}

const RESTORE: &str = "copy the directory first; then restore the log from a copy, or save what can still be read with `taskreel salvage`";

const REBUILD: &str = "the index is a cache: `taskreel doctor --rebuild-index` builds it anew from the log";

const SET_ASIDE: &str = "no acknowledged event is lost; keep the files that were set aside until the cause is known, and check the disk";

/// Examines the log in `dir`, which is left as it is: what it holds is read from a private copy.
///
/// # Errors
/// [`OpenError`] if no log exists that this program can read.
pub fn examine(dir: &Path) -> Result<Examination, OpenError> {
    examine_with(dir, &ReadOnlyOptions::default())
}

/// Examines the log in `dir` as [`examine`] does, with options for the private copy.
///
/// # Errors
/// [`OpenError`] if no log exists that this program can read.
pub fn examine_with(dir: &Path, options: &ReadOnlyOptions) -> Result<Examination, OpenError> {
    let mut found = examine_files(dir)?;
    if is_held(dir) {
        found.held_by(Holder::read(dir));
        return Ok(found);
    }
    match ReadOnlyLog::open_with(dir, options) {
        Ok(log) => check_contents(&log, log.open_notes(), log.trees(), &mut found),
        Err(error) => found.cannot_open(&error),
    }
    Ok(found)
}

/// Examines the log in `dir` while a program has it open: its files as [`examine`] does, and its contents through `reader`,
/// which reads them from that program.
///
/// # Errors
/// [`OpenError`] if no log exists that this program can read.
pub fn examine_through(dir: &Path, reader: &dyn EventReader) -> Result<Examination, OpenError> {
    let mut found = examine_files(dir)?;
    (found.is_held, found.holder) = (true, Holder::read(dir));
    check_contents(reader, &[], Ok(Vec::new()), &mut found);
    found.unchecked.push("trees: another process has the log open".to_owned());
    Ok(found)
}

/// Rebuilds the index of the log in `dir` from the whole log, and examines the log after it. The index is a cache:
/// nothing is lost.
///
/// # Errors
/// [`OpenError`] if no log exists that this program can read.
pub fn rebuild_index(dir: &Path) -> Result<Examination, OpenError> {
    let mut found = examine_files(dir)?;
    let options = SledOptions { create: false, rebuild_index: true, ..SledOptions::default() };
    match SledStore::open_with(dir, options) {
        Ok(store) => {
            check_contents(&store, store.open_notes(), store.trees(), &mut found);
            if let Err(error) = store.close() {
                found.find(
                    "database",
                    error.to_string(),
                    "check that the directory can be written, then run the command again",
                );
            }
        }
        Err(OpenError::Held { holder, .. }) => found.held_by(holder),
        Err(error) => found.cannot_open(&error),
    }
    Ok(found)
}

fn examine_files(dir: &Path) -> Result<Examination, OpenError> {
    let header = log_header(dir)?;
    let mut found = Examination {
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
fn check_files(found: &mut Examination) {
    match blob_files(&found.dir) {
        Ok(files) => found.blobs = files.len(),
        Err(error) => found.unchecked.push(format!("blobs/: {error}")),
    }
    match &found.sync {
        Ok(_) => {}
        Err(NoSync::NotAllowed(why)) => {
            found.unchecked.push(format!("cost of a sync: this user cannot write to the directory: {why}"));
        }
        Err(NoSync::NotKnown) => found.unchecked.push(
            "cost of a sync: this file system has no files without a name, and none is left in the directory"
                .to_owned(),
        ),
        Err(NoSync::Failed(why)) => {
            let why = format!("the directory cannot be written: {why}");
            found.find("disk", why, "free some space, or check the disk; nothing can be appended until then");
        }
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
fn check_contents(
    store: &dyn EventReader,
    notes: &[OpenNote],
    trees: Result<Vec<TreeSize>, ReadError>,
    found: &mut Examination,
) {
    for note in notes {
        match note {
            // The usual state after a process was killed, or of a log of an earlier release.
            OpenNote::NotClosed { .. } | OpenNote::TailSetAside { .. } | OpenNote::TailIncomplete { .. } => {
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
            OpenNote::IndexUnfit { .. } => found.find("index", note.to_string(), REBUILD),
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
    found.notes.extend(verified.notes.iter().take(5).cloned());
    let more = verified.findings.len().saturating_sub(5) as u64 + verified.findings_dropped;
    if more > 0 {
        found.find(
            "chain",
            format!("{more} more faults"),
            "`taskreel verify` lists each fault with its stream and position",
        );
    }
    if let Some(error @ ReadError::Io(_)) = &verified.failed {
        found.find("disk", error.to_string(), "check that the disk works, then run the same command again");
    }
    found.unchecked.extend(verified.unchecked.iter().map(|what| String::from(&**what)));
    found.verified = Some(verified);
    if kept_secrets::are_hidden(&found.dir) {
        found.unchecked.push("secrets: only the user who owns them can read the folder".to_owned());
    } else {
        for (what, advice) in kept_secrets::faults(&found.dir, store) {
            found.find("secrets", what, advice);
        }
    }
    check_tasks(store, found);
    match trees {
        Ok(trees) => found.trees = trees,
        Err(error) => found.find("database", error.to_string(), RESTORE),
    }
}

/// Notes the tasks in flight that used a tool that has changed.
fn check_tasks(store: &dyn EventReader, found: &mut Examination) {
    match changed_tools(store) {
        Ok(changed) => {
            found.notes.extend(changed.rows.iter().map(note_of));
            let newer =
                changed.newer.iter().map(|error| format!("changed tools of a task in flight: {error}"));
            found.unchecked.extend(newer);
        }
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
        OpenError::NoRoom { .. } => {
            ("disk", "free some space, or name a folder on another disk with --scratch")
        }
        OpenError::Io { .. } => {
            ("disk", "check that the directory can be read and written, and that the disk has free space")
        }
        _ => ("database", RESTORE),
    }
}
