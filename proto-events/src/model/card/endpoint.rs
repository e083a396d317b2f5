//! Endpoints: the routes of a server and the requests of its clients, as data. The code behind a route is its
//! server's; what stands here is what a router, a client and a description of an interface need.

use serde::Serialize;

use crate::json::JsonText;
use crate::model::error::ModelError;

/// A method of HTTP that an endpoint may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum HttpMethod {
    /// Reads.
    Get,
    /// Sends something to be done.
    Post,
    /// Removes.
    Delete,
    /// Replaces.
    Put,
    /// Changes.
    Patch,
}

impl HttpMethod {
    /// Returns the method as it stands in a request.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Delete => "DELETE",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
        }
    }
}

/// The form of an endpoint's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EndpointContent {
    /// JSON.
    #[default]
    Json,
    /// A page for people.
    Html,
}

/// The way in which an endpoint answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EndpointMode {
    /// A single answer.
    #[default]
    RequestResponse,
    /// A stream of events.
    Stream,
}

/// The place in a request from which an endpoint takes its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestSource {
    /// No place: the endpoint takes no input.
    #[default]
    None,
    /// The body, as JSON.
    Body,
    /// The query.
    QueryParams,
    /// The body, as a form.
    Form,
    /// The headers.
    Headers,
    /// The variable segments of the path.
    PathParams,
    /// The whole request.
    Request,
}

/// An endpoint of a server: Protolink's `EndpointSpec` without its functions.
///
/// As JSON `{"name", "path", "method", "content_type", "streaming", "mode", "request_source"}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct EndpointSpec {
    /// The name of the operation.
    pub name: &'static str,
    /// The path, from the root of the server or of the agent.
    pub path: &'static str,
    /// The method.
    pub method: HttpMethod,
    /// The form of the answer.
    pub content_type: EndpointContent,
    /// Whether the answer is a stream.
    pub streaming: bool,
    /// The way of answering; a stream where [`EndpointSpec::streaming`] is set.
    pub mode: EndpointMode,
    /// The place of the input.
    pub request_source: RequestSource,
}

impl EndpointSpec {
    /// Returns an endpoint that answers with JSON and takes no input.
    pub const fn new(name: &'static str, method: HttpMethod, path: &'static str) -> Self {
        Self {
            name,
            path,
            method,
            content_type: EndpointContent::Json,
            streaming: false,
            mode: EndpointMode::RequestResponse,
            request_source: RequestSource::None,
        }
    }

    /// Returns the endpoint with this place of input.
    #[must_use]
    pub const fn takes(self, request_source: RequestSource) -> Self {
        Self { request_source, ..self }
    }

    /// Returns the endpoint with a page as its answer.
    #[must_use]
    pub const fn html(self) -> Self {
        Self { content_type: EndpointContent::Html, ..self }
    }

    /// Returns the endpoint with a stream as its answer.
    #[must_use]
    pub const fn stream(self) -> Self {
        Self { streaming: true, mode: EndpointMode::Stream, ..self }
    }

    /// Checks that the endpoint contradicts itself nowhere: it has a name, its path is one from the root, a body is
    /// sent by a method that has one, and a stream is one in both of its fields and is not a page.
    ///
    /// # Errors
    /// [`ModelError::Invalid`] for the first violation, naming the endpoint.
    pub fn check(&self) -> Result<(), ModelError> {
        let has_body = matches!(self.request_source, RequestSource::Body | RequestSource::Form);
        let is_plain = |c: char| c.is_ascii_graphic() && !matches!(c, '?' | '#' | '%' | '\\');
        let is_stream = self.mode == EndpointMode::Stream;
        let rules = [
            (!self.name.is_empty(), "has no name"),
            (
                self.path.starts_with('/') && self.path.chars().all(is_plain),
                "has a path that is none from the root",
            ),
            (!has_body || self.method != HttpMethod::Get, "takes a body with a method that sends none"),
            (self.streaming == is_stream, "is a stream in one of its fields only"),
            (!is_stream || self.content_type == EndpointContent::Json, "streams a page"),
        ];
        match rules.into_iter().find(|(holds, _)| !holds) {
            Some((_, why)) => {
                Err(ModelError::Invalid(format!("endpoint `{} {}` {why}", self.method.as_str(), self.path)))
            }
            None => Ok(()),
        }
    }

    /// Returns the endpoint as JSON.
    pub fn to_json(&self) -> JsonText {
        JsonText::of_model(self)
    }
}

/// A request of a client: Protolink's `ClientRequestSpec` without its functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ClientRequestSpec {
    /// The name of the operation.
    pub name: &'static str,
    /// The path, from the agent's or registry's address.
    pub path: &'static str,
    /// The method.
    pub method: HttpMethod,
    /// The place of the input.
    pub request_source: RequestSource,
}

impl ClientRequestSpec {
    /// Returns a request with a JSON body.
    pub const fn with_body(name: &'static str, method: HttpMethod, path: &'static str) -> Self {
        Self { name, path, method, request_source: RequestSource::Body }
    }

    /// Returns a request that only reads.
    pub const fn reading(name: &'static str, path: &'static str, request_source: RequestSource) -> Self {
        Self { name, path, method: HttpMethod::Get, request_source }
    }

    /// Whether the endpoint answers this request: path, method and place of input are its own.
    pub fn fits(&self, endpoint: &EndpointSpec) -> bool {
        self.path == endpoint.path
            && self.method == endpoint.method
            && self.request_source == endpoint.request_source
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_that_contradicts_itself_is_refused_by_name() {
        let base = EndpointSpec::new("tasks", HttpMethod::Post, "/tasks/").takes(RequestSource::Body);
        assert_eq!(base.check(), Ok(()));
        assert_eq!(base.stream().check(), Ok(()));
        for wrong in [
            EndpointSpec { name: "", ..base },
            EndpointSpec { path: "tasks", ..base },
            EndpointSpec { path: "/a b", ..base },
            EndpointSpec { path: "/a?b", ..base },
            EndpointSpec { method: HttpMethod::Get, ..base },
            EndpointSpec { streaming: true, ..base },
            EndpointSpec { mode: EndpointMode::Stream, ..base },
            base.stream().html(),
        ] {
            let said = wrong.check().unwrap_err().to_string();
            assert!(said.contains(wrong.method.as_str()) && said.contains(wrong.path), "{said}");
        }
        let json = base.stream().to_json();
        assert_eq!(
            json.as_str(),
            r#"{"name":"tasks","path":"/tasks/","method":"POST","content_type":"json","streaming":true,"mode":"stream","request_source":"body"}"#
        );
    }
}
