//! The server's own bounds and its end: heads that never come, clients that take nothing, requests in flight while it stops.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use support::{PATIENCE, actix_with, ask, builder, connect, request, tool_task};
use taskreel::{System, TaskState};
use taskreel_http::{Access, Guard, HttpHandler, Protolink, Scopes, ServeError, Server};

fn handler(system: &System) -> Arc<Protolink> {
    Arc::new(Protolink::new(system.clone()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_does_not_come_is_given_up() {
    let system = builder().start().await.unwrap();
    let host =
        actix_with(Server::new().grace(Duration::ZERO).head_time(Duration::from_secs(1)), handler(&system))
            .await;
    for begun in ["", "GET /status HTTP/1.1\r\nhost"] {
        let mut connection = connect(&host).await;
        connection.write_all(begun.as_bytes()).await.unwrap();
        let answer = connection.rest().await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408"), "{answer}");
    }
    assert_eq!(ask(&host, "GET", "/status", "").await.status, 200);
    host.stop().await;
    system.shutdown().await.unwrap();
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_takes_nothing_is_cut_off() {
    let system = builder().start().await.unwrap();
    let server = Server::new().grace(Duration::ZERO).reader_stall(Duration::from_millis(500));
    let host = actix_with(server, handler(&system)).await;
    let mut connection = connect(&host).await;
    let text = "x".repeat(12 * 1024 * 1024);
    let body = tool_task("large", "echo", &format!(r#"{{"text": "{text}"}}"#));
    connection.write_all(&request("POST", "/tasks/", &[], &body)).await.unwrap();
    // The answer is larger than all buffers between, and nobody reads it.
    let cut = async {
        while connection.write_all(b"\r\n").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, cut).await.expect("the connection ends");
    assert_eq!(ask(&host, "GET", "/status", "").await.status, 200);
    host.stop().await;
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_lets_requests_end_and_accepts_no_more() {
    let system = builder().start().await.unwrap();
    let host = actix_with(Server::new().grace(PATIENCE), handler(&system)).await;
    let mut idle = connect(&host).await;
    idle.write_all(&request("GET", "/status", &[], "")).await.unwrap();
    assert_eq!(idle.answer().await.status, 200);
    let mut connection = connect(&host).await;
    let body = tool_task("t", "slow", r#"{"ms": 300}"#);
    connection.write_all(&request("POST", "/tasks/", &[], &body)).await.unwrap();
    while system.task("t").unwrap().snapshot().await.map(|task| task.state()).ok() != Some(TaskState::Working)
    {
        tokio::task::yield_now().await;
    }
    let (begun, address) = (Instant::now(), host.address);
    let ((), answer) = tokio::join!(host.stop(), connection.answer());
    assert_eq!(answer.json()["state"], "completed");
    assert!(begun.elapsed() < PATIENCE / 2, "an idle connection holds nothing up: {:?}", begun.elapsed());
    assert!(tokio::net::TcpStream::connect(address).await.is_err(), "the port is free");
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_flight_after_the_grace_time_is_cut_off_and_the_task_goes_on() {
    let system = builder().start().await.unwrap();
    let host = actix_with(Server::new().grace(Duration::from_millis(200)), handler(&system)).await;
    let mut connection = connect(&host).await;
    let body = tool_task("t", "slow", r#"{"ms": 2000}"#);
    connection.write_all(&request("POST", "/tasks/stream", &[], &body)).await.unwrap();
    connection.head().await;
    assert_eq!(connection.frame().await.unwrap().1["result"]["new_state"], "working");
    host.stop().await;
    while let Some((_, frame)) = connection.frame().await {
        assert_eq!(frame["final"], false, "a stream that is cut off has no end");
    }
    assert_eq!(system.task("t").unwrap().finished().await.unwrap().state(), TaskState::Completed);
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_is_taken_is_named() {
    let system = builder().start().await.unwrap();
    let host = actix_with(Server::new().grace(Duration::ZERO), handler(&system)).await;
    let taken = Server::new().mount("/", handler(&system)).start(host.address).await;
    assert!(matches!(taken, Err(ServeError::Bind { address, .. }) if address == host.address));
    host.stop().await;
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn other_machines_are_served_only_where_every_handler_asks_for_a_credential() {
    let system = builder().start().await.unwrap();
    let everywhere = "0.0.0.0:0";
    let refused = taskreel_http::serve(system.clone(), everywhere).await.unwrap_err();
    assert!(
        matches!(refused, ServeError::Unguarded { .. }) && refused.to_string().contains("0.0.0.0"),
        "{refused}"
    );
    let token = || Access::open().with_token("ada", Scopes::ALL, "t0ken").unwrap();
    let guarded = || -> Arc<dyn HttpHandler> { Arc::new(Guard::new(token(), handler(&system))) };
    for (server, is_served) in [
        (
            Server::new()
                .mount("/", handler(&system))
                .behind(|handlers| Arc::new(Guard::new(Access::open(), handlers))),
            false,
        ),
        (Server::new().mount("/", guarded()).mount("/open", handler(&system)), false),
        (Server::new().mount("/", handler(&system)).for_everybody(), true),
        (Server::new().mount("/a", guarded()).mount("/b", guarded()), true),
        (
            Server::new()
                .mount("/", handler(&system))
                .behind(|handlers| Arc::new(Guard::new(token(), handlers))),
            true,
        ),
    ] {
        let started = server.workers(1).grace(Duration::ZERO).start(everywhere).await;
        assert_eq!(started.is_ok(), is_served, "{started:?}");
        if let Ok(serving) = started {
            serving.stop().await.unwrap();
        }
    }
    system.shutdown().await.unwrap();
}

/// A server is started from a runtime of one thread, which goes on with its own work.
#[tokio::test]
async fn a_server_runs_beside_a_runtime_of_one_thread() {
    let system = builder().start().await.unwrap();
    let serving = taskreel_http::serve(system.clone(), "127.0.0.1:0").await.unwrap();
    assert_ne!(serving.address().port(), 0);
    let asked = tokio::net::TcpStream::connect(serving.address()).await;
    assert!(asked.is_ok());
    drop(asked);
    serving.stop().await.unwrap();
    system.shutdown().await.unwrap();
}
