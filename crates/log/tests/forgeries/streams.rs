//! Forgeries of tasks, sessions, tools' states, programs and definitions.

use proto_events::call::Recovery;
use proto_events::codec::AnyEvent;
use proto_events::id::StreamId;
use proto_events::json::{JsonObject, JsonText};
use proto_events::limits::{TOOL_STORE_BYTES_MAX, TOOL_WRITES_MAX};
use proto_events::model::LlmRole::{Assistant, System, User};
use proto_events::model::TaskState::{Canceled, Completed, Failed, Submitted, Unknown, Working};
use proto_events::model::{BudgetLimit, LimitUse};
use proto_events::task::TaskEvent;
use proto_events::tool_store::ToolStoreEvent;
use taskreel_log::limits::RECORD_BYTES_MAX;

use super::Forgery;
use super::events::*;

#[rustfmt::skip]
pub(crate) const STREAMS: &[Forgery] = &[
    // Tasks.
    ("a task of another id than its stream's", ("begun", 0), "but its stream is task-desk/t", |log| *log.event("begun", 0) = submitted("other", Submitted)),
    ("a task submitted twice", ("begun", 1), "the task was submitted twice", |log| *log.event("begun", 1) = submitted("t", Submitted)),
    ("an event before the task", ("unsure", 0), "the task has an event before it was submitted", |log| *log.event("unsure", 0) = message("hello")),
    ("a transition that the lifecycle lacks", ("begun", 2), "submitted -> completed is not a transition of the", |log| *log.event("begun", 2) = changed(Submitted, Completed)),
    ("a transition from another state", ("begun", 2), "unknown -> working, but the task was submitted", |log| *log.event("begun", 2) = changed(Unknown, Working)),
    ("a transition to the same state", ("begun", 3), "working -> working is not a transition of the", |log| log.insert("begun", 3, changed(Working, Working))),
    ("a transition after the end", ("evidence", 0), "canceled -> working is not a transition of the", |log| *log.event("evidence", 0) = changed(Canceled, Working)),
    ("a failure over a limit that was not reached", ("failed", 0), "working -> failed names a limit of the budget that was not", |log| {
        let budget = Some(LimitUse { limit: BudgetLimit::Steps, used: 2.0, allowed: 2.0 });
        *log.event("failed", 0) = AnyEvent::Task(TaskEvent::StateChanged { from: Working, to: Failed, budget });
    }),
    ("a completed task that names an exceeded limit", ("plain ends", 0), "working -> completed names a limit that was exceeded,", |log| {
        let budget = Some(LimitUse { limit: BudgetLimit::Steps, used: 3.0, allowed: 2.0 });
        *log.event("plain ends", 0) = AnyEvent::Task(TaskEvent::StateChanged { from: Working, to: Completed, budget });
    }),
    ("an artifact after the end", ("remark", 0), "an artifact was added although the task is canceled", |log| log.insert("remark", 0, artifact("art_9", None))),
    ("an output after the end", ("remark", 0), "an artifact was added although the task is canceled", |log| log.insert("remark", 0, artifact("art_9", Some(0)))),
    ("an artifact of a task that was posted as over", ("posted over", 1), "an artifact was added although the task is completed", |log| log.insert("posted over", 1, artifact("art_9", None))),
    ("an output while the task waits", ("waiting", 2), "an output was added while the task was input-required,", |log| log.insert("waiting", 2, artifact("art_9", Some(1)))),
    ("a change of metadata that changes nothing", ("remark", 1), "the metadata was changed, but no key was", |log| *log.event("remark", 1) = AnyEvent::Task(TaskEvent::MetadataMerged(JsonObject::new()))),
    ("a post again without new items", ("again", 0), "the task was posted again, but its record has", |log| log.remove("again", 0)),
    ("a post again of the same text", ("again", 1), "the task was posted again with the same text,", |log| *log.event("again", 1) = posted_again("t")),
    ("a post again while the task runs", ("queued", 2), "the task was posted again while it ran", |log| {
        log.insert("queued", 0, message("more"));
        log.insert("queued", 2, posted_again("t3"));
        log.drafts.iter_mut().find(|draft| draft.label == "queued").unwrap().events.swap(1, 2);
        log.draft("queued").events.swap(1, 2);
    }),
    ("a request to cancel a completed task", ("posted over", 1), "its cancellation was requested although the task is completed", |log| log.insert("posted over", 1, cancel_requested())),
    ("a request to cancel that nothing follows", ("reading", 0), "its cancellation was requested, but did not follow", |log| log.insert("reading", 0, cancel_requested())),
    ("a canceled task that nobody asked for", ("canceled", 3), "it was canceled, but nobody had requested it", |log| log.remove("canceled", 0)),
    ("a message to the model outside a run", ("plain ends", 1), "a message to the model was added while the", |log| log.insert("plain ends", 1, said_in_task(User, None))),
    ("a message to the model before the answer", ("plain told", 2), "has no answer yet; the next message must be", |log| *log.event("plain told", 2) = said_in_task(User, None)),
    ("a failed task that goes on", ("failed", 2), "failed -> working is not a transition of the", |log| log.insert("failed", 2, changed(Failed, Working))),
    // Sessions.
    ("a session of another id than its stream's", ("turn", 0), "but its stream is session-desk/s", |log| *log.event("turn", 0) = opened("other")),
    ("a session opened twice", ("turn", 1), "the session was opened twice", |log| log.insert("turn", 1, opened("s"))),
    ("a turn before the session", ("turn", 0), "the session has an event before it was opened", |log| log.remove("turn", 0)),
    ("a turn in a turn", ("reply", 0), "began while turn", |log| log.insert("reply", 0, turn_started("turn 9", &task("t")))),
    ("a turn that began twice", ("second turn", 0), "began twice", |log| {
        *log.event("second turn", 0) = turn_started("turn 1", &task("t"));
        *log.event("aborted", 0) = turn_aborted("turn 1");
    }),
    ("a start with a revision that was replaced", ("restarted", 0), "it starts with revision 1 of agent `desk`, which revision 2 has replaced", |log| *log.event("restarted", 0) = started(2, 1)),
    ("a turn of a task that does not exist", ("turn", 1), "is of task-desk/none, which does not exist", |log| *log.event("turn", 1) = turn_started("turn 1", &task("none"))),
    ("a turn of another agent's task", ("turn", 1), "not of a task of its agent", |log| *log.event("turn", 1) = turn_started("turn 1", &StreamId::task("other", "t").unwrap())),
    ("a system prompt in the middle of a turn", ("answer", 1), "the system prompt was set, but no turn begins", |log| log.insert("answer", 1, system_prompt(System))),
    ("a system prompt that a user wrote", ("turn", 2), "the system prompt is a message of the user", |log| *log.event("turn", 2) = system_prompt(User)),
    ("a message outside a turn", ("second turn", 0), "a message was added outside a turn", |log| { log.insert("second turn", 0, said(User, None)); }),
    ("a message in the place of a tool's answer", ("answer", 0), "has no answer yet; the next message must be", |log| log.insert("answer", 0, said(User, None))),
    ("an answer to another tool call", ("answer", 0), "has no answer yet; the next message must be", |log| { log.insert("answer", 0, said(User, Some("c9"))); }),
    ("a committed turn with a tool call unanswered", ("committed", 1), "was committed while the tool call", |log| log.insert("committed", 0, said(Assistant, Some("c9")))),
    ("the end of another turn", ("committed", 0), "ended while turn", |log| *log.event("committed", 0) = turn_committed("turn 9")),
    ("the end of a turn that is not open", ("aborted", 1), "ended, but was not open", |log| log.insert("aborted", 1, turn_aborted("turn 2"))),
    // Tools' states.
    ("a write that names no call", ("put", 0), "of task-desk/t, but its append has no success of", |log| *log.event("put", 0) = put(&task("t"), "c9", "ledger")),
    ("a write of a call in another append", ("put", 0), "of task-desk/t, but its append has no success of", |log| {
        *log.event("put", 0) = put(&task("t"), "i1", "ledger");
        *log.event("put", 1) = put(&task("t"), "i1", "draft");
    }),
    ("a write of another task's call", ("deleted", 0), "of task-desk/plain, but its append has no success of", |log| *log.event("deleted", 0) = deleted(&task("plain"), "c2", "draft")),
    ("a write by another tool's call", ("put", 0), "of task-desk/t, but its append has no success of", |log| {
        for draft in log.drafts.iter_mut().filter(|draft| ["put", "deleted"].contains(&draft.label)) {
            draft.stream = tool("book");
        }
    }),
    ("a write by another agent's tool", ("put", 0), "of task-desk/t, but its append has no success of", |log| {
        for draft in log.drafts.iter_mut().filter(|draft| ["put", "deleted"].contains(&draft.label)) {
            draft.stream = StreamId::tool("other", "pay").unwrap();
        }
    }),
    ("a key written twice by one call", ("put", 1), "was written twice by one call", |log| *log.event("put", 1) = put(&task("t"), "c1", "ledger")),
    ("two calls' writes in one record", ("put", 1), "its record has writes of two calls", |log| *log.event("put", 1) = put(&task("t"), "c2", "draft")),
    ("the deletion of a key that does not exist", ("deleted", 0), "was deleted, but did not exist", |log| *log.event("deleted", 0) = deleted(&task("t"), "c2", "none")),
    ("a key that cannot be one", ("put", 0), "is not a valid key", |log| *log.event("put", 0) = put(&task("t"), "c1", "a\nb")),
    ("more keys than one call may write", ("put", 0), "keys; the limit is", |log| {
        for n in 0..TOOL_WRITES_MAX { log.insert("put", 2, put(&task("t"), "c1", &format!("key {n}"))); }
    }),
    ("more bytes than a tool may keep", ("put", 0), "the tool's state has", |log| {
        let large = json(&format!("\"{}\"", "x".repeat(TOOL_STORE_BYTES_MAX / 2)));
        for event in &mut log.draft("put").events {
            let AnyEvent::Tool(ToolStoreEvent::KeyPut { value, .. }) = event else { panic!() };
            value.clone_from(&large);
        }
    }),
    // Programs and definitions.
    ("a start of another epoch than its record's", ("started", 0), "but its record is of epoch", |log| *log.event("started", 0) = started(7, 1)),
    ("a start in the stream of another partition", ("started", 0), "but stands in system-", |log| {
        for draft in log.drafts.iter_mut().filter(|draft| draft.stream == StreamId::of_system(0)) {
            draft.stream = StreamId::of_system(3);
        }
    }),
    ("a start with a revision that does not exist", ("started", 0), "it starts with revision", |log| *log.event("started", 0) = started(1, 2)),
    ("an end of another epoch", ("stopped", 0), "but its record is of epoch", |log| *log.event("stopped", 0) = stopped(1)),
    ("an end that was not begun", ("stopped", 1), "stopped, but was not running", |log| log.insert("stopped", 1, stopped(2))),
    ("a revision with another number", ("revised again", 0), "follows revision", |log| *log.event("revised again", 0) = revised(3, [1, 3, 1, 1, 1], [None, Some("B"), None, None, None])),
    ("a revision that names one to come", ("revised again", 0), "its tools names revision", |log| *log.event("revised again", 0) = revised(2, [1, 2, 3, 1, 1], [None, Some("B"), None, None, None])),
    ("a revision that names none", ("revised again", 0), "its model names revision", |log| *log.event("revised again", 0) = revised(2, [0, 2, 1, 1, 1], [None, Some("B"), None, None, None])),
    ("a revision without its own text", ("revised again", 0), "its system_prompt names revision", |log| *log.event("revised again", 0) = revised(2, [1, 2, 1, 1, 1], [None; 5])),
    ("a revision with a text of another", ("revised again", 0), "its model names revision", |log| *log.event("revised again", 0) = revised(2, [1, 2, 1, 1, 1], [Some("A"), Some("B"), None, None, None])),
    ("a revision that holds a text again", ("revised again", 0), "its tools is held by revision", |log| *log.event("revised again", 0) = revised(2, [1, 2, 2, 1, 1], [None, Some("B"), Some("[]"), None, None])),
    ("a revision that changes nothing", ("revised again", 0), "changes nothing", |log| *log.event("revised again", 0) = revised(2, [1; 5], [None; 5])),
    ("a revision that names one that only names another", ("third", 0), "its model names revision", |log| {
        log.add_after("revised again", "third", vec![revised(3, [2, 3, 1, 1, 1], [None, Some("x"), None, None, None])]);
    }),
];

#[rustfmt::skip]
pub(crate) const RECORDS: &[Forgery] = &[
    ("a server seen by another program", ("server", 0), "it names epoch 1, but its record", |log| *log.event("server", 0) = server_seen(1)),
    ("a server seen after the end", ("stopped", 0), "saw a server, but was not running", |log| {
        *log.event("server", 0) = stopped(2);
        *log.event("stopped", 0) = server_seen(2);
    }),
    ("a record of a foreign partition", ("overdue", 0), "the record is of partition", |log| log.draft("overdue").partition = 1),
    ("a record of a foreign partition in an append", ("paid", 0), "the record is of partition", |log| log.draft("paid").partition = 9),
    ("an epoch that goes back", ("resent", 0), "wrote after the writer of epoch", |log| {
        log.draft("resent").epoch = 1;
        *log.event("resent", 0) = sent("x1", 2, 1, "the process ended");
    }),
    ("a program of an earlier epoch that starts again", ("third", 0), "a program of epoch 1 started after one of epoch 2", |log| {
        log.add_after("stopped", "third", vec![started(1, 2)]);
        log.draft("third").epoch = 1;
    }),
    ("a record that no writer would make so long", ("remark", 0), "no writer exceeds", |log| {
        let entries = [("k".to_owned(), JsonText::string(&"x".repeat(RECORD_BYTES_MAX)))].into_iter().collect();
        *log.event("remark", 1) = AnyEvent::Task(TaskEvent::MetadataMerged(entries));
        log.draft("remark").limit = 2 * RECORD_BYTES_MAX;
    }),
    ("an epoch ahead of its program's", ("overdue", 0), "but no program had begun that epoch", |log| log.draft("overdue").epoch = 2),
    ("an epoch that no program began", ("stopped", 0), "but no program had begun that epoch", |log| {
        log.draft("stopped").epoch = 3;
        *log.event("stopped", 0) = stopped(3);
    }),
    ("two epochs in one append", ("waiting", 0), "but its append began with one of epoch", |log| log.draft("committed").epoch = 2),
    ("one set id in two appends", ("overdue", 0), "its append has the set id of an earlier", |log| log.draft("overdue").set = 1),
    ("one set id in two appends that follow each other", ("overdue", 0), "its append has the set id of an earlier", |log| log.draft("overdue").set = log.draft("booking").set),
    ("an append without its last record", ("paying", 0), "the append at position", |log| log.draft("inferred").parts = 3),
    ("an append without its first record", ("overdue", 0), "of its append comes first", |log| (log.draft("overdue").part, log.draft("overdue").parts) = (1, 2)),
    ("an append with two records of one stream", ("paid", 0), "its append has two records of the stream", |log| {
        let stream = log.draft("paid").stream.clone();
        log.draft("put").stream = stream;
        log.draft("put").events = vec![message("one")];
        log.drop_record("deleted");
        (log.draft("paid again").part, log.draft("paid again").parts) = (0, 1);
    }),
    ("one command decided twice", ("remark", 0), "already, and again here", |log| { let command = log.draft("again").command.clone(); log.draft("remark").command = command; }),
    ("one command that cancels after it submitted", ("canceled", 0), "already, and again here", |log| { let command = log.draft("begun").command.clone(); log.draft("canceled").command = command; }),
    ("an event of a session in a task", ("overdue", 0), "is unknown in streams of category", |log| *log.event("overdue", 0) = said(User, None)),
    ("an event of a task in a session", ("answer", 0), "is unknown in streams of category", |log| *log.event("answer", 0) = message("hello")),
    ("a stream of a category that does not exist", ("sending", 0), "is unknown in streams of category", |log| {
        let stream = StreamId::parse("flow-desk/t").unwrap();
        log.draft("sending").stream = stream;
        log.draft("sending").events = vec![requested(intent("d1", "send", Recovery::Idempotent, 1))];
        for label in ["sending again", "late"] { log.drop_record(label); }
    }),
];
