//! The caller of a request, which the check of its credentials puts into the request's extensions.

use proto_events::envelope::{Basis, Principal};

/// The caller of a request: its name in the records, and what it may do.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The name, and whether it is authenticated or only asserted.
    pub principal: Principal,
    /// The kinds of requests that the caller may make.
    pub scopes: Scopes,
}

/// A kind of requests that a caller may be allowed to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Reading: cards, tasks, sessions, events.
    Read,
    /// Running: tasks are sent, and the caller's tasks canceled.
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

    /// Returns the scopes that both sets have.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether the set has this scope.
    pub const fn has(self, scope: Scope) -> bool {
        self.0 & scope.bit() != 0
    }
}

impl Caller {
    /// Returns the caller of a server without authentication: nobody has said or checked its name, and it may do all.
    pub fn unknown() -> Self {
        Self { principal: Principal::default(), scopes: Scopes::ALL }
    }

    /// Whether the caller may cancel a task that this principal has submitted: its own with [`Scope::Run`], any with
    /// [`Scope::Control`].
    pub fn may_cancel(&self, submitted_by: &Principal) -> bool {
        self.scopes.has(Scope::Control) || (self.scopes.has(Scope::Run) && *submitted_by == self.principal)
    }

    /// Whether the caller may see no tasks but its own: its name was checked, and it has not [`Scope::Read`].
    pub(crate) fn sees_own_tasks_alone(&self) -> bool {
        self.principal.basis == Basis::Authenticated && !self.scopes.has(Scope::Read)
    }
}

impl Scope {
    /// Every scope.
    pub const ALL: [Self; 3] = [Self::Read, Self::Run, Self::Control];

    /// Returns the name of the scope.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Run => "run",
            Self::Control => "control",
        }
    }

    /// Returns the scope of a word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == word)
    }

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

    #[test]
    fn a_caller_whose_name_was_checked_sees_the_tasks_of_others_with_the_scope_to_read() {
        let runs = Scopes::NONE.with(Scope::Run);
        let checked = |scopes| Caller { principal: Principal::authenticated("ada"), scopes };
        assert!(checked(runs).sees_own_tasks_alone());
        assert!(!checked(runs.with(Scope::Read)).sees_own_tasks_alone());
        let unchecked = Caller { principal: Principal::asserted("ada"), scopes: runs };
        assert!(!unchecked.sees_own_tasks_alone());
    }
}
