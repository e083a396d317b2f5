//! Restrictions that a host makes: versions, media types, extensions, skills that only known callers see, and the schemes that its rules
//! check.

use std::sync::Arc;

use serde_json::{Value, json};
use taskreel_http::a2a::{Extension, Version};
use taskreel_http::{A2a, Access, Guard, HttpHandler};

use crate::agent::{Gate, agent};
use crate::asked::{ALL, Binding};
use crate::support::{Answer, Host, ask, builder, hosts_of, request, send};

const URI: &str = "https://example.org/ext/v1";

fn refused(binding: Binding, code: i64, reason: &str) -> Result<Value, (i64, String)> {
    Err((if binding.is_rpc() { code } else { 400 }, reason.to_owned()))
}

async fn card(host: &Host) -> Answer {
    ask(host, "GET", "/.well-known/agent-card.json", "").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_required_extension_must_be_named_and_the_card_says_so() {
    let system = agent(&Gate::shut()).await;
    let handler = A2a::new(system.clone()).extension(Extension::new(URI, "needed").required());
    for host in hosts_of(Arc::new(handler)).await {
        let declared = card(&host).await.json()["capabilities"]["extensions"].clone();
        let own = json!({"uri": URI, "description": "needed", "required": true});
        assert!(declared.as_array().unwrap().contains(&own), "{declared}");
        for binding in ALL {
            let message = json!({"message": binding.message("hello", &Value::Null)});
            for (operation, params) in
                [("send", &message), ("stream", &message), ("get", &json!({"id": "t"}))]
            {
                let bare = binding.ask(&host, operation, params.clone()).await;
                assert_eq!(
                    bare,
                    refused(binding, -32008, "EXTENSION_SUPPORT_REQUIRED"),
                    "{binding:?} {operation}"
                );
            }
            for (header, value) in
                [("a2a-extensions", format!("urn:x, {URI}")), ("x-a2a-extensions", URI.to_owned())]
            {
                let named = send(&host, &binding.request("send", &message, &[(header, &value)])).await;
                assert!(binding.came(&named).is_ok(), "{binding:?} {named:?}");
            }
        }
        host.stop().await;
    }
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn media_types_that_an_agent_does_not_take_or_a_client_does_not_accept_are_refused_before_a_task_is_made()
 {
    let system = agent(&Gate::shut()).await;
    let handler =
        A2a::new(system.clone()).input_modes(["text/plain", "image/*"]).output_modes(["application/json"]);
    for host in hosts_of(Arc::new(handler)).await {
        let card = card(&host).await.json();
        assert_eq!(card["defaultInputModes"], json!(["text/plain", "image/*"]));
        assert_eq!(card["defaultOutputModes"], json!(["application/json"]));
        for binding in [Binding::Rpc1, Binding::Rest1] {
            let before = binding.ask(&host, "list", json!({})).await.unwrap()["totalSize"].clone();
            for part in [
                json!({"data": {"a": 1}}),
                json!({"text": "x", "mediaType": "text/html"}),
                json!({"raw": "aGk=", "mediaType": "application/pdf"}),
                json!({"url": "http://h/x", "mediaType": "application/x-unsupported"}),
            ] {
                let parts = json!({"parts": [{"text": "hello"}, part]});
                let came = binding.ask(&host, "send", json!({"message": binding.message("", &parts)})).await;
                assert_eq!(
                    came,
                    refused(binding, -32005, "CONTENT_TYPE_NOT_SUPPORTED"),
                    "{binding:?} {part}"
                );
            }
            let accepts = |modes: Value| {
                let configuration = json!({"acceptedOutputModes": modes});
                json!({"message": binding.message("hello", &Value::Null), "configuration": configuration})
            };
            let came = binding.ask(&host, "send", accepts(json!(["image/png"]))).await;
            assert_eq!(came, refused(binding, -32005, "CONTENT_TYPE_NOT_SUPPORTED"), "{binding:?}");
            let after = binding.ask(&host, "list", json!({})).await.unwrap()["totalSize"].clone();
            assert_eq!(after, before, "no task was made");
            for modes in [json!([]), json!(["image/png", "application/*"]), json!(["*/*"])] {
                assert!(binding.ask(&host, "send", accepts(modes)).await.is_ok());
            }
            for part in [json!({"raw": "aGk="}), json!({"raw": "aGk=", "mediaType": "image/png"})] {
                let parts =
                    json!({"parts": [{"text": "hello", "mediaType": "Text/Plain; charset=utf-8"}, part]});
                let came = binding.ask(&host, "send", json!({"message": binding.message("", &parts)})).await;
                assert!(came.is_ok(), "{binding:?} {came:?}");
            }
        }
        host.stop().await;
    }
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_of_one_version_has_a_card_of_that_version_and_refuses_the_other() {
    let system = agent(&Gate::shut()).await;
    for (only, is_1) in [(Version::V1, true), (Version::V03, false)] {
        for host in hosts_of(Arc::new(A2a::new(system.clone()).only(only))).await {
            let card = card(&host).await.json();
            let spoken: Vec<_> = card["supportedInterfaces"].as_array().unwrap().iter().collect();
            assert!(spoken.iter().all(|one| (one["protocolVersion"] == "1.0") == is_1), "{card}");
            assert_eq!(card["protocolVersion"].is_null(), is_1, "{card}");
            for binding in ALL {
                let message = json!({"message": binding.message("hello", &Value::Null)});
                let came = binding.ask(&host, "send", message).await;
                if binding.is_1() == is_1 {
                    assert!(came.is_ok(), "{binding:?} {came:?}");
                } else {
                    assert_eq!(came, refused(binding, -32009, "VERSION_NOT_SUPPORTED"), "{binding:?}");
                }
            }
            host.stop().await;
        }
    }
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_extended_card_shows_the_skills_that_the_public_one_keeps_to_itself() {
    let system = builder().start().await.unwrap();
    let access = Access::open().with_token("ada", taskreel_http::Scopes::ALL, "secret").unwrap();
    let handler: Arc<dyn HttpHandler> =
        Arc::new(A2a::new(system.clone()).access(&access).public_skills(["echo"]));
    for host in hosts_of(Arc::new(Guard::new(access, handler))).await {
        let skills = |card: &Value| -> Vec<String> {
            let ids = card["skills"].as_array().unwrap().iter();
            ids.map(|skill| skill["id"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(skills(&card(&host).await.json()), ["echo"]);
        for binding in ALL {
            let unknown = send(&host, &binding.request("card", &json!({}), &[])).await;
            assert_eq!(unknown.status, 401, "{binding:?}");
            let known = binding.request("card", &json!({}), &[("authorization", "Bearer secret")]);
            let extended = binding.came(&send(&host, &known).await).unwrap();
            assert_eq!(skills(&extended), ["echo", "slow"], "{binding:?}");
        }
        host.stop().await;
    }
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_card_names_the_schemes_that_the_rules_check_and_no_others() {
    let dir = tempfile::tempdir().unwrap();
    let system = agent(&Gate::shut()).await;
    let keys = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/auth_support/keys/jwks.json");
    let token = json!({"name": "ada", "scopes": ["read", "run"], "secret_file": "secret"});
    let basic = json!({"name": "bob", "user": "bob", "scopes": ["read"], "secret_file": "secret"});
    let issuer = json!({"algorithms": ["RS256"], "jwks_file": keys, "audience": ["a"], "issuer": "i", "scopes": ["read"]});
    std::fs::write(dir.path().join("secret"), "s").unwrap();
    for (file, names) in [
        (json!({}), vec![]),
        (json!({"credentials": [token]}), vec!["apiKey", "bearer"]),
        (json!({"credentials": [basic]}), vec!["basic"]),
        (json!({"issuers": [issuer]}), vec!["jwt"]),
        (
            json!({"credentials": [token, basic], "issuers": [issuer]}),
            vec!["apiKey", "basic", "bearer", "jwt"],
        ),
    ] {
        std::fs::write(dir.path().join("auth.json"), file.to_string()).unwrap();
        let access = Access::open().with_file(&dir.path().join("auth.json")).unwrap();
        let handler = A2a::new(system.clone()).access(&access);
        for host in hosts_of(Arc::new(handler)).await {
            let card = card(&host).await.json();
            let mut named: Vec<&str> = card["securitySchemes"]
                .as_object()
                .into_iter()
                .flatten()
                .map(|(name, _)| name.as_str())
                .collect();
            named.sort_unstable();
            assert_eq!(named, names, "{card}");
            for name in names.clone() {
                let required = json!({"schemes": {name: {"list": ["read", "run"]}}});
                assert!(card["securityRequirements"].as_array().unwrap().contains(&required), "{card}");
            }
            assert_eq!(card["capabilities"]["extendedAgentCard"], json!(!names.is_empty()));
            if names.contains(&"jwt") {
                let scheme = json!({"scheme": "Bearer", "bearerFormat": "JWT"});
                assert_eq!(card["securitySchemes"]["jwt"]["httpAuthSecurityScheme"], scheme);
            }
            host.stop().await;
        }
    }
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_card_says_since_when_it_is_as_it_is() {
    let system = agent(&Gate::shut()).await;
    for host in hosts_of(Arc::new(A2a::new(system.clone()))).await {
        let first = card(&host).await;
        let since = first.header("last-modified").unwrap();
        assert!(since.ends_with(" GMT") && since.len() == "Thu, 26 Nov 2026 00:00:00 GMT".len(), "{since}");
        // Another address is another card; this one stays as it was.
        let path = "/.well-known/agent-card.json";
        for n in 0..100 {
            let bytes = String::from_utf8(request("GET", path, &[], "")).unwrap();
            let bytes = bytes.replace("localhost", &format!("h{n}.example"));
            let asked = send(&host, bytes.as_bytes()).await;
            assert_eq!(asked.json()["url"], format!("http://h{n}.example"));
        }
        host.stop().await;
    }
    system.shutdown().await.unwrap();
}
