//! Bad requests of a generator, over raw sockets, to every route of every handler on one port, in our own server and in a host on
//! axum: each has an answer from the table of errors and never a 5xx, what is refused changes nothing, and the log verifies.
//! `TASKREEL_BAD_REQUESTS` is the number of requests, `TASKREEL_BAD_SEED` the seed; a failure prints both.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod bad_requests_support;
mod support;

use std::sync::Arc;

use bad_requests_support::{Random, request_of, smuggling};
use support::{Answer, Host, ask, builder, connect, hosts_of, model, tool_task};
use taskreel::System;
use taskreel_http::{HttpHandler, LiveApi, Mounted, Ops, Protolink, Registry, RegistryHandler};
use taskreel_log::audit::verify;

/// The requests to each host where no other number is asked for.
const REQUESTS: u64 = 300;

/// Reads the answer to a request of the generator.
async fn answered(host: &Host, bytes: &[u8], shown: &str) -> Answer {
    let mut connection = connect(host).await;
    // A server may refuse before it has read all.
    let _ = connection.write_all(bytes).await;
    let text = connection.rest().await;
    let text = text.strip_prefix("HTTP/1.1 100 Continue\r\n\r\n").unwrap_or(&text);
    let (head, body) =
        text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer to {shown}: {text:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}

fn handlers(system: &System, registry: Registry) -> Arc<dyn HttpHandler> {
    let mounted = Mounted::new()
        .mount("/", Arc::new(Ops::new(system.clone(), Arc::default(), Arc::default())))
        .mount("/api", Arc::new(LiveApi::new(system)))
        .mount("/", Arc::new(RegistryHandler::new(registry)))
        .mount("/", Arc::new(Protolink::new(system.clone())));
    Arc::new(mounted)
}

fn set(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().map_or(usual, |text| text.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_a_generator_are_answered_from_the_table_and_refused_ones_change_nothing() {
    let (requests, seed) = (set("TASKREEL_BAD_REQUESTS", REQUESTS), set("TASKREEL_BAD_SEED", 13));
    let system = builder().infer(model(&["hello"; 4])).start().await.unwrap();
    let registry = Registry::new(&system, "r").unwrap();
    let mut statuses = std::collections::BTreeMap::<u16, u64>::new();
    for host in hosts_of(handlers(&system, registry)).await {
        let mut random = Random::new(seed);
        for n in 0..requests {
            let before = system.log().head().unwrap();
            let (bytes, shown) = request_of(&mut random);
            let answer = answered(&host, &bytes, &shown).await;
            let place = format!("seed {seed}, request {n}, {}: {shown}: {answer:?}", host.name);
            *statuses.entry(answer.status).or_default() += 1;
            match answer.status {
                200 | 204 | 307 => continue,
                // Protolink's own refusals are texts.
                404 | 405 if !answer.body.starts_with('{') => {}
                // A handshake that is none, or a head that the server itself refuses.
                400 | 426 | 431 if answer.body.is_empty() => {}
                400 | 404 | 405 | 409 | 413 | 415 | 422 | 429 => {
                    let error = answer.json()["error"].clone();
                    assert!(error["code"].is_string() && error["message"].is_string(), "{place}");
                }
                _ => panic!("{place}"),
            }
            assert_eq!(system.log().head().unwrap(), before, "a refused request was done: {place}");
        }
        let echo = tool_task(&format!("after-{}", host.name), "echo", r#"{"text": "x"}"#);
        assert_eq!(ask(&host, "POST", "/tasks/", &echo).await.json()["state"], "completed");
        host.stop().await;
    }
    println!("statuses: {statuses:?}");
    assert!(statuses.len() > 4, "{statuses:?}");
    let verified = verify(system.log().as_ref());
    assert!(verified.is_sound(), "{verified:?}");
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_hidden_in_a_body_whose_end_is_disguised_is_never_carried_out() {
    let (requests, seed) = (set("TASKREEL_BAD_REQUESTS", REQUESTS), set("TASKREEL_BAD_SEED", 13));
    let system = builder().start().await.unwrap();
    let hidden = tool_task("smuggled", "echo", r#"{"text": "x"}"#);
    let hidden = format!(
        "POST /tasks/ HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{hidden}",
        hidden.len()
    );
    for host in hosts_of(Arc::new(Protolink::new(system.clone()))).await {
        let mut random = Random::new(seed);
        for n in 0..requests {
            let text = smuggling(&mut random, &hidden);
            let mut connection = connect(&host).await;
            let _ = connection.write_all(text.as_bytes()).await;
            let (status, head) = connection.head().await;
            let place = format!("seed {seed}, request {n}, {}: {text:?}: {head}", host.name);
            assert_eq!(status, 400, "{place}");
            drop(connection);
            assert!(system.task("smuggled").unwrap().snapshot().await.is_err(), "{place}");
        }
        host.stop().await;
    }
    assert!(verify(system.log().as_ref()).is_sound());
    system.shutdown().await.unwrap();
}
