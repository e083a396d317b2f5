//! The reasons why a log behind a server cannot be read.

use std::path::PathBuf;

use taskreel_log::api::ReadError;

/// The reason why a log behind a server cannot be read, or a decision was not made there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HttpLogError {
    /// The address is not valid.
    #[error("`{url}` is not the address of a server: {why}")]
    Url {
        /// The address.
        url: String,
        /// The reason.
        why: String,
    },
    /// The token cannot be read or sent.
    #[error("the token in {}: {why}", .file.display())]
    Token {
        /// The file that holds it.
        file: PathBuf,
        /// The reason.
        why: String,
    },
    /// The server cannot be reached, or the connection to it was lost.
    #[error("the server cannot be reached: {why}")]
    Unreachable {
        /// The reason.
        why: String,
    },
    /// The server refuses the request.
    #[error("the server refuses: {message} (status {status}, {code})")]
    Refused {
        /// The status of the answer.
        status: u16,
        /// The code for programs.
        code: String,
        /// The text for people.
        message: String,
    },
    /// The answer is not that of a live API.
    #[error("the answer of the server cannot be read: {what}")]
    Nonsense {
        /// The fault.
        what: String,
    },
}

impl HttpLogError {
    /// Whether the server asks for other credentials.
    pub fn is_of_credentials(&self) -> bool {
        matches!(self, Self::Token { .. } | Self::Refused { status: 401 | 403, .. })
    }
}

impl From<HttpLogError> for ReadError {
    fn from(error: HttpLogError) -> Self {
        Self::Io(error.to_string())
    }
}
