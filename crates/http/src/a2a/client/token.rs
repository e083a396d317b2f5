//! Tokens of an authorization server, for agents whose cards name one: OAuth 2.0 by a client's own credentials (RFC 6749), by a
//! code that a person enters on another device (RFC 8628), and by a refresh token. No error and no `Debug` holds a secret.

use std::time::Duration;

use http::StatusCode;
use proto_events::json::{JsonText, JsonValue};
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{RequestBuilder, Url, redirect};
use zeroize::Zeroizing;

/// The most bytes of an answer of an authorization server.
const ANSWER_MAX: usize = 256 * 1024;

/// The longest wait for an answer of an authorization server.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// The kind of grant by which a device gets its token.
const DEVICE_GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";

/// The name of a client at an authorization server, and its secret if it has one.
#[derive(Clone)]
pub struct TokenClient {
    id: String,
    secret: Option<Zeroizing<String>>,
}

impl std::fmt::Debug for TokenClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenClient").field("id", &self.id).finish_non_exhaustive()
    }
}

impl TokenClient {
    /// Returns a client of this name, with its secret if it has one.
    pub fn new(id: &str, secret: Option<&str>) -> Self {
        Self { id: id.to_owned(), secret: secret.map(|secret| Zeroizing::new(secret.to_owned())) }
    }
}

/// A token, and how it is renewed.
#[derive(Clone)]
#[non_exhaustive]
pub struct Token {
    /// The token.
    pub access: Zeroizing<String>,
    /// The time for which it is valid, if the server says so.
    pub valid_for: Option<Duration>,
    /// The token by which a new one is asked for.
    pub refresh: Option<Zeroizing<String>>,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Token").field("valid_for", &self.valid_for).finish_non_exhaustive()
    }
}

/// A code that a person enters on another device.
#[derive(Clone)]
#[non_exhaustive]
pub struct DeviceCode {
    /// The code that the person enters.
    pub user_code: String,
    /// The address at which it is entered.
    pub address: String,
    /// The address that has the code in it already.
    pub whole_address: Option<String>,
    /// The time for which the code is valid.
    pub valid_for: Duration,
    /// The pause between two questions whether it was entered.
    pub pause: Duration,
    secret_code: Zeroizing<String>,
}

impl std::fmt::Debug for DeviceCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeviceCode").field("address", &self.address).finish_non_exhaustive()
    }
}

/// The answer to the question whether a person has entered a code.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum DeviceAnswer {
    /// Not yet.
    Pending,
    /// Not yet, and the next question is to come 5 s later than before.
    SlowDown,
    /// The person has agreed.
    Token(Token),
}

/// The reason why no token exists.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// No secret may be sent to the address.
    #[error(
        "`{0}` is no address to which a secret may be sent: it does not begin with https://, and is not this machine"
    )]
    Address(String),
    /// The server was not reached.
    #[error("the authorization server was not reached: {0}")]
    Unreachable(String),
    /// The server has refused.
    #[error("the authorization server refused: {code}{}", .about.as_ref().map_or_else(String::new, |about| format!(": {about}")))]
    Refused {
        /// The code of the error, such as `access_denied`.
        code: String,
        /// What the server said.
        about: Option<String>,
    },
    /// The answer is not one of an authorization server.
    #[error("the answer is not that of an authorization server: {0}")]
    Nonsense(String),
}

impl TokenError {
    /// Whether the server has refused with this code.
    pub fn is(&self, wanted: &str) -> bool {
        matches!(self, Self::Refused { code, .. } if code == wanted)
    }
}

/// The way to authorization servers. Redirects are not followed: a secret goes where the card says, and nowhere else.
#[derive(Debug, Clone)]
pub struct TokenServer {
    http: reqwest::Client,
}

impl TokenServer {
    /// Returns the way to authorization servers.
    ///
    /// # Errors
    /// [`TokenError::Unreachable`] if HTTP cannot be set up.
    pub fn new() -> Result<Self, TokenError> {
        let http = taskreel::http_client::client().redirect(redirect::Policy::none()).timeout(ANSWER_WITHIN);
        Ok(Self { http: http.build().map_err(|error| unreachable(&error))? })
    }

    /// Asks for a token by the client's own credentials.
    ///
    /// # Errors
    /// [`TokenError`] if no token can be had.
    pub async fn by_credentials(
        &self,
        address: &str,
        client: &TokenClient,
        scope: Option<&str>,
    ) -> Result<Token, TokenError> {
        let fields = with_scope(vec![("grant_type", "client_credentials")], scope);
        token(&self.request_token(address, client, fields).await?)
    }

    /// Asks for a new token by the token that came with an earlier one.
    ///
    /// # Errors
    /// [`TokenError`] if no token can be had.
    pub async fn by_refresh(
        &self,
        address: &str,
        client: &TokenClient,
        refresh: &str,
    ) -> Result<Token, TokenError> {
        let fields = vec![("grant_type", "refresh_token"), ("refresh_token", refresh)];
        let mut token = token(&self.request_token(address, client, fields).await?)?;
        // One that is not replaced stays in force.
        token.refresh.get_or_insert_with(|| Zeroizing::new(refresh.to_owned()));
        Ok(token)
    }

    /// Asks for a code that a person enters on another device.
    ///
    /// # Errors
    /// [`TokenError`] if no token can be had.
    pub async fn device_code(
        &self,
        address: &str,
        client: &TokenClient,
        scope: Option<&str>,
    ) -> Result<DeviceCode, TokenError> {
        let answer = self.request_token(address, client, with_scope(Vec::new(), scope)).await?;
        let text = |name: &str| answer.get(name).and_then(JsonValue::as_str).map(str::to_owned);
        let lacks = |name: &str| TokenError::Nonsense(format!("it has no `{name}`"));
        let number = |name: &str| answer.get(name).and_then(JsonValue::as_u64);
        Ok(DeviceCode {
            user_code: text("user_code").ok_or_else(|| lacks("user_code"))?,
            address: text("verification_uri")
                .or_else(|| text("verification_url"))
                .ok_or_else(|| lacks("verification_uri"))?,
            whole_address: text("verification_uri_complete"),
            valid_for: Duration::from_secs(number("expires_in").unwrap_or(600).min(86_400)),
            // RFC 8628, section 3.2.
            pause: Duration::from_secs(number("interval").unwrap_or(5).min(60)),
            secret_code: Zeroizing::new(text("device_code").ok_or_else(|| lacks("device_code"))?),
        })
    }

    /// Asks whether a person has entered a code.
    ///
    /// # Errors
    /// [`TokenError`] if the person has refused, the code is too old, or the server was not reached.
    pub async fn by_device(
        &self,
        address: &str,
        client: &TokenClient,
        code: &DeviceCode,
    ) -> Result<DeviceAnswer, TokenError> {
        let fields = vec![("grant_type", DEVICE_GRANT), ("device_code", code.secret_code.as_str())];
        match self.request_token(address, client, fields).await {
            Ok(answer) => token(&answer).map(DeviceAnswer::Token),
            Err(error) if error.is("authorization_pending") => Ok(DeviceAnswer::Pending),
            Err(error) if error.is("slow_down") => Ok(DeviceAnswer::SlowDown),
            Err(error) => Err(error),
        }
    }

    async fn request_token(
        &self,
        address: &str,
        client: &TokenClient,
        mut fields: Vec<(&str, &str)>,
    ) -> Result<JsonValue, TokenError> {
        let mut request = self.http.post(allowed(address)?).header(ACCEPT, "application/json");
        match &client.secret {
            Some(secret) => request = request.basic_auth(encoded(&client.id), Some(encoded(secret))),
            None => fields.push(("client_id", &client.id)),
        }
        let fields: Vec<_> = fields.into_iter().map(|(name, value)| (name, Some(value))).collect();
        let request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        answered(request.body(form(&fields))).await
    }
}

fn with_scope<'a>(mut fields: Vec<(&'a str, &'a str)>, scope: Option<&'a str>) -> Vec<(&'a str, &'a str)> {
    fields.extend(scope.map(|scope| ("scope", scope)));
    fields
}

/// Encodes pairs as a form; a name without a value stands alone.
fn form(fields: &[(&str, Option<&str>)]) -> String {
    // The form of a query is that of a form, and an address encodes it.
    let Ok(mut url) = Url::parse("http://localhost/") else { return String::new() };
    let mut pairs = url.query_pairs_mut();
    for (name, value) in fields {
        match value {
            Some(value) => pairs.append_pair(name, value),
            None => pairs.append_key_only(name),
        };
    }
    drop(pairs);
    url.query().unwrap_or_default().to_owned()
}

/// Encodes a name or a secret for HTTP Basic, as RFC 6749 has it (section 2.3.1).
fn encoded(text: &str) -> String {
    form(&[(text, None)])
}

/// Returns an address to which a secret may be sent: over TLS, or to this machine.
fn allowed(address: &str) -> Result<Url, TokenError> {
    let refused = || TokenError::Address(address.to_owned());
    let url = Url::parse(address).map_err(|_| refused())?;
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let is_here =
        host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    if url.scheme() == "https" || (url.scheme() == "http" && is_here) { Ok(url) } else { Err(refused()) }
}

fn unreachable(error: &reqwest::Error) -> TokenError {
    // Of the address only the host: a query may have a secret.
    TokenError::Unreachable(taskreel::http_client::with_causes(error))
}

async fn answered(request: RequestBuilder) -> Result<JsonValue, TokenError> {
    let failed = |error: reqwest::Error| unreachable(&error.without_url());
    let mut response = request.send().await.map_err(failed)?;
    let (status, mut body) = (response.status(), Vec::new());
    while let Some(piece) = response.chunk().await.map_err(failed)? {
        body.extend_from_slice(&piece);
        if body.len() > ANSWER_MAX {
            return Err(TokenError::Nonsense(format!("it has more than {ANSWER_MAX} bytes")));
        }
    }
    let json = String::from_utf8(body).ok().and_then(|text| JsonText::parse(&text).ok());
    let Some(json) = json.map(|json| json.tree()).filter(JsonValue::is_object) else {
        return Err(TokenError::Nonsense(format!("HTTP {} without a JSON object", status.as_u16())));
    };
    let text = |name: &str| json.get(name).and_then(JsonValue::as_str).map(str::to_owned);
    match text("error") {
        None if status == StatusCode::OK => Ok(json),
        None => Err(TokenError::Nonsense(format!("HTTP {} without an error", status.as_u16()))),
        Some(code) => Err(TokenError::Refused { code, about: text("error_description") }),
    }
}

fn token(answer: &JsonValue) -> Result<Token, TokenError> {
    let text = |name: &str| answer.get(name).and_then(JsonValue::as_str);
    if text("token_type").is_some_and(|kind| !kind.eq_ignore_ascii_case("bearer")) {
        return Err(TokenError::Nonsense("its token is no bearer token".to_owned()));
    }
    let access = text("access_token")
        .filter(|token| !token.is_empty() && token.chars().all(|letter| letter.is_ascii_graphic()));
    let access =
        access.ok_or_else(|| TokenError::Nonsense("it has no token that a header can hold".to_owned()))?;
    Ok(Token {
        access: Zeroizing::new(access.to_owned()),
        valid_for: answer.get("expires_in").and_then(JsonValue::as_u64).map(Duration::from_secs),
        refresh: text("refresh_token").map(|token| Zeroizing::new(token.to_owned())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_goes_over_tls_or_stays_on_this_machine() {
        for fine in
            ["https://id.example.org/token", "http://127.0.0.1:9/t", "http://[::1]/t", "http://localhost/t"]
        {
            assert!(allowed(fine).is_ok(), "{fine}");
        }
        for wrong in
            ["http://id.example.org/token", "http://localhost.example.org/", "ftp://localhost/", "token", ""]
        {
            assert!(allowed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_and_secrets_are_encoded_as_a_form() {
        assert_eq!(encoded("a b:c/\u{e9}+"), "a+b%3Ac%2F%C3%A9%2B");
        assert_eq!(form(&[("scope", Some("a b")), ("x", Some("&="))]), "scope=a+b&x=%26%3D");
    }

    #[test]
    fn what_is_no_token_is_refused_and_no_secret_is_shown() {
        let read = |text: &str| token(&JsonText::parse(text).unwrap().tree());
        let fine = read(
            r#"{"access_token": "hush", "token_type": "Bearer", "expires_in": 60, "refresh_token": "hush-2"}"#,
        );
        let fine = fine.unwrap();
        assert_eq!((fine.access.as_str(), fine.valid_for), ("hush", Some(Duration::from_secs(60))));
        assert!(!format!("{fine:?} {:?}", TokenClient::new("me", Some("hush"))).contains("hush"));
        for wrong in [
            "{}",
            r#"{"access_token": ""}"#,
            r#"{"access_token": "a b"}"#,
            r#"{"access_token": "x", "token_type": "mac"}"#,
            r#"{"access_token": 7}"#,
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
