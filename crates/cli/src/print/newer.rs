//! The streams that a newer release wrote: named on stderr, while all others are shown.

use taskreel_log::api::ReadError;

use crate::print::answer::Answer;
use crate::print::screen::note;

/// Names each stream that a list or a sum leaves out, and returns the answer of that part of the command.
pub(crate) fn name_left_out(newer: &[ReadError], what: &str) -> Answer {
    for error in newer {
        note(&format!("{what}: {error}"));
    }
    if newer.is_empty() { Answer::Yes } else { Answer::Newer }
}
