//! `auth login` and `auth logout`: a token of the authorization server that an agent's card names, and its use by later
//! commands.

use std::time::{Duration, Instant, SystemTime};

use proto_events::json::{JsonObject, JsonText, JsonValue};
use taskreel_http::a2a::{DeviceAnswer, Token, TokenClient, TokenError, TokenServer};

use crate::a2a::agent::{FetchedCard, agent_named};
use crate::a2a::failure::{AUTH_FAILED, CREDENTIALS_MISSING, EXIT_AUTH, EXIT_TIMEOUT, Failure, TIMEOUT};
use crate::a2a::kept_tokens::{KeptToken, load_token, remove, store_token};
use crate::a2a::out::Out;
use crate::a2a::settings::Settings;
use crate::args::a2a::LoginArgs;
use crate::print::screen::note;

/// A way to a token that a card names.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Flow {
    scheme: String,
    /// The address at which a code for another device is asked for; `None` where a client shows its own credentials.
    device_url: Option<String>,
    token_url: String,
    /// The scopes that the card asks for.
    scopes: Vec<String>,
}

impl Flow {
    fn name(&self) -> &'static str {
        if self.device_url.is_some() { "device code" } else { "client credentials" }
    }
}

/// Returns the ways to a token that a card names, in the form of either version.
fn flows(card: &JsonText) -> Vec<Flow> {
    let card = card.tree();
    let schemes = card.get("securitySchemes").and_then(JsonValue::as_object);
    let mut found = Vec::new();
    for (name, scheme) in schemes.into_iter().flat_map(|all| all.iter()) {
        let is_old = scheme.get("type").and_then(JsonValue::as_str) == Some("oauth2");
        let scheme = if is_old { Some(scheme) } else { scheme.get("oauth2SecurityScheme") };
        let Some(of) = scheme.and_then(|scheme| scheme.get("flows")) else { continue };
        for kind in ["deviceCode", "clientCredentials"] {
            let Some(flow) = of.get(kind) else { continue };
            let text = |name: &str| flow.get(name).and_then(JsonValue::as_str).map(str::to_owned);
            let device_url = text("deviceAuthorizationUrl").filter(|_| kind == "deviceCode");
            let Some(token_url) = text("tokenUrl").filter(|_| device_url.is_some() == (kind == "deviceCode"))
            else {
                continue;
            };
            found.push(Flow {
                scheme: name.clone(),
                device_url,
                token_url,
                scopes: asked_scopes(&card, name),
            });
        }
    }
    found
}

/// Returns the scopes that the first requirement with a scheme asks for.
fn asked_scopes(card: &JsonValue, scheme: &str) -> Vec<String> {
    let list = |name: &str| card.get(name).and_then(JsonValue::as_array).into_iter().flatten();
    let new = list("securityRequirements").filter_map(|set| set.get("schemes")?.get(scheme)?.get("list"));
    let old = list("security").filter_map(|set| set.get(scheme));
    let scopes = new.chain(old).next().and_then(JsonValue::as_array).into_iter().flatten();
    scopes.filter_map(JsonValue::as_str).map(str::to_owned).collect()
}

fn failed(error: &TokenError) -> Failure {
    let (exit, hint) = match error {
        TokenError::Unreachable(_) => {
            (crate::a2a::failure::EXIT_UNREACHABLE, "check the address that the card names")
        }
        TokenError::Refused { .. } => (EXIT_AUTH, "check --client-id, A2ACLI_CLIENT_SECRET and --scope"),
        _ => (
            EXIT_AUTH,
            "`taskreel a2a card get --verbose` shows what the card says of its authorization server",
        ),
    };
    Failure::new(AUTH_FAILED, exit, error.to_string(), hint)
}

/// Chooses the way to a token.
fn chosen(flows: &[Flow], args: &LoginArgs, has_secret: bool) -> Result<Flow, Failure> {
    let of = |is_device: bool| flows.iter().find(|flow| flow.device_url.is_some() == is_device);
    let chosen = if args.device {
        of(true)
    } else if args.client_credentials {
        of(false)
    } else if has_secret {
        of(false).or_else(|| of(true))
    } else {
        of(true).or_else(|| of(false))
    };
    chosen.cloned().ok_or_else(|| {
        let message = "the agent's card names no authorization server of OAuth 2 that gives a token by a device code or to a \
                       client's own credentials";
        let hint = "`taskreel a2a card get` shows the schemes; a token from elsewhere goes into A2ACLI_BEARER";
        Failure::new(AUTH_FAILED, EXIT_AUTH, message, hint)
    })
}

/// Gets a token for an agent, and keeps it.
///
/// # Errors
/// [`Failure`] if the card names no flow that this program knows, or no token comes.
pub(crate) async fn login(
    args: &LoginArgs,
    found: &FetchedCard,
    settings: &Settings,
    out: &mut Out,
) -> Result<(), Failure> {
    let secret = settings.text("client-secret");
    let flow = chosen(&flows(&found.json), args, secret.is_some())?;
    let Some(id) = settings.text("client-id") else {
        let message = "the name of this client at the authorization server is missing";
        let hint = "give --client-id or A2ACLI_CLIENT_ID: whoever runs the server knows it";
        return Err(Failure::new(CREDENTIALS_MISSING, EXIT_AUTH, message, hint));
    };
    let scopes = if args.scope.is_empty() { flow.scopes.join(" ") } else { args.scope.join(" ") };
    let scope = Some(scopes.as_str()).filter(|scope| !scope.is_empty());
    let client = TokenClient::new(id, secret);
    let server = TokenServer::new().map_err(|error| failed(&error))?;
    let token = match &flow.device_url {
        Some(device_url) => {
            by_device(&server, (device_url, &flow.token_url), &client, scope, settings).await?
        }
        None if secret.is_none() => {
            let message = "the secret of this client is missing";
            let hint = "put it into A2ACLI_CLIENT_SECRET, for example in a file with mode 0600 for --config";
            return Err(Failure::new(CREDENTIALS_MISSING, EXIT_AUTH, message, hint));
        }
        None => {
            let asked = server.by_credentials(&flow.token_url, &client, scope).await;
            asked.map_err(|error| failed(&error))?
        }
    };
    let agent = agent_named(settings)?;
    let token = kept_of(&agent, token, &flow.token_url, id);
    store_token(&token)?;
    print(&token, &flow, out)
}

/// Shows the code that a person enters on another device, and waits until that was done.
async fn by_device(
    server: &TokenServer,
    (device_url, token_url): (&str, &str),
    client: &TokenClient,
    scope: Option<&str>,
    settings: &Settings,
) -> Result<Token, Failure> {
    let code = server.device_code(device_url, client, scope).await.map_err(|error| failed(&error))?;
    let at = code.whole_address.as_ref().map_or_else(String::new, |whole| format!(" (or open {whole})"));
    note(&format!("open {} and enter the code {}{at}", code.address, code.user_code));
    let within = if settings.is_set("timeout") {
        settings.time("timeout").min(code.valid_for)
    } else {
        code.valid_for
    };
    let (began, mut pause) = (Instant::now(), code.pause);
    while began.elapsed() < within {
        tokio::time::sleep(pause.min(within.saturating_sub(began.elapsed()))).await;
        match server.by_device(token_url, client, &code).await {
            Ok(DeviceAnswer::Token(token)) => return Ok(token),
            Ok(DeviceAnswer::SlowDown) => pause += Duration::from_secs(5),
            Ok(_) => {}
            // RFC 8628, section 3.5: a server that does not answer is asked less often.
            Err(TokenError::Unreachable(_)) => pause = (pause * 2).min(Duration::from_secs(60)),
            Err(error) => return Err(failed(&error)),
        }
    }
    let hint = "run the same command again: it gets another code";
    Err(Failure::new(TIMEOUT, EXIT_TIMEOUT, "the code was not entered in time", hint))
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

fn kept_of(agent: &str, token: Token, token_url: &str, client_id: &str) -> KeptToken {
    let seconds = |valid_for: Duration| i64::try_from(valid_for.as_secs()).unwrap_or(i64::MAX);
    KeptToken {
        agent: agent.to_owned(),
        access: token.access.to_string(),
        ends: token.valid_for.map(|valid_for| now().saturating_add(seconds(valid_for))),
        refresh: token.refresh.map(|refresh| refresh.to_string()),
        token_url: token_url.to_owned(),
        client_id: client_id.to_owned(),
    }
}

fn time(second: i64) -> Option<String> {
    jiff::Timestamp::from_second(second).ok().map(|at| at.to_string())
}

fn print(token: &KeptToken, flow: &Flow, out: &mut Out) -> Result<(), Failure> {
    let ends = token.ends.and_then(time);
    if out.json {
        let mut fields = JsonObject::new();
        fields.set("schema", JsonText::string("taskreel.a2a-login/1"));
        fields.set("agent", JsonText::string(&token.agent));
        fields.set("scheme", JsonText::string(&flow.scheme));
        fields.set("flow", JsonText::string(flow.name()));
        fields.set("expires_at", ends.as_deref().map_or_else(JsonText::null, JsonText::string));
        fields.set("renewable", JsonText::of_model(&token.refresh.is_some()));
        return Ok(out.value(&fields.to_text())?);
    }
    out.field("Agent", &token.agent)?;
    out.field("Scheme", &flow.scheme)?;
    out.field("Flow", flow.name())?;
    out.field("Ends", ends.as_deref().unwrap_or("(the server does not say)"))?;
    out.field("Renewed", if token.refresh.is_some() { "by itself" } else { "by `auth login`" })?;
    Ok(out.flush()?)
}

/// Forgets the token of an agent.
///
/// # Errors
/// [`Failure`] if no agent is named, or the token cannot be removed.
pub(crate) fn logout(settings: &Settings, out: &mut Out) -> Result<(), Failure> {
    let agent = agent_named(settings)?;
    let was_there = remove(&agent)?;
    if out.json {
        let mut fields = JsonObject::new();
        fields.set("schema", JsonText::string("taskreel.a2a-logout/1"));
        fields.set("agent", JsonText::string(&agent));
        fields.set("removed", JsonText::of_model(&was_there));
        return Ok(out.value(&fields.to_text())?);
    }
    out.field("Agent", &agent)?;
    out.field("Token", if was_there { "removed" } else { "there was none" })?;
    Ok(out.flush()?)
}

/// Returns the settings with the kept token of the agent, where no other is given. One that has ended is renewed, or left out
/// with a note.
///
/// # Errors
/// [`Failure`] if the kept token cannot be read or kept.
pub(crate) async fn with_kept_token(settings: &Settings) -> Result<Settings, Failure> {
    if settings.is_set("bearer") || settings.text("agent-card").is_none() {
        return Ok(settings.clone());
    }
    let agent = agent_named(settings)?;
    let Some(mut token) = load_token(&agent)? else { return Ok(settings.clone()) };
    if token.has_ended(now()) {
        let Some(refresh) = &token.refresh else {
            note("note: the token of `auth login` has ended; `taskreel a2a auth login` brings another one");
            return Ok(settings.clone());
        };
        let client = TokenClient::new(&token.client_id, settings.text("client-secret"));
        let server = TokenServer::new().map_err(|error| failed(&error))?;
        match server.by_refresh(&token.token_url, &client, refresh).await {
            Ok(renewed) => {
                token = kept_of(&agent, renewed, &token.token_url, &token.client_id);
                store_token(&token)?;
            }
            Err(error) => {
                note(&format!("note: the token of `auth login` has ended and could not be renewed: {error}"));
                return Ok(settings.clone());
            }
        }
    }
    Ok(settings.with_login(token.access))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flows_of_a_card_are_read_in_the_form_of_either_version() {
        let flow = r#"{"deviceCode": {"deviceAuthorizationUrl": "d", "tokenUrl": "t", "scopes": {}}, "clientCredentials": {"tokenUrl": "c"}}"#;
        let new = format!(
            r#"{{"securitySchemes": {{"o": {{"oauth2SecurityScheme": {{"flows": {flow}}}}}, "b": {{"httpAuthSecurityScheme": {{}}}}}},
                "securityRequirements": [{{"schemes": {{"o": {{"list": ["read", "run"]}}}}}}]}}"#
        );
        let old = format!(
            r#"{{"securitySchemes": {{"o": {{"type": "oauth2", "flows": {flow}}}}}, "security": [{{"o": ["read", "run"]}}]}}"#
        );
        for card in [new, old] {
            let found = flows(&JsonText::parse(&card).unwrap());
            let shown: Vec<_> = found.iter().map(|flow| (flow.name(), flow.token_url.as_str())).collect();
            assert_eq!(shown, [("device code", "t"), ("client credentials", "c")]);
            assert_eq!(found[0].scopes, ["read", "run"]);
        }
        for none in [
            "{}",
            r#"{"securitySchemes": {"o": {"type": "oauth2", "flows": {"deviceCode": {"tokenUrl": "t"}}}}}"#,
        ] {
            assert!(flows(&JsonText::parse(none).unwrap()).is_empty());
        }
    }
}
