//! Rules of appending.

use std::sync::Arc;

use futures_util::future::join_all;
use proto_events::envelope::Committed;
use proto_events::id::{Position, Version};

use crate::api::append::Append;
use crate::api::error::AppendError;
use crate::api::record::Fence;
use crate::api::store::EventStore;
use crate::limits::{APPENDS_REMEMBERED, RECORD_BYTES_MAX};
use crate::testing::conformance::read_rules::check_log;
use crate::testing::conformance::rule::rule;
use crate::testing::conformance::sketch::{Author, id, ok, stream};

pub(crate) async fn run(make: &impl Fn() -> Arc<dyn EventStore>) {
    rule("each_event_has_a_version_and_a_position", each_event_has_a_version_and_a_position(make())).await;
    rule(
        "a_wrong_expected_version_is_a_conflict_with_both_numbers",
        a_wrong_expected_version_is_a_conflict_with_both_numbers(make()),
    )
    .await;
    rule(
        "of_16_writers_at_the_same_version_exactly_one_wins",
        of_16_writers_at_the_same_version_exactly_one_wins(make()),
    )
    .await;
    rule(
        "an_append_to_several_streams_is_written_as_a_whole_or_not_at_all",
        an_append_to_several_streams_is_written_as_a_whole_or_not_at_all(make()),
    )
    .await;
    rule("another_fence_is_refused", another_fence_is_refused(make())).await;
    rule("a_repeated_append_gets_the_first_answer", a_repeated_append_gets_the_first_answer(make())).await;
    rule(
        "an_append_that_contradicts_itself_is_refused",
        an_append_that_contradicts_itself_is_refused(make()),
    )
    .await;
    rule(
        "a_record_over_the_limit_is_refused_and_one_at_the_limit_taken",
        a_record_over_the_limit_is_refused_and_one_at_the_limit_taken(make()),
    )
    .await;
    rule("an_append_larger_than_a_value_is_one_append", an_append_larger_than_a_value_is_one_append(make()))
        .await;
    rule("a_closed_store_answers_closed", a_closed_store_answers_closed(make())).await;
}

fn committed(version: u64, position: u64) -> Committed {
    Committed { version: Version(version), position: Position(position) }
}

async fn each_event_has_a_version_and_a_position(store: Arc<dyn EventStore>) {
    let mut author = Author::new(store.fence());
    let (a, b) = (stream("a"), stream("b"));
    let bodies = |count: usize| vec![b"body".to_vec(); count];
    let first = author.many(&[(a.clone(), bodies(2))]);
    let second = author.many(&[(b.clone(), bodies(3)), (a.clone(), bodies(1))]);
    assert_eq!(ok(store.append(first).await).parts, [committed(2, 2)]);
    assert_eq!(ok(store.append(second).await).parts, [committed(3, 5), committed(3, 6)]);
    assert_eq!(ok(store.head()), Position(6));
    assert_eq!((ok(store.stream_version(&a)), ok(store.stream_version(&b))), (Version(3), Version(3)));
    assert_eq!(check_log(&*store), 6);
}

async fn a_wrong_expected_version_is_a_conflict_with_both_numbers(store: Arc<dyn EventStore>) {
    let mut author = Author::new(store.fence());
    let mut other = author.clone().with_sets_from(100);
    let a = stream("a");
    ok(store.append(author.append_one(&a, b"1")).await);
    ok(store.append(author.append_one(&a, b"2")).await);
    let append = other.append_one(&a, b"mine");
    let expected = append.parts.first().map(|part| part.expected);
    match store.append(append).await {
        Err(AppendError::Conflict { stream, expected: told, actual }) => {
            assert_eq!((&stream, Some(told), actual), (&a, expected, Version(2)));
        }
        other => panic!("a conflict was expected, not {other:?}"),
    }
    let ahead = author.clone().append_one(&a, b"not sent");
    let mut author = author.with_sets_from(200);
    author.append_one(&a, b"not sent either");
    let gap = author.append_one(&a, b"after a gap");
    assert!(matches!(store.append(gap).await, Err(AppendError::Conflict { actual: Version(2), .. })));
    ok(store.append(ahead).await);
    assert_eq!(check_log(&*store), 3);
}

async fn of_16_writers_at_the_same_version_exactly_one_wins(store: Arc<dyn EventStore>) {
    let a = stream("contended");
    let mut author = Author::new(store.fence());
    for round in 0..10 {
        let writers: Vec<Author> =
            (0..16).map(|n| author.clone().with_sets_from(1_000 + round * 100 + n)).collect();
        let tries = writers.into_iter().map(|mut writer| {
            let (store, a) = (Arc::clone(&store), a.clone());
            tokio::spawn(async move {
                let won = store.append(writer.append_one(&a, b"try")).await;
                won.map(|_| writer)
            })
        });
        let mut winners = Vec::new();
        for result in join_all(tries.collect::<Vec<_>>()).await {
            match ok(result) {
                Ok(winner) => winners.push(winner),
                Err(AppendError::Conflict { .. }) => {}
                Err(other) => panic!("a conflict was expected, not {other}"),
            }
        }
        assert_eq!(winners.len(), 1, "round {round}");
        author = winners.pop().expect("exactly one has won, as was just seen");
    }
    assert_eq!(check_log(&*store), 10);
}

async fn an_append_to_several_streams_is_written_as_a_whole_or_not_at_all(store: Arc<dyn EventStore>) {
    let mut author = Author::new(store.fence());
    let (a, b) = (stream("a"), stream("b"));
    let mut stale = author.clone().with_sets_from(100);
    ok(store.append(author.append_one(&b, b"first")).await);
    let both = stale.many(&[(a.clone(), vec![b"x".to_vec()]), (b.clone(), vec![b"y".to_vec()])]);
    let set_id = both.set_id;
    let answer = store.append(both).await;
    assert!(matches!(&answer, Err(AppendError::Conflict { stream, .. }) if *stream == b), "{answer:?}");
    assert_eq!(ok(store.stream_version(&a)), Version(0));
    assert_eq!((ok(store.head()), ok(store.resolve(set_id))), (Position(1), None));
    let both = author.many(&[(a.clone(), vec![b"x".to_vec()]), (b, vec![b"y".to_vec()])]);
    assert_eq!(ok(store.append(both).await).parts, [committed(1, 2), committed(2, 3)]);
    assert_eq!(check_log(&*store), 3);
}

async fn another_fence_is_refused(store: Arc<dyn EventStore>) {
    let current = store.fence();
    for presented in [
        Fence { epoch: current.epoch - 1, ..current },
        Fence { epoch: current.epoch + 1, ..current },
        Fence { partition: current.partition + 1, ..current },
    ] {
        let answer = store.append(Author::new(presented).append_one(&stream("a"), b"x")).await;
        assert_eq!(answer, Err(AppendError::Fenced { presented, current }));
    }
    assert_eq!(check_log(&*store), 0);
}

async fn a_repeated_append_gets_the_first_answer(store: Arc<dyn EventStore>) {
    let mut author = Author::new(store.fence());
    let (a, b) = (stream("a"), stream("b"));
    let append = author.many(&[(a.clone(), vec![b"x".to_vec()]), (b.clone(), vec![b"y".to_vec(); 2])]);
    let (first, at_once) = tokio::join!(store.append(append.clone()), store.append(append.clone()));
    let first = ok(first);
    assert_eq!(ok(at_once), first);
    ok(store.append(author.append_one(&b, b"more")).await);
    assert_eq!(ok(store.append(append.clone()).await), first);
    assert_eq!(ok(store.resolve(append.set_id)), Some(first.clone()));
    assert_eq!(ok(store.resolve(id(999))), None);

    let mut other = Author::new(store.fence()).append_one(&stream("c"), b"other");
    let reused = store.append(other.clone()).await;
    assert!(matches!(reused, Err(AppendError::Invalid { .. })), "{reused:?}");
    other.set_id = id(12_345);
    assert!(matches!(store.append(other).await, Err(AppendError::Invalid { .. })));
    assert_eq!(check_log(&*store), 4);
}

/// Checks the appends that a writer with a memory of its own forgets. It makes 8,202 of them.
pub(crate) async fn run_many(make: &impl Fn() -> Arc<dyn EventStore>) {
    rule(
        "a_repeated_append_is_known_after_thousands_of_others",
        a_repeated_append_is_known_after_thousands_of_others(make()),
    )
    .await;
}

async fn a_repeated_append_is_known_after_thousands_of_others(store: Arc<dyn EventStore>) {
    let mut author = Author::new(store.fence());
    let append = author.many(&[(stream("a"), vec![b"x".to_vec()]), (stream("b"), vec![b"y".to_vec(); 2])]);
    let first = ok(store.append(append.clone()).await);
    // So many other appends that no store still remembers the id: it is found in the stream itself.
    let many: Vec<_> = (0..APPENDS_REMEMBERED + 10)
        .map(|n| store.append(author.append_one(&stream(&format!("many-{}", n % 50)), b"z")))
        .collect();
    join_all(many).await.into_iter().for_each(|answer| drop(ok(answer)));
    assert_eq!(ok(store.append(append.clone()).await), first);
    assert_eq!(ok(store.resolve(append.set_id)), Some(first));
    assert_eq!(check_log(&*store), 3 + 8_192 + 10);
}

async fn an_append_that_contradicts_itself_is_refused(store: Arc<dyn EventStore>) {
    let fence = store.fence();
    let fresh = || Author::new(fence);
    let (a, b) = (stream("a"), stream("b"));
    let mut empty = fresh().append_one(&a, b"x");
    empty.parts.clear();
    let twice = fresh().many(&[(a.clone(), vec![vec![1]]), (a.clone(), vec![vec![2]])]);
    let mut misnamed = fresh().append_one(&a, b"x");
    misnamed.parts.iter_mut().for_each(|part| part.stream = b.clone());
    let mut cut = fresh().many(&[(a.clone(), vec![vec![1]]), (b.clone(), vec![vec![2]])]);
    cut.parts.pop();
    for append in [empty, twice, misnamed, cut] {
        let answer = store.append(append).await;
        assert!(matches!(answer, Err(AppendError::Invalid { .. })), "{answer:?}");
    }
    let mut author = fresh();
    let mut other = fresh().with_sets_from(500);
    ok(store.append(author.append_one(&a, b"this history")).await);
    other.append_one(&a, b"another history");
    let answer = store.append(other.append_one(&a, b"continues the other")).await;
    assert!(matches!(answer, Err(AppendError::Invalid { .. })), "{answer:?}");
    assert_eq!(check_log(&*store), 1);
}

async fn a_record_over_the_limit_is_refused_and_one_at_the_limit_taken(store: Arc<dyn EventStore>) {
    let a = stream("a");
    // Bodies too small to be kept outside their record.
    let append = |count: usize, last: usize| {
        let mut bodies = vec![vec![1; 20]; count];
        bodies.push(vec![1; last]);
        Author::new(store.fence()).many(&[(a.clone(), bodies)])
    };
    let size = |append: &Append| append.parts.first().map_or(0, |part| part.record.bytes().len());
    let each = size(&append(2, 0)) - size(&append(1, 0));
    let count = (RECORD_BYTES_MAX - size(&append(0, 0))) / each;
    let last = RECORD_BYTES_MAX - size(&append(count - 1, 0));
    let answer = store.append(append(count + 1, 20)).await;
    assert!(
        matches!(answer, Err(AppendError::TooLarge { limit: RECORD_BYTES_MAX, bytes }) if bytes > RECORD_BYTES_MAX),
        "{answer:?}"
    );
    let largest = append(count - 1, last);
    assert_eq!(size(&largest), RECORD_BYTES_MAX);
    ok(store.append(largest).await);
    assert_eq!(check_log(&*store), count as u64);
}

async fn an_append_larger_than_a_value_is_one_append(store: Arc<dyn EventStore>) {
    let mut author = Author::new(store.fence());
    let parts: Vec<_> =
        (0..60).map(|n| (stream(&format!("part-{n}")), vec![vec![n; 1_000 * usize::from(n % 23)]])).collect();
    let small = author.append_one(&stream("small"), b"before");
    let large = author.many(&parts);
    let after = author.append_one(&stream("small"), b"after");
    let again = large.clone();
    let (before, first, last) = tokio::join!(store.append(small), store.append(large), store.append(after));
    let first = ok(first);
    assert_eq!((ok(before).parts, ok(last).parts), (vec![committed(1, 1)], vec![committed(2, 62)]));
    let positions: Vec<u64> = first.parts.iter().map(|part| part.position.0).collect();
    assert_eq!(positions, (2..62).collect::<Vec<_>>());
    assert_eq!(ok(store.append(again.clone()).await), first);
    assert_eq!(ok(store.resolve(again.set_id)), Some(first));
    assert_eq!(check_log(&*store), 62);
}

async fn a_closed_store_answers_closed(store: Arc<dyn EventStore>) {
    let mut author = Author::new(store.fence());
    let pending = store.append(author.append_one(&stream("a"), b"queued before closing"));
    ok(store.close());
    ok(pending.await);
    assert_eq!(store.append(author.append_one(&stream("a"), b"late")).await, Err(AppendError::Closed));
    assert!(store.head().is_err() && store.read_all(Position(1), 1).is_err());
    assert!(store.subscribe().next().await.is_err());
    ok(store.close());
}
