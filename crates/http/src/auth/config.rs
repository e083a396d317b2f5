//! The file with credentials, issuers, hosts, origins and bounds.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jsonwebtoken::Algorithm;
use serde::Deserialize;

use crate::auth::access::{Access, AccessError, Credential};
use crate::auth::caller::{Scope, Scopes};
use crate::auth::jwks::{Keys, read_keys, takes_secret};
#[cfg(feature = "client")]
use crate::auth::jwks_fetch::{KeySource, KeyTimes};
use crate::auth::secret::{Secret, SecretDigest};
use crate::auth::signed_tokens::Issuer;
use crate::limits::LEEWAY_SECONDS;

/// The format of the file that [`Access::with_file`] reads.
pub const FORMAT: &str = r#"A JSON object; every member may be left out. Secrets stand in files or in the environment, never in this file:
{
  "credentials": [                       tokens, keys and passwords
    {"name": "ada",                      the principal in the log's records
     "scopes": ["read", "run"],          of read, run, control
     "secret_file": "ada.token",         or "secret_env": "ADA_TOKEN", or "sha256": 64 hexadecimal digits
     "user": "ada"}                      only for HTTP Basic: the secret is its password
  ],
  "issuers": [                           signed tokens (JWT)
    {"algorithms": ["RS256"],            HS256/384/512, or RS, PS 256/384/512, ES256/384, EdDSA
     "jwks_file": "keys.json",           or "jwks_url": "https://…"; for HS: "secret_file" or "secret_env"
     "jwks_fresh_seconds": 600,          the keys of an address are read again after this time,
     "jwks_again_seconds": 30,           and at most this often for tokens whose key is not known,
     "jwks_timeout_seconds": 10,         each time within this time
     "issuer": "https://id.example.org", compared with `iss`
     "audience": ["taskreel"],           one of them must be in `aud`
     "leeway_seconds": 60,
     "require_exp": true,                whether a token must say when it ends
     "principal_claim": "sub",           the claim with the principal's name
     "prefix": "",                       put before that name
     "scope_claim": "scope",             words, also as `taskreel:run`; a token without it has all of "scopes"
     "scopes": ["read", "run"]}          the most that a token of this issuer may do
  ],
  "allow_hosts": ["desk.example.org"],
  "allow_origins": ["https://desk.example.org"],
  "limits": {"requests_per_second": 50, "burst": 100, "requests_at_once": 256, "streams_at_once": 64,
             "request_seconds": 900}
}
Paths are relative to this file. Scopes: read sees tasks and events; run sends tasks and cancels its own; control
approves, reconciles, resets, compacts and cancels any. Limits are for each principal."#;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
#[derive(Default)]
struct ConfigFile {
    credentials: Vec<CredentialEntry>,
    issuers: Vec<IssuerEntry>,
    allow_hosts: Vec<String>,
    allow_origins: Vec<String>,
    limits: Limits,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CredentialEntry {
    name: String,
    scopes: Vec<String>,
    user: Option<String>,
    secret_file: Option<PathBuf>,
    secret_env: Option<String>,
    sha256: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct IssuerEntry {
    algorithms: Vec<String>,
    secret_file: Option<PathBuf>,
    secret_env: Option<String>,
    jwks_file: Option<PathBuf>,
    jwks_url: Option<String>,
    jwks_fresh_seconds: Option<u32>,
    jwks_again_seconds: Option<u32>,
    jwks_timeout_seconds: Option<u32>,
    issuer: Option<String>,
    #[serde(default)]
    audience: Vec<String>,
    leeway_seconds: Option<u64>,
    require_exp: Option<bool>,
    principal_claim: Option<String>,
    #[serde(default)]
    prefix: String,
    scope_claim: Option<String>,
    scopes: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Limits {
    requests_per_second: Option<u32>,
    burst: Option<u32>,
    requests_at_once: Option<usize>,
    streams_at_once: Option<usize>,
    request_seconds: Option<u64>,
}

impl Access {
    /// Adds the rules of a file, in the format of [`crate::AUTH_FILE_FORMAT`].
    ///
    /// # Errors
    /// [`AccessError`] if the file, or a file or a variable that it names, cannot be used.
    pub fn with_file(self, path: &Path) -> Result<Self, AccessError> {
        with_file(self, path)
    }
}

/// Adds the rules of a file.
fn with_file(mut access: Access, path: &Path) -> Result<Access, AccessError> {
    let failed = |why: String| AccessError(format!("{}: {why}", path.display()));
    let text = std::fs::read(path).map_err(|error| failed(error.to_string()))?;
    let file: ConfigFile = serde_json::from_slice(&text).map_err(|error| failed(unreadable(&error)))?;
    let folder = path.parent().unwrap_or_else(|| Path::new("")).to_owned();
    for (index, entry) in file.credentials.into_iter().enumerate() {
        let of = |why: String| failed(format!("credentials[{index}]: {why}"));
        let credential = credential(entry, &folder).map_err(of)?;
        access.add(credential).map_err(|error| of(error.to_string()))?;
    }
    for (index, entry) in file.issuers.into_iter().enumerate() {
        let issuer = issuer(entry, &folder).map_err(|why| failed(format!("issuers[{index}]: {why}")))?;
        access.issuers.push(issuer);
    }
    for host in &file.allow_hosts {
        access.places.allow_host(host).map_err(|error| failed(error.to_string()))?;
    }
    for origin in &file.allow_origins {
        access.places.allow_origin(origin).map_err(|error| failed(error.to_string()))?;
    }
    file.limits.apply(&mut access).map_err(failed)?;
    Ok(access)
}

/// Returns what is wrong with the file without its values, of which one may be a secret in the wrong place.
fn unreadable(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let names_only = ["unknown field", "missing field", "duplicate field"];
    if names_only.iter().any(|start| text.starts_with(start)) {
        return text;
    }
    format!("line {} column {} is not in the format of the file", error.line(), error.column())
}

fn scopes(words: &[String]) -> Result<Scopes, String> {
    let add = |scopes: Scopes, word: &String| {
        let scope = Scope::parse(word).ok_or_else(|| "a scope is one of read, run and control".to_owned())?;
        Ok(scopes.with(scope))
    };
    words.iter().try_fold(Scopes::NONE, add)
}

fn credential(entry: CredentialEntry, folder: &Path) -> Result<Credential, String> {
    let secret = match (&entry.secret_file, &entry.secret_env, &entry.sha256) {
        (Some(file), None, None) => secret_of_file(folder, file)?.digest(),
        (None, Some(name), None) => secret_of_env(name)?.digest(),
        (None, None, Some(hex)) => {
            SecretDigest::parse(hex).ok_or_else(|| "sha256 has 64 hexadecimal digits".to_owned())?
        }
        _ => return Err("it has one of secret_file, secret_env and sha256".to_owned()),
    };
    if entry.user.as_ref().is_some_and(|user| user.contains(':')) {
        return Err("a user has no colon".to_owned());
    }
    let user = entry.user.map(|user| SecretDigest::from_presented(user.as_bytes()));
    Ok(Credential { name: entry.name, user, secret, scopes: scopes(&entry.scopes)? })
}

fn secret_of_file(folder: &Path, file: &Path) -> Result<Secret, String> {
    Secret::from_file(&folder.join(file)).map_err(|error| format!("{}: {error}", file.display()))
}

fn secret_of_env(name: &str) -> Result<Secret, String> {
    Secret::from_env(name).map_err(|error| format!("the variable {name}: {error}"))
}

fn issuer(entry: IssuerEntry, folder: &Path) -> Result<Issuer, String> {
    let known = |name: &String| name.parse::<Algorithm>().map_err(|_| "an algorithm is not known".to_owned());
    let algorithms: Vec<Algorithm> = entry.algorithms.iter().map(known).collect::<Result<_, _>>()?;
    let shares_secret = algorithms.iter().any(|algorithm| takes_secret(*algorithm));
    if algorithms.is_empty() || algorithms.iter().any(|algorithm| takes_secret(*algorithm) != shares_secret) {
        return Err("algorithms names one or more, all with a secret or all with public keys".to_owned());
    }
    let keys = issuer_keys(&entry, folder, shares_secret)?;
    Ok(Issuer {
        algorithms,
        keys: keys.keys,
        #[cfg(feature = "client")]
        source: keys.source,
        name: entry.issuer,
        audience: entry.audience,
        leeway: entry.leeway_seconds.unwrap_or(LEEWAY_SECONDS).min(86_400),
        requires_exp: entry.require_exp.unwrap_or(true),
        principal_claim: entry.principal_claim.unwrap_or_else(|| "sub".to_owned()),
        prefix: entry.prefix,
        scope_claim: entry.scope_claim.unwrap_or_else(|| "scope".to_owned()),
        scopes: scopes(&entry.scopes)?,
    })
}

/// The keys that an entry names.
struct IssuerKeys {
    keys: Arc<Keys>,
    #[cfg(feature = "client")]
    source: Option<KeySource>,
}

impl From<Keys> for IssuerKeys {
    fn from(keys: Keys) -> Self {
        Self {
            keys: Arc::new(keys),
            #[cfg(feature = "client")]
            source: None,
        }
    }
}

fn issuer_keys(entry: &IssuerEntry, folder: &Path, shares_secret: bool) -> Result<IssuerKeys, String> {
    let times = [entry.jwks_fresh_seconds, entry.jwks_again_seconds, entry.jwks_timeout_seconds];
    if times.iter().any(Option::is_some) && entry.jwks_url.is_none() {
        return Err("the times of a key set go with jwks_url".to_owned());
    }
    if times.contains(&Some(0)) {
        return Err("a time of a key set is 1 second or more".to_owned());
    }
    match (&entry.secret_file, &entry.secret_env, &entry.jwks_file, &entry.jwks_url) {
        (Some(file), None, None, None) if shares_secret => {
            Ok(Keys::of_secret(secret_of_file(folder, file)?.bytes()).into())
        }
        (None, Some(name), None, None) if shares_secret => {
            Ok(Keys::of_secret(secret_of_env(name)?.bytes()).into())
        }
        (None, None, Some(file), None) if !shares_secret => {
            let of = |why: String| format!("{}: {why}", file.display());
            let text = std::fs::read(folder.join(file)).map_err(|error| of(error.to_string()))?;
            Ok(Keys::from_keys(read_keys(&text).map_err(|error| of(error.to_string()))?).into())
        }
        (None, None, None, Some(url)) if !shares_secret => keys_at(url, times),
        _ if shares_secret => Err("HS algorithms have one of secret_file and secret_env".to_owned()),
        _ => Err("algorithms with public keys have one of jwks_file and jwks_url".to_owned()),
    }
}

/// Returns the keys at an address, of which none is read yet.
#[cfg(feature = "client")]
fn keys_at(url: &str, [fresh, again, within]: [Option<u32>; 3]) -> Result<IssuerKeys, String> {
    let usual = KeyTimes::default();
    let time = |set: Option<u32>, usual| set.map_or(usual, |seconds| Duration::from_secs(seconds.into()));
    let times = KeyTimes {
        fresh: time(fresh, usual.fresh),
        again: time(again, usual.again),
        within: time(within, usual.within),
    };
    let keys = Arc::new(Keys::from_keys(Vec::new()));
    let source = KeySource::new(url, times, Arc::clone(&keys)).map_err(|why| format!("jwks_url: {why}"))?;
    Ok(IssuerKeys { keys, source: Some(source) })
}

#[cfg(not(feature = "client"))]
fn keys_at(_: &str, _: [Option<u32>; 3]) -> Result<IssuerKeys, String> {
    Err("jwks_url needs the feature `client`".to_owned())
}

impl Limits {
    fn apply(self, access: &mut Access) -> Result<(), String> {
        let zeros = [
            self.requests_per_second.map(u64::from),
            self.burst.map(u64::from),
            self.requests_at_once.map(|count| count as u64),
            self.streams_at_once.map(|count| count as u64),
            self.request_seconds,
        ];
        if zeros.contains(&Some(0)) {
            return Err("a limit is 1 or more".to_owned());
        }
        let quota = &mut access.quota;
        quota.requests_per_second = self.requests_per_second.or(quota.requests_per_second);
        quota.burst = self.burst.or(quota.burst);
        quota.requests_at_once = self.requests_at_once.unwrap_or(quota.requests_at_once);
        quota.streams_at_once = self.streams_at_once.unwrap_or(quota.streams_at_once);
        access.answer_within = self.request_seconds.map_or(access.answer_within, Duration::from_secs);
        Ok(())
    }
}
