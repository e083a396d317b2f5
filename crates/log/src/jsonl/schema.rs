//! The names that an export's lines carry.

/// Name of the format, the value of the first field of the first line.
pub const SCHEMA: &str = "taskreel.export/2";

/// The name of the field with the bodies outside a record's bytes.
pub const DETACHED: &str = "detached";
