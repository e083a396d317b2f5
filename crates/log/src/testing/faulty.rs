//! A store that fails on demand.

pub(crate) mod plan;
pub(crate) mod reads;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use proto_events::id::{StreamId, Version};

use crate::api::append::{Append, AppendFuture, AppendPart, Appended};
use crate::api::check;
use crate::api::error::{AppendError, CloseError, OpenError};
use crate::api::feed::Feed;
use crate::api::figures::StoreFigures;
use crate::api::record::Fence;
use crate::api::store::EventStore;
pub(crate) use crate::testing::faulty::plan::{AppendFault, Faults};

/// A store that wraps another and fails on demand, to test how agents behave on a bad disk.
///
/// It behaves as the real store does when a write fails: the caller gets what can be known of its append, no
/// record of a failed group is shown, later appends are refused as poisoned, and durable records can still be
/// read. Reopening the log ends this state ([`EventStore::reopen`]); the plan of faults is passed on.
///
/// ```
/// use std::sync::Arc;
/// use taskreel_log::api::{AppendError, EventReader, EventStore};
/// use taskreel_log::memory::MemoryStore;
/// use taskreel_log::testing::conformance::{Author, stream};
/// use taskreel_log::testing::{AppendFault, Faults, FaultyStore};
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let faults = Faults::none();
/// let store = FaultyStore::new(Arc::new(MemoryStore::new()), faults.clone());
/// let append = Author::new(store.fence()).append_one(&stream("a"), b"paid");
/// faults.at_next_append(AppendFault::AfterWrite);
/// let answer = store.append(append.clone()).await;
/// assert!(matches!(answer, Err(AppendError::Ambiguous { .. })));
/// assert_eq!(store.head()?.0, 0, "nobody is shown what may be lost");
///
/// let reopened = store.reopen()?;
/// assert!(reopened.resolve(append.set_id)?.is_some(), "it is there: it must not be done again");
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # }).map_err(|error| error.to_string())?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// Pass it to a system with `System::builder(..).store(Arc::new(store))`.
pub struct FaultyStore {
    inner: Arc<dyn EventStore>,
    faults: Faults,
    state: Arc<Mutex<State>>,
}

/// The state of the store since it was opened.
#[derive(Debug, Default)]
struct State {
    /// The reason why no more appends are accepted.
    poisoned: Option<String>,
    /// The number of appends that still land of the group that is being torn.
    torn: Option<usize>,
    /// Appends passed on without a fault.
    sound: HashSet<[u8; 16]>,
    /// The versions at which streams end once the appends passed on are written.
    ends: HashMap<StreamId, Version>,
    /// Appends that may have landed and are not shown to readers.
    hidden: Vec<HiddenAppend>,
}

/// An append that is not shown to readers.
#[derive(Debug, Clone)]
struct HiddenAppend {
    set_id: [u8; 16],
    /// The append's streams, and the versions at which they ended before it.
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
    /// Wraps a store.
    pub fn new(inner: Arc<dyn EventStore>, faults: Faults) -> Self {
        Self { inner, faults, state: Arc::default() }
    }

    /// Returns the plan of faults.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Whether anything would be written: a repeated append and a refused one write nothing, so nothing can
    /// fail.
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

    /// Passes an append on without a fault. Its place in the inner store's queue is taken now, in the order
    /// of calls.
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

    /// Lets the write land and returns `Ambiguous` to its caller. With `shown`, only the reply is lost.
    fn land(&self, state: &mut State, append: Append, why: &str, shown: bool) -> AppendFuture {
        if !shown {
            state.hidden.push(HiddenAppend::from_append(&append));
        }
        let answer = self.inner.append(append);
        let (shared, why) = (Arc::clone(&self.state), why.to_owned());
        Box::pin(async move {
            let error = match answer.await {
                Ok(_) => AppendError::Ambiguous { why: why.clone() },
                // As in the real store: the refusal may depend on what the failed group did not write.
                Err(AppendError::Conflict { .. } | AppendError::Fenced { .. }) => {
                    AppendError::Poisoned { why: why.clone() }
                }
                Err(other) => other,
            };
            lock(&shared).poison(&why);
            Err(error)
        })
    }

    /// Handles an append of the group that is being torn.
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

impl HiddenAppend {
    fn from_append(append: &Append) -> Self {
        let streams = append.parts.iter().map(|part| (part.stream.clone(), part.expected.version()));
        Self { set_id: append.set_id, streams: streams.collect() }
    }
}

impl EventStore for FaultyStore {
    fn fence(&self) -> Fence {
        self.inner.fence()
    }

    fn append(&self, append: Append) -> AppendFuture {
        if let Err(error) = check::check_append(&append) {
            return refuse(error);
        }
        if self.inner.head().is_err() {
            // Closed: no fault applies.
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
            // An id that is already in the log is refused or answered before anything is written.
            Some(fault) if !matches!(self.inner.resolve(append.set_id), Ok(Some(_))) => {
                self.strike(&mut state, append, fault)
            }
            _ => self.hand_on(&mut state, append),
        }
    }

    fn poisoned(&self) -> Option<String> {
        self.lock().poisoned.clone().or_else(|| self.inner.poisoned())
    }

    fn figures(&self) -> Option<StoreFigures> {
        self.inner.figures()
    }

    fn resolve(&self, set_id: [u8; 16]) -> Result<Option<Appended>, crate::api::error::ReadError> {
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

    fn reopen(&self) -> Result<Arc<dyn EventStore>, OpenError> {
        if self.faults.refuses_opening() {
            let _ = self.close();
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
