//! The control backend of `inspect --allow-control`: decisions go where `approve` and the other commands send theirs, to the server, through the
//! local socket of the program that has the log open, or into the log itself where none has.

use std::path::Path;
use std::sync::Arc;

use http::StatusCode;
use proto_events::id::StreamId;
#[cfg(unix)]
use proto_events::id::Version;
use proto_events::json::{JsonObject, JsonText};
use taskreel::BoxFuture;
use taskreel_http::{Caller, ControlBackend, HttpLog, HttpLogError, Problem as Refused};
#[cfg(unix)]
use taskreel_log::documents::decision_json;
#[cfg(unix)]
use taskreel_log::socket::{OperatorError, OperatorRefusal, OperatorReply, OperatorRequest, RefusalKind};

use crate::args::source::ServerArgs;
use crate::decide::{Wish, WishKind, carry_out_in};
use crate::print::problem::{EXIT_NO, EXIT_UNKNOWN, EXIT_USAGE, Problem};
use crate::{dirs, server};

/// Returns the control backend of a log: that of a server, or that of the log in a directory.
///
/// # Errors
/// [`Problem`] if the server cannot be reached, or no log exists.
pub(crate) fn open_backend(from: &ServerArgs, dir: &Path) -> Result<Arc<dyn ControlBackend>, Problem> {
    if let Some(log) = server::connect(from)? {
        return Ok(Arc::new(AtServer(Arc::new(log))));
    }
    dirs::refuse_nothing(dir)?;
    Ok(Arc::new(AtLog(dir.to_owned())))
}

/// Decisions that a server takes. It records the caller that the token of this process names.
struct AtServer(Arc<HttpLog>);

impl ControlBackend for AtServer {
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

/// Decisions that the program which has the log open takes, or that are made in the log while none has. Either records the user of this
/// process.
struct AtLog(std::path::PathBuf);

impl ControlBackend for AtLog {
    fn decide(
        &self,
        task: StreamId,
        decision: &'static str,
        body: JsonText,
        _: Caller,
    ) -> BoxFuture<'static, Result<JsonText, Refused>> {
        let dir = self.0.clone();
        Box::pin(blocking(move || {
            let wish = wish(&task, decision, &body)
                .ok_or_else(|| Refused::malformed(format!("`{decision}` is no decision about a log")))?;
            #[cfg(unix)]
            if let Some(socket) = dirs::socket_to_decide(&dir).map_err(|problem| refused(&problem))? {
                let request = request(wish);
                let about = about_of(&request);
                let reply = socket.decide(request).map_err(|error| at_socket(&error))?;
                let OperatorReply { state, version, is_new, by } = reply;
                return Ok(decision_json(&task, (decision, &about), &by, is_new, (&state, Version(version))));
            }
            carry_out_in(&dir, &wish).map_err(|problem| refused(&problem))
        }))
    }

    fn recorded_as(&self, _: &Caller) -> String {
        "the user of this process, as the operating system names it".to_owned()
    }
}

/// Returns the refusal of a decision in a log that was opened for it, or that could not be.
fn refused(problem: &Problem) -> Refused {
    let (status, code) = match problem.code {
        EXIT_UNKNOWN => (StatusCode::NOT_FOUND, "not_found"),
        EXIT_USAGE => (StatusCode::BAD_REQUEST, "malformed"),
        EXIT_NO => (StatusCode::CONFLICT, "conflict"),
        _ => (StatusCode::SERVICE_UNAVAILABLE, "not_taken"),
    };
    Refused::new(status, code, format!("{}: {}", problem.what, problem.why))
}

/// Returns a decision in the form of the live API.
fn wish(task: &StreamId, decision: &str, body: &JsonText) -> Option<Wish> {
    let members: JsonObject = body.read().ok()?;
    let text = |name: &str| members.get(name).and_then(JsonText::to_str);
    let reason = || text("reason").unwrap_or_default();
    let kind = match decision {
        "approve" => WishKind::Approve(text("approval")?),
        "deny" => WishKind::Deny(text("approval")?, reason()),
        "reconcile" => match members.get("landed") {
            Some(landed) => WishKind::Landed(text("call")?, landed.as_str().to_owned()),
            None => WishKind::DidNotHappen(text("call")?),
        },
        "abandon" => WishKind::Abandon(text("call")?, text("reason")?),
        "answer" => match text("answer") {
            Some(answer) => WishKind::Answer(text("question")?, answer),
            None => WishKind::Decline(text("question")?, text("declined")?),
        },
        "cancel" => WishKind::Cancel(reason()),
        _ => return None,
    };
    Some(Wish { task: task.to_string(), kind })
}

/// Returns the request of a decision to a socket.
#[cfg(unix)]
fn request(wish: Wish) -> OperatorRequest {
    let Wish { task, kind } = wish;
    let said = |text: String| Some(text).filter(|text| !text.is_empty());
    match kind {
        WishKind::Approve(approval) => OperatorRequest::Approve { task, approval },
        WishKind::Deny(approval, reason) => OperatorRequest::Deny { task, approval, reason: said(reason) },
        WishKind::Landed(call, landed) => OperatorRequest::Reconcile { task, call, landed: Some(landed) },
        WishKind::DidNotHappen(call) => OperatorRequest::Reconcile { task, call, landed: None },
        WishKind::Abandon(call, reason) => OperatorRequest::Abandon { task, call, reason },
        WishKind::Answer(question, text) => OperatorRequest::Answer { task, question, answer: Ok(text) },
        WishKind::Decline(question, why) => OperatorRequest::Answer { task, question, answer: Err(why) },
        WishKind::Cancel(reason) => OperatorRequest::Cancel { task, reason: said(reason) },
    }
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
fn at_socket(error: &OperatorError) -> Refused {
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
    fn each_decision_of_the_pages_is_one_that_a_socket_takes() {
        let task = StreamId::task("a", "t").unwrap();
        let of =
            |decision: &str, body: &str| wish(&task, decision, &JsonText::parse(body).unwrap()).map(request);
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
