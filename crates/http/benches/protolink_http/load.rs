//! The load generator: keep-alive connections that each send a task after the answer to the one before.

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
    pub(crate) p99_ms: f64,
}

impl Rate {
    /// Returns the rate of answers that came within a time, with their times in milliseconds.
    pub(crate) fn of(mut times: Vec<f64>, spent: Duration) -> Self {
        times.sort_by(f64::total_cmp);
        Self { each_second: rate(times.len() as u64, spent), p99_ms: percentile(&times, 99) }
    }
}

/// Returns a task of one call of the tool `add`.
pub(crate) fn task(id: &str) -> String {
    format!(
        r#"{{"id": "{id}", "state": "submitted", "messages": [{{"id": "m-{id}", "role": "user", "parts": [{{"type": "tool_call", "content": {{"tool_name": "add", "args": {{"a": 1, "b": 2}}, "call_id": "c-{id}"}}}}], "timestamp": "2026-11-24T07:03:20.123456+00:00"}}], "artifacts": [], "metadata": {{}}, "flow_state": {{}}, "created_at": "2026-11-24T07:03:20.123456+00:00"}}"#
    )
}

/// Loads a server, after a warm-up of a tenth of the time.
pub(crate) fn run(address: SocketAddr, load: Load) -> Result<Rate, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let begin = Instant::now() + load.time / 10;
        let end = begin + load.time;
        let one = |number| tokio::spawn(connection(address, number, begin, end));
        let all: Vec<_> = (0..load.connections).map(one).collect();
        let mut times = Vec::new();
        for one in all {
            times.extend(one.await??);
        }
        Ok(Rate::of(times, load.time))
    })
}

/// Sends tasks until the end, and returns the times of those that ended in the measured time.
async fn connection(
    address: SocketAddr,
    number: usize,
    begin: Instant,
    end: Instant,
) -> Result<Vec<f64>, Failure> {
    let mut socket = TcpStream::connect(address).await?;
    socket.set_nodelay(true)?;
    let (mut times, mut sent, mut read) = (Vec::new(), 0_u64, Vec::new());
    while Instant::now() < end {
        let body = task(&format!("load-{number}-{sent}"));
        let request = format!(
            "POST /tasks/ HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
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

/// Reads one response: a completed task.
async fn answer(socket: &mut TcpStream, read: &mut Vec<u8>) -> Result<(), Failure> {
    let mut head_end = None;
    loop {
        if head_end.is_none() {
            head_end = read.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4);
        }
        if let Some(end) = head_end {
            let head = std::str::from_utf8(read.get(..end).unwrap_or_default())?;
            let length = head
                .lines()
                .find_map(|line| {
                    line.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("content-length"))
                })
                .ok_or("a response without a length")?;
            let length: usize = length.1.trim().parse()?;
            if read.len() >= end + length {
                let body =
                    String::from_utf8_lossy(read.get(end..end + length).unwrap_or_default()).into_owned();
                let is_done =
                    body.contains("\"state\":\"completed\"") || body.contains("\"state\": \"completed\"");
                if !head.starts_with("HTTP/1.1 200") || !is_done {
                    return Err(format!("not a completed task: {head}{body}").into());
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
