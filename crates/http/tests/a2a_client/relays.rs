//! A relay before a server: it can hold back what the client sends or what the server answers, and hide what the card says of
//! our own servers.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// The part of the traffic that is held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Held {
    Nothing,
    /// Requests that send a message.
    Sending,
    /// No part any more; the requests that were held back are lost.
    Lost,
    /// All that the server answers to a request that sends a message.
    AnswerToSending,
    /// All answers.
    Answers,
}

/// A relay. Connections are ended when it is dropped or let go.
pub(crate) struct Relay {
    pub(crate) url: String,
    pub(crate) held: watch::Sender<Held>,
    /// The bytes of answers after which one connection is cut, and the bytes that came.
    pub(crate) cut: Arc<Mutex<Cut>>,
    /// The number of requests that sent a message and came here.
    pub(crate) sendings: watch::Receiver<usize>,
}

/// A cut, and how far it is away.
#[derive(Debug, Default)]
pub(crate) struct Cut {
    pub(crate) after: Option<usize>,
    pub(crate) seen: usize,
}

impl Cut {
    /// Takes bytes, and returns how many of them still reach the client; `None` for all.
    fn take(&mut self, count: usize) -> Option<usize> {
        self.seen += count;
        let after = self.after?;
        if count < after {
            self.after = Some(after - count);
            return None;
        }
        self.after = None;
        Some(after)
    }
}

/// Returns bytes without what tells that the server is one of ours, with the same length.
fn hidden(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for name in [b"urn:taskreel:a2a:once:v1".as_slice(), b"urn:taskreel:a2a:protolink:v1"] {
        while let Some(at) = bytes.windows(name.len()).position(|part| part == name) {
            bytes[at..at + 3].copy_from_slice(b"xxx");
        }
    }
    bytes
}

fn sends(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    ["\"SendMessage\"", "\"SendStreamingMessage\"", "/message:", "\"message/s"]
        .iter()
        .any(|word| text.contains(word))
}

/// Starts a relay to a server. With `foreign`, its card says nothing of our extensions.
pub(crate) async fn relay(server: SocketAddr, foreign: bool) -> Relay {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (held, holds) = watch::channel(Held::Nothing);
    let (count, sendings) = watch::channel(0);
    let cut: Arc<Mutex<Cut>> = Arc::default();
    let cuts = Arc::clone(&cut);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let Ok(server) = TcpStream::connect(server).await else { continue };
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = server.into_split();
            let (holds, count, cuts) = (holds.clone(), count.clone(), Arc::clone(&cuts));
            let (mark, marked) = watch::channel(false);
            tokio::spawn(async move {
                let up = up(from_client, to_server, holds.clone(), count, mark);
                tokio::select! {
                    () = up => {}
                    () = down(from_server, to_client, holds, (marked, cuts), foreign) => {}
                }
            });
        }
    });
    Relay { url, held, cut, sendings }
}

async fn up(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut holds: watch::Receiver<Held>,
    count: watch::Sender<usize>,
    mark: watch::Sender<bool>,
) {
    let mut piece = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from.read(&mut piece).await {
        let is_sending = sends(&piece[..read]);
        mark.send_replace(is_sending);
        if is_sending {
            count.send_modify(|count| *count += 1);
            let is_held = *holds.borrow() == Held::Sending;
            let let_go = holds.wait_for(|held| *held != Held::Sending).await.map(|held| *held);
            if let_go.is_err() || (is_held && let_go.is_ok_and(|held| held == Held::Lost)) {
                return;
            }
        }
        if to.write_all(&piece[..read]).await.is_err() {
            return;
        }
    }
}

async fn down(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut holds: watch::Receiver<Held>,
    (marked, cuts): (watch::Receiver<bool>, Arc<Mutex<Cut>>),
    foreign: bool,
) {
    let mut piece = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from.read(&mut piece).await {
        let is_held = |held: &Held| match held {
            Held::Answers => true,
            Held::AnswerToSending => *marked.borrow(),
            Held::Nothing | Held::Sending | Held::Lost => false,
        };
        if holds.wait_for(|held| !is_held(held)).await.is_err() {
            return;
        }
        let bytes = if foreign { hidden(&piece[..read]) } else { piece[..read].to_vec() };
        let cut = cuts.lock().unwrap().take(read);
        if to.write_all(&bytes[..cut.unwrap_or(read)]).await.is_err() || cut.is_some() {
            return;
        }
    }
}
