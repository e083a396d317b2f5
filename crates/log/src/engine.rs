//! The part of a store that knows no database: the writer thread, groups and their values, chunks, the index,
//! and the file `HEAD`. Above `api`; `sled` supplies the pages that values are written to and read from.

pub(crate) mod blocks;
pub(crate) mod chunks;
pub(crate) mod files;
pub(crate) mod halt;
pub(crate) mod head;
pub(crate) mod index;
pub(crate) mod keys;
pub(crate) mod located_records;
pub(crate) mod rights;
pub(crate) mod scan_value;
pub(crate) mod slot;
pub(crate) mod spacer;
pub(crate) mod survey;
pub(crate) mod value;
pub(crate) mod values;
pub(crate) mod writer;
