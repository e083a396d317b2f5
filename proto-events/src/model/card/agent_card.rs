//! The card of an agent: its name, its address, what it can do.

use serde::Serialize;

use crate::id::check_id;
use crate::json::{JsonObject, JsonText};
use crate::model::card::capabilities::AgentCapabilities;
use crate::model::card::kinds::{AgentRole, MimeType, SecuritySchemeType, TransportType};
use crate::model::card::skill::AgentSkill;
use crate::model::error::ModelError;
use crate::model::fields::{ModelFields, models, string};
use crate::model::python;

/// The version of the protocol that a card names where it names none: that of the Protolink which is followed here.
pub const PROTOCOL_VERSION: &str = "0.6.4";

/// The most bytes of the address in a card that is registered.
pub const CARD_URL_BYTES_MAX: usize = 2_048;

/// The card of an agent.
///
/// On the wire an object of the fields below in their order; `protocol_version`, `input_formats`, `output_formats` and
/// `security_schemes` are written in camel case there, as `protocolVersion` and so on. Unknown keys are dropped. Unlike
/// Protolink's, the card keeps its `role`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AgentCard {
    /// The name by which other agents ask for this one.
    pub name: String,
    /// The description for people and models.
    pub description: String,
    /// The address of the agent.
    pub url: String,
    /// The transport under the address; any name.
    pub transport: TransportType,
    /// The version of the agent.
    pub version: String,
    /// The version of the protocol.
    #[serde(rename = "protocolVersion")]
    pub protocol_version: String,
    /// The capabilities of the agent.
    pub capabilities: AgentCapabilities,
    /// The skills, in the order in which they were declared.
    pub skills: Vec<AgentSkill>,
    /// The formats that the agent reads.
    #[serde(rename = "inputFormats")]
    pub input_formats: Vec<MimeType>,
    /// The formats that the agent writes.
    #[serde(rename = "outputFormats")]
    pub output_formats: Vec<MimeType>,
    /// The kinds of authentication, each with its details; a posted null stays null.
    #[serde(rename = "securitySchemes")]
    pub security_schemes: Option<JsonObject>,
    /// The tags by which the agent is found.
    pub tags: Vec<String>,
    /// The place of the agent among others.
    pub role: AgentRole,
}

impl AgentCard {
    /// Returns a card with a name, a description and an address; all else is the default.
    pub fn new(name: impl Into<String>, description: impl Into<String>, url: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            url: url.into(),
            transport: TransportType::Http,
            version: "1.0.0".to_owned(),
            protocol_version: PROTOCOL_VERSION.to_owned(),
            capabilities: AgentCapabilities::default(),
            skills: Vec::new(),
            input_formats: vec![MimeType::TextPlain],
            output_formats: vec![MimeType::TextPlain],
            security_schemes: Some(JsonObject::new()),
            tags: Vec::new(),
            role: AgentRole::Worker,
        }
    }

    /// Reads a card.
    ///
    /// # Errors
    /// [`ModelError`], in Protolink's words if name, description or address is absent or empty; else naming the field.
    pub fn from_json(json: &JsonText) -> Result<Self, ModelError> {
        let fields = ModelFields::from_json(json)?;
        let needed = |key: &str, why: &str| match fields.truthy(key) {
            Some(value) => string(key, value),
            None => Err(ModelError::Invalid(missing(key, why))),
        };
        let name = needed("name", "The agent must have a unique name for identification.")?;
        let description = needed("description", DESCRIPTION_NEEDED)?;
        let card = Self::new(name, description, needed("url", URL_NEEDED)?);
        let text = |key: &str, default: String| fields.coerced_truthy(key).unwrap_or(default);
        let formats = |key: &str, default: Vec<MimeType>| match fields.get(key) {
            Some(value) if !value.is_null() => {
                Ok(fields.texts(key)?.iter().map(|name| MimeType::of(name)).collect())
            }
            _ => Ok::<_, ModelError>(default),
        };
        let security_schemes = match fields.get("securitySchemes") {
            Some(value) if value.is_null() => None,
            _ => Some(fields.object("securitySchemes")?),
        };
        Ok(Self {
            transport: TransportType::of(&text("transport", card.transport.to_string())),
            version: text("version", card.version),
            protocol_version: text("protocolVersion", card.protocol_version),
            capabilities: AgentCapabilities::from_json(&fields.any("capabilities"))
                .map_err(|error| error.within("capabilities"))?,
            skills: models("skills", &fields.optional_list("skills")?, AgentSkill::from_json)?,
            input_formats: formats("inputFormats", card.input_formats)?,
            output_formats: formats("outputFormats", card.output_formats)?,
            security_schemes,
            tags: fields.texts("tags")?,
            role: AgentRole::of(&text("role", card.role.to_string())),
            name: card.name,
            description: card.description,
            url: card.url,
        })
    }

    /// Returns the card as Protolink writes it, with its role at the end.
    pub fn to_json(&self) -> JsonText {
        JsonText::of_model(self)
    }

    /// Iterates over the kinds of authentication that the card names, with their details.
    pub fn schemes(&self) -> impl Iterator<Item = (SecuritySchemeType, &JsonText)> {
        let named = self.security_schemes.iter().flat_map(JsonObject::iter);
        named.map(|(name, details)| (SecuritySchemeType::of(name), details))
    }

    /// Returns the skill of this name; the first one where several bear it, as in Protolink.
    pub fn skill(&self, id: &str) -> Option<&AgentSkill> {
        self.skills.iter().find(|skill| skill.id == id)
    }

    /// Checks what a card must hold in order to be registered: the texts that Protolink's validator asks for, a name
    /// that can be an agent's, and an address with a scheme and a host.
    ///
    /// # Errors
    /// [`ModelError::Invalid`] for the first violation; in Protolink's words where it has some.
    pub fn check(&self) -> Result<(), ModelError> {
        let texts = [
            (&self.name, "Agent name"),
            (&self.description, "Agent description"),
            (&self.url, "Agent URL"),
            (&self.version, "Agent version"),
            (&self.protocol_version, "Agent protocol version"),
        ];
        if let Some((_, what)) = texts.into_iter().find(|(text, _)| text.is_empty()) {
            return Err(ModelError::Invalid(format!("{what} is required and must be a string")));
        }
        check_id(&self.name).map_err(|error| ModelError::Invalid(format!("Agent name: {error}")))?;
        check_url(&self.url)?;
        match self.skills.iter().find(|skill| skill.id.is_empty()) {
            Some(_) => Err(ModelError::Invalid("Agent skill id is required and must be a string".to_owned())),
            None => Ok(()),
        }
    }
}

const DESCRIPTION_NEEDED: &str = "A description is required so other agents can identify what this agent does and how \
                                  to interact with it.";

const URL_NEEDED: &str = "An agent cannot register to a registry or use the underlying transport layer without a valid \
                          URL endpoint.";

/// Returns Protolink's text for an absent field, which it prints in bold.
fn missing(key: &str, why: &str) -> String {
    format!("\u{1b}[1mAgentCard\u{1b}[22m :: Missing required field \u{1b}[1m{key}\u{1b}[22m. {why}")
}

/// Checks an address: a scheme, `://`, a host, nothing that is not a part of an address.
fn check_url(url: &str) -> Result<(), ModelError> {
    let wrong =
        |why: &str| Err(ModelError::Invalid(format!("Agent URL {why}: {}", python::repr_str(&shown(url)))));
    if url.len() > CARD_URL_BYTES_MAX {
        return wrong(&format!("has more than {CARD_URL_BYTES_MAX} bytes"));
    }
    if url.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return wrong("has spaces or control characters");
    }
    let Some((scheme, rest)) = url.split_once("://") else {
        return wrong("has no scheme such as http://");
    };
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return wrong("holds credentials");
    }
    if is_scheme && !authority.is_empty() { Ok(()) } else { wrong("has no scheme or no host") }
}

/// Returns the beginning of a text, for a message.
fn shown(text: &str) -> String {
    text.chars().take(80).collect()
}
