//! The load generator: keep-alive connections that each send a message after the answer to the one before.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::report::{Failure, percentile, rate};

/// A load: so many connections, for so long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) connections: usize,
    pub(crate) time: Duration,
}

/// The result of a load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rate {
    pub(crate) each_second: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
}

impl Rate {
    /// Returns the rate of answers that came within a time, with their times in milliseconds.
    pub(crate) fn of(mut times: Vec<f64>, spent: Duration) -> Self {
        times.sort_by(f64::total_cmp);
        Self {
            each_second: rate(times.len() as u64, spent),
            p50_ms: percentile(&times, 50),
            p99_ms: percentile(&times, 99),
        }
    }
}

/// The place of a server: its address, and the path of JSON-RPC.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) address: SocketAddr,
    pub(crate) path: &'static str,
}

impl Place {
    /// Returns a request over JSON-RPC.
    fn request(self, method: &str, id: &str) -> String {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":"{id}","method":"{method}","params":{{"message":{{"messageId":"m-{id}","role":"ROLE_USER","parts":[{{"text":"hello"}}]}}}}}}"#
        );
        format!(
            "POST {} HTTP/1.1\r\nhost: {}\r\na2a-version: 1.0\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.path,
            self.address,
            body.len()
        )
    }
}

/// Loads a server, after a warm-up of a tenth of the time.
pub(crate) fn run(place: Place, load: Load) -> Result<Rate, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let begin = Instant::now() + load.time / 10;
        let end = begin + load.time;
        let one = |number| tokio::spawn(connection(place, number, begin, end));
        let all: Vec<_> = (0..load.connections).map(one).collect();
        let mut times = Vec::new();
        for one in all {
            times.extend(one.await??);
        }
        Ok(Rate::of(times, load.time))
    })
}

async fn connect(place: Place) -> Result<TcpStream, Failure> {
    let socket = TcpStream::connect(place.address).await?;
    socket.set_nodelay(true)?;
    Ok(socket)
}

/// Sends messages until the end, and returns the times of those that ended in the measured time.
async fn connection(place: Place, number: usize, begin: Instant, end: Instant) -> Result<Vec<f64>, Failure> {
    let mut socket = connect(place).await?;
    let (mut times, mut sent, mut read) = (Vec::new(), 0_u64, Vec::new());
    while Instant::now() < end {
        let request = place.request("SendMessage", &format!("{number}-{sent}"));
        let asked = Instant::now();
        socket.write_all(request.as_bytes()).await?;
        answer(&mut socket, &mut read).await?;
        let now = Instant::now();
        if (begin..end).contains(&now) {
            times.push((now - asked).as_secs_f64() * 1_000.0);
        }
        sent += 1;
    }
    Ok(times)
}

fn place_of(read: &[u8], wanted: &[u8]) -> Option<usize> {
    read.windows(wanted.len()).position(|found| found == wanted)
}

/// Reads one response: a completed task.
async fn answer(socket: &mut TcpStream, read: &mut Vec<u8>) -> Result<(), Failure> {
    let mut head_end = None;
    loop {
        head_end = head_end.or_else(|| place_of(read, b"\r\n\r\n").map(|at| at + 4));
        if let Some(end) = head_end {
            let head = std::str::from_utf8(read.get(..end).unwrap_or_default())?;
            let length = head.lines().find_map(|line| {
                line.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("content-length"))
            });
            let length: usize = length.ok_or("a response without a length")?.1.trim().parse()?;
            if let Some(body) = read.get(end..end + length) {
                let is_done = place_of(body, b"TASK_STATE_COMPLETED").is_some();
                if !head.starts_with("HTTP/1.1 200") || !is_done {
                    return Err(
                        format!("not a completed task: {head}{}", String::from_utf8_lossy(body)).into()
                    );
                }
                read.drain(..end + length);
                return Ok(());
            }
        }
        if socket.read_buf(read).await? == 0 {
            return Err("the server closed a connection".into());
        }
    }
}

/// Opens streams one after the other, and returns the times to their first events.
pub(crate) fn first_events(place: Place, streams: usize) -> Result<Rate, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let began = Instant::now();
        let mut socket = connect(place).await?;
        let (mut times, mut read) = (Vec::new(), Vec::new());
        for number in 0..streams {
            let request = place.request("SendStreamingMessage", &format!("stream-{number}"));
            let asked = Instant::now();
            socket.write_all(request.as_bytes()).await?;
            until(&mut socket, &mut read, b"data:").await?;
            times.push(asked.elapsed().as_secs_f64() * 1_000.0);
            // The end of a body whose pieces have their lengths before them.
            let end = until(&mut socket, &mut read, b"\r\n0\r\n\r\n").await?;
            let told = read.get(..end).unwrap_or_default();
            if place_of(told, b"TASK_STATE_COMPLETED").is_none() {
                return Err(format!("not a completed task: {}", String::from_utf8_lossy(told)).into());
            }
            read.drain(..end + 7);
        }
        Ok(Rate::of(times, began.elapsed()))
    })
}

/// Reads until some bytes have come, and returns their place.
async fn until(socket: &mut TcpStream, read: &mut Vec<u8>, wanted: &[u8]) -> Result<usize, Failure> {
    loop {
        if let Some(at) = place_of(read, wanted) {
            return Ok(at);
        }
        if socket.read_buf(read).await? == 0 {
            return Err(format!("the server closed a stream: {}", String::from_utf8_lossy(read)).into());
        }
    }
}
