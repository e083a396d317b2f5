//! The problem of a decision for which a program has a door that does not serve this process.

use taskreel_log::door::DoorError;

use crate::print::problem::{EXIT_HELD, Problem};

impl Problem {
    /// A decision for which the program that has the log open has a door, but did not serve it. Nothing was decided.
    pub(crate) fn at_door(error: &DoorError) -> Self {
        let hint = match error {
            DoorError::NotAllowed { .. } => "run the same command as the user who runs the program",
            DoorError::OtherProtocol { .. } => "use the release of taskreel that the program was built with",
            _ => "run the same command again in a moment: the program need not be stopped",
        };
        let what = "the program that has the log open was not asked; nothing was decided";
        Self::new(EXIT_HELD, what, error.to_string(), hint)
    }
}
