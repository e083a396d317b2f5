//! File systems that lack operations, for tests: the operations of this thread fail as they do there.

use std::cell::Cell;
use std::io;

/// The operations that a file system lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lacks {
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
pub(crate) fn lack(what: Lacks) {
    LACKING.set(what);
}

/// Fails as a file system that lacks this operation.
pub(super) fn check(operation: Lacks) -> io::Result<()> {
    if LACKING.get() >= operation { Err(io::ErrorKind::PermissionDenied.into()) } else { Ok(()) }
}
