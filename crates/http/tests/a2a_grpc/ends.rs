//! The port: its end, its connections, its TLS.

use std::sync::Arc;
use std::time::{Duration, Instant};

use taskreel_http::{A2a, ServeError, Server};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tonic::Code;

use crate::agent::{Gate, agent};
use crate::peer::{at_once, follow, message, next, peer_of, peer_with, sending, sent, up_to_end};
use crate::support::PATIENCE;

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_ends_its_streams_and_leaves_its_calls_their_time() {
    let gate = Gate::shut();
    let system = agent(&gate).await;
    let handler = Arc::new(A2a::new(system.clone()).grpc());
    let peer = peer_with(Server::new().grace(Duration::from_secs(20)), handler).await;
    let task = sent(&peer.client, at_once("wait")).await;
    let mut stream = follow(&peer.client, &task.id, None).await.unwrap();
    next(&mut stream).await;
    let mut client = peer.client.clone();
    let call = tokio::spawn(async move { client.send_message(sending(message("wait"))).await });
    while system.tasks().newest(None, 1).await.unwrap().total < 2 {
        tokio::task::yield_now().await;
    }
    let began = Instant::now();
    let stopped = tokio::spawn(peer.stop());
    let (_, end) = up_to_end(stream).await;
    assert_eq!(end.unwrap().code(), Code::Unavailable, "the task goes on");
    gate.open();
    gate.open();
    assert!(call.await.unwrap().is_ok(), "the call had its time");
    stopped.await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_outlasts_the_grace_time_is_cut_off() {
    let gate = Gate::shut();
    let system = agent(&gate).await;
    let peer = peer_of(Arc::new(A2a::new(system.clone()).grpc())).await;
    let mut client = peer.client.clone();
    let call = tokio::spawn(async move { client.send_message(sending(message("wait"))).await });
    while system.tasks().newest(None, 1).await.unwrap().total == 0 {
        tokio::task::yield_now().await;
    }
    tokio::time::timeout(PATIENCE, peer.stop()).await.unwrap();
    assert!(call.await.unwrap().is_err());
    gate.open();
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_says_nothing_is_let_go() {
    let system = agent(&Gate::shut()).await;
    let server = Server::new().grace(Duration::from_millis(200)).head_time(Duration::from_secs(1));
    let peer = peer_with(server, Arc::new(A2a::new(system.clone()).grpc())).await;
    sent(&peer.client, sending(message("hello"))).await;
    let mut silent = TcpStream::connect(peer.address()).await.unwrap();
    let mut rest = Vec::new();
    let read = tokio::time::timeout(PATIENCE, silent.read_to_end(&mut rest)).await;
    assert!(read.is_ok(), "the connection was closed");
    // One that has called stays.
    sent(&peer.client, sending(message("hello"))).await;
    peer.stop().await;
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_of_other_machines_needs_a_check_of_callers() {
    let system = agent(&Gate::shut()).await;
    let handler = Arc::new(A2a::new(system.clone()).grpc());
    let refused = Server::new().mount("/", handler).start_grpc("0.0.0.0:0").await.unwrap_err();
    assert!(matches!(refused, ServeError::Unguarded { .. }), "{refused}");
    system.shutdown().await.unwrap();
}
