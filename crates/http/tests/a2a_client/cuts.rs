//! Streams of our own server whose connection is cut after any number of bytes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use taskreel_http::a2a::{Event, EventStream, ListQuery, State, StreamItem};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::agent::{Gate, agent};
use crate::forge::say;
use crate::ours::{WAYS, client, handler};
use crate::support::actix;

/// The number of bytes after which a stream that is not to be cut is cut.
const NEVER: usize = usize::MAX;

/// The next cut.
#[derive(Clone)]
pub(crate) struct Cut {
    /// The bytes of the answer after which the next stream is cut.
    pub(crate) after: Arc<AtomicUsize>,
    /// The mark that a stream was cut, and not over before.
    pub(crate) is_done: Arc<AtomicBool>,
}

impl Cut {
    pub(crate) fn never() -> Self {
        Self { after: Arc::new(AtomicUsize::new(NEVER)), is_done: Arc::default() }
    }
}

/// Starts a relay to a server that cuts streams.
pub(crate) async fn relay(server: SocketAddr, cut: Cut) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (server, cut) = (TcpStream::connect(server).await.unwrap(), cut.clone());
            tokio::spawn(async move {
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_server, mut to_server) = server.into_split();
                let up = tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
                let (mut piece, mut left) = ([0; 4096], NEVER);
                while let Ok(count @ 1..) = from_server.read(&mut piece).await {
                    if String::from_utf8_lossy(&piece[..count]).contains("text/event-stream") {
                        left = cut.after.swap(NEVER, Ordering::SeqCst);
                    }
                    if count >= left {
                        cut.is_done.store(true, Ordering::SeqCst);
                    }
                    if to_client.write_all(&piece[..count.min(left)]).await.is_err() || count >= left {
                        break;
                    }
                    left = if left == NEVER { NEVER } else { left - count };
                }
                up.abort();
            });
        }
    });
    url
}

/// Returns the events up to the end, none of which may be a gap.
async fn all(mut stream: EventStream) -> (Vec<Event>, Vec<String>) {
    let (mut events, mut places) = (Vec::new(), Vec::new());
    while let Some(item) = stream.next().await {
        let StreamItem::Event(event) = item.unwrap() else { panic!("a gap") };
        events.push(event);
        places.push(stream.place().unwrap().to_owned());
    }
    (events, places)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_cut_anywhere_tells_each_event_once_and_sends_its_message_once() {
    let system = agent(&Gate::shut()).await;
    let host = actix(handler(&system)).await;
    let cut = Cut::never();
    let url = relay(host.address, cut.clone()).await;
    let straight = client(&format!("http://{}", host.address), WAYS[0]).await;
    let mut runs = 0_u64;
    for way in WAYS {
        let (through, direct) =
            (client(&url, way).await, client(&format!("http://{}", host.address), way).await);
        for at in (0..).step_by(127) {
            cut.after.store(at, Ordering::SeqCst);
            runs += 1;
            let request = say("report").idempotency_key(&format!("key {runs}"));
            let (events, places) = all(through.stream(&request).await.unwrap()).await;
            let id = events[0].task_id().unwrap();
            assert_eq!(events.last().unwrap().state(), Some(State::Completed), "{way:?} after {at} bytes");
            let (rest, _) = all(direct.subscribe_after(id, &places[0]).await.unwrap()).await;
            assert_eq!(events[1..], rest, "{way:?} after {at} bytes");
            if !cut.is_done.swap(false, Ordering::SeqCst) {
                assert!(at > 127 * 5, "the stream was cut at few places only");
                break;
            }
        }
    }
    let listed = straight.list(&ListQuery::new().page_size(1)).await.unwrap();
    assert_eq!(listed.total, Some(runs), "no message made two tasks");
    host.stop().await;
    system.shutdown().await.unwrap();
}
