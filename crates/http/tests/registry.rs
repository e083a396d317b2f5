//! The registry over sockets: its routes in our own server and in a host on axum, who may end a registration, and what
//! a restart keeps.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use proto_events::envelope::{Principal, Timestamp};
use proto_events::id::Position;
use proto_events::model::AgentCard;
use support::{Host, actix, ask, axum, send};
use taskreel::{BoxFuture, Error, System};
use taskreel_http::{
    Access, AgentFilter, Caller, Guard, HttpHandler, Mounted, Protolink, Quota, Registry, RegistryHandler,
    Request, Response, Scope, Scopes,
};
use taskreel_log::api::EventStore;
use taskreel_log::audit::{replay_all, verify};
use taskreel_log::memory::MemoryStore;
use taskreel_log::ports::{Clock, Ports, Sleep};

const CARD: &str = r#"{"name": "desk", "description": "Answers", "url": "http://127.0.0.1:8010", "tags": ["a", "b"], "role": "gateway"}"#;

async fn system() -> System {
    on(Arc::new(MemoryStore::new())).await
}

async fn on(store: Arc<dyn EventStore>) -> System {
    System::builder("in memory").store(store).start().await.unwrap()
}

async fn hosts(registry: &Registry) -> [Host; 2] {
    let handler: Arc<dyn HttpHandler> = Arc::new(RegistryHandler::new(registry.clone()));
    [actix(Arc::clone(&handler)).await, axum(handler).await]
}

fn assert_sound(store: &dyn EventStore) {
    let verified = verify(store);
    assert!(verified.findings.is_empty() && verified.failed.is_none(), "{:?}", verified.findings);
    assert_eq!(replay_all(store).unwrap().mismatch, None);
}

fn count(store: &dyn EventStore, kind: &str) -> usize {
    let records = store.page_all(Position(1), taskreel_log::api::Page::default()).unwrap();
    let events = records.iter().flat_map(|record| record.record.events.iter());
    events.filter(|event| proto_events::codec::kind::name(event.kind) == kind).count()
}

#[tokio::test]
async fn an_agent_is_registered_found_heard_of_and_unregistered_in_protolinks_words() {
    let system = system().await;
    let registry = Registry::new(&system, "main").unwrap();
    for host in hosts(&registry).await {
        let said = async |method: &str, path: &str, body: &str| {
            let answer = ask(&host, method, path, body).await;
            assert_eq!(answer.status, 200, "{}: {answer:?}", host.name);
            answer.json()
        };
        let url = r#"{"agent_url": "http://127.0.0.1:8010"}"#;
        let status = |text: &str| serde_json::json!({"status": text});
        assert_eq!(said("POST", "/agents/heartbeat", url).await, status("agent not found"));
        for _ in 0..2 {
            assert_eq!(said("POST", "/agents/", CARD).await, status("agent registered successfully"));
        }
        assert_eq!(said("POST", "/agents/heartbeat", url).await, status("agent heartbeat recorded"));
        for (query, found) in [
            ("", 1),
            ("?name=desk", 1),
            ("?name=desk&role=gateway&tags=b", 1),
            ("?role=worker", 0),
            ("?colour=red", 0),
            ("?token=secret", 1),
        ] {
            let cards = said("GET", &format!("/agents/{query}"), "").await;
            assert_eq!(cards.as_array().unwrap().len(), found, "{query}");
        }
        let cards = said("GET", "/agents/", "").await;
        assert_eq!((&cards[0]["role"], &cards[0]["protocolVersion"]), (&"gateway".into(), &"0.6.4".into()));
        let page = ask(&host, "GET", "/agents/status", "").await;
        assert!(page.header("content-type").unwrap().starts_with("text/html"));
        assert!(page.body.contains("Registry: 1 agent") && page.body.contains("http://127.0.0.1:8010"));
        for _ in 0..2 {
            assert_eq!(said("DELETE", "/agents/", url).await, status("agent unregistered successfully"));
        }
        assert_eq!(said("GET", "/agents/", "").await, serde_json::json!([]));
        host.stop().await;
    }
    assert_eq!(
        (count(system.log().as_ref(), "AgentRegistered"), count(system.log().as_ref(), "AgentUnregistered")),
        (2, 2)
    );
    assert_sound(system.log().as_ref());
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_request_that_is_none_is_answered_from_the_table_and_changes_nothing() {
    let system = system().await;
    let registry = Registry::new(&system, "main").unwrap();
    for host in hosts(&registry).await {
        let big = format!(r#"{{"name": "a", "description": "{}", "url": "http://h"}}"#, "x".repeat(300_000));
        for (method, path, body, status, code) in [
            ("POST", "/agents/", "", 400, "malformed"),
            ("POST", "/agents/", "{nope", 400, "malformed"),
            ("POST", "/agents/", "[]", 400, "malformed"),
            ("POST", "/agents/", r#"{"name": "a", "description": "d"}"#, 400, "malformed"),
            ("POST", "/agents/", r#"{"name": "a", "description": "d", "url": "nowhere"}"#, 400, "malformed"),
            (
                "POST",
                "/agents/",
                r#"{"name": "a\u0000", "description": "d", "url": "http://h"}"#,
                400,
                "malformed",
            ),
            ("POST", "/agents/", &big, 413, "too_large"),
            ("DELETE", "/agents/", "{}", 400, "malformed"),
            ("DELETE", "/agents/", r#"{"agent_url": 7}"#, 400, "malformed"),
            ("POST", "/agents/heartbeat", "[]", 400, "malformed"),
            ("GET", "/agents/?name=%ff", "", 400, "malformed"),
        ] {
            let answer = ask(&host, method, path, body).await;
            assert_eq!((answer.status, answer.code().as_str()), (status, code), "{method} {path} {body:.80}");
        }
        let refused = ask(&host, "POST", "/agents/", r#"{"description": "d"}"#).await.json();
        let message = refused["error"]["message"].as_str().unwrap();
        assert!(message.starts_with("AgentCard :: Missing required field name."), "{message}");
        let other = ask(&host, "PUT", "/agents/", CARD).await;
        assert_eq!((other.status, other.header("allow")), (405, Some("DELETE, GET, HEAD, POST")));
        let moved = ask(&host, "GET", "/agents?name=a", "").await;
        assert_eq!((moved.status, moved.header("location")), (307, Some("/agents/?name=a")));
        assert_eq!(ask(&host, "GET", "/status", "").await.status, 404);
        let typed = support::request("POST", "/agents/", &[("content-type", "text/plain")], CARD);
        assert_eq!(send(&host, &typed).await.status, 415);
        host.stop().await;
    }
    assert_eq!(count(system.log().as_ref(), "AgentRegistered"), 0);
    let alone = actix(Arc::new(RegistryHandler::alone(registry))).await;
    assert_eq!(ask(&alone, "GET", "/status", "").await.status, 200);
    alone.stop().await;
    assert_sound(system.log().as_ref());
    system.shutdown().await.unwrap();
}

/// A handler behind a check of credentials: the caller's name is the text behind `Bearer `.
struct Checked(RegistryHandler);

impl HttpHandler for Checked {
    fn answer(&self, mut request: Request) -> BoxFuture<'static, Response> {
        let named = request.headers().get("authorization").and_then(|value| value.to_str().ok());
        let name = named.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default().to_owned();
        let scopes = if name == "reader" { Scopes::NONE.with(Scope::Read) } else { Scopes::ALL };
        request.extensions_mut().insert(Caller { principal: Principal::authenticated(name), scopes });
        self.0.answer(request)
    }
}

#[tokio::test]
async fn a_registration_of_an_authenticated_caller_is_its_own_and_stands_so_in_the_log() {
    let system = system().await;
    let registry = Registry::new(&system, "main").unwrap();
    let host = actix(Arc::new(Checked(RegistryHandler::new(registry.clone())))).await;
    let said = async |name: &str, method, body| {
        let bearer = format!("Bearer {name}");
        let headers = [("content-type", "application/json"), ("authorization", bearer.as_str())];
        let answer = send(&host, &support::request(method, "/agents/", &headers, body)).await;
        (answer.status, answer.body)
    };
    let url = r#"{"agent_url": "http://127.0.0.1:8010"}"#;
    assert_eq!(said("ada", "POST", CARD).await.0, 200);
    for (method, body) in [("POST", CARD), ("DELETE", url)] {
        let (status, body) = said("eve", method, body).await;
        assert_eq!(status, 403, "{body}");
        assert!(!body.contains("ada"), "the registrant is not told: {body}");
        assert_eq!(said("reader", method, CARD).await.0, 403);
    }
    assert_eq!(said("reader", "GET", "").await.0, 200);
    let known = system.registry("main").unwrap().state().await.unwrap();
    assert_eq!(known.get("http://127.0.0.1:8010").unwrap().by, Principal::authenticated("ada"));
    assert_eq!(said("ada", "DELETE", url).await.0, 200);
    host.stop().await;
    assert_sound(system.log().as_ref());
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn what_is_registered_is_there_after_a_restart_and_in_a_registry_of_another_name_it_is_not() {
    let first = system().await;
    let registry = Registry::new(&first, "main").unwrap();
    let card = AgentCard::new("desk", "Answers", "http://127.0.0.1:8010");
    registry.register(card.clone(), &Principal::default()).await.unwrap();
    let store = first.log();
    first.shutdown().await.unwrap();
    let stopped = registry.register(card.clone(), &Principal::asserted("late")).await;
    assert!(matches!(stopped, Err(Error::Stopped)), "{stopped:?}");
    let second = on(store.reopen().unwrap()).await;
    let again = Registry::new(&second, "main").unwrap();
    let found = again.discover(&AgentFilter::new()).await.unwrap();
    assert_eq!(found.iter().map(|card| card.name.as_str()).collect::<Vec<_>>(), ["desk"]);
    let other = Registry::new(&second, "other").unwrap();
    assert!(other.discover(&AgentFilter::new()).await.unwrap().is_empty());
    assert_sound(second.log().as_ref());
    second.shutdown().await.unwrap();
}

#[tokio::test]
async fn two_records_of_one_registry_never_lose_each_others_registrations() {
    let system = system().await;
    let both = [Registry::new(&system, "main").unwrap(), Registry::new(&system, "main").unwrap()];
    let card = |number: usize| AgentCard::new("desk", "Answers", format!("http://127.0.0.1:{number}"));
    let nobody = Principal::default();
    let registrations = (0..60).map(|number| both[number % 2].register(card(number), &nobody));
    for done in futures_util::future::join_all(registrations).await {
        done.unwrap();
    }
    for registry in &both {
        assert_eq!(registry.discover(&AgentFilter::new()).await.unwrap().len(), 60);
    }
    assert_sound(system.log().as_ref());
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_caller_that_goes_away_leaves_a_registry_that_goes_on() {
    let system = system().await;
    let registry = Registry::new(&system, "main").unwrap();
    for number in 0..20 {
        let card = AgentCard::new("desk", "Answers", format!("http://127.0.0.1:{number}"));
        let by = Principal::default();
        // Polled a few times at most, then dropped wherever it stands.
        let mut registering = Box::pin(registry.register(card, &by));
        for _ in 0..number % 4 {
            if futures_util::poll!(registering.as_mut()).is_ready() {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(registering);
    }
    let card = AgentCard::new("desk", "Answers", "http://127.0.0.1:99");
    registry.register(card, &Principal::default()).await.unwrap();
    let found = registry.discover(&AgentFilter::new()).await.unwrap();
    assert!(found.iter().any(|card| card.url == "http://127.0.0.1:99"));
    assert_sound(system.log().as_ref());
    system.shutdown().await.unwrap();
}

/// A clock that a test sets.
#[derive(Debug, Default)]
struct SetClock(AtomicI64);

impl Clock for SetClock {
    fn monotonic(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::SeqCst).unsigned_abs())
    }

    fn now(&self) -> Timestamp {
        Timestamp(1_800_000_000_000_000)
            .plus(Duration::from_secs(self.0.load(Ordering::SeqCst).unsigned_abs()))
    }

    fn sleep(&self, time: Duration) -> Sleep {
        Box::pin(tokio::time::sleep(time))
    }
}

#[tokio::test]
async fn an_agent_that_is_not_heard_of_ends_by_an_event_and_one_that_is_stays() {
    let clock = Arc::new(SetClock::default());
    let ports = Ports { clock: Arc::<SetClock>::clone(&clock), ..Ports::default() };
    let start = async |store: Arc<dyn EventStore>| {
        System::builder("in memory").store(store).ports(ports.clone()).start().await.unwrap()
    };
    let system = start(Arc::new(MemoryStore::new())).await;
    let ttl = Duration::from_secs(30);
    let registry = Registry::new(&system, "main").unwrap().time_to_live(ttl);
    for port in ["1", "2"] {
        let card = AgentCard::new("desk", "Answers", format!("http://127.0.0.1:{port}"));
        registry.register(card, &Principal::authenticated("ada")).await.unwrap();
    }
    let urls = async |registry: &Registry| {
        let found = registry.discover(&AgentFilter::new()).await.unwrap();
        found.iter().map(|card| card.url.clone()).collect::<Vec<_>>()
    };
    clock.0.store(20, Ordering::SeqCst);
    assert!(registry.heartbeat("http://127.0.0.1:2").await.unwrap());
    clock.0.store(31, Ordering::SeqCst);
    assert_eq!(urls(&registry).await, ["http://127.0.0.1:2"]);
    assert_eq!(count(system.log().as_ref(), "AgentExpired"), 1);
    assert!(!registry.heartbeat("http://127.0.0.1:1").await.unwrap(), "it is to register again");
    let store = system.log();
    system.shutdown().await.unwrap();
    // Heartbeats are not kept: after a restart each agent has its whole time again.
    clock.0.store(200, Ordering::SeqCst);
    let system = start(store.reopen().unwrap()).await;
    let registry = Registry::new(&system, "main").unwrap().time_to_live(ttl);
    clock.0.store(229, Ordering::SeqCst);
    assert_eq!(urls(&registry).await, ["http://127.0.0.1:2"]);
    clock.0.store(231, Ordering::SeqCst);
    assert!(urls(&registry).await.is_empty());
    assert_sound(system.log().as_ref());
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_port_of_its_own_has_the_rules_and_the_quota_of_the_port_beside_it() {
    let system = system().await;
    let registry = Registry::new(&system, "main").unwrap();
    let access = Access::open().with_token("ada", Scopes::ALL, "s3cret-t0ken").unwrap().only_local_hosts();
    let mut quota = Quota::default();
    (quota.requests_per_second, quota.burst) = (Some(1), Some(4));
    let agents = Mounted::new()
        .mount("/", Arc::new(RegistryHandler::new(registry.clone())))
        .mount("/", Arc::new(Protolink::new(system.clone())));
    let guard = Guard::new(access.quota(quota), Arc::new(agents));
    let alone = guard.beside(Arc::new(RegistryHandler::alone(registry)), false);
    let refusals = alone.refusals();
    let (agents, alone) = (actix(Arc::new(guard)).await, actix(Arc::new(alone)).await);
    let ask = async |host: &Host, method, path, name, bearer, body| {
        let headers = [("host", name), ("content-type", "application/json"), ("authorization", bearer)];
        let mut bytes = format!("{method} {path} HTTP/1.1\r\ncontent-length: {}\r\n", str::len(body));
        for (name, value) in headers {
            bytes += &[name, ": ", value, "\r\n"].concat();
        }
        send(host, (bytes + "\r\n" + body).as_bytes()).await
    };
    let ada = "Bearer s3cret-t0ken";
    assert_eq!(ask(&alone, "POST", "/agents/", "registry.example", "", CARD).await.status, 401);
    assert_eq!(ask(&agents, "GET", "/status", "registry.example", ada, "").await.status, 403);
    assert_eq!(ask(&alone, "POST", "/agents/", "registry.example", ada, CARD).await.status, 200);
    let page = ask(&agents, "GET", "/status", "localhost", ada, "").await;
    assert!(page.status == 200 && !page.body.contains("Registry: 1 agent"), "the agent's page wins");
    let page = ask(&alone, "GET", "/status", "localhost", ada, "").await;
    assert!(page.status == 200 && page.body.contains("Registry: 1 agent"), "{page:?}");
    assert_eq!(ask(&agents, "GET", "/agents/", "localhost", ada, "").await.status, 200);
    assert_eq!(ask(&alone, "GET", "/agents/", "localhost", ada, "").await.status, 429);
    assert_eq!(ask(&agents, "GET", "/agents/", "localhost", ada, "").await.status, 429);
    let counted: Vec<u64> = refusals.rows().map(|(_, count)| count).filter(|count| *count > 0).collect();
    assert_eq!(counted.iter().sum::<u64>(), 4, "the refusals of both ports: {counted:?}");
    agents.stop().await;
    alone.stop().await;
    system.shutdown().await.unwrap();
}
