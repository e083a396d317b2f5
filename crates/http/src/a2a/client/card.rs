//! The card of an agent as the client reads it, in the forms of both versions, and the ways to the agent that it names.

use proto_events::json::JsonText;

use crate::a2a::card::{ONCE, RESUME};
use crate::a2a::client::error::A2aError;
use crate::a2a::mapping::EXTENSION;
use crate::a2a::version::{Version, of_text};
use crate::a2a::wire::fields::{Invalid, WireFields};
use crate::client::exchange::origin;

/// The most interfaces of a card that are read.
const INTERFACES_MAX: usize = 64;

/// The most extensions of a card that are kept.
const EXTENSIONS_MAX: usize = 256;

/// The most skills of a card that are read.
const SKILLS_MAX: usize = 1_000;

/// The place of a card under an agent's address.
const PLACE: &str = "/.well-known/agent-card.json";

/// The place of cards before 0.3, at which some agents still have theirs.
pub(crate) const OLDER_PLACE: &str = "/.well-known/agent.json";

/// A way of writing requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Binding {
    /// JSON-RPC.
    JsonRpc,
    /// REST, which A2A names HTTP+JSON.
    HttpJson,
}

impl Binding {
    /// Returns the binding that A2A names so; capitals do not count.
    pub fn of_word(word: &str) -> Option<Self> {
        match word.to_ascii_uppercase().as_str() {
            "JSONRPC" => Some(Self::JsonRpc),
            "HTTP+JSON" => Some(Self::HttpJson),
            _ => None,
        }
    }

    /// Returns the name that A2A has for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::JsonRpc => "JSONRPC",
            Self::HttpJson => "HTTP+JSON",
        }
    }
}

/// A way to an agent: an address, and what is spoken there.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Interface {
    /// The address.
    pub url: String,
    /// The binding.
    pub binding: Binding,
    /// The version.
    pub version: Version,
    /// The tenant that requests name, where the server has several.
    pub tenant: Option<String>,
}

impl Interface {
    /// Returns a way that no card names.
    pub fn new(url: &str, binding: Binding, version: Version) -> Self {
        Self { url: url.to_owned(), binding, version, tenant: None }
    }

    /// Sets the tenant.
    #[must_use]
    pub fn tenant(self, tenant: &str) -> Self {
        Self { tenant: Some(tenant.to_owned()), ..self }
    }
}

/// A skill of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Skill {
    /// The id.
    pub id: String,
    /// The name for people.
    pub name: String,
    /// The description.
    pub description: String,
    /// The tags.
    pub tags: Vec<String>,
}

/// The card of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Card {
    /// The name.
    pub name: String,
    /// The description.
    pub description: String,
    /// The agent's own version.
    pub version: String,
    /// The ways to the agent that this client can go, interfaces of 1.0 first and otherwise in the card's order.
    pub interfaces: Vec<Interface>,
    /// Whether the agent streams.
    pub streaming: bool,
    /// Whether its streams continue after the event that a client names, by the extension `urn:taskreel:a2a:resume:v1`.
    pub resumes: bool,
    /// The URIs of the extensions that the agent declares.
    pub extensions: Vec<String>,
    /// The skills.
    pub skills: Vec<Skill>,
    /// The whole card.
    pub json: JsonText,
    /// The interfaces that cannot be used, and why.
    pub unusable: Vec<String>,
}

/// Returns the address of the card of an agent at an address, which may be that of the card itself.
pub(crate) fn place_of(url: &str) -> String {
    let is_card = url.contains("/.well-known/")
        || std::path::Path::new(url).extension().is_some_and(|end| end.eq_ignore_ascii_case("json"));
    if is_card { url.to_owned() } else { format!("{}{PLACE}", url.trim_end_matches('/')) }
}

/// Whether JSON at the [older place](OLDER_PLACE) is not a card of A2A: Protolink has a card of its own there, which names the
/// transport.
pub(crate) fn is_protolinks(json: &JsonText) -> bool {
    WireFields::new(json, "").is_ok_and(|card| card.get("transport").is_some())
}

impl Card {
    /// Whether the agent carries out once what comes twice under one `Idempotency-Key`, by the extension
    /// `urn:taskreel:a2a:once:v1`.
    pub fn sends_once(&self) -> bool {
        self.extensions.iter().any(|uri| uri == ONCE)
    }

    /// Whether the agent's tasks are told without loss, by the extension `urn:taskreel:a2a:protolink:v1`.
    pub(crate) fn is_lossless(&self) -> bool {
        self.extensions.iter().any(|uri| uri == EXTENSION)
    }

    /// Reads a card, which came from an address.
    ///
    /// # Errors
    /// [`A2aError::Card`] if it is not a card, or names no interface that this client can use.
    pub fn read(json: &JsonText, url: &str) -> Result<Self, A2aError> {
        let wrong = |why: String| A2aError::Card { url: url.to_owned(), why };
        let card = read(json).map_err(|invalid| wrong(invalid.to_string()))?;
        if card.interfaces.is_empty() {
            let why = if card.unusable.is_empty() {
                "it names no interface".to_owned()
            } else {
                format!("it names no interface that this client can use: {}", card.unusable.join("; "))
            };
            return Err(wrong(why));
        }
        Ok(card)
    }
}

fn read(json: &JsonText) -> Result<Card, Invalid> {
    let fields = WireFields::new(json, "card")?;
    let (mut interfaces, mut unusable) = (Vec::new(), Vec::new());
    for (url, binding, version, tenant) in named(&fields)?.into_iter().take(INTERFACES_MAX) {
        match usable(&url, &binding, &version) {
            Ok((binding, version)) => {
                let one = Interface { url, binding, version, tenant };
                let is_known = |known: &Interface| {
                    (&known.url, known.binding, known.version) == (&one.url, one.binding, one.version)
                };
                if !interfaces.iter().any(is_known) {
                    interfaces.push(one);
                }
            }
            Err(why) => unusable.push(why),
        }
    }
    // The order of the card within a version is kept.
    interfaces.sort_by_key(|one| one.version == Version::V03);
    let capabilities = fields.inner("capabilities")?;
    let uris = |capabilities: &WireFields| {
        capabilities.items("extensions", |json, at| WireFields::new(json, at)?.text("uri"))
    };
    let uris = capabilities.as_ref().map(uris).transpose()?.unwrap_or_default();
    let streaming = capabilities.as_ref().map(|known| known.flag("streaming")).transpose()?.flatten();
    Ok(Card {
        name: fields.needed("name")?,
        description: fields.text("description")?.unwrap_or_default(),
        version: fields.text("version")?.unwrap_or_default(),
        interfaces,
        streaming: streaming.unwrap_or(false),
        resumes: uris.iter().flatten().any(|uri| uri == RESUME),
        extensions: uris.into_iter().flatten().take(EXTENSIONS_MAX).collect(),
        // An agent may be asked though its skills cannot be read.
        skills: skills(&fields).unwrap_or_default(),
        json: json.clone(),
        unusable,
    })
}

/// Returns the skills, as far as they are named.
fn skills(fields: &WireFields) -> Result<Vec<Skill>, Invalid> {
    let skills = fields.items("skills", |json, at| {
        let one = WireFields::new(json, at)?;
        let Some(id) = one.word("id")? else { return Ok(None) };
        let name = one.text("name")?.unwrap_or_else(|| id.clone());
        let description = one.text("description")?.unwrap_or_default();
        let tags = one.get("tags").and_then(|tags| tags.read().ok()).unwrap_or_default();
        Ok(Some(Skill { id, name, description, tags }))
    })?;
    Ok(skills.into_iter().flatten().take(SKILLS_MAX).collect())
}

/// An interface as a card names it: address, binding, version and tenant.
type Named = (String, String, String, Option<String>);

/// Returns the interfaces in the form of 1.0, and then those in the form of 0.3.
fn named(fields: &WireFields) -> Result<Vec<Named>, Invalid> {
    let mut named = fields.items("supportedInterfaces", |json, at| {
        let one = WireFields::new(json, at)?;
        let version = one.word("protocolVersion")?.unwrap_or_else(|| "1.0".to_owned());
        Ok((one.needed("url")?, one.needed("protocolBinding")?, version, one.word("tenant")?))
    })?;
    let Some(url) = fields.word("url")? else { return Ok(named) };
    let version = fields.word("protocolVersion")?.unwrap_or_else(|| "0.3".to_owned());
    let preferred = fields.word("preferredTransport")?.unwrap_or_else(|| "JSONRPC".to_owned());
    named.push((url, preferred, version.clone(), None));
    let others = fields.items("additionalInterfaces", |json, at| {
        let one = WireFields::new(json, at)?;
        Ok((one.needed("url")?, one.needed("transport")?, version.clone(), None))
    })?;
    named.extend(others);
    Ok(named)
}

/// Returns what is spoken at an address, or why it cannot be used.
fn usable(url: &str, binding: &str, version: &str) -> Result<(Binding, Version), String> {
    let shown = |text: &str| text.chars().take(40).collect::<String>();
    let spoken = Binding::of_word(binding);
    let spoken = spoken.ok_or_else(|| format!("the binding {} is not spoken here", shown(binding)))?;
    let version =
        of_text(version).ok_or_else(|| format!("the version {} is not spoken here", shown(version)))?;
    origin(url).map_err(|error| error.to_string())?;
    Ok((spoken, version))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Card, A2aError> {
        Card::read(&JsonText::parse(text).unwrap(), "http://h")
    }

    #[test]
    fn the_order_of_a_card_counts_within_a_version_and_what_is_not_spoken_is_passed_over() {
        let card = of(r#"{"name":"n","supportedInterfaces":[
            {"url":"http://h/old","protocolBinding":"JSONRPC","protocolVersion":"0.3"},
            {"url":"h:50051","protocolBinding":"GRPC","protocolVersion":"1.0"},
            {"url":"http://h/new","protocolBinding":"JSONRPC","protocolVersion":"9.0"},
            {"url":"ftp://h","protocolBinding":"JSONRPC","protocolVersion":"1.0"},
            {"url":"http://h/rest","protocolBinding":"HTTP+JSON","protocolVersion":"1.0","tenant":"t"},
            {"url":"http://h/rpc","protocolBinding":"JSONRPC","protocolVersion":"1.0.1"}]}"#)
        .unwrap();
        let urls: Vec<&str> = card.interfaces.iter().map(|one| one.url.as_str()).collect();
        assert_eq!(urls, ["http://h/rest", "http://h/rpc", "http://h/old"]);
        assert_eq!((card.unusable.len(), card.interfaces[0].tenant.as_deref()), (3, Some("t")));
        assert!(!card.streaming && !card.resumes);
    }

    #[test]
    fn a_card_of_0_3_names_its_preferred_transport_first() {
        let card = of(r#"{"name":"n","protocolVersion":"0.3.0","url":"http://h/a","preferredTransport":"HTTP+JSON",
            "additionalInterfaces":[{"url":"http://h/a","transport":"HTTP+JSON"},{"url":"http://h/b","transport":"JSONRPC"}],
            "capabilities":{"streaming":true,"extensions":[{"uri":"urn:taskreel:a2a:resume:v1"}]}}"#)
        .unwrap();
        let ways: Vec<_> = card.interfaces.iter().map(|one| (one.url.as_str(), one.binding)).collect();
        assert_eq!(ways, [("http://h/a", Binding::HttpJson), ("http://h/b", Binding::JsonRpc)]);
        assert!(card.streaming && card.resumes);
        assert!(of(r#"{"name":"n","protocolVersion":"0.2.5","url":"http://h/a"}"#).is_err());
    }

    #[test]
    fn what_is_no_card_is_refused() {
        for wrong in [
            "[]",
            "{}",
            r#"{"name":"n"}"#,
            r#"{"name":"n","supportedInterfaces":[]}"#,
            r#"{"name":"n","supportedInterfaces":{}}"#,
            r#"{"name":"n","supportedInterfaces":[{"protocolBinding":"JSONRPC"}]}"#,
            r#"{"name":"n","supportedInterfaces":[{"url":"h:1","protocolBinding":"GRPC"}]}"#,
            r#"{"name":5,"url":"http://h"}"#,
        ] {
            assert!(matches!(of(wrong), Err(A2aError::Card { .. })), "{wrong}");
        }
        assert_eq!(place_of("http://h/a/"), "http://h/a/.well-known/agent-card.json");
        for full in ["http://h/.well-known/agent-card.json", "http://h/cards/a.json"] {
            assert_eq!(place_of(full), full);
        }
    }
}
