//! The failures that an acknowledged append survives.

/// The failures that an acknowledged append survives. Chosen when a log is created and written into its
/// header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Durability {
    /// `fdatasync`: survives a power failure too.
    #[default]
    Strict,
    /// Handed to the operating system: survives the end of the process, but no power failure, which may lose
    /// about a second of work, but never anything in the middle.
    Os,
}

impl Durability {
    /// Returns the name used in `taskreel.format`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Os => "os",
        }
    }

    /// Returns the warning for a log that promises less than [`Durability::Strict`].
    pub fn warning(self) -> Option<&'static str> {
        match self {
            Self::Strict => None,
            Self::Os => Some(
                "durability os: acknowledged events survive the end of this process, but a power failure may lose about the last second of them",
            ),
        }
    }

    /// Returns the durability with this name.
    pub fn of_name(name: &str) -> Option<Self> {
        [Self::Strict, Self::Os].into_iter().find(|durability| durability.name() == name)
    }
}
