//! The reader of a log behind a server, beside the log itself: it reads the same, and what it is told is never taken on
//! trust.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

mod support;

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use proto_events::id::{Position, StreamId, Version};
use support::{Host, actix_with, with_tools};
use taskreel::{Part, System};
use taskreel_http::{HttpFollowed, HttpLog, HttpLogError, LiveApi, Mounted, Server};
use taskreel_log::api::{EventReader, Page, ReadError};
use taskreel_log::audit::verify;

async fn served(system: &System) -> Host {
    let handler = Mounted::new().mount("/api", Arc::new(LiveApi::new(system)));
    actix_with(Server::new().grace(Duration::from_millis(200)), Arc::new(handler)).await
}

/// A system in a directory with tasks, one of which has a body that stands outside its record.
async fn filled(dir: &std::path::Path) -> System {
    let system = with_tools(System::builder(dir)).start().await.unwrap();
    for at in 0..20 {
        system.session("s").send(Part::text(format!("text {at}"))).await.unwrap().finished().await.unwrap();
    }
    let large = Part::text("x".repeat(300_000));
    system.submit(large).await.unwrap().finished().await.unwrap();
    system
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_behind_a_server_reads_as_the_log_itself() {
    let dir = tempfile::tempdir().unwrap();
    let system = filled(dir.path()).await;
    let host = served(&system).await;
    let log = system.log();
    let url = format!("http://{}/", host.address);
    let read = tokio::task::spawn_blocking(move || {
        let there = HttpLog::connect(&url, None).unwrap();
        let here = log.as_ref();
        assert_eq!(there.head(), here.head());
        let end = here.head().unwrap().0;
        for from in [0, 1, 2, end / 2, end, end + 1, u64::MAX] {
            for limit in [0, 1, 3, usize::MAX] {
                let from = Position(from);
                assert_eq!(there.read_all(from, limit), here.read_all(from, limit), "{from} {limit}");
            }
            let page = Page { records: 7, bytes: 2_000 };
            assert_eq!(there.page_all(Position(from), page), here.page_all(Position(from), page));
        }
        let streams = here.list_streams("", None, usize::MAX).unwrap();
        assert_eq!(there.list_streams("", None, usize::MAX).unwrap(), streams);
        assert_eq!(there.list_streams("task-", None, 5), here.list_streams("task-", None, 5));
        for info in &streams {
            assert_eq!(there.stream_version(&info.stream), Ok(info.version));
            let from = Version(2);
            assert_eq!(there.read_stream(&info.stream, from, 9), here.read_stream(&info.stream, from, 9));
        }
        let unknown = StreamId::task("agent", "none").unwrap();
        assert_eq!(there.stream_version(&unknown), Ok(Version(0)));
        assert_eq!(there.read_stream(&unknown, Version(1), 9), Ok(Vec::new()));
        assert_eq!(there.open_work(), here.open_work());
        let (found, expected) = (verify(&there), verify(here));
        assert!(found.is_sound() && found.root.is_some(), "{found:?}");
        assert_eq!(
            (found.root, found.records, found.bytes),
            (expected.root, expected.records, expected.bytes)
        );
        assert!(there.about().head.is_some() && there.about().disk.is_some(), "{:?}", there.about());
    });
    read.await.unwrap();
    host.stop().await;
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_gets_what_is_there_and_what_comes_and_hears_of_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let system = filled(dir.path()).await;
    let host = served(&system).await;
    let url = format!("http://{}", host.address);
    let (send, receive) = std::sync::mpsc::channel();
    let following = std::thread::spawn(move || {
        let there = HttpLog::connect(&url, None).unwrap();
        let mut follower = there.follow(Position(1)).unwrap();
        let mut next = 1;
        loop {
            match follower.next().unwrap() {
                HttpFollowed::Record(stored) => {
                    assert_eq!(stored.position.0, next);
                    next = stored.last_position().0 + 1;
                    send.send(next).unwrap();
                }
                HttpFollowed::Ended => return next - 1,
                _ => {}
            }
        }
    });
    let head = system.log().head().unwrap().0;
    while receive.recv_timeout(Duration::from_secs(30)).unwrap() <= head {}
    system.submit(Part::text("more")).await.unwrap().finished().await.unwrap();
    let head = system.log().head().unwrap().0;
    while receive.recv_timeout(Duration::from_secs(30)).unwrap() <= head {}
    system.shutdown().await.unwrap();
    let last = tokio::task::spawn_blocking(move || following.join().unwrap()).await.unwrap();
    assert!(last > head, "the stop itself was followed too");
    host.stop().await;
}

/// A server that answers every connection with these bytes and closes it.
fn says(answer: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let Ok(mut connection) = connection else { return };
            let mut asked = [0; 4096];
            let _ = connection.read(&mut asked);
            let _ = connection.write_all(answer);
        }
    });
    format!("http://{address}")
}

#[test]
fn a_server_that_answers_nonsense_or_nothing_is_an_error_in_words_and_no_hang() {
    let connect = |url: &str| HttpLog::connect(url, Some("secret-token")).unwrap_err();
    for (answer, status) in [
        (&b"HTTP/1.1 200 OK\r\ncontent-length: 13\r\n\r\n<html></html>"[..], 0),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", 0),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"schema\"", 0),
        (b"SSH-2.0-OpenSSH_9.2\r\n", 0),
        (b"", 0),
        (b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n", 302),
        (b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n", 401),
        (b"HTTP/1.1 404 Not Found\r\ncontent-length: 9\r\n\r\nNot Found", 404),
    ] {
        let error = connect(&says(answer));
        match &error {
            HttpLogError::Refused { status: found, .. } => assert_eq!(*found, status, "{error}"),
            _ => assert_eq!(status, 0, "{error}"),
        }
        assert!(!error.to_string().contains("secret-token"), "{error}");
    }
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert!(matches!(connect(&format!("http://{closed}")), HttpLogError::Unreachable { .. }));
    for url in ["", "localhost:1", "ftp://x", "http://", "http://a:b@x", "http://x/?a=b", "http://x/#a"] {
        assert!(matches!(connect(url), HttpLogError::Url { .. }), "{url}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_in_the_middle_is_a_failure_of_the_reader_and_not_of_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let system = filled(dir.path()).await;
    let host = served(&system).await;
    let url = format!("http://{}", host.address);
    let there = tokio::task::spawn_blocking(move || HttpLog::connect(&url, None).unwrap()).await.unwrap();
    host.stop().await;
    let found = tokio::task::spawn_blocking(move || (there.head(), verify(&there))).await.unwrap();
    assert!(matches!(found.0, Err(ReadError::Io(_))), "{:?}", found.0);
    assert!(found.1.failed.is_some() && found.1.findings.is_empty(), "{:?}", found.1);
    system.shutdown().await.unwrap();
}
