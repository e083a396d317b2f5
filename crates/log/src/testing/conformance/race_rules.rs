//! Rules of concurrent appends. The writers race on real threads, each with a runtime of its own.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Barrier, Mutex, PoisonError};

use proto_events::id::{Position, StreamId, Version};

use crate::api::append::{Append, Appended};
use crate::api::error::AppendError;
use crate::api::store::EventStore;
use crate::testing::conformance::read_rules::check_log;
use crate::testing::conformance::rule::rule_blocking;
use crate::testing::conformance::sketch::{Author, id, ok, stream};

/// Number of threads that race.
const WRITERS: u64 = 16;

pub(crate) async fn run(make: &impl Fn() -> Arc<dyn EventStore>) {
    let store = make();
    rule_blocking("of_16_threads_at_one_version_exactly_one_wins", move || {
        of_16_threads_at_one_version_exactly_one_wins(&store);
    })
    .await;
    let store = make();
    rule_blocking("of_16_threads_that_try_again_each_version_has_one_winner", move || {
        of_16_threads_that_try_again_each_version_has_one_winner(&store);
    })
    .await;
    let store = make();
    rule_blocking("appends_to_several_streams_race_as_wholes", move || {
        appends_to_several_streams_race_as_wholes(&store);
    })
    .await;
    let store = make();
    rule_blocking("one_append_from_16_threads_is_written_once", move || {
        one_append_from_16_threads_is_written_once(&store);
    })
    .await;
}

fn append(store: &dyn EventStore, append: Append) -> Result<Appended, AppendError> {
    let runtime = ok(tokio::runtime::Builder::new_current_thread().build());
    runtime.block_on(store.append(append))
}

/// Runs `work` on each of the threads, and returns the results.
fn race<R: Send>(work: impl Fn(u64) -> R + Sync) -> Vec<R> {
    let start = Barrier::new(usize::try_from(WRITERS).unwrap_or(1));
    std::thread::scope(|scope| {
        let started = |number| {
            let (start, work) = (&start, &work);
            scope.spawn(move || {
                start.wait();
                work(number)
            })
        };
        let threads: Vec<_> = (0..WRITERS).map(started).collect();
        let joined = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
        joined.map(|thread| thread.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

fn of_16_threads_at_one_version_exactly_one_wins(store: &Arc<dyn EventStore>) {
    let contended = stream("contended");
    let mut author = Author::new(store.fence());
    for round in 0..10_u64 {
        let tried = race(|number| {
            let mut writer = author.clone().with_sets_from(1_000 + round * 100 + number);
            let answer = append(store.as_ref(), writer.append_one(&contended, &number.to_be_bytes()));
            (answer, writer)
        });
        let mut winners = Vec::new();
        for (answer, writer) in tried {
            match answer {
                Ok(_) => winners.push(writer),
                Err(AppendError::Conflict { actual, .. }) => assert_eq!(actual, Version(round + 1)),
                Err(other) => panic!("a conflict was expected, not {other}"),
            }
        }
        assert_eq!(winners.len(), 1, "round {round}");
        author = winners.pop().expect("exactly one has won, as was just seen");
    }
    assert_eq!(check_log(store.as_ref()), 10);
}

/// Returns an author that knows the current ends of these streams, and nothing of its earlier attempts.
fn informed(store: &dyn EventStore, streams: &[StreamId], set: u64) -> Author {
    let mut author = Author::new(store.fence()).with_sets_from(set);
    for stream in streams {
        let end = ok(store.stream_version(stream));
        let last = ok(store.read_stream(stream, end, usize::MAX));
        last.last().into_iter().for_each(|stored| author.learn(stored));
    }
    author
}

fn of_16_threads_that_try_again_each_version_has_one_winner(store: &Arc<dyn EventStore>) {
    const EACH: u64 = 15;
    let contended = stream("contended");
    let won = race(|number| {
        let mut won = Vec::new();
        for set in number * 1_000_000 + 1.. {
            if won.len() as u64 == EACH {
                break;
            }
            let mut author = informed(store.as_ref(), std::slice::from_ref(&contended), set);
            match append(store.as_ref(), author.append_one(&contended, &number.to_be_bytes())) {
                Ok(appended) => won.extend(appended.parts.first().map(|part| part.version)),
                Err(AppendError::Conflict { .. }) => {}
                Err(other) => panic!("a conflict was expected, not {other}"),
            }
        }
        won
    });
    let mut versions: Vec<u64> = won.into_iter().flatten().map(|version| version.0).collect();
    versions.sort_unstable();
    assert_eq!(versions, (1..=WRITERS * EACH).collect::<Vec<_>>(), "each version was won once");
    assert_eq!(check_log(store.as_ref()), WRITERS * EACH);
}

fn appends_to_several_streams_race_as_wholes(store: &Arc<dyn EventStore>) {
    const TRIES: u64 = 25;
    let streams: Vec<StreamId> = (0..4).map(|n| stream(&format!("several-{n}"))).collect();
    let acknowledged = Mutex::new(HashMap::new());
    let refused = Mutex::new(Vec::new());
    race(|number| {
        for turn in 0..TRIES {
            // Two or three of the four, in a different order each time.
            let first = usize::try_from(number + turn).unwrap_or(0);
            let count = 2 + first % 2;
            let chosen = streams.iter().cycle().skip(first % streams.len()).take(count);
            let chosen: Vec<_> = chosen.cloned().collect();
            let mut author = informed(store.as_ref(), &chosen, number * 1_000_000 + turn + 1);
            let parts: Vec<_> = chosen.into_iter().map(|stream| (stream, vec![vec![1]; count])).collect();
            let several = author.many(&parts);
            let set_id = several.set_id;
            match append(store.as_ref(), several) {
                Ok(appended) => {
                    let mut known = acknowledged.lock().unwrap_or_else(PoisonError::into_inner);
                    known.insert(set_id, appended);
                }
                Err(AppendError::Conflict { .. }) => {
                    refused.lock().unwrap_or_else(PoisonError::into_inner).push(set_id);
                }
                Err(other) => panic!("a conflict was expected, not {other}"),
            }
        }
    });
    // Checks that every append is whole and contiguous.
    check_log(store.as_ref());
    let acknowledged = acknowledged.into_inner().unwrap_or_else(PoisonError::into_inner);
    let log = ok(store.read_all(Position(1), usize::MAX));
    let written: BTreeSet<_> = log.iter().map(|stored| stored.record.set_id).collect();
    assert_eq!(written, acknowledged.keys().copied().collect(), "what is in the log was acknowledged");
    for (set_id, appended) in acknowledged {
        assert_eq!(ok(store.resolve(set_id)), Some(appended));
    }
    for set_id in refused.into_inner().unwrap_or_else(PoisonError::into_inner) {
        assert_eq!(ok(store.resolve(set_id)), None);
    }
}

fn one_append_from_16_threads_is_written_once(store: &Arc<dyn EventStore>) {
    let mut author = Author::new(store.fence());
    for round in 1..=10_u64 {
        let names = [stream("a"), stream("b")];
        let same = author.many(&names.map(|name| (name, vec![vec![7]; 2])));
        let answers = race(|_| ok(append(store.as_ref(), same.clone())));
        let first = answers.first().cloned();
        assert!(answers.iter().all(|answer| Some(answer) == first.as_ref()), "all hear the same");
        assert_eq!(ok(store.resolve(same.set_id)), first);
        assert_eq!(ok(store.head()), Position(round * 4), "and it is there once");
    }
    assert_eq!(ok(store.resolve(id(999))), None);
    assert_eq!(check_log(store.as_ref()), 40);
}
