//! A child process seen from outside, through strace: what it did to the files below one directory, whole and in
//! order, and what it said meanwhile. The real program is watched; nothing in it knows of this.

mod line;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Tells the test binary that it is the child, and on which log.
pub(crate) const LOG: &str = "TASKREEL_TRACED_LOG";
/// What the child is to do there.
pub(crate) const WORK: &str = "TASKREEL_TRACED_WORK";
/// The test that is the child's entry.
pub(crate) const ENTRY: &str = "the_traced_child";

/// Every call that can change a file, its name or how durable it is.
const CALLS: &str = "openat,open,creat,close,lseek,write,writev,pwrite64,pwritev,pwritev2,ftruncate,truncate,\
    fallocate,copy_file_range,sendfile,rename,renameat,renameat2,link,linkat,symlink,symlinkat,unlink,unlinkat,\
    mkdir,mkdirat,rmdir,fsync,fdatasync,sync_file_range,msync";

/// What a call did. Paths are below the watched directory, and are relative to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Deed {
    /// A file is there now, and empty if it was to be cut.
    Made { file: String, cut: bool },
    /// Bytes were handed over.
    Wrote { file: String, at: u64, bytes: Vec<u8> },
    /// A file has this length now.
    Cut { file: String, bytes: u64 },
    /// A name was given to another file.
    Renamed { from: String, to: String },
    /// A name is gone.
    Removed { name: String },
    /// A directory is there now.
    MadeDir { name: String },
    /// The file's data is on disk; the directory's names are, if it is one.
    Synced { name: String },
    /// The child said a line.
    Said(String),
}

/// A call, with the lines of the trace at which it began and ended. Two calls whose lines overlap ran side by side.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) began: usize,
    pub(crate) ended: usize,
    pub(crate) deed: Deed,
}

/// Whether strace is here and may watch. In CI it has to be.
pub(crate) fn strace_works() -> bool {
    let tried = Command::new("strace").args(["-f", "-o", "/dev/null", "true"]).stderr(Stdio::null()).status();
    let works = tried.is_ok_and(|status| status.success());
    let ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
    assert!(works || !ci, "strace is missing or may not watch; with CI=true that is a failure");
    if !works {
        eprintln!(
            "NOT CHECKED: strace is missing or may not watch, so nothing is known of syncs and lost writes"
        );
    }
    works
}

/// Runs this very test binary as the child, and answers what it did to `dir`.
pub(crate) fn watch(dir: &Path, work: &str) -> Vec<Call> {
    let base = tempfile::tempdir().unwrap();
    let out = base.path().join("trace");
    let status = Command::new("strace")
        .args(["-f", "-y", "-s", "100000000", "-e", &format!("trace={CALLS}"), "-e", "signal=none", "-o"])
        .arg(&out)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", ENTRY, "--nocapture", "--test-threads=1"])
        .env(LOG, dir)
        .env(WORK, work)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "the child failed at `{work}`: {status}");
    let calls = line::read(&std::fs::read(out).unwrap(), dir);
    assert!(!calls.is_empty(), "nothing was seen of `{work}`");
    calls
}

/// In the child: the directory and the work, if this is the child.
pub(crate) fn told() -> Option<(PathBuf, String)> {
    Some((std::env::var_os(LOG)?.into(), std::env::var(WORK).ok()?))
}

/// In the child: says a line, in one write of its own.
pub(crate) fn say(line: &str) {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush()).unwrap();
}
