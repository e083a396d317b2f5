//! Upcasts from old schema versions while reading, one step at a time: v1 to v2 to v3. The domain knows only
//! the newest. A new field is a new version with its own struct, its `upcast`, and a golden file.

use serde::{Deserialize, Serialize};

use crate::codec::error::CodecError;
use crate::codec::payload;
use crate::codec::storable::Payload;
use crate::limits::PAYLOAD_BYTES_MAX;

/// A schema version of one event's body, which may borrow its texts from the bytes.
pub(super) trait Schema<'a>: Serialize + Deserialize<'a> {
    /// The number of the version; the first is 1.
    const VERSION: u8;
    /// The previous version; the first names itself.
    type Previous: Schema<'a>;
    /// Converts the previous version to this one. Never called on the first.
    fn upcast(previous: Self::Previous) -> Self;
}

/// Declares storage structs that have only their first version.
macro_rules! first_version {
    ($($name:ty),* $(,)?) => {
        $(impl<'a> $crate::codec::upcast::Schema<'a> for $name {
            const VERSION: u8 = 1;
            type Previous = Self;
            fn upcast(previous: Self) -> Self { previous }
        })*
    };
}
pub(super) use first_version;

/// Decodes the body of `kind`, written in version `schema`, as the newest version.
pub(super) fn read<'a, T: Schema<'a>>(kind: u16, schema: u8, body: &'a [u8]) -> Result<T, CodecError> {
    if schema == T::VERSION {
        return payload::read(body).map_err(|why| CodecError::Damaged { kind, why });
    }
    if schema > T::VERSION || T::VERSION == 1 {
        return Err(CodecError::UnknownSchema { kind, found: schema, known: T::VERSION });
    }
    read::<T::Previous>(kind, schema, body).map(T::upcast)
}

/// Encodes a body in the newest version.
pub(super) fn write<'a, T: Schema<'a>>(kind: u16, value: &T) -> Result<Payload, CodecError> {
    let body = payload::write(value).map_err(|why| CodecError::Damaged { kind, why })?;
    if body.len() > PAYLOAD_BYTES_MAX {
        return Err(CodecError::TooLarge { bytes: body.len(), limit: PAYLOAD_BYTES_MAX });
    }
    Ok(Payload { kind, schema: T::VERSION, body })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct NameV1 {
        whole: String,
    }
    #[derive(Serialize, Deserialize)]
    struct NameV2 {
        first: String,
        last: String,
    }
    #[derive(Serialize, Deserialize, PartialEq, Debug)]
    struct NameV3 {
        first: String,
        last: String,
        title: Option<String>,
    }
    first_version!(NameV1);
    impl Schema<'_> for NameV2 {
        const VERSION: u8 = 2;
        type Previous = NameV1;
        fn upcast(previous: NameV1) -> Self {
            let (first, last) = previous.whole.split_once(' ').unwrap_or((&previous.whole, ""));
            Self { first: first.to_owned(), last: last.to_owned() }
        }
    }
    impl Schema<'_> for NameV3 {
        const VERSION: u8 = 3;
        type Previous = NameV2;
        fn upcast(previous: NameV2) -> Self {
            Self { first: previous.first, last: previous.last, title: None }
        }
    }

    #[test]
    fn an_old_body_is_made_new_step_by_step() {
        let old = write(9, &NameV1 { whole: "Ada Lovelace".into() }).unwrap();
        let new: NameV3 = read(9, old.schema, &old.body).unwrap();
        assert_eq!(new, NameV3 { first: "Ada".into(), last: "Lovelace".into(), title: None });
    }

    #[test]
    fn a_newer_version_and_version_0_are_refused_by_name() {
        for schema in [0, 4] {
            let refused = read::<NameV3>(9, schema, &[]).unwrap_err();
            let known = if schema == 0 { 1 } else { 3 };
            assert_eq!(refused, CodecError::UnknownSchema { kind: 9, found: schema, known });
        }
    }

    #[test]
    fn bytes_left_over_are_damage() {
        let mut old = write(9, &NameV1 { whole: "x".into() }).unwrap();
        old.body.push(0);
        assert!(matches!(read::<NameV3>(9, 1, &old.body), Err(CodecError::Damaged { .. })));
    }
}
