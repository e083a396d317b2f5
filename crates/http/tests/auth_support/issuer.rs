//! An issuer of signed tokens with its key set at a local address, which answers as a test says.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The longest wait for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The answer of the address of the keys.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    /// Bytes after the head of a good answer without a length.
    Body(Vec<u8>),
    /// A status with a place to go to.
    Elsewhere(u16, String),
    /// Bytes, and no head.
    Raw(Vec<u8>),
    /// Silence until the issuer is released.
    Held(Box<Answer>),
    /// A byte now and then, without an end.
    Trickle,
    /// Blanks without an end.
    Endless,
}

/// An issuer that listens. It stops when it is dropped.
pub(crate) struct Issuer {
    pub(crate) address: SocketAddr,
    answer: Arc<Mutex<Answer>>,
    asked: Arc<AtomicUsize>,
    released: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Drop for Issuer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Issuer {
    /// Listens at any free port.
    pub(crate) async fn start(answer: Answer) -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap(), answer).await
    }

    /// Listens at this address.
    pub(crate) async fn start_at(address: SocketAddr, answer: Answer) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (answer, asked) = (Arc::new(Mutex::new(answer)), Arc::new(AtomicUsize::new(0)));
        let released = watch::Sender::new(false);
        let (answers, counted, release) = (Arc::clone(&answer), Arc::clone(&asked), released.subscribe());
        let task = tokio::spawn(async move {
            // What still answers ends with the issuer.
            let mut open = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (answers, counted) = (Arc::clone(&answers), Arc::clone(&counted));
                open.spawn(answer_one(stream, answers, counted, release.clone()));
            }
        });
        Self { address, answer, asked, released, task }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/keys", self.address)
    }

    /// Changes the answer to the next requests.
    pub(crate) fn set(&self, answer: Answer) {
        *self.answer.lock().unwrap() = answer;
    }

    /// Lets the answers that are held go.
    pub(crate) fn release(&self) {
        self.released.send_replace(true);
    }

    /// Returns how often the keys were asked for.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    /// Waits until the keys were asked for this often.
    pub(crate) async fn until_asked(&self, times: usize) {
        let reached = async {
            while self.asked() < times {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(PATIENCE, reached).await.expect("the issuer is asked");
    }
}

async fn answer_one(
    mut stream: TcpStream,
    answers: Arc<Mutex<Answer>>,
    asked: Arc<AtomicUsize>,
    mut release: watch::Receiver<bool>,
) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let mut answer = answers.lock().unwrap().clone();
    asked.fetch_add(1, Ordering::SeqCst);
    if let Answer::Held(held) = answer {
        let _ = release.wait_for(|released| *released).await;
        answer = *held;
    }
    let good = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n";
    // Whoever asked may have gone.
    let _: std::io::Result<()> = async {
        match answer {
            Answer::Held(_) => {}
            Answer::Body(body) => {
                stream.write_all(good).await?;
                stream.write_all(&body).await?;
            }
            Answer::Raw(bytes) => stream.write_all(&bytes).await?,
            Answer::Elsewhere(status, place) => {
                let head = format!("HTTP/1.1 {status} X\r\nlocation: {place}\r\ncontent-length: 0\r\n\r\n");
                stream.write_all(head.as_bytes()).await?;
            }
            Answer::Trickle => {
                stream.write_all(good).await?;
                loop {
                    stream.write_all(b" ").await?;
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
            Answer::Endless => {
                stream.write_all(good).await?;
                let blanks = vec![b' '; 1 << 16];
                loop {
                    stream.write_all(&blanks).await?;
                }
            }
        }
        stream.shutdown().await
    }
    .await;
}

/// Returns a key set with the keys of these ids.
pub(crate) fn key_set(ids: &[&str]) -> Answer {
    let all: Value = serde_json::from_slice(&super::key("jwks.json")).unwrap();
    let all = all.get("keys").and_then(Value::as_array).unwrap();
    let of = |id: &&str| all.iter().find(|key| key.get("kid").is_some_and(|kid| kid == *id)).unwrap().clone();
    let keys: Vec<Value> = ids.iter().map(of).collect();
    Answer::Body(json!({"keys": keys}).to_string().into_bytes())
}
