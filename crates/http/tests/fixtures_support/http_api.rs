//! Area `http_api`: a request to one of the recorded servers, and its response as the recording keeps it.

use proto_events::json;
use proto_events::json::JsonValue as Value;

use super::servers::Servers;
use super::{Case, Failure};
use crate::support::{Answer, Host, connect, request};

/// Answers a case. The cases of a file run in order against the same servers.
pub(crate) fn answer(case: &Case) -> Result<Value, Failure> {
    Servers::with(|servers, runtime| {
        let asked = async {
            let slow = tokio::time::timeout(crate::support::PATIENCE, answered(case, servers));
            slow.await.map_err(|_| Failure::Unanswerable("the case hangs".to_owned()))?
        };
        runtime.block_on(asked)
    })
}

async fn answered(case: &Case, servers: &mut Servers) -> Result<Value, Failure> {
    let (input, expected) = (case.input(), &case.whole["expected"]);
    let host = servers.host(case.text("server")?)?;
    let canceled = expected["json"]["state"] == "canceled";
    let is_cancel = case.text("path")? == "/tasks/cancel";
    if canceled {
        // The task is posted by one client and canceled by another; each of the two cases is one's answer.
        let id = expected["json"]["id"].as_str().unwrap_or_default().to_owned();
        let posted = json!({"id": id, "created_at": expected["json"]["created_at"], "messages": expected["json"]["messages"]});
        let (original, cancel) = servers.canceled(&id, &posted.to_string()).await?;
        let given = if is_cancel { cancel } else { original };
        return Ok(kept(&given, expected));
    }
    let body = match (input["raw_body"].as_str(), &input["json"]) {
        (Some(raw), _) => raw.to_owned(),
        (None, Value::Null) => String::new(),
        (None, json) => json.to_string(),
    };
    let mut headers: Vec<(&str, &str)> = Vec::new();
    if !input["json"].is_null() {
        headers.push(("content-type", "application/json"));
    }
    for (name, value) in input["headers"].as_object().into_iter().flatten() {
        headers.push((name, value.as_str().unwrap_or_default()));
    }
    let given = exchange(host, case.text("method")?, case.text("path")?, &headers, &body).await;
    Ok(kept(&given, expected))
}

/// Sends a request and returns the response.
pub(super) async fn exchange(
    host: &Host,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    let mut connection = connect(host).await;
    connection.write_all(&request(method, path, headers, body)).await.expect("the server reads");
    let mut answer = connection.answer().await;
    // The recording has the hosts without their ports.
    answer.body = answer.body.replace(&format!("http://{}", host.address), "http://HOST:0");
    answer.body = answer.body.replace("http://localhost", "http://HOST:0");
    answer
}

/// Returns what the recording keeps of a response.
fn kept(answer: &Answer, expected: &Value) -> Value {
    let mut kept = json!({"status": answer.status});
    if expected.get("content_type").is_some() {
        kept["content_type"] = answer.header("content-type").into();
    }
    let parsed =
        || serde_json::from_str::<Value>(&answer.body).unwrap_or_else(|_| Value::from(answer.body.as_str()));
    if answer.status >= 400 && parsed()["error"].is_object() {
        kept["error_code"] = parsed()["error"]["code"].clone();
    } else if answer.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream")) {
        kept["sse_frames"] = answer.body.lines().filter_map(frame).collect::<Vec<_>>().into();
    } else if expected.get("html_title").is_some() {
        let title =
            answer.body.split_once("<title>").and_then(|(_, rest)| Some(rest.split_once("</title>")?.0));
        kept["html_nonempty"] = (!answer.body.is_empty()).into();
        kept["html_title"] = title.into();
    } else if answer.header("content-type") == Some("application/json") {
        kept["json"] = parsed();
    } else {
        kept["text"] = answer.body.as_str().into();
    }
    kept
}

/// Returns a frame of an event stream, of whose metadata the recording keeps the keys.
fn frame(line: &str) -> Option<Value> {
    let mut frame: Value = serde_json::from_str(line.strip_prefix("data: ")?).ok()?;
    let metadata = frame["result"].as_object_mut().and_then(|result| result.remove("metadata"));
    let mut keys: Vec<String> =
        metadata.iter().filter_map(Value::as_object).flatten().map(|(key, _)| key.clone()).collect();
    keys.sort();
    frame["result"]["metadata_keys"] = keys.into();
    Some(frame)
}
