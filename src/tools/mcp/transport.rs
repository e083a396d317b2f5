//! The two transports of an MCP server: a program's stdio, and HTTP.

use std::ffi::OsString;
use std::path::PathBuf;

/// The shortest text that counts as a secret, in bytes.
pub(crate) const SECRET_BYTES_MIN: usize = 5;

/// The transport to a server.
#[derive(Clone)]
pub(crate) enum Transport {
    /// A child process, over its standard streams.
    Stdio { program: OsString, args: Vec<OsString>, env: Vec<(OsString, OsString)>, dir: Option<PathBuf> },
    /// Streamable HTTP.
    Http { url: String, headers: Vec<(String, String)> },
}

impl Transport {
    /// Returns the program or the address, without parts that may be secret.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Stdio { program, .. } => program.to_string_lossy().into_owned(),
            Self::Http { url, .. } => {
                let plain = url.split(['?', '#']).next().unwrap_or_default();
                match plain.split_once("://") {
                    // The part before the `@` is a name and a password.
                    Some((scheme, rest)) => {
                        let (host, path) =
                            rest.split_once('/').map_or((rest, ""), |(host, path)| (host, path));
                        let host = host.rsplit('@').next().unwrap_or_default();
                        format!("{scheme}://{host}/{path}")
                    }
                    None => plain.to_owned(),
                }
            }
        }
    }

    /// Returns the text without secrets: errors of other libraries may quote them.
    pub(crate) fn redact(&self, text: &str) -> String {
        let mut secrets: Vec<String> = match self {
            Self::Stdio { env, .. } => {
                env.iter().map(|(_, value)| value.to_string_lossy().into_owned()).collect()
            }
            Self::Http { url, headers } => {
                let query = url.split_once('?').map(|(_, query)| query.to_owned());
                let user =
                    url.split_once("://").and_then(|(_, rest)| rest.split('/').next()?.rsplit_once('@'));
                let values = headers.iter().map(|(_, value)| value);
                // In `Bearer x`, the `x` alone is a secret too.
                let words = headers.iter().flat_map(|(_, value)| value.split(' ')).map(str::to_owned);
                let query_values = query.iter().flat_map(|query| query.split('&'));
                let query_values =
                    query_values.filter_map(|pair| pair.split_once('=')).map(|(_, value)| value.to_owned());
                values
                    .cloned()
                    .chain(words)
                    .chain(query_values)
                    .chain(user.map(|(user, _)| user.to_owned()))
                    .collect()
            }
        };
        // Shorter texts are not secrets, and their removal would take away harmless words.
        secrets.retain(|secret| secret.len() >= SECRET_BYTES_MIN);
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), "[secret]"))
    }
}
