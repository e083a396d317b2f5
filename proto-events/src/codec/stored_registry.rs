//! Storage structs of the events of registries. A card is stored as its JSON text, which is its form on the wire.

use serde::{Deserialize, Serialize};

use crate::codec::error::CodecError;
use crate::codec::kind;
use crate::codec::storable::{Payload, Storable};
use crate::codec::upcast::{first_version, read, write};
use crate::id::Category;
use crate::json::JsonText;
use crate::model::AgentCard;
use crate::registry::RegistryEvent;

#[derive(Serialize, Deserialize)]
struct RegisteredV1 {
    url: String,
    card: String,
}

#[derive(Serialize, Deserialize)]
struct UnregisteredV1 {
    url: String,
}

#[derive(Serialize, Deserialize)]
struct ExpiredV1 {
    url: String,
    ttl_ms: u64,
}

first_version!(RegisteredV1, UnregisteredV1, ExpiredV1);

impl Storable for RegistryEvent {
    const CATEGORY: Category = Category::Registry;

    fn encode(&self) -> Result<Payload, CodecError> {
        match self {
            Self::Registered { card } => {
                let stored = RegisteredV1 { url: card.url.clone(), card: card.to_json().as_str().to_owned() };
                write(kind::AGENT_REGISTERED, &stored)
            }
            Self::Unregistered { url } => {
                write(kind::AGENT_UNREGISTERED, &UnregisteredV1 { url: url.clone() })
            }
            Self::Expired { url, ttl_ms } => {
                write(kind::AGENT_EXPIRED, &ExpiredV1 { url: url.clone(), ttl_ms: *ttl_ms })
            }
        }
    }

    fn decode(kind: u16, schema: u8, body: &[u8]) -> Result<Self, CodecError> {
        Ok(match kind {
            kind::AGENT_REGISTERED => {
                let RegisteredV1 { url, card } = read(kind, schema, body)?;
                let card = card_of(&url, &card).map_err(|why| CodecError::Damaged { kind, why })?;
                Self::Registered { card: Box::new(card) }
            }
            kind::AGENT_UNREGISTERED => {
                let UnregisteredV1 { url } = read(kind, schema, body)?;
                Self::Unregistered { url }
            }
            kind::AGENT_EXPIRED => {
                let ExpiredV1 { url, ttl_ms } = read(kind, schema, body)?;
                Self::Expired { url, ttl_ms }
            }
            _ => return Err(CodecError::UnknownKind { kind, category: Self::CATEGORY.as_str() }),
        })
    }
}

/// Reads a card, which must have the address under which it was registered.
fn card_of(url: &str, card: &str) -> Result<AgentCard, String> {
    let text = JsonText::parse_stored(card).map_err(|error| error.to_string())?;
    let card = AgentCard::from_json(&text).map_err(|error| error.to_string())?;
    if card.url == url { Ok(card) } else { Err(format!("the card of {url} has the address {}", card.url)) }
}
