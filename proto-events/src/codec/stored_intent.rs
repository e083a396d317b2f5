//! Storage structs of intents.

use serde::{Deserialize, Serialize};

use crate::call::price::Price;
use crate::call::request::{CallKind, CallOrigin, CallRequested, ParentCall, Recovery};
use crate::call::selection::Selection;
use crate::codec::code::CodedEnum;
use crate::codec::error::{CodecError, FieldError};
use crate::codec::kind;
use crate::codec::storable::Payload;
use crate::codec::stored_model::json;
use crate::codec::stored_prompt::{SelectionV1, SelectionV2, SelectionV3, StoredPrompt};
use crate::codec::upcast::{Schema, first_version, write};
use crate::envelope::Timestamp;

/// The first version: what a context strategy kept of a prompt has no markers and no sizes.
pub(super) type RequestedV1 = StoredRequest<SelectionV1>;

/// The second version: what a context strategy kept has no rules.
pub(super) type RequestedV2 = StoredRequest<SelectionV2>;

/// The third version.
pub(super) type RequestedV3 = StoredRequest<SelectionV3>;

/// An intent, with the selection of its schema version.
#[derive(Serialize, Deserialize)]
pub(super) struct StoredRequest<S> {
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
    prompt: Option<StoredPrompt<S>>,
    price: Option<PriceV1>,
}

#[derive(Serialize, Deserialize)]
struct PriceV1 {
    input_per_million: u64,
    output_per_million: u64,
    currency: String,
}

first_version!(RequestedV1);

impl Schema<'_> for RequestedV2 {
    const VERSION: u8 = 2;
    type Previous = RequestedV1;

    fn upcast(previous: RequestedV1) -> Self {
        previous.upcast(SelectionV1::upcast)
    }
}

impl Schema<'_> for RequestedV3 {
    const VERSION: u8 = 3;
    type Previous = RequestedV2;

    fn upcast(previous: RequestedV2) -> Self {
        previous.upcast(SelectionV2::upcast)
    }
}

impl<S> StoredRequest<S> {
    /// Returns the intent with the selection of the next schema version.
    fn upcast<N>(self, selection: impl FnOnce(S) -> N) -> StoredRequest<N> {
        StoredRequest {
            prompt: self.prompt.map(|prompt| prompt.upcast(selection)),
            call_id: self.call_id,
            kind: self.kind,
            target: self.target,
            args: self.args,
            idempotency_key: self.idempotency_key,
            recovery: self.recovery,
            recovery_source: self.recovery_source,
            timeout_ms: self.timeout_ms,
            heartbeat_ms: self.heartbeat_ms,
            max_attempts: self.max_attempts,
            retry_errors: self.retry_errors,
            window_ms: self.window_ms,
            deadline: self.deadline,
            secrets: self.secrets,
            capabilities: self.capabilities,
            approval: self.approval,
            run: self.run,
            part: self.part,
            step: self.step,
            infer_call: self.infer_call,
            part_call_id: self.part_call_id,
            parent: self.parent,
            price: self.price,
        }
    }

    fn new(request: CallRequested, selection: impl FnOnce(Selection) -> S) -> Self {
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
            prompt: request.prompt.map(|prompt| StoredPrompt::new(prompt, selection)),
            price: request.price.map(PriceV1::from_price),
        }
    }
}

/// Encodes an intent in the first version that holds all of it, so that earlier releases read what they can.
pub(super) fn write_requested(request: CallRequested) -> Result<Payload, CodecError> {
    let selection = request.prompt.as_ref().and_then(|prompt| prompt.selection.as_ref());
    if selection.is_none_or(SelectionV1::holds) {
        write(kind::CALL_REQUESTED, &RequestedV1::new(request, SelectionV1::from_selection))
    } else if selection.is_none_or(SelectionV2::holds) {
        write(kind::CALL_REQUESTED, &RequestedV2::new(request, SelectionV2::from_selection))
    } else {
        write(kind::CALL_REQUESTED, &RequestedV3::new(request, SelectionV3::from_selection))
    }
}

impl RequestedV3 {
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
            prompt: self.prompt.map(StoredPrompt::read).transpose()?,
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
    fn from_price(price: Price) -> Self {
        let Price { input_per_million, output_per_million, currency } = price;
        Self { input_per_million, output_per_million, currency }
    }

    fn read(self) -> Price {
        let Self { input_per_million, output_per_million, currency } = self;
        Price { input_per_million, output_per_million, currency }
    }
}
