//! The entries of the tree `log` in order, for an opening that reads all of it. A thread of their own fetches and checks
//! values ahead of the one that builds the index: nobody else needs a processor before the log is open.

use std::iter;
use std::sync::mpsc::sync_channel;

use ::sled::{IVec, Tree};

use crate::engine::head::Frontier;
use crate::engine::keys::{Key, parse, value_key};
use crate::engine::value::Value;
use crate::sled::fence::fenced;
use crate::sled::straight::Straight;

/// The number of entries that are handed over together: a hand-over may wake a thread.
const TOGETHER: usize = 32;

/// The number of entries that are fetched without another thread.
const ALONE: usize = 64;

/// The ordinals that are multiples of this one are those where the quicker way is tried again.
const STRAIGHT_AGAIN: u64 = 16;

/// The number of hand-overs that may wait.
const AHEAD: usize = 4;

/// The tree `log`, and its values that can be read past the database.
pub(crate) type ByTwoWays<'a> = (&'a Tree, Option<&'a Straight>);

/// An entry of the tree.
pub(crate) struct LogEntry {
    pub(crate) key: IVec,
    pub(crate) value: IVec,
    /// The result of comparing the checksum of the value; a spacer has none.
    pub(crate) checked: Result<(), String>,
    /// The Merkle tree after the value, where it was computed ahead.
    pub(crate) tree: Option<TreeAfter>,
}

/// The Merkle tree over the log's records up to the end of a value.
#[derive(Debug)]
pub(crate) struct TreeAfter {
    pub(crate) whole: Frontier,
    /// The tree over as many records as `HEAD` covers, if the last of them is in this value.
    pub(crate) at_head: Option<Frontier>,
}

/// The scope of a pass over the log.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FetchScope {
    /// From the value with this ordinal on.
    From(u64),
    /// Over the whole log, with another thread that fetches ahead and computes the Merkle tree; `HEAD` covers so many records.
    Whole { head: u64 },
}

impl FetchScope {
    fn start_ordinal(self) -> u64 {
        match self {
            Self::From(ordinal) => ordinal,
            Self::Whole { .. } => 0,
        }
    }
}

/// Computes the Merkle tree of the whole log, value by value.
struct GrowingEnd {
    frontier: Frontier,
    head: u64,
}

impl GrowingEnd {
    /// Adds the records of a sound value; `None` if they cannot be told apart, where the scan ends.
    fn add(&mut self, value: &[u8]) -> Option<TreeAfter> {
        let mut at_head = None;
        for entry in Value::unchecked(value).ok()?.entries() {
            self.frontier.push(entry.ok()?.hash);
            if self.frontier.size() == self.head {
                at_head = Some(self.frontier.clone());
            }
        }
        Some(TreeAfter { whole: self.frontier.clone(), at_head })
    }
}

/// The reasons why the next entry cannot be had.
pub(crate) enum FetchError {
    /// The database returned an error.
    Database(::sled::Error),
    /// The database panicked.
    Panicked(String),
}

/// The entries that are left of a pass: values of which the place is known are read past the database, and the others, with
/// the spacers, by it.
struct RemainingValues<'a> {
    log: &'a Tree,
    straight: Option<&'a Straight>,
    /// The ordinal of the next value.
    next: u64,
    /// The database's own way, where it is the one that is gone.
    entries: Option<::sled::Iter>,
}

impl<'a> RemainingValues<'a> {
    fn from(log: &'a Tree, straight: Option<&'a Straight>, next: u64) -> Self {
        Self { log, straight, next, entries: None }
    }

    fn next(&mut self) -> Option<Result<(IVec, IVec), ::sled::Error>> {
        if self.entries.is_none()
            && let Some(value) = self.straight.and_then(|straight| straight.get(self.next))
        {
            let key = IVec::from(&value_key(self.next));
            self.next += 1;
            return Some(Ok((key, value)));
        }
        let entries = self.entries.get_or_insert_with(|| self.log.range(value_key(self.next)..));
        let entry = entries.next()?;
        if let Ok((key, _)) = &entry
            && let Some(Key::Value(ordinal)) = parse(key)
        {
            self.next = ordinal.saturating_add(1);
            let tries_again =
                |straight: &Straight| straight.is_needed || self.next.is_multiple_of(STRAIGHT_AGAIN);
            if self.straight.is_some_and(tries_again) {
                // The spacers behind this value are not missed: the last ones stand far behind the last value.
                self.entries = None;
            }
        }
        Some(entry)
    }
}

/// Shows `visit` the entries of a pass, until it returns an error. Nothing follows an error of
/// the database, whose iterator would repeat it forever.
pub(crate) fn for_each_entry<E>(
    (log, straight): ByTwoWays<'_>,
    pass: FetchScope,
    visit: &mut dyn FnMut(Result<LogEntry, FetchError>) -> Result<(), E>,
) -> Result<(), E> {
    let is_worth_it = |straight: &&Straight| straight.is_needed || matches!(pass, FetchScope::Whole { .. });
    let mut left = RemainingValues::from(log, straight.filter(is_worth_it), pass.start_ordinal());
    let mut growing = match pass {
        FetchScope::From(_) => None,
        FetchScope::Whole { head } => Some(GrowingEnd { frontier: Frontier::default(), head }),
    };
    let mut ended = false;
    let entries = iter::from_fn(move || {
        if ended {
            return None;
        }
        let next = match fenced(|| left.next()) {
            Ok(None) => return None,
            Ok(Some(Ok((key, value)))) => {
                // A spacer has no value.
                let is_spacer = matches!(parse(&key), Some(Key::Spacer(_)));
                let checked = if is_spacer { Ok(()) } else { Value::check(&value) };
                let growing = growing.as_mut().filter(|_| !is_spacer && checked.is_ok());
                let tree = growing.and_then(|growing| growing.add(&value));
                Ok(LogEntry { key, value, checked, tree })
            }
            Ok(Some(Err(error))) => Err(FetchError::Database(error)),
            Err(why) => Err(FetchError::Panicked(why)),
        };
        ended = next.is_err();
        Some(next)
    });
    if matches!(pass, FetchScope::From(_)) {
        let mut entries = entries;
        return entries.try_for_each(visit);
    }
    ahead(entries, Together { alone: ALONE, at_once: TOGETHER }, visit)
}

/// The number of items that are taken together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Together {
    /// The items that are taken without another thread: so few are had sooner than a thread is started.
    pub(crate) alone: usize,
    /// The items that are handed over at once.
    pub(crate) at_once: usize,
}

/// Shows `visit` what an iterator yields, until it returns an error. A thread of its own takes the items ahead.
pub(crate) fn ahead<T: Send, E>(
    mut items: impl Iterator<Item = T> + Send,
    together: Together,
    visit: &mut dyn FnMut(T) -> Result<(), E>,
) -> Result<(), E> {
    let mut alone = 0;
    items.by_ref().take(together.alone).inspect(|_| alone += 1).try_for_each(&mut *visit)?;
    if alone < together.alone {
        return Ok(());
    }
    let mut visited = None;
    std::thread::scope(|scope| {
        let (sender, receiver) = sync_channel(AHEAD);
        let items = &mut items;
        let fetch = move || {
            loop {
                let some: Vec<_> = items.by_ref().take(together.at_once).collect();
                if some.is_empty() || sender.send(some).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("taskreel-fetch".to_owned());
        if thread.spawn_scoped(scope, fetch).is_ok() {
            // The receiver ends with the visits, and the thread with it.
            visited = Some(receiver.into_iter().flatten().try_for_each(&mut *visit));
        }
    });
    visited.unwrap_or_else(|| items.try_for_each(visit))
}
