//! The entries of the tree `log` in order, for an opening that reads all of it. A thread of their own fetches and checks
//! values ahead of the one that builds the index: nobody else needs a processor before the log is open.

use std::iter;
use std::sync::mpsc::sync_channel;

use ::sled::{IVec, Tree};

use crate::engine::keys::{Key, parse, value_key};
use crate::engine::value::Value;
use crate::sled::fence::fenced;

/// The number of entries that are handed over together: a hand-over may wake a thread.
const TOGETHER: usize = 32;

/// The number of entries that are fetched without another thread.
const ALONE: usize = 64;

/// The number of hand-overs that may wait.
const AHEAD: usize = 4;

/// An entry of the tree.
pub(crate) struct Entry {
    pub(crate) key: IVec,
    pub(crate) value: IVec,
    /// The result of comparing the checksum of the value; a spacer has none.
    pub(crate) checked: Result<(), String>,
}

/// The reasons why the next entry cannot be had.
pub(crate) enum FetchError {
    /// The database returned an error.
    Database(::sled::Error),
    /// The database panicked.
    Panicked(String),
}

/// Shows `visit` the entries from the value with this ordinal on, until it returns an error. Nothing follows an error of
/// the database, whose iterator would repeat it forever.
pub(crate) fn for_each_entry<E>(
    log: &Tree,
    from: u64,
    is_ahead: bool,
    visit: &mut dyn FnMut(Result<Entry, FetchError>) -> Result<(), E>,
) -> Result<(), E> {
    let mut left = log.range(value_key(from)..);
    let mut ended = false;
    let mut entries = iter::from_fn(move || {
        if ended {
            return None;
        }
        let next = match fenced(|| left.next()) {
            Ok(None) => return None,
            Ok(Some(Ok((key, value)))) => {
                // A spacer has no value.
                let is_spacer = matches!(parse(&key), Some(Key::Spacer(_)));
                let checked = if is_spacer { Ok(()) } else { Value::check(&value) };
                Ok(Entry { key, value, checked })
            }
            Ok(Some(Err(error))) => Err(FetchError::Database(error)),
            Err(why) => Err(FetchError::Panicked(why)),
        };
        ended = next.is_err();
        Some(next)
    });
    if !is_ahead {
        return entries.try_for_each(visit);
    }
    // A small log is read sooner than a thread is started.
    let mut alone = 0;
    entries.by_ref().take(ALONE).inspect(|_| alone += 1).try_for_each(&mut *visit)?;
    if alone < ALONE {
        return Ok(());
    }
    let mut visited = None;
    std::thread::scope(|scope| {
        let (sender, receiver) = sync_channel(AHEAD);
        let entries = &mut entries;
        let fetch = move || {
            loop {
                let some: Vec<_> = entries.by_ref().take(TOGETHER).collect();
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
    visited.unwrap_or_else(|| entries.try_for_each(visit))
}
