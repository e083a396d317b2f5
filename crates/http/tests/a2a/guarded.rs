//! Behind the check of callers: who may read the card, what each scope is good for, and whose the tasks are.

use std::sync::Arc;

use serde_json::{Value, json};
use taskreel_http::{A2a, Access, Guard, HttpHandler};

use crate::agent::{Gate, agent};
use crate::asked::{ALL, Binding};
use crate::support::{Answer, Host, hosts_of, request, send};

const FILE: &str = r#"{"credentials": [
    {"name": "ada", "scopes": ["read", "run", "control"], "secret_file": "ada"},
    {"name": "bob", "scopes": ["read", "run", "control"], "secret_file": "bob"},
    {"name": "eve", "scopes": ["read"], "secret_file": "eve"}
]}"#;

async fn asked(host: &Host, binding: Binding, token: &str, operation: &str, params: &Value) -> Answer {
    let bearer = format!("Bearer {token}");
    send(host, &binding.request(operation, params, &[("authorization", &bearer)])).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_card_needs_no_credential_and_each_operation_its_scope_whatever_the_binding() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["ada", "bob", "eve"] {
        std::fs::write(dir.path().join(name), format!("{name}-token")).unwrap();
    }
    std::fs::write(dir.path().join("auth.json"), FILE).unwrap();
    let access = Access::open().with_file(&dir.path().join("auth.json")).unwrap();
    let system = agent(&Gate::shut()).await;
    let handler: Arc<dyn HttpHandler> = Arc::new(A2a::new(system.clone()).secured());
    for host in hosts_of(Arc::new(Guard::new(access, handler))).await {
        let card = send(&host, &request("GET", "/.well-known/agent-card.json", &[], "")).await;
        assert_eq!(card.status, 200, "{card:?}");
        let card = card.json();
        let bearer =
            json!({"type": "http", "scheme": "bearer", "httpAuthSecurityScheme": {"scheme": "Bearer"}});
        assert_eq!(card["securitySchemes"]["bearer"], bearer);
        assert_eq!(
            card["securityRequirements"][1],
            json!({"schemes": {"apiKey": {"list": ["read", "run"]}}})
        );
        assert_eq!(card["capabilities"]["extendedAgentCard"], true);
        for binding in ALL {
            let message =
                json!({"message": binding.message("ask", &Value::Null), "configuration": binding.blocking()});
            let unknown = send(&host, &binding.request("send", &message, &[])).await;
            assert_eq!(
                (unknown.status, unknown.header("www-authenticate")),
                (401, Some("Bearer")),
                "{binding:?}"
            );
            let wrong = asked(&host, binding, "no-token", "send", &message).await;
            assert_eq!(wrong.status, 401, "{binding:?}");
            let sent = binding.came(&asked(&host, binding, "ada-token", "send", &message).await).unwrap();
            let task = if binding == Binding::Rpc03 { sent } else { sent["task"].clone() };
            let id = json!({"id": task["id"]});
            for operation in ["get", "subscribe", "cancel"] {
                let refused =
                    binding.came(&asked(&host, binding, "bob-token", operation, &id).await).unwrap_err();
                assert_eq!(refused.1, "TASK_NOT_FOUND", "{binding:?} {operation}");
            }
            for operation in ["send", "cancel"] {
                let params = if operation == "send" { &message } else { &id };
                assert_eq!(
                    asked(&host, binding, "eve-token", operation, params).await.status,
                    403,
                    "{binding:?}"
                );
            }
            let card = binding.came(&asked(&host, binding, "eve-token", "card", &json!({})).await).unwrap();
            assert_eq!(card["capabilities"]["extendedAgentCard"], true, "{binding:?}");
        }
        host.stop().await;
    }
    system.shutdown().await.unwrap();
}
