//! Tasks of ours as A2A's, and A2A's as ours, without loss in either direction.
//!
//! What plain A2A has no place for stands in metadata under the URI of an extension that the card declares
//! ([`EXTENSION`]): texts, booleans and lists of texts only, since SDKs that are built on protobuf print every number of a
//! `data` or a `metadata` anew as a double ([`numbers`]). What ours has no place for stands in a part of its own at the end of a
//! message ([`CARRIER`]), or in the metadata of an artifact or a task, under the same URI.

pub(crate) mod artifact;
pub(crate) mod message;
pub(crate) mod notes;
pub(crate) mod numbers;
pub(crate) mod part;
pub(crate) mod prompt;
pub(crate) mod remarks;
pub(crate) mod task;

/// The URI of the extension whose data stands in metadata.
pub(crate) const EXTENSION: &str = "urn:taskreel:a2a:protolink:v1";

/// The kind of the part that holds what A2A's message has beside its parts. It is not carried out.
pub(crate) const CARRIER: &str = "a2a";

#[cfg(test)]
pub(crate) mod tests;
