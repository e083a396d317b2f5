//! Views that are kept between pages answer as a reading of the whole log does, also while the log grows.

use std::sync::Arc;

use proto_events::id::{StreamId, Version};
use proto_events::task::Task;
use taskreel_log::api::EventReader;
use taskreel_log::ports::{Clock as _, SystemClock};
use taskreel_log::read::fold_stream;
use taskreel_log::views::{
    AttentionWatch, CourseAsked, Courses, LogUse, RunFilter, StatsWatch, Term, attention, attention_since,
    newest_runs, newest_runs_with, stats, streams, task_course,
};

use crate::seeded::{post, seeded};

/// Compares each version of a task, with and without a mark, in windows of several widths.
fn compare(courses: &Courses, log: &dyn EventReader, stream: &StreamId) {
    let end = log.stream_version(stream).unwrap();
    let folded = fold_stream::<Task>(log, stream, None).unwrap();
    assert_eq!(courses.newest(log, stream).unwrap(), folded, "{stream}");
    for at in (1..=end.0).map(Some).chain([None, Some(end.0 + 7)]) {
        let at = at.map(Version);
        if let Some(at) = at {
            let state = fold_stream::<Task>(log, stream, Some(at)).unwrap().state;
            assert_eq!(courses.state(log, stream, at).unwrap(), state, "{stream} at {at}");
        }
        for (marked, window) in [(None, 1), (Some(1), 3), (Some(end.0), 200), (at.map(|at| at.0 / 2), 4)] {
            let asked = CourseAsked { at, marked: marked.map(Version), window };
            let whole = task_course(log, stream, asked).unwrap();
            assert_eq!(courses.course(log, stream, asked).unwrap(), whole, "{stream}: {asked:?}");
        }
    }
}

/// Returns the filter of one condition.
fn by(condition: &str) -> RunFilter {
    let mut filter = RunFilter::default();
    match condition.strip_prefix("model=") {
        Some(model) => filter.models.push(model.to_owned()),
        None => filter.filter.terms.push(Term::parse(condition).unwrap()),
    }
    filter
}

#[tokio::test(flavor = "multi_thread")]
async fn kept_courses_and_lists_are_those_of_a_whole_reading_while_the_log_grows() {
    let system = seeded().await;
    let log: Arc<dyn EventReader> = system.log();
    // Every task is kept, those of one event too; one is kept apart from most others.
    let kept =
        [Courses::keeping(0, 1), Courses::keeping(1, 3), Courses::keeping(5, 1_000), Courses::default()];
    let mut watch = AttentionWatch::default();
    let mut sums = StatsWatch::default();
    for round in 0..3 {
        for courses in &kept {
            for info in streams(log.as_ref(), "task-").unwrap() {
                compare(courses, log.as_ref(), &info.stream);
            }
            let known = |stream: &StreamId| courses.facts(log.as_ref(), stream);
            for filter in [RunFilter::default(), by("tool=choose"), by("model=x"), by("agent=agent")] {
                let (cursor, limits) = (None, (5, 100));
                let runs = newest_runs_with(log.as_ref(), &filter, cursor, limits, &known).unwrap();
                assert_eq!(runs, newest_runs(log.as_ref(), &filter, cursor, limits).unwrap());
            }
        }
        let now = SystemClock.now();
        for used in [LogUse::Open, LogUse::Closed, LogUse::Exported] {
            let whole = attention(log.as_ref(), used, now).unwrap();
            let since = attention_since(&mut watch, log.as_ref(), used, now).unwrap();
            assert_eq!(since.rows, whole.rows, "round {round}");
        }
        assert_eq!(sums.now(log.as_ref()).unwrap(), stats(log.as_ref()).unwrap(), "round {round}");
        // New tasks, one of which waits; and one that waited goes on.
        post(&system, &format!("later-{round}"), "echo", r#"{"text": "x"}"#).await;
        post(&system, &format!("asks-{round}"), "choose", "{}").await;
        let asked = StreamId::task("agent", if round == 0 { "ask-0001" } else { "asks-0" }).unwrap();
        let task = fold_stream::<Task>(log.as_ref(), &asked, None).unwrap().state;
        let question = task.calls().iter().next_back().map(|call| call.request.call_id.clone()).unwrap();
        let person = taskreel::Principal::asserted("ada");
        system.answer(&asked.id(), &question, "the first", person).await.unwrap();
    }
    system.shutdown().await.unwrap();
}
