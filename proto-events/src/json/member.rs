//! The reading of one member of an object, without the others.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer as _, Error, IgnoredAny, MapAccess, Visitor};

use crate::json::text::JsonText;

impl JsonText {
    /// Returns the member of an object with this name, the last one where there are several. The others are passed over, so that it
    /// costs little beside reading all of a long object.
    pub fn member(&self, name: &str) -> Option<Self> {
        let mut text = serde_json::Deserializer::from_str(self.as_str());
        text.deserialize_map(Named(name)).ok()?
    }
}

/// Finds the member of this name.
struct Named<'a>(&'a str);

impl<'de> Visitor<'de> for Named<'_> {
    type Value = Option<JsonText>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut members: M) -> Result<Self::Value, M::Error> {
        let mut found = None;
        while let Some(is_it) = members.next_key_seed(Is(self.0))? {
            if is_it {
                found = Some(members.next_value()?);
            } else {
                members.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

/// Compares the name of a member.
struct Is<'a>(&'a str);

impl<'de> DeserializeSeed<'de> for Is<'_> {
    type Value = bool;

    fn deserialize<D: serde::Deserializer<'de>>(self, name: D) -> Result<bool, D::Error> {
        name.deserialize_str(self)
    }
}

impl Visitor<'_> for Is<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<bool, E> {
        Ok(name == self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::text::JsonObject;

    #[test]
    fn a_member_is_the_one_that_reading_the_whole_object_gives() {
        let objects = [
            "{}",
            r#"{"a":1}"#,
            r#"{"a":null,"b":{"a":2}}"#,
            r#"{"b":[{"a":3}, "\"a\":4"], "a" : {"x" : [1.50]} }"#,
            r#"{"a":1,"b":2,"a":[2]}"#,
            r#"{"\u0061":"escaped"}"#,
            "[1]",
            "\"a\"",
            "null",
        ];
        for text in objects {
            let json = JsonText::parse(text).unwrap();
            let whole = json.read::<JsonObject>().ok().and_then(|whole| whole.get("a").cloned());
            assert_eq!(json.member("a"), whole, "{text}");
        }
    }
}
