//! The rows of cards, transports and versions.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::binary::Place;
use crate::forged::{Forged, Reply, card, task};
use crate::served::Served;
use crate::{ours, run, run_with, url};

fn done() -> Reply {
    Reply::Result(json!({"task": task("COMPLETED")}))
}

#[test]
fn a2acli_card_get_001_a_card_is_found_by_host_address_and_file_and_chooses_the_transport() {
    let place = Place::new();
    let agent = Forged::start(|_| done());
    let host = agent.url.strip_prefix("http://").unwrap().to_owned();
    let whole = format!("{}/.well-known/agent-card.json", agent.url);
    let fetched = run(&place, &["card", "get", "-a", &agent.url, "-o", "json"]).ended(0);
    std::fs::write(place.path().join("card.json"), fetched.out()).unwrap();
    let path = place.path().join("card.json").display().to_string();
    for reference in
        [&host, &agent.url, &whole, &format!("{}/any/path", agent.url), &path, &format!("file://{path}")]
    {
        let text = run(&place, &["card", "get", "-a", reference]).ended(0);
        assert_eq!(
            (text.field("Name"), text.field("Streaming")),
            ("forged".to_owned(), "no".to_owned()),
            "{reference}"
        );
        assert_eq!(text.field("Skill"), "s (s) d");
        assert!(
            text.out().contains(&format!("Interface: JSONRPC 1.0 {}/rpc\n", agent.url)),
            "{}",
            text.out()
        );
        let json = run(&place, &["card", "get", "-a", reference, "-o", "json"]).ended(0).document();
        assert_eq!(json["supportedInterfaces"][1]["protocolBinding"], "HTTP+JSON");
        let before = agent.calls().len();
        run(&place, &["send", "-a", reference, "hello"]).ended(0);
        assert!(agent.calls()[before].head.starts_with("POST /rpc "), "{reference}");
    }
    let gone = run(&place, &["card", "get", "-a", "./gone.json", "-o", "json"]).ended(3);
    assert_eq!(gone.failed(), "A2ACLI_ERR_CARD_NOT_FOUND");
    let closed = run(&place, &["card", "get", "-a", "127.0.0.1:1", "-o", "json"]).ended(3);
    assert_eq!(closed.failed(), "A2ACLI_ERR_UNREACHABLE");
    let none = run(&place, &["card", "get", "-o", "json"]).ended(2);
    assert_eq!(none.failed(), "A2ACLI_ERR_USAGE");
    std::fs::write(place.path().join("bad.json"), "{nothing").unwrap();
    let bad = run(&place, &["send", "-a", "./bad.json", "x", "-o", "json"]).ended(1);
    assert_eq!(bad.failed(), "A2ACLI_ERR_CARD_INVALID");
    let garbage = Forged::with_text("\u{1b}[2J<html>", |_| done());
    let garbled = run(&place, &["send", "-a", &garbage.url, "x", "-o", "json"]).ended(1);
    assert_eq!(garbled.failed(), "A2ACLI_ERR_CARD_INVALID");
}

#[test]
fn a2acli_card_get_002_a_card_is_checked_against_the_schema() {
    let place = Place::new();
    let served = ours(&place);
    run(&place, &["card", "get", "--validate", "-a", &url(&served)]).ended(0);
    let mut wrong = card(false);
    wrong["skills"][0]["tags"] = json!("t");
    let agent = Forged::with(&wrong, |_| done());
    let refused = run(&place, &["card", "get", "--validate", "-a", &agent.url, "-o", "json"]).ended(1);
    assert_eq!(refused.failed(), "A2ACLI_ERR_CARD_INVALID");
    assert!(refused.out().contains("skills[0].tags"), "{}", refused.out());
    run(&place, &["card", "get", "-a", &agent.url]).ended(0);
}

#[test]
fn a2acli_card_get_003_the_extended_card_is_asked_for_with_the_scheme_of_the_public_one() {
    let place = Place::new();
    let mut public = card(false);
    public["capabilities"]["extendedAgentCard"] = json!(true);
    public["securitySchemes"] = json!({"b": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}});
    public["securityRequirements"] = json!([{"schemes": {"b": {"list": []}}}]);
    let agent = Forged::with(&public, |call| {
        let mut own = card(false);
        own["name"] = json!("extended");
        own["supportedInterfaces"][0]["url"] = json!("http://127.0.0.1:1/rpc");
        match (call.operation.as_str(), call.header("authorization")) {
            ("GetExtendedAgentCard", Some("Bearer token-123")) => Reply::Result(own),
            _ => Reply::Raw(
                401,
                r#"{"error": {"code": 401, "status": "UNAUTHENTICATED", "message": "who?"}}"#.to_owned(),
            ),
        }
    });
    let line = ["card", "get", "--extended", "-a", &agent.url, "-o", "json"];
    let without = run(&place, &line).ended(4);
    assert_eq!(without.failed(), "A2ACLI_ERR_CREDENTIALS_MISSING");
    assert!(agent.calls().is_empty(), "nothing is asked without the credential");
    let with = run_with(&place, &[("A2ACLI_BEARER", "token-123")], &line).ended(0);
    assert_eq!(with.document()["name"], "extended");
}

#[test]
fn a2acli_card_get_004_signatures_that_are_not_verified_are_not_shown_as_if_they_were() {
    let place = Place::new();
    let mut signed = card(false);
    signed["signatures"] = json!([{"protected": "e30", "signature": "AA"}]);
    let agent = Forged::with(&signed, |_| done());
    assert_eq!(
        run(&place, &["card", "get", "-a", &agent.url]).ended(0).field("Signatures"),
        "1, not verified"
    );
    let agent = Forged::start(|_| done());
    assert_eq!(run(&place, &["card", "get", "-a", &agent.url]).ended(0).field("Signatures"), "absent");
}

#[test]
fn a2acli_card_get_004_signatures_are_verified_with_the_keys_that_the_user_trusts() {
    let place = Place::new();
    let files = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../http/tests/auth_support/keys");
    let body = STANDARD.encode(std::fs::read(files.join("p256.der")).unwrap());
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n");
    std::fs::write(place.path().join("p256.pem"), pem).unwrap();
    let served = Served::start(&place, "--listen 127.0.0.1:0 --a2a --a2a-card-key p256.pem", &[]);
    let (url, trusted, other) = (url(&served), files.join("p256-jwks.json"), files.join("jwks.json"));
    let (trusted, other) = (trusted.to_str().unwrap(), other.to_str().unwrap());
    let shown = |keys: &[&str]| {
        let ran = run(&place, &[&["card", "get", "-a", &url], keys].concat()).ended(0);
        let json = run(&place, &[&["card", "get", "-a", &url, "-o", "json"], keys].concat()).ended(0);
        let outcome = ran.field("Signatures");
        assert!(json.err().contains(&format!("signatures: {outcome}")), "{}", json.err());
        json.document();
        outcome
    };
    assert_eq!(shown(&[]), "2, not verified");
    assert_eq!(shown(&["--card-keys", trusted]), "2, verified by a key of --card-keys");
    assert!(shown(&["--card-keys", other]).starts_with("2, not verified: "));
    // Only an agent whose card is signed by a trusted key is asked; the setting may stand in the environment.
    run(&place, &["send", "hello", "-a", &url, "--card-keys", trusted]).ended(0);
    let refused =
        run_with(&place, &[("A2ACLI_CARD_KEYS", other)], &["send", "hello", "-a", &url, "-o", "json"]);
    assert_eq!(refused.ended(1).failed(), "A2ACLI_ERR_CARD_INVALID");
    // A card that was changed, or whose signatures were taken away, is not that agent's.
    let card = run(&place, &["card", "get", "-a", &url, "-o", "json"]).ended(0).document();
    let (mut changed, mut bare) = (card.clone(), card);
    changed["name"] = json!("another");
    bare.as_object_mut().unwrap().remove("signatures");
    for (name, card) in [("changed.json", &changed), ("bare.json", &bare)] {
        std::fs::write(place.path().join(name), card.to_string()).unwrap();
        let line = ["send", "hello", "-a", name, "--card-keys", trusted, "-o", "json"];
        assert_eq!(run(&place, &line).ended(1).failed(), "A2ACLI_ERR_CARD_INVALID", "{name}");
    }
    let absent = run(&place, &["card", "get", "-a", "bare.json", "--card-keys", trusted]).ended(0);
    assert_eq!(absent.field("Signatures"), "absent", "no signature is no failure");
    for (keys, says) in [("none.json", "none.json"), ("p256.pem", "p256.pem")] {
        let wrong = run(&place, &["send", "hello", "-a", &url, "--card-keys", keys, "-o", "json"]).ended(2);
        assert!(wrong.out().contains(says) && !wrong.out().contains(&body[..20]), "{}", wrong.out());
    }
    served.signal("-TERM");
    served.end().ended(0);
}

/// Returns the path of the call that a message with these arguments makes.
fn way(agent: &Forged, place: &Place, args: &[&str]) -> String {
    run(place, &[&["send", "-a", &agent.url, "x"], args].concat()).ended(0);
    agent.calls().last().unwrap().head.split(' ').nth(1).unwrap().to_owned()
}

#[test]
fn a2acli_tx_001_and_002_the_card_chooses_the_transport_unless_the_caller_does() {
    let place = Place::new();
    let mut other = card(false);
    other["supportedInterfaces"].as_array_mut().unwrap().reverse();
    let grpc = json!({"url": "127.0.0.1:1", "protocolBinding": "GRPC-X", "protocolVersion": "1.0"});
    other["supportedInterfaces"].as_array_mut().unwrap().insert(0, grpc);
    let (first, second) = (Forged::start(|_| done()), Forged::with(&other, |_| done()));
    assert_eq!(way(&first, &place, &[]), "/rpc");
    assert_eq!(way(&second, &place, &[]), "/rest/message:send", "the first one that is spoken here");
    assert_eq!(way(&first, &place, &["--transport", "HTTP+JSON"]), "/rest/message:send");
    assert_eq!(way(&second, &place, &["--transport", "jsonrpc"]), "/rpc");
    let ordered = ["--transport", "NONE", "--transport", "HTTP+JSON", "--transport", "JSONRPC"];
    assert_eq!(
        way(&first, &place, &ordered),
        "/rest/message:send",
        "a binding that the card lacks is skipped"
    );
    assert_eq!(way(&first, &place, &["--transport", "NONE"]), "/rpc", "none fits: the card's own order");
}

#[test]
fn a2acli_tx_003_the_tenant_of_the_interface_is_in_every_request() {
    let place = Place::new();
    let mut with = card(true);
    for interface in with["supportedInterfaces"].as_array_mut().unwrap() {
        interface["tenant"] = json!("tenant-1");
    }
    let agent = Forged::with(&with, |call| match call.operation.as_str() {
        "SendStreamingMessage" => {
            Reply::Events(vec![json!({"task": task("COMPLETED")})], crate::forged::After::End)
        }
        "ListTasks" => {
            Reply::Result(json!({"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0}))
        }
        _ => Reply::Result(task("COMPLETED")),
    });
    for transport in ["JSONRPC", "HTTP+JSON"] {
        let line = |rest: &[&str]| {
            run(&place, &[rest, &["-a", &agent.url, "--transport", transport]].concat()).ended(0)
        };
        line(&["send", "x"]);
        line(&["task", "get", "t1"]);
        line(&["task", "cancel", "t1"]);
        line(&["task", "list"]);
    }
    let calls = agent.calls();
    assert!(calls.len() >= 10, "{}", calls.len());
    for call in calls {
        assert_eq!(call.params["tenant"], "tenant-1", "{}", call.head);
    }
    let without = Forged::start(|_| done());
    run(&place, &["send", "-a", &without.url, "x"]).ended(0);
    assert!(without.calls()[0].params.get("tenant").is_none());
}

#[test]
fn a2acli_tx_004_two_transports_do_the_same_at_our_own_server() {
    let place = Place::new();
    let served = ours(&place);
    for transport in ["JSONRPC", "HTTP+JSON"] {
        let line = ["send", "-a", &url(&served), "hello", "--transport", transport, "-o", "json"];
        let sent = run(&place, &line).ended(0).document();
        assert_eq!(sent["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{transport}");
    }
}

#[test]
fn a2acli_ver_001_the_version_is_always_named_and_never_below_1_0_unless_asked_for() {
    let place = Place::new();
    let agent = Forged::start(|call| match call.header("a2a-version") {
        Some("1.0") => done(),
        _ => Reply::Error(-32009, 400, "VERSION_NOT_SUPPORTED", "only 1.0"),
    });
    for transport in ["JSONRPC", "HTTP+JSON"] {
        run(&place, &["send", "-a", &agent.url, "x", "--transport", transport]).ended(0);
        let line = ["task", "get", "t1", "-a", &agent.url, "--transport", transport, "-o", "json"];
        let wrong = run(&place, &[&line[..], &["--a2a-version", "9.9"]].concat()).ended(1);
        assert_eq!(wrong.failed(), "VersionNotSupportedError", "{transport}");
    }
    let versions: Vec<_> =
        agent.calls().iter().map(|call| call.header("a2a-version").unwrap().to_owned()).collect();
    assert_eq!(versions, ["1.0", "9.9", "1.0", "9.9"], "nothing is tried again in another version");
    run(&place, &["send", "-a", &agent.url, "x", "--a2a-version", "new"]).ended(2);

    // An agent of 0.3 alone.
    let old = json!({"name": "old", "description": "d", "version": "1", "protocolVersion": "0.3.0", "url": "URL/rpc",
        "preferredTransport": "JSONRPC", "capabilities": {}, "skills": []});
    let agent = Forged::with(&old, |_| {
        Reply::Result(
            json!({"kind": "task", "id": "t1", "contextId": "c1", "status": {"state": "completed"}}),
        )
    });
    let refused = run(&place, &["send", "-a", &agent.url, "x", "-o", "json"]).ended(1);
    assert_eq!(refused.failed(), "VersionNotSupportedError");
    assert!(agent.calls().is_empty() && refused.err().contains("--a2a-version 0.3"), "{}", refused.err());
    let line = ["send", "-a", &agent.url, "x", "-o", "json", "--a2a-version", "0.3"];
    let json = run(&place, &line).ended(0).document();
    assert_eq!(json["task"]["status"]["state"], "TASK_STATE_COMPLETED", "in the form of 1.0");
    assert_eq!(agent.calls()[0].operation, "message/send");
}
