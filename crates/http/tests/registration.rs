//! Agents that are kept registered: with registries that are away, come back, forget, refuse or hang.
#![cfg(feature = "client")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod support;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use proto_events::model::AgentCard;
use support::{PATIENCE, actix, ask, builder};
use taskreel::System;
use taskreel_http::protolink::{Client, ClientError, Credentials, Registration, RegistrationStatus};
use taskreel_http::{
    Access, AgentFilter, Guard, HttpHandler, Ops, Protolink, Refusals, Registry, RegistryHandler, Requests,
    RunningServer, Scopes, Server,
};
use tokio::net::TcpListener;

/// The pause between heartbeats in these tests: the shortest that there is.
const EVERY: Duration = Duration::from_millis(500);

fn client() -> Client {
    Client::new().unwrap().timeout(PATIENCE)
}

fn card(name: &str, port: u16) -> AgentCard {
    AgentCard::new(name, "Answers", format!("http://127.0.0.1:{port}"))
}

/// A registry with nothing in it, at an address.
async fn registry(address: SocketAddr) -> (System, RunningServer) {
    let system = builder().start().await.unwrap();
    let registry = Registry::new(&system, "main").unwrap();
    let server = Server::new().grace(Duration::from_millis(200)).workers(1);
    let handler: Arc<dyn HttpHandler> = Arc::new(RegistryHandler::alone(registry));
    (system, server.mount("/", handler).start(address).await.unwrap())
}

async fn end((system, serving): (System, RunningServer)) {
    serving.stop().await.unwrap();
    system.shutdown().await.unwrap();
}

async fn free() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

/// Waits until the registration is so.
async fn until(registration: &Registration, holds: impl Fn(&RegistrationStatus) -> bool) {
    let began = Instant::now();
    loop {
        let status = registration.watch().status();
        if holds(&status) {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{status:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn names(url: &str) -> Vec<String> {
    let found = client().discover(url, &AgentFilter::new()).await.unwrap();
    found.into_iter().map(|card| card.name).collect()
}

#[tokio::test]
async fn agents_come_to_a_registry_that_starts_late_and_come_back_to_one_that_has_forgotten_them() {
    let address = free().await;
    let url = format!("http://{address}");
    let began = Instant::now();
    let cards = vec![card("desk", 1), card("till", 2)];
    let registration = client().keep_registered(&url, cards, EVERY).unwrap();
    assert!(began.elapsed() < Duration::from_secs(1), "nothing waits for a registry");
    until(&registration, |status| status.failures > 1).await;
    assert!(registration.watch().status().error.unwrap().contains("Failed to connect"));
    let first = registry(address).await;
    until(&registration, |status| status.registered == 2 && status.error.is_none()).await;
    assert_eq!(names(&url).await, ["desk", "till"]);
    until(&registration, |status| status.heartbeats >= 2).await;
    // Forgotten by a person's hand.
    client().unregister(&url, "http://127.0.0.1:1").await.unwrap();
    until(&registration, |status| status.registrations == 3 && status.registered == 2).await;
    // It ends, and another one without its memory stands in its place.
    end(first).await;
    until(&registration, |status| status.error.is_some()).await;
    let second = registry(address).await;
    until(&registration, |status| status.registrations == 5 && status.error.is_none()).await;
    assert_eq!(names(&url).await.len(), 2);
    registration.stop().await;
    assert!(names(&url).await.is_empty(), "they are unregistered at the end");
    end(second).await;
}

#[tokio::test]
async fn a_registry_that_answers_nothing_holds_up_neither_the_begin_nor_the_end() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let registration = client().keep_registered(&url, vec![card("desk", 1)], EVERY).unwrap();
    // It has connected, and waits for an answer.
    let (_held, _) = tokio::time::timeout(PATIENCE, silent.accept()).await.unwrap().unwrap();
    let began = Instant::now();
    registration.stop().await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_registration_that_is_dropped_unregisters_its_agents_too() {
    let registry = registry("127.0.0.1:0".parse().unwrap()).await;
    let url = format!("http://{}", registry.1.address());
    let registration = client().keep_registered(&url, vec![card("desk", 1)], EVERY).unwrap();
    until(&registration, |status| status.registered == 1).await;
    drop(registration);
    let began = Instant::now();
    while !names(&url).await.is_empty() {
        assert!(began.elapsed() < PATIENCE);
    }
    end(registry).await;
}

#[tokio::test]
async fn two_servers_of_one_name_are_both_known_and_each_unregisters_its_own() {
    let registry = registry("127.0.0.1:0".parse().unwrap()).await;
    let url = format!("http://{}", registry.1.address());
    let first = client().keep_registered(&url, vec![card("desk", 1)], EVERY).unwrap();
    until(&first, |status| status.registered == 1).await;
    let second = client().keep_registered(&url, vec![card("desk", 2)], EVERY).unwrap();
    until(&second, |status| status.registered == 1).await;
    assert_eq!(names(&url).await, ["desk", "desk"]);
    first.stop().await;
    let left = client().discover(&url, &AgentFilter::new().name("desk")).await.unwrap();
    assert_eq!(left.iter().map(|card| card.url.as_str()).collect::<Vec<_>>(), ["http://127.0.0.1:2"]);
    second.stop().await;
    assert!(names(&url).await.is_empty());
    end(registry).await;
}

#[tokio::test]
async fn an_agent_that_is_refused_does_not_keep_the_others_out_and_shows_in_the_figures() {
    let system = builder().start().await.unwrap();
    let registry = Registry::new(&system, "main").unwrap();
    let ops = Ops::new(system.clone(), Arc::<Requests>::default(), Arc::<Refusals>::default());
    let handlers = taskreel_http::Mounted::new()
        .mount("/", Arc::new(ops.clone()))
        .mount("/", Arc::new(RegistryHandler::new(registry)));
    let access = Access::open().with_token("ada", Scopes::ALL, "ada-token").unwrap();
    let access = access.with_token("bob", Scopes::ALL, "bob-token").unwrap();
    let host = actix(Arc::new(Guard::new(access, Arc::new(handlers)))).await;
    let url = format!("http://{}", host.address);
    let of = |token: &str| client().credentials(Credentials::Bearer(token.to_owned()));
    of("ada-token").register(&url, &card("desk", 1)).await.unwrap();
    let cards = vec![card("desk", 1), card("till", 2)];
    let registration = of("bob-token").keep_registered(&url, cards, EVERY).unwrap();
    ops.show(registration.watch());
    until(&registration, |status| status.registered == 1 && status.failures > 0).await;
    assert!(registration.watch().status().error.unwrap().contains("HTTP 403"));
    let request = support::request("GET", "/metrics", &[("authorization", "Bearer ada-token")], "");
    let figures = support::send(&host, &request).await.body;
    for line in [
        format!("taskreel_registry_agents{{registry=\"{url}\"}} 1\n"),
        format!("taskreel_registry_requests_total{{registry=\"{url}\",outcome=\"registered\"}} 1\n"),
    ] {
        assert!(figures.contains(&line), "{line}{figures}");
    }
    assert_eq!(
        ask(&host, "GET", "/readyz", "").await.status,
        200,
        "a registry's troubles are not the server's"
    );
    registration.stop().await;
    let left = of("ada-token").discover(&url, &AgentFilter::new()).await.unwrap();
    assert_eq!(left.len(), 1, "the agent of another principal stays");
    let wrong = of("wr0ng").keep_registered(&url, vec![card("desk", 3)], EVERY).unwrap();
    until(&wrong, |status| status.error.as_deref().is_some_and(|error| error.contains("HTTP 401"))).await;
    wrong.stop().await;
    host.stop().await;
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn addresses_that_are_none_are_told_before_anything_is_sent() {
    let client = client();
    for wrong in ["", "nowhere", "ws://h", "ftp://h", "http://u:hush@h", "http://h?key=hush"] {
        let refused = client.keep_registered(wrong, vec![card("desk", 1)], EVERY).unwrap_err();
        assert!(matches!(refused, ClientError::Url { .. }), "{wrong}: {refused}");
        assert!(!refused.to_string().contains("u:hush"));
        let card = AgentCard::new("desk", "Answers", wrong);
        let of_card = client.keep_registered("http://127.0.0.1:1", vec![card], EVERY);
        assert_eq!(of_card.is_err(), wrong != "ws://h", "{wrong}");
    }
}

#[tokio::test]
async fn the_cards_of_all_agents_bear_the_addresses_under_which_they_answer() {
    let builder = builder().agent("front desk", |agent| agent).agent("till", |agent| agent);
    let system = builder.start().await.unwrap();
    let host = actix(Arc::new(Protolink::new(system.clone()))).await;
    let url = format!("http://{}", host.address);
    let cards = Protolink::new(system.clone()).cards(&url);
    assert_eq!(cards.len(), 3);
    for card in cards {
        let answers = client().get_agent_card(&card.url).await.unwrap();
        assert_eq!(answers.name, card.name, "{}", card.url);
    }
    let public = Protolink::new(system.clone()).url("https://tasks.example.org/").cards(&url);
    let urls: Vec<_> = public.iter().map(|card| card.url.as_str()).collect();
    assert!(
        urls.contains(&"https://tasks.example.org")
            && urls.contains(&"https://tasks.example.org/agents/till")
    );
    host.stop().await;
    system.shutdown().await.unwrap();
}
