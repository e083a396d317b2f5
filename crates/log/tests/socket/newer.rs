//! Records of a newer release that come through a socket: a reader of this release says so, as one of the directory does, and
//! goes on behind them.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proto_events::codec::record::HeaderField;
use proto_events::id::Position;
use taskreel_log::api::{EventReader as _, ReadError};
use taskreel_log::socket::{FollowEnd, SOCKET_FILE, SocketReader};
use taskreel_log::testing::conformance::draft;

use crate::hostile::frame;
use crate::store_support::quick_dir;

const WELCOME: &str = r#"{"welcome":{"protocol":2,"release":"9.0.0","pid":1,"program":"later","started":"now",
    "format":1,"log":"000102030405060708090a0b0c0d0e0f","durability":"strict","takes_decisions":false}}"#;

/// Returns a record with a header field that a reader must understand, and this release does not.
fn newer() -> Vec<u8> {
    let mut draft = draft("task-agent/a", 1, b"body");
    draft.fields = vec![HeaderField { tag: 0x7ffe, bytes: b"a later release".to_vec() }];
    let mut bytes = draft.encode().unwrap().bytes().to_vec();
    let at = bytes.windows(2).position(|tag| tag == [0x7f, 0xfe]).unwrap();
    *bytes.get_mut(at).unwrap() = 0xff;
    bytes
}

fn of_kind(kind: u8, contents: &[u8]) -> Vec<u8> {
    let length = u32::try_from(contents.len() + 1).unwrap().to_be_bytes();
    [&length[..], &[kind], contents].concat()
}

/// Returns the frame of a record, behind which a body of `detached` bytes comes, if any.
fn record(position: u64, hash: &[u8], bytes: &[u8], detached: Option<u64>) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap().to_be_bytes();
    let mut contents = [&position.to_be_bytes()[..], hash, &length, bytes].concat();
    contents.extend(u32::from(detached.is_some()).to_be_bytes());
    if let Some(detached) = detached {
        contents.extend([0_u8; 4]);
        contents.extend(detached.to_be_bytes());
    }
    of_kind(b'R', &contents)
}

/// Serves clients in the place of a program: every page, survey and follower is given these frames. Returns the number of
/// the clients.
fn serve(dir: &Path, records: Vec<u8>) -> Arc<AtomicUsize> {
    let socket = UnixListener::bind(dir.join(SOCKET_FILE)).unwrap();
    let clients = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&clients);
    std::thread::spawn(move || {
        for client in socket.incoming() {
            counted.fetch_add(1, Ordering::SeqCst);
            let (client, records) = (client.unwrap(), records.clone());
            std::thread::spawn(move || answer(client, &records));
        }
    });
    clients
}

/// Answers the requests of one client until it goes.
fn answer(mut client: UnixStream, records: &[u8]) {
    let mut length = [0; 4];
    while client.read_exact(&mut length).is_ok() {
        let mut request = vec![0; u32::from_be_bytes(length) as usize];
        client.read_exact(&mut request).unwrap();
        let request = String::from_utf8(request.split_off(1)).unwrap();
        let answer = if request.starts_with(r#"{"hello""#) {
            frame(WELCOME)
        } else if request == "\"head\"" {
            frame(r#"{"number":2}"#)
        } else if request.starts_with(r#"{"follow""#) {
            records.to_vec()
        } else {
            [records, &frame("\"done\"")].concat()
        };
        client.write_all(&answer).unwrap();
    }
}

#[test]
fn a_record_of_a_newer_release_is_told_as_that_and_its_link_is_used_again() {
    let dir = quick_dir();
    let sound = draft("task-agent/b", 1, b"body").encode().unwrap();
    let frames = [
        record(1, &[0; 32], &newer(), Some(3)),
        of_kind(b'B', b"far"),
        record(2, &sound.hash().0, sound.bytes(), None),
    ];
    let clients = serve(dir.path(), frames.concat());
    let reader = SocketReader::connect(dir.path()).unwrap();
    let is_newer = |error: &ReadError| matches!(error, ReadError::Newer { position: Some(Position(1)), .. });
    let error = reader.read_all(Position(1), usize::MAX).unwrap_err();
    assert!(is_newer(&error) && error.to_string().contains("unknown field"), "{error}");
    let mut surveyed = Vec::new();
    reader.survey(&mut |shown| surveyed.push(shown));
    assert_eq!(surveyed.len(), 2, "{surveyed:?}");
    assert!(surveyed[0].as_ref().is_err_and(is_newer), "{surveyed:?}");
    assert!(surveyed[1].as_ref().is_ok_and(|stored| stored.position == Position(2)), "{surveyed:?}");
    assert_eq!(reader.head().unwrap(), Position(2));
    assert_eq!(clients.load(Ordering::SeqCst), 1, "nothing is left unheard on the link");
    let mut follower = reader.follow(Position(1)).unwrap();
    let end = follower.next().unwrap_err();
    assert!(matches!(&end, FollowEnd::Read(error) if is_newer(error)), "{end}");
    assert!(matches!(follower.next(), Err(FollowEnd::Dropped(_))), "it stays ended");
}
