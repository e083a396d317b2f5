//! Forgeries of questions to a person, handlers and artifacts in pieces.

use proto_events::call::{CallEvent, CallKind, CancelStage, Recovery};
use proto_events::codec::AnyEvent;
use proto_events::task::TaskEvent;

use super::Forgery;
use super::events::*;

#[rustfmt::skip]
pub(crate) const QUESTIONS: &[Forgery] = &[
    ("an answer without a question", ("asking", 0), "was answered by a person, but has no open question", |log| *log.event("asking", 0) = answers()),
    ("a second answer", ("answering", 1), "was answered by a person, but has no open question", |log| log.insert("answering", 1, answers())),
    ("an answer after the outcome", ("handled", 1), "was answered by a person after its outcome (succeeded", |log| log.insert("handled", 1, answers())),
    ("an attempt while the question is open", ("answering", 2), "was sent while its question to a person was open", |log| log.remove("answering", 0)),
    ("a run that begins over an open question", ("answering", 1), "input-required -> working, but its call `h1` has no outcome", |log| log.remove("answering", 0)),
    ("a wait for a person with a call in flight", ("asking", 0), "working -> input-required, but its call `h1` has no outcome", |log| log.remove("asking", 0)),
    ("a wait for a person with a second open call", ("asking", 2), "working -> input-required, but its call `z1` has no outcome", |log| {
        log.insert("asking", 0, requested(intent("z1", "read", Recovery::ReadOnly, 1)));
        log.insert("answering", 0, canceled("z1", CancelStage::Requested));
    }),
    ("a question of a model", ("asking", 0), "asked a person, which an inference cannot", |log| {
        let AnyEvent::Task(TaskEvent::Call(CallEvent::Requested(request))) = log.event("handling", 0) else { panic!() };
        request.kind = CallKind::Infer;
    }),
    ("a question of an attempt never sent", ("asking", 0), "attempt 2 asked a person, but was never sent", |log| *log.event("asking", 0) = asks(2)),
    ("a question of a call never sent", ("asking", 0), "attempt 1 asked a person, but was never sent", |log| log.remove("handling", 1)),
    ("a question after the outcome", ("handled", 1), "asked a person after its outcome (succeeded", |log| log.insert("handled", 1, asks(2))),
    ("a task of no other agent", ("handling", 2), "was taken by another agent, but asks none", |log| log.insert("handling", 2, taken("h1", 1, "theirs"))),
    ("a task of another agent without an id", ("delegated", 0), "its task has an id of 0 bytes at the other agent", |log| log.insert("delegated", 0, taken("p1", 1, ""))),
    ("a task that was never sent to another agent", ("delegated", 0), "attempt 2 was taken by another agent, but was never sent", |log| log.insert("delegated", 0, taken("p1", 2, "theirs"))),
    ("a task of another agent after the outcome", ("delegated", 1), "was taken by another agent after its outcome (failed", |log| log.insert("delegated", 1, taken("p1", 1, "theirs"))),
    ("a task of another agent before anything was sent", ("delegating", 2), "was taken by another agent, but it is requested", |log| log.insert("delegating", 2, taken("p1", 0, "theirs"))),
    ("an attempt over the limit that no question had ended", ("handled", 0), "attempt 3 is over its limit of 1", |log| {
        log.insert("handled", 0, sent("h1", 3, 1, "again"));
        *log.event("handled", 1) = succeeded("h1", 3);
    }),
    ("a cancellation in flight of a call that waits for a person", ("answering", 0), "its cancellation says otherwise, but it was not sent", |log| {
        *log.event("answering", 0) = canceled("h1", CancelStage::InFlight);
    }),
    ("a piece of a complete artifact", ("handled", 0), "a piece was added to the artifact `art_p`, which was complete", |log| log.insert("handled", 0, piece(Some("art_p"), false))),
    ("a piece of a whole artifact", ("last piece", 0), "a piece was added to the artifact `art_p`, which was complete", |log| *log.event("piece", 0) = artifact("art_p", None)),
    ("a piece that names no artifact", ("piece", 0), "a piece of an artifact names no artifact", |log| *log.event("piece", 0) = piece(None, false)),
    ("a piece after the end", ("handled", 2), "a piece of an artifact was added although the task is completed", |log| log.insert("handled", 2, piece(Some("art_q"), false))),
];
