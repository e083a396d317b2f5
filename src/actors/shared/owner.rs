//! The systems of this process over each store. A store that several systems share stays open until the last of them
//! has ended, and one agent has one system over a store: two would decide about the same tasks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use taskreel_log::api::EventStore;

use crate::error::Error;

/// The owners of all stores that are in use.
static OWNERS: Mutex<Vec<Entry>> = Mutex::new(Vec::new());

/// An agent's system over a store.
struct Entry {
    store: usize,
    agent: String,
}

/// The place of a system among the owners of its store. Dropping it gives the place up.
#[derive(Debug)]
pub(crate) struct Owner {
    store: usize,
    agent: String,
    released: AtomicBool,
}

impl Owner {
    /// Makes an agent's system an owner of the store.
    ///
    /// # Errors
    /// [`Error::Builder`] if the agent has a system over this store already.
    pub(crate) fn of(store: &Arc<dyn EventStore>, agent: &str) -> Result<Self, Error> {
        // Two handles on one store have one address, whatever their types.
        let store = Arc::as_ptr(store).cast::<()>().addr();
        let mut owners = owners();
        if owners.iter().any(|entry| entry.store == store && entry.agent == agent) {
            return Err(Error::Builder(format!(
                "the agent `{agent}` already has a running system over this store; use a clone of that system, shut it \
                 down first, or give this one another name with `Builder::agent`"
            )));
        }
        owners.push(Entry { store, agent: agent.to_owned() });
        Ok(Self { store, agent: agent.to_owned(), released: AtomicBool::new(false) })
    }

    /// Whether no other system uses the store.
    pub(crate) fn is_alone(&self) -> bool {
        owners().iter().filter(|entry| entry.store == self.store).all(|entry| entry.agent == self.agent)
    }

    /// Gives the place up. Returns whether it was the last one, so that the store must be closed; false the second time.
    pub(crate) fn release(&self) -> bool {
        if self.released.swap(true, Ordering::AcqRel) {
            return false;
        }
        let mut owners = owners();
        owners.retain(|entry| entry.store != self.store || entry.agent != self.agent);
        owners.iter().all(|entry| entry.store != self.store)
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.release();
    }
}

/// Ignores poisoning: the list is consistent between any two steps.
fn owners() -> MutexGuard<'static, Vec<Entry>> {
    OWNERS.lock().unwrap_or_else(PoisonError::into_inner)
}
