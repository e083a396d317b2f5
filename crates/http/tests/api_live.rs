//! Following through the live API: no event is lost and none comes twice, however often a client loses its connection.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use proto_events::id::Position;
use support::{Connection, Host, PATIENCE, actix_with, builder, connect, request};
use taskreel::{Part, System};
use taskreel_http::{LiveApi, Mounted, Server};

/// The connections that are lost at a random point.
const RECONNECTS: usize = 1_000;

async fn served(system: &System) -> Host {
    let handler = Mounted::new().mount("/api", Arc::new(LiveApi::new(system)));
    actix_with(Server::new().grace(Duration::from_millis(200)), Arc::new(handler)).await
}

/// A client of server-sent events, as browsers are: it remembers the last id, whether or not an event came with it.
struct Client {
    connection: Connection,
    text: String,
}

impl Client {
    async fn open(host: &Host, query: &str, last: Option<&str>) -> Self {
        let last: Vec<(&str, &str)> = last.map(|last| ("last-event-id", last)).into_iter().collect();
        let mut connection = connect(host).await;
        connection.write_all(&request("GET", &format!("/api/v1/live{query}"), &last, "")).await.unwrap();
        let (status, head) = connection.head().await;
        assert_eq!(status, 200, "{head}");
        assert!(head.to_ascii_lowercase().contains("text/event-stream"), "{head}");
        Self { connection, text: String::new() }
    }

    /// Waits for the next block: its fields by name.
    async fn block(&mut self) -> BTreeMap<String, String> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let fields = block.lines().filter_map(|line| line.split_once(": "));
                let fields = fields.filter(|(name, _)| !name.is_empty());
                let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
                let rest = rest.to_owned();
                self.text = rest;
                return fields;
            }
            let piece = self.connection.chunk().await.expect("the stream goes on");
            self.text.push_str(&piece);
        }
    }
}

/// A row of pseudo-random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_connections_lost_at_random_points_lose_and_repeat_nothing() {
    let system = builder().start().await.unwrap();
    let host = served(&system).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let writing = {
        let (system, is_over) = (system.clone(), Arc::clone(&is_over));
        tokio::spawn(async move {
            while !is_over.load(Ordering::Relaxed) {
                system.submit(Part::text("more")).await.unwrap().finished().await.unwrap();
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
    };
    let mut random = Random(0x5eed_0013);
    let (mut last, mut seen): (Option<String>, Vec<u64>) = (None, Vec::new());
    for _ in 0..RECONNECTS {
        let query = if last.is_none() { "?from=1" } else { "" };
        let mut client = Client::open(&host, query, last.as_deref()).await;
        let take = random.below(4);
        let mut taken = 0;
        while taken < take {
            let block = client.block().await;
            if let Some(id) = block.get("id") {
                last = Some(id.clone());
            }
            if block.get("event").is_some_and(|event| event == "event") {
                let row: serde_json::Value = serde_json::from_str(&block["data"]).unwrap();
                assert_eq!(row["position"].to_string(), block["id"]);
                seen.push(row["position"].as_u64().unwrap());
                taken += 1;
            }
        }
        // Dropped with whatever was on its way.
    }
    is_over.store(true, Ordering::Relaxed);
    writing.await.unwrap();
    let head = system.log().head().unwrap();
    let mut client = Client::open(&host, "?from=1", last.as_deref()).await;
    while seen.last().copied().unwrap_or(0) < head.0 {
        let block = client.block().await;
        if block.get("event").is_some_and(|event| event == "event") {
            seen.push(block["id"].parse().unwrap());
        }
    }
    assert!(seen.len() > RECONNECTS, "{} events", seen.len());
    let expected: Vec<u64> = (1..=seen.len() as u64).collect();
    assert_eq!(seen, expected, "each position once, in order");
    host.stop().await;
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_take_what_they_name_and_a_resumed_client_is_told_how_far_the_log_was_seen() {
    let system = builder().start().await.unwrap();
    let host = served(&system).await;
    let done = system.submit(Part::text("one")).await.unwrap();
    done.finished().await.unwrap();
    let other = system.submit(Part::text("two")).await.unwrap();
    other.finished().await.unwrap();
    let stream = done.stream().to_string().replace('/', "%2F");
    let mut client = Client::open(&host, &format!("?from=1&stream={stream}&state=completed"), None).await;
    let block = loop {
        let block = client.block().await;
        if block.contains_key("data") {
            break block;
        }
    };
    let row: serde_json::Value = serde_json::from_str(&block["data"]).unwrap();
    assert_eq!((row["id"].as_str(), row["kind"].as_str()), (Some(done.id()), Some("StateChanged")), "{row}");
    assert_eq!(row["payload"]["to"], "completed", "{row}");
    // Nothing else is taken; the position still advances to the end of the log.
    let head = system.log().head().unwrap();
    loop {
        let block = client.block().await;
        assert!(!block.contains_key("data"), "{block:?}");
        if block.get("id").is_some_and(|id| *id == head.to_string()) {
            break;
        }
    }
    let mut kinds = Client::open(&host, "?from=1&kind=Submitted&agent=agent", None).await;
    for _ in 0..2 {
        let block = loop {
            let block = kinds.block().await;
            if block.contains_key("data") {
                break block;
            }
        };
        assert!(block["data"].contains("\"kind\":\"Submitted\""), "{block:?}");
    }
    host.stop().await;
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_ends_its_followers_and_a_closed_log_is_told() {
    let system = builder().start().await.unwrap();
    let host = served(&system).await;
    let mut first = Client::open(&host, "?from=1", None).await;
    first.block().await;
    system.clone().shutdown().await.unwrap();
    let ended = async {
        loop {
            if first.block().await.get("event").is_some_and(|event| event == "ended") {
                break;
            }
        }
    };
    tokio::time::timeout(PATIENCE, ended).await.expect("the end is told");
    drop(first);
    tokio::time::timeout(PATIENCE, host.stop()).await.expect("the server stops");

    let system = builder().start().await.unwrap();
    let host = served(&system).await;
    let mut follower = connect(&host).await;
    follower.write_all(&request("GET", "/api/v1/records?follow=true", &[], "")).await.unwrap();
    assert_eq!(follower.head().await.0, 200);
    let stopped = tokio::time::timeout(Duration::from_secs(10), host.stop()).await;
    assert!(stopped.is_ok(), "a follower does not keep the server");
    assert!(system.log().head().unwrap() > Position(0));
    system.shutdown().await.unwrap();
}
