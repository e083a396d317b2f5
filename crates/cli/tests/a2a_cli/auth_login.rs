//! The rows of `auth login`: the two flows, the keeping of tokens, and their use.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::binary::{Place, Ran};
use crate::forged::{Call, Forged, Reply, card, task};
use crate::{run, run_with};

const CLIENT: [(&str, &str); 2] =
    [("A2ACLI_CLIENT_ID", "my client"), ("A2ACLI_CLIENT_SECRET", "hush:s3cret")];

/// Returns a card that asks for a token of the authorization server beside the agent.
fn asks() -> Value {
    let mut card = card(false);
    card["securitySchemes"] = json!({"o": {"oauth2SecurityScheme": {"flows": {
        "deviceCode": {"deviceAuthorizationUrl": "URL/oauth/device", "tokenUrl": "URL/oauth/token", "scopes": {}},
        "clientCredentials": {"tokenUrl": "URL/oauth/token", "scopes": {}},
    }}}});
    card["securityRequirements"] = json!([{"schemes": {"o": {"list": ["read", "run"]}}}]);
    card
}

fn raw(json: &Value) -> Reply {
    Reply::Raw(200, json.to_string())
}

fn refused(code: &str) -> Reply {
    Reply::Raw(400, json!({"error": code, "error_description": "not now"}).to_string())
}

/// Answers as an agent that takes one token.
fn agent_with(token: &'static str, issuer: impl Fn(&Call, &str) -> Reply + Send + Sync + 'static) -> Forged {
    Forged::with(&asks(), move |call| match call.operation.strip_prefix("/oauth/") {
        Some(what) => issuer(call, what),
        None if call.header("authorization") == Some(&format!("Bearer {token}")) => {
            Reply::Result(json!({"task": task("COMPLETED")}))
        }
        None => Reply::Raw(401, "{}".to_owned()),
    })
}

fn issued(token: &str, seconds: u64, refresh: Option<&str>) -> Reply {
    let mut answer = json!({"access_token": token, "token_type": "Bearer", "expires_in": seconds});
    if let Some(refresh) = refresh {
        answer["refresh_token"] = json!(refresh);
    }
    raw(&answer)
}

/// Returns the files with tokens.
fn tokens(place: &Place) -> Vec<PathBuf> {
    let folder = place.path().join("home/.config/a2a-cli/tokens");
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn send(place: &Place, agent: &Forged, more: &[&str]) -> Ran {
    run(place, &[&["send", "x", "-a", &agent.url, "-o", "json"], more].concat())
}

/// Returns the fields of a form.
fn form(call: &Call) -> Vec<String> {
    call.params.as_str().unwrap().split('&').map(str::to_owned).collect()
}

#[test]
fn a2acli_auth_005_a_code_that_a_person_enters_brings_a_token() {
    let place = Place::new();
    let agent = agent_with("device-token", |call, what| match (what, call.before) {
        ("device", _) => raw(
            &json!({"device_code": "dc-hidden", "user_code": "ABCD-EFGH", "expires_in": 600, "interval": 0,
            "verification_uri": "https://id.example.org/device", "verification_uri_complete": "https://id.example.org/device?c=A"}),
        ),
        ("token", 0 | 1) => refused("authorization_pending"),
        _ => issued("device-token", 3_600, None),
    });
    assert_eq!(send(&place, &agent, &[]).ended(4).failed(), "A2ACLI_ERR_CREDENTIALS_MISSING");
    let line = ["auth", "login", "-a", &agent.url, "--client-id", "cli", "-o", "json"];
    let login = run(&place, &line).ended(0);
    let told = login.err();
    assert!(told.contains("open https://id.example.org/device and enter the code ABCD-EFGH"), "{told}");
    let document = login.document();
    assert_eq!((document["flow"].as_str(), document["scheme"].as_str()), (Some("device code"), Some("o")));
    assert!(document["expires_at"].as_str().unwrap().starts_with("20"), "{document}");
    for text in [login.out(), told] {
        assert!(!text.contains("device-token") && !text.contains("dc-hidden"), "{text}");
    }
    let asked = agent.of("/oauth/device");
    assert_eq!(form(&asked[0]), ["scope=read+run", "client_id=cli"], "the scopes that the card asks for");
    let polls = agent.of("/oauth/token");
    assert_eq!(polls.len(), 3);
    let grant = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Adevice_code";
    assert_eq!(form(&polls[2]), [grant, "device_code=dc-hidden", "client_id=cli"]);
    send(&place, &agent, &[]).ended(0);

    for (answer, code, says) in [("access_denied", 4, "access_denied"), ("expired_token", 4, "expired_token")]
    {
        let place = Place::new();
        let agent = agent_with("none", move |_, what| match what {
            "device" => raw(
                &json!({"device_code": "d", "user_code": "u", "verification_uri": "https://h", "interval": 0}),
            ),
            _ => refused(answer),
        });
        let line = ["auth", "login", "-a", &agent.url, "--client-id", "cli", "-o", "json"];
        let no = run(&place, &line).ended(code);
        assert!(no.failed() == "A2ACLI_ERR_AUTH_FAILED" && no.out().contains(says), "{}", no.out());
        assert!(tokens(&place).is_empty());
    }
    let agent = agent_with("none", |_, what| match what {
        "device" => raw(
            &json!({"device_code": "d", "user_code": "u", "verification_uri": "https://h", "interval": 0}),
        ),
        _ => refused("authorization_pending"),
    });
    let line = ["auth", "login", "-a", &agent.url, "--client-id", "cli", "-o", "json", "--timeout", "300ms"];
    assert_eq!(run(&place, &line).ended(5).failed(), "A2ACLI_ERR_TIMEOUT");
}

#[test]
fn a2acli_auth_006_the_credentials_of_a_client_bring_a_token() {
    let place = Place::new();
    let agent = agent_with("client-token", |call, _| match call.header("authorization") {
        // `my+client:hush%3As3cret`, encoded as RFC 6749 has it.
        Some("Basic bXkrY2xpZW50Omh1c2glM0FzM2NyZXQ=") => issued("client-token", 60, None),
        _ => refused("invalid_client"),
    });
    let line = ["auth", "login", "-a", &agent.url, "--scope", "only"];
    let login = run_with(&place, &CLIENT, &line).ended(0);
    assert_eq!(
        (login.field("Flow"), login.field("Scheme")),
        ("client credentials".to_owned(), "o".to_owned())
    );
    assert_eq!(form(&agent.of("/oauth/token")[0]), ["grant_type=client_credentials", "scope=only"]);
    assert!(!login.out().contains("client-token") && !login.err().contains("s3cret"));
    send(&place, &agent, &[]).ended(0);

    let wrong = [("A2ACLI_CLIENT_ID", "my client"), ("A2ACLI_CLIENT_SECRET", "other-s3cret")];
    let no = run_with(&place, &wrong, &["auth", "login", "-a", &agent.url, "-o", "json"]).ended(4);
    assert!(no.failed() == "A2ACLI_ERR_AUTH_FAILED" && no.out().contains("invalid_client"), "{}", no.out());
    assert!(!no.out().contains("s3cret") && !no.err().contains("s3cret"));
    send(&place, &agent, &[]).ended(0);
    let flag = ["auth", "login", "-a", &agent.url, "--client-credentials", "--client-id", "me", "-o", "json"];
    let no = run(&place, &flag).ended(4);
    assert!(no.out().contains("A2ACLI_CLIENT_SECRET"), "{}", no.out());
    let no = run(&place, &["auth", "login", "-a", &agent.url, "-o", "json"]).ended(4);
    assert!(no.out().contains("--client-id"), "{}", no.out());

    // A secret goes only over TLS or to this machine, and only where a card names a server.
    let mut elsewhere = asks();
    elsewhere["securitySchemes"]["o"]["oauth2SecurityScheme"]["flows"] =
        json!({"clientCredentials": {"tokenUrl": "http://id.example.org/token", "scopes": {}}});
    let agent = Forged::with(&elsewhere, |_| Reply::Hang);
    let no = run_with(&place, &CLIENT, &["auth", "login", "-a", &agent.url, "-o", "json"]).ended(4);
    assert!(no.out().contains("no address to which a secret may be sent"), "{}", no.out());
    let agent = Forged::start(|_| Reply::Hang);
    let no = run_with(&place, &CLIENT, &["auth", "login", "-a", &agent.url, "-o", "json"]).ended(4);
    assert!(no.out().contains("names no authorization server"), "{}", no.out());
    for nonsense in ["<html>", "{}", "[]", r#"{"access_token": ""}"#, r#"{"access_token": "a b"}"#] {
        let agent = agent_with("none", move |_, _| Reply::Raw(200, nonsense.to_owned()));
        let no = run_with(&place, &CLIENT, &["auth", "login", "-a", &agent.url, "-o", "json"]).ended(4);
        assert!(no.out().contains("not that of an authorization server"), "{nonsense} {}", no.out());
    }
}

#[test]
fn a2acli_auth_007_a_token_is_kept_for_its_owner_alone_and_shown_to_its_agent_alone() {
    let place = Place::new();
    let agent = agent_with("second-token", |call, _| match call.params.as_str() {
        Some(form) if form.contains("refresh_token=again-and-again") => issued("second-token", 3_600, None),
        // It has ended when it comes, so that the next command renews it.
        _ => issued("first-token", 1, Some("again-and-again")),
    });
    run_with(&place, &CLIENT, &["auth", "login", "-a", &agent.url]).ended(0);
    let file = tokens(&place).pop().unwrap();
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((tokens(&place).len(), mode(&file), mode(file.parent().unwrap())), (1, 0o600, 0o700));
    for more in [&["--debug"][..], &["--debug", "--verbose", "--record", "rec"]] {
        let ran =
            Ran(crate::command(&place, &[&["send", "x", "-a", &agent.url, "-o", "json"], more].concat())
                .envs(CLIENT)
                .output()
                .unwrap())
            .ended(0);
        for secret in ["first-token", "second-token", "again-and-again", "s3cret"] {
            assert!(!ran.err().contains(secret) && !ran.out().contains(secret), "{secret} {}", ran.err());
        }
    }
    assert_eq!(agent.of("/oauth/token").len(), 2, "it is renewed once, and kept");
    assert_eq!(tokens(&place).len(), 1);
    let export = place.run("export --data-dir rec").ended(0).out();
    assert!(!export.contains("second-token"), "{export}");
    let shown = run(&place, &["config", "show", "-a", &agent.url]).ended(0).out();
    assert!(!shown.contains("second-token"), "{shown}");
    // Another agent does not see it, nor the address of a card; a token that is given counts before it.
    let other = agent_with("second-token", |_, _| Reply::Hang);
    send(&place, &other, &[]).ended(4);
    assert!(other.calls().is_empty() && agent.card_heads().iter().all(|head| !head.contains("second-token")));
    let own = run_with(&place, &[("A2ACLI_BEARER", "own-token")], &["send", "x", "-a", &agent.url]).ended(4);
    assert!(!own.err().contains("own-token"));
    assert_eq!(agent.of("SendMessage").last().unwrap().header("authorization"), Some("Bearer own-token"));
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let open = send(&place, &agent, &[]).ended(2);
    assert!(
        open.out().contains("others can read it") && !open.out().contains("second-token"),
        "{}",
        open.out()
    );
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(&file, "{}").unwrap();
    assert!(send(&place, &agent, &[]).ended(2).out().contains("holds no token of this agent"));
    assert_eq!(run(&place, &["auth", "logout", "-a", &agent.url]).ended(0).field("Token"), "removed");
    assert_eq!(run(&place, &["auth", "logout", "-a", &agent.url]).ended(0).field("Token"), "there was none");
    send(&place, &agent, &[]).ended(4);
    assert!(tokens(&place).is_empty());
    run(&place, &["auth", "logout"]).ended(2);
}
