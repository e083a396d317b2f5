//! The requests that were refused before a handler saw them, counted by reason.

use std::sync::atomic::{AtomicU64, Ordering};

/// The reason why a request was refused before a handler saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The request has no credential.
    Missing,
    /// The credential is not valid.
    Failed,
    /// The caller has not the scope.
    Forbidden,
    /// The host is not allowed.
    Host,
    /// The origin is not allowed.
    Origin,
    /// The caller has reached a bound.
    Quota,
}

impl Refusal {
    /// Every reason.
    pub const ALL: [Self; 6] =
        [Self::Missing, Self::Failed, Self::Forbidden, Self::Host, Self::Origin, Self::Quota];

    /// Returns the name of the reason in figures.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "missing_credentials",
            Self::Failed => "failed_authentication",
            Self::Forbidden => "missing_scope",
            Self::Host => "host",
            Self::Origin => "origin",
            Self::Quota => "quota",
        }
    }
}

/// The counts of refused requests.
#[derive(Debug, Default)]
pub struct Refusals([AtomicU64; Refusal::ALL.len()]);

impl Refusals {
    pub(crate) fn count(&self, reason: Refusal) {
        if let Some(count) = self.0.get(reason as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns each reason with its count.
    pub fn rows(&self) -> impl Iterator<Item = (Refusal, u64)> {
        Refusal::ALL.into_iter().zip(self.0.iter().map(|count| count.load(Ordering::Relaxed)))
    }
}
