//! Storage structs of the compaction of a session's history, and of the calls for summaries.

use serde::{Deserialize, Serialize};

use crate::call::TokenUsage;
use crate::codec::code::CodedEnum;
use crate::codec::error::{CodecError, FieldError};
use crate::codec::kind;
use crate::codec::storable::Payload;
use crate::codec::stored_model::{LlmMessageV1, json};
use crate::codec::upcast::{first_version, read, write};
use crate::id::{Digest, Version};
use crate::json::JsonText;
use crate::model::CompactionStrategy;
use crate::session::event::{HistoryCompacted, SessionEvent, SummaryRequested};

#[derive(Serialize, Deserialize)]
struct CompactedV1<'a> {
    strategy: u8,
    read_through: u64,
    removed: u32,
    #[serde(borrow)]
    summary: Option<LlmMessageV1<'a>>,
    #[serde(borrow)]
    call_id: Option<&'a str>,
    before_tokens: u64,
    after_tokens: u64,
}

#[derive(Serialize, Deserialize)]
struct RequestedSummaryV1<'a> {
    call_id: &'a str,
    target: &'a str,
    read_through: u64,
    messages: u32,
    max_tokens: u64,
    digest: [u8; 32],
}

#[derive(Serialize, Deserialize)]
struct ReceivedSummaryV1<'a> {
    call_id: &'a str,
    reply: &'a str,
    usage: Option<(u64, u64)>,
    #[serde(borrow)]
    dropped: Option<&'a str>,
}

#[derive(Serialize, Deserialize)]
struct FailedSummaryV1<'a> {
    call_id: &'a str,
    error_type: &'a str,
    message: &'a str,
    usage: Option<(u64, u64)>,
}

first_version!(CompactedV1<'a>, RequestedSummaryV1<'a>, ReceivedSummaryV1<'a>, FailedSummaryV1<'a>);

fn stored_usage(usage: Option<TokenUsage>) -> Option<(u64, u64)> {
    usage.map(|usage| (usage.input_tokens, usage.output_tokens))
}

fn usage_of(stored: Option<(u64, u64)>) -> Option<TokenUsage> {
    stored.map(|(input_tokens, output_tokens)| TokenUsage { input_tokens, output_tokens })
}

pub(super) fn compacted_payload(compacted: &HistoryCompacted) -> Result<Payload, CodecError> {
    let stored = CompactedV1 {
        strategy: compacted.strategy.code(),
        read_through: compacted.read_through.0,
        removed: compacted.removed,
        summary: compacted.summary.as_ref().map(LlmMessageV1::from_message),
        call_id: compacted.call_id.as_deref(),
        before_tokens: compacted.before_tokens,
        after_tokens: compacted.after_tokens,
    };
    write(kind::HISTORY_COMPACTED, &stored)
}

pub(super) fn requested_payload(request: &SummaryRequested) -> Result<Payload, CodecError> {
    let stored = RequestedSummaryV1 {
        call_id: &request.call_id,
        target: &request.target,
        read_through: request.read_through.0,
        messages: request.messages,
        max_tokens: request.max_tokens,
        digest: request.digest.0,
    };
    write(kind::SUMMARY_REQUESTED, &stored)
}

pub(super) fn received_payload(
    call_id: &str,
    reply: &JsonText,
    usage: Option<TokenUsage>,
    dropped: Option<&str>,
) -> Result<Payload, CodecError> {
    let stored = ReceivedSummaryV1 { call_id, reply: reply.as_str(), usage: stored_usage(usage), dropped };
    write(kind::SUMMARY_RECEIVED, &stored)
}

pub(super) fn failed_payload(
    call_id: &str,
    error_type: &str,
    message: &str,
    usage: Option<TokenUsage>,
) -> Result<Payload, CodecError> {
    write(kind::SUMMARY_FAILED, &FailedSummaryV1 { call_id, error_type, message, usage: stored_usage(usage) })
}

/// Reads an event of one of the four kinds of this file.
pub(super) fn read_compaction(kind: u16, schema: u8, body: &[u8]) -> Result<SessionEvent, CodecError> {
    let damaged = |error: FieldError| CodecError::Damaged { kind, why: error.to_string() };
    Ok(match kind {
        kind::HISTORY_COMPACTED => {
            let stored: CompactedV1<'_> = read(kind, schema, body)?;
            SessionEvent::HistoryCompacted(Box::new(HistoryCompacted {
                strategy: CompactionStrategy::of_code(stored.strategy).map_err(damaged)?,
                read_through: Version(stored.read_through),
                removed: stored.removed,
                summary: stored.summary.map(LlmMessageV1::read).transpose().map_err(damaged)?,
                call_id: stored.call_id.map(str::to_owned),
                before_tokens: stored.before_tokens,
                after_tokens: stored.after_tokens,
            }))
        }
        kind::SUMMARY_REQUESTED => {
            let stored: RequestedSummaryV1<'_> = read(kind, schema, body)?;
            SessionEvent::SummaryRequested(Box::new(SummaryRequested {
                call_id: stored.call_id.to_owned(),
                target: stored.target.to_owned(),
                read_through: Version(stored.read_through),
                messages: stored.messages,
                max_tokens: stored.max_tokens,
                digest: Digest(stored.digest),
            }))
        }
        kind::SUMMARY_RECEIVED => {
            let ReceivedSummaryV1 { call_id, reply, usage, dropped } = read(kind, schema, body)?;
            SessionEvent::SummaryReceived {
                call_id: call_id.to_owned(),
                reply: json(reply).map_err(damaged)?,
                usage: usage_of(usage),
                dropped: dropped.map(str::to_owned),
            }
        }
        _ => {
            let FailedSummaryV1 { call_id, error_type, message, usage } = read(kind, schema, body)?;
            SessionEvent::SummaryFailed {
                call_id: call_id.to_owned(),
                error_type: error_type.to_owned(),
                message: message.to_owned(),
                usage: usage_of(usage),
            }
        }
    })
}
