//! Control: tasks are submitted and canceled, approvals decided, unknown outcomes settled, questions answered, budgets
//! raised. Each is recorded as the caller's.

use std::time::Duration;

use http::HeaderMap;
use proto_events::call::{CallRejection, Verdict};
use proto_events::envelope::{Basis, Committed};
use proto_events::id::{Digest, Mint as _, StreamId, Version, check_id};
use proto_events::json::{JsonObject, JsonText};
use proto_events::limits::ID_BYTES_MAX;
use proto_events::model::{PostedTask, RunBudget};
use proto_events::task::{ApprovalRejection, TaskRejection};
use taskreel::{Error, System, TaskHandle};
use taskreel_log::api::{EventReader, StreamInfo};
use taskreel_log::documents::decision_json;
use taskreel_log::ports::Ports;
use taskreel_log::views::task_row;

use crate::api::bounded_reads::unread;
use crate::api::routed_request::RoutedRequest;
use crate::api::routes::Control;
use crate::auth::caller::{Caller, Scope};
use crate::auth::owner::check_sender;
use crate::error::Problem;

/// The header that makes a request repeatable: the same request under the same key is carried out once.
const KEY: &str = "idempotency-key";

/// The hexadecimal digits by which the id of a command names the caller whose key it is.
const OF_CALLER_DIGITS: usize = 16;

/// The bytes of a key that every caller may give: an id, without what names the caller.
pub(crate) const KEY_BYTES_MAX: usize = ID_BYTES_MAX - OF_CALLER_DIGITS - 1;

/// The records that are looked through at once for that of a decision.
const LOOKED_AT_ONCE: usize = 64;

/// Returns the key of a request.
fn key(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let key = headers.get(KEY).map(|key| key.to_str()).transpose();
    key.map_err(|_| Problem::malformed(format!("`{KEY}` is not text")))
}

/// Returns the id of the command that a caller sends under a key. The keys of a caller whose name was checked are its own: under
/// the same key of another one stands another command.
fn command_of(key: &str, caller: &Caller) -> Result<String, Problem> {
    let (name, basis) = (&caller.principal.name, caller.principal.basis);
    if basis != Basis::Authenticated {
        return Ok(key.to_owned());
    }
    check_id(key).map_err(Error::from)?;
    let digest = Digest::of_parts(&[name.as_bytes(), b"\0", basis.as_str().as_bytes()]).to_string();
    let own = format!(":{}", digest.get(..OF_CALLER_DIGITS).unwrap_or_default());
    // An error names the id under which a command is sent again, which is a key as well.
    if key.ends_with(&own) {
        return Ok(key.to_owned());
    }
    let most = ID_BYTES_MAX.saturating_sub(own.len());
    if key.len() > most {
        return Err(Problem::malformed(format!("`{KEY}` has {} bytes; it has at most {most}", key.len())));
    }
    Ok(format!("{key}{own}"))
}

/// Whether a key is the id of a task that this caller submitted without a key. An error that leaves open whether it was
/// submitted names that id, and the task is sent again under it.
fn is_of_own_task(key: &str, system: &System, caller: &Caller) -> bool {
    let Ok(task) = system.task(key) else { return false };
    let first = system.log().read_stream(task.stream(), Version(1), 1).unwrap_or_default();
    first.first().is_some_and(|stored| {
        let metadata = &stored.record.metadata;
        metadata.command_id == key && metadata.principal == caller.principal
    })
}

/// Submits a task, and returns its row.
///
/// # Errors
/// [`Problem`] if the body is not a task, or the system does not take it.
pub(crate) async fn submit(
    asked: &RoutedRequest,
    system: &System,
    (headers, caller): (&HeaderMap, &Caller),
    body: Option<JsonText>,
) -> Result<JsonText, Problem> {
    let wait = asked.number::<u64>("wait")?.unwrap_or(0);
    let posted = body.ok_or_else(|| Problem::malformed("the body is empty; it is a task"))?;
    let posted = PostedTask::from_json(&posted, &mut Ports::default());
    let posted = posted.map_err(|error| Problem::malformed(error.to_string()))?;
    check_sender(system, &posted.id, Some(caller)).await?;
    let acting = system.acting_as(caller.principal.clone());
    let task = match key(headers)? {
        Some(key) if is_of_own_task(key, system, caller) => acting.submit_once(key, posted).await?,
        Some(key) => acting.submit_once(&command_of(key, caller)?, posted).await?,
        None => acting.try_submit(posted).await?,
    };
    if wait > 0 {
        // The task goes on, however long it is waited for.
        if let Ok(ended) = tokio::time::timeout(Duration::from_secs(wait), task.finished()).await {
            ended?;
        }
    }
    let log = system.log();
    let stream = task.stream().clone();
    let row = tokio::task::spawn_blocking(move || {
        let version = log.stream_version(&stream)?;
        task_row(log.as_ref(), &StreamInfo { stream, version })
    });
    let row = row.await.map_err(|error| crate::api::bounded_reads::internal(&error))?;
    Ok(row.map_err(unread)?.to_json())
}

/// The body of a decision: an object with the members of its kind only.
struct Body(JsonObject);

impl Body {
    fn read(body: Option<&JsonText>, known: &[&str]) -> Result<Self, Problem> {
        let json = body.cloned().unwrap_or_else(JsonText::empty_object);
        let members: JsonObject =
            json.read().map_err(|error| Problem::malformed(format!("the body is not an object: {error}")))?;
        if let Some((name, _)) = members.iter().find(|(name, _)| !known.contains(name)) {
            let known = known.join(", ");
            return Err(Problem::malformed(format!("there is no member `{name}` here; known: {known}")));
        }
        Ok(Self(members))
    }

    fn optional(&self, name: &str) -> Result<Option<String>, Problem> {
        match self.0.get(name) {
            None => Ok(None),
            Some(value) if value.is_null() => Ok(None),
            Some(value) => value
                .to_str()
                .map(Some)
                .ok_or_else(|| Problem::malformed(format!("the member `{name}` is not a text"))),
        }
    }

    fn text(&self, name: &str) -> Result<String, Problem> {
        let missing = || Problem::malformed(format!("the member `{name}` is missing"));
        self.optional(name)?.filter(|text| !text.is_empty()).ok_or_else(missing)
    }
}

/// A decision that was read from its body.
enum Decision {
    Cancel(Option<String>),
    Approve(String),
    Deny(String, Option<String>),
    Reconcile(String, Verdict),
    Abandon(String, String),
    Answer(String, Result<String, String>),
    Budget(RunBudget),
}

impl Decision {
    fn read(control: Control, body: Option<&JsonText>) -> Result<Self, Problem> {
        Ok(match control {
            Control::Cancel => Self::Cancel(Body::read(body, &["reason"])?.optional("reason")?),
            Control::Approve => Self::Approve(Body::read(body, &["approval"])?.text("approval")?),
            Control::Deny => {
                let body = Body::read(body, &["approval", "reason"])?;
                Self::Deny(body.text("approval")?, body.optional("reason")?)
            }
            Control::Reconcile => {
                let body = Body::read(body, &["call", "landed"])?;
                // A result may be null: the member itself says that the call took effect.
                let landed = body.0.get("landed").cloned();
                Self::Reconcile(body.text("call")?, landed.map_or(Verdict::DidNotHappen, Verdict::Landed))
            }
            Control::Abandon => {
                let body = Body::read(body, &["call", "reason"])?;
                Self::Abandon(body.text("call")?, body.text("reason")?)
            }
            Control::Answer => {
                let body = Body::read(body, &["question", "answer", "declined"])?;
                let answer = match (body.optional("answer")?, body.optional("declined")?) {
                    (Some(answer), None) => Ok(answer),
                    (None, Some(why)) => Err(why),
                    _ => return Err(Problem::malformed("give either `answer` or `declined`")),
                };
                Self::Answer(body.text("question")?, answer)
            }
            Control::Budget => {
                let body = Body::read(body, &["budget"])?;
                let budget = body.0.get("budget");
                let budget = budget.ok_or_else(|| Problem::malformed("the member `budget` is missing"))?;
                let budget = RunBudget::from_json(budget);
                Self::Budget(budget.map_err(|error| Problem::malformed(error.to_string()))?)
            }
        })
    }

    /// Returns the name of the decision, and what it is about.
    fn words(&self, task: &str) -> (&'static str, String) {
        match self {
            Self::Cancel(_) => ("canceled", task.to_owned()),
            Self::Approve(approval) => ("approved", approval.clone()),
            Self::Deny(approval, _) => ("denied", approval.clone()),
            Self::Reconcile(call, verdict) => (verdict.as_str(), call.clone()),
            Self::Abandon(call, _) => ("abandoned", call.clone()),
            Self::Answer(question, Ok(_)) => ("answered", question.clone()),
            Self::Answer(question, Err(_)) => ("declined", question.clone()),
            Self::Budget(_) => ("budget-raised", task.to_owned()),
        }
    }

    async fn carry_out(self, task: &TaskHandle, by: &Caller) -> Result<Committed, Error> {
        let by = by.principal.clone();
        match self {
            Self::Cancel(reason) => task.cancel(reason.as_deref()).await,
            Self::Approve(approval) => task.approve(&approval, by).await,
            Self::Deny(approval, reason) => task.deny(&approval, reason.as_deref(), by).await,
            Self::Reconcile(call, verdict) => task.reconcile(&call, verdict, by).await,
            Self::Abandon(call, reason) => task.abandon(&call, &reason, by).await,
            Self::Answer(question, Ok(answer)) => task.answer(&question, answer, by).await,
            Self::Answer(question, Err(why)) => task.decline(&question, &why, by).await,
            Self::Budget(budget) => task.raise_budget(budget, by).await,
        }
    }
}

/// Carries out a decision about a task, and returns it in the form `taskreel.decision/1`.
///
/// # Errors
/// [`Problem`] if the body states no such decision, the caller may not decide, or the task does not take it.
pub(crate) async fn decide(
    control: Control,
    (system, stream): (&System, StreamId),
    (headers, caller): (&HeaderMap, &Caller),
    body: Option<JsonText>,
) -> Result<JsonText, Problem> {
    let decision = Decision::read(control, body.as_ref())?;
    let log = system.log();
    if control == Control::Cancel && !caller.scopes.has(Scope::Control) {
        refuse_foreign(log.as_ref(), &stream, caller)?;
    }
    // An id by which the log tells whether this decision was the one that was written.
    let made = || Ports::default().uuid();
    let command_id = command_of(&key(headers)?.map_or_else(made, str::to_owned), caller)?;
    let id = stream.id();
    let (word, about) = decision.words(&id);
    let task = system.acting_as(caller.principal.clone()).once(&command_id).task(&id)?;
    let before = log.stream_version(&stream).map_err(unread)?;
    let committed = decision.carry_out(&task, caller).await.map_err(refused)?;
    // From here on the decision is on disk, and no failure to look at it makes it a refusal.
    let version = committed.version;
    let is_new = is_written(log.as_ref(), &stream, (before, version), &command_id).unwrap_or(true);
    let state = task.snapshot().await.map_or("unknown", |task| task.state().as_str());
    Ok(decision_json(&stream, (word, &about), &caller.principal.name, is_new, (state, version)))
}

/// Returns the problem of a decision that the task does not take: an approval, a call or a question that it does not have is
/// not there.
fn refused(error: Error) -> Problem {
    match &error {
        Error::Task(
            TaskRejection::Approval(ApprovalRejection::Unknown(_))
            | TaskRejection::Call(CallRejection::NotRequested(_)),
        ) => Problem::not_found(error.to_string()),
        _ => Problem::from(error),
    }
}

/// Refuses to cancel a task that another caller submitted.
fn refuse_foreign(log: &dyn EventReader, stream: &StreamId, caller: &Caller) -> Result<(), Problem> {
    let first = log.read_stream(stream, Version(1), 1).map_err(unread)?;
    let is_own = first.first().is_some_and(|stored| stored.record.metadata.principal == caller.principal);
    if is_own {
        return Ok(());
    }
    Err(Problem::forbidden(
        "the task was submitted by another caller; to cancel it takes the scope `control`",
    ))
}

/// Whether the command with this id wrote a record between these versions.
fn is_written(
    log: &dyn EventReader,
    stream: &StreamId,
    (before, after): (Version, Version),
    command_id: &str,
) -> Result<bool, Problem> {
    let mut next = Version(before.0.saturating_add(1));
    while next <= after {
        let read = log.read_stream(stream, next, LOOKED_AT_ONCE).map_err(unread)?;
        if read.iter().any(|stored| stored.record.metadata.command_id == command_id) {
            return Ok(true);
        }
        let Some(last) = read.last() else { break };
        next = Version(last.record.last_version().0.saturating_add(1));
    }
    Ok(false)
}
