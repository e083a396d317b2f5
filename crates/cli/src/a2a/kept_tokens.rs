//! The tokens that `auth login` has brought, one file for each agent, which its owner alone may read.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use proto_events::id::Digest;
use proto_events::json::{JsonObject, JsonText};

use crate::a2a::failure::Failure;

/// The folder of the files in the folder of the user.
const FOLDER: &str = ".config/a2a-cli/tokens";

/// The most bytes of a file.
const FILE_MAX: u64 = 256 * 1024;

/// The end of a token's time that is not used any more, in seconds: an answer may take a while.
const SPARE_SECONDS: i64 = 30;

/// A token that is kept.
#[derive(Clone, Default)]
pub(crate) struct KeptToken {
    /// The agent that it is for, as [`agent_of`] names it.
    pub(crate) agent: String,
    pub(crate) access: String,
    /// The second of the epoch at which it ends, if that is known.
    pub(crate) ends: Option<i64>,
    pub(crate) refresh: Option<String>,
    /// The address at which it is renewed.
    pub(crate) token_url: String,
    pub(crate) client_id: String,
}

impl KeptToken {
    /// Whether the token has ended, or does so soon.
    pub(crate) fn has_ended(&self, now: i64) -> bool {
        self.ends.is_some_and(|ends| ends.saturating_sub(SPARE_SECONDS) <= now)
    }

    fn from_json(json: &JsonText) -> Option<Self> {
        let fields: JsonObject = json.read().ok()?;
        let text = |name: &str| fields.get(name).and_then(JsonText::to_str).filter(|text| !text.is_empty());
        Some(Self {
            agent: text("agent")?,
            access: text("access_token")?,
            ends: fields.get("expires_at").and_then(|ends| ends.as_str().parse().ok()),
            refresh: text("refresh_token"),
            token_url: text("token_url")?,
            client_id: text("client_id")?,
        })
    }

    fn to_json(&self) -> JsonText {
        let mut fields = JsonObject::new();
        let text = |text: &str| JsonText::string(text);
        fields.set("agent", text(&self.agent));
        fields.set("access_token", text(&self.access));
        fields.set("expires_at", JsonText::of_model(&self.ends));
        fields.set("refresh_token", self.refresh.as_deref().map_or_else(JsonText::null, text));
        fields.set("token_url", text(&self.token_url));
        fields.set("client_id", text(&self.client_id));
        fields.to_text()
    }
}

/// Returns the name of the agent that a reference means: where its card is, without the path.
pub(crate) fn agent_of(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("file", url));
    if scheme == "file" {
        return url.to_owned();
    }
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    format!("{}://{}", scheme.to_ascii_lowercase(), host.to_ascii_lowercase())
}

/// Returns the file of an agent's token; `None` for a user without a folder.
fn file(agent: &str) -> Option<PathBuf> {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty())?;
    let name = Digest::compute(agent.as_bytes()).to_string();
    Some(PathBuf::from(home).join(FOLDER).join(format!("{name}.json")))
}

fn wrong(path: &Path, why: &str) -> Failure {
    let message = format!("the token in {} cannot be used: {why}", path.display());
    Failure::usage(message, "`taskreel a2a auth logout` removes it, `auth login` brings another one")
}

/// Returns the token of an agent, if one is kept.
///
/// # Errors
/// [`Failure`] if others may read its file, or it is not one of ours.
pub(crate) fn load_token(agent: &str) -> Result<Option<KeptToken>, Failure> {
    let Some(path) = file(agent) else { return Ok(None) };
    let about = match std::fs::metadata(&path) {
        Ok(about) => about,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(wrong(&path, &error.to_string())),
    };
    #[cfg(unix)]
    if std::os::unix::fs::PermissionsExt::mode(&about.permissions()) & 0o077 != 0 {
        return Err(wrong(&path, "others can read it"));
    }
    if about.len() > FILE_MAX {
        return Err(wrong(&path, "the file is too large"));
    }
    let text = std::fs::read_to_string(&path).map_err(|error| wrong(&path, &error.to_string()))?;
    let token = JsonText::parse(&text).ok().and_then(|json| KeptToken::from_json(&json));
    match token.filter(|token| token.agent == agent) {
        Some(token) => Ok(Some(token)),
        None => Err(wrong(&path, "it holds no token of this agent")),
    }
}

/// Keeps the token of an agent in place of an earlier one.
///
/// # Errors
/// [`Failure`] if it cannot be written.
pub(crate) fn store_token(token: &KeptToken) -> Result<(), Failure> {
    let Some(path) = file(&token.agent) else {
        let hint = "set HOME to the folder of the user";
        return Err(Failure::usage("there is no place for the token: HOME is not set", hint));
    };
    let folder = path.parent().unwrap_or(Path::new("."));
    let failed = |error: std::io::Error| {
        let message = format!("the token cannot be kept in {}: {error}", folder.display());
        Failure::internal(message, "make the folder writable for its owner")
    };
    make_folder(folder).map_err(failed)?;
    // Beside the file first: who reads meanwhile sees the old one or the new one.
    let beside = path.with_extension(format!("{}.new", std::process::id()));
    let written =
        write_private(&beside, token.to_json().as_str()).and_then(|()| std::fs::rename(&beside, &path));
    written.map_err(|error| {
        drop(std::fs::remove_file(&beside));
        failed(error)
    })
}

/// Removes the token of an agent. Returns whether there was one.
///
/// # Errors
/// [`Failure`] if it cannot be removed.
pub(crate) fn remove(agent: &str) -> Result<bool, Failure> {
    let Some(path) = file(agent) else { return Ok(false) };
    match std::fs::remove_file(&path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(wrong(&path, &error.to_string())),
    }
}

fn make_folder(folder: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_named_by_where_its_card_is() {
        assert_eq!(
            agent_of("HTTPS://Agent.example.org:8443/a/card.json?x"),
            "https://agent.example.org:8443"
        );
        assert_eq!(agent_of("http://[::1]:80"), "http://[::1]:80");
        assert_eq!(agent_of("./card.json"), "./card.json");
    }

    #[test]
    fn a_token_ends_a_little_before_its_time() {
        let token = |ends| KeptToken { ends, ..KeptToken::default() };
        assert!(!token(None).has_ended(i64::MAX) && !token(Some(100)).has_ended(69));
        assert!(token(Some(100)).has_ended(70) && token(Some(i64::MIN)).has_ended(0));
    }
}
