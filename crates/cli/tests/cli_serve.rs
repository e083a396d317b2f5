//! `serve`: where it listens, whom it answers, and how it ends.
#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

mod binary;
mod served;
mod served_pages;
#[cfg(feature = "a2a")]
mod served_webhooks;
mod sources;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::time::Instant;

use binary::Place;
use served::{PATIENCE, Served, kinds, task, until};

/// Waits until a call of this task is in flight.
fn until_called(place: &Place, id: &str) {
    until("the call is in flight", || {
        let listed = place.run(&format!("events {id} --json"));
        listed.out().contains("CallDispatched") || listed.out().contains("CallRequested")
    });
}

#[test]
fn a_signal_in_the_middle_of_a_task_ends_the_server_in_order_and_the_task_goes_on_at_the_next_start() {
    for signal in ["-TERM", "-INT", "-HUP"] {
        let place = Place::new();
        let served = Served::start(&place, "--listen 127.0.0.1:0 --grace 1", &[]);
        assert_eq!(served.get("/healthz"), (200, "ok\n".to_owned()));
        assert_eq!(served.get("/readyz"), (200, "ready\n".to_owned()));
        assert_eq!(served.get("/agents/"), (200, "[]".to_owned()));
        assert_eq!(served.get("/api/v1/tasks").0, 200);
        let (status, sum) =
            served.send("POST", "/tasks/", "", &task("sum-1", "add", r#"{"a":2,"b":3}"#)).unwrap();
        assert!(status == 200 && sum.contains(r#""state":"completed""#), "{sum}");
        let slow = task("slow-1", "slow", r#"{"ms":50000}"#);
        let answer = std::thread::scope(|threads| {
            let client = threads.spawn(|| served.send("POST", "/tasks/", "", &slow));
            until_called(&place, "slow-1");
            served.signal(signal);
            client.join().unwrap()
        });
        assert!(
            answer.is_none_or(|(status, _)| status >= 500),
            "an answer of the table, or a closed connection"
        );
        let ended = served.end().ended(0);
        assert!(ended.err().contains("1 call in flight did not end in time"), "{}", ended.err());
        place.run("verify").ended(0);
        assert_eq!(kinds(&place).last().unwrap(), "Stopped", "{signal}");
        let state = place.run("state slow-1").ended(0).out();
        assert!(state.contains(r#""state": "working""#) || state.contains(r#""state":"working""#), "{state}");
    }
}

#[test]
fn a_second_signal_ends_the_server_at_once_and_loses_nothing_that_was_acknowledged() {
    let place = Place::new();
    let served = Served::start(&place, "--listen 127.0.0.1:0 --grace 3000", &[]);
    let sum = task("sum-1", "add", r#"{"a":2,"b":3}"#);
    assert_eq!(served.send("POST", "/tasks/", "", &sum).unwrap().0, 200);
    let slow = task("slow-1", "slow", r#"{"ms":50000}"#);
    let address = served.address;
    std::thread::scope(|threads| {
        let client = threads.spawn(|| served.send("POST", "/tasks/", "", &slow));
        until_called(&place, "slow-1");
        served.signal("-TERM");
        until("nothing more is accepted", || TcpStream::connect(address).is_err());
        served.signal("-TERM");
        assert!(client.join().unwrap().is_none());
    });
    served.end().ended(130);
    place.run("verify").ended(0);
    assert!(place.run("state sum-1").ended(0).out().contains("completed"));
}

#[test]
fn an_address_that_other_machines_reach_is_refused_without_a_credential() {
    let place = Place::new();
    for address in ["0.0.0.0:0", "[::]:0"] {
        let refused = place.run(&format!("serve --listen {address}")).ended(2);
        refused.told(&[
            "refused to listen at",
            "nothing was started",
            "no credential is asked for",
            "--token-file",
        ]);
    }
    place.run("serve --listen nowhere").ended(2).told(&["cannot listen at nowhere"]);
    assert!(!place.path().join("taskreel-log").exists(), "nothing was made");
    std::fs::write(place.path().join("token"), "s3cret-t0ken\n").unwrap();
    let served = Served::start(&place, "--listen 0.0.0.0:0 --token-file token", &[]);
    assert_eq!(served.get("/status").0, 401);
    let known = served.send("GET", "/status", "authorization: Bearer s3cret-t0ken\r\n", "");
    assert_eq!(known.unwrap().0, 200);
    served.signal("-TERM");
    served.end().ended(0);
}

#[test]
fn the_bearer_of_a_token_stands_in_the_records_and_the_token_nowhere() {
    let place = Place::new();
    let env = [("TASKREEL_TOKEN", "s3cret-t0ken")];
    let served = Served::start(&place, "--listen 127.0.0.1:0 --log-level trace", &env);
    let sum = task("sum-1", "add", r#"{"a":2,"b":3}"#);
    assert_eq!(
        served.send("POST", "/tasks/", "", &sum).unwrap(),
        (401, r#"{"error":"Missing credentials"}"#.to_owned())
    );
    assert_eq!(served.send("POST", "/tasks/", "x-api-key: wr0ng\r\n", &sum).unwrap().0, 401);
    assert_eq!(served.send("POST", "/tasks/?api_key=s3cret-t0ken", "", &sum).unwrap().0, 200);
    let figures = served.send("GET", "/metrics", "authorization: Bearer s3cret-t0ken\r\n", "").unwrap();
    assert!(figures.1.contains("taskreel_commands_total"), "{}", figures.1);
    served.signal("-TERM");
    let ended = served.end().ended(0);
    let event = place.run("event sum-1 1 --json").ended(0).out();
    assert!(event.contains(r#""principal":"token""#) && event.contains(r#""authenticated""#), "{event}");
    let export = place.run("export").ended(0).out();
    for secret in ["s3cret-t0ken", "wr0ng"] {
        assert!(!ended.err().contains(secret) && !ended.out().contains(secret), "{}", ended.err());
        assert!(!export.contains(secret));
    }
}

#[test]
fn a_local_server_answers_no_page_of_another_site() {
    let place = Place::new();
    let line = "--listen 127.0.0.1:0 --allow-origin https://desk.example --allow-host desk.example";
    let served = Served::start(&place, line, &[]);
    let get = |headers: &str| served.send("GET", "/status", headers, "").unwrap().0;
    assert_eq!(
        (get(""), get("origin: https://evil.example\r\n"), get("origin: https://desk.example\r\n")),
        (200, 403, 200)
    );
    let mut stream = served.connect();
    stream.write_all(b"GET /status HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    served.signal("-TERM");
    served.end().ended(0);
}

#[test]
fn a2a_is_served_where_it_is_asked_for_beside_protolink() {
    let card = "/.well-known/agent-card.json";
    let text = r#"{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}}}"#;
    let place = Place::new();
    let served = Served::start(&place, "--listen 127.0.0.1:0", &[]);
    assert_eq!(served.send("GET", card, "", "").unwrap().0, 404);
    assert_eq!(served.send("POST", "/", "content-type: application/json\r\n", text).unwrap().0, 404);
    served.signal("-TERM");
    served.end().ended(0);
    let served = Served::start(&place, "--listen 127.0.0.1:0 --a2a", &[("TASKREEL_TOKEN", "key-123")]);
    let (status, body) = served.send("GET", card, "", "").unwrap();
    assert_eq!(status, 200, "a card needs no credential");
    assert!(body.contains(r#""protocolBinding":"JSONRPC""#) && body.contains("securitySchemes"), "{body}");
    let headers = "content-type: application/json\r\nauthorization: Bearer key-123\r\n";
    assert_eq!(served.send("POST", "/", "content-type: application/json\r\n", text).unwrap().0, 401);
    let (status, body) = served.send("POST", "/", headers, text).unwrap();
    assert!(status == 200 && body.contains("TASK_STATE_COMPLETED"), "{status} {body}");
    let (status, body) = served.send("GET", "/tasks", headers, "").unwrap();
    assert!(status == 200 && body.contains(r#""totalSize":1"#), "{status} {body}");
    assert_eq!(served.send("GET", "/.well-known/agent.json", headers, "").unwrap().0, 200);
    served.signal("-TERM");
    served.end().ended(0);
}

#[test]
fn files_that_cannot_be_used_are_told_before_anything_starts() {
    let place = Place::new();
    std::fs::write(place.path().join("auth.json"), r#"{"credentials": [{"name": "s3cret"}]}"#).unwrap();
    std::fs::write(place.path().join("empty"), "\n").unwrap();
    std::fs::write(place.path().join("host.json"), r#"{"allow_hosts": ["a b"]}"#).unwrap();
    for (line, words) in [
        ("--token-file none", "none: it cannot be read"),
        ("--token-file empty", "empty: there is none"),
        ("--auth-file none", "none: "),
        ("--auth-file auth.json", "missing field `scopes`"),
        ("--auth-file host.json", "`a b` is no host"),
        ("--allow-origin x", "`x` is no origin"),
    ] {
        let refused = place.run(&format!("serve --listen 127.0.0.1:0 {line}")).ended(2);
        assert!(!refused.err().contains("s3cret"), "{}", refused.err());
        refused.told(&["callers cannot be checked", words]);
    }
    place.run("serve --tls-cert empty --tls-key empty").ended(2).told(&["TLS cannot be used", "empty"]);
    place.run("serve --tls-cert empty").ended(2);
    place.run("serve --grace soon").ended(2);
    assert!(!place.path().join("taskreel-log").exists(), "nothing was made");
}

#[test]
fn the_help_shows_the_format_of_the_file_with_credentials() {
    let help = Place::new().run("serve --help").ended(0).out();
    assert!(help.contains(r#""secret_file""#) && help.contains(r#""jwks_file""#), "{help}");
}

#[test]
fn a_port_that_is_taken_is_told_and_the_log_is_closed_in_order() {
    let place = Place::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let line = format!("serve --listen {}", taken.local_addr().unwrap());
    place.run(&line).ended(1).told(&["cannot listen at", "--listen"]);
    assert_eq!(kinds(&place).last().unwrap(), "Stopped");
}

#[test]
fn the_service_manager_is_told_of_the_start_of_life_and_of_the_end() {
    let place = Place::new();
    let path = place.path().join("notify");
    let at_path = UnixDatagram::bind(&path).unwrap();
    let mut managers = vec![(at_path, path.display().to_string())];
    #[cfg(target_os = "linux")]
    {
        use std::os::linux::net::SocketAddrExt as _;
        let name = format!("taskreel-test-{}", std::process::id());
        let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
        managers.push((UnixDatagram::bind_addr(&address).unwrap(), format!("@{name}")));
    }
    for (manager, name) in managers {
        manager.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut buffer = [0; 500];
        let mut told = || {
            let length = manager.recv(&mut buffer).unwrap();
            String::from_utf8_lossy(&buffer[..length]).into_owned()
        };
        let env = [("NOTIFY_SOCKET", name.as_str()), ("WATCHDOG_USEC", "400000")];
        let served = Served::start(&place, "--listen 127.0.0.1:0", &env);
        assert!(told().starts_with("READY=1\nSTATUS=listening at 127.0.0.1:"));
        assert_eq!((told(), told()), ("WATCHDOG=1\n".to_owned(), "WATCHDOG=1\n".to_owned()));
        served.signal("-TERM");
        until("it says that it stops", || told().starts_with("STOPPING=1\n"));
        served.end().ended(0);
    }
}

/// Returns the number of files that this process may have open.
fn files_allowed() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap_or_default();
    line.split_whitespace().nth(3).and_then(|soft| soft.parse().ok()).unwrap_or(1_024)
}

#[test]
fn a_thousand_connections_do_not_hold_up_the_end() {
    let place = Place::new();
    let served = Served::start(&place, "--listen 127.0.0.1:0 --grace 2", &[]);
    let number = 1_000.min(files_allowed().saturating_sub(100));
    println!("{number} connections at the stop");
    let mut connections = Vec::with_capacity(number);
    for index in 0..number {
        let mut stream = served.connect();
        let begun = match index % 4 {
            // Idle from the start, idle after an answer, in the middle of a head, in the middle of a body.
            0 => "",
            1 => "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n",
            2 => "GET /healthz HTTP/1.1\r\nhost: loc",
            _ => {
                "POST /tasks/ HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{"
            }
        };
        stream.write_all(begun.as_bytes()).unwrap();
        if index % 4 == 1 {
            let mut answer = [0; 12];
            stream.read_exact(&mut answer).unwrap();
            assert_eq!(&answer, b"HTTP/1.1 200");
        }
        connections.push(stream);
    }
    let began = Instant::now();
    served.signal("-TERM");
    served.end().ended(0);
    assert!(began.elapsed() < PATIENCE / 2, "{:?}", began.elapsed());
    for mut stream in connections {
        let mut rest = Vec::new();
        // Closed, or reset: no client is left waiting.
        let _ = stream.read_to_end(&mut rest);
        let text = String::from_utf8_lossy(&rest);
        assert!(text.is_empty() || text.contains("HTTP/1.1") || text.contains("\r\n"), "{text}");
    }
    place.run("verify").ended(0);
}

/// Whether an address answers with the settings of HTTP/2.
fn speaks_http2(served: &Served) -> bool {
    let mut stream = served.connect();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
    let mut head = [0; 9];
    stream.read_exact(&mut head).is_ok() && head[3] == 4
}

#[test]
fn grpc_has_a_port_of_its_own_which_the_card_names_and_which_ends_with_the_server() {
    let place = Place::new();
    place.run("serve --grpc-listen 127.0.0.1:0").ended(2).told(&["--a2a"]);
    let refused = place.run("serve --a2a --grpc-listen 0.0.0.0:0").ended(2);
    refused.told(&["refused to listen at", "nothing was started", "no credential is asked for"]);
    place.run("serve --a2a --grpc-listen nowhere").ended(2).told(&["cannot listen at nowhere"]);
    let card = |served: &Served| -> serde_json::Value {
        serde_json::from_str(&served.get("/.well-known/agent-card.json").1).unwrap()
    };
    let mut served = Served::start(&place, "--listen 127.0.0.1:0 --a2a --grpc-listen 127.0.0.1:0", &[]);
    let grpc = served.of("grpc");
    assert!(speaks_http2(&grpc));
    let named = card(&served)["supportedInterfaces"]
        .as_array()
        .unwrap()
        .iter()
        .any(|one| one["protocolBinding"] == "GRPC" && one["url"] == grpc.address.to_string());
    assert!(named, "{}", card(&served));
    served.signal("-TERM");
    served.end().ended(0);
    assert!(TcpStream::connect(grpc.address).is_err(), "both ports are closed");
    place.run("verify").ended(0);
    // A port of other machines is named by the public address.
    let line = "--listen 127.0.0.1:0 --a2a --grpc-listen 0.0.0.0:0 --public-url https://tasks.example";
    let mut served = Served::start(&place, line, &[("TASKREEL_TOKEN", "key-123")]);
    let grpc = served.of("grpc");
    let card = card(&served).to_string();
    assert!(card.contains(&format!("\"tasks.example:{}\"", grpc.address.port())), "{card}");
    let taken = grpc.address;
    let second = Place::new().run(&format!("serve --listen 127.0.0.1:0 --a2a --grpc-listen {taken}"));
    second.ended(1).told(&["could not be served", "--grpc-listen"]);
    served.signal("-TERM");
    served.end().ended(0);
}

#[test]
fn the_pages_of_a_log_are_the_same_from_its_directory_an_export_and_a_server_and_serve_has_them_too() {
    let place = Place::new();
    let served = Served::start(&place, "--listen 127.0.0.1:0", &[]);
    let sum = task("sum-0001", "add", r#"{"a":2,"b":3}"#);
    assert_eq!(served.send("POST", "/tasks/", "", &sum).unwrap().0, 200);
    let page = |served: &Served| {
        let (status, page) = served.get("/inspect/t/agent/sum-0001");
        assert_eq!(status, 200, "{page}");
        // Beside the name of the log, the time of the page and the times since then, all is the same.
        let main = page.split("<main").nth(1).unwrap().split("In a terminal").next().unwrap().to_owned();
        (page.contains(">live</span>"), main)
    };
    let inspect = |line: &str| Served::start_as(&place, ("inspect", "inspector"), line, &[]);
    let (is_live, whole) = page(&served);
    assert!(is_live && whole.contains("CallSucceeded"), "{whole}");
    let url = format!("--url http://{}", served.address);
    let there = inspect(&url);
    let by_socket = inspect("");
    assert_eq!((page(&there), page(&by_socket)), ((true, whole.clone()), (true, whole.clone())));
    for pages in [there, by_socket] {
        pages.signal("-TERM");
        pages.end().ended(0);
    }
    served.signal("-TERM");
    served.end().ended(0);
    std::fs::write(place.path().join("log.ndjson"), place.run("export").ended(0).out()).unwrap();
    let (exported, stopped) = (inspect("--file log.ndjson"), inspect(""));
    assert_eq!((page(&exported), page(&stopped)), ((false, whole.clone()), (false, whole)));
    let without = Served::start(&place, "--listen 127.0.0.1:0 --no-inspector", &[]);
    assert_eq!(without.get("/inspect/").0, 404);
    let refused = place.run("inspect --listen 0.0.0.0:0").ended(2).err();
    assert!(refused.contains("other machines reach this address"), "{refused}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_server_that_is_started_with_sigint_ignored_says_so_and_ends_by_sigterm() {
    let place = Place::new();
    let mut command = std::process::Command::new("sh");
    let script = "trap '' INT; exec \"$0\" serve --listen 127.0.0.1:0";
    command.args(["-c", script, env!("CARGO_BIN_EXE_taskreel")]).current_dir(place.path());
    let (read, write) = std::io::pipe().unwrap();
    let child = command.stdout(write).stderr(std::process::Stdio::piped()).spawn().unwrap();
    drop(command);
    let mut said = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(read), &mut said).unwrap();
    let signal = |name: &str| {
        std::process::Command::new("kill").args([name, &child.id().to_string()]).status().unwrap()
    };
    // It is there, and the first signal does nothing.
    assert!(said.contains("listening") && signal("-INT").success() && signal("-TERM").success(), "{said}");
    let ended = binary::end(child).ended(0);
    assert!(ended.err().contains("SIGINT (Ctrl+C) is ignored here"), "{}", ended.err());
}
