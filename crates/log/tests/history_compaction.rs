//! Compactions of random histories: calls and answers stay together, limits hold, and a second compaction changes nothing.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests only")]

use std::time::{Duration, Instant};

use proptest::prelude::*;
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{
    CompactionStrategy, ConversationHistory, HistoryCompactionRequest, LlmMessage, LlmRole,
};
use taskreel_log::context::{HistoryCompactor, estimate_tokens, summary_message};
use taskreel_log::ports::Ports;

fn message(role: LlmRole, content: String, id: usize) -> LlmMessage {
    LlmMessage {
        role,
        content,
        name: None,
        metadata: JsonObject::new(),
        id: format!("m{id}"),
        created_at: String::new(),
        tool_calls: JsonText::empty_object(),
        tool_name: None,
    }
}

/// A piece of a history: a question, a last word, or a call with this many answers, as a tool's messages or as notes.
#[derive(Debug, Clone)]
enum Piece {
    Said(LlmRole, usize),
    Call { answers: usize, as_notes: bool, length: usize },
}

fn pieces() -> impl Strategy<Value = Vec<Piece>> {
    let role = prop_oneof![Just(LlmRole::User), Just(LlmRole::Assistant)];
    let said = (role, 0..300_usize).prop_map(|(role, length)| Piece::Said(role, length));
    let call = (1..4_usize, any::<bool>(), 0..300_usize)
        .prop_map(|(answers, as_notes, length)| Piece::Call { answers, as_notes, length });
    proptest::collection::vec(prop_oneof![said, call], 0..40)
}

fn history(has_system: bool, pieces: &[Piece]) -> Vec<LlmMessage> {
    let mut messages = Vec::new();
    if has_system {
        messages.push(message(LlmRole::System, "Be brief.".to_owned(), 0));
    }
    for piece in pieces {
        let id = messages.len();
        match piece {
            Piece::Said(role, length) => messages.push(message(*role, "é\"".repeat(length / 2), id)),
            Piece::Call { answers, as_notes, length } => {
                messages.push(message(LlmRole::Assistant, r#"{"type": "tool_call"}"#.to_owned(), id));
                for answer in 0..*answers {
                    let text = "r".repeat(*length);
                    let (role, text) = if *as_notes {
                        (
                            LlmRole::System,
                            format!(r#"{{"type": "tool_result", "tool": "t", "result": "{text}"}}"#),
                        )
                    } else {
                        (LlmRole::Tool, text)
                    };
                    messages.push(message(role, text, id + 1 + answer));
                }
            }
        }
    }
    messages
}

/// Whether a message answers the call before it.
fn is_answer(messages: &[LlmMessage], place: usize) -> bool {
    let Some(message) = messages.get(place) else { return false };
    message.role == LlmRole::Tool || message.content.starts_with(r#"{"type": "tool_result""#)
}

fn tokens(messages: &[LlmMessage]) -> i64 {
    let mut history = ConversationHistory::new();
    history.replace(messages.to_vec());
    i64::try_from(estimate_tokens(&JsonText::of_model(&history.messages()).tree())).unwrap()
}

fn compacted(messages: &[LlmMessage], request: &HistoryCompactionRequest) -> Vec<LlmMessage> {
    let cut = HistoryCompactor::new().cut(messages, request, true).unwrap();
    let mut history = ConversationHistory::new();
    history.replace(messages.to_vec());
    let summary = cut.needs_summary().then(|| summary_message("They met.", &mut Ports::default()));
    let result = cut.result(summary.as_ref());
    cut.apply(&mut history, summary);
    let after = history.into_messages();
    assert_eq!(result.before_tokens, tokens(messages));
    assert_eq!(result.after_tokens, tokens(&after));
    assert_eq!(usize::try_from(result.after_messages).unwrap(), after.len());
    let (removed, added) = (result.removed_messages, i64::from(result.summary_created));
    assert_eq!(result.before_messages - removed + added, result.after_messages);
    after
}

proptest! {
    #[test]
    fn calls_and_answers_stay_together_limits_hold_and_once_is_enough(
        has_system in any::<bool>(),
        pieces in pieces(),
        strategy in 0..3_usize,
        (max_messages, max_tokens, preserve_recent) in (2..20_i64, 1..2_000_i64, 1..10_i64),
    ) {
        let strategies =
            [CompactionStrategy::Recent, CompactionStrategy::Tokens, CompactionStrategy::Summary];
        let strategy = strategies[strategy];
        let request = HistoryCompactionRequest {
            strategy, max_messages, max_tokens, preserve_recent, ..HistoryCompactionRequest::default()
        };
        let before = history(has_system, &pieces);
        let after = compacted(&before, &request);
        let leading = usize::from(has_system);
        prop_assert_eq!(after.first().filter(|_| has_system), before.first().filter(|_| has_system));
        let is_summed = strategy == CompactionStrategy::Summary && after.len() < before.len() + 1 && after
            .get(leading)
            .is_some_and(|first| !first.metadata.is_empty());
        let kept = &after[(leading + usize::from(is_summed)).min(after.len())..];
        // What is kept is the end of what was there, and does not begin with an answer.
        prop_assert!(before.ends_with(kept));
        prop_assert!(!is_answer(kept, 0), "an answer is kept without its call");
        let group = 4;
        let most = usize::try_from(max_messages).unwrap();
        let recent = usize::try_from(preserve_recent).unwrap();
        match strategy {
            CompactionStrategy::Recent => prop_assert!(after.len() < most + group),
            CompactionStrategy::Tokens => {
                prop_assert!(kept.len() < recent + group || tokens(&after) <= max_tokens);
            }
            CompactionStrategy::Summary => prop_assert!(kept.len() < recent + group),
        }
        if !is_summed {
            prop_assert_eq!(compacted(&after, &request), after.clone(), "a second compaction changes nothing");
        }
    }
}

/// A history of five thousand messages, a fifth of them answers.
fn long() -> Vec<LlmMessage> {
    let pieces: Vec<Piece> = (0..1_000)
        .flat_map(|_| {
            let said = Piece::Said(LlmRole::User, 200);
            [said.clone(), Piece::Call { answers: 1, as_notes: false, length: 200 }, said.clone(), said]
        })
        .collect();
    history(true, &pieces)
}

#[test]
fn the_time_of_a_cut_grows_with_the_messages_and_not_with_their_square() {
    let request = |max_tokens| HistoryCompactionRequest {
        strategy: CompactionStrategy::Tokens,
        max_tokens,
        ..HistoryCompactionRequest::default()
    };
    let messages = long();
    let time = |messages: &[LlmMessage]| {
        let begin = Instant::now();
        // All but a few messages are kept, so that each step back is taken.
        HistoryCompactor::new().cut(messages, &request(1_000_000), true).unwrap();
        begin.elapsed()
    };
    // Ten times as long is right, a hundred times would be the square. On a busy machine a round may be held up, and the
    // next one need not be.
    let is_linear = |_| {
        let (tenth, whole) = (time(&messages[..500]), time(&messages));
        whole < tenth * 30 + Duration::from_millis(5)
    };
    assert!((0..40).any(is_linear), "the square of the messages");
    let kept = HistoryCompactor::new().cut(&messages, &request(4_000), true).unwrap();
    assert!(kept.after_tokens(None) <= 4_000 && kept.removed() > 4_000);
}
