//! The agent's card, made of the agent: readable by clients of both versions.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH};
use http::{HeaderMap, Response as HttpResponse, StatusCode};
use proto_events::id::Digest;
use proto_events::json::JsonText;
use proto_events::model::{AgentCard, AgentSkill};
use taskreel::System;

use crate::a2a::asking::{Asking, Settings};
use crate::a2a::failure::{Failure, Kind};
use crate::a2a::mapping::EXTENSION;
use crate::a2a::wire::Form;
use crate::a2a::wire::write::Members;
use crate::face::message::{Response, ResponseBody};

/// The URI of the extension by which a stream continues from a place.
pub(crate) const RESUME: &str = "urn:taskreel:a2a:resume:v1";

/// The time for which a client may keep a card.
const KEPT: &str = "public, max-age=60, must-revalidate";

/// The media types of messages and results. A part of any other type is taken as well.
const MODES: [&str; 3] = ["text/plain", "application/json", "*/*"];

/// Returns the card of an agent at an address.
pub(crate) fn card(system: &System, url: &str, settings: &Settings) -> JsonText {
    let own = system.card();
    let version = |protocol: &str, binding: &str| {
        let one = Members::default().text("url", url).text("protocolBinding", binding);
        one.text("protocolVersion", protocol).end()
    };
    let interfaces = [
        version("1.0", "JSONRPC"),
        version("1.0", "HTTP+JSON"),
        version("0.3", "JSONRPC"),
        version("0.3", "HTTP+JSON"),
    ];
    let modes: Vec<String> = MODES.iter().map(|mode| (*mode).to_owned()).collect();
    let members = Members::default()
        .text("name", &own.name)
        .text("description", &own.description)
        .text("version", &own.version)
        .list("supportedInterfaces", &interfaces)
        .json("capabilities", capabilities(settings))
        .texts("defaultInputModes", &modes)
        .texts("defaultOutputModes", &modes)
        .list("skills", &skills(&own));
    let members = if settings.is_secured { secured(members) } else { members };
    // What only 0.3 reads.
    members
        .text("protocolVersion", "0.3.0")
        .text("url", url)
        .text("preferredTransport", "JSONRPC")
        .list(
            "additionalInterfaces",
            &[
                Members::default().text("url", url).text("transport", "JSONRPC").end(),
                Members::default().text("url", url).text("transport", "HTTP+JSON").end(),
            ],
        )
        .flag("supportsAuthenticatedExtendedCard", settings.is_secured)
        .end()
}

fn capabilities(settings: &Settings) -> JsonText {
    let extension = |uri: &str, description: &str| {
        let one = Members::default().text("uri", uri).text("description", description);
        one.flag("required", false).end()
    };
    let known = [
        extension(EXTENSION, "What Protolink's tasks have beside A2A's, in metadata under this URI"),
        extension(
            RESUME,
            "Streams continue after the event that `Last-Event-ID`, or `after` in the query, names",
        ),
    ];
    Members::default()
        .flag("streaming", true)
        .flag("pushNotifications", settings.push.is_some())
        .flag("extendedAgentCard", settings.is_secured)
        .list("extensions", &known)
        .flag("stateTransitionHistory", false)
        .end()
}

/// Returns the skills, which each have a tag; an agent without one has a skill of its own name.
fn skills(own: &AgentCard) -> Vec<JsonText> {
    let skill = |id: &str, description: &str, tags: &[String], usual: &str| {
        let usual = [usual.to_owned()];
        let described = if description.is_empty() { id } else { description };
        let one = Members::default().text("id", id).text("name", id).text("description", described);
        one.texts("tags", if tags.is_empty() { &usual } else { tags }).end()
    };
    if own.skills.is_empty() {
        return vec![skill(&own.name, &own.description, &own.tags, "agent")];
    }
    let of = |one: &AgentSkill| skill(&one.id, &one.description, &one.tags, "tool");
    own.skills.iter().map(of).collect()
}

/// Adds the schemes of a server that checks credentials, each in the form of both versions.
fn secured(members: Members) -> Members {
    let bearer = Members::default().text("scheme", "Bearer").end();
    let bearer = Members::default()
        .text("type", "http")
        .text("scheme", "bearer")
        .json("httpAuthSecurityScheme", bearer);
    let key = Members::default().text("location", "header").text("name", "X-API-Key").end();
    let key = Members::default()
        .text("type", "apiKey")
        .text("in", "header")
        .text("name", "X-API-Key")
        .json("apiKeySecurityScheme", key);
    let schemes = Members::default().json("bearer", bearer.end()).json("apiKey", key.end()).end();
    let none: [JsonText; 0] = [];
    let none = || JsonText::of_model(&none);
    let of_1 = |name: &str| {
        let list = Members::default().json("list", none()).end();
        Members::default().json("schemes", Members::default().json(name, list).end()).end()
    };
    let of_03 = |name: &str| Members::default().json(name, none()).end();
    members
        .json("securitySchemes", schemes)
        .list("securityRequirements", &[of_1("bearer"), of_1("apiKey")])
        .list("security", &[of_03("bearer"), of_03("apiKey")])
}

/// Returns the card for callers that are known.
pub(crate) fn extended(asking: &Asking) -> Result<JsonText, Failure> {
    if !asking.settings.is_secured {
        let kind = match asking.form {
            Form::V1 => Kind::UnsupportedOperation,
            Form::V03 | Form::Rest03 => Kind::ExtendedAgentCardNotConfigured,
        };
        return Err(Failure::new(kind, "this agent has no extended card"));
    }
    Ok(card(&asking.system, &asking.url, &asking.settings))
}

/// Returns the response with a card, or that the client's copy is the same.
pub(crate) fn response(card: &JsonText, headers: &HeaderMap) -> Response {
    let tag = format!("\"{}\"", Digest::of(card.as_str().as_bytes()));
    let is_known = headers.get(IF_NONE_MATCH).and_then(|tags| tags.to_str().ok()).is_some_and(|tags| {
        let tags = tags.split(',').map(|tag| tag.trim().trim_start_matches("W/"));
        tags.into_iter().any(|known| known == tag || known == "*")
    });
    let body = if is_known { Bytes::new() } else { Bytes::from(card.as_str().to_owned()) };
    let mut response = HttpResponse::new(ResponseBody::Whole(body));
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(KEPT));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(ETAG, tag);
    }
    response
}
