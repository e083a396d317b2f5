//! The workloads: short lives of a log, as words. The child runs them, the parent traces it.

use std::path::Path;

use futures_util::future::join_all;
use taskreel_log::api::{Append, EventStore as _};
use taskreel_log::sled::{SledOptions, SledStore};
use taskreel_log::testing::conformance::{Author, stream};

use crate::store_support::runtime;
use crate::traced;

/// The workloads. Each is the lives of one log, one process after another. A process ends as if killed unless
/// it closes.
///
/// | word | is |
/// |---|---|
/// | `aN` | N small appends, one after another |
/// | `gN` | N small appends at once |
/// | `mN` | one append of N parts of 20 kB: several values |
/// | `lN` | N appends as large as a value takes |
/// | `bN` | one append with a body of N × 100 kB: in chunks |
/// | `r` | closed and opened again |
/// | `c` | closed |
/// | `s` | as the first word: a snapshot of the database after every group, where a segment was filled |
pub(crate) const WORKLOADS: [&[&str]; 28] = [
    &["c"],
    &["a1"],
    &["a1 c"],
    &["a3"],
    &["a10 c"],
    &["a30"],
    &["g8"],
    &["g30 c"],
    &["a2 r a2"],
    &["a5 r a5 r a5 c"],
    &["a3", "a3"],
    &["a3 c", "a3 c"],
    &["a4", "a4", "a4", "c"],
    &["m4"],
    &["m9 a2"],
    &["m4 r m5 c"],
    &["l3"],
    &["l8 a3", "a2"],
    &["g5 m6 g5", "m3"],
    &["b1"],
    &["b3 a2 c"],
    &["b2 r b5", "a1"],
    &["l30", "l40 a2", "a3 c"],
    &["m150 a1", "a2"],
    &["b60", "b50 a1 c"],
    &["a2 b90 g4", "l20 m100", "a1"],
    &["s l40 a2", "s l30 b6", "a1"],
    &["s m120 l15 c", "s a3 l25"],
];

/// Runs one life in the child, and prints what was acknowledged.
pub(crate) fn live(dir: &Path, words: &str) {
    let words = words.split(' ').filter(|word| !word.is_empty());
    let snapshots = words.clone().next() == Some("s");
    let default = SledOptions::default();
    let options = if snapshots { SledOptions { snapshot_every_bytes: 1, ..default } } else { default };
    let mut store = SledStore::open_with(dir, options).unwrap();
    let mut author = Writer::of(&store);
    for word in words.skip(usize::from(snapshots)) {
        let (kind, count) = word.split_at(1);
        let count: usize = count.parse().unwrap_or(1);
        match kind {
            "a" => (0..count).for_each(|n| append(&store, vec![author.one("small", body(n, 90))])),
            "g" => append(&store, (0..count).map(|n| author.one(&format!("g{n}"), body(n, 200))).collect()),
            "m" => {
                let parts = (0..count).map(|n| (format!("m{n}"), body(n, 20_000)));
                append(&store, vec![author.many(parts.collect())]);
            }
            "l" => (0..count).for_each(|n| append(&store, vec![author.one("large", body(n, 55_000))])),
            "b" => append(&store, vec![author.one("huge", body(count, count * 100_000))]),
            "r" => {
                store.close().unwrap();
                store = SledStore::open_with(dir, options).unwrap();
                author = Writer::of(&store);
            }
            "c" => return store.close().unwrap(),
            other => panic!("`{other}` is no word of a workload"),
        }
    }
    // No destructor runs: the process ends as if it had been killed.
    std::process::exit(0);
}

/// A writer with sets and streams of its own for each opening, so that it need not know the log's contents.
struct Writer {
    author: Author,
    epoch: u64,
}

impl Writer {
    fn of(store: &SledStore) -> Self {
        let epoch = store.fence().epoch;
        Self { author: Author::new(store.fence()).with_sets_from(epoch * 100_000), epoch }
    }

    fn one(&mut self, name: &str, body: Vec<u8>) -> Append {
        self.many(vec![(name.to_owned(), body)])
    }

    fn many(&mut self, parts: Vec<(String, Vec<u8>)>) -> Append {
        let epoch = self.epoch;
        let parts: Vec<_> =
            parts.into_iter().map(|(name, body)| (stream(&format!("{epoch}-{name}")), vec![body])).collect();
        self.author.many(&parts)
    }
}

fn body(number: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| u8::try_from((at * 7 + at / 251 + number) % 251).unwrap()).collect()
}

fn append(store: &SledStore, appends: Vec<Append>) {
    runtime().block_on(join_all(appends.into_iter().map(|append| async {
        let appended = store.append(append).await.unwrap();
        let last = appended.parts.iter().map(|part| part.position.0).max().unwrap();
        traced::say(&format!("ACK {last}"));
    })));
}
