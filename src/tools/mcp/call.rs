//! A call of an MCP tool: sent with our idempotency key, with its progress passed on and with any cancel
//! reported to the server.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use proto_events::id::Digest;
use proto_events::json::{JsonNumber, JsonObject, JsonText, JsonValue};
use proto_events::limits::PAYLOAD_BYTES_MAX;
use proto_events::model::{Artifact, Part};
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CancelledNotificationParam, ClientConfig, ClientRequest,
    ProgressNotificationParam, ProgressToken, RequestId, RequestMetaObject, ServerResult,
};
use rmcp::service::{NotificationContext, PeerRequestOptions, RunningService, ServiceError};
use rmcp::{ClientHandler, Peer, RoleClient};
use tokio::sync::Notify;

use crate::tools::error::ToolError;
use crate::tools::mcp::answer::{Media, answer};
use crate::tools::tool::ToolContext;

/// The name of the metadata field with the key that is the same for every attempt of a call.
const IDEMPOTENCY_KEY: &str = "taskreel/idempotencyKey";

/// The most files of an answer that are kept.
const FILES_MAX: usize = 64;

/// The most characters of base64 of a file that is kept: an event has room for them and what describes them.
const FILE_BYTES_MAX: usize = PAYLOAD_BYTES_MAX - 16 * 1024;

/// The number of progress texts kept for calls that are not registered yet, as a server may be quick. Older
/// ones are dropped.
const UNCLAIMED_MAX: usize = 64;

/// The receiver of a server's notifications, which passes progress on to the call that it belongs to.
#[derive(Debug, Clone, Default)]
pub(crate) struct NotificationReceiver {
    calls: Arc<Mutex<ListenerState>>,
    /// Notified when the server says that its list of tools has changed.
    list_changed: Arc<Notify>,
}

#[derive(Debug, Default)]
struct ListenerState {
    calls: HashMap<ProgressToken, ToolContext>,
    unclaimed: Vec<(ProgressToken, String)>,
}

impl NotificationReceiver {
    pub(crate) fn new(list_changed: Arc<Notify>) -> Self {
        Self { list_changed, calls: Arc::default() }
    }

    fn claim(&self, token: &ProgressToken, cx: &ToolContext) {
        let early: Vec<_> = {
            let mut heard = self.state();
            heard.calls.insert(token.clone(), cx.clone());
            heard.unclaimed.extract_if(.., |(known, _)| known == token).collect()
        };
        for (_, text) in &early {
            cx.progress(text);
        }
    }

    fn forget(&self, token: &ProgressToken) {
        self.state().calls.remove(token);
    }

    fn tell(&self, progress: ProgressNotificationParam) {
        let text = in_words(&progress);
        let cx = {
            let mut heard = self.state();
            let cx = heard.calls.get(&progress.progress_token).cloned();
            if cx.is_none() {
                if heard.unclaimed.len() == UNCLAIMED_MAX {
                    heard.unclaimed.remove(0);
                }
                heard.unclaimed.push((progress.progress_token, text.clone()));
            }
            cx
        };
        if let Some(cx) = cx {
            cx.progress(&text);
        }
    }

    fn state(&self) -> MutexGuard<'_, ListenerState> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Formats progress as `3 of 10: copying`.
fn in_words(progress: &ProgressNotificationParam) -> String {
    let count = match progress.total {
        Some(total) => format!("{} of {total}", progress.progress),
        None => progress.progress.to_string(),
    };
    match &progress.message {
        Some(message) => format!("{count}: {message}"),
        None => count,
    }
}

impl ClientHandler for NotificationReceiver {
    fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) -> impl Future<Output = ()> + Send + '_ {
        self.tell(params);
        std::future::ready(())
    }

    fn on_tool_list_changed(
        &self,
        _: NotificationContext<RoleClient>,
    ) -> impl Future<Output = ()> + Send + '_ {
        self.list_changed.notify_one();
        std::future::ready(())
    }

    fn get_info(&self) -> ClientConfig {
        let mut info = ClientConfig::default();
        info.client_info = rmcp::model::Implementation::new("taskreel", env!("CARGO_PKG_VERSION"));
        info
    }
}

/// A request in flight. If it is dropped before it is answered, the server is notified of the cancel.
struct InFlightCall<'a> {
    listener: &'a NotificationReceiver,
    peer: Peer<RoleClient>,
    id: Option<RequestId>,
    token: ProgressToken,
    runtime: tokio::runtime::Handle,
}

impl Drop for InFlightCall<'_> {
    fn drop(&mut self) {
        self.listener.forget(&self.token);
        let Some(id) = self.id.take() else { return };
        let peer = self.peer.clone();
        let told = CancelledNotificationParam::new(Some(id), Some("nobody waits for it any more".to_owned()));
        self.runtime.spawn(async move {
            let _ = peer.notify_cancelled(told).await;
        });
    }
}

/// Returns the arguments as the client carries them. Arguments that it would change are not sent: the call in the log, and
/// what a person approved, would be another one.
fn arguments(args: &JsonText) -> Result<Option<serde_json::Map<String, serde_json::Value>>, ToolError> {
    if args.is_null() {
        return Ok(None);
    }
    let cannot = |why: String| ToolError::not_sent(format!("MCP cannot carry the arguments: {why}"));
    if let Some(number) = inexact(&args.tree()) {
        return Err(cannot(format!("the number {number} is beyond 64 bits")));
    }
    args.read().map(Some).map_err(|error| cannot(error.to_string()))
}

/// Returns the first number that is an integer beyond 64 bits or beyond the range of floats.
fn inexact(value: &JsonValue) -> Option<&JsonNumber> {
    match value {
        JsonValue::Number(number) => {
            let is_whole = number.as_i64().is_some() || number.as_u64().is_some();
            let is_carried = is_whole || (number.is_float() && number.as_f64().is_some());
            Some(number).filter(|_| !is_carried)
        }
        JsonValue::Array(items) => items.iter().find_map(inexact),
        JsonValue::Object(fields) => fields.values().find_map(inexact),
        _ => None,
    }
}

/// Calls a tool. The outer result is the connection's, the inner one the tool's.
pub(crate) async fn call(
    live: &Live,
    tool: &str,
    cx: &ToolContext,
    args: &JsonText,
) -> Result<Result<JsonText, ToolError>, ServiceError> {
    let mut params = CallToolRequestParams::new(tool.to_owned());
    params.arguments = match arguments(args) {
        Ok(arguments) => arguments,
        Err(error) => return Ok(Err(error)),
    };
    let mut meta = RequestMetaObject::new();
    meta.0.insert(IDEMPOTENCY_KEY.to_owned(), cx.idempotency_key().into());
    params.meta = Some(meta);
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
    let handle = live.peer().send_cancellable_request(request, PeerRequestOptions::no_options()).await?;
    let mut in_flight = InFlightCall {
        listener: live.service(),
        peer: handle.peer.clone(),
        id: Some(handle.id.clone()),
        token: handle.progress_token.clone(),
        runtime: tokio::runtime::Handle::current(),
    };
    live.service().claim(&in_flight.token, cx);
    let answered = tokio::select! {
        answered = handle.await_response() => answered,
        () = cx.cancellation().canceled() => {
            return Ok(Err(ToolError::failed("the call was given up").with_type("Canceled")));
        }
    };
    in_flight.id = None;
    let result = raw_result(&answered?)?;
    Ok(answer(&result, &mut keep_in(cx, tool)))
}

/// Returns what adds the files of an answer to the task, each once: with the success of the call.
fn keep_in(cx: &ToolContext, tool: &str) -> impl FnMut(&Media<'_>) -> Option<String> {
    let mut kept: HashMap<Digest, String> = HashMap::new();
    move |media| {
        let digest = Digest::compute(media.base64.as_bytes());
        if let Some(id) = kept.get(&digest) {
            return Some(id.clone());
        }
        if kept.len() == FILES_MAX || media.base64.len() > FILE_BYTES_MAX {
            return None;
        }
        let id = cx.attach(file(media, cx.call_id(), tool));
        kept.insert(digest, id.clone());
        Some(id)
    }
}

/// Returns the artifact of a file of an answer, in the form of A2A's files.
fn file(media: &Media<'_>, call_id: &str, tool: &str) -> Artifact {
    let text = |text: &str| JsonText::string(text);
    let mut content = JsonObject::new();
    content.set("raw", text(media.base64));
    content.set("mediaType", text(media.kind));
    let main = media.kind.split('/').next().unwrap_or_default();
    let part = ["image", "audio", "video"].into_iter().find(|kind| *kind == main).unwrap_or("file");
    Artifact {
        id: None,
        parts: vec![Part::new(part, content.to_text())],
        metadata: [("call_id", call_id), ("tool", tool)]
            .into_iter()
            .map(|(name, value)| (name.to_owned(), text(value)))
            .collect(),
        timestamp: None,
        kind: "file".to_owned(),
        name: None,
        uri: media.uri.map(str::to_owned),
        media_type: Some(media.kind.to_owned()),
        action_id: None,
    }
}

/// Returns a server's answer as its JSON.
///
/// # Errors
/// `ServiceError::UnexpectedResponse`, if it cannot be written as JSON.
pub(crate) fn raw_result(result: &ServerResult) -> Result<serde_json::Value, ServiceError> {
    serde_json::to_value(result).map_err(|_| ServiceError::UnexpectedResponse)
}

/// An open connection.
pub(crate) type Live = RunningService<RoleClient, NotificationReceiver>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::tool::ToolContextParts;

    fn progress(json: &proto_events::json::JsonValue) -> ProgressNotificationParam {
        json.read().unwrap()
    }

    #[test]
    fn progress_reaches_the_call_that_it_is_about_even_if_it_is_quicker_than_we_are() {
        let listener = NotificationReceiver::default();
        let told = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&told);
        let cx = ToolContext::new(ToolContextParts {
            progress: Some(Arc::new(move |text: &str| sink.lock().unwrap().push(text.to_owned()))),
            ..ToolContextParts::default()
        });
        listener.tell(progress(&proto_events::json!({"progressToken": 7, "progress": 1, "total": 3})));
        listener.tell(progress(&proto_events::json!({"progressToken": 8, "progress": 9})));
        let token = progress(&proto_events::json!({"progressToken": 7, "progress": 0})).progress_token;
        listener.claim(&token, &cx);
        let last =
            proto_events::json!({"progressToken": 7, "progress": 2.5, "total": 3, "message": "copying"});
        listener.tell(progress(&last));
        listener.forget(&token);
        listener.tell(progress(&last));
        assert_eq!(*told.lock().unwrap(), ["1 of 3", "2.5 of 3: copying"]);
    }

    #[test]
    fn progress_that_nobody_claims_does_not_pile_up() {
        let listener = NotificationReceiver::default();
        for token in 0..2 * UNCLAIMED_MAX {
            listener.tell(progress(&proto_events::json!({"progressToken": token, "progress": 1})));
        }
        assert_eq!(listener.state().unclaimed.len(), UNCLAIMED_MAX);
    }

    #[test]
    fn only_arguments_that_arrive_as_they_are_written_are_carried() {
        let carried = |text: &str| arguments(&JsonText::parse(text).unwrap());
        for text in ["{}", "null", r#"{"n":[18446744073709551615,-9223372036854775808,0.5,1e300,-0]}"#] {
            assert!(carried(text).is_ok(), "{text}");
        }
        let deep = format!(r#"{{"n":{}1{}}}"#, "[".repeat(127), "]".repeat(127));
        for text in [r#"{"n":1e400}"#, r#"{"n":[{"m":18446744073709551616}]}"#, deep.as_str()] {
            assert!(carried(text).unwrap_err().message().contains("cannot carry"), "{text}");
        }
    }
}
