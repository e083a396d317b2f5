//! A device that cannot write back: an ext4 on a loop device over a file in memory, whose file system is then
//! filled up. Linux marks the pages clean all the same. No panic reaches the caller, and nothing is said to be
//! in the log that a power failure would take away.
//!
//! Needs root and loop devices. Where they are missing, the test says so and passes, and `.ci/run` notes it;
//! `failed_syncs.rs` is the same without a device.
#![cfg(all(feature = "testing", target_os = "linux"))]
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "in a test a panic is the answer, in helpers too; a test that is not run says so"
)]

mod store_support;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use store_support::runtime;
use taskreel_log::api::{AppendError, EventReader as _, EventStore, OpenError};
use taskreel_log::sled::SledStore;
use taskreel_log::testing::conformance::{Author, check_log, stream};

/// Whether this machine lets the test mount file systems and has loop devices. What fails after that is a failure.
fn has_devices() -> bool {
    let root = tempfile::tempdir().unwrap();
    Mounted::memory(root.path(), "1m").is_some() && run("losetup", &["-f"]).is_some()
}

/// Runs a command; `None` if it fails.
fn run(program: &str, args: &[&str]) -> Option<String> {
    let done = Command::new(program).args(args).stderr(Stdio::null()).stdin(Stdio::null()).output().ok()?;
    done.status.success().then(|| String::from_utf8_lossy(&done.stdout).trim().to_owned())
}

/// A file system that ends with the test.
struct Mounted(PathBuf);

impl Mounted {
    fn memory(at: &Path, size: &str) -> Option<Self> {
        fs::create_dir_all(at).unwrap();
        run("mount", &["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs", at.to_str().unwrap()])?;
        Some(Self(at.to_owned()))
    }

    fn device(device: &Loop, at: &Path) -> Option<Self> {
        fs::create_dir_all(at).unwrap();
        run("mount", &[&device.0, at.to_str().unwrap()])?;
        Some(Self(at.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // A lazy one: a failed test may still have files open.
        let _ = run("umount", &["-l", self.0.to_str().unwrap()]);
    }
}

/// A loop device that ends with the test.
struct Loop(String);

impl Loop {
    fn over(file: &Path) -> Option<Self> {
        let device = Self(run("losetup", &["-f", "--show", file.to_str().unwrap()])?);
        let name = device.0.strip_prefix("/dev/")?;
        // The loop driver takes a request of which a part was written for written.
        fs::write(format!("/sys/block/{name}/queue/max_sectors_kb"), "4").ok()?;
        Some(device)
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = run("losetup", &["-d", &self.0]);
    }
}

/// The device and the file system on it, in the order in which they must end.
struct Device {
    disk: Mounted,
    _loop: Loop,
    backing: Mounted,
    root: tempfile::TempDir,
}

impl Device {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let backing = Mounted::memory(&root.path().join("backing"), "64m").expect("a tmpfs");
        let image = backing.0.join("image");
        run("fallocate", &["-l", "48M", image.to_str().unwrap()]).expect("fallocate");
        // A block of the file system is a page of the file in memory: it has room as a whole or not at all.
        let options = "lazy_itable_init=0,lazy_journal_init=0,nodiscard";
        run("mkfs.ext4", &["-q", "-F", "-b", "4096", "-J", "size=4", "-E", options, image.to_str().unwrap()])
            .expect("mkfs.ext4, of the package e2fsprogs");
        // Making it has given back places that it zeroed, such as those of its journal.
        run("fallocate", &["-l", "48M", image.to_str().unwrap()]).expect("fallocate");
        let device = Loop::over(&image).expect("a loop device");
        let disk = Mounted::device(&device, &root.path().join("disk")).expect("an ext4");
        // The file system's own structures have their places; only data can be refused later.
        run("fstrim", &[disk.0.to_str().unwrap()]).expect("fstrim");
        run("sync", &["-f", disk.0.to_str().unwrap()]).expect("sync");
        Self { disk, _loop: device, backing, root }
    }

    fn filler(&self) -> PathBuf {
        self.backing.0.join("filler")
    }

    /// From now on the device refuses to write to new places.
    fn fill_up(&self) {
        use std::io::Write as _;
        let mut filler = fs::File::create(self.filler()).unwrap();
        while filler.write_all(&[1; 4096]).is_ok() {}
    }

    fn free(&self) {
        fs::remove_file(self.filler()).unwrap();
    }

    /// Opens the log as it is on the device, without what only the page cache has.
    fn after_power_loss<T>(&self, query: impl FnOnce(&SledStore) -> T) -> T {
        let copy = self.root.path().join("copy");
        fs::create_dir_all(&copy).unwrap();
        let image = copy.join("image");
        run(
            "cp",
            &["--sparse=always", self.backing.0.join("image").to_str().unwrap(), image.to_str().unwrap()],
        )
        .unwrap();
        let device = Loop::over(&image).unwrap();
        let disk = Mounted::device(&device, &copy.join("disk")).unwrap();
        let store = SledStore::open(disk.0.join("log"));
        let store = store.unwrap_or_else(|why| panic!("after a power loss it does not open: {why}"));
        let answer = query(&store);
        store.close().unwrap();
        drop(store);
        drop(disk);
        answer
    }
}

/// Appends until the device fails, reopens the log and compares its verdict with the device. Returns false if
/// the file system itself gave up, after which nothing can be written to it.
fn try_out(device: &Device, bytes: usize, refusals: usize) -> bool {
    let log = device.disk.0.join("log");
    let store = SledStore::open(&log).unwrap();
    let mut author = Author::new(store.fence());
    for n in 0..5_u8 {
        store_support::append(&store, author.append_one(&stream("acknowledged"), &[n; 2_000]));
    }
    device.fill_up();
    let append = loop {
        let append = author.append_one(&stream("in-doubt"), &vec![7; bytes]);
        match runtime().block_on(store.append(append.clone())) {
            Ok(_) => {}
            Err(AppendError::Ambiguous { .. }) => break append,
            Err(other) => panic!("{other}"),
        }
    };
    let acknowledged = store.head().unwrap().0;
    // The device still refuses: an error, and no panic. What the failed write left may be gone from the cache by
    // then, and the rest needs no new place.
    let mut reopened = None;
    for _ in 0..refusals {
        match store.reopen() {
            Err(OpenError::Io { .. }) => {}
            Err(other) => panic!("a full device was told as: {other}"),
            Ok(store) => {
                eprintln!("reopened while full: {}", store.head().unwrap());
                reopened = Some(store);
                break;
            }
        }
    }
    device.free();
    let reopened = match reopened.map_or_else(|| store.reopen(), Ok) {
        Err(OpenError::Io { source, .. }) if source.kind() == ErrorKind::ReadOnlyFilesystem => return false,
        other => other.unwrap(),
    };
    let landed = reopened.resolve(append.set_id).unwrap().is_some();
    let mut author = author.with_fence(reopened.fence()).with_sets_from(9_000);
    runtime().block_on(reopened.append(author.append_one(&stream("later"), b"x"))).unwrap();
    let told = reopened.head().unwrap().0;
    assert!(told > acknowledged);
    let (there, end) =
        device.after_power_loss(|store| (store.resolve(append.set_id).unwrap().is_some(), check_log(store)));
    eprintln!("failing device: {acknowledged} acknowledged, {bytes} bytes in doubt landed: {landed}");
    assert_eq!(there, landed, "what was said of it does not hold after a power loss");
    assert_eq!(end, told);
    reopened.close().unwrap();
    true
}

#[test]
fn what_a_reopened_log_says_has_landed_survives_a_power_loss_on_a_device_that_had_failed() {
    if !has_devices() {
        eprintln!("NOT CHECKED: no root or no loop devices; failed_syncs.rs needs none");
        return;
    }
    for (bytes, refusals) in [(40_000, 0), (40_000, 3), (2_000_000, 0), (2_000_000, 3)] {
        // Sometimes the journal of the file system needs a new place too, and then ends the file system.
        let tried = (0..20).any(|_| try_out(&Device::new(), bytes, refusals));
        assert!(tried, "the file system gave up each time");
    }
}
