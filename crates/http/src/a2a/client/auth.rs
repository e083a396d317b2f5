//! The credentials that an agent's card asks for: which of its schemes can be met by the secrets that were named, and what each
//! request then shows. A secret is read when a client is made; no error and no `Debug` holds one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderName, HeaderValue};
use proto_events::json::{JsonObject, JsonText};
use zeroize::Zeroizing;

use crate::a2a::client::error::A2aError;
use crate::a2a::wire::fields::WireFields;
use crate::limits::SECRET_MAX;

/// The most schemes and requirements of a card that are read.
const SCHEMES_MAX: usize = 64;

/// The place of a secret: a variable of the environment, or a file that only its owner may read. For the scheme Basic it is
/// `name:password`, for all others the token or the key itself.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SecretSource {
    /// The variable of this name.
    Env(String),
    /// The file at this path, of mode 0600 or less.
    File(PathBuf),
}

impl std::fmt::Display for SecretSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Env(name) => write!(f, "the variable {name}"),
            Self::File(path) => write!(f, "the file {}", path.display()),
        }
    }
}

impl SecretSource {
    /// Returns the secret.
    fn read(&self) -> Result<Zeroizing<String>, String> {
        let text = match self {
            Self::Env(name) => Zeroizing::new(std::env::var(name).map_err(|_| "it is not set".to_owned())?),
            Self::File(path) => read_file(path)?,
        };
        let text = Zeroizing::new(text.trim().to_owned());
        match text.len() {
            0 => Err("it is empty".to_owned()),
            1..=SECRET_MAX => Ok(text),
            _ => Err(format!("it has more than {SECRET_MAX} bytes")),
        }
    }
}

fn read_file(path: &Path) -> Result<Zeroizing<String>, String> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let about =
            std::fs::metadata(path).map_err(|error| format!("it cannot be read ({})", error.kind()))?;
        if about.permissions().mode() & 0o077 != 0 {
            return Err("others than its owner may use it; set its mode to 0600".to_owned());
        }
    }
    let bytes = std::fs::read(path).map_err(|error| format!("it cannot be read ({})", error.kind()))?;
    String::from_utf8(bytes).map(Zeroizing::new).map_err(|_| "it is no text".to_owned())
}

/// The places of the secrets, by the names of the card's schemes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Secrets {
    pub(crate) named: BTreeMap<String, SecretSource>,
    /// The beginning of the variables of all other schemes.
    pub(crate) prefix: Option<String>,
}

impl Secrets {
    pub(crate) fn is_empty(&self) -> bool {
        self.named.is_empty() && self.prefix.is_none()
    }

    /// Returns the place of a scheme's secret.
    fn secret_for(&self, scheme: &str) -> Option<SecretSource> {
        let in_env = || Some(SecretSource::Env(variable(self.prefix.as_ref()?, scheme)));
        self.named.get(scheme).cloned().or_else(in_env)
    }
}

/// Returns the name of a scheme's variable.
fn variable(prefix: &str, scheme: &str) -> String {
    let plain = |letter: char| {
        if letter.is_ascii_alphanumeric() { letter.to_ascii_uppercase() } else { '_' }
    };
    format!("{prefix}_{}", scheme.chars().map(plain).collect::<String>())
}

/// The credentials that each request shows.
#[derive(Clone, Default)]
pub(crate) struct ShownCredentials {
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) query: Vec<(String, String)>,
}

impl std::fmt::Debug for ShownCredentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShownCredentials")
            .field("headers", &self.headers.len())
            .field("query", &self.query.len())
            .finish()
    }
}

impl ShownCredentials {
    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.headers.is_empty() && self.query.is_empty()
    }

    fn header(&mut self, name: &str, value: &str) -> Result<(), String> {
        let name = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| "the card names a header that is none".to_owned())?;
        let mut value = HeaderValue::from_str(value)
            .map_err(|_| "it holds characters that cannot stand in a header".to_owned())?;
        value.set_sensitive(true);
        self.headers.push((name, value));
        Ok(())
    }
}

/// A way of showing a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
enum SecretScheme {
    /// `Authorization: Bearer`: a bearer token, also one of OAuth 2.0 or `OpenID` Connect.
    Bearer(&'static str),
    Basic,
    Key {
        place: SecretPlace,
        name: String,
    },
    /// A scheme that this client does not know, with its name in the card.
    Other(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SecretPlace {
    Header,
    Query,
    Cookie,
}

impl std::fmt::Display for SecretScheme {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bearer(what) => f.write_str(what),
            Self::Basic => f.write_str("Basic, `name:password`"),
            Self::Key { place: SecretPlace::Header, name } => write!(f, "API key in the header {name}"),
            Self::Key { place: SecretPlace::Query, name } => write!(f, "API key in the query as {name}"),
            Self::Key { place: SecretPlace::Cookie, name } => write!(f, "API key in the cookie {name}"),
            Self::Other(name) => write!(f, "{name}, which this client cannot meet"),
        }
    }
}

impl SecretScheme {
    /// Reads a scheme in the form of either version.
    fn read(json: &JsonText) -> Self {
        let inner =
            |name: &str| -> Option<JsonObject> { json.read::<JsonObject>().ok()?.get(name)?.read().ok() };
        let text = |fields: &JsonObject, name: &str| fields.get(name).and_then(JsonText::to_str);
        let of_http = |fields: &JsonObject| match text(fields, "scheme") {
            Some(scheme) if scheme.eq_ignore_ascii_case("bearer") => Self::Bearer("bearer token"),
            Some(scheme) if scheme.eq_ignore_ascii_case("basic") => Self::Basic,
            other => Self::Other(format!("HTTP {}", short(&other.unwrap_or_default()))),
        };
        let of_key = |fields: &JsonObject, place: &str| {
            let place = match text(fields, place).as_deref() {
                Some("query") => SecretPlace::Query,
                Some("cookie") => SecretPlace::Cookie,
                Some("header") => SecretPlace::Header,
                _ => return Self::Other("API key at no known place".to_owned()),
            };
            match text(fields, "name").filter(|name| !name.is_empty()) {
                Some(name) => Self::Key { place, name: short(&name) },
                None => Self::Other("API key without a name".to_owned()),
            }
        };
        let of_1 = || {
            let http = inner("httpAuthSecurityScheme").map(|fields| of_http(&fields));
            let key = || inner("apiKeySecurityScheme").map(|fields| of_key(&fields, "location"));
            let oauth = || inner("oauth2SecurityScheme").map(|_| Self::Bearer("token of OAuth 2.0"));
            let oidc =
                || inner("openIdConnectSecurityScheme").map(|_| Self::Bearer("token of OpenID Connect"));
            let tls = || inner("mtlsSecurityScheme").map(|_| Self::Other("mutual TLS".to_owned()));
            http.or_else(key).or_else(oauth).or_else(oidc).or_else(tls)
        };
        let fields: JsonObject = json.read().unwrap_or_default();
        of_1().unwrap_or_else(|| match text(&fields, "type").as_deref() {
            Some("http") => of_http(&fields),
            Some("apiKey") => of_key(&fields, "in"),
            Some("oauth2") => Self::Bearer("token of OAuth 2.0"),
            Some("openIdConnect") => Self::Bearer("token of OpenID Connect"),
            Some("mutualTLS") => Self::Other("mutual TLS".to_owned()),
            other => Self::Other(format!("the scheme {}", short(other.unwrap_or("without a type")))),
        })
    }

    /// Adds the secret to what requests show.
    fn show(&self, secret: &str, shown: &mut ShownCredentials) -> Result<(), String> {
        match self {
            Self::Bearer(_) => shown.header("authorization", &Zeroizing::new(format!("Bearer {secret}"))),
            Self::Basic if !secret.contains(':') => Err("it is not of the form `name:password`".to_owned()),
            Self::Basic => {
                let pair = Zeroizing::new(STANDARD.encode(secret));
                shown.header("authorization", &Zeroizing::new(format!("Basic {}", *pair)))
            }
            Self::Key { place: SecretPlace::Header, name } => shown.header(name, secret),
            Self::Key { place: SecretPlace::Cookie, name } => {
                if secret.contains([';', ',', ' ']) || name.contains([';', ',', ' ', '=']) {
                    return Err("it cannot stand in a cookie".to_owned());
                }
                shown.header("cookie", &Zeroizing::new(format!("{name}={secret}")))
            }
            Self::Key { place: SecretPlace::Query, name } => {
                shown.query.push((name.clone(), secret.to_owned()));
                Ok(())
            }
            Self::Other(_) => Err("it cannot be met".to_owned()),
        }
    }
}

fn short(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(80).collect()
}

/// Returns the alternatives of a card: the schemes that are needed together. None at all means that nothing is asked for.
fn requirements(card: &JsonText) -> Vec<Vec<String>> {
    let Ok(fields) = WireFields::new(card, "card") else { return Vec::new() };
    let names = |json: &JsonText| -> Vec<String> {
        let one: JsonObject = json.read().unwrap_or_default();
        let schemes: Option<JsonObject> = one.get("schemes").and_then(|schemes| schemes.read().ok());
        schemes.unwrap_or(one).iter().map(|(name, _)| name.to_owned()).take(SCHEMES_MAX).collect()
    };
    let list = |name: &str| fields.list(name).unwrap_or_default();
    let mut all = list("securityRequirements");
    if all.is_empty() {
        all = list("security");
    }
    all.iter().take(SCHEMES_MAX).map(names).collect()
}

/// Returns what requests to the agent of a card show: of the card's alternatives the first one of which all secrets are
/// known.
///
/// # Errors
/// [`A2aError::Credentials`], which says what the card asks for and where each secret would be looked for.
pub(crate) fn shown(
    card: &JsonText,
    card_url: &str,
    secrets: &Secrets,
) -> Result<ShownCredentials, A2aError> {
    let alternatives = requirements(card);
    if alternatives.is_empty() || alternatives.iter().any(Vec::is_empty) && secrets.is_empty() {
        return Ok(ShownCredentials::default());
    }
    let fields: JsonObject = card.read().unwrap_or_default();
    let known: JsonObject =
        fields.get("securitySchemes").and_then(|known| known.read().ok()).unwrap_or_default();
    let mut missing = Vec::new();
    for names in &alternatives {
        match together(names, &known, secrets) {
            Ok(shown) => return Ok(shown),
            Err(why) => missing.push(why),
        }
    }
    let why = missing.join("; or ");
    Err(A2aError::Credentials { url: card_url.to_owned(), why })
}

/// Returns what shows the secrets of schemes that are needed together.
fn together(names: &[String], known: &JsonObject, secrets: &Secrets) -> Result<ShownCredentials, String> {
    let mut shown = ShownCredentials::default();
    for name in names {
        let called = short(name);
        let scheme = known.get(name).map_or_else(
            || SecretScheme::Other("a scheme that the card does not describe".to_owned()),
            SecretScheme::read,
        );
        let place = secrets.secret_for(name);
        let wanted = format!("`{called}` ({scheme})");
        let Some(place) = place else {
            return Err(format!("{wanted}, for which no variable and no file was named"));
        };
        let secret = place.read().map_err(|why| format!("{wanted}, from {place}: {why}"))?;
        scheme.show(&secret, &mut shown).map_err(|why| format!("{wanted}, from {place}: {why}"))?;
    }
    Ok(shown)
}

#[cfg(test)]
#[path = "auth/tests.rs"]
mod tests;
