//! The central loop: recover, decide, append, evolve, publish, reply. It is the same code for each kind of
//! stream.
//!
//! Decisions of one command are folded into the state at once, so that later ones of the same append see
//! them; [`Entity::part`] makes one record of them, and [`Entity::mark_committed`] notes that it is on disk. When the
//! append fails they are dropped by reading the stream again, so no reader ever sees a state that is not on
//! disk.

use std::borrow::Cow;
use std::sync::Arc;

use proto_events::call::read_digest;
use proto_events::codec::record::{EventBody, RecordDraft};
use proto_events::codec::{Payload, Storable};
use proto_events::decider::Decider;
use proto_events::envelope::{CommandDigest, Committed, Metadata, Timestamp, is_made_command};
use proto_events::id::{Digest, ExpectedVersion, Position, StreamId, Version};
use taskreel_log::api::{AppendPart, EventStore, Fence};
use taskreel_log::limits::RECORD_BYTES_MAX;
use taskreel_log::read::{FoldedStream, fold_stream};

use crate::actors::seed::Seed;
use crate::actors::stream_reads::{find_command, on_blocking_pool};
use crate::error::Error;
use crate::run::question::{ReadStream, ReadThrough};

/// The state of one stream, and the decisions that are not written yet.
pub(crate) struct Entity<D: Decider> {
    stream: StreamId,
    /// Shared with the receivers of answers, so that an answer costs no copy of the state.
    folded: FoldedStream<Arc<D>>,
    /// The events to be written, as far as their content did not move into the state.
    pending: Vec<D::Event>,
    /// All of them, encoded once, when they were decided.
    bodies: Vec<EventBody>,
    /// The digest of the command whose record was encoded last.
    command_digest: Option<CommandDigest>,
    /// The source of the salts of the events decided here.
    salts: Seed,
}

/// The append that a record belongs to, and the record's index in it.
#[derive(Clone, Copy)]
pub(crate) struct SetPart {
    pub(crate) set_id: [u8; 16],
    pub(crate) part: u16,
    pub(crate) parts: u16,
}

impl SetPart {
    /// The only record of an append.
    pub(crate) fn only(set_id: [u8; 16]) -> Self {
        Self { set_id, part: 0, parts: 1 }
    }
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
            bodies: Vec::new(),
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
        let last_at = Timestamp::default();
        let folded = FoldedStream {
            state,
            version,
            position,
            last_at,
            last_hash,
            answered,
            correlation_id,
            forgotten,
        };
        Self { stream, folded, pending: Vec::new(), bodies: Vec::new(), command_digest: None, salts }
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

    /// Whether there are events to be written.
    pub(crate) fn is_pending(&self) -> bool {
        !self.bodies.is_empty()
    }

    /// Returns the number of events to be written.
    pub(crate) fn pending_count(&self) -> usize {
        self.bodies.len()
    }

    /// Returns the events to be written, without those whose content has moved into the state.
    pub(crate) fn pending(&self) -> &[D::Event] {
        &self.pending
    }

    /// Returns the first event to be written, read from its encoded form.
    pub(crate) fn first_pending(&self) -> Option<D::Event> {
        let body = self.bodies.first()?;
        D::Event::decode(body.kind, body.schema, &body.body).ok()
    }

    /// Returns the end of the stream on disk.
    pub(crate) fn committed(&self) -> Committed {
        Committed { version: self.folded.version, position: self.folded.position }
    }

    /// Returns the number of events, including pending ones.
    pub(crate) fn decided(&self) -> u64 {
        self.folded.version.0 + self.bodies.len() as u64
    }

    /// Returns the total size of the pending bodies in bytes.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.bodies.iter().map(|event| event.body.len()).sum()
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

    /// Whether the command of this id may be in the log although it is not remembered.
    pub(crate) fn may_have_forgotten(&self, id: &str) -> bool {
        self.folded.version > Version(0) && (self.folded.forgotten || is_made_command(id))
    }

    /// Steps 5 and 7: decides, and folds the decision.
    pub(crate) fn decide(&mut self, command: D::Command, metadata: &Metadata) -> Result<(), Error>
    where
        Error: From<D::Rejection>,
    {
        for event in self.folded.state.decide(command)? {
            self.keep_encoded(&event)?;
            self.pending.extend(Arc::make_mut(&mut self.folded.state).evolve_moved(event, metadata));
        }
        Ok(())
    }

    /// Decides, and leaves folding to the owner of the state.
    pub(crate) fn decide_unfolded(&mut self, command: D::Command) -> Result<(), Error>
    where
        Error: From<D::Rejection>,
    {
        for event in self.folded.state.decide(command)? {
            self.keep_encoded(&event)?;
            self.pending.push(event);
        }
        Ok(())
    }

    fn keep_encoded(&mut self, event: &D::Event) -> Result<(), Error> {
        let Payload { kind, schema, body } = event.encode()?;
        let salt = self.salts.salt(self.decided() + 1);
        self.bodies.push(EventBody { kind, schema, salt, body });
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

    /// Looks in the log for the first answer to the command of this id, as [`Entity::answered`] does in memory.
    pub(crate) async fn search(
        store: &Arc<dyn EventStore>,
        stream: &StreamId,
        id: &str,
        content: &[u8],
    ) -> Result<Option<Committed>, Error> {
        let (reader, name, wanted) = (Arc::clone(store), stream.clone(), id.to_owned());
        let search = move || find_command(reader.as_ref(), &name, &wanted);
        let Some((metadata, committed)) = on_blocking_pool(store, stream, search).await?? else {
            return Ok(None);
        };
        match metadata.command_digest {
            Some(digest) if !digest.matches(content) => {
                Err(Error::CommandIdReused { command_id: id.to_owned() })
            }
            _ => Ok(Some(committed)),
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
        let events = std::mem::take(&mut self.bodies);
        let digest = |content| CommandDigest::new(events.iter().map(|event| &event.salt), content);
        self.command_digest = content.map(digest);
        let metadata = match self.command_digest {
            None => Cow::Borrowed(metadata),
            command_digest => Cow::Owned(Metadata { command_digest, ..metadata.clone() }),
        };
        let draft = RecordDraft {
            stream: self.stream.clone(),
            first_version: Version(self.folded.version.0 + 1),
            set_id: set.set_id,
            part: set.part,
            parts: set.parts,
            partition: fence.partition,
            epoch: fence.epoch,
            metadata,
            fields: Vec::new(),
            previous: self.folded.last_hash,
            events,
        };
        let expected = ExpectedVersion::exactly(self.folded.version);
        let record = draft.encode_within(RECORD_BYTES_MAX);
        self.bodies = draft.events;
        Ok(AppendPart { stream: draft.stream, expected, record: record? })
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
        self.folded.last_at = metadata.at;
        self.folded.last_hash = hash;
        self.folded.remember(metadata, self.command_digest.take());
        self.bodies.clear();
        std::mem::take(&mut self.pending)
    }
}

impl<D> ReadStream for Entity<D>
where
    D: Decider + Default + Clone + Send + Sync + 'static,
    D::Event: Storable + Send + 'static,
{
    fn read_through(&self) -> ReadThrough {
        let digest = |event: &EventBody| Digest::of_parts(&[&event.salt, &event.body]);
        let pending = self.bodies.iter().map(digest);
        let digest = read_digest(self.folded.last_hash, pending);
        ReadThrough { version: Version(self.decided()), digest }
    }
}
