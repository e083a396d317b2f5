//! Acknowledged means durable: a process is traced with strace while it appends, and for each acknowledged
//! append, all that was written of it had gone through `fdatasync` before.
#![cfg(feature = "testing")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "in a test a panic is the answer, in helpers too; a run that could not be watched says so"
)]

mod store_support;
mod traced;

use std::collections::BTreeMap;
use std::path::Path;

use futures_util::future::join_all;
use store_support::runtime;
use taskreel_log::api::{Append, Durability, EventStore as _};
use taskreel_log::sled::{SledOptions, SledStore, blob_files};
use taskreel_log::testing::conformance::{Author, stream};
use traced::{Call, Deed};

/// The size of a body that just fits its record, in bytes.
const LARGE: usize = 55 * 1024;
/// The size of the largest body, in bytes: it is stored in chunks.
const LARGEST: usize = 16 * 1024 * 1024;

/// Returns a body that can be recognized in a trace from any piece of it.
fn body(number: usize, bytes: usize) -> Vec<u8> {
    mark(number).into_bytes().into_iter().cycle().take(bytes).collect()
}

fn mark(number: usize) -> String {
    format!("<{number:06}>")
}

/// Returns appends of all shapes: alone and in groups, small and of the largest size, of one part and of
/// many.
fn load(author: &mut Author) -> Vec<Vec<Append>> {
    let mut number = 0;
    let mut next = |bytes: usize| {
        number += 1;
        (stream(&format!("of-{number}")), vec![body(number, bytes)])
    };
    let shapes: &[(usize, usize, usize)] = &[
        (6, 1, 100),
        (3, 1, LARGE),
        (1, 64, 300),
        (1, 40, LARGE),
        (1, 12, 20_000),
        (1, 1, LARGEST),
        (1, 3, 700_000),
        (4, 1, 10),
    ];
    let mut rounds = Vec::new();
    for (times, at_once, bytes) in shapes {
        for _ in 0..*times {
            rounds.push((0..*at_once).map(|_| author.many(&[next(*bytes)])).collect());
        }
    }
    let many: Vec<_> = (0..30).map(|_| next(LARGE)).collect();
    rounds.push(vec![author.many(&many)]);
    rounds
}

/// Returns the numbers of the bodies in an append.
fn numbers(append: &Append) -> Vec<String> {
    let names = append.parts.iter().map(|part| part.stream.id());
    names.map(|name| name.trim_start_matches("of-").to_owned()).collect()
}

/// Entry of the process that the others trace; not a test of its own.
#[test]
fn the_traced_child() {
    let Some((dir, durability)) = traced::told() else {
        return;
    };
    let durability = Durability::of_name(&durability).unwrap();
    let store =
        SledStore::open_with(dir, SledOptions { durability: Some(durability), ..SledOptions::default() })
            .unwrap();
    let mut author = Author::new(store.fence());
    runtime().block_on(async {
        for round in load(&mut author) {
            let told = round.into_iter().map(|append| {
                let acknowledged = format!("ACK {}", numbers(&append).join(" "));
                let appended = store.append(append);
                async move {
                    appended.await.unwrap();
                    traced::say(&acknowledged);
                }
            });
            join_all(told).await;
        }
    });
    store.close().unwrap();
}

/// Checks that all that was written of each acknowledged body was synced before the acknowledgement. Returns
/// a violation, or the number of bodies checked.
fn check(calls: &[Call]) -> Result<usize, String> {
    let mut writes: BTreeMap<usize, Vec<&Call>> = BTreeMap::new();
    for call in calls {
        if let Deed::Wrote { file, bytes, .. } = &call.deed
            && file == "db"
        {
            for number in marked(bytes) {
                writes.entry(number).or_default().push(call);
            }
        }
    }
    let syncs: Vec<_> = calls.iter().filter(|call| call.deed == Deed::Synced { name: "db".into() }).collect();
    let mut seen = 0;
    for call in calls {
        let Deed::Said(line) = &call.deed else { continue };
        let Some(acknowledged) = line.strip_prefix("ACK ") else { continue };
        for number in acknowledged.split(' ').map(|number| number.parse().unwrap()) {
            let of_it = writes.get(&number).ok_or_else(|| format!("body {number} was never written"))?;
            // Later writes of the same body, such as sled moving a page, do not count.
            let last = of_it.iter().filter(|write| write.began < call.began).map(|write| write.ended).max();
            let last = last.ok_or_else(|| format!("body {number} was acknowledged before it was written"))?;
            if !syncs.iter().any(|sync| sync.began > last && sync.ended < call.began) {
                return Err(format!("body {number} was acknowledged, and not synced after its last write"));
            }
            seen += 1;
        }
    }
    Ok(seen)
}

/// Returns the numbers of all bodies with a piece among these bytes.
fn marked(bytes: &[u8]) -> Vec<usize> {
    let mut found: Vec<usize> = Vec::new();
    let mut at = 0;
    while let Some(next) = bytes[at..].iter().position(|byte| *byte == b'<') {
        at += next + 1;
        let digits = bytes.get(at..at + 7).filter(|piece| piece[6] == b'>');
        let number = digits.and_then(|piece| std::str::from_utf8(&piece[..6]).ok()?.parse().ok());
        if let Some(number) = number
            && found.last() != Some(&number)
        {
            found.push(number);
        }
    }
    found
}

fn watched(dir: &Path, durability: Durability) -> Vec<Call> {
    let log = dir.join("log");
    std::fs::create_dir(&log).unwrap();
    let calls = traced::watch(&log, durability.name());
    assert_eq!(blob_files(&log).unwrap(), Vec::<std::path::PathBuf>::new());
    let blobs = |call: &&Call| matches!(&call.deed, Deed::Made { file, .. } if file.starts_with("blobs/"));
    assert_eq!(calls.iter().filter(blobs).count(), 0, "a blob file came and went");
    calls
}

#[test]
fn every_acknowledged_append_went_through_fdatasync_and_no_blob_file_is_made() {
    if !traced::strace_works() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let calls = watched(dir.path(), Durability::Strict);
    let seen = check(&calls).unwrap();
    let mut author = Author::new(taskreel_log::api::Fence { partition: 0, epoch: 1 });
    let expected: usize = load(&mut author).iter().flatten().map(|append| append.parts.len()).sum();
    assert_eq!(seen, expected, "some were never acknowledged");
    let syncs = calls.iter().filter(|call| call.deed == Deed::Synced { name: "db".into() }).count();
    eprintln!("durability: {seen} bodies acknowledged after {syncs} syncs of `db`, none before its own");
    assert_the_check_can_fail(&calls);
}

#[test]
fn durability_os_is_not_taken_for_strict() {
    if !traced::strace_works() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let told = check(&watched(dir.path(), Durability::Os)).unwrap_err();
    assert!(told.contains("not synced after its last write"), "{told}");
}

/// Checks that a trace without one of its syncs, or with one moved too early or too late, is rejected.
fn assert_the_check_can_fail(calls: &[Call]) {
    let is_sync = |call: &Call| call.deed == Deed::Synced { name: "db".into() };
    let without: Vec<_> = calls.iter().filter(|call| !is_sync(call)).cloned().collect();
    check(&without).unwrap_err();
    let mut noticed = 0;
    let places: Vec<_> =
        calls.iter().enumerate().filter(|(_, call)| is_sync(call)).map(|(at, _)| at).collect();
    for place in &places {
        let mut without = calls.to_vec();
        without.remove(*place);
        noticed += usize::from(check(&without).is_err());
    }
    // Opening and closing sync too, with no acknowledgement after those.
    assert!(
        noticed + 4 >= places.len() && noticed > 10,
        "{noticed} of {} missing syncs noticed",
        places.len()
    );
}
