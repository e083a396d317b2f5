//! A child process observed from outside, through strace: all that it did to the files below one directory,
//! in order, and what it printed. The real program is traced, unmodified.

mod line;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The variable that marks the child and names its log.
pub(crate) const LOG: &str = "TASKREEL_TRACED_LOG";
/// The variable that names the child's work.
pub(crate) const WORK: &str = "TASKREEL_TRACED_WORK";
/// The test that is the child's entry.
pub(crate) const ENTRY: &str = "the_traced_child";

/// The calls that can change a file, its name or its durability.
const CALLS: &str = "openat,open,creat,close,lseek,write,writev,pwrite64,pwritev,pwritev2,ftruncate,truncate,\
    fallocate,copy_file_range,sendfile,rename,renameat,renameat2,link,linkat,symlink,symlinkat,unlink,unlinkat,\
    mkdir,mkdirat,rmdir,fsync,fdatasync,sync_file_range,msync";

/// The effect of a call. Paths are relative to the traced directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Deed {
    /// A file was created or opened, and emptied if `cut`.
    Made { file: String, cut: bool },
    /// Bytes were written.
    Wrote { file: String, at: u64, bytes: Vec<u8> },
    /// A file was given this length.
    Cut { file: String, bytes: u64 },
    /// A file was renamed.
    Renamed { from: String, to: String },
    /// A file got another name.
    Linked { from: String, to: String },
    /// A name was removed.
    Removed { name: String },
    /// A directory was created.
    MadeDir { name: String },
    /// A file's data was synced, or a directory's names.
    Synced { name: String },
    /// A sync reported an error: what was not synced before is not on the disk, and will not be written again.
    SyncFailed { name: String },
    /// The child printed a line.
    Said(String),
}

/// A call, with the lines of the trace at which it began and ended. Calls with overlapping lines ran
/// concurrently.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) began: usize,
    pub(crate) ended: usize,
    pub(crate) deed: Deed,
}

/// Whether strace is available and may trace. In CI it must be.
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

/// Runs this test binary as the child, and returns its calls that concern `dir`.
pub(crate) fn watch(dir: &Path, work: &str) -> Vec<Call> {
    watch_with(dir, work, &[])
}

/// Runs this test binary as the child with more arguments for strace, and returns its calls that concern `dir`.
pub(crate) fn watch_with(dir: &Path, work: &str, more: &[&str]) -> Vec<Call> {
    let base = tempfile::tempdir().unwrap();
    let out = base.path().join("trace");
    let status = Command::new("strace")
        .args(["-f", "-y", "-s", "100000000", "-e", &format!("trace={CALLS}"), "-e", "signal=none"])
        .args(more)
        .arg("-o")
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

/// Returns the directory and the work, if this process is the child.
pub(crate) fn told() -> Option<(PathBuf, String)> {
    Some((std::env::var_os(LOG)?.into(), std::env::var(WORK).ok()?))
}

/// Prints a line in the child, in one write of its own.
pub(crate) fn say(line: &str) {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush()).unwrap();
}
