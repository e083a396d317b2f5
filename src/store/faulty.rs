//! A store that fails as asked: put it around any other, and see what your agents make of a bad disk.
//!
//! It behaves as the real store does when a write fails: the caller hears what can be known of its append, nothing
//! of a failed group is shown, later appends are refused as poisoned, and what was durable can still be read. Opening
//! the log anew ends that ([`EventStore::reopen`]); the plan of faults goes along.
//!
//! ```
//! use std::sync::Arc;
//! use taskreel::store::conformance::{Author, stream};
//! use taskreel::store::{AppendError, AppendFault, EventReader, EventStore, Faults, FaultyStore, MemoryStore};
//!
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let faults = Faults::none();
//! let store = FaultyStore::new(Arc::new(MemoryStore::new()), faults.clone());
//! let append = Author::new(store.fence()).one(&stream("a"), b"paid");
//! faults.at_next_append(AppendFault::AfterWrite);
//! let answer = store.append(append.clone()).await;
//! assert!(matches!(answer, Err(AppendError::Ambiguous { .. })));
//! assert_eq!(store.head()?.0, 0, "nobody is shown what may be lost");
//!
//! let reopened = store.reopen()?;
//! assert!(reopened.resolve(append.set_id)?.is_some(), "it is there: it must not be done again");
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! # }).map_err(|error| error.to_string())?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! A system is given one with `System::builder(..).store(Arc::new(store))`.

mod plan;
mod reads;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use proto_events::id::{StreamId, Version};

use super::{
    Append, AppendError, AppendFuture, AppendPart, Appended, CloseError, EventStore, Feed, Fence, OpenError,
    Snapshot, check,
};

pub use self::plan::{AppendFault, Faults, ReadFault, Struck};

/// A store around another that fails as asked; see the module.
pub struct FaultyStore {
    inner: Arc<dyn EventStore>,
    faults: Faults,
    state: Arc<Mutex<State>>,
}

/// What has happened since it was opened.
#[derive(Debug, Default)]
struct State {
    /// Why no more appends are taken.
    poisoned: Option<String>,
    /// The group that is being torn: how many of its appends still land.
    torn: Option<usize>,
    /// Appends handed on as they should be.
    sound: HashSet<[u8; 16]>,
    /// Where streams will end when what was handed on is written.
    ends: HashMap<StreamId, Version>,
    /// Appends that may have landed and are shown to nobody.
    hidden: Vec<Hidden>,
}

/// An append that is shown to nobody.
#[derive(Debug, Clone)]
struct Hidden {
    set_id: [u8; 16],
    /// Its streams, and where they ended before it.
    streams: Vec<(StreamId, Version)>,
}

impl fmt::Debug for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyStore")
            .field("faults", &self.faults)
            .field("state", &self.lock())
            .finish_non_exhaustive()
    }
}

impl FaultyStore {
    /// Puts faults around a store.
    pub fn new(inner: Arc<dyn EventStore>, faults: Faults) -> Self {
        Self { inner, faults, state: Arc::default() }
    }

    /// The plan.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Why the store takes no more appends, if a write has failed.
    pub fn poisoned(&self) -> Option<String> {
        self.lock().poisoned.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Whether anything would be written: a repeated append and a refused one write nothing, so nothing can fail.
    fn writes(&self, state: &State, append: &Append) -> bool {
        let fits = |part: &AppendPart| {
            let promised = state.ends.get(&part.stream).copied();
            let end = self.inner.stream_version(&part.stream).unwrap_or_default();
            part.expected.version() == promised.map_or(end, |promised| promised.max(end))
        };
        append.fence == self.inner.fence()
            && !state.sound.contains(&append.set_id)
            && append.parts.iter().all(fits)
    }

    /// Hands an append on as it should be. The place in the inner store's queue is taken now, in the order of calls.
    fn hand_on(&self, state: &mut State, append: Append) -> AppendFuture {
        let ends = append.parts.iter().map(|part| (part.stream.clone(), part.record.last_version()));
        let ends: Vec<_> = ends.collect();
        state.sound.insert(append.set_id);
        state.ends.extend(ends.iter().cloned());
        let (answer, shared) = (self.inner.append(append), Arc::clone(&self.state));
        Box::pin(async move {
            let answer = answer.await;
            if answer.is_err() {
                let mut state = lock(&shared);
                for (stream, _) in &ends {
                    state.ends.remove(stream);
                }
            }
            answer
        })
    }

    /// The write lands, and its caller hears that nobody knows. `shown`: it was the answer alone that was lost.
    fn land(&self, state: &mut State, append: Append, why: &str, shown: bool) -> AppendFuture {
        if !shown {
            state.hidden.push(Hidden::of(&append));
        }
        let answer = self.inner.append(append);
        let (shared, why) = (Arc::clone(&self.state), why.to_owned());
        Box::pin(async move {
            let error = match answer.await {
                Ok(_) => AppendError::Ambiguous { why: why.clone() },
                // As in the real store: a refusal may rest on what the failed group did not write.
                Err(AppendError::Conflict { .. } | AppendError::Fenced { .. }) => {
                    AppendError::Poisoned { why: why.clone() }
                }
                Err(other) => other,
            };
            lock(&shared).poison(&why);
            Err(error)
        })
    }

    /// An append of the group that is being torn.
    fn tear(&self, state: &mut State, append: Append, landing: usize) -> AppendFuture {
        const WHY: &str = "the group was torn while it was written";
        state.torn = Some(landing.saturating_sub(1));
        if landing > 0 {
            return self.land(state, append, WHY, false);
        }
        let shared = Arc::clone(&self.state);
        Box::pin(async move {
            lock(&shared).poison(WHY);
            Err(AppendError::Ambiguous { why: WHY.to_owned() })
        })
    }

    fn strike(&self, state: &mut State, append: Append, fault: AppendFault) -> AppendFuture {
        let why = match fault {
            AppendFault::TearGroup { landing } => return self.tear(state, append, landing),
            AppendFault::BeforeWrite => "the disk refused the write",
            AppendFault::AfterWrite => "the flush failed",
            AppendFault::LoseAnswer => "the writer ended without an answer",
            AppendFault::OutOfSpace => "no space left on the disk",
        };
        state.poison(why);
        match fault {
            AppendFault::AfterWrite => self.land(state, append, why, false),
            AppendFault::LoseAnswer => self.land(state, append, why, true),
            _ => refuse(AppendError::NotWritten { why: why.to_owned() }),
        }
    }
}

impl State {
    fn poison(&mut self, why: &str) {
        self.poisoned.get_or_insert_with(|| why.to_owned());
    }
}

impl Hidden {
    fn of(append: &Append) -> Self {
        let streams = append.parts.iter().map(|part| (part.stream.clone(), part.expected.version()));
        Self { set_id: append.set_id, streams: streams.collect() }
    }
}

impl EventStore for FaultyStore {
    fn fence(&self) -> Fence {
        self.inner.fence()
    }

    fn append(&self, append: Append) -> AppendFuture {
        if let Err(error) = check::agrees(&append) {
            return refuse(error);
        }
        if self.inner.head().is_err() {
            // Closed: nothing of it is ours to spoil.
            return self.inner.append(append);
        }
        let mut state = self.lock();
        if let Some(why) = &state.poisoned {
            return refuse(AppendError::Poisoned { why: why.clone() });
        }
        if let Some(landing) = state.torn {
            return self.tear(&mut state, append, landing);
        }
        if !self.writes(&state, &append) {
            return self.inner.append(append);
        }
        match self.faults.next_append() {
            // An id that is in the log already is refused or known, before anything is written.
            Some(fault) if !matches!(self.inner.resolve(append.set_id), Ok(Some(_))) => {
                self.strike(&mut state, append, fault)
            }
            _ => self.hand_on(&mut state, append),
        }
    }

    fn resolve(&self, set_id: [u8; 16]) -> Result<Option<Appended>, super::ReadError> {
        if self.lock().hides(set_id) { Ok(None) } else { self.inner.resolve(set_id) }
    }

    fn subscribe(&self) -> Feed {
        let state = Arc::clone(&self.state);
        self.inner.subscribe().only(move |stored| !lock(&state).hides(stored.record.set_id))
    }

    fn close(&self) -> Result<(), CloseError> {
        self.inner.close()?;
        match self.poisoned() {
            Some(why) => Err(CloseError::Poisoned { why }),
            None => Ok(()),
        }
    }

    fn put_snapshot(&self, snapshot: &Snapshot) -> Result<(), String> {
        self.inner.put_snapshot(snapshot)
    }

    fn get_snapshot(&self, stream: &StreamId) -> Result<Option<Snapshot>, String> {
        self.inner.get_snapshot(stream)
    }

    fn reopen(&self) -> Result<Arc<dyn EventStore>, OpenError> {
        if self.faults.refuses_opening() {
            let _it_is_closed_all_the_same = self.close();
            return Err(OpenError::NotReopened { why: "the disk is still gone".to_owned() });
        }
        Ok(Arc::new(Self::new(self.inner.reopen()?, self.faults.clone())))
    }
}

fn refuse(error: AppendError) -> AppendFuture {
    Box::pin(std::future::ready(Err(error)))
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
