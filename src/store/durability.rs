//! What an acknowledged append has survived.

/// What an acknowledged append has survived. Chosen when a log is created and written into its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Durability {
    /// `fdatasync`: a power failure too.
    #[default]
    Strict,
    /// Handed to the operating system: the end of the process, but no power failure. About a second of work may be
    /// lost with the power, never anything in the middle.
    Os,
}

impl Durability {
    /// Its name in `taskreel.format`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Os => "os",
        }
    }

    /// What is to be known of a log that promises less than [`Durability::Strict`].
    pub fn warning(self) -> Option<&'static str> {
        match self {
            Self::Strict => None,
            Self::Os => Some(
                "durability os: what was acknowledged survives this process, the last second of it no power failure",
            ),
        }
    }

    /// The durability of this name.
    pub fn of_name(name: &str) -> Option<Self> {
        [Self::Strict, Self::Os].into_iter().find(|durability| durability.name() == name)
    }
}
