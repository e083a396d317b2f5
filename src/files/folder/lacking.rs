//! File systems that lack operations, for tests: the operations of this thread fail as they do there.

use std::cell::Cell;
use std::io;

/// What a file system does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::files) enum Lacks {
    /// All is there.
    Nothing,
    /// Hard links.
    Links,
    /// Hard links, and moves that replace nothing.
    Moves,
}

thread_local! {
    static LACKING: Cell<Lacks> = const { Cell::new(Lacks::Nothing) };
}

/// Takes operations away from this thread.
pub(in crate::files) fn lack(what: Lacks) {
    LACKING.set(what);
}

/// Fails as a file system that lacks this operation.
pub(super) fn check(operation: Lacks) -> io::Result<()> {
    if LACKING.get() >= operation { Err(io::ErrorKind::PermissionDenied.into()) } else { Ok(()) }
}
