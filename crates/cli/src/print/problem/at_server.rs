//! The problem of a log behind a server that cannot be read or decided about.

use taskreel_http::HttpLogError;

use crate::print::problem::{EXIT_HELD, EXIT_LOG, EXIT_NO, EXIT_UNKNOWN, EXIT_USAGE, Problem};

impl Problem {
    /// A server that cannot be reached, refuses, or is not taskreel.
    pub(crate) fn at_server(error: &HttpLogError, url: &str) -> Self {
        let (code, hint) = match error {
            HttpLogError::Url { .. } => {
                (EXIT_USAGE, "give the address of the server: --url http://127.0.0.1:8080")
            }
            _ if error.is_of_credentials() => (
                EXIT_USAGE,
                "put the server's bearer token into TASKREEL_TOKEN, or into a file named by --token-file",
            ),
            HttpLogError::Refused { status: 404 | 405, .. } | HttpLogError::Nonsense { .. } => {
                (EXIT_LOG, "check that the address is that of a taskreel server with its live API")
            }
            _ => {
                (EXIT_HELD, "check that the server runs and can be reached, then run the same command again")
            }
        };
        Self::new(code, format!("cannot read the log behind {url}"), error.to_string(), hint)
    }

    /// A decision that a server refused, or to which it gave no answer.
    pub(crate) fn decided_at_server(error: &HttpLogError, url: &str, id: &str) -> Self {
        let HttpLogError::Refused { status, message, .. } = error else {
            if matches!(error, HttpLogError::Url { .. } | HttpLogError::Token { .. }) {
                return Self::at_server(error, url);
            }
            // The answer is not "no": it is not known.
            let hint = "run the same command again: the same decision is made once only";
            return Self::new(EXIT_HELD, format!("no answer for task `{id}`"), error.to_string(), hint);
        };
        let waiting = "`taskreel calls` lists the calls that wait for a person";
        let (code, hint) = match *status {
            401 | 403 => return Self::at_server(error, url),
            404 => (EXIT_UNKNOWN, waiting),
            409 | 422 => (EXIT_NO, waiting),
            400..500 if *status != 429 => (EXIT_USAGE, "check the command line"),
            _ => {
                let what = format!("it is not known whether the decision about task `{id}` was made");
                let hint = "run the same command again: the same decision is made once only";
                return Self::new(EXIT_HELD, what, error.to_string(), hint);
            }
        };
        Self::new(
            code,
            format!("task `{id}` was refused; nothing was added to the log"),
            message.clone(),
            hint,
        )
    }
}
