//! The agent's card, made of the agent: readable by clients of both versions.

use std::net::SocketAddr;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH, LAST_MODIFIED};
use http::uri::Authority;
use http::{HeaderMap, Response as HttpResponse, StatusCode};
use proto_events::id::Digest;
use proto_events::json::JsonText;
use proto_events::model::{AgentCard, AgentSkill};
use taskreel::System;

use crate::a2a::card_parts::card_cache::CachedCard;
use crate::a2a::card_parts::schemes;
use crate::a2a::mapping::EXTENSION;
use crate::a2a::settings::{A2aSettings, Extension};
use crate::a2a::version::Version;
use crate::a2a::wire::write::Members;
use crate::handler::message::{Response, ResponseBody};

/// The URI of the extension by which a stream continues from a place.
pub(crate) const RESUME: &str = "urn:taskreel:a2a:resume:v1";

/// The URI of the extension by which a message that comes twice under one `Idempotency-Key` is carried out once.
pub(crate) const ONCE: &str = "urn:taskreel:a2a:once:v1";

/// The time for which a client may keep a card.
const KEPT: &str = "public, max-age=60, must-revalidate";

/// The media types of messages and results. A part of any other type is taken as well.
const MODES: [&str; 3] = ["text/plain", "application/json", "*/*"];

/// Returns the public card of an agent at an address.
pub(crate) fn card(system: &System, url: &str, settings: &A2aSettings) -> CachedCard {
    cached_card(system, url, settings, true)
}

/// Returns the card at an address, public or for callers that are known.
pub(crate) fn cached_card(system: &System, url: &str, settings: &A2aSettings, is_public: bool) -> CachedCard {
    let card = build_card(system, url, settings, is_public);
    let sign = |card| match &settings.key {
        Some(key) => key.signed(card),
        None => card,
    };
    settings.kept.get_or_sign((url.to_owned(), is_public), card, sign)
}

fn build_card(system: &System, url: &str, settings: &A2aSettings, is_public: bool) -> JsonText {
    let mut own = system.card();
    if let Some(shown) = settings.public_skills.as_ref().filter(|_| is_public) {
        own.skills.retain(|skill| shown.contains(&skill.id));
    }
    let (is_1, is_03) = (settings.speaks(Version::V1), settings.speaks(Version::V03));
    let version = |protocol: &str, binding: &str| {
        let one = Members::default().text("url", url).text("protocolBinding", binding);
        one.text("protocolVersion", protocol).end()
    };
    let known = [
        (is_1, "1.0", "JSONRPC"),
        (is_1, "1.0", "HTTP+JSON"),
        (is_03, "0.3", "JSONRPC"),
        (is_03, "0.3", "HTTP+JSON"),
    ];
    let spoken = known.iter().filter(|(is_spoken, ..)| *is_spoken);
    let mut interfaces: Vec<JsonText> =
        spoken.map(|(_, protocol, binding)| version(protocol, binding)).collect();
    // Over gRPC alone the address of the others is not known.
    if url.is_empty() {
        interfaces.clear();
    }
    if let Some(address) = settings.grpc.get().filter(|_| is_1) {
        let one = Members::default().text("url", &reached(address, url)).text("protocolBinding", "GRPC");
        // No path names the agent there.
        let one = if system.agents().len() > 1 { one.text("tenant", system.agent_name()) } else { one };
        let at = interfaces.len().min(2);
        interfaces.insert(at, one.text("protocolVersion", "1.0").end());
    }
    let modes = |own: &[String]| {
        if own.is_empty() { MODES.iter().map(|mode| (*mode).to_owned()).collect() } else { own.to_vec() }
    };
    let members = Members::default()
        .text("name", &own.name)
        .text("description", if own.description.is_empty() { &own.name } else { &own.description })
        .text("version", &own.version)
        .list("supportedInterfaces", &interfaces)
        .json("capabilities", capabilities(settings))
        .texts("defaultInputModes", &modes(&settings.input_modes))
        .texts("defaultOutputModes", &modes(&settings.output_modes))
        .list("skills", &skills(&own));
    let members = if settings.is_secured() {
        schemes::add_schemes(members, &settings.schemes, is_1, is_03)
    } else {
        members
    };
    if !is_03 {
        return members.end();
    }
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
        .flag("supportsAuthenticatedExtendedCard", settings.is_secured())
        .end()
}

/// Returns the host and port of a server as clients reach it: a host that names none is the one of the card's address.
fn reached(address: &str, url: &str) -> String {
    let Ok(bound) = address.parse::<SocketAddr>() else { return address.to_owned() };
    let authority = url.split_once("://").map_or("", |(_, rest)| rest.split('/').next().unwrap_or_default());
    let host = match authority.parse::<Authority>() {
        Ok(authority) if bound.ip().is_unspecified() => authority.host().to_owned(),
        _ => return address.to_owned(),
    };
    format!("{host}:{}", bound.port())
}

fn capabilities(settings: &A2aSettings) -> JsonText {
    let written = |extension: &Extension| {
        let one = Members::default().text("uri", &extension.uri).text("description", &extension.description);
        // ProtoJSON leaves a false out, and what is signed has no defaults.
        let one = if extension.required { one.flag("required", true) } else { one };
        one.object("params", &extension.params).end()
    };
    let own = [
        Extension::new(EXTENSION, "What Protolink's tasks have beside A2A's, in metadata under this URI"),
        Extension::new(
            RESUME,
            "Streams continue after the event that `Last-Event-ID`, or `after` in the query, names; over gRPC the call's metadata names it, and an event's place is in its metadata under this URI",
        ),
        Extension::new(ONCE, "A message that comes twice under one `Idempotency-Key` is carried out once"),
    ];
    let known: Vec<JsonText> = own.iter().chain(&settings.extensions).map(written).collect();
    let members = Members::default()
        .flag("streaming", true)
        .flag("pushNotifications", settings.push.is_some())
        .flag("extendedAgentCard", settings.is_secured())
        .list("extensions", &known);
    if settings.speaks(Version::V03) {
        members.flag("stateTransitionHistory", false).end()
    } else {
        members.end()
    }
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

/// Returns the response with a card, or that the client's copy is the same.
pub(crate) fn response(kept: &CachedCard, headers: &HeaderMap) -> Response {
    let CachedCard { card, since, .. } = kept;
    let tag = format!("\"{}\"", Digest::compute(card.as_str().as_bytes()));
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
    let since = jiff::Timestamp::try_from(*since)
        .map(|since| since.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string());
    if let Some(since) = since.ok().and_then(|since| HeaderValue::from_str(&since).ok()) {
        headers.insert(LAST_MODIFIED, since);
    }
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(ETAG, tag);
    }
    response
}
