//! The store in a directory, over sled 0.34.7. All code that exists because of sled is in this module, above
//! `engine`: opening and its checks (`open`, `guard`, `scan`), the trees (`sink`, `index`), damaged logs
//! (`damaged`), import (`import`), its panics (`fence`). Readers leave no trace: they open a private copy
//! (`read_only`, `private_copy`, `scratch`), perhaps of a part of a closed log (`partial_copy`, `whole`).

pub(crate) mod chunk_tail;
pub(crate) mod damaged_log;
pub(crate) mod database;
pub(crate) mod dir;
pub(crate) mod epoch;
pub(crate) mod fence;
pub(crate) mod fetch;
pub(crate) mod guard;
pub(crate) mod holder;
pub(crate) mod import;
pub(crate) mod index;
pub(crate) mod memory_size;
pub(crate) mod newest;
pub(crate) mod open;
pub(crate) mod options;
pub(crate) mod partial_copy;
pub(crate) mod private_copy;
pub(crate) mod read_only;
pub(crate) mod remains;
pub(crate) mod reopen_check;
pub(crate) mod scan;
pub(crate) mod scratch;
pub(crate) mod sink;
pub(crate) mod sizes;
pub(crate) mod snapshots;
pub(crate) mod space;
pub(crate) mod store;
pub(crate) mod straight;
pub(crate) mod whole;

pub use damaged_log::SledDamaged;
pub use dir::{LogHeader, blob_files, is_held, log_header};
pub use import::SledImport;
pub use options::{ReadOnlyOptions, SledOptions};
pub use private_copy::free_bytes;
pub use read_only::ReadOnlyLog;
pub use remains::SledRemains;
pub use scratch::remove_private_copies;
pub use sizes::TreeSize;
pub use space::{DiskSpace, disk_space};
pub use store::SledStore;

pub use crate::engine::head::{Frontier, Head};
pub use crate::engine::rights::let_group_read;
