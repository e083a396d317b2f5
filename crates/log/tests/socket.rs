//! The local socket: reading and following a log while a program holds it, a person's decisions, and hostile clients.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

#[path = "socket/hostile.rs"]
mod hostile;
#[path = "socket/newer.rs"]
mod newer;
mod store_support;
#[path = "socket/turns.rs"]
mod turns;

use std::cell::RefCell;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use proto_events::id::{Position, Version};
use store_support::{all, fill, quick_dir, runtime};
use taskreel_log::api::{EventReader, EventStore, ReadError};
use taskreel_log::sled::{ReadOnlyOptions, SledStore};
use taskreel_log::socket::{
    FollowEnd, FollowerItem, LocalSocket, OperatorError, OperatorHandler, OperatorRefusal, OperatorReply,
    OperatorRequest, Peer, RefusalKind, SOCKET_FILE, SocketError, SocketReader, SteadyReader,
};
use taskreel_log::testing::conformance;
use taskreel_log::testing::conformance::{Author, stream};

/// A log that this process holds, with its socket.
pub(crate) struct Held {
    pub(crate) store: Arc<SledStore>,
    pub(crate) socket: LocalSocket,
    pub(crate) author: Author,
    pub(crate) dir: tempfile::TempDir,
}

impl Held {
    pub(crate) fn new(operator: Option<Arc<dyn OperatorHandler>>) -> Self {
        let dir = quick_dir();
        let store = Arc::new(SledStore::open(dir.path()).unwrap());
        let socket =
            LocalSocket::open(&store.socket_path(), Arc::clone(&store) as Arc<dyn EventStore>, operator)
                .unwrap();
        let author = Author::new(store.fence());
        Self { store, socket, author, dir }
    }

    pub(crate) fn filled(count: u32) -> Self {
        let mut held = Self::new(None);
        held.fill(count);
        held
    }

    pub(crate) fn fill(&mut self, count: u32) {
        fill(&self.store, &mut self.author, count);
    }

    pub(crate) fn reader(&self) -> SocketReader {
        SocketReader::connect(self.dir.path()).unwrap()
    }
}

#[test]
fn a_reader_at_the_socket_reads_what_the_store_holds() {
    let held = Held::filled(40);
    let reader = held.reader();
    assert_eq!(reader.header(), held.store.header());
    assert_eq!(reader.holder().pid, std::process::id());
    let records = all(&held.store);
    assert_eq!(reader.read_all(Position(1), usize::MAX).unwrap(), records);
    conformance::check_pages(&reader, &records);
    assert_eq!(conformance::check_log(&reader), 40);
    assert_eq!(reader.head(), held.store.head());
    assert_eq!(reader.stream_version(&stream("s0")).unwrap(), Version(20));
    assert_eq!(reader.stream_version(&stream("none")).unwrap(), Version(0));
    assert_eq!(reader.list_streams("", None, 10), held.store.list_streams("", None, 10));
    let mut surveyed = Vec::new();
    reader.survey(&mut |shown| {
        let record = shown.unwrap();
        // Whoever is shown a record may read.
        assert_eq!(reader.head().unwrap(), Position(40));
        surveyed.push(record);
    });
    assert_eq!(surveyed, records);
    reader.survey_index(&mut |error| panic!("{error}"));
    assert!(held.socket.clients() <= 3, "connections are used again");
}

#[test]
fn the_reading_half_of_the_conformance_suite_holds_at_the_socket() {
    let (places, sockets, dirs) =
        (RefCell::new(Vec::new()), RefCell::new(Vec::new()), RefCell::new(Vec::new()));
    let make = || {
        let dir = quick_dir();
        let store = SledStore::open(dir.path()).unwrap();
        places.borrow_mut().push(store.socket_path());
        dirs.borrow_mut().push(dir);
        Arc::new(store) as Arc<dyn EventStore>
    };
    let open = |store: Arc<dyn EventStore>| {
        let place = places.borrow().last().unwrap().clone();
        sockets.borrow_mut().push(LocalSocket::open(&place, store, None).unwrap());
        Arc::new(SocketReader::connect(place.dir()).unwrap()) as Arc<dyn EventReader>
    };
    runtime().block_on(conformance::run_reader(make, open));
    assert!(!sockets.borrow().is_empty());
}

#[test]
fn a_large_body_comes_through_the_socket_whole() {
    let mut held = Held::new(None);
    let bodies = [300_000, 2_500_000, 10].map(|bytes| vec![b'x'; bytes]);
    for body in &bodies {
        let append = held.author.append_one(&stream("large"), body);
        store_support::append(&held.store, append);
    }
    assert_eq!(held.reader().read_all(Position(1), usize::MAX).unwrap(), all(&held.store));
}

/// Takes the next record, past quiet times.
fn next(follower: &mut taskreel_log::socket::SocketFollower) -> Result<u64, FollowEnd> {
    loop {
        if let FollowerItem::Record(record) = follower.next()? {
            return Ok(record.position.0);
        }
    }
}

#[test]
fn a_follower_is_given_what_exists_and_then_what_is_written_and_hears_of_the_end() {
    let mut held = Held::filled(10);
    let reader = held.reader();
    let mut follower = reader.follow(Position(4)).unwrap();
    let mut of_stream = reader.follow_stream(&stream("s1"), Version(2)).unwrap();
    for position in 4..=10 {
        assert_eq!(next(&mut follower).unwrap(), position);
    }
    for _ in 2..=5 {
        next(&mut of_stream).unwrap();
    }
    held.fill(3);
    for position in 11..=13 {
        assert_eq!(next(&mut follower).unwrap(), position);
    }
    assert_eq!(next(&mut of_stream).unwrap(), 12);
    // In the order of a shutdown: the socket, the log.
    let (mut author, store) = (held.author, held.store);
    let _socket = held.socket.shut();
    fill(&store, &mut author, 1);
    store.close().unwrap();
    assert_eq!(next(&mut follower).unwrap(), 14);
    assert!(matches!(next(&mut follower), Err(FollowEnd::Ended)));
    assert!(matches!(next(&mut follower), Err(FollowEnd::Dropped(_))), "it stays ended");
    assert_eq!(reader.head(), Err(ReadError::Closed));
}

#[test]
fn the_last_records_before_the_end_are_shown_to_who_was_shown_one_a_moment_before() {
    // A follower that was just shown a record waits a moment for more; the log is closed within that moment.
    for _ in 0..5 {
        let mut held = Held::filled(1);
        let mut follower = held.reader().follow(Position(2)).unwrap();
        // It has read the log and follows the feed.
        while held.store.figures().is_some_and(|figures| figures.feeds == 0) {
            std::thread::yield_now();
        }
        held.fill(1);
        assert_eq!(next(&mut follower).unwrap(), 2);
        let (mut author, store) = (held.author, held.store);
        let _socket = held.socket.shut();
        fill(&store, &mut author, 1);
        store.close().unwrap();
        assert_eq!(next(&mut follower).unwrap(), 3);
        assert!(matches!(next(&mut follower), Err(FollowEnd::Ended)));
    }
}

#[test]
fn a_dropped_link_is_told_from_the_end_and_following_goes_on_without_gap_or_repeat() {
    let mut held = Held::filled(5);
    let place = held.store.socket_path();
    let mut follower = held.reader().follow(Position(1)).unwrap();
    for position in 1..=5 {
        assert_eq!(next(&mut follower).unwrap(), position);
    }
    let store = Arc::clone(&held.store) as Arc<dyn EventStore>;
    // As by a socket that is opened anew: the links of the first are cut.
    let socket = std::mem::replace(&mut held.socket, hostile::another_socket());
    drop(socket);
    assert!(next(&mut follower).is_err());
    held.fill(5);
    held.socket = LocalSocket::open(&place, store, None).unwrap();
    let mut again = held.reader().follow(Position(6)).unwrap();
    for position in 6..=10 {
        assert_eq!(next(&mut again).unwrap(), position);
    }
}

#[test]
fn a_reader_outlives_a_socket_that_is_opened_anew() {
    let mut held = Held::filled(5);
    let reader = held.reader();
    assert_eq!(reader.head().unwrap(), Position(5));
    let (place, store) = (held.store.socket_path(), Arc::clone(&held.store) as Arc<dyn EventStore>);
    held.socket = hostile::another_socket();
    assert_eq!(reader.head(), Err(ReadError::Closed));
    held.socket = LocalSocket::open(&place, store, None).unwrap();
    assert_eq!(reader.head().unwrap(), Position(5));
}

#[test]
fn a_steady_reader_goes_on_from_a_copy_when_the_program_ends_in_the_middle() {
    let held = Held::filled(2_000);
    let scratch = quick_dir();
    let options = ReadOnlyOptions::default().scratch(scratch.path());
    let reader = SteadyReader::new(held.reader(), options);
    assert_eq!(reader.head().unwrap(), Position(2_000));
    let (records, mut ending) = (all(&held.store), Some((held.socket, held.store)));
    let mut surveyed = Vec::new();
    reader.survey(&mut |shown| {
        surveyed.push(shown.unwrap());
        if surveyed.len() == 10
            && let Some((socket, store)) = ending.take()
        {
            drop(socket);
            store.close().unwrap();
        }
    });
    assert_eq!(surveyed.len(), records.len());
    assert_eq!(surveyed, records);
    reader.survey_index(&mut |error| panic!("{error}"));
    assert_eq!(reader.read_all(Position(1_990), 5).unwrap(), records[1_989..1_994]);
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 1);
    drop(reader);
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
}

#[test]
fn the_socket_file_is_for_its_owner_only_and_goes_when_the_socket_is_shut() {
    let held = Held::filled(1);
    let socket = held.dir.path().join(SOCKET_FILE);
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    let _served = held.socket.shut();
    assert!(!socket.exists());
    assert!(matches!(SocketReader::connect(held.dir.path()), Err(SocketError::Shut { .. })));
}

#[test]
fn a_socket_of_a_dead_process_is_replaced_and_another_file_of_its_name_is_not() {
    let dir = quick_dir();
    let store = Arc::new(SledStore::open(dir.path()).unwrap());
    let socket = dir.path().join(SOCKET_FILE);
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    assert!(matches!(SocketReader::connect(dir.path()), Err(SocketError::Shut { .. })), "nobody listens");
    let open = || LocalSocket::open(&store.socket_path(), Arc::clone(&store) as Arc<dyn EventStore>, None);
    let opened = open().unwrap();
    assert!(std::fs::symlink_metadata(&socket).unwrap().file_type().is_socket());
    SocketReader::connect(dir.path()).unwrap();
    drop(opened);
    // It leaves the socket of another process that has replaced its own.
    let first = open().unwrap();
    assert!(open().unwrap_err().to_string().contains("another system of this process"));
    std::fs::remove_file(&socket).unwrap();
    let next = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    drop(first);
    assert!(socket.exists());
    drop(next);
    std::fs::remove_file(&socket).unwrap();
    std::fs::write(&socket, "precious").unwrap();
    let off = open().unwrap_err();
    assert!(off.to_string().contains("another file"), "{off}");
    assert_eq!(std::fs::read(&socket).unwrap(), b"precious");
}

#[test]
fn the_place_of_a_log_that_was_closed_opens_no_socket_in_the_next_holders_directory() {
    let dir = quick_dir();
    let first: Arc<dyn EventStore>;
    let place = {
        let store = Arc::new(SledStore::open(dir.path()).unwrap());
        first = Arc::clone(&store) as Arc<dyn EventStore>;
        store.socket_path()
    };
    first.close().unwrap();
    let store = Arc::new(SledStore::open(dir.path()).unwrap());
    assert!(!place.is_same(&store.socket_path()));
    for _ in 0..2 {
        let off = LocalSocket::open(&place, Arc::clone(&first), None).unwrap_err();
        assert!(off.to_string().contains("has closed the log"), "{off}");
        assert!(!dir.path().join(SOCKET_FILE).exists());
        // The next holder's own socket stays as it is.
        let socket =
            LocalSocket::open(&store.socket_path(), Arc::clone(&store) as Arc<dyn EventStore>, None).unwrap();
        assert!(LocalSocket::open(&place, Arc::clone(&first), None).is_err());
        assert_eq!(SocketReader::connect(dir.path()).unwrap().head().unwrap(), Position(0));
        drop(socket);
    }
    // A log that was reopened is held again.
    let place = store.socket_path();
    let again = store.reopen().unwrap();
    let socket = LocalSocket::open(&place, Arc::clone(&again), None).unwrap();
    assert_eq!(SocketReader::connect(dir.path()).unwrap().head().unwrap(), Position(0));
    drop(socket);
    again.close().unwrap();
    assert!(LocalSocket::open(&place, again, None).is_err());
}

#[test]
fn a_directory_whose_path_is_too_long_for_a_socket_address_has_a_socket() {
    let root = quick_dir();
    let dir: PathBuf =
        (0..6).fold(root.path().to_owned(), |path, _| path.join("a-folder-with-a-long-name-for-a-log"));
    let store = Arc::new(SledStore::open(&dir).unwrap());
    let _socket =
        LocalSocket::open(&store.socket_path(), Arc::clone(&store) as Arc<dyn EventStore>, None).unwrap();
    assert_eq!(SocketReader::connect(&dir).unwrap().head().unwrap(), Position(0));
}

/// A operator handler that notes what it is asked.
#[derive(Default)]
struct Decided(Mutex<Vec<(u32, OperatorRequest)>>);

impl OperatorHandler for Decided {
    fn carry_out(&self, peer: &Peer, request: OperatorRequest) -> Result<OperatorReply, OperatorRefusal> {
        let refused = matches!(request, OperatorRequest::Abandon { .. });
        self.0.lock().unwrap().push((peer.uid, request));
        if refused {
            return Err(OperatorRefusal {
                kind: RefusalKind::Unknown,
                why: "there is no such call".to_owned(),
            });
        }
        Ok(OperatorReply { state: "working".to_owned(), version: 7, is_new: true, by: peer.user() })
    }
}

#[test]
fn a_decision_reaches_the_operator_with_the_user_that_the_system_states() {
    let operator = Arc::new(Decided::default());
    let held = Held::new(Some(Arc::clone(&operator) as Arc<dyn OperatorHandler>));
    let reader = held.reader();
    assert!(reader.takes_decisions());
    let task = "task-agent/t".to_owned();
    let cancel = OperatorRequest::Cancel { task: task.clone(), reason: Some("enough".to_owned()) };
    let reply = reader.decide(cancel.clone()).unwrap();
    assert_eq!((reply.version, reply.is_new), (7, true));
    let abandon = OperatorRequest::Abandon { task, call: "c".to_owned(), reason: "gone".to_owned() };
    let refused = reader.decide(abandon.clone()).unwrap_err();
    assert!(
        matches!(&refused, OperatorError::Refused(refusal) if refusal.kind == RefusalKind::Unknown),
        "{refused}"
    );
    let uid = rustix_uid();
    assert_eq!(*operator.0.lock().unwrap(), [(uid, cancel.clone()), (uid, abandon)]);
    let without = Held::new(None);
    let refused = without.reader().decide(cancel).unwrap_err();
    assert!(
        matches!(&refused, OperatorError::Refused(refusal) if refusal.kind == RefusalKind::NotTaken),
        "{refused}"
    );
}

/// Returns the number of this process's user.
fn rustix_uid() -> u32 {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").unwrap().uid()
}
