//! A log that was opened by a relative path stays the same one when the program changes its working directory. This program has one
//! test, since the working directory is that of the whole process.
#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, reason = "in a test a panic is the answer, in helpers too")]

mod store_support;

use std::path::Path;
use std::time::{Duration, Instant};

use store_support::quick_dir;
use taskreel_log::api::{EventReader as _, EventStore as _};
use taskreel_log::sled::{ReadOnlyLog, ReadOnlyOptions, SledStore};
use taskreel_log::testing::conformance::{Author, stream};

/// The time within which `HEAD` must have been written again.
const WITHIN: Duration = Duration::from_secs(30);

fn entries(folder: &Path) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

#[tokio::test]
async fn a_log_that_was_opened_by_a_relative_path_is_written_and_read_where_it_is_after_the_working_directory_changes()
 {
    let (folder, elsewhere) = (quick_dir(), quick_dir());
    std::env::set_current_dir(folder.path()).unwrap();
    let store = SledStore::open(Path::new("log")).unwrap();
    let mut author = Author::new(store.fence());
    store.append(author.append_one(&stream("s"), b"before")).await.unwrap();
    std::env::set_current_dir(elsewhere.path()).unwrap();
    let (dir, since) = (folder.path().join("log"), Instant::now());
    let head = std::fs::read(dir.join("HEAD")).unwrap();
    while std::fs::read(dir.join("HEAD")).unwrap() == head {
        assert!(since.elapsed() < WITHIN, "`HEAD` is not written any more");
        store.append(author.append_one(&stream("s"), b"behind")).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let end = store.head().unwrap();
    store.close().unwrap();
    assert_eq!(entries(elsewhere.path()), 0);
    let opened = SledStore::open(&dir).unwrap();
    assert_eq!((opened.head().unwrap(), opened.open_notes().len()), (end, 0), "{:?}", opened.open_notes());
    opened.close().unwrap();

    // A look at the closed log: a survey needs the whole copy of it, which is made only then.
    std::env::set_current_dir(folder.path()).unwrap();
    let options = ReadOnlyOptions::default().scratch("copies").in_place();
    let looked = ReadOnlyLog::open_with("log", &options).unwrap();
    std::env::set_current_dir(elsewhere.path()).unwrap();
    let mut surveyed = 0;
    looked.survey(&mut |record| surveyed += u64::from(record.is_ok()));
    assert_eq!(surveyed, end.0);
    drop(looked);
    assert_eq!(entries(&folder.path().join("copies")), 0, "the copies are removed");
    assert_eq!(entries(elsewhere.path()), 0);
    std::env::set_current_dir(std::env::temp_dir()).unwrap();
}
