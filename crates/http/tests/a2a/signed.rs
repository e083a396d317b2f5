//! Signatures of cards: by keys of files, checked by those who trust the keys, over the card as it stands and over what 1.0 knows.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use taskreel::JsonText;
use taskreel_http::A2a;
use taskreel_http::a2a::{Card, CardKey, CardKeys};

use crate::support::{Host, ask, builder, hosts_of};

fn keys() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/auth_support/keys")
}

/// Writes a key as PEM.
fn pem(dir: &Path, name: &str, label: &str) -> PathBuf {
    let der = std::fs::read(keys().join(format!("{name}.der"))).unwrap();
    let path = dir.join(format!("{name}.pem"));
    let body = STANDARD.encode(der);
    let lines: Vec<&str> =
        body.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    let text = format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"));
    std::fs::write(&path, text).unwrap();
    path
}

async fn card(host: &Host) -> Value {
    ask(host, "GET", "/.well-known/agent-card.json", "").await.json()
}

fn verified(card: &Value, keys: &CardKeys) -> Result<Card, String> {
    let json = JsonText::parse(&card.to_string()).unwrap();
    Card::verified(&json, "http://h", keys).map_err(|error| error.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_card_is_signed_by_a_key_of_each_kind_and_what_was_changed_is_not_believed() {
    let dir = tempfile::tempdir().unwrap();
    let system = builder().start().await.unwrap();
    let sets =
        |name: &str| CardKeys::from_jwks(&std::fs::read_to_string(keys().join(name)).unwrap()).unwrap();
    let (trusted, other) = (sets("jwks.json"), sets("p256-jwks.json"));
    for (name, label, id, algorithm, is_ec) in [
        ("rsa", "RSA PRIVATE KEY", "rsa-1", "RS256", false),
        ("ed25519", "PRIVATE KEY", "ed-1", "EdDSA", false),
        ("p256", "PRIVATE KEY", "p256", "ES256", true),
    ] {
        let key = CardKey::from_file(&pem(dir.path(), name, label)).unwrap();
        let key = key.id(id).jku("https://example.org/jwks.json");
        let (trusted, other) = if is_ec { (&other, &trusted) } else { (&trusted, &other) };
        for host in hosts_of(Arc::new(A2a::new(system.clone()).card_key(key.clone()))).await {
            let card = card(&host).await;
            let signatures = card["signatures"].as_array().unwrap();
            assert_eq!(signatures.len(), 2, "as it stands, and what 1.0 knows of it");
            let protected = URL_SAFE_NO_PAD.decode(signatures[0]["protected"].as_str().unwrap()).unwrap();
            let header: Value = serde_json::from_slice(&protected).unwrap();
            let jku = "https://example.org/jwks.json";
            assert_eq!(header, json!({"alg": algorithm, "typ": "JOSE", "kid": id, "jku": jku}));
            let read = verified(&card, trusted).unwrap();
            assert_eq!(read.interfaces.len(), 4, "{name}");
            assert!(verified(&card, other).unwrap_err().contains("trusted"), "{name}");
            // Members that only the second signature leaves out are not read on its word.
            let mut changed = card.clone();
            changed["url"] = json!("http://evil");
            let of_1 = verified(&changed, trusted).unwrap();
            assert!(of_1.interfaces.iter().all(|one| one.url == "http://localhost"), "{:?}", of_1.interfaces);
            assert!(!of_1.json.as_str().contains("evil"));
            for place in ["/name", "/supportedInterfaces/0/url", "/skills/0/description"] {
                let mut changed = card.clone();
                *changed.pointer_mut(place).unwrap() = json!("http://evil");
                assert!(verified(&changed, trusted).is_err(), "{place}");
            }
            let mut unsigned = card.clone();
            unsigned.as_object_mut().unwrap().remove("signatures");
            assert!(verified(&unsigned, trusted).unwrap_err().contains("not signed"));
            assert_eq!(self::card(&host).await, card, "it is not signed for each request anew");
            host.stop().await;
        }
    }
    system.shutdown().await.unwrap();
}

#[test]
fn what_is_no_signature_is_passed_over_and_what_is_no_key_is_refused_without_its_text() {
    let trusted = CardKeys::from_jwks(&std::fs::read_to_string(keys().join("jwks.json")).unwrap()).unwrap();
    let protected = |header: &Value| URL_SAFE_NO_PAD.encode(header.to_string());
    let forged = [
        json!([null]),
        json!([{}]),
        json!([{"protected": "%", "signature": ""}]),
        json!([{"protected": protected(&json!({"alg": "none"})), "signature": ""}]),
        json!([{"protected": protected(&json!({"alg": "HS256", "kid": "rsa-1"})), "signature": "AA"}]),
        json!([{"protected": protected(&json!({"alg": "RS256", "kid": "rsa-1"})), "signature": "AA"}]),
        json!([{"protected": protected(&json!({"alg": "RS256", "crit": ["x"]})), "signature": "AA"}]),
        json!("x"),
    ];
    for signatures in forged {
        let card = json!({"name": "n", "url": "http://h", "signatures": signatures});
        assert!(verified(&card, &trusted).is_err(), "{card}");
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("key.pem");
    for text in ["", "secret", "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----"] {
        std::fs::write(&path, text).unwrap();
        let error = CardKey::from_file(&path).unwrap_err().to_string();
        assert!(error.contains("key.pem") && !error.contains("c2VjcmV0"), "{error}");
    }
    assert!(CardKey::from_file(&dir.path().join("none.pem")).is_err());
    assert!(CardKeys::from_jwks("{}").is_err());
}
