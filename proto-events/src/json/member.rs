//! The reading of some members of an object, without the others.

use std::array::from_fn;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer as _, Error, IgnoredAny, MapAccess, Visitor};

use crate::json::text::JsonText;

impl JsonText {
    /// Returns the member of an object with this name, the last one where there are several. The others are passed over, so that it
    /// costs little beside reading all of a long object.
    pub fn member(&self, name: &str) -> Option<Self> {
        let [member] = self.members([name]);
        member
    }

    /// Returns the members of an object with these names, as [`JsonText::member`] does, in one pass. Of a value that is not an object
    /// it returns none.
    pub fn members<const N: usize>(&self, names: [&str; N]) -> [Option<Self>; N] {
        let mut text = serde_json::Deserializer::from_str(self.as_str());
        text.deserialize_map(MemberNames(names)).unwrap_or_else(|_| from_fn(|_| None))
    }
}

/// Finds the members of these names.
struct MemberNames<'a, const N: usize>([&'a str; N]);

impl<'de, const N: usize> Visitor<'de> for MemberNames<'_, N> {
    type Value = [Option<JsonText>; N];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut members: M) -> Result<Self::Value, M::Error> {
        let mut found = from_fn(|_| None);
        while let Some(place) = members.next_key_seed(Among(&self.0))? {
            match place.and_then(|place| found.get_mut(place)) {
                Some(found) => *found = Some(members.next_value()?),
                None => {
                    members.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(found)
    }
}

/// Compares the name of a member with some names, and returns the place of the same one.
struct Among<'a>(&'a [&'a str]);

impl<'de> DeserializeSeed<'de> for Among<'_> {
    type Value = Option<usize>;

    fn deserialize<D: serde::Deserializer<'de>>(self, name: D) -> Result<Option<usize>, D::Error> {
        name.deserialize_str(self)
    }
}

impl Visitor<'_> for Among<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Option<usize>, E> {
        Ok(self.0.iter().position(|wanted| *wanted == name))
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
            let other = json.read::<JsonObject>().ok().and_then(|whole| whole.get("b").cloned());
            assert_eq!(json.members(["b", "c", "a"]), [other, None, whole], "{text}");
        }
    }
}
