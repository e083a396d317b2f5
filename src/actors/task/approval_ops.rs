//! Approvals and questions: the decisions of handlers and persons, and what follows.

use proto_events::call::{Answer, Call};
use proto_events::envelope::{Metadata, Principal};
use proto_events::id::StreamId;
use proto_events::json::JsonObject;
use proto_events::model::{Message, RunBudget};
use proto_events::task::{ApprovalDecided, BY_HANDLER, TaskCommand};

use crate::actors::shared::parts::Shared;
use crate::actors::task::core::TaskCore;
use crate::actors::task::effect::Effect;
use crate::agent::approval::{ApprovalRequest, ApprovalVerdict};
use crate::error::Error;
use crate::run::person_steps;
use crate::run::question::Act;
use crate::run::steps::session_id;

impl TaskCore {
    /// Requests the handler's decision. An actor requests it once per approval.
    pub(crate) fn ask_approver(&mut self, shared: &Shared, approval_id: &str) {
        let Some(approval) = self.task().approvals().get(approval_id) else { return };
        let agent = &shared.agent;
        let (description, task) = (agent.description_of(&approval.request.tool), self.task());
        let request = ApprovalRequest::from_task(task, session_id(task), description, &approval.request);
        let with_handler = &mut self.outside.calls().known.with_handler;
        // The actor asks one request at a time, and a new one replaces the one before: that one is asked again if it is
        // still waited for, and must not keep others waiting if it is not.
        with_handler.clear();
        with_handler.insert(approval_id.to_owned());
        self.outbox.push(Effect::AskApprover(Box::new(request)));
    }

    /// Applies the handler's verdict. It is ignored for an approval that is not waited for any more.
    pub(crate) fn answered(
        &mut self,
        approval_id: String,
        verdict: ApprovalVerdict,
        metadata: &Metadata,
    ) -> Result<(), Error> {
        let awaited =
            self.task().awaited_approvals().any(|approval| approval.request.approval_id == approval_id);
        if !awaited || self.is_idle() {
            return Ok(());
        }
        let (approved, reason) = match verdict {
            ApprovalVerdict::Approved => (true, None),
            ApprovalVerdict::Denied { reason } => (false, reason),
            ApprovalVerdict::AskPerson => {
                self.outside.calls().known.with_person.insert(approval_id);
                return Ok(());
            }
        };
        let decided = ApprovalDecided { approval_id, approved, reason, decided_by: BY_HANDLER.into() };
        self.entity.decide(TaskCommand::DecideApproval(decided), metadata)
    }

    /// Applies a person's answer to the question of a call, which is named by [`Call::question_id`] or by the id of the
    /// call; if the task waits for it, a new run resumes it.
    ///
    /// [`Call::question_id`]: proto_events::call::Call::question_id
    pub(crate) fn answer_call(
        &mut self,
        shared: &Shared,
        named: &str,
        answer: Answer,
        metadata: &Metadata,
    ) -> Result<(), Error> {
        let before = self.decided();
        let person_steps::AnswerCommands { commands, call_id } =
            person_steps::answering(self.task(), named, answer)?;
        self.decide_all(commands, metadata)?;
        if self.decided() == before {
            return Ok(());
        }
        let mut mint = shared.ports.clone();
        for act in person_steps::after_answer(&mut self.question(shared, metadata, &mut mint), &call_id) {
            if let Act::Task(command) = act {
                self.entity.decide(command, metadata)?;
            }
        }
        Ok(())
    }

    /// Decides commands, one after another.
    fn decide_all(&mut self, commands: Vec<TaskCommand>, metadata: &Metadata) -> Result<(), Error> {
        commands.into_iter().try_for_each(|command| self.entity.decide(command, metadata))
    }

    /// Goes on with a call that waits for a task of another agent, which is over.
    pub(crate) fn child_over(
        &mut self,
        shared: &Shared,
        call_id: &str,
        child: &StreamId,
        metadata: &Metadata,
    ) -> Result<(), Error> {
        let mut mint = shared.ports.clone();
        let question = &mut self.question(shared, metadata, &mut mint);
        for act in person_steps::after_child(question, call_id, child) {
            if let Act::Task(command) = act {
                self.entity.decide(command, metadata)?;
            }
        }
        Ok(())
    }

    /// Adds a caller's message. Where the task waits for the answer to a question, the message is that answer.
    pub(crate) fn add_message(
        &mut self,
        shared: &Shared,
        message: Message,
        metadata: &Metadata,
    ) -> Result<(), Error> {
        let is_known = || {
            let known = self.task().messages().iter().map(|known| &known.id);
            message.id.is_some() && { known }.any(|id| *id == message.id)
        };
        // A client that sends its message twice answers one question.
        let answered = self.task().answered_by(&message)?.filter(|_| !is_known());
        answered.as_ref().map_or(Ok(()), |(call_id, _)| person_steps::check_answer(self.task(), call_id))?;
        self.entity.decide(TaskCommand::AppendMessage(message), metadata)?;
        match answered {
            Some((call_id, text)) => self.answered_by_message(shared, call_id, text, metadata),
            None => Ok(()),
        }
    }

    /// Records the answer that a message held, which was added before; a new run resumes the task.
    pub(crate) fn answered_by_message(
        &mut self,
        shared: &Shared,
        call_id: String,
        text: String,
        metadata: &Metadata,
    ) -> Result<(), Error> {
        let about = call_id.clone();
        let question = self.task().calls().get(&call_id).map(Call::asked);
        let commands = person_steps::answers(self.task(), call_id, question, Answer::Given(text));
        self.decide_all(commands, metadata)?;
        let mut mint = shared.ports.clone();
        for act in person_steps::after_message(&mut self.question(shared, metadata, &mut mint), &about) {
            if let Act::Task(command) = act {
                self.entity.decide(command, metadata)?;
            }
        }
        Ok(())
    }

    /// Applies a person's decision; if the task waits for it, a new run resumes it.
    pub(crate) fn decide_approval(
        &mut self,
        shared: &Shared,
        decided: ApprovalDecided,
        metadata: &Metadata,
    ) -> Result<(), Error> {
        let (approval_id, before) = (decided.approval_id.clone(), self.decided());
        self.entity.decide(TaskCommand::DecideApproval(decided), metadata)?;
        if self.decided() == before {
            return Ok(());
        }
        let mut mint = shared.ports.clone();
        for act in person_steps::after_approval(&mut self.question(shared, metadata, &mut mint), &approval_id)
        {
            if let Act::Task(command) = act {
                self.entity.decide(command, metadata)?;
            }
        }
        Ok(())
    }

    /// Replaces the budget of the task, and approves that it goes on if it waits for that.
    pub(super) fn raise_budget(
        &mut self,
        shared: &Shared,
        budget: &RunBudget,
        by: Principal,
        metadata: &Metadata,
    ) -> Result<(), Error> {
        if !self.task().exists() {
            return Err(Error::TaskNotFound(self.entity.stream().id()));
        }
        let mut context: JsonObject = match self.task().metadata().get("run_context") {
            Some(context) => {
                context.read().map_err(|error| Error::RunRequest(format!("the run context: {error}")))?
            }
            None => JsonObject::new(),
        };
        context.set("budget", budget.to_json());
        let entries = [("run_context".to_owned(), context.to_text())].into_iter().collect();
        self.merge_metadata(shared, entries, metadata)?;
        let stop = self.task().budget_stop().filter(|(approval, _)| approval.decision.is_none());
        let Some(approval_id) = stop.map(|(approval, _)| approval.request.approval_id.clone()) else {
            return Ok(());
        };
        let decided = ApprovalDecided { approval_id, approved: true, reason: None, decided_by: by };
        self.decide_approval(shared, decided, metadata)
    }
}
