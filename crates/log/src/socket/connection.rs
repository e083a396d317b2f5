//! The service of a single client of a socket, on a thread of its own: its requests one after another.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use proto_events::id::{Position, Version};

use crate::api::error::ReadError;
use crate::api::page::Page;
use crate::api::published_record::NextRecord;
use crate::api::record::{StoredRecord, StreamInfo};
use crate::api::store::EventStore;
use crate::limits::{
    READ_PAGE_BYTES, READ_PAGE_RECORDS, READ_PAGE_STREAMS, SOCKET_FRAME_WITHIN, SOCKET_GATHER,
    SOCKET_HELLO_WITHIN, SOCKET_IDLE, SOCKET_PIECE_BYTES, SOCKET_QUIET_EVERY, SOCKET_REQUEST_BYTES,
    SOCKET_TOGETHER_BYTES,
};
use crate::read::Subscription;
use crate::read::subscription::SubscriptionItem;
use crate::socket::frame::FrameKind;
use crate::socket::operator::{OperatorRefusal, OperatorRequest, RefusalKind};
use crate::socket::peer::Peer;
use crate::socket::state::{Phase, Places, State, TakenPlace};
use crate::socket::wire::{Answer, PROTOCOL, Request, StreamName};
use crate::socket::{frame, peer, records};

/// The next delivery of a subscription; none at its end.
type Delivered = Option<Result<SubscriptionItem, ReadError>>;

/// Takes the records and errors of a survey.
type Show<'a> = &'a mut dyn FnMut(Result<StoredRecord, ReadError>);

/// The number of positions before the log's end from which on a follower is at it.
const GATHERED_AT_MOST: u64 = 1_024;

/// Time for the refusal of a client for which no place is left.
const REFUSE_WITHIN: Duration = Duration::from_millis(50);

/// The way of a survey's records to the client.
struct FrameSender<'a> {
    client: &'a Client<'a>,
    /// The frames that are to be sent.
    frames: Vec<u8>,
    /// The time of the last word.
    said: Instant,
    /// The write that failed, after which nothing is sent.
    failed: Option<io::Error>,
}

/// Tells a client why it is not served.
pub(crate) fn refuse(stream: &UnixStream, why: &Answer) -> io::Result<()> {
    frame::write(stream, FrameKind::Json, &json(why)?, REFUSE_WITHIN)
}

/// Serves a client until it goes away, says what cannot be understood, or the socket is closed.
pub(crate) fn serve(state: &State, stream: &UnixStream, peer: &Peer) -> io::Result<()> {
    let client = Client { state, stream, peer };
    match client.request(SOCKET_HELLO_WITHIN)? {
        Some(Request::Hello { protocol: PROTOCOL }) => client.send(&Answer::Welcome(state.welcome()))?,
        Some(Request::Hello { .. }) => return client.send(&Answer::OtherProtocol { protocol: PROTOCOL }),
        Some(_) => {
            let why = "the first request of a connection must be `hello`".to_owned();
            return client.send(&Answer::Misunderstood { why });
        }
        None => return Ok(()),
    }
    while let Some(request) = client.request(SOCKET_IDLE)? {
        let Some(store) = state.store() else { return client.send(&Answer::Ended) };
        if client.answer(&store, request)?.is_break() {
            return Ok(());
        }
    }
    // The reading half of the connection is shut when the socket is.
    if state.is_gone() { client.send(&Answer::Ended) } else { Ok(()) }
}

fn json(answer: &Answer) -> io::Result<Vec<u8>> {
    serde_json::to_vec(answer).map_err(io::Error::other)
}

fn count(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

struct Client<'a> {
    state: &'a State,
    stream: &'a UnixStream,
    peer: &'a Peer,
}

impl Client<'_> {
    fn send(&self, answer: &Answer) -> io::Result<()> {
        frame::write(self.stream, FrameKind::Json, &json(answer)?, SOCKET_FRAME_WITHIN)
    }

    fn say_record(&self, record: &StoredRecord) -> io::Result<()> {
        records::write(self.stream, record, SOCKET_FRAME_WITHIN)
    }

    /// Reads the next request. One that cannot be understood is answered, and ends the connection.
    fn request(&self, within: Duration) -> io::Result<Option<Request>> {
        let Some(frame) = frame::read(self.stream, SOCKET_REQUEST_BYTES, within)? else { return Ok(None) };
        let parsed = match frame.kind {
            FrameKind::Json => serde_json::from_slice(&frame.bytes).map_err(|error| error.to_string()),
            kind => Err(format!("a client sends no frame of the kind {kind:?}")),
        };
        match parsed {
            Ok(request) => Ok(Some(request)),
            Err(why) => {
                self.send(&Answer::Misunderstood { why: why.clone() })?;
                Err(io::Error::new(io::ErrorKind::InvalidData, why))
            }
        }
    }

    /// Answers a request. Breaks if the connection ends with it.
    fn answer(&self, store: &Arc<dyn EventStore>, request: Request) -> io::Result<ControlFlow<()>> {
        match request {
            Request::Hello { .. } => {
                let why = "`hello` was said before".to_owned();
                self.send(&Answer::Misunderstood { why })?;
                return Ok(ControlFlow::Break(()));
            }
            Request::PageStream { stream, from, records, bytes } => {
                self.page(store.page_stream(&stream.0, Version(from), page(records, bytes)))?;
            }
            Request::PageAll { from, records, bytes } => {
                self.page(store.page_all(Position(from), page(records, bytes)))?;
            }
            Request::Head => self.number(store.head().map(|head| head.0))?,
            Request::StreamVersion { stream } => {
                self.number(store.stream_version(&stream.0).map(|version| version.0))?;
            }
            Request::ListStreams { prefix, after, limit } => {
                let limit = count(limit).min(READ_PAGE_STREAMS);
                let after = after.as_ref().map(|after| &after.0);
                self.streams(store.list_streams(&prefix, after, limit))?;
            }
            Request::OpenWork => {
                let unversioned = |stream| StreamInfo { stream, version: Version(0) };
                self.streams(store.open_work().map(|open| open.into_iter().map(unversioned).collect()))?;
            }
            Request::Survey => {
                let Some(_place) = self.wait_for(&self.state.surveys)? else {
                    return Ok(ControlFlow::Break(()));
                };
                self.survey(|goes_on, show| store.survey_while(goes_on, show))?;
            }
            Request::SurveyIndex => {
                let Some(_place) = self.wait_for(&self.state.index_surveys)? else {
                    return Ok(ControlFlow::Break(()));
                };
                self.survey(|goes_on, show| {
                    store.survey_index_while(goes_on, &mut |error| show(Err(error)));
                })?;
            }
            Request::Follow { stream, from } => {
                self.follow(store, stream, from)?;
                return Ok(ControlFlow::Break(()));
            }
            Request::Operator(request) => self.operator(request)?,
        }
        Ok(ControlFlow::Continue(()))
    }

    fn number(&self, number: Result<u64, ReadError>) -> io::Result<()> {
        self.send(&number.map_or_else(|error| Answer::Failed(error.into()), Answer::Number))
    }

    fn page(&self, read: Result<Vec<StoredRecord>, ReadError>) -> io::Result<()> {
        match read {
            Ok(page) => {
                let mut frames = Vec::new();
                page.iter().try_for_each(|record| self.gather(record, &mut frames).map(drop))?;
                frame::push_frame(&mut frames, FrameKind::Json, &json(&Answer::Done)?)?;
                self.say_frames(&mut frames)
            }
            Err(error) => self.send(&Answer::Failed(error.into())),
        }
    }

    fn streams(&self, read: Result<Vec<StreamInfo>, ReadError>) -> io::Result<()> {
        match read {
            Ok(streams) => {
                for some in streams.chunks(READ_PAGE_STREAMS) {
                    self.send(&Answer::Streams(some.iter().cloned().map(Into::into).collect()))?;
                }
                self.send(&Answer::Done)
            }
            Err(error) => self.send(&Answer::Failed(error.into())),
        }
    }

    /// Waits for its turn to have something surveyed; none if the socket ends.
    fn wait_for<'p>(&self, places: &'p Places) -> io::Result<Option<TakenPlace<'p>>> {
        loop {
            if let Some(place) = places.acquire(SOCKET_QUIET_EVERY) {
                return Ok(Some(place));
            }
            if self.state.is_gone() {
                return self.send(&Answer::Ended).map(|()| None);
            }
            self.send(&Answer::Quiet)?;
        }
    }

    /// Sends what a survey shows, and a word that it goes on where it shows nothing for long. The survey ends soon after its
    /// client has gone, or after a failed write.
    fn survey(&self, survey: impl FnOnce(&dyn Fn() -> bool, Show<'_>)) -> io::Result<()> {
        let sending = RefCell::new(FrameSender {
            client: self,
            frames: Vec::new(),
            said: Instant::now(),
            failed: None,
        });
        // It may have gone while it waited for its turn.
        sending.borrow_mut().record_sent(Ok(()));
        survey(&|| sending.borrow_mut().goes_on(), &mut |shown| sending.borrow_mut().show(shown));
        let FrameSender { mut frames, failed, .. } = sending.into_inner();
        failed.map_or(Ok(()), Err)?;
        frame::push_frame(&mut frames, FrameKind::Json, &json(&Answer::Done)?)?;
        self.say_frames(&mut frames)
    }

    /// Puts a record behind others that are sent together. Sends them if they are many, or if this one is large; returns whether
    /// it did.
    fn gather(&self, record: &StoredRecord, frames: &mut Vec<u8>) -> io::Result<bool> {
        if !records::put_stored(frames, record)? {
            self.say_frames(frames)?;
            self.say_record(record)?;
        } else if frames.len() >= SOCKET_TOGETHER_BYTES {
            self.say_frames(frames)?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// Sends records as they become durable, until the log or the socket is closed or the client goes away.
    fn follow(&self, store: &Arc<dyn EventStore>, stream: Option<StreamName>, from: u64) -> io::Result<()> {
        let Some(_place) = self.state.followers.acquire(Duration::ZERO) else {
            return self.send(&Answer::Busy);
        };
        let mut records = match stream {
            Some(name) => Subscription::stream(Arc::clone(store), name.0, Version(from)),
            None => Subscription::all(Arc::clone(store), Position(from)),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let mut phase = self.state.phase.subscribe();
        let (mut waiting, mut frames) = (None, Vec::new());
        loop {
            let next = runtime.block_on(async {
                if let Some(next) = waiting.take() {
                    return (!self.state.is_gone()).then_some(Ok(next));
                }
                // Polled, so that a page that takes longer than a second is not begun anew.
                tokio::select! {
                    biased;
                    _ = phase.wait_for(|phase| *phase == Phase::Gone) => None,
                    next = tokio::time::timeout(SOCKET_QUIET_EVERY, poll_fn(|cx| records.poll_next_record(cx))) => Some(next),
                }
            });
            match next {
                None | Some(Ok(None)) => return self.send(&Answer::Ended),
                // By each of these words a client that went away is noticed.
                Some(Err(_)) => self.send(&Answer::Quiet)?,
                Some(Ok(Some(Ok(SubscriptionItem::Record(record))))) => {
                    let next = record.position();
                    waiting = runtime.block_on(self.say_all_ready(record, &mut records, &mut frames))?;
                    // Who is at the log's end is shown what comes in a moment together: each group of the writer would wake this thread
                    // and the client, at the very moment at which the program needs its processors.
                    if waiting.is_none() && store.head().is_ok_and(|head| head.0 < next.0 + GATHERED_AT_MOST)
                    {
                        let no_longer_open = phase.wait_for(|phase| *phase != Phase::Open);
                        // Who sleeps while the socket is shut and the log is closed would miss the last records.
                        let _ = runtime
                            .block_on(async { tokio::time::timeout(SOCKET_GATHER, no_longer_open).await });
                    }
                }
                Some(Ok(Some(Ok(SubscriptionItem::Lagged { from, to })))) => {
                    self.send(&Answer::Lagged { from: from.0, to: to.0 })?;
                }
                Some(Ok(Some(Err(error)))) => return self.send(&Answer::Failed(error.into())),
            }
        }
    }

    /// Sends a record, and those that follow it already, with few writes: each write may wake the client. Returns what else
    /// came. `frames` is empty before and after.
    async fn say_all_ready(
        &self,
        mut record: NextRecord,
        records: &mut Subscription,
        frames: &mut Vec<u8>,
    ) -> io::Result<Option<Delivered>> {
        let mut other = None;
        while other.is_none() && frames.len() < SOCKET_PIECE_BYTES {
            if !records::push_record(frames, &record)? {
                self.say_frames(frames)?;
                self.say_record(record.stored())?;
            }
            match poll_fn(|cx| Poll::Ready(records.poll_next_record(cx))).await {
                Poll::Ready(Some(Ok(SubscriptionItem::Record(next)))) => record = next,
                Poll::Ready(next) => other = Some(next),
                Poll::Pending => {
                    self.say_frames(frames)?;
                    return Ok(None);
                }
            }
        }
        self.say_frames(frames)?;
        // The last record that was taken is sent with the next ones.
        Ok(other.or(Some(Some(Ok(SubscriptionItem::Record(record))))))
    }

    /// Sends frames, and keeps the room for the next ones.
    fn say_frames(&self, frames: &mut Vec<u8>) -> io::Result<()> {
        frame::write_all(self.stream, frames, SOCKET_FRAME_WITHIN)?;
        frames.clear();
        Ok(())
    }

    fn operator(&self, request: OperatorRequest) -> io::Result<()> {
        let carried_out = match &self.state.operator {
            Some(operator) => operator.carry_out(self.peer, request),
            None => Err(OperatorRefusal {
                kind: RefusalKind::NotTaken,
                why: "the program that has the log open takes no decisions".to_owned(),
            }),
        };
        self.send(&carried_out.map_or_else(Answer::Refused, Answer::Decided))
    }
}

impl FrameSender<'_> {
    /// Whether the client still listens. It is told that the survey goes on where it has heard nothing for long, or is sent what
    /// there is.
    fn goes_on(&mut self) -> bool {
        if self.failed.is_none() && self.said.elapsed() >= SOCKET_QUIET_EVERY {
            let quiet = self.frames.is_empty();
            let said = if quiet {
                self.client.send(&Answer::Quiet)
            } else {
                self.client.say_frames(&mut self.frames)
            };
            self.record_sent(said);
        }
        self.failed.is_none()
    }

    fn show(&mut self, shown: Result<StoredRecord, ReadError>) {
        if self.failed.is_some() {
            return;
        }
        match shown {
            Ok(record) => match self.client.gather(&record, &mut self.frames) {
                // Between slow records nobody may ask whether it goes on.
                Ok(false) => drop(self.goes_on()),
                Ok(true) => self.record_sent(Ok(())),
                Err(error) => self.record_sent(Err(error)),
            },
            Err(error) => {
                let put = json(&Answer::Failed(error.into()));
                let put =
                    put.and_then(|answer| frame::push_frame(&mut self.frames, FrameKind::Json, &answer));
                if put.is_err() {
                    self.record_sent(put);
                } else if self.frames.len() >= SOCKET_TOGETHER_BYTES {
                    let said = self.client.say_frames(&mut self.frames);
                    self.record_sent(said);
                } else {
                    self.goes_on();
                }
            }
        }
    }

    /// Notes a word, and looks whether the client still listens: it is asked here, since each question is a system call.
    fn record_sent(&mut self, said: io::Result<()>) {
        self.said = Instant::now();
        let is_gone =
            || peer::is_gone(self.client.stream).then(|| io::Error::from(io::ErrorKind::BrokenPipe));
        self.failed = said.err().or_else(is_gone);
    }
}

fn page(records: u64, bytes: u64) -> Page {
    Page { records: count(records).min(READ_PAGE_RECORDS), bytes: count(bytes).min(READ_PAGE_BYTES) }
}
