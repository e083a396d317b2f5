//! The problem of a decision for which a program has a socket that does not serve this process.

use taskreel_log::socket::SocketError;

use crate::print::problem::{EXIT_HELD, Problem};

impl Problem {
    /// A decision for which the program that has the log open has a socket, but did not serve it. Nothing was decided.
    pub(crate) fn at_socket(error: &SocketError) -> Self {
        let hint = match error {
            SocketError::NotAllowed { .. } => "run the same command as the user who runs the program",
            SocketError::OtherProtocol { .. } => {
                "use the release of taskreel that the program was built with"
            }
            _ => "run the same command again in a moment: the program need not be stopped",
        };
        let what = "the program that has the log open was not asked; nothing was decided";
        Self::new(EXIT_HELD, what, error.to_string(), hint)
    }
}
