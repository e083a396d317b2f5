//! Filters of discovery: fields of a card that must be equal to what is asked for.

use proto_events::model::AgentCard;

/// A filter of agents. Every field that it names must be equal; a field that no card has fits none, as in Protolink.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentFilter {
    fields: Vec<(String, String)>,
}

impl AgentFilter {
    /// Returns a filter that every agent fits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks for agents of this name.
    #[must_use]
    pub fn name(self, name: impl Into<String>) -> Self {
        self.field("name", name)
    }

    /// Asks for agents of this role.
    #[must_use]
    pub fn role(self, role: impl Into<String>) -> Self {
        self.field("role", role)
    }

    /// Asks for agents with this tag, beside those asked for already.
    #[must_use]
    pub fn tag(self, tag: impl Into<String>) -> Self {
        self.field("tags", tag)
    }

    /// Asks for agents in whose cards this field has this value. The fields bear Protolink's names: `name`,
    /// `description`, `url`, `transport`, `version`, `protocol_version`, `role`, and `tags` for one of the tags.
    #[must_use]
    pub fn field(mut self, field: impl Into<String>, value: impl Into<String>) -> Self {
        self.fields.push((field.into(), value.into()));
        self
    }

    /// Iterates over the fields and the values that are asked for.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        self.fields.iter().map(|(field, value)| (field.as_str(), value.as_str()))
    }

    /// Whether a card fits.
    pub fn fits(&self, card: &AgentCard) -> bool {
        self.fields().all(|(field, value)| {
            let of_card = match field {
                "name" => &card.name,
                "description" => &card.description,
                "url" => &card.url,
                "transport" => card.transport.as_str(),
                "version" => &card.version,
                "protocol_version" => &card.protocol_version,
                "role" => card.role.as_str(),
                "tags" => return card.tags.iter().any(|tag| tag == value),
                _ => return false,
            };
            of_card == value
        })
    }
}

#[cfg(test)]
mod tests {
    use proto_events::model::AgentRole;

    use super::*;

    #[test]
    fn every_field_must_be_equal_and_every_tag_be_there() {
        let card = AgentCard {
            tags: vec!["a".to_owned(), "b".to_owned()],
            role: AgentRole::Gateway,
            ..AgentCard::new("desk", "Answers", "http://h")
        };
        let all = || AgentFilter::new();
        for fitting in [
            all(),
            all().name("desk"),
            all().role("gateway").tag("a"),
            all().tag("a").tag("b"),
            all().field("transport", "http").field("version", "1.0.0").field("protocol_version", "0.6.4"),
        ] {
            assert!(fitting.fits(&card), "{fitting:?}");
        }
        for other in [
            all().name("Desk"),
            all().name("desk").role("worker"),
            all().tag("a").tag("c"),
            all().field("capabilities", ""),
            all().field("__class__", "x"),
        ] {
            assert!(!other.fits(&card), "{other:?}");
        }
    }
}
