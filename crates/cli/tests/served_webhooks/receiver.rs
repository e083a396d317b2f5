//! A receiver of webhooks for the tests, which answers when it is told to.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// A delivery: its path, its head, and its body.
pub(crate) type Delivery = (String, String, serde_json::Value);

struct Inner {
    deliveries: Mutex<Vec<Delivery>>,
    /// The deliveries that are answered; all later ones wait for ever.
    answered: AtomicUsize,
}

/// The receiver.
#[derive(Clone)]
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    inner: Arc<Inner>,
}

impl Receiver {
    /// Starts one that answers so many deliveries.
    pub(crate) fn start(answered: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let inner = Arc::new(Inner { deliveries: Mutex::default(), answered: AtomicUsize::new(answered) });
        let receiving = Arc::clone(&inner);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let inner = Arc::clone(&receiving);
                std::thread::spawn(move || receive(&inner, stream.unwrap()));
            }
        });
        Self { address, inner }
    }

    /// Answers all that comes from now on.
    pub(crate) fn answer_all(&self) {
        self.inner.answered.store(usize::MAX, Ordering::SeqCst);
    }

    pub(crate) fn deliveries(&self) -> Vec<Delivery> {
        self.inner.deliveries.lock().unwrap().clone()
    }
}

fn receive(inner: &Inner, stream: TcpStream) {
    let mut reader = BufReader::new(stream);
    loop {
        let (mut head, mut line) = (String::new(), String::new());
        while reader.read_line(&mut line).is_ok_and(|read| read > 0) && line.trim() != "" {
            head.push_str(&line.to_lowercase());
            line.clear();
        }
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        let Some(length) = length else { return };
        let mut body = vec![0; length];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        let path = head.split(' ').nth(1).unwrap().to_owned();
        let mut deliveries = inner.deliveries.lock().unwrap();
        deliveries.push((path, head, serde_json::from_slice(&body).unwrap()));
        let is_answered = deliveries.len() <= inner.answered.load(Ordering::SeqCst);
        drop(deliveries);
        if !is_answered {
            // The sender is gone, or will be.
            let _ = reader.read(&mut [0]);
            return;
        }
        if reader.get_mut().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").is_err() {
            return;
        }
    }
}
