//! The handler of a registry: Protolink's routes.

use http::StatusCode;
use http::request::Parts;
use proto_events::envelope::Principal;
use proto_events::json;
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{AgentCard, EndpointContent, EndpointSpec, HttpMethod, RequestSource};
use taskreel::BoxFuture;

use crate::auth::caller::{Caller, Scope};
use crate::error::Problem;
use crate::handler::body::RequestBody;
use crate::handler::connection::mounted_at;
use crate::handler::json::read_json;
use crate::handler::message::{HttpHandler, Request, Response};
use crate::handler::path::pairs;
use crate::handler::respond;
use crate::registry::agents::Registry;
use crate::registry::filter::AgentFilter;
use crate::registry::page;

/// The endpoints of a registry. The page is at `/agents/status`, since an agent's page is at `/status` where both stand on
/// one port; on a port of its own a registry has it there too, as Protolink's does.
pub const REGISTRY_ENDPOINTS: [EndpointSpec; 5] = [
    EndpointSpec::new("register", HttpMethod::Post, "/agents/").takes(RequestSource::Body),
    EndpointSpec::new("unregister", HttpMethod::Delete, "/agents/").takes(RequestSource::Body),
    EndpointSpec::new("heartbeat", HttpMethod::Post, "/agents/heartbeat").takes(RequestSource::Body),
    EndpointSpec::new("discover", HttpMethod::Get, "/agents/").takes(RequestSource::QueryParams),
    EndpointSpec::new("status", HttpMethod::Get, "/agents/status").html(),
];

/// The parameters of a query that are credentials and no fields of cards.
const CREDENTIALS: [&str; 3] = ["api_key", "apikey", "token"];

/// The handler of a registry.
#[derive(Debug, Clone)]
pub struct RegistryHandler {
    registry: Registry,
    is_alone: bool,
}

impl RegistryHandler {
    /// Returns the handler of a registry beside an agent's.
    pub fn new(registry: Registry) -> Self {
        Self { registry, is_alone: false }
    }

    /// Returns the handler of a registry on a port of its own, where its page is at `/status` too.
    pub fn alone(registry: Registry) -> Self {
        Self { registry, is_alone: true }
    }
}

/// Returns the path of the endpoint that answers at a path, if any does.
fn endpoint_path(path: &str, is_alone: bool) -> Option<&'static str> {
    let known = REGISTRY_ENDPOINTS.iter().find(|endpoint| endpoint.path == path);
    match known {
        Some(endpoint) => Some(endpoint.path),
        None if is_alone && path == "/status" => Some("/agents/status"),
        None => None,
    }
}

impl HttpHandler for RegistryHandler {
    fn answer(&self, request: Request) -> BoxFuture<'static, Response> {
        let handler = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let is_head = parts.method == http::Method::HEAD;
            let mut response = match handler.answered(parts, body).await {
                Ok(response) => response,
                Err(problem) => problem.into_response(),
            };
            if is_head {
                *response.body_mut() = crate::handler::message::ResponseBody::Whole(bytes::Bytes::new());
            }
            response
        })
    }

    fn serves(&self, path: &str) -> bool {
        path == "/agents" || endpoint_path(path, self.is_alone).is_some()
    }
}

impl RegistryHandler {
    async fn answered(&self, parts: Parts, body: RequestBody) -> Result<Response, Problem> {
        let path = parts.uri.path();
        let Some(path) = endpoint_path(path, self.is_alone) else {
            if path == "/agents" {
                let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
                return Ok(respond::redirect(&format!("{}/agents/{query}", mounted_at(&parts.extensions))));
            }
            return Ok(respond::not_found());
        };
        let method = if parts.method == http::Method::HEAD { "GET" } else { parts.method.as_str() };
        let mut here = REGISTRY_ENDPOINTS.iter().filter(|endpoint| endpoint.path == path);
        let Some(endpoint) = here.find(|endpoint| endpoint.method.as_str() == method) else {
            return Ok(respond::method_not_allowed(allowed(path)));
        };
        let by = caller(&parts, if endpoint.method == HttpMethod::Get { Scope::Read } else { Scope::Run })?;
        if endpoint.content_type == EndpointContent::Html {
            return Ok(respond::page(page::status(&self.registry.alive().await?)));
        }
        let answer = match endpoint.name {
            "discover" => self.discover(parts.uri.query().unwrap_or_default()).await?,
            name => {
                let body = read_json(&parts.headers, body).await?;
                let body =
                    body.ok_or_else(|| Problem::malformed("the body is empty; it must be a JSON object"))?;
                self.changed(name, &body, &by).await?
            }
        };
        Ok(respond::json(StatusCode::OK, &answer))
    }

    /// Registers, unregisters or notes a heartbeat.
    async fn changed(&self, what: &str, body: &JsonText, by: &Principal) -> Result<JsonText, Problem> {
        let status = match what {
            "register" => {
                let card = AgentCard::from_json(body)
                    .map_err(|error| Problem::malformed(plain(&error.to_string())))?;
                self.registry.register(card, by).await?;
                "agent registered successfully"
            }
            "unregister" => {
                self.registry.unregister(&agent_url(body)?, by).await?;
                "agent unregistered successfully"
            }
            _ => {
                let is_known = self.registry.heartbeat(&agent_url(body)?).await?;
                if is_known { "agent heartbeat recorded" } else { "agent not found" }
            }
        };
        Ok(JsonText::from(json!({"status": status})))
    }

    async fn discover(&self, query: &str) -> Result<JsonText, Problem> {
        let asked = pairs(query).map_err(|error| Problem::malformed(error.to_string()))?;
        let fields = asked.into_iter().filter(|(field, _)| !CREDENTIALS.contains(&field.as_str()));
        let filter = fields.fold(AgentFilter::new(), |filter, (field, value)| filter.field(field, value));
        let found = self.registry.discover(&filter).await?;
        Ok(JsonText::of_model(&found.iter().map(|card| card.to_json()).collect::<Vec<_>>()))
    }
}

/// Returns the methods of a path, for the answer to another one.
fn allowed(path: &str) -> &'static str {
    match path {
        "/agents/" => "DELETE, GET, HEAD, POST",
        "/agents/heartbeat" => "POST",
        _ => "GET, HEAD",
    }
}

/// Returns the principal of a request: nobody where no credentials are asked for.
///
/// # Errors
/// [`Problem`] if the caller may not do this.
fn caller(parts: &Parts, scope: Scope) -> Result<Principal, Problem> {
    match parts.extensions.get::<Caller>() {
        None => Ok(Principal::default()),
        Some(caller) if caller.scopes.has(scope) => Ok(caller.principal.clone()),
        Some(_) => Err(Problem::forbidden("the credentials do not allow this request")),
    }
}

/// Returns the address in a body.
fn agent_url(body: &JsonText) -> Result<String, Problem> {
    let wrong = || Problem::malformed("the body must be a JSON object with the text `agent_url`");
    let fields: JsonObject = body.read().map_err(|_| wrong())?;
    fields.get("agent_url").and_then(JsonText::to_str).filter(|url| !url.is_empty()).ok_or_else(wrong)
}

/// Returns a text without the escapes by which Protolink makes words of its errors bold.
fn plain(text: &str) -> String {
    text.replace("\u{1b}[1m", "").replace("\u{1b}[22m", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_endpoint_is_sound_and_its_method_is_among_those_of_its_path() {
        for endpoint in REGISTRY_ENDPOINTS {
            assert_eq!(endpoint.check(), Ok(()));
            assert!(allowed(endpoint.path).contains(endpoint.method.as_str()), "{endpoint:?}");
        }
    }
}
