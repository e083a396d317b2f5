//! The reasons why a file cannot be saved, read or deleted.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// The reason why an operation of a file store failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FileError {
    /// An id could be read as a path.
    #[error("Invalid {what}: '{value}'. Expected letters, numbers, '.', '_' or '-'.")]
    Identifier {
        /// The kind of id.
        what: &'static str,
        /// The id.
        value: String,
    },
    /// An id is longer than the names that file systems take.
    #[error("{what} of {bytes} bytes; a name of a file or folder has at most {limit}")]
    LongIdentifier {
        /// The kind of id.
        what: &'static str,
        /// The bytes of the id.
        bytes: usize,
        /// The bytes of an id at most.
        limit: usize,
    },
    /// An id is the name of a folder of the store's own.
    #[error("{what} '{value}' is the name of a folder of the store itself; choose another id")]
    Reserved {
        /// The kind of id.
        what: &'static str,
        /// The id.
        value: String,
    },
    /// A path leads out of the store's folder, through a link.
    #[error("Path escapes storage root: '{}'", path.display())]
    Escapes {
        /// The path.
        path: PathBuf,
    },
    /// The content of a file is not base64.
    #[error("{0}")]
    Base64(String),
    /// The content of a file has characters beyond ASCII, so that it is not base64. The text is Python's.
    #[error("string argument should contain only ASCII characters")]
    NotAscii,
    /// A value is not an A2A task.
    #[error("the value is not an A2A task: {0}")]
    NotATask(String),
    /// No scheme may be fetched.
    #[error("allowed_uri_schemes must not be empty")]
    NoSchemes,
    /// A scheme is not written like `https:`.
    #[error("Invalid URI scheme: '{0}'")]
    Scheme(String),
    /// An address cannot be read.
    #[error("Invalid remote file URI: '{0}'")]
    Uri(String),
    /// A scheme may not be fetched.
    #[error("Disallowed remote file URI scheme: '{0}'")]
    SchemeNotAllowed(String),
    /// An address holds a user's name or password.
    #[error("Remote file URIs must not include credentials")]
    Credentials,
    /// A host is not on the public internet.
    #[error("Blocked remote file host: '{0}'")]
    BlockedHost(String),
    /// A remote file is larger than may be fetched.
    #[error("Remote file exceeds max_remote_bytes {limit}: {bytes} bytes")]
    TooLarge {
        /// The bytes that may be fetched.
        limit: u64,
        /// The bytes of the file.
        bytes: u64,
    },
    /// The remote files of one artifact or message are larger together than may be fetched.
    #[error(
        "the remote files of one artifact or message exceed {limit} bytes together; raise `remote_bytes_together_max`, or send fewer"
    )]
    TooLargeTogether {
        /// The bytes that may be fetched.
        limit: u64,
    },
    /// The store was given nothing that fetches remote files.
    #[error("the file at '{0}' is not fetched: give the store a `FetchRemote`, or send the file's bytes")]
    NoClient(String),
    /// A remote file could not be fetched, as the fetcher says.
    #[error("{0}")]
    Fetch(String),
    /// A name and those that are made of it and of the content's digest are taken by other contents.
    #[error("'{}' is taken, and so are the names with its digest", path.display())]
    NameTaken {
        /// The path of the first one.
        path: PathBuf,
    },
    /// The file system failed.
    #[error("{what} {}: {source}", path.display())]
    Io {
        /// The operation.
        what: &'static str,
        /// The path.
        path: PathBuf,
        /// The failure.
        source: io::Error,
    },
}

impl FileError {
    /// Returns what turns a failure of the file system into an error that names the operation and the path.
    pub(super) fn io<'a>(what: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Self + use<'a> {
        move |source| Self::Io { what, path: path.to_owned(), source }
    }
}
