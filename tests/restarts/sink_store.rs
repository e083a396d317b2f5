//! A store that answers at reply sinks, from threads of its own, and ends appends as a test has planned it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "in a test a panic is the answer, in helpers too")]

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use futures_util::FutureExt as _;
use taskreel_log::api::{AnswersBySink, Append, AppendError, AppendFuture, AppendToken, EventStore, Fence};
use taskreel_log::testing::Overrides;

/// The time after which a test fails whose reply does not come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A store that answers at reply sinks, from threads of its own.
#[derive(Default)]
pub(crate) struct SinkStore {
    /// The fates of the next appends that hold these texts. Others are written.
    next: Mutex<Vec<(String, Next)>>,
    /// A mark that the next call panics.
    panics: AtomicBool,
}

impl SinkStore {
    pub(crate) fn plan(&self, text: &str, next: Next) {
        self.next.lock().unwrap().push((text.to_owned(), next));
    }

    fn take(&self, append: &Append) -> Option<Next> {
        let holds = |text: &str| {
            let mut records = append.parts.iter().map(|part| part.record.bytes());
            records.any(|record| record.windows(text.len()).any(|piece| piece == text.as_bytes()))
        };
        let mut all = self.next.lock().unwrap();
        let at = all.iter().position(|(text, _)| holds(text))?;
        Some(all.remove(at).1)
    }
}

/// The fate of an append.
pub(crate) enum Next {
    /// A plain end.
    Ends(End),
    /// An append that is written and says so, and says so again once it was answered.
    AnsweredAt { written: Sender<()>, at: Receiver<()>, answered: Sender<()> },
    /// An append that says that it was called, has its caller wait, and is written.
    HoldsUp { called: Sender<()>, until: Receiver<()> },
}

/// The end of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Written,
    /// The future of the append has the answer.
    WrittenElsewhere,
    /// An end of which the store does not tell: it is written.
    Lost,
    /// An end of which the store does not tell: it is not written.
    Unknown,
    /// The token is dropped.
    Dropped,
    /// Another writer came first. It is decided again.
    Conflict,
    Closed,
    /// The store panics when it is called.
    Panic,
    /// An end that is followed by a panic: it is written, and the store panics when it is next called, after the answer.
    WrittenBeforeAPanic,
}

impl Overrides for SinkStore {
    fn fence(&self, log: &dyn EventStore) -> Fence {
        assert!(!self.panics.swap(false, Ordering::SeqCst), "no fence");
        log.fence()
    }

    fn append_with(&self, log: &dyn EventStore, append: Append, token: AppendToken) -> Option<AppendFuture> {
        let next = self.take(&append);
        let write = |append| log.append(append).now_or_never().unwrap();
        let ambiguous = |why: &str| Err(AppendError::Ambiguous { why: why.to_owned() });
        let (answer, word) = match next {
            None | Some(Next::Ends(End::Written)) => (write(append), None),
            Some(Next::AnsweredAt { written, at, answered }) => {
                let answer = write(append);
                written.send(()).unwrap();
                (answer, Some((at, answered)))
            }
            Some(Next::HoldsUp { called, until }) => {
                called.send(()).unwrap();
                until.recv_timeout(PATIENCE).unwrap();
                (write(append), None)
            }
            Some(Next::Ends(End::WrittenElsewhere)) => {
                token.withdraw();
                return Some(log.append(append));
            }
            Some(Next::Ends(End::Lost)) => {
                write(append).unwrap();
                (ambiguous("the answer is lost"), None)
            }
            Some(Next::Ends(End::Unknown)) => (ambiguous("the disk failed"), None),
            Some(Next::Ends(End::Dropped)) => return None,
            Some(Next::Ends(End::Closed)) => (Err(AppendError::Closed), None),
            Some(Next::Ends(End::Panic)) => panic!("no store"),
            Some(Next::Ends(End::WrittenBeforeAPanic)) => {
                let answer = write(append);
                self.panics.store(true, Ordering::SeqCst);
                (answer, None)
            }
            Some(Next::Ends(End::Conflict)) => {
                let part = append.parts.first().unwrap();
                let (stream, expected) = (part.stream.clone(), part.expected);
                let actual = log.stream_version(&stream).unwrap();
                (Err(AppendError::Conflict { stream, expected, actual }), None)
            }
        };
        std::thread::spawn(move || {
            let answered = word.map(|(at, answered)| {
                at.recv_timeout(PATIENCE).unwrap();
                answered
            });
            let mut answers = AnswersBySink::default();
            answers.add(token, answer);
            answers.hand_over();
            if let Some(answered) = answered {
                answered.send(()).unwrap();
            }
        });
        None
    }
}
