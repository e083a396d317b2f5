//! The answer of a reading command: done, or "no" (exit code 1).

/// The answer of a command that met no error: yes, or the "no" of exit code 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The command did what was asked.
    Yes,
    /// The answer is "no": a difference, a fault, a failed task.
    No,
}
