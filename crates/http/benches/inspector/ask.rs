//! Asking for a page over TCP, and the baseline: a plain actix page of as many bytes.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use actix_web::{App, HttpResponse, HttpServer, web};

use crate::report::{Failure, number};

/// The longest time that a page may take at all.
const PATIENCE: Duration = Duration::from_secs(120);

/// A page, and the time that it took.
pub(crate) struct Got {
    pub(crate) millis: f64,
    pub(crate) body: String,
}

/// A client that asks for pages.
pub(crate) struct Asker(SocketAddr);

impl Asker {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self(address)
    }

    /// Returns the address of the pages, without a slash at its end.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/inspect", self.0)
    }

    /// Asks for a page, which must be there.
    pub(crate) fn get(&self, path: &str) -> Result<Got, Failure> {
        get(self.0, &format!("/inspect{path}"))
    }
}

fn get(address: SocketAddr, path: &str) -> Result<Got, Failure> {
    let began = Instant::now();
    let mut socket = TcpStream::connect(address)?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    write!(socket, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer)?;
    let millis = began.elapsed().as_secs_f64() * 1_000.0;
    let answer = String::from_utf8(answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("an answer without a head")?;
    if !head.starts_with("HTTP/1.1 200") {
        return Err(format!("{path}: {head}").into());
    }
    Ok(Got { millis, body: body.to_owned() })
}

/// Returns the processor time of this process so far, in milliseconds, without time lost to other processes; `None` where the kernel
/// does not tell it.
pub(crate) fn cpu_millis() -> Option<f64> {
    let nanos = |entry: std::io::Result<std::fs::DirEntry>| {
        let text = std::fs::read_to_string(entry.ok()?.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    };
    let sum: u64 = std::fs::read_dir("/proc/self/task").ok()?.filter_map(nanos).sum();
    Some(number(sum) / 1e6)
}

/// A server of plain pages: `/N` is a page of N bytes.
pub(crate) struct Plain(SocketAddr);

impl Plain {
    /// Starts it, until the process ends.
    pub(crate) fn start() -> Result<Self, Failure> {
        let (tell, told) = std::sync::mpsc::channel();
        // A server of actix stays on its thread.
        std::thread::spawn(move || {
            let page = |size: web::Path<usize>| async move {
                let body = "x".repeat(size.into_inner());
                HttpResponse::Ok().content_type("text/html; charset=utf-8").body(body)
            };
            actix_web::rt::System::new().block_on(async move {
                let server = HttpServer::new(move || App::new().route("/{size}", web::get().to(page)));
                let server = server.workers(2).disable_signals().bind("127.0.0.1:0")?;
                let _ = tell.send(server.addrs().first().copied());
                server.run().await
            })
        });
        let address = told.recv()?.ok_or("the plain server has no address")?;
        Ok(Self(address))
    }

    /// Returns the time of a page of so many bytes.
    pub(crate) fn millis(&self, size: usize) -> Result<f64, Failure> {
        Ok(get(self.0, &format!("/{size}"))?.millis)
    }
}
