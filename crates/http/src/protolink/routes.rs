//! The handler: requests become operations, and what comes of them becomes responses.

use std::sync::Arc;

use futures_util::stream;
use http::StatusCode;
use http::header::HeaderValue;
use http::request::Parts;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::AgentCard;
use taskreel::{BoxFuture, System};

use crate::auth::allowance::Allowance;
use crate::auth::caller::Caller;
use crate::error::Problem;
use crate::handler::body::RequestBody;
use crate::handler::connection::{StopSignal, base_url, mounted_at};
use crate::handler::json::read_json;
use crate::handler::message::{HttpHandler, Request, Response};
use crate::handler::path::segments;
use crate::handler::respond;
use crate::handler::sse::{SseFrame, event_stream};
use crate::handler::websocket::{is_upgrade, upgrade};
use crate::limits::SSE_HEARTBEAT;
use crate::protolink::carry::{CarryOutcome, carry_out};
use crate::protolink::operation::{PathMeaning, find};
use crate::protolink::operation_input::OperationInput;
use crate::protolink::socket;
use crate::protolink::stream::TaskFrames;

/// The header by which a client names its request, in Protolink.
const REQUEST_ID: &str = "x-protolink-request-id";

/// The header with what a task has used, as JSON: the budget of the asking task pays for it.
const USED: &str = crate::limits::USED_HEADER;

/// The header by which a client continues an event stream.
const LAST_EVENT_ID: &str = "last-event-id";

/// Protolink's wire protocol for the agents of a system: the default agent at the root, every agent at `/agents/<name>`.
#[derive(Debug, Clone)]
pub struct Protolink {
    system: System,
    /// The address under which clients reach the root, if it is not the one of their requests.
    url: Option<Arc<str>>,
}

impl Protolink {
    /// Returns the handler of a system's agents.
    pub fn new(system: System) -> Self {
        Self { system, url: None }
    }

    /// Sets the address under which clients reach the root, for the agents' cards. By default it is the one that the
    /// request names, which behind a proxy may be another one.
    #[must_use]
    pub fn url(mut self, url: &str) -> Self {
        self.url = Some(Arc::from(url.trim_end_matches('/')));
        self
    }
}

impl Protolink {
    /// Returns the cards of the system's agents, each with the address under which clients reach it where the root is at
    /// `url`: for a registry. Where the host has set an address in a card, it stays.
    pub fn cards(&self, url: &str) -> Vec<AgentCard> {
        let url = self.url.as_deref().unwrap_or(url).trim_end_matches('/');
        let names = self.system.agents();
        let cards = names.iter().enumerate().filter_map(|(index, name)| {
            let mut card = self.system.agent(name)?.card();
            if card.url.is_empty() {
                let name = utf8_percent_encode(name, NON_ALPHANUMERIC);
                card.url = if index == 0 { url.to_owned() } else { format!("{url}/{AGENTS}/{name}") };
            }
            Some(card)
        });
        cards.collect()
    }
}

impl HttpHandler for Protolink {
    fn answer(&self, request: Request) -> BoxFuture<'static, Response> {
        let (system, url) = (self.system.clone(), self.url.clone());
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            match answer(&system, url.as_deref(), parts, body).await {
                Ok(response) => response,
                Err(problem) => problem.into_response(),
            }
        })
    }
}

/// Answers a request to the agent that its path names.
async fn answer(
    system: &System,
    url: Option<&str>,
    parts: Parts,
    body: RequestBody,
) -> Result<Response, Problem> {
    let Some(AddressedAgent { system, at, path }) = addressed(system, parts.uri.path())? else {
        return Ok(respond::not_found());
    };
    let system = &system;
    let caller = parts.extensions.get::<Caller>().cloned();
    let url = match url {
        Some(url) => format!("{url}{at}"),
        None => format!("{}{at}", base_url(&parts)),
    };
    if path == "/" && is_upgrade(&parts.method, &parts.headers) {
        let stopping = parts.extensions.get::<StopSignal>().cloned();
        let allowance = parts.extensions.get::<Allowance>().cloned();
        let agent = socket::Agent { system: system.clone(), caller, allowance, url, stopping };
        return Ok(upgrade(&parts.headers, |socket| Box::pin(socket::serve(socket, agent))));
    }
    let operation = match find(parts.method.as_str(), &path) {
        PathMeaning::Operation(operation) => operation,
        PathMeaning::OtherMethod(allowed) => return Ok(respond::method_not_allowed(allowed)),
        PathMeaning::Redirect(path) => {
            let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
            let location = format!("{}{at}{path}{query}", mounted_at(&parts.extensions));
            return Ok(respond::redirect(&location));
        }
        PathMeaning::Nothing => return Ok(respond::not_found()),
    };
    let header = |name: &str| Some(parts.headers.get(name)?.to_str().ok()?.to_owned());
    let asked = OperationInput {
        body: read_json(&parts.headers, body).await?,
        caller,
        url,
        last_event_id: header(LAST_EVENT_ID),
    };
    Ok(match carry_out(system, operation, asked).await? {
        CarryOutcome::Json(value) => respond::json(StatusCode::OK, &value),
        CarryOutcome::Task(task, used) => {
            let mut response = respond::json(StatusCode::OK, &task);
            // Protolink's tasks have no place for it.
            if let Ok(used) = HeaderValue::from_str(used.to_json().as_str()) {
                response.headers_mut().insert(USED, used);
            }
            response
        }
        CarryOutcome::Page(page) => respond::page(page),
        CarryOutcome::OtherMethod => respond::method_not_allowed("GET"),
        CarryOutcome::Frames(frames) => sse(*frames, header(REQUEST_ID).as_deref()),
    })
}

/// The agent that a path names.
struct AddressedAgent {
    system: System,
    /// The part of the path that names it, as it stands there.
    at: String,
    /// The path under it, decoded.
    path: String,
}

/// Returns the agent that a path names: at `/agents/<name>` each by its name, else the default one. `None` if there is no
/// such agent.
fn addressed(system: &System, path: &str) -> Result<Option<AddressedAgent>, Problem> {
    let decoded = segments(path).map_err(|error| Problem::malformed(error.to_string()))?;
    // A slash within a segment parts nothing.
    if decoded.iter().skip(2).any(|segment| segment.contains('/')) {
        return Ok(None);
    }
    let [first, name, rest @ ..] = decoded.as_slice() else {
        return Ok(Some(AddressedAgent {
            system: system.clone(),
            at: String::new(),
            path: joined(&decoded),
        }));
    };
    if first != AGENTS {
        return Ok(Some(AddressedAgent {
            system: system.clone(),
            at: String::new(),
            path: joined(&decoded),
        }));
    }
    let raw = path.trim_start_matches('/').split('/').take(2);
    let at = raw.fold(String::new(), |at, segment| at + "/" + segment);
    Ok(system.agent(name).map(|system| AddressedAgent { system, at, path: joined(rest) }))
}

fn joined(segments: &[String]) -> String {
    format!("/{}", segments.join("/"))
}

/// The first segment of the paths that name an agent.
const AGENTS: &str = "agents";

/// Returns the event stream of a task's run, each frame with the id of the request.
fn sse(frames: TaskFrames, request_id: Option<&str>) -> Response {
    let mut head = JsonObject::new();
    head.set("jsonrpc", JsonText::string("2.0"));
    head.set("id", request_id.map_or_else(JsonText::null, JsonText::string));
    let frames = stream::unfold((frames, head), |(mut frames, head)| async move {
        let frame = frames.next().await?;
        let data = frame.to_json(head.clone());
        Some((SseFrame { id: frame.place, data }, (frames, head)))
    });
    event_stream(frames, SSE_HEARTBEAT)
}
