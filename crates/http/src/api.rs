//! The live API: what programs and people read of a running system and its log, and how they control it. The documents
//! are those that the command line prints with `--json`, and `/openapi.json` describes all of it.

pub(crate) mod bounded_reads;
#[cfg(feature = "client")]
pub(crate) mod client;
pub(crate) mod control;
pub(crate) mod lists;
pub(crate) mod live;
pub(crate) mod names;
pub(crate) mod one;
pub(crate) mod openapi;
pub(crate) mod records;
pub(crate) mod routed_request;
pub(crate) mod routes;
pub(crate) mod wire;

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use futures_util::StreamExt as _;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use http::{Method, StatusCode};
use proto_events::envelope::Principal;
use proto_events::id::{Category, StreamId};
use proto_events::json::JsonText;
use taskreel::{BoxFuture, System};
use taskreel_log::audit::json::one_line;
use tokio::sync::Semaphore;

use crate::api::bounded_reads::{internal, read};
use crate::api::names::Agents;
use crate::api::openapi::{EVENTS, JSON, LINES};
use crate::api::records::Lines;
use crate::api::routed_request::RoutedRequest;
use crate::api::routes::ApiOperation;
use crate::auth::caller::{Caller, Scopes};
use crate::error::Problem;
use crate::handler::body::RequestBody;
use crate::handler::connection::StopSignal;
use crate::handler::json::read_json;
use crate::handler::message::{HttpHandler, Request, Response, ResponseBody};
use crate::limits::{FOLLOWERS_MAX, READS_MAX};

/// The live API of a system, for a place such as `/api`.
///
/// A request whose extensions hold a [`Caller`] may do what its scopes allow. One without was checked by nobody: the host
/// that mounts the handler answers for it, and it may do everything.
#[derive(Debug, Clone)]
pub struct LiveApi {
    system: System,
    /// The agent that is meant where a request names none.
    usual: String,
    turns: Arc<Semaphore>,
    followers: Arc<Semaphore>,
}

/// The good answer to a request.
enum ApiAnswer {
    Json(JsonText),
    Lines(&'static str, Lines),
}

impl LiveApi {
    /// Returns the live API of a system.
    pub fn new(system: &System) -> Self {
        let usual = system.agent_name().to_owned();
        Self {
            system: system.clone(),
            usual,
            turns: Arc::new(Semaphore::new(READS_MAX)),
            followers: Arc::new(Semaphore::new(FOLLOWERS_MAX)),
        }
    }

    async fn respond(self, parts: Parts, body: RequestBody) -> Response {
        let is_head = parts.method == Method::HEAD;
        let answered = match RoutedRequest::read(&parts.method, parts.uri.path(), parts.uri.query()) {
            Ok(asked) => self.carry_out(&asked, &parts, body).await,
            Err(problem) => Err(problem),
        };
        let mut response = match answered {
            Ok(answered) => answered.into_response(),
            Err(problem) => refused(problem, parts.uri.path()),
        };
        if is_head {
            *response.body_mut() = ResponseBody::Whole(Bytes::new());
        }
        response
    }

    async fn carry_out(
        &self,
        asked: &RoutedRequest,
        parts: &Parts,
        body: RequestBody,
    ) -> Result<ApiAnswer, Problem> {
        let caller = parts
            .extensions
            .get::<Caller>()
            .cloned()
            .unwrap_or_else(|| Caller { principal: Principal::asserted("http"), scopes: Scopes::ALL });
        if !caller.scopes.has(asked.route.scope) {
            return Err(Problem::forbidden("the caller does not have the scope that this request needs"));
        }
        let answered = match asked.route.operation {
            ApiOperation::OpenApi => described(),
            ApiOperation::Agents => lists::agents(&self.system.agents(), &self.usual),
            ApiOperation::Live => {
                let lines = live::live(asked, &parts.headers, self.system.log(), &self.followers)?;
                return Ok(ApiAnswer::Lines(EVENTS, until_stopped(lines, parts)));
            }
            ApiOperation::Records => {
                let bounds = (Arc::clone(&self.turns), Arc::clone(&self.followers));
                let lines = records::records(asked, self.system.log(), bounds).await?;
                let lines = if asked.flag("follow") { until_stopped(lines, parts) } else { lines };
                return Ok(ApiAnswer::Lines(LINES, lines));
            }
            ApiOperation::Submit => {
                let body = read_json(&parts.headers, body).await?;
                let system = self.system_of(asked.text("agent").unwrap_or(&self.usual))?;
                control::submit(asked, &system, (&parts.headers, &caller), body).await?
            }
            ApiOperation::Control(decision) => {
                let body = read_json(&parts.headers, body).await?;
                let stream = self.find(asked, Category::Task).await?;
                let system = self.system_of(&stream.agent())?;
                control::decide(decision, (&system, stream), (&parts.headers, &caller), body).await?
            }
            reading => self.read(reading, asked).await?,
        };
        Ok(ApiAnswer::Json(answered))
    }

    /// Carries out an operation that reads.
    async fn read(&self, operation: ApiOperation, asked: &RoutedRequest) -> Result<JsonText, Problem> {
        let (asked, agents) = (asked.clone(), self.agents(asked));
        let dir = self.system.directory().map(std::path::Path::to_path_buf);
        read(&self.turns, self.system.log(), move |log| {
            let find = |category| agents.find(log, category, asked.id());
            match operation {
                ApiOperation::Log => one::log(log, dir.as_deref()),
                ApiOperation::Streams => lists::streams(&asked, log),
                ApiOperation::Tasks => lists::tasks(&asked, log),
                ApiOperation::Task => one::show(log, &find(Category::Task)?),
                ApiOperation::TaskEvents => one::events(&asked, log, &find(Category::Task)?),
                ApiOperation::TaskState => one::state(&asked, log, &find(Category::Task)?),
                ApiOperation::Session => one::show(log, &find(Category::Session)?),
                ApiOperation::Calls => lists::calls(&asked, log),
                ApiOperation::Stats => lists::stats(&asked, log),
                ApiOperation::Verify => one::verify(&asked, log, dir.as_deref()),
                other => Err(internal(&format!("{other:?} does not read"))),
            }
        })
        .await
    }

    fn agents(&self, asked: &RoutedRequest) -> Agents {
        Agents { named: asked.text("agent").map(str::to_owned), usual: self.usual.clone() }
    }

    async fn find(&self, asked: &RoutedRequest, category: Category) -> Result<StreamId, Problem> {
        let (agents, id) = (self.agents(asked), asked.id().to_owned());
        read(&self.turns, self.system.log(), move |log| agents.find(log, category, &id)).await
    }

    /// Returns the handle that addresses an agent.
    fn system_of(&self, agent: &str) -> Result<System, Problem> {
        let unknown = || Problem::not_found(format!("this server does not run the agent `{agent}`"));
        self.system.agent(agent).ok_or_else(unknown)
    }
}

/// Returns the `OpenAPI` document, which is made once.
fn described() -> JsonText {
    static DOCUMENT: OnceLock<JsonText> = OnceLock::new();
    DOCUMENT.get_or_init(openapi::document).clone()
}

/// Ends an answer without an end once the server stops: the client connects again elsewhere, or later.
fn until_stopped(lines: Lines, parts: &Parts) -> Lines {
    match parts.extensions.get::<StopSignal>() {
        Some(stopping) => lines.take_until(stopping.clone().begun()).boxed(),
        None => lines,
    }
}

/// Returns the answer to a request that was not carried out.
fn refused(problem: Problem, path: &str) -> Response {
    let is_method = problem.status() == StatusCode::METHOD_NOT_ALLOWED;
    let mut response = problem.into_response();
    if is_method {
        let takes = |method: &Method| RoutedRequest::read(method, path, None).is_ok();
        let methods = [Method::GET, Method::POST].into_iter().filter(takes).map(|method| method.to_string());
        if let Ok(allowed) = HeaderValue::from_str(&methods.collect::<Vec<_>>().join(", ")) {
            response.headers_mut().insert(ALLOW, allowed);
        }
    }
    response
}

impl ApiAnswer {
    fn into_response(self) -> Response {
        let (media, body) = match self {
            Self::Json(json) => (JSON, ResponseBody::Whole(Bytes::from(one_line(&json)))),
            Self::Lines(media, lines) => (media, ResponseBody::Pieces(lines)),
        };
        let mut response = Response::new(body);
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media));
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }
}

impl HttpHandler for LiveApi {
    fn answer(&self, request: Request) -> BoxFuture<'static, Response> {
        let (parts, body) = request.into_parts();
        Box::pin(self.clone().respond(parts, body))
    }
}
