//! The list of tasks beside a log that grows: it is the beginning of what a reader from scratch lists, whatever was written, paged and
//! filtered between two readings.

use proptest::prelude::*;
use proto_events::id::Position;
use proto_events::model::TaskState;
use taskreel_log::views::{RunCursor, RunFilter, newest_runs};

use super::made::Growing;
use super::*;
use crate::tui::ask::{AnswerContent, Ask, ListPage, StreamList};
use crate::tui::data::{StreamPage, StreamRow};
use crate::tui::model::parts::END;
use crate::tui::read::back_to;

/// A change between two readings.
#[derive(Debug, Clone)]
enum Step {
    /// So many tasks change, from this one on.
    Touch(usize, usize),
    /// The list is scrolled to its end, once or several times.
    End(usize),
    /// The list is filtered by a state, or not any more.
    Filter(bool),
    /// Following is paused, or goes on.
    Pause,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..350_usize, prop_oneof![1..20_usize, 80..260_usize]).prop_map(|(from, count)| Step::Touch(from, count)),
        3 => (1..4_usize).prop_map(Step::End),
        1 => any::<bool>().prop_map(Step::Filter),
        1 => Just(Step::Pause),
    ]
}

/// Compares what is listed with what a reader from scratch lists. So many rows were listed before the reading.
fn is_true(stand: &Stand, growing: &Growing, shown: usize) -> Result<(), TestCaseError> {
    let StreamList::Tasks(filter) = &stand.model.streams.listed else { panic!("tasks are listed") };
    let all = newest_runs(growing.store.as_ref(), filter, None, (10_000, u64::MAX)).unwrap();
    let all: Vec<_> = all.rows.into_iter().map(|row| StreamRow::Run(Box::new(row))).collect();
    let streams = &stand.model.streams;
    // Without a filter a list that may have a gap behind its first page begins anew.
    let least = if *filter == RunFilter::default() { 100 } else { shown.max(100) };
    prop_assert!(streams.rows.len() >= all.len().min(least), "{} of {}", streams.rows.len(), all.len());
    prop_assert!(all.starts_with(&streams.rows), "another order, another state, or a task twice");
    prop_assert!(streams.next.is_some() || streams.rows.len() == all.len(), "tasks are lost");
    Ok(())
}

/// Carries out these steps beside a log of so many tasks, and compares after each reading.
fn carried_out(begun: usize, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut growing = Growing::new();
    (0..begun).for_each(|number| growing.touch(number));
    let mut stand = Stand::new(growing.store.clone(), (100, 30));
    let mut is_paused = false;
    for (at, step) in (1..).zip(steps) {
        match step {
            Step::Touch(from, count) => (from..from + count).for_each(|number| growing.touch(number)),
            Step::End(times) => {
                stand.keys(&"<End>".repeat(times));
            }
            Step::Filter(is_filtered) => {
                let filter = RunFilter {
                    states: if is_filtered { vec![TaskState::Working] } else { Vec::new() },
                    ..RunFilter::default()
                };
                stand.model.list_streams(StreamList::Tasks(filter));
                stand.answer();
            }
            Step::Pause => {
                stand.keys(" ");
                is_paused = !is_paused;
            }
        }
        let shown = stand.model.streams.rows.len();
        stand.seen(Duration::from_secs(5 * at));
        if !is_paused {
            is_true(&stand, &growing, shown)?;
        }
    }
    let shown = stand.model.streams.rows.len();
    if is_paused {
        stand.keys(" ");
        stand.seen(Duration::from_secs(1_000));
    }
    is_true(&stand, &growing, shown)
}

#[test]
fn a_page_that_comes_between_the_question_and_the_answer_of_a_refresh_stays() {
    let mut growing = Growing::new();
    (0..250).for_each(|number| growing.touch(number));
    let mut stand = Stand::new(growing.store.clone(), (100, 30));
    let filter = RunFilter { states: vec![TaskState::Working], ..RunFilter::default() };
    stand.model.list_streams(StreamList::Tasks(filter));
    stand.answer();
    // The list is scrolled to its end, and the log goes on, before either question is answered.
    stand.model.update(Action::Key(named_key("End").unwrap()));
    growing.touch(0);
    stand.seen(Duration::from_secs(5));
    stand.seen(Duration::from_secs(10));
    is_true(&stand, &growing, 200).unwrap();
}

#[test]
fn a_refresh_of_a_filtered_list_looks_back_to_where_its_pages_did_however_many_tasks_are_new() {
    let mut growing = Growing::new();
    // The oldest task alone waits for a person; a page looks at ten tasks.
    [0, 0].into_iter().chain(1..95).for_each(|number| growing.touch(number));
    let filter = RunFilter { states: vec![TaskState::InputRequired], ..RunFilter::default() };
    for new in 95..140 {
        growing.touch(new);
        let read = |cursor, rows| newest_runs(growing.store.as_ref(), &filter, cursor, (rows, 10));
        assert_eq!(back_to(END, 100, read).unwrap().rows.len(), 0);
        let page = back_to(Position(0), 100, read).unwrap();
        assert_eq!((page.rows.len(), page.next), (1, None), "{new}");
    }
}

#[test]
fn a_page_without_a_row_that_comes_between_the_question_and_the_answer_of_a_refresh_stays() {
    let mut stand = Stand::new(Growing::new().store, (100, 30));
    stand.model.list_streams(StreamList::Tasks(RunFilter {
        states: vec![TaskState::Working],
        ..RunFilter::default()
    }));
    let cursor = |before| Some(RunCursor { before: Position(before), as_of: Position(90) });
    stand.model.streams.take_first(StreamPage { next: cursor(50), ..StreamPage::default() });
    let listed = stand.model.streams.listed.clone();
    let asked = Ask::Streams(listed, ListPage::First { rows: 0, reached: Position(50) });
    stand.model.streams.take_further(StreamPage { next: cursor(20), ..StreamPage::default() });
    let page = StreamPage { next: cursor(60), ..StreamPage::default() };
    let told = AskAnswer { ask: asked, answer: Ok(AnswerContent::Streams(page)), took: Duration::ZERO };
    stand.model.update(Action::Told(Box::new(told)));
    assert_eq!(stand.model.streams.next, cursor(20));
}

#[test]
fn a_filtered_list_that_was_scrolled_stays_as_long_as_it_was() {
    let steps = [Step::Filter(true), Step::End(2), Step::Touch(0, 5)];
    carried_out(250, steps.to_vec()).unwrap();
}

#[test]
fn a_task_that_was_read_as_it_is_now_on_an_old_page_hides_none_of_those_before_it() {
    // Task 20 changes behind the first page and is read there while following is paused; then it is the last of a new first page.
    let steps = [Step::Pause, Step::Touch(20, 1), Step::End(3), Step::Touch(100, 99), Step::Pause];
    carried_out(250, steps.to_vec()).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]

    #[test]
    fn whatever_is_written_between_two_readings_no_task_is_stale_lost_or_listed_twice(
        begun in 0..320_usize, steps in prop::collection::vec(step(), 1..10),
    ) {
        carried_out(begun, steps)?;
    }
}
