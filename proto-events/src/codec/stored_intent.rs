//! Storage structs of intents.

use serde::{Deserialize, Serialize};

use crate::call::price::Price;
use crate::call::request::{CallKind, CallOrigin, CallRequested, ParentCall, Recovery};
use crate::codec::code::Coded;
use crate::codec::error::FieldError;
use crate::codec::stored_model::json;
use crate::codec::stored_prompt::PromptV1;
use crate::codec::upcast::first_version;
use crate::envelope::Timestamp;

#[derive(Serialize, Deserialize)]
pub(super) struct RequestedV1 {
    call_id: String,
    kind: u8,
    target: String,
    args: String,
    idempotency_key: String,
    recovery: u8,
    recovery_source: String,
    timeout_ms: u64,
    heartbeat_ms: Option<u64>,
    max_attempts: u32,
    retry_errors: bool,
    window_ms: Option<u64>,
    deadline: Option<i64>,
    secrets: Vec<String>,
    capabilities: Vec<String>,
    approval: Option<String>,
    run: u32,
    part: u32,
    step: u32,
    infer_call: Option<String>,
    part_call_id: Option<String>,
    /// The parent's id, and the place among its calls.
    parent: Option<(String, u32)>,
    prompt: Option<PromptV1>,
    price: Option<PriceV1>,
}

#[derive(Serialize, Deserialize)]
struct PriceV1 {
    input_per_million: u64,
    output_per_million: u64,
    currency: String,
}

first_version!(RequestedV1);

impl RequestedV1 {
    pub(super) fn of(request: CallRequested) -> Self {
        let CallOrigin { run, part, step, infer_call, part_call_id, parent } = request.origin;
        Self {
            call_id: request.call_id,
            kind: request.kind.code(),
            target: request.target,
            args: request.args.as_str().to_owned(),
            idempotency_key: request.idempotency_key,
            recovery: request.recovery.code(),
            recovery_source: request.recovery_source,
            timeout_ms: request.timeout_ms,
            heartbeat_ms: request.heartbeat_ms,
            max_attempts: request.max_attempts,
            retry_errors: request.retry_errors,
            window_ms: request.window_ms,
            deadline: request.deadline.map(|deadline| deadline.0),
            secrets: request.secrets,
            capabilities: request.capabilities,
            approval: request.approval,
            run,
            part,
            step,
            infer_call,
            part_call_id,
            parent: parent.map(stored_parent),
            prompt: request.prompt.map(PromptV1::of),
            price: request.price.map(PriceV1::of),
        }
    }

    pub(super) fn read(self) -> Result<CallRequested, FieldError> {
        let Self { run, part, step, infer_call, part_call_id, .. } = self;
        let parent = self.parent.map(read_parent);
        Ok(CallRequested {
            call_id: self.call_id,
            kind: CallKind::of_code(self.kind)?,
            target: self.target,
            args: json(&self.args)?,
            idempotency_key: self.idempotency_key,
            recovery: Recovery::of_code(self.recovery)?,
            recovery_source: self.recovery_source,
            timeout_ms: self.timeout_ms,
            heartbeat_ms: self.heartbeat_ms,
            max_attempts: self.max_attempts,
            retry_errors: self.retry_errors,
            window_ms: self.window_ms,
            deadline: self.deadline.map(Timestamp),
            secrets: self.secrets,
            capabilities: self.capabilities,
            approval: self.approval,
            origin: CallOrigin { run, part, step, infer_call, part_call_id, parent },
            prompt: self.prompt.map(PromptV1::read).transpose()?,
            price: self.price.map(PriceV1::read),
        })
    }
}

pub(super) fn stored_parent(ParentCall { call_id, ordinal }: ParentCall) -> (String, u32) {
    (call_id, ordinal)
}

pub(super) fn read_parent((call_id, ordinal): (String, u32)) -> ParentCall {
    ParentCall { call_id, ordinal }
}

impl PriceV1 {
    fn of(price: Price) -> Self {
        let Price { input_per_million, output_per_million, currency } = price;
        Self { input_per_million, output_per_million, currency }
    }

    fn read(self) -> Price {
        let Self { input_per_million, output_per_million, currency } = self;
        Price { input_per_million, output_per_million, currency }
    }
}
