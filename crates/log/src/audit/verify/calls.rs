//! Checks the calls of one stream against the contract for side effects: an intent of a run before the first
//! attempt, at most one outcome, of the last attempt sent, and no repetition that the mode forbids.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use proto_events::call::{
    CallEvent, CallKind, CallRequested, CallStatus, CancelStage, FailureClass, Recovery, TimeLimit, Verdict,
    VerdictBy,
};
use proto_events::envelope::Timestamp;
use proto_events::json::JsonText;
use proto_events::limits::LATE_RESULT_BYTES_MAX;
use proto_events::model::TaskState;
use proto_events::secret::in_clear;

use crate::audit::verify::attempts::{
    CallMoment, SeenCall, accept_question, accepted, answered, dispatched, given_up, is_scheduled, scheduled,
    unheard, without_probe,
};
use crate::audit::verify::call_words::{misplaced, word};

/// The verdict of a probe on an open call; the outcome that follows from it must be the stream's next event of a call.
struct ProbeVerdict {
    call_id: String,
    version: u64,
    verdict: Verdict,
}

/// The calls of a stream read so far.
#[derive(Default)]
pub(crate) struct CallsCheck {
    pub(super) seen: HashMap<String, SeenCall>,
    pub(super) open: BTreeSet<String>,
    verdict: Option<ProbeVerdict>,
    /// The calls that the open record intends.
    intended: Vec<String>,
    /// The calls canceled in the open record before a change of the task's state, with their versions.
    canceled: Vec<(u64, String)>,
    /// The calls that the open record closed, with their versions.
    pub(super) closed: Vec<(u64, String)>,
}

impl CallsCheck {
    /// Returns the kind and target of a call.
    pub(crate) fn target(&self, call_id: &str) -> Option<(CallKind, &str)> {
        self.seen.get(call_id).map(|call| (call.kind, &*call.target))
    }

    /// Returns a call without an outcome that must have one before the task enters a state. One call may wait for a
    /// person's answer together with its task, and what it has asked for with it; it goes on once it is answered.
    pub(crate) fn first_open(&self, to: TaskState, from: TaskState) -> Option<&str> {
        let status = |id: &str| self.seen.get(id).map(|call| &call.status);
        let is_asked = |id: &str| matches!(status(id), Some(CallStatus::Asked(_)));
        let is_answered = |id: &str| status(id) == Some(&CallStatus::Answered);
        let parent = |id: &str| self.seen.get(id).and_then(|call| call.parent.as_deref());
        let mut open = self.open.iter().map(String::as_str);
        match to {
            TaskState::Working if from != TaskState::InputRequired => None,
            TaskState::Working => open.find(|id| !is_answered(id) && !parent(id).is_some_and(is_answered)),
            TaskState::InputRequired => {
                // A request to another agent may wait too, and is asked for by the one that waits for it.
                let asks = |id: &&str| is_asked(id) && !parent(id).is_some_and(is_asked);
                let asking = open.clone().find(asks);
                open.find(|id| asking.is_none() || (Some(*id) != asking && parent(id) != asking))
            }
            _ => open.next(),
        }
    }

    /// Whether a handler works on the task.
    pub(crate) fn has_open_handler(&self) -> bool {
        let of_handler = |id: &String| self.seen.get(id).is_some_and(|call| call.kind == CallKind::Handler);
        self.open.iter().any(of_handler)
    }

    /// Takes the change of the task's state that ends the calls of its run.
    pub(crate) fn state_changed(&mut self) {
        self.canceled.clear();
    }

    /// Returns the faults of the record that has ended, with their versions.
    pub(crate) fn end_record(&mut self) -> Vec<(u64, String)> {
        for id in self.intended.drain(..) {
            if let Some(call) = self.seen.get_mut(&id) {
                call.is_new = false;
            }
        }
        let left = self.left_open();
        let closed = std::mem::take(&mut self.closed);
        let ends_with = |id: &String| {
            let parent = self.seen.get(id).and_then(|call| call.parent.as_deref());
            parent.is_some_and(|parent| closed.iter().any(|(_, closed)| closed == parent))
        };
        let canceled = std::mem::take(&mut self.canceled).into_iter().filter(|(_, id)| !ends_with(id));
        let canceled = canceled.map(|(version, id)| {
            (version, format!("call `{id}` was canceled, but its record does not end the task's run"))
        });
        let verdict = self.verdict.take().map(|left| without_outcome(&left));
        canceled.chain(verdict).chain(left).collect()
    }

    /// Takes the next event and returns its faults, with their versions.
    pub(crate) fn accept_event(&mut self, event: &CallEvent, now: CallMoment) -> Vec<(u64, String)> {
        let verdict = self.verdict.take();
        let mut faults = Vec::new();
        if let Some(left) = verdict.as_ref().filter(|left| !follows(left, event)) {
            faults.push(without_outcome(left));
        }
        let own = match event {
            CallEvent::Requested(request) => self.requested(request, now),
            _ => self.happened(event, verdict.is_some(), now),
        };
        faults.extend(own.into_iter().map(|what| (now.version, what)));
        faults
    }

    fn requested(&mut self, request: &CallRequested, now: CallMoment) -> Vec<String> {
        let id = &request.call_id;
        let mut faults = Vec::new();
        match now.state {
            TaskState::Working if request.origin.run == now.run => {}
            TaskState::Working => faults.push(format!(
                "call `{id}` names run {}, but was intended in run {}",
                request.origin.run, now.run
            )),
            state if state.is_terminal() => {
                faults.push(format!("call `{id}` was intended after the task's end"));
            }
            state => {
                faults.push(format!("call `{id}` was intended while the task was {state}, outside a run"));
            }
        }
        if (request.kind == CallKind::Infer) != (request.recovery == Recovery::Reissue) {
            let mode = request.recovery.as_str();
            faults
                .push(format!("call `{id}` has the mode {mode}: inferences are reissued, and nothing else"));
        }
        if let Some(asker) = &request.origin.infer_call {
            let known = self.seen.get(asker).filter(|asker| asker.kind == CallKind::Infer);
            match known.map(|asker| &asker.status) {
                None => faults
                    .push(format!("call `{id}` names the inference `{asker}`, which was never intended")),
                Some(CallStatus::Succeeded(_)) => {}
                Some(_) => {
                    faults.push(format!("call `{id}` names the inference `{asker}`, which has no reply"));
                }
            }
        }
        if let Some(argument) = in_clear(&request.args, &request.secrets) {
            faults.push(format!("call `{id}` has its secret argument `{argument}` in clear"));
        }
        faults.extend(self.of_parent(request));
        let seen = SeenCall {
            kind: request.kind,
            target: request.target.as_str().into(),
            parent: request.origin.parent.as_ref().map(|parent| parent.call_id.as_str().into()),
            children: 0,
            open_children: 0,
            recovery: request.recovery,
            max_attempts: request.max_attempts,
            timeout_ms: request.timeout_ms,
            heartbeat_ms: request.heartbeat_ms,
            is_new: true,
            window_ms: request.window_ms,
            deadline: request.deadline,
            attempts: 0,
            epoch: 0,
            first_sent_at: Timestamp::default(),
            status: CallStatus::Requested,
            has_handle: false,
            taken_up: 0,
            questions: 0,
            asked_at: Timestamp::default(),
            waited: Duration::ZERO,
        };
        if self.seen.insert(id.clone(), seen).is_some() {
            faults.push(format!("call `{id}` was intended twice"));
        }
        self.open.insert(id.clone());
        self.intended.push(id.clone());
        faults
    }

    fn happened(&mut self, event: &CallEvent, after_verdict: bool, now: CallMoment) -> Vec<String> {
        let id = event.call_id();
        let early = self.sent_without_parent(event);
        let Some(call) = self.seen.get_mut(id) else {
            return vec![format!("call `{id}`: {} without an intent", word(event))];
        };
        let before = call.status.clone();
        let after = before.after(event).map(without_result);
        let refused = after.is_none().then(|| misplaced(id, event, &before));
        let was_open = before.is_open();
        let unheard = unheard(id, call, event, now).filter(|_| !after_verdict);
        let guarded = guarded(id, call, event, after_verdict, now);
        call.status = after.unwrap_or(before);
        let is_closed = was_open && !call.status.is_open();
        match event {
            CallEvent::Reconciled { verdict, .. } if was_open && *verdict != Verdict::DidNotHappen => {
                let (call_id, verdict) = (id.to_owned(), verdict.clone());
                self.verdict = Some(ProbeVerdict { call_id, version: now.version, verdict });
            }
            CallEvent::Canceled { .. } => self.canceled.push((now.version, id.to_owned())),
            _ => {}
        }
        if is_closed {
            self.close(id, now.version);
        }
        // An answer of an attempt that was never sent to an open call is one fault, not two.
        let refused = refused.filter(|_| !was_open || guarded.is_empty());
        refused.into_iter().chain(guarded).chain(unheard).chain(early).collect()
    }
}

/// Whether an event is the outcome that a probe's verdict gives its call.
fn follows(left: &ProbeVerdict, event: &CallEvent) -> bool {
    let same = left.call_id == event.call_id();
    same && match (&left.verdict, event) {
        (Verdict::Landed(found), CallEvent::Succeeded { result, .. }) => found == result,
        (Verdict::Inconclusive(why), CallEvent::OutcomeUnknown { why: said, .. }) => why == said,
        _ => false,
    }
}

fn without_outcome(left: &ProbeVerdict) -> (u64, String) {
    let (id, verdict) = (&left.call_id, left.verdict.as_str());
    (left.version, format!("call `{id}` was looked into ({verdict}), but the outcome found does not follow"))
}

/// The status without the result or reason that it holds.
fn without_result(status: CallStatus) -> CallStatus {
    match status {
        CallStatus::Succeeded(_) => CallStatus::Succeeded(JsonText::null()),
        CallStatus::Reconciled(Verdict::Landed(_)) => {
            CallStatus::Reconciled(Verdict::Landed(JsonText::null()))
        }
        CallStatus::RetryScheduled(due, _) => CallStatus::RetryScheduled(due, String::new()),
        CallStatus::Asked(_) => CallStatus::Asked(String::new()),
        other => other,
    }
}

/// Returns the fault of a time-out: for want of progress, if the call need not report any, or after another time than its limit.
fn silent(id: &str, call: &SeenCall, (limit, after_ms): (TimeLimit, u64)) -> Option<String> {
    let allowed = match limit {
        TimeLimit::Attempt => call.timeout_ms,
        TimeLimit::Heartbeat => match call.heartbeat_ms {
            Some(allowed) => allowed,
            None => return Some(format!("call `{id}` timed out without progress, but need not report any")),
        },
    };
    (after_ms != allowed)
        .then(|| format!("call `{id}` timed out after {after_ms} ms, which is none of its limits"))
}

/// Returns the fault of a failure of a call that was never sent, if only its target can fail in this way.
fn never_sent(id: &str, attempt: u32, class: FailureClass) -> Option<String> {
    let is_wrong = attempt == 0 && !matches!(class, FailureClass::BeforeEffect | FailureClass::Superseded);
    is_wrong.then(|| format!("call `{id}` failed at its target, but was never sent"))
}

/// Returns the violations of rules outside the lifecycle table: number and limit of attempts, recovery mode,
/// end of the task.
fn guarded(
    id: &str,
    call: &mut SeenCall,
    event: &CallEvent,
    after_verdict: bool,
    now: CallMoment,
) -> Vec<String> {
    let of_last = |attempt: u32, word: &str| {
        let sent = call.attempts;
        match attempt.cmp(&sent) {
            std::cmp::Ordering::Equal => None,
            std::cmp::Ordering::Greater => {
                Some(format!("call `{id}`: attempt {attempt} {word}, but was never sent"))
            }
            std::cmp::Ordering::Less => {
                Some(format!("call `{id}`: attempt {attempt} {word} after attempt {sent} was sent"))
            }
        }
    };
    match event {
        CallEvent::Dispatched { attempt, epoch, cause, .. } => {
            dispatched(id, call, (*attempt, *epoch, cause), now)
        }
        CallEvent::RetryScheduled { attempt, due, .. } => {
            of_last(*attempt, "failed").into_iter().chain(scheduled(id, call, *due, now)).collect()
        }
        CallEvent::Succeeded { attempt, .. } => {
            let late = call.status == CallStatus::TimedOut && !after_verdict;
            let late =
                late.then(|| format!("call `{id}` succeeded after its time was up, without a verdict"));
            of_last(*attempt, "answered").into_iter().chain(late).collect()
        }
        CallEvent::Failed { attempt, failure, .. } => {
            let class = failure.class;
            let given_up = never_sent(id, *attempt, class).or_else(|| given_up(id, call, class));
            of_last(*attempt, "answered").into_iter().chain(given_up).collect()
        }
        CallEvent::TimedOut { attempt, limit, after_ms, .. } => {
            of_last(*attempt, "timed out").into_iter().chain(silent(id, call, (*limit, *after_ms))).collect()
        }
        CallEvent::Canceled { stage, .. } => canceled(id, call, *stage),
        CallEvent::OutcomeUnknown { attempt, .. } => {
            of_last(*attempt, "was lost").into_iter().chain(unknown(id, call, after_verdict)).collect()
        }
        CallEvent::Reconciled { attempt, by, .. } => {
            let never_sent = call.attempts == 0;
            let never_sent = never_sent.then(|| format!("call `{id}` was looked into, but was never sent"));
            let by_person = call.status.is_open() && *by != VerdictBy::Probe;
            let by_person =
                by_person.then(|| format!("call `{id}` was settled by a person while it was open"));
            let unprobed = (*by == VerdictBy::Probe).then(|| without_probe(id, call)).flatten();
            of_last(*attempt, "was looked into")
                .into_iter()
                .chain(never_sent)
                .take(1)
                .chain(by_person)
                .chain(unprobed)
                .collect()
        }
        CallEvent::LateResultIgnored { attempt, said, .. } => late(id, call, *attempt, said),
        CallEvent::Asked { attempt, .. } => {
            let fault = of_last(*attempt, "asked a person");
            fault.into_iter().chain(accept_question(id, call, now)).collect()
        }
        CallEvent::Accepted { attempt, handle, .. } => {
            let fault = of_last(*attempt, "was taken by another agent");
            fault.into_iter().chain(accepted(id, call, handle)).collect()
        }
        CallEvent::Answered { .. } => {
            answered(call, now);
            Vec::new()
        }
        CallEvent::Requested(_) | CallEvent::Abandoned { .. } => Vec::new(),
    }
}

/// Checks an answer that is kept as evidence: of an attempt that was sent and that nobody awaited any more.
fn late(id: &str, call: &SeenCall, attempt: u32, said: &str) -> Vec<String> {
    let sent = (1..=call.attempts).contains(&attempt);
    let unsent = (!sent).then(|| format!("call `{id}`: attempt {attempt} answered late, but was never sent"));
    let awaited = call.status == CallStatus::Dispatched && attempt == call.attempts;
    let awaited = awaited
        .then(|| format!("call `{id}`: the answer of attempt {attempt} is called late, but was awaited"));
    let long = said.len() > LATE_RESULT_BYTES_MAX;
    let long = long.then(|| format!("call `{id}`: a late answer of {} bytes is kept", said.len()));
    unsent.into_iter().chain(awaited).chain(long).collect()
}

fn canceled(id: &str, call: &SeenCall, stage: CancelStage) -> Vec<String> {
    let sent = call.attempts > 0 && !is_scheduled(call);
    if sent != (stage == CancelStage::InFlight) {
        let was = if sent { "was" } else { "was not" };
        return vec![format!("call `{id}`: its cancellation says otherwise, but it {was} sent")];
    }
    if sent && call.recovery == Recovery::Manual && call.kind != CallKind::Infer {
        return vec![format!("call `{id}` was canceled in flight, though its outcome is unknown")];
    }
    Vec::new()
}

/// Checks that the outcome of a lost call is unknown: its mode neither repeats it nor has a probe decide.
fn unknown(id: &str, call: &SeenCall, after_verdict: bool) -> Option<String> {
    if call.attempts == 0 {
        return Some(format!("call `{id}` has an unknown outcome, but was never sent"));
    }
    let may_be = match call.recovery {
        Recovery::Manual => true,
        Recovery::Reconcile => after_verdict,
        // How long a call took is not in the log: the program that gives it up judges by the time that passed, which a
        // clock that was set back hides from the times of the records.
        Recovery::Idempotent => call.window_ms.is_some(),
        Recovery::ReadOnly | Recovery::Reissue => false,
    };
    let mode = call.recovery.as_str();
    (!may_be)
        .then(|| format!("call `{id}` has an unknown outcome, though its mode {mode} decides what follows"))
}
