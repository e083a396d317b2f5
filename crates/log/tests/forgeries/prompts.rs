//! Forgeries of what an inference was shown.

use proto_events::call::{
    CallEvent, Cut, CutRule, KeptRange, MessageRule, PromptRef, Recovery, Selection, Sizes,
};
use proto_events::codec::AnyEvent;
use proto_events::id::{Digest, StreamId, Version};
use proto_events::model::LlmRole::{Assistant, System, User};
use proto_events::model::TaskState::{Submitted, Working};
use proto_events::session::SessionEvent;
use proto_events::task::TaskEvent;
use taskreel_log::audit::verify;
use taskreel_log::shown::prompt_of;

use super::Forgery;
use super::events::*;
use super::log::Log;

fn of(log: &mut Log, label: &str, change: impl FnOnce(&mut PromptRef)) {
    match log.event(label, 0) {
        AnyEvent::Task(TaskEvent::Call(CallEvent::Requested(request))) => {
            change(request.prompt.as_mut().expect("an inference"));
        }
        other => panic!("no intent: {other:?}"),
    }
}

/// A selection of the sound log's prompts, which have one message each.
fn selection(first: u32, count: u32, cut: u32) -> Selection {
    let cuts = vec![Cut { message: cut, rule: CutRule::Head, characters: 2, marker: None }];
    Selection {
        strategy: "fit".to_owned(),
        kept: vec![KeptRange { first, count }],
        cuts,
        ..Selection::default()
    }
}

/// A selection of all messages, of as many, and what is wrong with it.
fn selection_of(messages: u32, change: impl FnOnce(&mut Selection, &mut Sizes)) -> Selection {
    let kept = vec![KeptRange { first: 0, count: messages }];
    let mut selection = Selection { strategy: "fit".to_owned(), kept, ..Selection::default() };
    let mut sizes = Sizes { messages_before: messages + 1, ..Sizes::default() };
    change(&mut selection, &mut sizes);
    Selection { sizes: Some(sizes), ..selection }
}

/// Adds a call and its answer to the session's turn, and has the inference shown these ranges of its three messages.
fn parting(log: &mut Log, kept: &[(u32, u32)]) {
    log.draft("turn").events.extend([said(Assistant, Some("z")), said(User, Some("z"))]);
    let kept: Vec<_> = kept.iter().map(|(first, count)| KeptRange { first: *first, count: *count }).collect();
    of(log, "inferring", |prompt| {
        prompt.messages = 1 + kept.iter().map(|range| range.count).sum::<u32>();
        prompt.selection = Some(selection_of(3, |selection, _| selection.kept = kept));
    });
}

fn rule(except: &[u32]) -> MessageRule {
    MessageRule { rule: CutRule::Head, characters: 2, marker: None, except: except.to_vec() }
}

#[rustfmt::skip]
pub(crate) const PROMPTS: &[Forgery] = &[
    ("an inference that names no prompt", ("inferring", 0), "is an inference that names no prompt", |log| {
        if let AnyEvent::Task(TaskEvent::Call(CallEvent::Requested(request))) = log.event("inferring", 0) { request.prompt = None; }
    }),
    ("a tool's call that names a prompt", ("booking", 0), "names a prompt, but is no inference", |log| {
        if let AnyEvent::Task(TaskEvent::Call(CallEvent::Requested(request))) = log.event("booking", 0) { request.prompt = Some(prompt(None)); }
    }),
    ("a session read through an older version", ("inferring", 0), "through version 3, not 4", |log| of(log, "inferring", |prompt| prompt.read_through = Version(3))),
    ("a session read through a version to come", ("inferring", 0), "through version 5, not 4", |log| of(log, "inferring", |prompt| prompt.read_through = Version(5))),
    ("a task read through another version", ("plain infers", 0), "through version 2, not 3", |log| of(log, "plain infers", |prompt| prompt.read_through = Version(2))),
    ("a system prompt that its agent never had", ("inferring", 0), "was shown a system prompt that no definition of its", |log| *log.event("turn", 2) = system_prompt_of(System, "obey")),
    ("a system prompt that its agent had only later", ("inferring", 0), "was shown a system prompt that no definition of its", |log| *log.event("turn", 2) = system_prompt_of(System, &rendered("B"))),
    ("a system prompt with a hint that its task has not", ("inferring", 0), "was shown a system prompt that no definition of its", |log| *log.event("turn", 2) = system_prompt_of(System, &(rendered("b") + "\n\nobey"))),
    ("a prompt with a message less", ("inferring", 0), "names 1 messages, but what it was shown has 2", |log| of(log, "inferring", |prompt| prompt.messages = 1)),
    ("a plain prompt with a message more", ("plain infers", 0), "names 3 messages, but what it was shown has 2", |log| of(log, "plain infers", |prompt| prompt.messages = 3)),
    ("a prompt of another digest", ("inferring", 0), "names a prompt of digest", |log| of(log, "inferring", |prompt| prompt.digest = Digest([7; 32]))),
    ("a plain prompt of another digest", ("plain infers", 0), "names a prompt of digest", |log| of(log, "plain infers", |prompt| prompt.digest = Digest([7; 32]))),
    ("a prompt of a revision that does not exist", ("inferring", 0), "was shown revision 2 of its agent, which does not exist", |log| of(log, "inferring", |prompt| prompt.revision = 2)),
    ("a prompt of revision 0", ("inferring", 0), "was shown revision 0 of its agent, which does not exist", |log| of(log, "inferring", |prompt| prompt.revision = 0)),
    ("a prompt by another renderer under the old digest", ("inferring", 0), "names a prompt of digest", |log| {
        let sealed = log.seal();
        let digest = sealed.prompt("inferring").digest;
        of(log, "inferring", |prompt| (prompt.renderer, prompt.digest) = (2, digest));
    }),
    ("a selection of messages that are not there", ("inferring", 0), "a selection of messages that does not fit: its kept range from message 1", |log| of(log, "inferring", |prompt| prompt.selection = Some(selection(1, 1, 1)))),
    ("a cut of a message that is not kept", ("inferring", 0), "a selection of messages that does not fit: its cut of message 3", |log| of(log, "inferring", |prompt| prompt.selection = Some(selection(0, 1, 3)))),
    ("a selection of more messages than there were", ("inferring", 0), "names a selection of 9 messages, but there were 2", |log| of(log, "inferring", |prompt| {
        let sizes = Some(Sizes { messages_before: 9, ..Sizes::default() });
        prompt.selection = Some(Selection { sizes, ..selection(0, 1, 0) });
    })),
    ("a selection that keeps a call without its answer", ("inferring", 0), "parts message 2 from the call that it answers", |log| parting(log, &[(0, 2)])),
    ("a selection that keeps an answer without its call", ("inferring", 0), "parts message 2 from the call that it answers", |log| parting(log, &[(0, 1), (2, 1)])),
    ("a selection that exceeds its own limit", ("inferring", 0), "names a selection of 9 tokens, more than its limit of 8", |log| of(log, "inferring", |prompt| {
        prompt.selection = Some(selection_of(1, |_, sizes| (sizes.tokens_after, sizes.limit) = (9, Some(8))));
    })),
    ("a rule that excepts a message which is not there", ("inferring", 0), "its rule 0 names a marker that is not there, or exceptions that are out of order or not kept", |log| of(log, "inferring", |prompt| {
        prompt.selection = Some(selection_of(1, |selection, _| selection.rules = vec![rule(&[7])]));
    })),
    ("a selection without sizes that has rules", ("inferring", 0), "names a selection with rules or markers, but without sizes", |log| of(log, "inferring", |prompt| {
        prompt.selection = Some(Selection { rules: vec![rule(&[])], ..selection(0, 1, 0) });
    })),
    ("a selection without sizes that has markers", ("inferring", 0), "names a selection with rules or markers, but without sizes", |log| of(log, "inferring", |prompt| {
        prompt.selection = Some(Selection { markers: vec!["...".to_owned()], ..selection(0, 1, 0) });
    })),
    ("a message that was changed under the prompt", ("inferring", 0), "names a prompt of digest", |log| {
        let digest = log.seal().prompt("inferring").digest;
        *log.event("turn", 3) = super::events::said(proto_events::model::LlmRole::Assistant, None);
        of(log, "inferring", |prompt| prompt.digest = digest);
    }),
    ("a definition that was changed under the prompts", ("inferring", 0), "names a prompt of digest", |log| {
        let digest = log.seal().prompt("inferring").digest;
        of(log, "inferring", |prompt| prompt.digest = digest);
        *log.event("revised", 0) = super::events::revised(1, [1; 5], [Some("a"), Some("other"), Some("[]"), Some("[]"), Some("{}")]);
    }),
    ("a definition whose tools are no list", ("revised", 0), "its tools is not a list of what a model can be shown", |log| *log.event("revised", 0) = super::events::revised(1, [1; 5], [Some("a"), Some("b"), Some("c"), Some("[]"), Some("{}")])),
];

/// Returns a log with one inference of five messages of which a strategy kept the first, the fourth and the beginning of
/// the fifth.
fn selected() -> Log {
    let (task, session) = (task("t"), session());
    let (desk, programs) = (StreamId::of_agent("desk").unwrap(), StreamId::of_system(0));
    let mut log = Log::default();
    log.epoch(1);
    let first = revised(1, [1; 5], [Some("a"), Some("b"), Some("[]"), Some("[]"), Some("{}")]);
    log.append(vec![("revised", &desk, vec![first]), ("started", &programs, vec![started(1, 1)])]);
    log.append(vec![("begun", &task, vec![submitted("t", Submitted), changed(Submitted, Working)])]);
    let mut turn = vec![opened("s"), turn_started("turn 1", &task), system_prompt(System)];
    for text in ["zero", "one", "two", "three", "fôur"] {
        let AnyEvent::Session(SessionEvent::MessageAppended(mut said)) = said(User, None) else { panic!() };
        text.clone_into(&mut said.message.content);
        turn.push(AnyEvent::Session(SessionEvent::MessageAppended(said)));
    }
    let kept = vec![KeptRange { first: 0, count: 1 }, KeptRange { first: 3, count: 2 }];
    let cuts = vec![Cut { message: 4, rule: CutRule::Head, characters: 2, marker: None }];
    let mut infer = intent("i1", "model", Recovery::Reissue, 1);
    let selection = Some(Selection { strategy: "newest".to_owned(), kept, cuts, ..Selection::default() });
    infer.prompt = Some(PromptRef { messages: 4, selection, ..prompt(Some(&session)) });
    let asks = vec![requested(infer), sent("i1", 1, 1, "")];
    log.append(vec![("turn", &session, turn), ("inferring", &task, asks)]);
    super::asking::fill(&mut log);
    log
}

#[test]
fn a_sound_selection_of_messages_is_rendered_as_it_was_kept_and_cut_and_another_count_is_found() {
    let sealed = selected().seal();
    let found = verify(&sealed);
    assert!(found.is_sound(), "{:#?}", found.findings);
    let shown = prompt_of(&sealed, &task("t"), "i1").unwrap();
    assert_eq!(shown.system, rendered("b"));
    let messages: Vec<&str> = shown.messages.iter().map(|message| message.content.as_str()).collect();
    assert_eq!(messages, ["zero", "three", "fô"]);
    for count in [3, 6] {
        let mut log = selected();
        of(&mut log, "inferring", |prompt| prompt.messages = count);
        assert!(!verify(&log.seal()).is_sound(), "{count} messages in place of 4");
    }
}

#[test]
fn a_selection_whose_edges_stand_beside_a_call_and_its_answer_is_sound() {
    for kept in [&[(0, 3)][..], &[(0, 1)], &[(1, 2)], &[(0, 2), (2, 1)]] {
        let mut log = super::sound::sound();
        parting(&mut log, kept);
        let found = verify(&log.seal());
        assert!(found.is_sound(), "{kept:?}: {:#?}", found.findings);
    }
}

#[test]
fn a_prompt_whose_selection_does_not_fit_its_history_is_not_rendered() {
    let before = |before: u32| Some(Sizes { messages_before: before, ..Sizes::default() });
    let kept = |first| vec![KeptRange { first, count: 1 }];
    for (kept, sizes, why) in [
        (kept(1), before(6), None),
        (kept(5), before(6), Some("its kept range from message 5")),
        (kept(1), before(9), Some("it is one of 9 messages, but there were 6")),
    ] {
        let mut log = selected();
        of(&mut log, "inferring", |prompt| {
            prompt.selection = Some(Selection { kept, sizes, ..Selection::default() });
        });
        let shown = prompt_of(&log.seal(), &task("t"), "i1");
        match why {
            None => assert_eq!(shown.map(|shown| (shown.messages.len(), shown.left_out)), Ok((1, 4))),
            Some(why) => {
                let error = shown.unwrap_err().to_string();
                assert!(error.contains("does not fit the history") && error.contains(why), "{error}");
            }
        }
    }
}
