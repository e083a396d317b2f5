//! The checks that change nothing at the agent.

use proto_events::id::Mint as _;
use proto_events::json::{JsonObject, JsonText, JsonValue};
use taskreel::Ports;
use taskreel_http::a2a::{A2aError, Binding, Client, ErrorKind, ErrorReply, ListQuery, ProbeAnswer, Version};

use crate::a2a::check::card::{is_json, media_type};
use crate::a2a::check::checked_interface::CheckedInterface;
use crate::a2a::check::table::Table;
use crate::a2a::failure::Failure;

/// A version that no agent speaks.
const NO_VERSION: &str = "99.0";

/// Checks an interface. Returns whether it answers at all.
///
/// # Errors
/// [`Failure`] if the results cannot be written.
pub(crate) async fn checked(checked: &CheckedInterface<'_>, table: &mut Table<'_>) -> Result<bool, Failure> {
    let (at, unknown) = (checked.name.as_str(), Ports::default().uuid());
    let got = checked.client.get(&unknown, None).await;
    if let Err(error @ A2aError::Transport(_)) = &got {
        table.fail("reachable", at, error.to_string())?;
        return Ok(false);
    }
    table.pass("reachable", at, &checked.interface.url)?;
    refused(table, "unknown-task", at, got.as_ref().err(), ErrorKind::TaskNotFound)?;
    if checked.interface.version == Version::V1
        && let Some(A2aError::Refused { reply, .. }) = got.as_ref().err()
    {
        table.unless("error-shape", at, "a typed error of the binding", shape_fault(checked, reply))?;
    }
    let canceled = checked.client.cancel(&unknown).await;
    refused(table, "cancel-unknown", at, canceled.as_ref().err(), ErrorKind::TaskNotFound)?;
    // Servers of 0.3 begin a stream before they look for the task: the refusal is its first event then.
    let followed = match checked.client.subscribe(&unknown).await {
        Ok(mut events) => events.next().await.transpose(),
        Err(error) => Err(error),
    };
    let is_old = checked.interface.version == Version::V03;
    let wanted =
        if checked.card.streaming { ErrorKind::TaskNotFound } else { ErrorKind::UnsupportedOperation };
    match &followed {
        Ok(_) if is_old => table.warn("subscribe-unknown", at, "it is followed though it does not exist")?,
        Ok(_) => table.fail("subscribe-unknown", at, "it is followed though it does not exist")?,
        Err(error) => refused(table, "subscribe-unknown", at, Some(error), wanted)?,
    }
    versions(checked, &unknown, table).await?;
    if checked.interface.version == Version::V1 {
        raw(checked, &unknown, table).await?;
        listed(checked, table).await?;
    }
    Ok(true)
}

/// Notes whether a question was refused with this error.
pub(crate) fn refused(
    table: &mut Table<'_>,
    name: &str,
    at: &str,
    error: Option<&A2aError>,
    wanted: ErrorKind,
) -> Result<(), Failure> {
    let fault = match error {
        Some(error) if error.kind() == Some(wanted) => None,
        Some(error) => Some(format!("not {wanted:?}: {error}")),
        None => Some(format!("it is answered, not refused as {wanted:?}")),
    };
    table.unless(name, at, &format!("{wanted:?}"), fault)
}

/// Returns what is wrong with the form of the error about a task that does not exist.
fn shape_fault(checked: &CheckedInterface<'_>, reply: &ErrorReply) -> Option<String> {
    let mut faults = Vec::new();
    match checked.interface.binding {
        Binding::JsonRpc => {
            if reply.status != 200 {
                faults.push(format!("HTTP {}, not 200", reply.status));
            }
            if reply.code != Some(-32001) {
                faults.push(format!("the code is {:?}, not -32001", reply.code));
            }
        }
        _ => {
            if reply.status != 404 {
                faults.push(format!("HTTP {}, not 404", reply.status));
            }
        }
    }
    if reply.reason.as_deref() != Some("TASK_NOT_FOUND") {
        faults.push("no detail has the reason TASK_NOT_FOUND".to_owned());
    }
    (!faults.is_empty()).then(|| faults.join("; "))
}

/// Checks the answers to a wrong version, and to none.
async fn versions(
    checked: &CheckedInterface<'_>,
    unknown: &str,
    table: &mut Table<'_>,
) -> Result<(), Failure> {
    let at = checked.name.as_str();
    let made = checked.options.clone().signaled_version(NO_VERSION);
    let client = made.and_then(|options| Client::at(checked.interface.clone(), &options));
    let got = match client {
        Ok(client) => client.get(unknown, None).await.map(drop),
        Err(error) => Err(error),
    };
    match checked.interface.version {
        Version::V1 => {
            refused(table, "wrong-version", at, got.as_ref().err(), ErrorKind::VersionNotSupported)
        }
        // 0.3 knows no header of a version.
        Version::V03 => Ok(()),
    }
}

/// A request that is made here by the binding's rules: a method of JSON-RPC, or the path of REST, and its parameters.
async fn request(
    checked: &CheckedInterface<'_>,
    (method, path): (&str, &str),
    params: &[(&str, JsonText)],
) -> Result<ProbeAnswer, A2aError> {
    let version = [("a2a-version", checked.interface.version.number())];
    let url = checked.interface.url.as_str();
    if checked.interface.binding == Binding::JsonRpc {
        let mut given: JsonObject =
            params.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        if let Some(tenant) = &checked.interface.tenant {
            given.set("tenant", JsonText::string(tenant));
        }
        let mut body = JsonObject::new();
        body.set("jsonrpc", JsonText::string("2.0"));
        body.set("id", JsonText::string("check"));
        body.set("method", JsonText::string(method));
        body.set("params", given.to_text());
        return checked.probe.ask("POST", url, &[], &version, Some(body.to_text())).await;
    }
    let tenant = checked.interface.tenant.as_ref().map(|tenant| format!("/{tenant}")).unwrap_or_default();
    // What the path names is not a parameter.
    let named = params.iter().filter(|(name, _)| *name != "taskId");
    let query: Vec<(&str, String)> =
        named.map(|(name, value)| (*name, value.to_str().unwrap_or_else(|| value.to_string()))).collect();
    let query: Vec<(&str, &str)> = query.iter().map(|(name, value)| (*name, value.as_str())).collect();
    checked
        .probe
        .ask("GET", &format!("{}{tenant}{path}", url.trim_end_matches('/')), &query, &version, None)
        .await
}

/// Returns the code of an error over JSON-RPC, or the status over REST.
fn code(answer: &ProbeAnswer) -> i64 {
    let of_body = || {
        let body: JsonObject = answer.json()?.read().ok()?;
        body.get("error")?.read::<JsonObject>().ok()?.get("code")?.read().ok()
    };
    of_body().unwrap_or_else(|| i64::from(answer.status))
}

/// Checks answers to what no client would send, media types, and whether the capabilities are true.
async fn raw(checked: &CheckedInterface<'_>, unknown: &str, table: &mut Table<'_>) -> Result<(), Failure> {
    let at = checked.name.as_str();
    let is_rpc = checked.interface.binding == Binding::JsonRpc;
    match request(checked, ("NoSuchMethod", "/no-such-path"), &[]).await {
        Err(error) => table.fail("unknown-method", at, error.to_string())?,
        Ok(answer) => {
            let (wanted, or) = if is_rpc { (-32601, -32601) } else { (404, 405) };
            let found = code(&answer);
            let fault = (found != wanted && found != or).then(|| format!("{found}, not {wanted}"));
            table.unless("unknown-method", at, &found.to_string(), fault)?;
            if is_rpc {
                let kind = answer.header("content-type").map(media_type).unwrap_or_default();
                let fault = (!is_json(&kind)).then(|| format!("an answer is {kind}, not application/json"));
                table.unless("media-type", at, &kind, fault)?;
            }
        }
    }
    let token = [("pageToken", JsonText::string("no such token"))];
    match request(checked, ("ListTasks", "/tasks"), &token).await {
        Err(error) => table.fail("wrong-parameter", at, error.to_string())?,
        Ok(answer) => {
            let (wanted, found) = (if is_rpc { -32602 } else { 400 }, code(&answer));
            let detail = format!("a page token that is none: {found}");
            if found == wanted {
                table.pass("wrong-parameter", at, detail)?;
            } else {
                table.warn("wrong-parameter", at, format!("{detail}, not {wanted}"))?;
            }
        }
    }
    push(checked, unknown, table).await?;
    extended(checked, table).await
}

/// Checks whether what the card says of webhooks is true, by asking for the webhooks of a task that does not exist.
async fn push(checked: &CheckedInterface<'_>, unknown: &str, table: &mut Table<'_>) -> Result<(), Failure> {
    let at = checked.name.as_str();
    let says = declares(checked, "pushNotifications");
    let params = [("taskId", JsonText::string(unknown))];
    let path = format!("/tasks/{unknown}/pushNotificationConfigs");
    let answer = match request(checked, ("ListTaskPushNotificationConfigs", &path), &params).await {
        Err(error) => return table.fail("push", at, error.to_string()),
        Ok(answer) => answer,
    };
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    let is_unsupported = text.contains("PUSH_NOTIFICATION_NOT_SUPPORTED") || code(&answer) == -32003;
    let found = code(&answer);
    match (says, is_unsupported) {
        (false, true) => table.pass("push", at, "not offered, and refused"),
        (true, false) => table.pass("push", at, format!("offered, and answered ({found})")),
        (true, true) => table.fail("push", at, "the card offers webhooks, and the agent refuses them"),
        (false, false) => {
            table.fail("push", at, format!("the card offers no webhooks, and a question about them is answered {found}, not as PushNotificationNotSupported"))
        }
    }
}

fn declares(checked: &CheckedInterface<'_>, capability: &str) -> bool {
    let tree = checked.card.json.tree();
    tree.pointer(&format!("/capabilities/{capability}")).is_some_and(|value| *value == JsonValue::Bool(true))
}

/// Checks whether what the card says of an extended card is true.
async fn extended(checked: &CheckedInterface<'_>, table: &mut Table<'_>) -> Result<(), Failure> {
    let at = checked.name.as_str();
    let (says, got) = (declares(checked, "extendedAgentCard"), checked.client.extended_card().await);
    let kind = got.as_ref().err().and_then(A2aError::kind);
    match (says, &got, kind) {
        (true, Ok(card), _) => table.pass("extended-card", at, format!("offered: {}", card.name)),
        (true, _, Some(ErrorKind::Unauthenticated | ErrorKind::Forbidden)) => {
            table.pass("extended-card", at, "offered, and asks for a credential")
        }
        (true, _, Some(ErrorKind::ExtendedAgentCardNotConfigured)) => {
            table.warn("extended-card", at, "offered, and not configured")
        }
        (true, Err(error), _) => table.fail("extended-card", at, format!("offered, and not given: {error}")),
        (false, Ok(_), _) => table.fail("extended-card", at, "not offered, and given"),
        (false, _, Some(ErrorKind::UnsupportedOperation | ErrorKind::ExtendedAgentCardNotConfigured)) => {
            table.pass("extended-card", at, "not offered, and refused")
        }
        (false, Err(error), _) => table.warn(
            "extended-card",
            at,
            format!("not offered, and refused otherwise than as UnsupportedOperation: {error}"),
        ),
    }
}

/// Checks the list of tasks.
async fn listed(checked: &CheckedInterface<'_>, table: &mut Table<'_>) -> Result<(), Failure> {
    let at = checked.name.as_str();
    let page = checked.client.list(&ListQuery::new().page_size(1)).await;
    match &page {
        Err(error) if error.kind() == Some(ErrorKind::UnsupportedOperation) => {
            return table.warn("list", at, "the agent lists no tasks");
        }
        Err(error) => return table.fail("list", at, error.to_string()),
        Ok(page) if page.tasks.len() > 1 => {
            return table.fail("list", at, format!("{} tasks where one was asked for", page.tasks.len()));
        }
        Ok(_) => {}
    }
    let answer =
        match request(checked, ("ListTasks", "/tasks"), &[("pageSize", JsonText::of_model(&1))]).await {
            Err(error) => return table.fail("list", at, error.to_string()),
            Ok(answer) => answer,
        };
    let kind = answer.header("content-type").map(media_type).unwrap_or_default();
    if checked.interface.binding != Binding::JsonRpc {
        let fault = (!is_json(&kind))
            .then(|| format!("an answer is {kind}, not application/a2a+json or application/json"));
        table.unless("media-type", at, &kind, fault)?;
    }
    let body: JsonObject = answer.json().and_then(|json| json.read().ok()).unwrap_or_default();
    let inner = body.get("result").and_then(|result| result.read().ok());
    let page: JsonObject =
        if checked.interface.binding == Binding::JsonRpc { inner.unwrap_or_default() } else { body };
    let missing: Vec<&str> = ["tasks", "nextPageToken", "pageSize", "totalSize"]
        .into_iter()
        .filter(|name| page.get(name).is_none())
        .collect();
    let fault = (!missing.is_empty()).then(|| format!("a page lacks {}", missing.join(", ")));
    table.unless("list", at, "a page with all its members", fault)
}
