//! Credentials that a card asks for, as they reach the agent.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use proto_events::id::Version;
use proto_events::task::TaskEvent;
use serde_json::{Value, json};
use taskreel::tool::ToolPolicy;
use taskreel::{Part, System, TaskState};
use taskreel_http::a2a::{A2aError, Binding, Client, Options, Remote, SecretSource};
use taskreel_log::memory::MemoryStore;
use taskreel_log::read::decode_record;
use tokio::net::TcpListener;

use crate::forge::{Answer, Asked, at, forge, options, rpc, task, whole};
use crate::remote::{asks, stop};
use crate::support::PATIENCE;

/// Returns the card of an agent at the address of the request, which asks for credentials.
fn guarded(asked: &Asked, schemes: &Value, requirements: &Value) -> Answer {
    let url = format!("http://{}", asked.header("host").unwrap());
    let card = json!({
        "name": "guarded", "description": "d", "version": "1",
        "supportedInterfaces": [{"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
        "securitySchemes": schemes, "securityRequirements": requirements,
    });
    whole(200, &card.to_string())
}

/// Starts an agent whose card asks for credentials, and returns its address, and the heads of the requests behind the card.
async fn asking(schemes: Value, requirements: Value) -> (String, Arc<Mutex<Vec<String>>>) {
    let heads: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&heads);
    let url = forge(move |asked| {
        if asked.is("agent-card.json") {
            return guarded(asked, &schemes, &requirements);
        }
        seen.lock().unwrap().push(asked.head.clone());
        rpc(asked, "result", &task("WORKING"))
    })
    .await;
    (url, heads)
}

/// Returns a file with a secret.
fn secret(text: &str) -> (tempfile::TempDir, PathBuf) {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("key");
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    (dir, path)
}

#[tokio::test(flavor = "multi_thread")]
async fn all_secrets_of_a_requirement_reach_the_agent_and_none_its_card() {
    let schemes = json!({
        "token": {"httpAuthSecurityScheme": {"scheme": "Bearer"}},
        "query": {"apiKeySecurityScheme": {"location": "query", "name": "key"}},
        "cookie": {"apiKeySecurityScheme": {"location": "cookie", "name": "sid"}},
    });
    let all = json!([{"schemes": {"token": {"list": []}, "query": {"list": []}, "cookie": {"list": []}}}]);
    let (url, heads) = asking(schemes, all).await;
    let (_dir, path) = secret("hush & 1");
    let (_other, plain) = secret("hush-2");
    let file = |path: &PathBuf| SecretSource::File(path.clone());
    let options = options().secret("token", file(&plain)).secret("query", file(&path));
    let missing = Client::discover(&url, &options).await.unwrap_err();
    assert!(matches!(&missing, A2aError::Credentials { .. }), "{missing}");
    assert!(missing.to_string().contains("`cookie`") && !missing.to_string().contains("hush"), "{missing}");
    let client = Client::discover(&url, &options.secret("cookie", file(&plain))).await.unwrap();
    client.get("t", None).await.unwrap();
    let head = heads.lock().unwrap()[0].to_ascii_lowercase();
    for shown in ["?key=hush+%26+1", "authorization: bearer hush-2", "cookie: sid=hush-2"] {
        assert!(head.contains(shown), "{shown}: {head}");
    }
    assert!(!format!("{client:?}").contains("hush"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_whose_credentials_are_not_there_says_which_and_is_not_sent() {
    let schemes = json!({"token": {"oauth2SecurityScheme": {"flows": {}}}});
    let (url, heads) = asking(schemes, json!([{"schemes": {"token": {"list": []}}}])).await;
    let options = Options::new().secrets_from_env("TASKREEL_NONE_OF_THESE");
    let remote = Remote::at(&url).named("far").options(options);
    let near = System::builder("in memory").store(Arc::new(MemoryStore::new()));
    let near = near.infer(asks("q")).peer(remote.clone()).start().await.unwrap();
    let ended = near.submit(Part::infer("q")).await.unwrap().finished().await.unwrap();
    let error = ended.task().error().unwrap_or_default();
    assert_eq!(ended.state(), TaskState::Failed);
    for said in [error, remote.card_failure().unwrap()] {
        assert!(said.contains("OAuth 2.0") && said.contains("TASKREEL_NONE_OF_THESE_TOKEN"), "{said}");
    }
    assert!(heads.lock().unwrap().is_empty());
    stop([near]).await;
}

/// Checks that no piece of the secret of [`a_secret_in_the_query_stands_in_no_error_and_in_no_record`] stands in a text: its
/// letters are the same in every encoding.
fn assert_hidden(text: &str) {
    assert!(!text.contains("hush") && !text.contains("w0rd"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_in_the_query_stands_in_no_error_and_in_no_record() {
    let url = forge(|asked| {
        if asked.is("agent-card.json") {
            let schemes = json!({"query": {"apiKeySecurityScheme": {"location": "query", "name": "key"}}});
            return guarded(asked, &schemes, &json!([{"schemes": {"query": {"list": []}}}]));
        }
        // The connection ends without an answer.
        Answer(Vec::new(), Vec::new())
    })
    .await;
    let (_dir, path) = secret("hush ~w0rd");
    let of_scheme = options().attempts(2).secret("query", SecretSource::File(path));
    let own = options().attempts(2).query("key", "hush ~w0rd");
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    for (client, url) in [
        (Client::discover(&url, &of_scheme).await.unwrap(), &url),
        (at(&url, Binding::HttpJson, &own), &url),
        (at(&nobody, Binding::JsonRpc, &own), &nobody),
    ] {
        let broken = client.get("t", None).await.unwrap_err();
        let text = format!("{broken} {broken:?}");
        assert!(matches!(&broken, A2aError::Transport(_)) && text.contains(url.as_str()), "{text}");
        assert_hidden(&text);
    }
    // The outcome of a question that is not asked for again holds the words of the error.
    let remote = Remote::at(&url).named("far").options(of_scheme).with_policy(ToolPolicy::manual());
    let near = System::builder("in memory").store(Arc::new(MemoryStore::new()));
    let near = near.infer(asks("q")).peer(remote).start().await.unwrap();
    let asking = near.submit(Part::infer("q")).await.unwrap();
    let ended = tokio::time::timeout(PATIENCE, asking.finished()).await.expect("it comes to rest").unwrap();
    assert_eq!(ended.state(), TaskState::InputRequired, "{ended:?}");
    let records = near.log().read_stream(asking.stream(), Version(1), 10_000).unwrap();
    let events = records.iter().flat_map(|record| decode_record::<TaskEvent>(record).unwrap());
    let text = format!("{:?}", events.collect::<Vec<_>>());
    assert!(text.contains("Protocol error"), "{text}");
    assert_hidden(&text);
    stop([near]).await;
}
