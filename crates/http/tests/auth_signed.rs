//! Signed tokens: whose are believed, for how long, and the ways to forge one.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod auth_support;

use std::time::{SystemTime, UNIX_EPOCH};

use auth_support::{Rules, guarded, key, post_task, send};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Method;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};
use taskreel_http::Guard;

const SECRET: &[u8] = b"a secret that issuer and server share";

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// Claims that are believed, with these put in or, if null, taken out.
fn claims(changes: &Value) -> Value {
    let mut claims =
        json!({"sub": "ada", "iss": "https://id.example", "aud": "taskreel", "exp": now() + 600});
    for (name, value) in changes.as_object().unwrap() {
        claims.as_object_mut().unwrap().insert(name.clone(), value.clone());
        if value.is_null() {
            claims.as_object_mut().unwrap().remove(name);
        }
    }
    claims
}

fn signed(algorithm: Algorithm, changes: &Value) -> String {
    encode(&Header::new(algorithm), &claims(changes), &EncodingKey::from_secret(SECRET)).unwrap()
}

fn by_secret(rest: &str) -> (Rules, Guard) {
    let rules = Rules::new(&[("hmac", SECRET)]);
    let access = rules.read(&format!(
        r#"{{"issuers": [{{"algorithms": ["HS256", "HS384", "HS512"], "secret_file": "hmac", "issuer": "https://id.example",
            "audience": ["taskreel", "other"], "scopes": ["read", "run"]{rest}}}]}}"#
    ));
    let handler = guarded(access.unwrap());
    (rules, handler)
}

fn by_public_keys() -> (Rules, Guard) {
    let rules = Rules::new(&[("jwks.json", &key("jwks.json"))]);
    let access = rules.read(
        r#"{"issuers": [{"algorithms": ["RS256", "EdDSA"], "jwks_file": "jwks.json", "issuer": "https://id.example",
            "audience": ["taskreel"], "scopes": ["read", "run", "control"]}]}"#,
    );
    let handler = guarded(access.unwrap());
    (rules, handler)
}

async fn told(handler: &Guard, token: &str) -> String {
    post_task(handler, &[("authorization", &format!("Bearer {token}"))]).await.body
}

fn refused(why: &str) -> String {
    format!(r#"{{"error":"Authentication failed: Token authentication failed: {why}"}}"#)
}

#[tokio::test]
async fn a_token_of_each_hmac_algorithm_names_its_principal() {
    let (_rules, handler) = by_secret("");
    for algorithm in [Algorithm::HS256, Algorithm::HS384, Algorithm::HS512] {
        assert_eq!(told(&handler, &signed(algorithm, &json!({}))).await, "ada authenticated /tasks/");
    }
    let several = signed(Algorithm::HS256, &json!({"aud": ["else", "other"]}));
    assert_eq!(told(&handler, &several).await, "ada authenticated /tasks/");
    let in_query = format!("/tasks/?token={}", signed(Algorithm::HS256, &json!({})));
    assert_eq!(send(&handler, Method::POST, &in_query, &[]).await.body, "ada authenticated /tasks/");
}

#[tokio::test]
async fn times_issuer_and_audience_are_checked_with_leeway() {
    let (_rules, handler) = by_secret(r#", "leeway_seconds": 5"#);
    for (changes, why) in [
        (json!({"exp": now() - 20}), "JWT has expired"),
        (json!({"nbf": now() + 60}), "JWT is not valid yet"),
        (json!({"iat": now() + 60}), "JWT issued-at time is in the future"),
        (json!({"iss": "https://other.example"}), "JWT issuer mismatch"),
        (json!({"iss": null}), "JWT issuer mismatch"),
        (json!({"iss": 5}), "JWT issuer mismatch"),
        (json!({"aud": "nobody"}), "JWT audience mismatch"),
        (json!({"aud": null}), "JWT audience mismatch"),
        (json!({"aud": []}), "JWT audience mismatch"),
        (json!({"exp": null}), "JWT claim is missing or has another type"),
        (json!({"exp": "tomorrow"}), "JWT claim is missing or has another type"),
        (json!({"iat": "today"}), "JWT claim is missing or has another type"),
        (json!({"sub": null}), "JWT claim is missing or has another type"),
        (json!({"sub": 7}), "JWT claim is missing or has another type"),
        (json!({"sub": ""}), "JWT claim is missing or has another type"),
        (json!({"sub": "a\nb"}), "JWT claim is missing or has another type"),
        (json!({"sub": "x".repeat(201)}), "JWT claim is missing or has another type"),
    ] {
        assert_eq!(told(&handler, &signed(Algorithm::HS256, &changes)).await, refused(why), "{changes}");
    }
    for changes in
        [json!({"exp": now() - 2}), json!({"nbf": now() + 2}), json!({"iat": now() + 2, "nbf": now()})]
    {
        let token = signed(Algorithm::HS256, &changes);
        assert_eq!(told(&handler, &token).await, "ada authenticated /tasks/", "{changes}");
    }
}

#[tokio::test]
async fn a_token_without_an_end_is_believed_only_where_the_file_says_so() {
    let (_rules, handler) = by_secret(r#", "require_exp": false"#);
    let token = signed(Algorithm::HS256, &json!({"exp": null}));
    assert_eq!(told(&handler, &token).await, "ada authenticated /tasks/");
    let ended = signed(Algorithm::HS256, &json!({"exp": now() - 100}));
    assert_eq!(told(&handler, &ended).await, refused("JWT has expired"));
}

#[tokio::test]
async fn tokens_of_public_keys_are_believed_by_the_key_that_they_name() {
    let (_rules, handler) = by_public_keys();
    let rsa = EncodingKey::from_rsa_der(&key("rsa.der"));
    let ed = EncodingKey::from_ed_der(&key("ed25519.der"));
    for (algorithm, key, id) in [
        (Algorithm::RS256, &rsa, Some("rsa-1")),
        (Algorithm::RS256, &rsa, None),
        (Algorithm::EdDSA, &ed, Some("ed-1")),
    ] {
        let header = Header { kid: id.map(str::to_owned), ..Header::new(algorithm) };
        let token = encode(&header, &claims(&json!({})), key).unwrap();
        assert_eq!(told(&handler, &token).await, "ada authenticated /tasks/", "{algorithm:?} {id:?}");
    }
    let other = Header { kid: Some("rsa-2".to_owned()), ..Header::new(Algorithm::RS256) };
    let token = encode(&other, &claims(&json!({})), &rsa).unwrap();
    assert_eq!(told(&handler, &token).await, refused("JWT signature verification failed"));
    // A key for encryption signs nothing.
    let enc = Header { kid: Some("enc".to_owned()), ..Header::new(Algorithm::RS256) };
    let token = encode(&enc, &claims(&json!({})), &rsa).unwrap();
    assert_eq!(told(&handler, &token).await, refused("JWT signature verification failed"));
    // The key is for RS256 alone, and the issuer too.
    let token = encode(&Header::new(Algorithm::RS384), &claims(&json!({})), &rsa).unwrap();
    assert_eq!(told(&handler, &token).await, refused("JWT algorithm mismatch"));
}

#[tokio::test]
async fn a_public_key_is_no_secret_and_a_token_without_signature_is_none() {
    let (_rules, handler) = by_public_keys();
    let keys: Value = serde_json::from_slice(&key("jwks.json")).unwrap();
    let modulus = keys["keys"][0]["n"].as_str().unwrap();
    let bytes = URL_SAFE_NO_PAD.decode(modulus).unwrap();
    for secret in [modulus.as_bytes(), &bytes, &key("jwks.json"), b""] {
        for algorithm in [Algorithm::HS256, Algorithm::HS384, Algorithm::HS512] {
            let header = Header { kid: Some("rsa-1".to_owned()), ..Header::new(algorithm) };
            let token = encode(&header, &claims(&json!({})), &EncodingKey::from_secret(secret)).unwrap();
            assert_eq!(told(&handler, &token).await, refused("JWT algorithm mismatch"));
        }
    }
    let (_rules, shared) = by_secret("");
    let good = signed(Algorithm::HS256, &json!({}));
    let (head, rest) = good.split_once('.').unwrap();
    let (body, signature) = rest.split_once('.').unwrap();
    let segment = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    for handler in [&handler, &shared] {
        for alg in ["none", "None", "NONE", "nOnE", "", "HS257"] {
            let header = segment(&json!({"alg": alg, "typ": "JWT"}));
            for token in [format!("{header}.{body}."), format!("{header}.{body}.{signature}")] {
                assert_eq!(told(handler, &token).await, refused("JWT algorithm mismatch"), "{alg}");
            }
        }
    }
    let admin = segment(&claims(&json!({"sub": "root"})));
    for token in [
        format!("{head}.{body}."),
        format!("{head}.{admin}.{signature}"),
        format!("{head}.{body}.{signature}A"),
    ] {
        assert_eq!(told(&shared, &token).await, refused("JWT signature verification failed"), "{token}");
    }
    for token in ["a", "a.b", "..", "a.b.c.d", &"x.y.z".repeat(4_000)] {
        assert!(told(&shared, token).await.contains("Authentication failed"), "{}", token.len());
    }
}

#[tokio::test]
async fn keys_that_the_token_itself_brings_and_critical_extensions_are_not_taken() {
    let (_rules, handler) = by_secret("");
    let own = EncodingKey::from_secret(b"mine");
    let header = json!({"alg": "HS256", "jwk": {"kty": "oct", "k": URL_SAFE_NO_PAD.encode("mine")}});
    let header: Header = serde_json::from_value(header).unwrap();
    let token = encode(&header, &claims(&json!({})), &own).unwrap();
    assert_eq!(told(&handler, &token).await, refused("JWT signature verification failed"));
    let critical = Header { crit: Some(vec!["b64".to_owned()]), ..Header::new(Algorithm::HS256) };
    let token = encode(&critical, &claims(&json!({})), &EncodingKey::from_secret(SECRET)).unwrap();
    assert!(told(&handler, &token).await.contains("Authentication failed"));
}

#[tokio::test]
async fn a_token_has_no_more_scopes_than_its_issuer_and_those_that_it_names() {
    let (_rules, handler) = by_secret("");
    for (scope, run, control) in [
        (json!(null), 200, 403),
        (json!("run"), 200, 403),
        (json!("openid taskreel:run mail"), 200, 403),
        (json!(["run", "control"]), 200, 403),
        (json!("read"), 403, 403),
        (json!(""), 403, 403),
        (json!("runs"), 403, 403),
        (json!(5), 401, 401),
    ] {
        let token = format!("Bearer {}", signed(Algorithm::HS256, &json!({"scope": scope})));
        let header = [("authorization", token.as_str())];
        assert_eq!(send(&handler, Method::POST, "/tasks/", &header).await.status, run, "{scope}");
        assert_eq!(send(&handler, Method::POST, "/state/reset", &header).await.status, control, "{scope}");
    }
}

#[tokio::test]
async fn a_prefix_keeps_the_names_of_an_issuer_apart() {
    let (_rules, handler) = by_secret(r#", "prefix": "corp:", "principal_claim": "email""#);
    let token = signed(Algorithm::HS256, &json!({"email": "ada@example.org"}));
    assert_eq!(told(&handler, &token).await, "corp:ada@example.org authenticated /tasks/");
}

#[test]
fn an_issuer_that_could_be_confused_is_refused_at_the_start() {
    let weak = key("weak.json");
    let symmetric = br#"{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}"#;
    let rules = Rules::new(&[
        ("hmac", SECRET),
        ("jwks.json", &key("jwks.json")),
        ("weak.json", &weak),
        ("symmetric.json", symmetric),
        ("empty.json", br#"{"keys": []}"#),
    ]);
    for (entry, why) in [
        (
            r#""algorithms": ["HS256", "RS256"], "jwks_file": "jwks.json""#,
            "all with a secret or all with public keys",
        ),
        (r#""algorithms": [], "secret_file": "hmac""#, "names one or more"),
        (r#""algorithms": ["none"], "secret_file": "hmac""#, "an algorithm is not known"),
        (r#""algorithms": ["HS256"], "jwks_file": "jwks.json""#, "HS algorithms have one of"),
        (r#""algorithms": ["RS256"], "secret_file": "hmac""#, "algorithms with public keys have one of"),
        (r#""algorithms": ["RS256"], "jwks_file": "symmetric.json""#, "it holds a secret or a private key"),
        (r#""algorithms": ["RS256"], "jwks_file": "weak.json""#, "fewer than 2048 bits"),
        (r#""algorithms": ["RS256"], "jwks_file": "empty.json""#, "no key for signatures"),
        (r#""algorithms": ["RS256"], "jwks_file": "hmac""#, "no JSON Web Key Set"),
        (r#""algorithms": ["RS256"], "jwks_file": "jwks.json", "jwks_again_seconds": 5"#, "go with jwks_url"),
        #[cfg(feature = "client")]
        (r#""algorithms": ["RS256"], "jwks_url": "http://id.example/keys""#, "read by https"),
        #[cfg(feature = "client")]
        (r#""algorithms": ["RS256"], "jwks_url": "ftp://a/k""#, "read by https"),
        (
            r#""algorithms": ["RS256"], "jwks_url": "https://a/k", "jwks_fresh_seconds": 0"#,
            "1 second or more",
        ),
    ] {
        let error = rules.read(&format!(r#"{{"issuers": [{{{entry}, "scopes": ["run"]}}]}}"#)).unwrap_err();
        assert!(error.to_string().contains(why), "{entry}: {error}");
    }
}
