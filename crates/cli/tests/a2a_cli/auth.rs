//! The rows of credentials.

use serde_json::{Value, json};

use crate::binary::Place;
use crate::forged::{After, Forged, Reply, card, task};
use crate::served::Served;
use crate::{run, run_with};

const SECRET: &str = "s3cret/tok+en==";

/// Returns a card that asks for this scheme.
fn asks(scheme: &Value) -> Value {
    let mut card = card(false);
    card["securitySchemes"] = json!({"one": scheme});
    card["securityRequirements"] = json!([{"schemes": {"one": {"list": []}}}]);
    card
}

fn done() -> Reply {
    Reply::Result(json!({"task": task("COMPLETED")}))
}

#[test]
fn a2acli_auth_001_credentials_stand_where_the_card_says() {
    let place = Place::new();
    let bearer = json!({"httpAuthSecurityScheme": {"scheme": "bearer"}});
    let oauth = json!({"oauth2SecurityScheme": {"flows": {}}});
    for (scheme, flag) in [(&bearer, "--bearer"), (&oauth, "--bearer")] {
        let agent = Forged::with(&asks(scheme), |_| done());
        run(&place, &["send", "x", "-a", &agent.url, flag, SECRET]).ended(0);
        assert_eq!(agent.calls()[0].header("authorization"), Some(format!("Bearer {SECRET}").as_str()));
    }
    let key = |place: &str| json!({"apiKeySecurityScheme": {"location": place, "name": "X-Own"}});
    for transport in ["JSONRPC", "HTTP+JSON"] {
        let send = |agent: &Forged| {
            run(&place, &["send", "x", "-a", &agent.url, "--api-key", SECRET, "--transport", transport])
                .ended(0);
            agent.calls()[0].clone()
        };
        let agent = Forged::with(&asks(&key("header")), |_| done());
        assert_eq!(send(&agent).header("x-own"), Some(SECRET));
        let agent = Forged::with(&asks(&key("query")), |_| done());
        let head = send(&agent).head;
        assert!(head.contains("?X-Own=s3cret%2Ftok%2Ben%3D%3D "), "{head}");
        let agent = Forged::with(&asks(&key("cookie")), |_| done());
        assert_eq!(send(&agent).header("cookie"), Some(format!("X-Own={SECRET}").as_str()));
    }
    let agent = Forged::start(|_| done());
    run(&place, &["send", "x", "-a", &agent.url, "--svc-param", "x-trace-id:abc:1", "--svc-param", "x-b: 2"])
        .ended(0);
    assert_eq!(
        (agent.calls()[0].header("x-trace-id"), agent.calls()[0].header("x-b")),
        (Some("abc:1"), Some("2"))
    );
    let help = run(&place, &["send", "--help"]).ended(0).out();
    let about = help.split("--svc-param").nth(1).unwrap().split("--").next().unwrap().to_lowercase();
    assert!(!about.contains("auth") && !about.contains("credential"), "{about}");
    run(&place, &["send", "x", "-a", &agent.url, "--svc-param", "none"]).ended(2);
    // The other credential than the one that is asked for is none.
    let agent = Forged::with(&asks(&key("header")), |_| done());
    let wrong = run(&place, &["send", "x", "-a", &agent.url, "--bearer", SECRET, "-o", "json"]).ended(4);
    assert_eq!(wrong.failed(), "A2ACLI_ERR_CREDENTIALS_MISSING");
    assert!(agent.calls().is_empty());
}

#[test]
fn a2acli_auth_002_each_credential_has_a_variable_and_the_flag_counts_before_it() {
    let place = Place::new();
    let agent = Forged::start(|_| done());
    let env = [("A2ACLI_BEARER", "of-environment"), ("A2ACLI_API_KEY", "key-of-environment")];
    run_with(&place, &env, &["send", "x", "-a", &agent.url]).ended(0);
    run_with(&place, &env, &["send", "x", "-a", &agent.url, "--bearer", "of-flag"]).ended(0);
    let calls = agent.calls();
    assert_eq!(calls[0].header("authorization"), Some("Bearer of-environment"));
    assert_eq!(calls[0].header("x-api-key"), Some("key-of-environment"));
    assert_eq!(calls[1].header("authorization"), Some("Bearer of-flag"));
    let help = run(&place, &["--help"]).ended(0).out().split_whitespace().collect::<Vec<_>>().join(" ");
    for told in ["list of processes and in the history of the shell", "A2ACLI_BEARER", "A2ACLI_API_KEY"] {
        assert!(help.contains(told), "{told} is not in {help}");
    }
}

#[test]
fn a2acli_auth_003_a_credential_over_a_connection_that_is_not_verified_is_warned_of() {
    let place = Place::new();
    let files = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../http/tests/tls_files");
    let (chain, key) = (files.join("one.pem"), files.join("one.key.pem"));
    let line = format!(
        "--listen 127.0.0.1:0 --a2a --token-file token --tls-cert {} --tls-key {}",
        chain.display(),
        key.display()
    );
    std::fs::write(place.path().join("token"), SECRET).unwrap();
    let served = Served::start(&place, &line, &[]);
    let at = format!("https://{}", served.address);
    let env = [("A2ACLI_BEARER", SECRET)];
    let strict = run_with(&place, &env, &["send", "x", "-a", &at, "-o", "json"]).ended(3);
    assert_eq!(strict.failed(), "A2ACLI_ERR_UNREACHABLE");
    let loose = run_with(&place, &env, &["send", "x", "-a", &at, "--insecure"]).ended(0);
    assert!(
        loose
            .err()
            .contains("warning: credentials are sent over a connection whose certificate is NOT verified")
    );
    assert!(!loose.err().contains(SECRET));
    let bare = run(&place, &["card", "get", "-a", &at, "--insecure"]).ended(0);
    assert!(bare.err().contains("warning: certificates are NOT verified"), "{}", bare.err());
}

#[test]
fn a2acli_auth_004_no_credential_is_in_what_is_printed_or_recorded() {
    let place = Place::new();
    let mut asking = card(true);
    asking["securitySchemes"] = json!({"k": {"apiKeySecurityScheme": {"location": "query", "name": "key"}}});
    // The agent repeats what it was given, in each form.
    let agent = Forged::with(&asking, |call| {
        let echo = format!("{} {} {}", call.head, SECRET, "s3cret%2Ftok%2Ben%3D%3D");
        let mut task = task("COMPLETED");
        task["artifacts"] = json!([{"artifactId": "a", "parts": [{"text": "fine"}]}]);
        task["metadata"] = json!({ "echo": echo });
        match call.operation.as_str() {
            "SendStreamingMessage" => Reply::Events(vec![json!({ "task": task })], After::End),
            "CancelTask" => Reply::Raw(500, format!("failed: {echo}")),
            _ => Reply::Result(task),
        }
    });
    let env = [
        ("A2ACLI_BEARER", SECRET),
        ("A2ACLI_API_KEY", SECRET),
        ("A2ACLI_SVC_PARAM", "x-own:s3cret/tok+en=="),
    ];
    for line in
        [&["send", "x"][..], &["send", "x", "--stream"], &["task", "cancel", "t1"], &["config", "show"]]
    {
        for more in [&["--debug"][..], &["--debug", "--verbose"], &["--record", "rec"]] {
            let ran = run_with(&place, &env, &[line, more, &["-a", &agent.url]].concat());
            assert!(!ran.err().contains("s3cret"), "{line:?} {more:?} {}", ran.err());
            if line[0] == "config" {
                assert!(!ran.out().contains("s3cret") && ran.out().contains("[redacted]"), "{}", ran.out());
            }
        }
    }
    let export = place.run("export --data-dir rec").ended(0).out();
    assert!(export.contains("[redacted]") && !export.contains("s3cret"), "the log has no credential");
    assert!(agent.calls().iter().all(|call| call.header("authorization").is_some()));
}

/// Returns what the files of a folder hold, one after another.
fn bytes_below(folder: &std::path::Path) -> Vec<u8> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        all.extend(if path.is_dir() { bytes_below(&path) } else { std::fs::read(&path).unwrap() });
    }
    all
}

#[test]
fn a2acli_auth_004_a_key_that_the_card_wants_in_the_query_stays_out_of_every_output_and_recording() {
    let place = Place::new();
    let mut asking = asks(&json!({"apiKeySecurityScheme": {"location": "query", "name": "key"}}));
    asking["capabilities"] = json!({"streaming": true, "pushNotifications": true, "extendedAgentCard": true});
    let agent = Forged::with(&asking, |call| match call.operation.as_str() {
        "SendStreamingMessage" | "SubscribeToTask" => {
            Reply::Events(vec![json!({"task": task("COMPLETED")})], After::End)
        }
        "SendMessage" => done(),
        "ListTasks" => Reply::Result(
            json!({"tasks": [task("COMPLETED")], "nextPageToken": "", "pageSize": 50, "totalSize": 1}),
        ),
        "GetTask" | "CancelTask" => Reply::Result(task("COMPLETED")),
        // Not JSON, so that the client says what was wrong with what it asked.
        _ => Reply::Raw(502, "<html>".to_owned()),
    });
    // Nobody listens there: an error of the connection names the address.
    let mut dead = asking.clone();
    dead["supportedInterfaces"] =
        json!([{"url": "http://127.0.0.1:1/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]);
    std::fs::write(place.path().join("dead.json"), dead.to_string()).unwrap();
    let env = [("A2ACLI_API_KEY", SECRET)];
    let mut asked = 0;
    for line in [
        &["send", "x"][..],
        &["send", "x", "--stream"],
        &["task", "get", "t1"],
        &["task", "list"],
        &["task", "cancel", "t1"],
        &["task", "subscribe", "t1"],
        &["task", "download", "t1", "--dir", "saved"],
        &["task", "push-config", "list", "t1"],
        &["card", "get"],
        &["card", "get", "--extended"],
        &["config", "show"],
        &["check", "--send", "x"],
    ] {
        for (of, transport) in
            [(agent.url.as_str(), "JSONRPC"), (&agent.url, "HTTP+JSON"), ("dead.json", "JSONRPC")]
        {
            for output in ["text", "json"] {
                let more = [
                    "-a",
                    of,
                    "--transport",
                    transport,
                    "-o",
                    output,
                    "--debug",
                    "--verbose",
                    "--record",
                    "rec",
                ];
                let ran = run_with(&place, &env, &[line, &more].concat());
                let (out, err) = (ran.out(), ran.err());
                for form in ["s3cret", "tok+en", "tok%2Ben", "czNjcmV0"] {
                    assert!(!out.contains(form) && !err.contains(form), "{line:?} {more:?}\n{out}{err}");
                }
                asked += 1;
            }
        }
    }
    assert!(asked > 60 && agent.calls().len() > 30, "{asked} {}", agent.calls().len());
    assert!(agent.calls().iter().all(|call| call.head.contains("key=s3cret")), "each call shows the key");
    let export = place.run("export --data-dir rec").ended(0).out();
    assert!(export.len() > 10_000 && !export.contains("s3cret"), "the log has no credential");
    let files = bytes_below(&place.path().join("rec"));
    assert!(!files.windows(6).any(|bytes| bytes == b"s3cret"), "nor have its files");
}

#[test]
fn a2acli_auth_008_no_credential_is_shown_where_the_card_is() {
    let place = Place::new();
    let agent = Forged::start(|_| done());
    let env = [("A2ACLI_BEARER", SECRET), ("A2ACLI_API_KEY", SECRET), ("A2ACLI_SVC_PARAM", "x-own:s3cret")];
    run_with(&place, &env, &["send", "x", "-a", &agent.url]).ended(0);
    run_with(&place, &env, &["card", "get", "-a", &agent.url]).ended(0);
    let heads = agent.card_heads();
    assert_eq!(heads.len(), 2);
    assert!(heads.iter().all(|head| !head.contains("s3cret")), "{heads:?}");
    // Nor at an interface of another host, which the card alone names.
    let other = Forged::start(|_| done());
    let mut elsewhere = card(false);
    elsewhere["supportedInterfaces"] = json!([{"url": format!("{}/rpc", other.url), "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]);
    let agent = Forged::with(&elsewhere, |_| done());
    run_with(&place, &env, &["send", "x", "-a", &agent.url]).ended(1);
    assert!(other.calls().is_empty());
    run_with(&place, &env, &["send", "x", "-a", &agent.url, "--credentials-for-other-hosts"]).ended(0);
    run(&place, &["send", "x", "-a", &agent.url]).ended(0);
    assert_eq!(other.calls().len(), 2);
}
