//! A disk of a few megabytes, mounted for one test and unmounted with it, whatever the result of the test.
#![allow(dead_code, reason = "each test program uses its own part of this")]
#![allow(clippy::unwrap_used, reason = "helpers of tests only")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use tempfile::TempDir;

/// The maximum time of an operation on a full disk before it counts as a hang.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(10);

/// The mounted disk. Dropping it unmounts it, also when a test panics.
pub(crate) struct SmallDisk {
    dir: TempDir,
}

impl SmallDisk {
    /// Mounts a disk of this many KiB; none if this user may not mount.
    pub(crate) fn mount(kib: u32) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mounted = mount(&["-t", "tmpfs", "-o", &format!("size={kib}k"), "tmpfs"], dir.path());
        mounted.then_some(Self { dir })
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the directory for a log.
    pub(crate) fn log(&self) -> PathBuf {
        self.path().join("log")
    }

    /// Enlarges the disk to this many KiB.
    pub(crate) fn enlarge(&self, kib: u32) {
        assert!(mount(&["-o", &format!("remount,size={kib}k")], self.path()));
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily, so that a hanging thread does not keep it.
        let unmounted = Command::new("umount").arg("--lazy").arg(self.path()).status();
        assert!(unmounted.is_ok_and(|status| status.success()) || std::thread::panicking());
    }
}

fn mount(options: &[&str], at: &Path) -> bool {
    let mut command = Command::new("mount");
    let status = command.args(options).arg(at).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Runs `work` on a thread of its own, and fails if it takes too long.
#[track_caller]
pub(crate) fn in_time<R: Send + 'static>(what: &str, work: impl FnOnce() -> R + Send + 'static) -> R {
    let (done, answer) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let _nobody_waits_any_more = done.send(work());
    });
    match answer.recv_timeout(WATCHDOG) {
        Ok(answer) => answer,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{what} hangs"),
        Err(mpsc::RecvTimeoutError::Disconnected) => match thread.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => unreachable!("it ended with an answer or a panic"),
        },
    }
}
