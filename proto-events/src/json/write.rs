//! Writing of a host's values as JSON, with a limit on their nesting: a value that nests without end must not exhaust
//! the stack.

use std::io::{Error, Result as IoResult, Write};

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::Formatter;
use serde_json::value::RawValue;

use crate::json::error::{JsonError, cut};

/// Writes a value as compact JSON.
///
/// # Errors
/// [`JsonError::TooDeep`] if it nests deeper than this, [`JsonError::Syntax`] if it has no JSON form.
pub(super) fn to_raw<T: Serialize + ?Sized>(value: &T, depth_max: usize) -> Result<Box<RawValue>, JsonError> {
    let mut bytes = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut bytes, DepthLimit { depth: 0, max: depth_max });
    let failed = |error: serde_json::Error| {
        // The formatter alone fails in this way: a vector takes all that is written.
        if error.is_io() { JsonError::TooDeep { depth: depth_max + 1 } } else { syntax(&error) }
    };
    value.serialize(&mut serializer).map_err(failed)?;
    let text = String::from_utf8(bytes).map_err(|error| JsonError::Syntax(cut(&error.to_string())))?;
    RawValue::from_string(text).map_err(|error| syntax(&error))
}

/// Returns the error of a parser, which may quote the text that it did not expect, cut at the limit.
pub(super) fn syntax(error: &serde_json::Error) -> JsonError {
    JsonError::Syntax(cut(&error.to_string()))
}

/// The compact form of JSON, down to a depth.
struct DepthLimit {
    depth: usize,
    max: usize,
}

impl DepthLimit {
    fn enter(&mut self) -> IoResult<()> {
        self.depth += 1;
        if self.depth > self.max { Err(Error::other("too deep")) } else { Ok(()) }
    }
}

impl Formatter for DepthLimit {
    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> IoResult<()> {
        self.enter()?;
        writer.write_all(b"[")
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> IoResult<()> {
        self.depth -= 1;
        writer.write_all(b"]")
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> IoResult<()> {
        self.enter()?;
        writer.write_all(b"{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> IoResult<()> {
        self.depth -= 1;
        writer.write_all(b"}")
    }
}

#[cfg(test)]
mod tests {
    use serde::ser::{SerializeMap, SerializeSeq};
    use serde::{Serialize, Serializer};

    use crate::json::{JsonError, JsonText, JsonValue};

    /// A value that nests without end, as arrays or as objects.
    struct Endless {
        as_object: bool,
    }

    impl Serialize for Endless {
        fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
            if self.as_object {
                let mut map = to.serialize_map(Some(1))?;
                map.serialize_entry("k", self)?;
                return map.end();
            }
            let mut seq = to.serialize_seq(Some(1))?;
            seq.serialize_element(self)?;
            seq.end()
        }
    }

    #[test]
    fn a_value_that_nests_without_end_is_an_error_and_no_stack_overflow() {
        for as_object in [false, true] {
            assert_eq!(JsonText::encode(&Endless { as_object }), Err(JsonError::TooDeep { depth: 129 }));
            assert_eq!(JsonValue::encode(&Endless { as_object }), Err(JsonError::TooDeep { depth: 129 }));
        }
    }

    #[test]
    fn an_error_that_quotes_what_it_did_not_expect_is_cut() {
        let long = JsonText::string(&"x".repeat(1_000_000));
        let error = long.read::<u8>().unwrap_err().to_string();
        assert!(error.starts_with("invalid type: string") && error.len() < 2_000, "{}", error.len());
    }
}
