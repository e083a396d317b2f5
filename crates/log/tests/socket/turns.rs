//! Clients of a socket that wait for their turn or for a slow answer: a survey that says nothing for long, surveys of the
//! index at the same time, too many followers, and clients that ask nothing when the socket is closed.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use proto_events::id::{Position, StreamId};
use taskreel_log::api::{EventReader as _, EventStore, ReadError};
use taskreel_log::limits::{SOCKET_CONNECTIONS, SOCKET_FOLLOWERS};
use taskreel_log::sled::ReadOnlyOptions;
use taskreel_log::socket::{FollowEnd, FollowerItem, LocalSocket, SocketReader, SteadyReader};
use taskreel_log::testing::{DelegatingStore, Overrides};

use crate::Held;
use crate::hostile::{HELLO, another_socket, frame, raw, until};
use crate::store_support::quick_dir;

/// Surveys of the index that show nothing for a time, or until they are let go.
#[derive(Default)]
struct Slow {
    silent: Duration,
    /// Set while each survey is to last.
    is_held: AtomicBool,
    now: AtomicUsize,
    most: AtomicUsize,
    whole: AtomicUsize,
}

impl Overrides for Slow {
    fn survey_index_while(
        &self,
        _: &dyn EventStore,
        goes_on: &dyn Fn() -> bool,
        show: &mut dyn FnMut(ReadError),
    ) {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        let since = Instant::now();
        let mut goes = true;
        while goes && (since.elapsed() < self.silent || self.is_held.load(Ordering::SeqCst)) {
            goes = goes_on();
            std::thread::yield_now();
        }
        if goes {
            let what = "the only fault".to_owned();
            show(ReadError::Index { what, stream: None, version: None, position: None });
            self.whole.fetch_add(1, Ordering::SeqCst);
        }
        self.now.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Returns a held log whose surveys of the index are slow, and the store that makes them so.
fn slow(slow: Slow) -> (Held, Arc<DelegatingStore<Slow>>) {
    let mut held = Held::filled(3);
    let store = Arc::new(DelegatingStore::new(Arc::clone(&held.store) as Arc<dyn EventStore>, slow));
    drop(std::mem::replace(&mut held.socket, another_socket()));
    let shown = Arc::clone(&store) as Arc<dyn EventStore>;
    held.socket = LocalSocket::open(&held.store.socket_path(), shown, None).unwrap();
    (held, store)
}

/// Reads the JSON of the next frame.
fn answer(client: &mut UnixStream) -> String {
    let mut length = [0; 4];
    client.read_exact(&mut length).unwrap();
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    client.read_exact(&mut frame).unwrap();
    String::from_utf8(frame.split_off(1)).unwrap()
}

fn asking(held: &Held, request: &str) -> UnixStream {
    let mut client = raw(held);
    client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    client.write_all(&[frame(HELLO), frame(request)].concat()).unwrap();
    assert!(answer(&mut client).contains("welcome"));
    client
}

#[test]
fn a_survey_that_shows_nothing_for_longer_than_its_client_waits_is_heard_of_and_makes_no_copy() {
    let silent = Duration::from_secs(6);
    let (held, store) = slow(Slow { silent, ..Slow::default() });
    let scratch = quick_dir();
    let socket = held.reader().with_silence_of_at_most(silent / 2);
    let reader = SteadyReader::new(socket, ReadOnlyOptions::default().scratch(scratch.path()));
    let mut shown = Vec::new();
    reader.survey_index(&mut |error| shown.push(error.to_string()));
    assert_eq!(shown.len(), 1, "{shown:?}");
    assert!(shown[0].contains("the only fault"), "{shown:?}");
    assert_eq!(store.overrides().whole.load(Ordering::SeqCst), 1);
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0, "nothing was copied");
    assert!(held.socket.clients() <= 1, "the connection is used again");
}

#[test]
fn surveys_of_the_index_are_made_one_at_a_time_and_who_waits_is_told_so() {
    let (held, store) = slow(Slow { is_held: true.into(), ..Slow::default() });
    let mut clients: Vec<_> = (0..8).map(|_| asking(&held, "\"survey_index\"")).collect();
    for client in &mut clients {
        assert_eq!(answer(client), "\"quiet\"");
        assert_eq!(answer(client), "\"quiet\"");
    }
    assert_eq!(store.overrides().most.load(Ordering::SeqCst), 1, "each builds a second index");
    // A client that leaves while it waits takes no turn.
    drop(clients.pop());
    store.overrides().is_held.store(false, Ordering::SeqCst);
    for mut client in clients {
        loop {
            match answer(&mut client).as_str() {
                "\"quiet\"" => {}
                "\"done\"" => break,
                other => assert!(other.contains("the only fault"), "{other}"),
            }
        }
    }
    assert_eq!(store.overrides().most.load(Ordering::SeqCst), 1);
    until("their places are free", || held.socket.clients() == 0);
}

#[test]
fn who_waits_for_a_survey_does_not_hold_up_the_end_of_the_socket() {
    let (held, store) = slow(Slow { is_held: true.into(), ..Slow::default() });
    let mut clients: Vec<_> = (0..3).map(|_| asking(&held, "\"survey_index\"")).collect();
    until("one is surveyed", || store.overrides().now.load(Ordering::SeqCst) == 1);
    drop(held.socket);
    let mut ends = Vec::new();
    for client in &mut clients {
        let mut rest = Vec::new();
        match client.read_to_end(&mut rest) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        }
        ends.push(String::from_utf8_lossy(&rest).contains("\"ended\""));
    }
    assert_eq!(ends.iter().filter(|ended| **ended).count(), 2, "those who waited are told of the end");
    until("the survey ends", || store.overrides().now.load(Ordering::SeqCst) == 0);
}

#[test]
fn a_client_that_no_longer_wants_its_survey_ends_it_in_the_program() {
    let (held, store) = slow(Slow { is_held: true.into(), ..Slow::default() });
    let scratch = quick_dir();
    let options = ReadOnlyOptions::default().scratch(scratch.path());
    let reader = SteadyReader::new(held.reader(), options);
    let asked = AtomicUsize::new(0);
    let goes_on = || asked.fetch_add(1, Ordering::SeqCst) < 2;
    let mut shown = Vec::new();
    reader.survey_index_while(&goes_on, &mut |error| shown.push(error));
    assert_eq!(shown, []);
    until("the survey ends", || store.overrides().now.load(Ordering::SeqCst) == 0);
    assert_eq!(store.overrides().most.load(Ordering::SeqCst), 1);
    let mut records = 0;
    reader.survey_while(&|| false, &mut |_| records += 1);
    assert_eq!(records, 0);
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0, "nothing was copied");
}

#[test]
fn followers_leave_places_for_those_who_read_and_decide() {
    let mut held = Held::filled(3);
    let reader = held.reader();
    let mut followers: Vec<_> = (0..SOCKET_FOLLOWERS).map(|_| reader.follow(Position(1)).unwrap()).collect();
    for follower in &mut followers {
        assert!(matches!(follower.next().unwrap(), FollowerItem::Record(_)));
    }
    let one_more = || reader.follow(Position(1)).map(|mut follower| follower.next());
    assert!(matches!(one_more().unwrap(), Err(FollowEnd::Busy)));
    const { assert!(SOCKET_FOLLOWERS + 8 <= SOCKET_CONNECTIONS) };
    let others: Vec<_> = (0..8).map(|_| SocketReader::connect(held.dir.path()).unwrap()).collect();
    held.fill(2);
    for other in &others {
        assert_eq!(other.head().unwrap(), Position(5));
    }
    followers.pop();
    until("the place is free", || matches!(one_more().unwrap(), Ok(FollowerItem::Record(_))));
}

#[test]
fn a_client_that_asks_nothing_is_told_that_the_socket_was_closed() {
    let held = Held::filled(1);
    let mut client = asking(&held, "\"head\"");
    assert_eq!(answer(&mut client), r#"{"number":1}"#);
    drop(held.socket);
    assert_eq!(answer(&mut client), "\"ended\"");
    assert_eq!(client.read(&mut [0; 1]).unwrap(), 0);
}

#[test]
fn appends_go_on_while_streams_are_listed_work_is_asked_for_and_the_index_is_surveyed() {
    let mut held = Held::filled(400);
    let store = Arc::clone(&held.store);
    let (is_over, listed) = (AtomicBool::new(false), Mutex::new(Vec::<StreamId>::new()));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                let all = store.list_streams("", None, usize::MAX).unwrap();
                *listed.lock().unwrap() = all.into_iter().map(|info| info.stream).collect();
                assert_eq!(store.open_work().unwrap(), []);
                store.survey_index(&mut |error| panic!("{error}"));
            }
        });
        for _ in 0..20 {
            held.fill(20);
        }
        is_over.store(true, Ordering::SeqCst);
    });
    let all = held.store.list_streams("", None, usize::MAX).unwrap();
    assert!(all.is_sorted_by_key(|info| info.stream.clone()));
    assert!(listed.lock().unwrap().iter().all(|stream| all.iter().any(|info| info.stream == *stream)));
}
