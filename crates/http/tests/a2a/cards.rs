//! The card.

use serde_json::json;

use crate::agent::{Gate, agent};
use crate::asked::hosts;
use crate::support::{ask, builder, request, send};

#[tokio::test(flavor = "multi_thread")]
async fn a_card_is_readable_by_both_versions_and_is_not_sent_twice() {
    let system = builder().start().await.unwrap();
    for host in hosts(&system).await {
        let answer = ask(&host, "GET", "/.well-known/agent-card.json", "").await;
        let card = answer.json();
        let interfaces: Vec<_> = card["supportedInterfaces"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| (one["protocolBinding"].as_str().unwrap(), one["protocolVersion"].as_str().unwrap()))
            .collect();
        assert_eq!(
            interfaces,
            [("JSONRPC", "1.0"), ("HTTP+JSON", "1.0"), ("JSONRPC", "0.3"), ("HTTP+JSON", "0.3")]
        );
        assert_eq!(card["capabilities"]["streaming"], true);
        assert_eq!(card["capabilities"]["pushNotifications"], false);
        let skill = &card["skills"][0];
        assert_eq!((&skill["id"], &skill["tags"]), (&json!("echo"), &json!(["tool"])));
        assert_eq!(
            (&card["protocolVersion"], &card["preferredTransport"]),
            (&json!("0.3.0"), &json!("JSONRPC"))
        );
        assert_eq!(
            (&card["url"], &card["supportedInterfaces"][0]["url"]),
            (&json!("http://localhost"), &card["url"])
        );
        assert!(answer.header("cache-control").unwrap().contains("max-age="));
        let tag = answer.header("etag").unwrap();
        let path = "/.well-known/agent-card.json";
        let known = send(&host, &request("GET", path, &[("if-none-match", tag)], "")).await;
        assert_eq!((known.status, known.body.as_str()), (304, ""));
        let changed = send(&host, &request("GET", path, &[("if-none-match", "\"x\"")], "")).await;
        assert_eq!(changed.status, 200);
        assert_eq!(ask(&host, "POST", path, "{}").await.status, 405);
        host.stop().await;
    }
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_without_tools_has_a_skill_of_its_own_name_and_protolinks_paths_stay_its_own() {
    let system = agent(&Gate::shut()).await;
    for host in hosts(&system).await {
        let card = ask(&host, "GET", "/.well-known/agent-card.json", "").await.json();
        assert_eq!(card["skills"].as_array().unwrap().len(), 1, "{card}");
        assert_eq!(card["skills"][0]["id"], card["name"]);
        assert_eq!(ask(&host, "GET", "/.well-known/agent.json", "").await.json()["transport"], "http");
        assert_eq!(ask(&host, "POST", "/tasks", "{}").await.status, 307);
        assert_eq!(ask(&host, "POST", "/tasks/", "{}").await.status, 200);
        assert_eq!(ask(&host, "GET", "/status", "").await.status, 200);
        assert_eq!(ask(&host, "GET", "/message:send", "").await.status, 405);
        assert_eq!(ask(&host, "GET", "/", "").await.status, 404);
        host.stop().await;
    }
    system.shutdown().await.unwrap();
}
