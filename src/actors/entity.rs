//! The central loop: recover, decide, append, evolve, publish, reply. It is the same code for each kind of
//! stream.
//!
//! Decisions of one command are folded into the state at once, so that later ones of the same append see
//! them; [`Entity::part`] makes one record of them, and [`Entity::mark_committed`] notes that it is on disk. When the
//! append fails they are dropped by reading the stream again, so no reader ever sees a state that is not on
//! disk.

use std::cell::Cell;
use std::sync::Arc;

use proto_events::call::read_digest;
use proto_events::codec::record::{EventBody, RecordDraft};
use proto_events::codec::{Payload, Storable};
use proto_events::decider::Decider;
use proto_events::envelope::{CommandDigest, Committed, Metadata};
use proto_events::id::{Digest, ExpectedVersion, Position, StreamId, Version};
use taskreel_log::api::{AppendPart, EventReader, EventStore, Fence, Page, ReadError};
use taskreel_log::limits::RECORD_BYTES_MAX;
use taskreel_log::ports::Ports;
use taskreel_log::read::{Folded, fold_stream};

use crate::error::Error;
use crate::run::question::{ReadStream, ReadThrough};

/// The state of one stream, and the decisions that are not written yet.
pub(crate) struct Entity<D: Decider> {
    stream: StreamId,
    /// Shared with the receivers of answers, so that an answer costs no copy of the state.
    folded: Folded<Arc<D>>,
    pending: Vec<D::Event>,
    /// The pending events, encoded once, when they were decided.
    payloads: Vec<Payload>,
    /// The digest of the command whose record was encoded last.
    command_digest: Option<CommandDigest>,
    /// The source of the salts of the events decided here.
    salts: Seed,
}

/// A random value drawn for an append or an entity. It is never stored, and neither a set id nor a salt leads back to
/// it, so an erased salt stays erased.
#[derive(Clone, Copy)]
pub(crate) struct Seed(pub(crate) [u8; 16]);

impl Seed {
    /// Draws a seed.
    pub(crate) fn draw(ports: &Ports) -> Self {
        Self(ports.ids.random())
    }

    /// Returns the id of the append.
    pub(crate) fn set_id(self) -> [u8; 16] {
        self.derive(&[b"taskreel.set"])
    }

    /// Returns the salt of the event of this version.
    fn salt(self, version: u64) -> [u8; 16] {
        self.derive(&[b"taskreel.salt", &version.to_be_bytes()])
    }

    fn derive(self, what: &[&[u8]]) -> [u8; 16] {
        let mut sixteen = [0; 16];
        let digest = Digest::of_all(std::iter::once(&self.0[..]).chain(what.iter().copied()));
        sixteen.iter_mut().zip(digest.0).for_each(|(to, from)| *to = from);
        sixteen
    }
}

/// The append that a record belongs to, and the record's index in it.
#[derive(Clone, Copy)]
pub(crate) struct SetPart {
    pub(crate) seed: Seed,
    pub(crate) part: u16,
    pub(crate) parts: u16,
}

impl<D> Entity<D>
where
    D: Decider + Default + Clone + Send + Sync + 'static,
    D::Event: Storable + Send + 'static,
{
    /// Step 4: reads the stream on the blocking pool and folds it. A new stream is not read.
    /// `salts` is drawn for this entity alone.
    pub(crate) async fn recover(
        store: &Arc<dyn EventStore>,
        stream: StreamId,
        salts: Seed,
    ) -> Result<Self, Error> {
        if store.stream_version(&stream)? == Version(0) {
            let (state, nowhere) = (D::default(), Digest::default());
            return Ok(Self::from_parts(stream, state, Version(0), Position(0), nowhere, salts));
        }
        let reader = Arc::clone(store);
        let name = stream.clone();
        let read = move || fold_stream::<D>(reader.as_ref(), &name, None);
        let folded = on_blocking_pool(store, &stream, read).await??;
        Ok(Self {
            stream,
            folded: folded.shared(),
            pending: Vec::new(),
            payloads: Vec::new(),
            command_digest: None,
            salts,
        })
    }

    /// Returns an entity from parts that another actor has recovered already.
    pub(crate) fn from_parts(
        stream: StreamId,
        state: D,
        version: Version,
        position: Position,
        last_hash: Digest,
        salts: Seed,
    ) -> Self {
        let (answered, correlation_id, forgotten) = (Vec::new(), String::new(), false);
        let state = Arc::new(state);
        let folded = Folded { state, version, position, last_hash, answered, correlation_id, forgotten };
        Self { stream, folded, pending: Vec::new(), payloads: Vec::new(), command_digest: None, salts }
    }

    pub(crate) fn last_hash(&self) -> Digest {
        self.folded.last_hash
    }

    pub(crate) fn stream(&self) -> &StreamId {
        &self.stream
    }

    /// Returns the state, including pending events.
    pub(crate) fn state(&self) -> &D {
        &self.folded.state
    }

    /// Returns the state, shared, for a caller that may keep it.
    pub(crate) fn shared_state(&self) -> Arc<D> {
        Arc::clone(&self.folded.state)
    }

    /// Returns the version on disk.
    pub(crate) fn version(&self) -> Version {
        self.folded.version
    }

    pub(crate) fn position(&self) -> Position {
        self.folded.position
    }

    /// Returns the events to be written.
    pub(crate) fn pending(&self) -> &[D::Event] {
        &self.pending
    }

    /// Returns the end of the stream on disk.
    pub(crate) fn committed(&self) -> Committed {
        Committed { version: self.folded.version, position: self.folded.position }
    }

    /// Returns the number of events, including pending ones.
    pub(crate) fn decided(&self) -> u64 {
        self.folded.version.0 + self.pending.len() as u64
    }

    /// Returns the total size of the pending bodies in bytes.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.payloads.iter().map(|payload| payload.body.len()).sum()
    }

    /// Returns the first answer to the command of this id, if it appended before. Where the content is not
    /// given, or no digest of it was kept, the id alone decides.
    ///
    /// # Errors
    /// [`Error::CommandIdReused`] if the id came with another content.
    pub(crate) fn answered(&self, id: &str, content: Option<&[u8]>) -> Result<Option<Committed>, Error> {
        let Some(known) = self.folded.answered.iter().rev().find(|known| known.command_id == id) else {
            return Ok(None);
        };
        match (&known.digest, content) {
            (Some(digest), Some(content)) if !digest.matches(content) => {
                Err(Error::CommandIdReused { command_id: id.to_owned() })
            }
            _ => Ok(Some(known.committed)),
        }
    }

    /// Returns the correlation id of the stream's last record; events that follow from it get the same id.
    pub(crate) fn correlation_id(&self) -> &str {
        &self.folded.correlation_id
    }

    /// Whether some commands are so old that only the log has them.
    pub(crate) fn has_forgotten(&self) -> bool {
        self.folded.forgotten
    }

    /// Steps 5 and 7: decides, and folds the decision.
    pub(crate) fn decide(&mut self, command: D::Command, metadata: &Metadata) -> Result<(), Error>
    where
        Error: From<D::Rejection>,
    {
        for event in self.folded.state.decide(command)? {
            self.payloads.push(event.encode()?);
            Arc::make_mut(&mut self.folded.state).evolve(&event, metadata);
            self.pending.push(event);
        }
        Ok(())
    }

    /// Decides, and leaves folding to the owner of the state.
    pub(crate) fn decide_unfolded(&mut self, command: D::Command) -> Result<(), Error>
    where
        Error: From<D::Rejection>,
    {
        for event in self.folded.state.decide(command)? {
            self.payloads.push(event.encode()?);
            self.pending.push(event);
        }
        Ok(())
    }

    /// Folds events that another actor appended right after this version; returns false if they do not
    /// follow.
    pub(crate) fn apply_committed(
        &mut self,
        after: Version,
        events: &[D::Event],
        metadata: &Metadata,
        committed: Committed,
        hash: Digest,
    ) -> bool {
        if after != self.folded.version {
            return false;
        }
        let state = Arc::make_mut(&mut self.folded.state);
        for event in events {
            state.evolve(event, metadata);
        }
        self.mark_committed(committed, hash, metadata);
        true
    }

    /// Looks up in the log whether the command of this id appended before, as [`Entity::answered`] does.
    pub(crate) async fn answered_in_log(
        &self,
        store: &Arc<dyn EventStore>,
        id: &str,
        content: &[u8],
    ) -> Result<bool, Error> {
        let (reader, stream, wanted) = (Arc::clone(store), self.stream.clone(), id.to_owned());
        let search = move || find_command(reader.as_ref(), &stream, &wanted);
        let found = on_blocking_pool(store, &self.stream, search).await??;
        match found.map(|metadata| metadata.command_digest) {
            None => Ok(false),
            Some(Some(digest)) if !digest.matches(content) => {
                Err(Error::CommandIdReused { command_id: id.to_owned() })
            }
            Some(_) => Ok(true),
        }
    }

    /// Returns the pending events as one part of an append, encoded, hashed and length-checked before the
    /// writer sees them. `content` is the command's, where its caller chose its id. It is called once per
    /// decision: if the append fails, the decision is dropped by
    /// reading the stream again.
    pub(crate) fn part(
        &mut self,
        fence: Fence,
        set: SetPart,
        metadata: &Metadata,
        content: Option<&[u8]>,
    ) -> Result<AppendPart, Error> {
        let first_version = Version(self.folded.version.0 + 1);
        let events = (0..).zip(std::mem::take(&mut self.payloads));
        let events = events.map(|(at, Payload { kind, schema, body })| EventBody {
            kind,
            schema,
            salt: self.salts.salt(first_version.0 + at),
            body,
        });
        let events: Vec<EventBody> = events.collect();
        let digest = |content| CommandDigest::of(events.iter().map(|event| &event.salt), content);
        self.command_digest = content.map(digest);
        let draft = RecordDraft {
            stream: self.stream.clone(),
            first_version,
            set_id: set.seed.set_id(),
            part: set.part,
            parts: set.parts,
            partition: fence.partition,
            epoch: fence.epoch,
            metadata: Metadata { command_digest: self.command_digest, ..metadata.clone() },
            fields: Vec::new(),
            previous: self.folded.last_hash,
            events,
        };
        let expected = ExpectedVersion::at(self.folded.version);
        let record = draft.encode_within(RECORD_BYTES_MAX)?;
        Ok(AppendPart { stream: self.stream.clone(), expected, record })
    }

    /// Notes that the pending events are on disk as `committed`, in a record with this hash, and returns
    /// them.
    pub(crate) fn mark_committed(
        &mut self,
        committed: Committed,
        hash: Digest,
        metadata: &Metadata,
    ) -> Vec<D::Event> {
        self.folded.version = committed.version;
        self.folded.position = committed.position;
        self.folded.last_hash = hash;
        self.folded.remember(metadata, self.command_digest.take());
        std::mem::take(&mut self.pending)
    }
}

impl<D> ReadStream for Entity<D>
where
    D: Decider + Default + Clone + Send + Sync + 'static,
    D::Event: Storable + Send + 'static,
{
    fn read_through(&self) -> ReadThrough {
        let digest = |(version, payload): (u64, &Payload)| {
            Digest::of_parts(&[&self.salts.salt(version), &payload.body])
        };
        let pending = (self.folded.version.0 + 1..).zip(&self.payloads).map(digest);
        let digest = read_digest(self.folded.last_hash, pending);
        ReadThrough { version: Version(self.decided()), digest }
    }
}

thread_local! {
    /// Whether this thread is for work that blocks.
    static READS_HERE: Cell<bool> = const { Cell::new(false) };
}

/// Does work on a thread that may block: it reads streams itself, since waiting there for another such thread could
/// leave none.
pub(crate) fn reading_here<T>(work: impl FnOnce() -> T) -> T {
    struct Reset;
    impl Drop for Reset {
        fn drop(&mut self) {
            READS_HERE.set(false);
        }
    }
    READS_HERE.set(true);
    let _reset = Reset;
    work()
}

/// Reads a stream: on the blocking pool, unless its store is in memory.
pub(crate) async fn on_blocking_pool<T: Send + 'static>(
    store: &Arc<dyn EventStore>,
    stream: &StreamId,
    read: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    if store.is_in_memory() || READS_HERE.get() {
        return Ok(read());
    }
    let done = tokio::task::spawn_blocking(read).await;
    done.map_err(|panic| Error::Internal(format!("reading {stream} panicked: {panic}")))
}

/// Returns the metadata of the command with this id, if the stream has one.
fn find_command(
    reader: &dyn EventReader,
    stream: &StreamId,
    command_id: &str,
) -> Result<Option<Metadata>, ReadError> {
    let mut from = Version(1);
    loop {
        let page = reader.page_stream(stream, from, Page::default())?;
        let Some(last) = page.last() else { return Ok(None) };
        from = Version(last.record.last_version().0 + 1);
        let found = page.iter().find(|stored| stored.record.metadata.command_id == command_id);
        if let Some(found) = found {
            return Ok(Some(found.record.metadata.clone()));
        }
    }
}
