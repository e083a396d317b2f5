//! Files beside the log: copies of the files of artifacts and messages, and A2A tasks as JSON files that a2a-utils
//! reads and writes too.
//!
//! The stores here are for other programs and for people. The log keeps what happened; a store can be deleted and
//! filled again. Their operations block, so an async caller runs them on the blocking pool.

mod address;
mod base64;
pub(crate) mod error;
mod identifier;
pub(crate) mod local;
mod name;
pub(crate) mod remote;
pub(crate) mod store;
mod task_shape;
pub(crate) mod tasks;
mod write;

pub use address::is_public;
pub use error::FileError;
pub use local::LocalFileStore;
pub use remote::{FetchRemote, RemoteUri, UriSchemes};
pub use store::FileStore;
pub use tasks::JsonTaskStore;
