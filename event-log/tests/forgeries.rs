//! Logs forged with the project's own encoder: every hash, digest and chain is valid, and one fact is wrong. `verify`
//! finds it, at its stream and version.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests only")]

#[path = "forgeries/calls.rs"]
mod calls;
#[path = "forgeries/children.rs"]
mod children;
#[path = "forgeries/events.rs"]
mod events;
#[path = "forgeries/log.rs"]
mod log;
#[path = "forgeries/prompts.rs"]
mod prompts;
#[path = "forgeries/questions.rs"]
mod questions;
#[path = "forgeries/sealing.rs"]
mod sealing;
#[path = "forgeries/sound.rs"]
mod sound;
#[path = "forgeries/streams.rs"]
mod streams;

use log::Log;
use proto_events::id::{StreamId, Version};
use taskreel_log::audit::{Verified, verify};

/// A forgery: its name, the record and event that must be found, words of the finding, and the change.
type Forgery = (&'static str, (&'static str, u64), &'static str, fn(&mut Log));

fn all() -> impl Iterator<Item = &'static Forgery> {
    let of_calls =
        calls::CALLS.iter().chain(prompts::PROMPTS).chain(questions::QUESTIONS).chain(children::CHILDREN);
    of_calls.chain(streams::STREAMS).chain(streams::RECORDS)
}

/// Whether a finding with these words names the place.
fn finds(found: &Verified, (stream, version): &(StreamId, Version), says: &str) -> bool {
    found.findings.iter().any(|finding| {
        finding.stream.as_ref() == Some(stream)
            && finding.version == Some(*version)
            && finding.what.contains(says)
    })
}

#[test]
fn the_log_that_is_forged_is_sound() {
    let found = verify(&sound::sound().seal());
    assert!(found.is_sound(), "{:#?}", found.findings);
}

#[test]
fn every_forgery_is_found_at_its_stream_and_version() {
    let mut passed = Vec::new();
    for (what, place, says, forge) in all() {
        let mut log = sound::sound();
        forge(&mut log);
        let sealed = log.seal();
        let found = verify(&sealed);
        let place = sealed.place(*place);
        if !finds(&found, &place, says) {
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
