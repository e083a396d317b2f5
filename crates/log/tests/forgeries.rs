//! Logs forged with the project's own encoder: every hash, digest and chain is valid, and one fact is wrong. `verify`
//! finds it, at its stream and version.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests only")]

#[path = "forgeries/asking.rs"]
mod asking;
#[path = "forgeries/asks.rs"]
mod asks;
#[path = "forgeries/calls.rs"]
mod calls;
#[path = "forgeries/children.rs"]
mod children;
#[path = "forgeries/compactions.rs"]
mod compactions;
#[path = "forgeries/delegated.rs"]
mod delegated;
#[path = "forgeries/events.rs"]
mod events;
#[path = "forgeries/generated.rs"]
mod generated;
#[path = "forgeries/honest.rs"]
mod honest;
#[path = "forgeries/log.rs"]
mod log;
#[path = "forgeries/programs.rs"]
mod programs;
#[path = "forgeries/prompts.rs"]
mod prompts;
#[path = "forgeries/questions.rs"]
mod questions;
#[path = "forgeries/registries.rs"]
mod registries;
#[path = "forgeries/sealing.rs"]
mod sealing;
#[path = "forgeries/sound.rs"]
mod sound;
#[path = "forgeries/streams.rs"]
mod streams;
#[path = "forgeries/webhooks.rs"]
mod webhooks;
#[path = "forgeries/words.rs"]
mod words;

use std::sync::LazyLock;

use log::Log;
use proto_events::id::{Digest, StreamId, Version};
use taskreel_log::api::EventReader;
use taskreel_log::audit::{FindingKind, Scope, VerifyReport, verify, verify_within};

/// A forgery: its name, the record and event that must be found, words of the finding, and the change.
type Forgery = (&'static str, (&'static str, u64), &'static str, fn(&mut Log));

fn all() -> impl Iterator<Item = &'static Forgery> {
    let of_calls =
        calls::CALLS.iter().chain(prompts::PROMPTS).chain(questions::QUESTIONS).chain(children::CHILDREN);
    let of_states = compactions::COMPACTIONS
        .iter()
        .chain(registries::REGISTRIES)
        .chain(webhooks::WEBHOOKS)
        .chain(streams::STREAMS)
        .chain(streams::RECORDS)
        .chain(asks::ASKS);
    of_calls.chain(programs::PROGRAMS).chain(delegated::DELEGATED).chain(of_states)
}

/// Verifies a log, and again with the checks of one stream in memory, which finds the same.
fn verified(log: &dyn EventReader) -> VerifyReport {
    let found = verify(log);
    let scope = Scope { keep_bytes: Some(1), ..Scope::default() };
    let again = verify_within(log, &scope, &mut |_| {});
    assert_eq!(again, found, "streams that are read again");
    found
}

/// Whether a finding with these words names the place.
fn finds(found: &VerifyReport, (stream, version): &(StreamId, Version), says: &str) -> bool {
    found.findings.iter().any(|finding| {
        finding.stream.as_ref() == Some(stream)
            && finding.version == Some(*version)
            && finding.what.contains(says)
    })
}

/// Returns the log that is forged: the sound one, with a summary.
fn sound() -> Log {
    let mut log = sound::sound();
    compactions::sums_up(&mut log);
    log
}

#[test]
fn the_log_that_is_forged_is_sound() {
    let found = verified(&sound().seal());
    assert!(found.is_sound(), "{:#?}", found.findings);
}

#[test]
fn the_checks_of_streams_that_were_used_long_ago_are_dropped() {
    let log = sound().seal();
    let scope = |keep_bytes| Scope { keep_bytes, ..Scope::default() };
    let pages = |keep| {
        verify_within(&log, &scope(keep), &mut |_| {});
        log.pages()
    };
    let all = pages(None);
    let (some, one) = (pages(Some(40 * 1_000)), pages(Some(1)));
    assert!(all < some && some < one, "{all}, {some} and {one} pages of streams");
}

#[test]
fn a_long_stream_whose_records_follow_each_other_is_not_read_again() {
    let pages = |more| {
        let mut log = sound();
        for _ in 0..more {
            log.add_after("remark", "next", vec![events::message("next")]);
        }
        let log = log.seal();
        let scope = Scope { keep_bytes: Some(8 * 1_000), ..Scope::default() };
        assert!(verify_within(&log, &scope, &mut |_| {}).is_sound());
        log.pages()
    };
    let (short, long) = (pages(0), pages(60));
    // Its 60 records are read again once or twice, and not at each of them.
    assert!(long < short + 3 * 60, "{short} and {long} pages of streams");
}

#[test]
fn a_stream_that_cannot_be_read_again_as_it_was_is_a_finding_of_the_index() {
    let log = sound().seal().misled();
    let scope = Scope { keep_bytes: Some(1), ..Scope::default() };
    let found = verify_within(&log, &scope, &mut |_| {});
    let is_told = |what: &str| what.contains("could not be read again, so that its rules were not applied");
    assert!(found.findings.iter().any(|found| found.kind == FindingKind::Index && is_told(&found.what)));
    assert!(found.findings.iter().all(|found| found.kind == FindingKind::Index), "{:#?}", found.findings);
}

#[test]
fn honest_courses_that_are_close_to_a_forgery_are_sound() {
    for (what, course) in honest::HONEST {
        let mut log = sound();
        course(&mut log);
        asking::fill(&mut log);
        let found = verified(&log.seal());
        assert!(found.is_sound(), "{what}: {:#?}", found.findings);
    }
}

#[test]
fn a_clock_that_was_set_back_is_a_note_with_both_times_and_no_fault() {
    for (at, notes) in [(-2 * 86_400 * log::SECOND, 1), (-65 * log::SECOND, 1), (-30 * log::SECOND, 0)] {
        let mut log = sound();
        log.draft("overdue").at += at;
        let found = verify(&log.seal());
        assert!(found.is_sound(), "{:#?}", found.findings);
        assert_eq!((found.notes.len(), found.notes_dropped), (notes, 0), "{:?}", found.notes);
        assert!(found.notes.iter().all(|note| note.matches("2026-11-1").count() == 2), "{:?}", found.notes);
    }
    let mut log = sound();
    log.draft("overdue").at = 0;
    assert!(verify(&log.seal()).notes[0].contains("1970-01-01"));
}

/// A forgery, the place at which it must be found, and what was found.
type Found = (&'static Forgery, (StreamId, Version), VerifyReport);

static VERIFIED: LazyLock<Vec<Found>> = LazyLock::new(|| {
    let found = |forgery: &'static Forgery| {
        let (_, place, _, forge) = forgery;
        let mut log = sound();
        forge(&mut log);
        let sealed = log.seal();
        (forgery, sealed.place(*place), verified(&sealed))
    };
    all().map(found).collect()
});

#[test]
fn every_forgery_is_found_at_its_stream_and_version() {
    let mut passed = Vec::new();
    for ((what, _, says, _), place, found) in VERIFIED.iter() {
        if !finds(found, place, says) {
            let others: Vec<&str> = found.findings.iter().map(|other| other.what.as_str()).collect();
            passed.push(format!("{what} ({} at {}): {others:?}", place.0, place.1));
        }
    }
    assert!(passed.is_empty(), "{} of {} passed:\n{}", passed.len(), all().count(), passed.join("\n"));
}

#[test]
fn there_are_many_forgeries_and_no_two_have_one_name() {
    let names: std::collections::BTreeSet<_> = all().map(|(what, ..)| what).collect();
    assert_eq!(names.len(), all().count());
    assert!(names.len() >= 120, "{}", names.len());
}

/// The words of findings that no forgery of this log has, and the reason.
const ELSEWHERE: &[(&str, &str)] = &[
    ("the body of version ", "bodies are damaged in the tests of damages"),
    ("the tool's state has  keys", "it takes the writes of forty calls"),
    ("could not be registered", "a body with a card that lacks what it must have is not decoded"),
    ("was registered by another principal", "the records that are forged here all have one principal"),
    ("could not be read again, so that", "the log that is forged here is in memory"),
    ("the records that the index leads to", "as the one before"),
    ("not one of this stream's category", "the stream's name decides how its events are decoded"),
];

/// Returns what is found in the sound log where whole records are wrong, which no sealing makes.
fn of_records() -> Vec<String> {
    let changed = |change: fn(&mut Log)| {
        let mut log = sound();
        change(&mut log);
        log.seal()
    };
    let other = changed(|log| *log.event("remark", 0) = events::message("other"));
    let next = changed(|log| log.add_after("remark", "next", vec![events::message("next")]));
    let [missing, hash, previous] = [
        changed(|_| {}).without("booked"),
        changed(|_| {}).with_hash("booked", Digest::compute(b"another")),
        next.with(&other, "remark"),
    ];
    let found = [missing, hash, previous].map(|log| verified(&log).findings);
    let notes = verify(&changed(|log| log.draft("overdue").at = 0)).notes;
    found.into_iter().flatten().map(|found| found.what).chain(notes).collect()
}

#[test]
fn the_words_of_every_finding_about_records_and_events_are_met_by_some_forgery() {
    let mut met: Vec<String> = of_records();
    met.extend(VERIFIED.iter().flat_map(|(_, _, found)| &found.findings).map(|found| found.what.clone()));
    let unchecked = verify(&sound().seal()).unchecked;
    let named = words::of_findings();
    assert!(named.len() > 100, "{}", named.len());
    let is_met = |pieces: &[String]| {
        let is_unchecked = unchecked.iter().any(|what| *what == pieces.concat());
        let is_elsewhere = is_unchecked || ELSEWHERE.iter().any(|(words, _)| pieces.concat().contains(words));
        is_elsewhere || met.iter().any(|what| words::has(what, pieces))
    };
    let unmet: Vec<String> =
        named.iter().filter(|pieces| !is_met(pieces)).map(|pieces| pieces.join("{}")).collect();
    assert!(unmet.is_empty(), "{} findings without a forgery:\n{}", unmet.len(), unmet.join("\n"));
}
