//! A reader that fails: what it does not give is not checked, and is no fault of the log.

use std::sync::atomic::{AtomicUsize, Ordering};

use proto_events::id::{Position, StreamId, Version};
use taskreel_log::api::{EventReader, ReadError, StoredRecord, StreamInfo};
use taskreel_log::audit::verify;

use crate::{Doctored, sound};

/// A log whose reads fail from one of them on, or fail once.
struct Failing {
    log: Doctored,
    error: ReadError,
    /// The number of the first read that fails, and whether those after it fail too.
    at: usize,
    is_for_good: bool,
    read: AtomicUsize,
}

impl Failing {
    fn read<T>(&self, read: impl FnOnce() -> Result<T, ReadError>) -> Result<T, ReadError> {
        let number = self.read.fetch_add(1, Ordering::SeqCst);
        let fails = number == self.at || (self.is_for_good && number > self.at);
        if fails { Err(self.error.clone()) } else { read() }
    }
}

impl EventReader for Failing {
    fn read_stream(
        &self,
        stream: &StreamId,
        from: Version,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        self.read(|| self.log.read_stream(stream, from, limit))
    }

    fn read_all(&self, from: Position, limit: usize) -> Result<Vec<StoredRecord>, ReadError> {
        self.read(|| self.log.read_all(from, limit))
    }

    fn head(&self) -> Result<Position, ReadError> {
        self.read(|| self.log.head())
    }

    fn stream_version(&self, stream: &StreamId) -> Result<Version, ReadError> {
        self.read(|| self.log.stream_version(stream))
    }

    fn list_streams(
        &self,
        _: &str,
        after: Option<&StreamId>,
        limit: usize,
    ) -> Result<Vec<StreamInfo>, ReadError> {
        self.read(|| {
            let mut streams: Vec<_> =
                self.log.all.iter().map(|stored| stored.record.stream.clone()).collect();
            streams.sort();
            streams.dedup();
            let later = streams.into_iter().filter(|stream| after.is_none_or(|after| stream > after));
            let info =
                |stream: StreamId| Ok(StreamInfo { version: self.log.stream_version(&stream)?, stream });
            later.take(limit).map(info).collect()
        })
    }

    /// Goes on after a record that could not be read, as a log in a directory does.
    fn survey(&self, show: &mut dyn FnMut(Result<StoredRecord, ReadError>)) {
        for stored in &self.log.all {
            show(self.read(|| Ok(stored.clone())));
        }
    }

    fn survey_index(&self, show: &mut dyn FnMut(ReadError)) {
        if let Err(error) = self.read(|| Ok(())) {
            show(error);
        }
    }
}

#[test]
fn whichever_read_fails_a_sound_log_has_no_finding_and_is_not_called_sound() {
    let mut working = sound();
    working.all.pop();
    let copy_full = ReadError::Io("the disk of the copy is full".to_owned());
    for (error, log) in [(ReadError::Closed, sound()), (ReadError::Closed, working), (copy_full, sound())] {
        for is_for_good in [true, false] {
            let failing = |at| {
                let (log, error) = (log.clone(), error.clone());
                Failing { log, error, at, is_for_good, read: AtomicUsize::new(0) }
            };
            let whole = failing(usize::MAX);
            assert!(verify(&whole).is_sound());
            let reads = whole.read.into_inner();
            assert!(reads > 8, "{reads}");
            // The first read asks for the end of the log only to show the progress.
            for at in 1..reads {
                let found = verify(&failing(at));
                assert_eq!(found.findings, [], "read {at} of {reads} failed with {error:?}");
                assert_eq!(found.failed.as_ref(), Some(&error), "read {at} of {reads}");
                assert!(!found.is_sound());
                let named = found.unchecked.iter().any(|what| what.contains(&error.to_string()));
                assert!(named, "{:?}", found.unchecked);
            }
        }
    }
}

#[test]
fn damage_behind_what_could_not_be_read_is_found_all_the_same() {
    let mut log = sound();
    let last = log.all.last_mut().unwrap();
    last.hash.0[0] ^= 1;
    let error = ReadError::Closed;
    // The first read is that of the head, the next that of the first record.
    let found = verify(&Failing { log, error, at: 1, is_for_good: false, read: AtomicUsize::new(0) });
    assert_eq!(found.findings.len(), 1, "{:?}", found.findings);
    assert!(found.findings[0].what.contains("its bytes have the hash"));
    assert_eq!(found.failed, Some(ReadError::Closed));
}
