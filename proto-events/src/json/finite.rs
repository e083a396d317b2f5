//! A walk over a value that finds the numbers that JSON does not have. `serde_json` writes NaN and infinity as
//! `null`, so that a reader would take a number that is not finite for an absent one.

use std::fmt;

use serde::ser::{self, Serialize, Serializer};

/// Whether the value holds NaN or infinity. A value that cannot be walked holds none.
pub(super) fn holds_no_number<T: Serialize + ?Sized>(value: &T) -> bool {
    matches!(value.serialize(Finite), Err(Stop::NotFinite))
}

/// The reason why a walk ended early.
#[derive(Debug)]
enum Stop {
    NotFinite,
    /// The value's own error, which its conversion to text reports.
    Other,
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the walk ended early")
    }
}

impl std::error::Error for Stop {}

impl ser::Error for Stop {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self::Other
    }
}

type Walked = Result<(), Stop>;

/// A serializer that writes nothing.
#[derive(Clone, Copy)]
struct Finite;

macro_rules! plain {
    ($($name:ident: $type:ty),* $(,)?) => {
        $(fn $name(self, _: $type) -> Walked {
            Ok(())
        })*
    };
}

impl Serializer for Finite {
    type Ok = ();
    type Error = Stop;
    type SerializeSeq = Self;
    type SerializeTuple = Self;
    type SerializeTupleStruct = Self;
    type SerializeTupleVariant = Self;
    type SerializeMap = Self;
    type SerializeStruct = Self;
    type SerializeStructVariant = Self;

    plain!(
        serialize_bool: bool, serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64, serialize_i128: i128,
        serialize_u128: u128, serialize_char: char, serialize_str: &str, serialize_bytes: &[u8],
        serialize_unit_struct: &'static str,
    );

    fn serialize_f32(self, number: f32) -> Walked {
        if number.is_finite() { Ok(()) } else { Err(Stop::NotFinite) }
    }

    fn serialize_f64(self, number: f64) -> Walked {
        if number.is_finite() { Ok(()) } else { Err(Stop::NotFinite) }
    }

    fn serialize_none(self) -> Walked {
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Walked {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Walked {
        Ok(())
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, _: &'static str) -> Walked {
        Ok(())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Walked {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        value: &T,
    ) -> Walked {
        value.serialize(self)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self, Stop> {
        Ok(self)
    }

    fn serialize_tuple(self, _: usize) -> Result<Self, Stop> {
        Ok(self)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self, Stop> {
        Ok(self)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self, Stop> {
        Ok(self)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self, Stop> {
        Ok(self)
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self, Stop> {
        Ok(self)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self, Stop> {
        Ok(self)
    }

    fn collect_str<T: fmt::Display + ?Sized>(self, _: &T) -> Walked {
        Ok(())
    }
}

macro_rules! compound {
    ($($kind:ident: $each:ident;)*) => {
        $(impl ser::$kind for Finite {
            type Ok = ();
            type Error = Stop;

            fn $each<T: Serialize + ?Sized>(&mut self, value: &T) -> Walked {
                value.serialize(*self)
            }

            fn end(self) -> Walked {
                Ok(())
            }
        })*
    };
}
compound! {
    SerializeSeq: serialize_element;
    SerializeTuple: serialize_element;
    SerializeTupleStruct: serialize_field;
    SerializeTupleVariant: serialize_field;
}

macro_rules! named {
    ($($kind:ident)*) => {
        $(impl ser::$kind for Finite {
            type Ok = ();
            type Error = Stop;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, _: &'static str, value: &T) -> Walked {
                value.serialize(*self)
            }

            fn end(self) -> Walked {
                Ok(())
            }
        })*
    };
}
named!(SerializeStruct SerializeStructVariant);

impl ser::SerializeMap for Finite {
    type Ok = ();
    type Error = Stop;

    /// A key is a text in JSON, whatever it was.
    fn serialize_key<T: Serialize + ?Sized>(&mut self, _: &T) -> Walked {
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Walked {
        value.serialize(*self)
    }

    fn end(self) -> Walked {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[derive(serde::Serialize)]
    enum Any {
        Unit,
        New(f64),
        Tuple(u8, f32),
        Struct { deep: Vec<Option<f64>> },
    }

    #[test]
    fn a_number_that_json_does_not_have_is_found_wherever_it_stands() {
        for odd in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert!(holds_no_number(&odd));
            assert!(holds_no_number(&[Some(1.0), Some(odd)]));
            assert!(holds_no_number(&(1, "x", odd)));
            assert!(holds_no_number(&BTreeMap::from([("k", odd)])));
            assert!(holds_no_number(&Any::New(odd)));
            assert!(holds_no_number(&Any::Struct { deep: vec![None, Some(odd)] }));
        }
        assert!(holds_no_number(&Any::Tuple(1, f32::NAN)));
        let fine = [Any::Unit, Any::New(f64::MAX), Any::Tuple(1, 0.5), Any::Struct { deep: vec![None] }];
        assert!(!holds_no_number(&fine));
        assert!(!holds_no_number(&BTreeMap::from([(1, Some(vec![(), ()]))])));
        let raw = serde_json::value::RawValue::from_string("[null]".to_owned()).unwrap();
        assert!(!holds_no_number(&raw));
    }
}
