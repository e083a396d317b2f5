//! The registry of `serve`: its own port, and what is registered there.
#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

mod binary;
mod served;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use binary::Place;
use served::{Served, kinds, task, until};

/// Returns a card to register.
fn card(name: &str, port: u16) -> String {
    format!(r#"{{"name":"{name}","description":"Answers","url":"http://127.0.0.1:{port}"}}"#)
}

/// Returns the names of the agents that a registry knows.
fn known(served: &Served, headers: &str) -> Vec<String> {
    let (status, cards) = served.send("GET", "/agents/", headers, "").unwrap();
    assert_eq!(status, 200, "{cards}");
    let cards: Vec<serde_json::Value> = serde_json::from_str(&cards).unwrap();
    cards.iter().map(|card| card["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_registry_on_a_port_of_its_own_is_the_one_of_the_agents_port_and_nothing_else_answers_there() {
    let place = Place::new();
    let mut served = Served::start(&place, "--listen 127.0.0.1:0 --registry-listen 127.0.0.1:0", &[]);
    let registry = served.second();
    assert_eq!(registry.send("POST", "/agents/", "", &card("desk", 1)).unwrap().0, 200);
    assert_eq!(served.send("POST", "/agents/", "", &card("till", 2)).unwrap().0, 200);
    assert_eq!(
        (known(&registry, ""), known(&served, "")),
        (vec!["desk".into(), "till".into()], known(&registry, ""))
    );
    let heard = registry.send("POST", "/agents/heartbeat", "", r#"{"agent_url":"http://127.0.0.1:2"}"#);
    assert!(heard.unwrap().1.contains("agent heartbeat recorded"));
    // At the root of the agents' port the agent's page wins; on its own port it is the registry's.
    assert!(registry.get("/status").1.contains("Registry: 2 agents"));
    assert!(registry.get("/agents/status").1.contains("Registry: 2 agents"));
    assert!(served.get("/agents/status").1.contains("Registry: 2 agents"));
    assert!(!served.get("/status").1.contains("Registry: 2 agents"));
    assert_eq!((registry.get("/healthz").0, registry.get("/readyz").0), (200, 200));
    for path in ["/tasks/", "/api/v1/tasks", "/.well-known/agent.json", "/chat"] {
        assert_eq!(registry.get(path).0, 404, "{path}");
    }
    assert_eq!(registry.send("POST", "/tasks/", "", &task("sum-1", "add", "{}")).unwrap().0, 404);
    let figures = registry.get("/metrics").1;
    let registering = figures.lines().find(|line| line.contains(r#"class="registry",status="200""#)).unwrap();
    assert!(registering.contains("requests_total"), "the requests of both ports are counted: {registering}");
    served.signal("-TERM");
    let address = registry.address;
    served.end().ended(0);
    assert!(TcpStream::connect(address).is_err(), "both ports are closed");
    place.run("verify").ended(0);
    assert_eq!(kinds(&place).last().unwrap(), "Stopped");
    // What was registered is there at the next start.
    let mut served = Served::start(&place, "--listen 127.0.0.1:0 --registry-listen 127.0.0.1:0", &[]);
    assert_eq!(known(&served.second(), ""), ["desk", "till"]);
    served.signal("-TERM");
    served.end().ended(0);
}

#[test]
fn the_port_of_a_registry_checks_its_callers_as_the_agents_port_does() {
    let place = Place::new();
    for line in ["--registry-listen 0.0.0.0:0", "--listen 127.0.0.1:0 --registry-listen [::]:0"] {
        let refused = place.run(&format!("serve {line}")).ended(2);
        refused.told(&["refused to listen at", "nothing was started", "no credential is asked for"]);
    }
    place.run("serve --registry-listen nowhere").ended(2).told(&["cannot listen at nowhere"]);
    assert!(!place.path().join("taskreel-log").exists(), "nothing was made");
    std::fs::write(place.path().join("token"), "s3cret-t0ken\n").unwrap();
    std::fs::write(place.path().join("auth.json"), r#"{"limits": {"requests_per_second": 1, "burst": 3}}"#)
        .unwrap();
    let line = "--listen 127.0.0.1:0 --registry-listen 0.0.0.0:0 --token-file token --auth-file auth.json \
                --allow-origin https://desk.example";
    let mut served = Served::start(&place, line, &[]);
    let registry = served.second();
    assert_eq!(
        registry.send("POST", "/agents/", "", &card("desk", 1)).unwrap(),
        (401, r#"{"error":"Missing credentials"}"#.to_owned())
    );
    assert_eq!(registry.send("GET", "/agents/?token=wr0ng", "", "").unwrap().0, 401);
    let evil = "authorization: Bearer s3cret-t0ken\r\norigin: https://evil.example\r\n";
    assert_eq!(registry.send("GET", "/agents/", evil, "").unwrap().0, 403);
    // This port is open, so that any host is answered; the agents' is not.
    let named = |served: &Served| {
        let mut stream = served.connect();
        stream
            .write_all(b"GET /status HTTP/1.1\r\nhost: other.example\r\nconnection: close\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer.split(' ').nth(1).unwrap().to_owned()
    };
    assert_eq!((named(&registry), named(&served)), ("401".to_owned(), "403".to_owned()));
    let ada = "authorization: Bearer s3cret-t0ken\r\n";
    assert_eq!(registry.send("POST", "/agents/", ada, &card("desk", 1)).unwrap().0, 200);
    assert_eq!(known(&served, ada), ["desk"]);
    // A principal has one quota for both ports.
    let statuses: Vec<u16> = (0..8)
        .map(|index| if index % 2 == 0 { &served } else { &registry })
        .map(|port| port.send("GET", "/agents/", ada, "").unwrap().0)
        .collect();
    assert!(statuses.iter().filter(|status| **status == 429).count() >= 4, "{statuses:?}");
    served.signal("-TERM");
    served.end().ended(0);
    place.run("verify").ended(0);
}

#[test]
fn a_registrys_port_that_is_taken_is_told_and_the_agents_port_is_closed_too() {
    let place = Place::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let line = format!("serve --listen 127.0.0.1:0 --registry-listen {}", taken.local_addr().unwrap());
    place.run(&line).ended(1).told(&["cannot listen at", "--registry-listen"]);
    assert_eq!(kinds(&place).last().unwrap(), "Stopped");
}

#[test]
fn a_server_comes_back_to_a_registry_that_was_killed_and_has_forgotten_it_and_leaves_it_at_its_end() {
    let place = Place::new();
    let registry = Served::start(&place, "--listen 127.0.0.1:0 --data-dir first", &[]);
    let port = registry.address.port();
    let line = format!(
        "--listen 127.0.0.1:0 --data-dir own --heartbeat 1 --log-level warn --register http://127.0.0.1:{port}"
    );
    let served = Served::start(&place, &line, &[]);
    until("the agent is registered", || known(&registry, "") == ["agent"]);
    let cards = registry.get("/agents/").1;
    assert!(cards.contains(&format!("http://{}", served.address)), "{cards}");
    let figure = |line: &str| served.get("/metrics").1.contains(&format!("{line}\n"));
    until("it is heard of", || {
        !figure(&format!(
            "taskreel_registry_requests_total{{registry=\"http://127.0.0.1:{port}\",outcome=\"heard\"}} 0"
        ))
    });
    registry.signal("-KILL");
    drop(registry);
    until("the registry is missed", || {
        !figure(&format!(
            "taskreel_registry_requests_total{{registry=\"http://127.0.0.1:{port}\",outcome=\"failed\"}} 0"
        ))
    });
    assert_eq!((served.get("/readyz").0, served.get("/healthz").0), (200, 200));
    // The same address, without the memory of the first one.
    let registry = Served::start(&place, &format!("--listen 127.0.0.1:{port} --data-dir second"), &[]);
    until("the agent is registered again", || known(&registry, "") == ["agent"]);
    served.signal("-TERM");
    let ended = served.end().ended(0);
    assert!(ended.err().contains("the agent is not registered or heard of now"), "{}", ended.err());
    assert!(known(&registry, "").is_empty(), "it is unregistered at its end");
    registry.signal("-TERM");
    registry.end().ended(0);
}

#[test]
fn a_registry_that_is_away_holds_up_neither_the_start_nor_the_stop() {
    let place = Place::new();
    // One that refuses, and one that accepts and never answers.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let line = format!(
        "--listen 127.0.0.1:0 --register http://{free} --register http://{}",
        silent.local_addr().unwrap()
    );
    let served = Served::start(&place, &line, &[]);
    let (status, sum) =
        served.send("POST", "/tasks/", "", &task("sum-1", "add", r#"{"a":2,"b":3}"#)).unwrap();
    assert!(status == 200 && sum.contains(r#""state":"completed""#), "{sum}");
    until("a person is told", || {
        let told = served.told();
        told.contains("not registered yet: Failed to connect") && told.contains("it is tried again")
    });
    let began = std::time::Instant::now();
    served.signal("-TERM");
    served.end().ended(0);
    assert!(began.elapsed() < served::PATIENCE / 4, "{:?}", began.elapsed());
    assert_eq!(kinds(&place).last().unwrap(), "Stopped");
}

#[test]
fn what_cannot_be_registered_is_told_before_anything_starts() {
    let place = Place::new();
    std::fs::write(place.path().join("token"), "s3cret-t0ken\n").unwrap();
    std::fs::write(place.path().join("empty"), "\n").unwrap();
    for (line, words) in [
        ("--register nowhere", "it has no scheme or no host"),
        ("--register ws://127.0.0.1:1", "a registry is asked over HTTP"),
        ("--register http://u:s3cret@127.0.0.1", "it holds credentials"),
        ("--public-url example.org", "it has no scheme or no host"),
        ("--register http://127.0.0.1:1 --register-token-file none", "none: "),
        ("--register http://127.0.0.1:1 --register-token-file empty", "empty: it holds no token"),
        (
            "--listen 0.0.0.0:0 --token-file token --register http://127.0.0.1:1",
            "under which no client reaches it",
        ),
    ] {
        let refused = place
            .run(&format!("serve --listen 127.0.0.1:0 {line}").replacen(
                "--listen 127.0.0.1:0 --listen",
                "--listen",
                1,
            ))
            .ended(2);
        assert!(
            !refused.err().contains("s3cret@") && !refused.err().contains("s3cret-t0ken"),
            "{}",
            refused.err()
        );
        refused.told(&[words]);
    }
    for line in ["--heartbeat 0", "--heartbeat soon", "--register-token-file token"] {
        place.run(&format!("serve --listen 127.0.0.1:0 {line}")).ended(2);
    }
    assert!(!place.path().join("taskreel-log").exists(), "nothing was made");
}

#[test]
fn the_token_of_a_registry_is_shown_to_it_and_stands_nowhere() {
    let place = Place::new();
    std::fs::write(place.path().join("token"), "s3cret-t0ken\n").unwrap();
    let registry = Served::start(&place, "--listen 127.0.0.1:0 --data-dir first --token-file token", &[]);
    let line = format!(
        "--listen 127.0.0.1:0 --data-dir own --log-level trace --public-url https://tasks.example.org \
         --register http://{} --register-token-file token",
        registry.address
    );
    let served = Served::start(&place, &line, &[]);
    let ada = "authorization: Bearer s3cret-t0ken\r\n";
    until("the agent is registered", || known(&registry, ada) == ["agent"]);
    assert!(
        registry.send("GET", "/agents/", ada, "").unwrap().1.contains(r#""url":"https://tasks.example.org""#)
    );
    assert!(served.get("/.well-known/agent.json").1.contains(r#""url":"https://tasks.example.org""#));
    served.signal("-TERM");
    let ended = served.end().ended(0);
    assert!(!ended.err().contains("s3cret-t0ken"), "{}", ended.err());
    registry.signal("-TERM");
    registry.end().ended(0);
}
