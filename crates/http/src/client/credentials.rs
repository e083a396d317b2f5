//! The credentials that a client shows.

use std::fmt;

use reqwest::RequestBuilder;

/// The credentials that a client shows to agents and registries.
#[derive(Clone)]
#[non_exhaustive]
pub enum Credentials {
    /// A token, as `Authorization: Bearer`.
    Bearer(String),
    /// A key, as `X-API-Key`.
    ApiKey(String),
    /// A name and a password, as `Authorization: Basic`.
    Basic {
        /// The name.
        user: String,
        /// The password.
        password: String,
    },
}

impl fmt::Debug for Credentials {
    /// Names the kind alone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bearer(_) => "Bearer",
            Self::ApiKey(_) => "ApiKey",
            Self::Basic { .. } => "Basic",
        })
    }
}

/// Adds what a client shows of itself to a request.
pub(crate) fn shown(credentials: Option<&Credentials>, request: RequestBuilder) -> RequestBuilder {
    match credentials {
        None => request,
        Some(Credentials::Bearer(token)) => request.bearer_auth(token),
        Some(Credentials::ApiKey(key)) => request.header("x-api-key", key),
        Some(Credentials::Basic { user, password }) => request.basic_auth(user, Some(password)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_stands_in_what_a_person_reads() {
        let credentials = Credentials::Basic { user: "u".to_owned(), password: "hush".to_owned() };
        assert!(!format!("{credentials:?}").contains("hush"));
    }
}
