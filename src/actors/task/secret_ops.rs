//! Secret values of a task: replaced and kept before anything is decided, and removed when no call needs them.

use std::collections::HashSet;

use proto_events::call::recovery::RetryWish;
use proto_events::call::{CallFailure, CallKind, FailureClass};
use proto_events::model::{Message, PostedTask};
use proto_events::task::TaskCommand;

use crate::actors::shared::messages::{AttemptEnd, TaskOp};
use crate::actors::shared::parts::Shared;
use crate::actors::task::core::TaskCore;
use crate::actors::task::effect::Effect;
use crate::error::Error;
use crate::models::backend::InferReply;
use crate::run::secrets::{ReplacedSecret, SecretReplacement, mask_answer, mask_parts, mask_said};
use crate::tools::secret::Mask;

impl TaskCore {
    /// Replaces the secret values that an operation brings in clear by references. Returns the values: they are kept, on
    /// disk, before the event that names them.
    pub(super) fn replace_secrets(&self, shared: &Shared, mut op: TaskOp) -> (TaskOp, Vec<ReplacedSecret>) {
        let mut salt = || shared.ports.ids.random();
        if let TaskOp::SetWebhook { webhook, most } = op {
            let (command, replaced) = webhook.command(most, self.entity.version().0, &mut salt);
            return (TaskOp::Command(Box::new(TaskCommand::Webhook(Box::new(command)))), replaced);
        }
        let replaced = match SecretReplacement::new(&shared.agent, self.task(), &mut salt) {
            None => return (op, Vec::new()),
            Some(mut replacing) => {
                match &mut op {
                    TaskOp::Submit(posted) => replacing.posted(posted),
                    TaskOp::Command(command) => replacing.command(command),
                    TaskOp::OfHandler { says, .. } => replacing.replace_in_handler_output(says),
                    TaskOp::Outcome { end: AttemptEnd::Succeeded { says, .. }, .. } if !says.is_empty() => {
                        for said in says {
                            replacing.replace_in_handler_output(said);
                        }
                    }
                    TaskOp::Outcome { call_id, end: AttemptEnd::Succeeded { result, .. }, .. } => {
                        let call = self.task().calls().get(call_id);
                        let is_inference = call.is_some_and(|call| call.request.kind == CallKind::Infer);
                        if let Some(reply) = InferReply::from_json(result).ok().filter(|_| is_inference) {
                            let after = replacing.reply(reply.clone());
                            if after != reply {
                                *result = after.to_json();
                            }
                        }
                    }
                    _ => {}
                }
                replacing.replaced
            }
        };
        self.mask_texts(shared, &mut op, &replaced);
        (op, replaced)
    }

    /// Replaces the values of the task in texts that may repeat them: what a handler says, and what a person answers.
    fn mask_texts(&self, shared: &Shared, op: &mut TaskOp, replaced: &[ReplacedSecret]) {
        let mask = || {
            let mut mask = shared.secrets.mask_of(self.entity.stream());
            for new in replaced {
                mask.add(&new.value, &new.reference.to_string());
            }
            mask
        };
        match op {
            TaskOp::OfHandler { says, .. } => mask_said(&mask(), says),
            TaskOp::Outcome { end: AttemptEnd::Succeeded { says, .. }, .. } if !says.is_empty() => {
                let mask = mask();
                for said in says {
                    mask_said(&mask, said);
                }
            }
            TaskOp::AnswerCall { answer, .. } => mask_answer(&mask(), answer),
            _ if self.task().open_questions().next().is_none() => {}
            // A user's message may be the answer to a question.
            TaskOp::Submit(posted) => self.mask_new_messages(&mask(), posted),
            TaskOp::Command(command) => match command.as_mut() {
                TaskCommand::AppendMessage(message) => mask_parts(&mask(), &mut message.parts),
                TaskCommand::Submit(posted) => self.mask_new_messages(&mask(), posted),
                _ => {}
            },
            _ => {}
        }
    }

    /// Replaces the values in the messages that the task does not have yet.
    fn mask_new_messages(&self, mask: &Mask, posted: &mut PostedTask) {
        if mask.is_empty() {
            return;
        }
        let known: HashSet<_> =
            self.task().messages().iter().filter_map(|known| known.id.as_deref()).collect();
        let is_new = |message: &&mut Message| message.id.as_deref().is_none_or(|id| !known.contains(id));
        for message in posted.messages.iter_mut().filter(is_new) {
            mask_parts(mask, &mut message.parts);
        }
    }

    /// Requests the removal of kept values that no call of the task needs any more.
    pub(crate) fn forget_secrets(&mut self, shared: &Shared) {
        let mut kept = shared.secrets.of_stream(self.entity.stream());
        if kept.is_empty() {
            return;
        }
        let needed = self.entity.state().secrets_needed();
        kept.retain(|kept| !needed.contains(&kept.reference));
        if !kept.is_empty() {
            self.outbox.push(Effect::Forget { kept });
        }
    }
}

/// Returns the operation whose secret values cannot be kept. A reply itself would name values that nobody has: its call has
/// failed.
pub(super) fn not_kept(op: TaskOp, error: &std::io::Error) -> Result<TaskOp, Error> {
    let TaskOp::Outcome { call_id, attempt, end } = op else {
        return Err(Error::Secrets(error.to_string()));
    };
    let usage = if let AttemptEnd::Succeeded { usage, .. } = end { usage } else { None };
    let message = format!("the reply has secret values, which cannot be kept: {error}");
    let (class, error_type) = (FailureClass::AfterEffect, "SecretsUnavailable".to_owned());
    let failure = CallFailure { class, error_type, message, usage };
    Ok(TaskOp::Outcome { call_id, attempt, end: AttemptEnd::Failed { failure, retry: RetryWish::Never } })
}
