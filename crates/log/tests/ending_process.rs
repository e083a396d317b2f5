//! A process that is about to end: its private copies are removed at once, and nothing that its threads still do waits for
//! ever. A program of its own, since the end is that of a whole process.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod store_support;

use std::sync::mpsc::channel;
use std::time::Duration;

use store_support::{closed_log, quick_dir};
use taskreel_log::api::EventReader as _;
use taskreel_log::sled::{ReadOnlyLog, ReadOnlyOptions, remove_private_copies};

#[test]
fn readers_that_are_dropped_after_private_copies_were_removed_end_and_no_further_one_begins() {
    let (log, scratch) = (quick_dir(), quick_dir());
    closed_log(log.path());
    let options = ReadOnlyOptions::default().scratch(scratch.path());
    let open = || ReadOnlyLog::open_with(log.path(), &options);
    let folders = || std::fs::read_dir(scratch.path()).unwrap().count();
    let readers = [open().unwrap(), open().unwrap()];
    assert!(readers[0].head().unwrap().0 > 0);
    assert_eq!(folders(), 2, "each reader has its copy");
    remove_private_copies();
    assert_eq!(folders(), 0, "no copy is left");
    // The end of the program's main function drops what it has, and a signal may come meanwhile.
    let (ended, ends) = channel();
    for reader in readers {
        let (ended, dir, options) = (ended.clone(), log.path().to_owned(), options.clone());
        std::thread::spawn(move || {
            let refused = ReadOnlyLog::open_with(dir, &options).err().map(|error| error.to_string());
            drop(reader);
            remove_private_copies();
            ended.send(refused.unwrap_or_default()).unwrap();
        });
    }
    for _ in 0..2 {
        let refused = ends.recv_timeout(Duration::from_secs(60)).expect("nothing waits for ever");
        assert!(refused.contains("about to end") && !refused.contains("--scratch"), "{refused}");
    }
    assert_eq!(folders(), 0, "nothing was made meanwhile");
}
