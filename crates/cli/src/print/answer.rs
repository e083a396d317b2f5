//! The answer of a reading command: done, or "no" (exit code 1).

/// The answer of a command that met no error: yes, or the "no" of exit code 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The command did what was asked.
    Yes,
    /// The answer is "no": a difference, a fault, a failed task.
    No,
    /// The command did what was asked, as far as this release can read the log: a newer one wrote a part of it.
    Newer,
}

impl Answer {
    /// Returns the answer of two parts of a command: the worse one.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Newer, _) | (_, Self::Newer) => Self::Newer,
            (Self::No, _) | (_, Self::No) => Self::No,
            (Self::Yes, Self::Yes) => Self::Yes,
        }
    }
}
