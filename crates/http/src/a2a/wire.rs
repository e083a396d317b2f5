//! The data of A2A as JSON, in the forms of 1.0 (protobuf's JSON: unions by their member, names in camel case), of 0.3 (a
//! `kind` in everything) and of REST in 0.3 (protobuf's JSON of the older definition): [`read`] reads strictly and passes over unknown members, [`write`] leaves out what is empty.

pub(crate) mod fields;
pub(crate) mod protocol;
pub(crate) mod read;
pub(crate) mod write;

/// The form of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DataForm {
    /// The form of 1.0.
    V1,
    /// The form of 0.3.
    V03,
    /// The form of 0.3 over REST, as its SDKs write it. It has no place for the tasks to which a message refers.
    Rest03,
}

/// The member of a data part's metadata by which 0.3 says that the object stands for another value, its member `value`. The
/// SDK for Python writes and reads it.
pub(crate) const COMPAT: &str = "data_part_compat";

/// The member of a part's metadata in which 0.3 keeps the file name and media type of a part that has no place for them.
pub(crate) const NAMED: &str = "urn:taskreel:a2a:part:v1";

/// "Canceled" in the definition from which REST in 0.3 follows.
pub(crate) const CANCELED_03: &str = "TASK_STATE_CANCELLED";

#[cfg(test)]
mod tests;
