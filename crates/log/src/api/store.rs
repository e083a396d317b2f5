//! The whole log: reading, appending, following, closing.

use std::sync::Arc;

use crate::api::append::{Append, AppendFuture, Appended};
#[cfg(doc)]
use crate::api::error::AppendError;
use crate::api::error::{CloseError, OpenError, ReadError};
use crate::api::feed::Feed;
use crate::api::figures::StoreFigures;
use crate::api::reader::EventReader;
use crate::api::record::Fence;
use crate::api::reply_sink::AppendToken;

/// The whole log: what a store implements. Its rules of reading are [`EventReader`]'s.
///
/// ```
/// use taskreel_log::api::{EventReader as _, EventStore};
/// use taskreel_log::memory::MemoryStore;
///
/// let store: std::sync::Arc<dyn EventStore> = std::sync::Arc::new(MemoryStore::new());
/// assert_eq!(store.head().unwrap().0, 0);
/// store.close().unwrap();
/// let reopened = store.reopen().unwrap();
/// assert_eq!(reopened.fence().epoch, store.fence().epoch + 1);
/// ```
///
/// # Rules of appending
/// Each store keeps them; the suite `taskreel_log::testing::conformance` (feature `testing`) checks them, and the
/// example `toy_store` of this crate is a small store that passes it. In this order, an append
///
/// 1. is refused with [`AppendError::Closed`] once the store is closed, and with the errors of
///    [`check_append`](crate::api::check_append) if it contradicts itself;
/// 2. is answered from the log if its set id is there: with the first result if streams and versions are the same,
///    even if the streams were extended since, otherwise with [`AppendError::Invalid`]
///    ([`repeated_append`](crate::api::repeated_append) does both). A set id is known for the life of the log, also
///    after reopening, and while its append still waits in the queue. The newest
///    [`APPENDS_REMEMBERED`](crate::limits::APPENDS_REMEMBERED) are answered under an earlier fence too;
/// 3. is refused with [`AppendError::Fenced`] unless it has the store's fence;
/// 4. is refused with [`AppendError::Conflict`] at its first part whose expected version is not the stream's last
///    one, and with [`other_history`](crate::api::other_history) if the version is the expected one and
///    [`EncodedRecord::previous`](proto_events::codec::record::EncodedRecord::previous) is not the leaf hash of the
///    stream's last record (the zero digest for a new stream);
/// 5. gets the next positions, one for each event, in the order of the calls and of its parts; it is written as a
///    whole or not at all, however large it is, and its future resolves once it is durable.
///
/// Appends may come from any number of threads at once: of those that expect the same version of a stream, exactly
/// one wins. An append that was refused is not in the log.
///
/// # Rules of following, closing and reopening
/// * [`EventStore::subscribe`] shows each record once it is durable, whole and in the order of the log, from the
///   call on. A feed that is more than [`SUBSCRIBER_BUFFER`](crate::limits::SUBSCRIBER_BUFFER) records behind is
///   notified of how many it missed. Feeds end when the store is closed.
/// * [`EventStore::close`] acknowledges the appends that wait, then refuses all others. A store is closed any number
///   of times.
/// * [`EventStore::reopen`] closes this store, if it is still open, and returns another on the same log, with the same
///   records, the same partition and the next epoch: the earlier writer's appends are then refused, those in the log
///   excepted, which get their first result. Of two calls the second fails, since the log is open already.
/// * After a write whose outcome is unknown the caller gets [`AppendError::Ambiguous`]; readers and feeds are shown
///   the append only if it is durable for certain, and all later appends are refused with
///   [`AppendError::Poisoned`] until the log is reopened. The reopened log holds the append or does not, and
///   [`EventStore::resolve`] says which.
pub trait EventStore: EventReader {
    /// Returns the fence that an append must carry to be accepted.
    fn fence(&self) -> Fence;

    /// Whether reads never wait for a disk, so that readers need no separate thread.
    fn is_in_memory(&self) -> bool {
        false
    }

    /// Adds records. The place in the queue is taken at the call; the future resolves when they are durable,
    /// and waits while the queue is full.
    ///
    /// Repeating an append (the same set id, streams and expected versions) returns the first result, even if
    /// the streams have been extended since.
    fn append(&self, append: Append) -> AppendFuture;

    /// Adds records as [`EventStore::append`] does, and answers at the token's reply sink, where the answers of a whole group
    /// arrive together. A store that does not answer there, or whose queue is full, withdraws the token and returns the
    /// future of the append; so does a store that does not implement this.
    fn append_with(&self, append: Append, token: AppendToken) -> Option<AppendFuture> {
        token.withdraw();
        Some(self.append(append))
    }

    /// Returns the first failure after which the store takes no more appends until it is reopened. None is known of a store
    /// that does not implement this; the errors of its appends tell it.
    fn poisoned(&self) -> Option<String> {
        None
    }

    /// Returns the figures of the store's writes since it was opened. None are known of a store that does not implement this.
    fn figures(&self) -> Option<StoreFigures> {
        None
    }

    /// Returns the result of the append with this id, if it is in the log: call this after
    /// [`AppendError::Ambiguous`], on the reopened store. Quick for the newest 8,192 appends, a scan of the
    /// whole log for others.
    ///
    /// # Errors
    /// [`ReadError`] if the log cannot be read.
    fn resolve(&self, set_id: [u8; 16]) -> Result<Option<Appended>, ReadError>;

    /// Returns a feed of the records that become durable from now on, in order.
    fn subscribe(&self) -> Feed;

    /// Refuses new appends, makes all queued ones durable, and releases the log, so that it can be opened
    /// again at once. Blocks until then: call it on the blocking pool. Closing twice is allowed.
    ///
    /// # Errors
    /// [`CloseError`] if a step failed. Acknowledged appends are durable all the same.
    fn close(&self) -> Result<(), CloseError>;

    /// Closes this store, if it is not closed yet, and reopens the same log under the next epoch, which is
    /// needed after a failed write. This store stays closed. Blocks: call it on the blocking pool. After an
    /// error it may be called again, once the cause is removed.
    ///
    /// # Errors
    /// [`OpenError`], as for any opening; [`OpenError::NotReopened`] from a store that cannot reopen its log.
    fn reopen(&self) -> Result<Arc<dyn EventStore>, OpenError> {
        Err(OpenError::NotReopened { why: "this kind of store cannot reopen its log".to_owned() })
    }
}
