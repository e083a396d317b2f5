//! Making snapshots: beside the commands, on the blocking pool, awaited by nobody.

use std::sync::Arc;

use proto_events::codec::Storable;
use proto_events::codec::state::Kept;
use proto_events::id::Version;
use tokio::sync::Semaphore;

use crate::actors::entity::Entity;
use crate::actors::shared::Shared;
use crate::limits::SNAPSHOTS_AT_ONCE;
use crate::store::Snapshot;

/// When snapshots are made.
#[derive(Clone)]
pub(crate) struct Snapshots {
    every: u64,
    room: Arc<Semaphore>,
}

impl Snapshots {
    /// One whenever a stream has grown by so many events.
    pub(crate) fn every(events: u64) -> Self {
        Self { every: events.max(1), room: Arc::new(Semaphore::new(SNAPSHOTS_AT_ONCE)) }
    }

    fn is_due(&self, before: Version, now: Version) -> bool {
        before.0 / self.every < now.0 / self.every
    }
}

impl Shared {
    /// Has a snapshot made of what is on disk, if it is due since the stream was at this version.
    pub(super) fn keep<D>(&self, entity: &Entity<D>, before: Version)
    where
        D: Kept + Default + Clone + Send + Sync + 'static,
        D::Event: Storable + Send + 'static,
    {
        let Some(snapshots) = self.snapshots.as_ref().filter(|due| due.is_due(before, entity.version()))
        else {
            return;
        };
        let Ok(room) = Arc::clone(&snapshots.room).try_acquire_owned() else { return };
        let (store, stream, folded) = (Arc::clone(&self.store), entity.stream().clone(), entity.folded());
        tokio::task::spawn_blocking(move || {
            let kept = Snapshot::of(&stream, &folded).and_then(|snapshot| store.put_snapshot(&snapshot));
            if let Err(why) = kept {
                tracing::warn!(%stream, why, "a snapshot was not kept");
            }
            drop(room);
        });
    }
}
