//! The caller of a request, which the check of its credentials puts into the request's extensions.

use proto_events::envelope::Principal;

/// The caller of a request: its name in the records, and what it may do.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The name, and whether it is authenticated or only asserted.
    pub principal: Principal,
    /// What the caller may do.
    pub scopes: Scopes,
}

/// A kind of requests that a caller may be allowed to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Reading: cards, tasks, sessions, events.
    Read,
    /// Running: tasks are sent, and those of the caller canceled.
    Run,
    /// Control: approvals, reconciliation, resets, compaction, cancels.
    Control,
}

/// A set of scopes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Scopes(u8);

impl Scopes {
    /// Every scope.
    pub const ALL: Self = Self(0b111);
    /// No scope.
    pub const NONE: Self = Self(0);

    /// Returns the set with a scope more.
    #[must_use]
    pub const fn with(self, scope: Scope) -> Self {
        Self(self.0 | scope.bit())
    }

    /// Whether the set has this scope.
    pub const fn has(self, scope: Scope) -> bool {
        self.0 & scope.bit() != 0
    }
}

impl Scope {
    const fn bit(self) -> u8 {
        match self {
            Self::Read => 1,
            Self::Run => 2,
            Self::Control => 4,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_was_added_and_nothing_else() {
        let set = Scopes::NONE.with(Scope::Run);
        assert!(set.has(Scope::Run) && !set.has(Scope::Read) && !set.has(Scope::Control));
        assert_eq!(set.with(Scope::Read).with(Scope::Control), Scopes::ALL);
    }
}
