//! The desk of `inspect --allow-control`: decisions go where those of `approve` and the other commands go, to the server or through
//! the local door of the program that has the log open.

use std::path::Path;
use std::sync::Arc;

use http::StatusCode;
use proto_events::id::{StreamId, Version};
use proto_events::json::{JsonObject, JsonText};
use taskreel::BoxFuture;
use taskreel_http::{Caller, ControlDesk, HttpLog, HttpLogError, Problem as Refused};
#[cfg(unix)]
use taskreel_log::documents::decision_json;
#[cfg(unix)]
use taskreel_log::door::{
    DoorReader, OperatorError, OperatorRefusal, OperatorReply, OperatorRequest, RefusalKind,
};

use crate::args::source::ServerArgs;
use crate::print::problem::{EXIT_HELD, Problem};
use crate::{dirs, server};

/// Returns the desk of a log: that of a server, or of the program that has the log of a directory open.
///
/// # Errors
/// [`Problem`] if nobody there takes decisions.
pub(crate) fn of(from: &ServerArgs, dir: &Path) -> Result<Arc<dyn ControlDesk>, Problem> {
    if let Some(log) = server::connect(from)? {
        return Ok(Arc::new(AtServer(Arc::new(log))));
    }
    #[cfg(unix)]
    if dirs::door_to_decide(dir)?.is_some() {
        return Ok(Arc::new(AtDoor(dir.to_owned())));
    }
    Err(Problem::new(
        EXIT_HELD,
        format!("nothing can be decided on pages of the log in {}", dir.display()),
        "no program has the log open, so that nobody would carry a decision out",
        "start the program that runs its agents, or decide with `taskreel approve` and the other commands",
    ))
}

/// Decisions that a server takes. It records the caller that the token of this process names.
struct AtServer(Arc<HttpLog>);

impl ControlDesk for AtServer {
    fn decide(
        &self,
        task: StreamId,
        decision: &'static str,
        body: JsonText,
        _: Caller,
    ) -> BoxFuture<'static, Result<JsonText, Refused>> {
        let log = Arc::clone(&self.0);
        Box::pin(blocking(move || log.decide(&task, decision, &body).map_err(|error| at_server(&error))))
    }

    fn recorded_as(&self, _: &Caller) -> String {
        "the caller that the token of this process names at the server".to_owned()
    }
}

fn at_server(error: &HttpLogError) -> Refused {
    let status = match error {
        HttpLogError::Refused { status, .. } => StatusCode::from_u16(*status).ok(),
        _ => None,
    };
    let status = status.filter(StatusCode::is_client_error).unwrap_or(StatusCode::BAD_GATEWAY);
    Refused::new(status, "refused", error.to_string())
}

async fn blocking(
    work: impl FnOnce() -> Result<JsonText, Refused> + Send + 'static,
) -> Result<JsonText, Refused> {
    let lost = |error: tokio::task::JoinError| {
        Refused::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", error.to_string())
    };
    tokio::task::spawn_blocking(work).await.map_err(lost)?
}

/// Decisions that the program which has the log open takes. It records the user of this process.
#[cfg(unix)]
struct AtDoor(std::path::PathBuf);

#[cfg(unix)]
impl ControlDesk for AtDoor {
    fn decide(
        &self,
        task: StreamId,
        decision: &'static str,
        body: JsonText,
        _: Caller,
    ) -> BoxFuture<'static, Result<JsonText, Refused>> {
        let dir = self.0.clone();
        Box::pin(blocking(move || {
            let gone = |why: String| Refused::new(StatusCode::SERVICE_UNAVAILABLE, "gone", why);
            let request = request(&task, decision, &body)
                .ok_or_else(|| Refused::malformed(format!("`{decision}` is no decision for a local door")))?;
            let (word, about) = (decision, about_of(&request));
            let door = DoorReader::connect(&dir).map_err(|error| gone(error.to_string()))?;
            let reply = door.decide(request).map_err(|error| at_door(&error))?;
            let OperatorReply { state, version, is_new, by } = reply;
            Ok(decision_json(&task, (word, &about), &by, is_new, (&state, Version(version))))
        }))
    }

    fn recorded_as(&self, _: &Caller) -> String {
        "the user of this process, as the operating system names it".to_owned()
    }
}

/// Returns the request of a decision in the form of the live API.
#[cfg(unix)]
fn request(task: &StreamId, decision: &str, body: &JsonText) -> Option<OperatorRequest> {
    let members: JsonObject = body.read().ok()?;
    let text = |name: &str| members.get(name).and_then(JsonText::to_str);
    let task = task.to_string();
    Some(match decision {
        "approve" => OperatorRequest::Approve { task, approval: text("approval")? },
        "deny" => OperatorRequest::Deny { task, approval: text("approval")?, reason: text("reason") },
        "reconcile" => {
            let landed = members.get("landed").map(|landed| landed.as_str().to_owned());
            OperatorRequest::Reconcile { task, call: text("call")?, landed }
        }
        "abandon" => OperatorRequest::Abandon { task, call: text("call")?, reason: text("reason")? },
        "answer" => {
            let answer =
                text("answer").map_or_else(|| Some(Err(text("declined")?)), |answer| Some(Ok(answer)))?;
            OperatorRequest::Answer { task, question: text("question")?, answer }
        }
        "cancel" => OperatorRequest::Cancel { task, reason: text("reason") },
        _ => return None,
    })
}

#[cfg(unix)]
fn about_of(request: &OperatorRequest) -> String {
    match request {
        OperatorRequest::Approve { approval, .. } | OperatorRequest::Deny { approval, .. } => {
            approval.clone()
        }
        OperatorRequest::Reconcile { call, .. } | OperatorRequest::Abandon { call, .. } => call.clone(),
        OperatorRequest::Answer { question, .. } => question.clone(),
        other => other.task().to_owned(),
    }
}

#[cfg(unix)]
fn at_door(error: &OperatorError) -> Refused {
    let (status, code) = match error {
        OperatorError::Refused(OperatorRefusal { kind, .. }) => match kind {
            RefusalKind::Unknown => (StatusCode::NOT_FOUND, "not_found"),
            RefusalKind::Input => (StatusCode::BAD_REQUEST, "malformed"),
            RefusalKind::Rejected => (StatusCode::CONFLICT, "conflict"),
            _ => (StatusCode::SERVICE_UNAVAILABLE, "not_taken"),
        },
        _ => (StatusCode::SERVICE_UNAVAILABLE, "no_answer"),
    };
    Refused::new(status, code, error.to_string())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn each_decision_of_the_pages_is_one_that_a_door_takes() {
        let task = StreamId::task("a", "t").unwrap();
        let of = |decision: &str, body: &str| request(&task, decision, &JsonText::parse(body).unwrap());
        for (decision, body) in [
            ("approve", r#"{"approval":"x"}"#),
            ("deny", r#"{"approval":"x","reason":"no"}"#),
            ("deny", r#"{"approval":"x"}"#),
            ("reconcile", r#"{"call":"x","landed":null}"#),
            ("reconcile", r#"{"call":"x"}"#),
            ("abandon", r#"{"call":"x","reason":"gone"}"#),
            ("answer", r#"{"question":"x:1","answer":"yes"}"#),
            ("answer", r#"{"question":"x:1","declined":"no"}"#),
            ("cancel", "{}"),
        ] {
            let request = of(decision, body).unwrap_or_else(|| panic!("{decision} {body}"));
            assert_eq!(request.task(), "task-a/t");
        }
        // A call that landed with nothing is not one that did not happen.
        let landed = |body: &str| match of("reconcile", body) {
            Some(OperatorRequest::Reconcile { landed, .. }) => landed,
            other => panic!("{other:?}"),
        };
        assert_eq!(landed(r#"{"call":"x","landed":null}"#).as_deref(), Some("null"));
        assert_eq!(landed(r#"{"call":"x"}"#), None);
        for (decision, body) in
            [("approve", "{}"), ("abandon", r#"{"call":"x"}"#), ("budget", "{}"), ("approve", "[]")]
        {
            assert!(of(decision, body).is_none(), "{decision} {body}");
        }
    }
}
