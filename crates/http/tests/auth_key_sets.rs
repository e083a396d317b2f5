//! Signed tokens whose keys are read from the issuer's address: rotated keys, an issuer that is down, slow, endless or leads
//! elsewhere, and requests that do not wait for it.
#![cfg(feature = "client")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod auth_support;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use auth_support::issuer::{Answer, Issuer, PATIENCE, key_set};
use auth_support::{Rules, guarded, key, post_task};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::future::join_all;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};
use taskreel_http::Guard;

const ISSUER: &str = "https://id.example";

/// The issuer may be asked again after this time, where a test waits for it.
const AGAIN: Duration = Duration::from_secs(1);

fn claims(changes: &Value) -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let mut claims = json!({"sub": "ada", "iss": ISSUER, "aud": "taskreel", "exp": now + 600});
    for (name, value) in changes.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims
}

fn token_of(id: Option<&str>, signer: &str, changes: &Value) -> String {
    let (algorithm, key) = match signer {
        "rsa" => (Algorithm::RS256, EncodingKey::from_rsa_der(&key("rsa.der"))),
        "ed" => (Algorithm::EdDSA, EncodingKey::from_ed_der(&key("ed25519.der"))),
        secret => (Algorithm::HS256, EncodingKey::from_secret(secret.as_bytes())),
    };
    let header = Header { kid: id.map(str::to_owned), ..Header::new(algorithm) };
    encode(&header, &claims(changes), &key).unwrap()
}

fn rsa() -> String {
    token_of(Some("rsa-1"), "rsa", &json!({}))
}

fn ed() -> String {
    token_of(Some("ed-1"), "ed", &json!({}))
}

/// A handler that trusts the issuer at an address, with these members of its entry, and an issuer with a secret behind it.
fn trusting(url: &str, members: &str) -> (Rules, Guard) {
    let rules = Rules::new(&[("hmac", b"shared"), ("static", b"key-123")]);
    let access = rules.read(&format!(
        r#"{{"credentials": [{{"name": "key", "scopes": ["run"], "secret_file": "static"}}],
            "issuers": [
              {{"algorithms": ["RS256", "EdDSA"], "jwks_url": "{url}", "issuer": "{ISSUER}", "audience": ["taskreel"],
                "scopes": ["run"]{members}}},
              {{"algorithms": ["HS256"], "secret_file": "hmac", "scopes": ["run"]}}]}}"#
    ));
    let handler = guarded(access.unwrap());
    (rules, handler)
}

async fn told(handler: &Guard, token: &str) -> String {
    let header = format!("Bearer {token}");
    let headers = [("authorization", header.as_str())];
    let answer = post_task(handler, &headers);
    let answer = tokio::time::timeout(PATIENCE, answer).await.expect("each request is answered");
    assert!([200, 401].contains(&answer.status.as_u16()), "{answer:?}");
    answer.body
}

fn refused(why: &str) -> String {
    format!(r#"{{"error":"Authentication failed: Token authentication failed: {why}"}}"#)
}

const ADA: &str = "ada authenticated /tasks/";
const NO_SIGNATURE: &str = "JWT signature verification failed";
const UNREAD: &str = "the keys of the JWT's issuer could not be read";

/// Asks until a token is believed, and fails if it never is.
async fn until_believed(handler: &Guard, token: &str) {
    let begun = Instant::now();
    while told(handler, token).await != ADA {
        assert!(begun.elapsed() < PATIENCE, "the token is never believed");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_key_is_asked_for_once_however_many_tokens_name_it() {
    let issuer = Issuer::start(key_set(&["rsa-1"])).await;
    let (_rules, handler) = trusting(&issuer.url(), r#", "jwks_again_seconds": 1"#);
    let (old, new) = (rsa(), ed());
    for answer in join_all((0..50).map(|_| told(&handler, &old))).await {
        assert_eq!(answer, ADA);
    }
    assert_eq!(issuer.asked(), 1);
    // Tokens that no key fits: the one reading says so for all of them.
    let unknown = |n: usize| token_of(Some(&format!("no-{n}")), "rsa", &json!({}));
    let unknown: Vec<String> = (0..50).map(unknown).collect();
    tokio::time::sleep(AGAIN).await;
    for answer in join_all(unknown.iter().map(|token| told(&handler, token))).await {
        assert_eq!(answer, refused(NO_SIGNATURE));
    }
    assert_eq!(issuer.asked(), 2);
    issuer.set(key_set(&["ed-1"]));
    until_believed(&handler, &new).await;
    assert_eq!(issuer.asked(), 3);
    for answer in join_all((0..50).map(|_| told(&handler, &new))).await {
        assert_eq!(answer, ADA);
    }
    // The key that the issuer has taken out of its set is not believed any more.
    assert_eq!(told(&handler, &old).await, refused(NO_SIGNATURE));
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_tokens_whose_key_is_known_or_which_are_of_others_ask_for_nothing() {
    let issuer = Issuer::start(key_set(&["rsa-1", "ed-1"])).await;
    let (_rules, handler) = trusting(&issuer.url(), r#", "jwks_again_seconds": 1"#);
    assert_eq!(told(&handler, &rsa()).await, ADA);
    let keys: Value = serde_json::from_slice(&key("jwks.json")).unwrap();
    let modulus = keys["keys"][0]["n"].as_str().unwrap();
    let forged = {
        let good = rsa();
        let (head, signature) = (good.split('.').next().unwrap(), good.rsplit('.').next().unwrap());
        let root = URL_SAFE_NO_PAD.encode(claims(&json!({"sub": "root"})).to_string());
        format!("{head}.{root}.{signature}")
    };
    let unsigned = {
        let header = URL_SAFE_NO_PAD.encode(json!({"alg": "none", "kid": "new"}).to_string());
        format!("{header}.{}.", URL_SAFE_NO_PAD.encode(claims(&json!({})).to_string()))
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let bad = [
        (forged, NO_SIGNATURE),
        (token_of(Some("rsa-1"), "ed", &json!({})), NO_SIGNATURE),
        (unsigned, "JWT algorithm mismatch"),
        (token_of(Some("rsa-1"), modulus, &json!({})), NO_SIGNATURE),
        (token_of(Some("new"), modulus, &json!({"iss": "https://else"})), NO_SIGNATURE),
        (token_of(Some("new"), "rsa", &json!({"iss": "https://else"})), NO_SIGNATURE),
        (token_of(Some("rsa-1"), "rsa", &json!({"exp": now - 100})), "JWT has expired"),
        (token_of(Some("rsa-1"), "rsa", &json!({"nbf": now + 100})), "JWT is not valid yet"),
        (token_of(Some("rsa-1"), "rsa", &json!({"iat": now + 100})), "JWT issued-at time is in the future"),
        (token_of(Some("rsa-1"), "rsa", &json!({"aud": "else"})), "JWT audience mismatch"),
        (token_of(Some("rsa-1"), "rsa", &json!({"iss": "https://else"})), "JWT issuer mismatch"),
    ];
    let begun = Instant::now();
    while begun.elapsed() < AGAIN * 2 {
        for (token, why) in &bad {
            assert_eq!(told(&handler, token).await, refused(why), "{token}");
        }
    }
    assert_eq!(issuer.asked(), 1);
    // One that names a new key of the issuer does.
    assert_eq!(told(&handler, &token_of(Some("new"), "rsa", &json!({}))).await, refused(NO_SIGNATURE));
    assert_eq!(issuer.asked(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_issuer_that_is_down_keeps_out_its_own_tokens_alone_and_those_only_until_it_is_back() {
    let first = Issuer::start(key_set(&["rsa-1"])).await;
    let address = first.address;
    let url = first.url();
    drop(first);
    let (_rules, handler) = trusting(&url, r#", "jwks_again_seconds": 1, "jwks_fresh_seconds": 1"#);
    assert_eq!(told(&handler, &rsa()).await, refused(UNREAD));
    assert_eq!(told(&handler, "key-123").await, "key authenticated /tasks/");
    assert_eq!(told(&handler, &token_of(None, "shared", &json!({}))).await, ADA);
    let issuer = Issuer::start_at(address, key_set(&["rsa-1"])).await;
    until_believed(&handler, &rsa()).await;
    // While it is down again, and after the keys were to be read again, those at hand stay.
    drop(issuer);
    let begun = Instant::now();
    while begun.elapsed() < AGAIN * 4 {
        assert_eq!(told(&handler, &rsa()).await, ADA);
        assert_eq!(told(&handler, &ed()).await, refused(NO_SIGNATURE));
    }
    let _issuer = Issuer::start_at(address, key_set(&["ed-1"])).await;
    until_believed(&handler, &ed()).await;
    assert_eq!(told(&handler, &rsa()).await, refused(NO_SIGNATURE));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_was_withdrawn_is_not_believed_after_the_time_for_which_keys_are_fresh() {
    let issuer = Issuer::start(key_set(&["rsa-1"])).await;
    let (_rules, handler) = trusting(&issuer.url(), r#", "jwks_again_seconds": 1, "jwks_fresh_seconds": 1"#);
    assert_eq!(told(&handler, &rsa()).await, ADA);
    issuer.set(key_set(&["ed-1"]));
    let begun = Instant::now();
    while told(&handler, &rsa()).await == ADA {
        assert!(begun.elapsed() < PATIENCE, "the old key stays");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(told(&handler, &ed()).await, ADA);
    // Keys that nobody has used for twice that time are read before a token is believed.
    issuer.set(key_set(&["rsa-1"]));
    tokio::time::sleep(AGAIN * 3).await;
    assert_eq!(told(&handler, &ed()).await, refused(NO_SIGNATURE));
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_do_not_wait_for_a_reading_that_hangs() {
    let issuer = Issuer::start(key_set(&["rsa-1"])).await;
    let times = r#", "jwks_again_seconds": 1, "jwks_fresh_seconds": 1, "jwks_timeout_seconds": 3600"#;
    let (_rules, handler) = trusting(&issuer.url(), times);
    assert_eq!(told(&handler, &rsa()).await, ADA);
    issuer.set(Answer::Held(Box::new(key_set(&["rsa-1", "ed-1"]))));
    // The keys become old: one reading begins, and nobody waits for it.
    let begun = Instant::now();
    while issuer.asked() < 2 {
        assert_eq!(told(&handler, &rsa()).await, ADA);
        assert!(begun.elapsed() < PATIENCE, "the keys are never read again");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let (old, new) = (rsa(), ed());
    let waiting = told(&handler, &new);
    tokio::pin!(waiting);
    for _ in 0..20 {
        tokio::select! {
            biased;
            answer = &mut waiting => panic!("answered before the issuer: {answer}"),
            answer = told(&handler, &old) => assert_eq!(answer, ADA),
        }
        assert_eq!(told(&handler, "key-123").await, "key authenticated /tasks/");
        assert_eq!(told(&handler, &token_of(None, "shared", &json!({}))).await, ADA);
    }
    issuer.release();
    assert_eq!(waiting.await, ADA);
    assert_eq!(issuer.asked(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reading_ends_though_the_client_for_which_it_began_hangs_up() {
    let issuer = Issuer::start(key_set(&["rsa-1"])).await;
    issuer.set(Answer::Held(Box::new(key_set(&["rsa-1"]))));
    let (_rules, handler) = trusting(&issuer.url(), r#", "jwks_again_seconds": 3600"#);
    let token = rsa();
    tokio::select! {
        answer = told(&handler, &token) => panic!("answered before the issuer: {answer}"),
        () = issuer.until_asked(1) => {}
    }
    issuer.release();
    assert_eq!(told(&handler, &token).await, ADA);
    assert_eq!(issuer.asked(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_key_set_changes_nothing_and_is_read_no_further_than_its_bounds() {
    let elsewhere = Issuer::start(key_set(&["ed-1"])).await;
    let Answer::Body(good) = key_set(&["ed-1"]) else { unreachable!() };
    let text = |text: &str| Answer::Body(text.as_bytes().to_vec());
    let mut padded = good.clone();
    padded.resize(good.len() + 2 * 1024 * 1024, b' ');
    let many = json!({"keys": vec![serde_json::from_slice::<Value>(&good).unwrap()["keys"][0].clone(); 65]});
    let short = [b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n", good.as_slice()].concat();
    let faults = [
        Answer::Elsewhere(302, elsewhere.url()),
        Answer::Elsewhere(307, elsewhere.url()),
        Answer::Elsewhere(500, String::new()),
        Answer::Elsewhere(204, String::new()),
        Answer::Body(padded),
        Answer::Endless,
        Answer::Trickle,
        Answer::Held(Box::new(key_set(&["ed-1"]))),
        Answer::Raw(short),
        Answer::Raw(b"HTTP/1.1 200 OK\r\n".to_vec()),
        Answer::Raw(b"\x16\x03\x01 no HTTP".to_vec()),
        Answer::Raw(Vec::new()),
        text(""),
        text("null"),
        text(&many.to_string()),
        text(&format!("{{\"keys\": {}{}}}", "[".repeat(100_000), "]".repeat(100_000))),
        text(r#"{"keys": []}"#),
        text(r#"{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}"#),
        Answer::Body(key("weak.json")),
        Answer::Body(good[..good.len() / 2].to_vec()),
        Answer::Body(vec![0xff; 100]),
    ];
    join_all(faults.into_iter().map(survives)).await;
    assert_eq!(elsewhere.asked(), 0, "a redirection is not followed");
}

/// Asserts that an answer of the issuer takes and gives no key, and that the next good one does.
async fn survives(fault: Answer) {
    let issuer = Issuer::start(key_set(&["rsa-1"])).await;
    let times = r#", "jwks_again_seconds": 1, "jwks_timeout_seconds": 1"#;
    let (_rules, handler) = trusting(&issuer.url(), times);
    assert_eq!(told(&handler, &rsa()).await, ADA);
    issuer.set(fault.clone());
    while issuer.asked() < 2 {
        assert_eq!(told(&handler, &ed()).await, refused(NO_SIGNATURE), "{fault:?}");
        assert_eq!(told(&handler, &rsa()).await, ADA, "{fault:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(told(&handler, &ed()).await, refused(NO_SIGNATURE), "{fault:?}");
    issuer.set(key_set(&["rsa-1", "ed-1"]));
    until_believed(&handler, &ed()).await;
    assert_eq!(told(&handler, &rsa()).await, ADA);
}

/// The part of the test below that runs in a process with other trusted certificates.
#[cfg(feature = "tls")]
#[tokio::test(flavor = "multi_thread")]
#[ignore = "runs in a process of its own"]
async fn tokens_by_tls() {
    let url = std::env::var("KEYS_URL").unwrap();
    let (_rules, handler) = trusting(&url, "");
    println!("told: {}", told(&handler, &rsa()).await);
}

#[cfg(feature = "tls")]
mod by_tls {
    use std::path::{Path, PathBuf};
    use std::sync::Arc;

    use bytes::Bytes;
    use taskreel::BoxFuture;
    use taskreel_http::{HttpHandler, Request, Response, ResponseBody, Server, server_config};

    use super::{ADA, Answer, Duration, UNREAD, key_set, refused};

    struct KeySet;

    impl HttpHandler for KeySet {
        fn answer(&self, _: Request) -> BoxFuture<'static, Response> {
            let Answer::Body(body) = key_set(&["rsa-1"]) else { unreachable!() };
            Box::pin(async { Response::new(ResponseBody::Whole(Bytes::from(body))) })
        }
    }

    fn file(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls_files").join(name)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn keys_come_by_tls_from_an_issuer_whose_certificate_is_trusted() {
        let config = server_config(&file("one.pem"), &file("one.key.pem")).unwrap();
        let server = Server::new().workers(1).grace(Duration::from_millis(200)).tls(config);
        let serving = server.mount("/", Arc::new(KeySet)).start("127.0.0.1:0").await.unwrap();
        let port = serving.address().port();
        for (trusted, host, believed) in [
            ("one.pem", "localhost", ADA.to_owned()),
            ("two.pem", "localhost", refused(UNREAD)),
            ("one.pem", "wrong.localhost", refused(UNREAD)),
        ] {
            // The trusted certificates of a process stand in its environment.
            let output = tokio::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "tokens_by_tls", "--ignored", "--nocapture"])
                .env("SSL_CERT_FILE", file(trusted))
                .env_remove("SSL_CERT_DIR")
                .env("KEYS_URL", format!("https://{host}:{port}/keys"))
                .kill_on_drop(true)
                .output()
                .await
                .unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{said}");
            assert!(said.contains(&format!("told: {believed}")), "{trusted} {host}: {said}");
        }
        serving.stop().await.unwrap();
    }
}
