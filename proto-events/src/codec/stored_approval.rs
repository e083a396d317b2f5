//! Storage structs of approval events.

use serde::{Deserialize, Serialize};

use crate::call::request::CallOrigin;
use crate::codec::error::FieldError;
use crate::codec::stored_intent::{read_parent, stored_parent};
use crate::codec::stored_model::{PrincipalV1, json};
use crate::codec::upcast::first_version;
use crate::task::approval::{ApprovalDecided, ApprovalRequested};

#[derive(Serialize, Deserialize)]
pub(super) struct ApprovalRequestedV1 {
    approval_id: String,
    call_id: String,
    tool: String,
    args: String,
    capabilities: Vec<String>,
    run: u32,
    part: u32,
    step: u32,
    infer_call: Option<String>,
    part_call_id: Option<String>,
    /// The parent's id, and the place among its calls.
    parent: Option<(String, u32)>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct ApprovalDecidedV1 {
    approval_id: String,
    approved: bool,
    reason: Option<String>,
    decided_by: PrincipalV1,
}

first_version!(ApprovalRequestedV1, ApprovalDecidedV1);

impl ApprovalRequestedV1 {
    pub(super) fn from_request(asked: &ApprovalRequested) -> Self {
        let CallOrigin { run, part, step, infer_call, part_call_id, parent } = asked.origin.clone();
        Self {
            approval_id: asked.approval_id.clone(),
            call_id: asked.call_id.clone(),
            tool: asked.tool.clone(),
            args: asked.args.as_str().to_owned(),
            capabilities: asked.capabilities.clone(),
            run,
            part,
            step,
            infer_call,
            part_call_id,
            parent: parent.map(stored_parent),
        }
    }

    pub(super) fn read(self) -> Result<ApprovalRequested, FieldError> {
        let Self { run, part, step, infer_call, part_call_id, .. } = self;
        let parent = self.parent.map(read_parent);
        Ok(ApprovalRequested {
            approval_id: self.approval_id,
            call_id: self.call_id,
            tool: self.tool,
            args: json(&self.args)?,
            capabilities: self.capabilities,
            origin: CallOrigin { run, part, step, infer_call, part_call_id, parent },
        })
    }
}

impl ApprovalDecidedV1 {
    pub(super) fn from_decision(decided: &ApprovalDecided) -> Self {
        let ApprovalDecided { approval_id, approved, reason, decided_by } = decided.clone();
        Self { approval_id, approved, reason, decided_by: PrincipalV1::from_principal(decided_by) }
    }

    pub(super) fn read(self) -> Result<ApprovalDecided, FieldError> {
        let Self { approval_id, approved, reason, decided_by } = self;
        Ok(ApprovalDecided { approval_id, approved, reason, decided_by: decided_by.read()? })
    }
}
