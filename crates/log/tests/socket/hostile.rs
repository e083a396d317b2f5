//! Hostile clients of a socket: whatever they send, or do not read, they harm nobody.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use proto_events::id::Position;
use taskreel_log::api::{EventReader as _, EventStore, ReadError, StoredRecord};
use taskreel_log::limits::{SOCKET_CONNECTIONS, SOCKET_SURVEYS};
use taskreel_log::sled::SledStore;
use taskreel_log::socket::{LocalSocket, SOCKET_FILE, SocketError, SocketReader};
use taskreel_log::testing::conformance::stream;
use taskreel_log::testing::{DelegatingStore, Overrides};

use crate::Held;
use crate::store_support::{append, quick_dir};

/// Returns a socket of another log, to take the place of one.
pub(crate) fn another_socket() -> LocalSocket {
    let dir = quick_dir();
    let store = Arc::new(SledStore::open(dir.path()).unwrap());
    LocalSocket::open(&store.socket_path(), Arc::clone(&store) as Arc<dyn EventStore>, None).unwrap()
}

pub(crate) fn raw(held: &Held) -> UnixStream {
    UnixStream::connect(held.dir.path().join(SOCKET_FILE)).unwrap()
}

pub(crate) fn frame(json: &str) -> Vec<u8> {
    let mut frame = u32::try_from(json.len() + 1).unwrap().to_be_bytes().to_vec();
    frame.push(b'J');
    frame.extend_from_slice(json.as_bytes());
    frame
}

/// Reads the next frame: the byte of its kind, and what follows.
fn read_frame(client: &mut UnixStream) -> Vec<u8> {
    let mut length = [0; 4];
    client.read_exact(&mut length).unwrap();
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    client.read_exact(&mut frame).unwrap();
    frame
}

/// Waits until a condition holds.
#[track_caller]
pub(crate) fn until(what: &str, holds: impl Fn() -> bool) {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::yield_now();
    }
}

pub(crate) const HELLO: &str = r#"{"hello":{"protocol":2}}"#;

#[test]
fn garbage_half_frames_and_huge_lengths_end_their_own_connection_only() {
    let mut held = Held::filled(3);
    let reader = held.reader();
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let sent: Vec<Vec<u8>> = vec![
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![0; 64],
        vec![0xff; 64],
        vec![0, 0],
        [&frame(HELLO)[..], &[0xff, 0xff, 0xff, 0xff, b'J']].concat(),
        [&frame(HELLO)[..], &[0, 16, 0, 2, b'J'], &vec![b'x'; 1_048_577]].concat(),
        [&frame(HELLO)[..], &frame("{")].concat(),
        [&frame(HELLO)[..], &frame(&deep)].concat(),
        [&frame(HELLO)[..], &frame(HELLO)].concat(),
        [&frame(HELLO)[..], &frame(r#"{"page_all":{"from":-1,"records":1,"bytes":1}}"#)].concat(),
        [&frame(HELLO)[..], &frame(r#"{"stream_version":{"stream":"\u0000"}}"#)].concat(),
        [&frame(HELLO)[..], &frame(r#"{"erase":"all"}"#)].concat(),
        frame(r#""head""#),
        frame(r#"{"hello":{"protocol":77}}"#),
        [&frame(HELLO)[..], &[0, 0, 0, 9, b'R', 1, 2, 3]].concat(),
    ];
    for bytes in &sent {
        let mut client = raw(&held);
        // The program may close before all is sent.
        let _ = client.write_all(bytes);
        let _ = client.shutdown(std::net::Shutdown::Write);
        client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut answer = Vec::new();
        let ended = client.read_to_end(&mut answer);
        let reset = |error: &std::io::Error| error.kind() == std::io::ErrorKind::ConnectionReset;
        assert!(ended.is_ok() || ended.as_ref().is_err_and(reset), "{ended:?} after {:?}", bytes.get(..20));
    }
    held.fill(2);
    assert_eq!(reader.head().unwrap(), Position(5));
    until("the places of those clients are free", || held.socket.clients() <= 1);
}

#[test]
fn a_page_of_any_size_is_bounded_and_answered() {
    let held = Held::filled(600);
    let mut client = raw(&held);
    client.write_all(&frame(HELLO)).unwrap();
    let all = format!(r#"{{"page_all":{{"from":0,"records":{0},"bytes":{0}}}}}"#, u64::MAX);
    client.write_all(&frame(&all)).unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).unwrap();
    let (mut at, mut records) = (0, 0);
    while let Some(head) = answer.get(at..at + 5) {
        records += usize::from(head[4] == b'R');
        at += 4 + u32::from_be_bytes([head[0], head[1], head[2], head[3]]) as usize;
    }
    assert_eq!((at, records), (answer.len(), 256));
}

#[test]
fn clients_that_never_read_hinder_neither_the_writer_nor_the_close() {
    let mut held = Held::new(None);
    for _ in 0..8 {
        let large = held.author.append_one(&stream("large"), &vec![b'x'; 1_000_000]);
        append(&held.store, large);
    }
    let stuck: Vec<_> = ["\"survey\"", r#"{"follow":{"stream":null,"from":1}}"#]
        .into_iter()
        .flat_map(|request| [request; 4])
        .map(|request| {
            let mut client = raw(&held);
            client.write_all(&[frame(HELLO), frame(request)].concat()).unwrap();
            client
        })
        .collect();
    // The first answer shows that the program has begun to send what nobody takes.
    for mut client in &stuck {
        client.read_exact(&mut [0; 64]).unwrap();
    }
    let since = Instant::now();
    held.fill(200);
    assert_eq!(held.reader().head().unwrap(), Position(208));
    let socket = held.socket.shut();
    held.store.close().unwrap();
    assert!(since.elapsed() < Duration::from_secs(10), "{:?}", since.elapsed());
    drop(socket);
    drop(stuck);
}

/// Counts what its surveys show, and notes how that of its index ended.
#[derive(Default)]
struct Surveyed {
    shown: AtomicUsize,
    /// Whether the survey of the index was told to end.
    ended: OnceLock<bool>,
}

impl Overrides for Surveyed {
    fn survey_while(
        &self,
        log: &dyn EventStore,
        goes_on: &dyn Fn() -> bool,
        show: &mut dyn FnMut(Result<StoredRecord, ReadError>),
    ) {
        log.survey_while(goes_on, &mut |record| {
            self.shown.fetch_add(1, Ordering::SeqCst);
            show(record);
        });
    }

    /// A survey that has nothing to say for a long time.
    fn survey_index_while(
        &self,
        _: &dyn EventStore,
        goes_on: &dyn Fn() -> bool,
        _: &mut dyn FnMut(ReadError),
    ) {
        self.shown.fetch_add(1, Ordering::SeqCst);
        let since = Instant::now();
        while goes_on() && since.elapsed() < Duration::from_secs(20) {
            std::thread::yield_now();
        }
        self.ended.get_or_init(|| !goes_on());
    }
}

#[test]
fn a_survey_ends_when_its_client_has_gone() {
    let mut held = Held::new(None);
    for _ in 0..2_000 {
        let record = held.author.append_one(&stream("s"), &[b'x'; 4_000]);
        append(&held.store, record);
    }
    let store = Arc::clone(&held.store) as Arc<dyn EventStore>;
    let counted = Arc::new(DelegatingStore::new(store, Surveyed::default()));
    drop(std::mem::replace(&mut held.socket, another_socket()));
    let shown = Arc::clone(&counted) as Arc<dyn EventStore>;
    held.socket = LocalSocket::open(&held.store.socket_path(), shown, None).unwrap();
    for (request, most) in [("\"survey\"", 1_500), ("\"survey_index\"", 1)] {
        counted.overrides().shown.store(0, Ordering::SeqCst);
        let mut client = raw(&held);
        client.write_all(&[frame(HELLO), frame(request)].concat()).unwrap();
        until("the survey has begun", || counted.overrides().shown.load(Ordering::SeqCst) > 0);
        drop(client);
        until("its connection has ended", || held.socket.clients() == 0);
        let shown = counted.overrides().shown.load(Ordering::SeqCst);
        assert!((1..=most).contains(&shown), "{request}: {shown} records for nobody");
    }
    assert_eq!(counted.overrides().ended.get(), Some(&true));
    // Nothing is read for those who do not go on.
    let asked = AtomicUsize::new(0);
    let goes_on = || asked.fetch_add(1, Ordering::SeqCst) < 3;
    let mut errors = Vec::new();
    held.store.survey_index_while(&goes_on, &mut |error| errors.push(error));
    assert_eq!((asked.load(Ordering::SeqCst), errors), (4, vec![ReadError::Closed]));
}

#[test]
fn surveys_of_the_records_wait_for_their_turn_and_are_made_once_there_is_a_place() {
    let mut held = Held::new(None);
    for _ in 0..8 {
        let large = held.author.append_one(&stream("large"), &vec![b'x'; 1_000_000]);
        append(&held.store, large);
    }
    // As many as there are places read nothing of what they asked for.
    let mut stuck: Vec<_> = (0..SOCKET_SURVEYS).map(|_| raw(&held)).collect();
    for client in &mut stuck {
        client.write_all(&[frame(HELLO), frame("\"survey\"")].concat()).unwrap();
    }
    for client in &mut stuck {
        // Behind the welcome comes the first record.
        let mut taken = [0; 4_096];
        client.read_exact(&mut taken).unwrap();
    }
    let mut waits = raw(&held);
    waits.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    waits.write_all(&[frame(HELLO), frame("\"survey\"")].concat()).unwrap();
    let welcome = read_frame(&mut waits);
    assert!(welcome.starts_with(b"J{\"welcome\""));
    assert_eq!(read_frame(&mut waits), b"J\"quiet\"", "the program is there, and others have the places");
    // Pages and the end of the log wait for nobody.
    assert_eq!(held.reader().head().unwrap(), Position(8));
    drop(stuck.pop());
    let begins = loop {
        let next = read_frame(&mut waits);
        if next != b"J\"quiet\"" {
            break next;
        }
    };
    assert_eq!(begins.first(), Some(&b'R'), "a place is free");
}

#[test]
fn a_thousand_connections_are_bounded_and_those_that_leave_make_room() {
    let mut held = Held::filled(3);
    let greedy: Vec<_> = (0..1_000).map(|_| raw(&held)).collect();
    until("as many as there are places are let in", || held.socket.clients() == SOCKET_CONNECTIONS);
    assert!(matches!(SocketReader::connect(held.dir.path()), Err(SocketError::Busy { .. })));
    held.fill(20);
    drop(greedy);
    until("their places are free", || held.socket.clients() == 0);
    assert_eq!(held.reader().head().unwrap(), Position(23));
}

#[test]
fn a_client_that_says_nothing_loses_its_place() {
    let held = Held::filled(1);
    let mut silent = raw(&held);
    let since = Instant::now();
    silent.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert_eq!(silent.read(&mut [0; 1]).unwrap(), 0);
    assert!(since.elapsed() >= Duration::from_secs(4), "{:?}", since.elapsed());
    until("its place is free", || held.socket.clients() == 0);
}
