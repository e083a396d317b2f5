//! The systems of this process over each store. A store that several systems share stays open until the last of them
//! has ended, and an agent belongs to one system over a store: two would decide about the same tasks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use taskreel_log::api::EventStore;

use crate::error::Error;

/// The owners of all stores that are in use.
static OWNERS: Mutex<Vec<OwnerEntry>> = Mutex::new(Vec::new());

/// A system over a store.
struct OwnerEntry {
    store: usize,
    /// The system's agents, which no other system over the store has.
    agents: Arc<[String]>,
    /// Whether this system is about to close the store, so that no other may join it.
    closes: bool,
}

/// The place of a system among the owners of its store. Dropping it gives the place up.
#[derive(Debug)]
pub(crate) struct Owner {
    store: usize,
    agents: Arc<[String]>,
    released: AtomicBool,
}

impl Owner {
    /// Makes the system of these agents an owner of the store.
    ///
    /// # Errors
    /// [`Error::Builder`] if one of them has a system over this store already, or the store is about to be closed.
    pub(crate) fn new(
        store: &Arc<dyn EventStore>,
        agents: impl IntoIterator<Item = String>,
    ) -> Result<Self, Error> {
        let agents: Arc<[String]> = agents.into_iter().collect();
        // Two handles on one store have one address, whatever their types.
        let store = Arc::as_ptr(store).cast::<()>().addr();
        let mut owners = owners();
        let is_taken =
            |agent: &&String| owners.iter().any(|entry| entry.store == store && entry.agents.contains(agent));
        if let Some(agent) = agents.iter().find(is_taken) {
            return Err(Error::Builder(format!(
                "the agent `{agent}` already has a running system over this store; use a clone of that system, shut it \
                 down first, or give this one another name with `Builder::name`"
            )));
        }
        if let Some(entry) = owners.iter().find(|entry| entry.store == store && entry.closes) {
            return Err(Error::Builder(format!(
                "the system of the agent `{}` is closing or reopening this store; wait until it has done so",
                entry.agents.first().map_or("", String::as_str)
            )));
        }
        owners.push(OwnerEntry { store, agents: Arc::clone(&agents), closes: false });
        Ok(Self { store, agents, released: AtomicBool::new(false) })
    }

    /// Returns whether no other system uses the store. If none does, none may join it from now on: the caller closes it.
    pub(crate) fn keeps_others_out(&self) -> bool {
        self.is_last(&mut owners())
    }

    /// Notes that the store stays open after all, so that others may join it.
    pub(crate) fn lets_others_in(&self) {
        owners().iter_mut().filter(|entry| self.is(entry)).for_each(|entry| entry.closes = false);
    }

    /// Leaves the store, which others use, or returns true: this system is the last one, no other may join it from now on,
    /// and the caller closes the store and then gives its place up. Of several that leave at once exactly one is the last;
    /// false for one that has left.
    pub(crate) fn leave(&self) -> bool {
        let mut owners = owners();
        if self.released.load(Ordering::Acquire) {
            return false;
        }
        let is_last = self.is_last(&mut owners);
        if !is_last {
            self.released.store(true, Ordering::Release);
            owners.retain(|entry| !self.is(entry));
        }
        is_last
    }

    fn is_last(&self, owners: &mut [OwnerEntry]) -> bool {
        if owners.iter().any(|entry| entry.store == self.store && !self.is(entry)) {
            return false;
        }
        owners.iter_mut().filter(|entry| self.is(entry)).for_each(|entry| entry.closes = true);
        true
    }

    fn is(&self, entry: &OwnerEntry) -> bool {
        entry.store == self.store && Arc::ptr_eq(&entry.agents, &self.agents)
    }

    /// Gives the place up. Returns whether it was the last one, so that the store must be closed; false the second time.
    pub(crate) fn release(&self) -> bool {
        if self.released.swap(true, Ordering::AcqRel) {
            return false;
        }
        let mut owners = owners();
        owners.retain(|entry| !self.is(entry));
        owners.iter().all(|entry| entry.store != self.store)
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.release();
    }
}

/// Ignores poisoning: the list is consistent between any two steps.
fn owners() -> MutexGuard<'static, Vec<OwnerEntry>> {
    OWNERS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use taskreel_log::memory::MemoryStore;

    use super::*;

    #[test]
    fn of_owners_that_leave_at_once_exactly_one_is_the_last() {
        for _ in 0..500 {
            let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
            let owners = ["a", "b", "c"].map(|agent| Owner::new(&store, [agent.to_owned()]).unwrap());
            let at_once = Barrier::new(owners.len());
            let last = std::thread::scope(|scope| {
                let leaving = owners.each_ref().map(|owner| {
                    scope.spawn(|| {
                        at_once.wait();
                        owner.leave()
                    })
                });
                leaving.into_iter().map(|one| one.join().unwrap()).filter(|last| *last).count()
            });
            assert_eq!(last, 1);
            assert_eq!(
                owners.iter().filter(|owner| owner.release()).count(),
                1,
                "and that one closes the store"
            );
        }
    }

    #[test]
    fn nobody_joins_a_store_that_is_about_to_be_closed() {
        let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
        let (one, other) =
            (Owner::new(&store, ["a".to_owned()]).unwrap(), Owner::new(&store, ["b".to_owned()]).unwrap());
        assert!(!one.keeps_others_out());
        assert!(!other.leave());
        let back = Owner::new(&store, ["b".to_owned()]).unwrap();
        assert!(!back.leave() && one.leave());
        let refused = Owner::new(&store, ["b".to_owned()]).unwrap_err().to_string();
        assert!(refused.contains("agent `a` is closing"), "{refused}");
        assert!(
            one.release() && !one.release() && !one.leave(),
            "the end of its thread closes nothing again"
        );
        assert!(Owner::new(&store, ["b".to_owned()]).is_ok());
    }

    #[test]
    fn a_store_that_stays_open_after_all_may_be_joined_again() {
        let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
        let one = Owner::new(&store, ["a".to_owned()]).unwrap();
        assert!(one.keeps_others_out() && Owner::new(&store, ["b".to_owned()]).is_err());
        one.lets_others_in();
        assert!(Owner::new(&store, ["b".to_owned()]).is_ok());
    }
}
