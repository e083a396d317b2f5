//! A store around another that fails when it is told to, and takes nothing more until it is opened anew.

use std::sync::{Arc, Mutex, OnceLock};

use proto_events::id::{Position, StreamId, Version};
use taskreel::store::{
    Append, AppendError, AppendFuture, Appended, CloseError, EventReader, EventStore, Feed, Fence, OpenError,
    ReadError, StoredRecord, StreamInfo,
};

/// What goes wrong, once.
#[derive(Clone, Copy)]
pub(crate) enum Fault {
    /// The append is not written, and nobody can say so.
    BeforeWriting,
    /// The append is written, and nobody can say so.
    AfterWriting,
    /// Opening anew fails.
    Opening,
}

/// The faults to come; shared by a store and those that follow it.
#[derive(Clone, Default)]
pub(crate) struct Faults(Arc<Mutex<Option<Fault>>>);

impl Faults {
    pub(crate) fn next(&self, fault: Fault) {
        *self.0.lock().unwrap() = Some(fault);
    }

    pub(crate) fn is_to_come(&self) -> bool {
        self.0.lock().unwrap().is_some()
    }

    fn take(&self, wanted: impl Fn(Fault) -> bool) -> Option<Fault> {
        self.0.lock().unwrap().take_if(|fault| wanted(*fault))
    }
}

pub(crate) struct Faulty {
    inner: Arc<dyn EventStore>,
    faults: Faults,
    poisoned: Arc<OnceLock<()>>,
}

impl Faulty {
    pub(crate) fn around(inner: Arc<dyn EventStore>, faults: &Faults) -> Arc<dyn EventStore> {
        Arc::new(Self { inner, faults: faults.clone(), poisoned: Arc::default() })
    }
}

impl EventReader for Faulty {
    fn read_stream(
        &self,
        stream: &StreamId,
        from: Version,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        self.inner.read_stream(stream, from, limit)
    }

    fn read_all(&self, from: Position, limit: usize) -> Result<Vec<StoredRecord>, ReadError> {
        self.inner.read_all(from, limit)
    }

    fn head(&self) -> Result<Position, ReadError> {
        self.inner.head()
    }

    fn stream_version(&self, stream: &StreamId) -> Result<Version, ReadError> {
        self.inner.stream_version(stream)
    }

    fn list_streams(
        &self,
        prefix: &str,
        after: Option<&StreamId>,
        limit: usize,
    ) -> Result<Vec<StreamInfo>, ReadError> {
        self.inner.list_streams(prefix, after, limit)
    }
}

impl EventStore for Faulty {
    fn fence(&self) -> Fence {
        self.inner.fence()
    }

    fn append(&self, append: Append) -> AppendFuture {
        let why = || "the disk is gone".to_owned();
        if self.poisoned.get().is_some() {
            return Box::pin(async move { Err(AppendError::Poisoned { why: why() }) });
        }
        match self.faults.take(|fault| !matches!(fault, Fault::Opening)) {
            None => self.inner.append(append),
            Some(fault) => {
                let _ = self.poisoned.set(());
                let written = matches!(fault, Fault::AfterWriting).then(|| self.inner.append(append));
                Box::pin(async move {
                    if let Some(written) = written {
                        written.await.unwrap();
                    }
                    Err(AppendError::Ambiguous { why: why() })
                })
            }
        }
    }

    fn resolve(&self, set_id: [u8; 16]) -> Result<Option<Appended>, ReadError> {
        self.inner.resolve(set_id)
    }

    fn subscribe(&self) -> Feed {
        self.inner.subscribe()
    }

    fn close(&self) -> Result<(), CloseError> {
        self.inner.close()
    }

    fn reopen(&self) -> Result<Arc<dyn EventStore>, OpenError> {
        if self.faults.take(|fault| matches!(fault, Fault::Opening)).is_some() {
            self.inner.close().unwrap();
            return Err(OpenError::NotReopened { why: "the disk is still gone".to_owned() });
        }
        Ok(Self::around(self.inner.reopen()?, &self.faults))
    }
}
