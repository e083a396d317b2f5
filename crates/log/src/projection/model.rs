//! The traits and types of a projection and its database.

use proto_events::codec::AnyEvent;
use proto_events::envelope::Metadata;
use proto_events::id::{Position, StreamId, Version};

use crate::api::error::ReadError;

/// The place of a projection's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Slot {
    /// The output that is read.
    Live,
    /// The output of a new revision, until it takes the place of the one that is read.
    Shadow,
}

impl Slot {
    /// Returns the name of a table in this place.
    pub fn table(self, name: &str) -> String {
        match self {
            Self::Live => name.to_owned(),
            Self::Shadow => format!("{name}__next"),
        }
    }
}

/// An event with all that the log says of it.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ProjectedEvent<'a> {
    /// The stream.
    pub stream: &'a StreamId,
    /// The version in the stream.
    pub version: Version,
    /// The position in the log.
    pub position: Position,
    /// The metadata of the event's record.
    pub metadata: &'a Metadata,
    /// The event.
    pub event: &'a AnyEvent,
    /// The place of the output.
    pub slot: Slot,
}

impl<'a> ProjectedEvent<'a> {
    pub(crate) fn new(
        stream: &'a StreamId,
        metadata: &'a Metadata,
        (version, position): (Version, Position),
        event: &'a AnyEvent,
        slot: Slot,
    ) -> Self {
        Self { stream, version, position, metadata, event, slot }
    }

    /// Returns the id of the command that a process manager of this name sends because of this event: the same each time.
    pub fn command_id(&self, name: &str) -> String {
        format!("{name}@{}", self.position)
    }
}

/// A read model: what events mean for its tables.
pub trait Projection<S: ProjectionStore> {
    /// Returns the name, unique in its database. It never changes.
    fn name(&self) -> &str;

    /// Returns the revision of the code and the tables. After a change the projection is rebuilt from the whole log.
    fn revision(&self) -> u32;

    /// Creates the empty tables in this place, and drops what stands there.
    ///
    /// # Errors
    /// The database's own.
    fn create(&mut self, tx: &mut S::Tx<'_>, slot: Slot) -> Result<(), S::Error>;

    /// Applies an event to the tables of its [`ProjectedEvent::slot`]. The cursor is written in the same transaction.
    ///
    /// # Errors
    /// [`ApplyError::Poison`] for an event that can never be applied: it is parked, and its part of the transaction is
    /// undone. [`ApplyError::Store`] stops the runner, and the event is applied again later.
    fn apply(&mut self, tx: &mut S::Tx<'_>, event: &ProjectedEvent<'_>) -> Result<(), ApplyError<S::Error>>;

    /// Replaces the live tables by the shadow's.
    ///
    /// # Errors
    /// The database's own.
    fn promote(&mut self, tx: &mut S::Tx<'_>) -> Result<(), S::Error>;
}

/// A database that holds the cursors of projections beside their tables.
pub trait ProjectionStore {
    /// A transaction. Dropping it undoes all of it.
    type Tx<'a>
    where
        Self: 'a;

    /// The database's own error.
    type Error: std::error::Error + 'static;

    /// Begins a transaction.
    ///
    /// # Errors
    /// The database's own, as of all methods.
    fn begin(&mut self) -> Result<Self::Tx<'_>, Self::Error>;

    /// Commits a transaction.
    ///
    /// # Errors
    /// The database's own.
    fn commit(tx: Self::Tx<'_>) -> Result<(), Self::Error>;

    /// Reads the cursor of a projection.
    ///
    /// # Errors
    /// The database's own.
    fn cursor(tx: &mut Self::Tx<'_>, name: &str, slot: Slot) -> Result<Option<Cursor>, Self::Error>;

    /// Writes the cursor of a projection; `None` removes it.
    ///
    /// # Errors
    /// The database's own.
    fn put_cursor(
        tx: &mut Self::Tx<'_>,
        name: &str,
        slot: Slot,
        cursor: Option<&Cursor>,
    ) -> Result<(), Self::Error>;

    /// Keeps an event that could not be applied.
    ///
    /// # Errors
    /// The database's own.
    fn park(tx: &mut Self::Tx<'_>, name: &str, slot: Slot, parked: &ParkedEvent) -> Result<(), Self::Error>;

    /// Removes the parked events in this place.
    ///
    /// # Errors
    /// The database's own.
    fn clear_parked(tx: &mut Self::Tx<'_>, name: &str, slot: Slot) -> Result<(), Self::Error>;

    /// Replaces the live parked events by the shadow's.
    ///
    /// # Errors
    /// The database's own.
    fn promote_parked(tx: &mut Self::Tx<'_>, name: &str) -> Result<(), Self::Error>;
}

/// The place of a projection in a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    /// The log, as the host names it: its id tells it from others.
    pub log: String,
    /// The revision that wrote the output.
    pub revision: u32,
    /// The position of the last event that was applied or parked; 0 before the first.
    pub position: Position,
}

/// An event that a projection could not apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParkedEvent {
    /// The position in the log.
    pub position: Position,
    /// The stream.
    pub stream: StreamId,
    /// The version in the stream.
    pub version: Version,
    /// The reason.
    pub reason: String,
}

/// The reason why an event was not applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError<E> {
    /// The event can never be applied.
    #[error("{0}")]
    Poison(String),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] E),
}

/// The reason why a projection could not be brought up to date.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProjectionError<E> {
    /// The log could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The database failed. What was committed stays; the next run goes on after it.
    #[error("the database of the projection `{name}` failed: {source}")]
    Store {
        /// The projection.
        name: String,
        /// The database's own error.
        source: E,
    },
    /// The projection was made from another log.
    #[error(
        "the projection `{name}` was made from the log {made_from}, and this is {log}; give it a database of its own"
    )]
    OtherLog {
        /// The projection.
        name: String,
        /// The log from which it was made.
        made_from: String,
        /// The log that was given.
        log: String,
    },
    /// The projection has seen events that the log no longer has: the log was restored to an earlier state.
    #[error(
        "the projection `{name}` has read position {cursor}, and the log ends at {head}: it was restored; remove the projection's cursor to rebuild it"
    )]
    Ahead {
        /// The projection.
        name: String,
        /// The position that was read.
        cursor: Position,
        /// The last position of the log.
        head: Position,
    },
}
