//! The agent of a command: its card, the interface that is used, and the client there.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use proto_events::json::JsonText;
use taskreel_http::a2a::{A2aError, Binding, Card, Client, Interface, Observer, Options, Version};
use taskreel_http::protolink::ClientError;
use taskreel_log::views::shell_word;

use crate::a2a::card_signatures;
use crate::a2a::credentials::applied;
use crate::a2a::failure::{CARD_INVALID, CARD_NOT_FOUND, EXIT_UNREACHABLE, Failure};
use crate::a2a::kept_tokens::agent_of;
use crate::a2a::settings::Settings;
use crate::print::problem::EXIT_NO;
use crate::print::screen::note;

/// The place of a card under an address.
const PLACE: &str = "/.well-known/agent-card.json";

/// The place of cards before 0.3.
const OLDER_PLACE: &str = "/.well-known/agent.json";

/// The most bytes of a file with a card.
const CARD_MAX: u64 = 1024 * 1024;

/// The longest wait for a card.
const CARD_WITHIN: Duration = Duration::from_secs(30);

/// A card as it was found.
#[derive(Debug)]
pub(crate) struct FetchedCard {
    /// The whole card.
    pub(crate) json: JsonText,
    /// The address that it came from; `None` for a file.
    pub(crate) url: Option<String>,
}

/// An agent that can be asked.
#[derive(Debug)]
pub(crate) struct Agent {
    pub(crate) client: Client,
    pub(crate) card: Card,
    /// Whether credentials are shown.
    pub(crate) has_credentials: bool,
    /// The words that name the agent on a command line.
    named: String,
}

impl Agent {
    /// Finds the agent's card, and chooses the interface.
    ///
    /// # Errors
    /// [`Failure`] if no interface of the card can be used.
    pub(crate) async fn connect(
        settings: &Settings,
        observer: Option<Arc<dyn Observer>>,
    ) -> Result<Self, Failure> {
        let found = find_card(settings, observer.clone()).await?;
        Self::new(found, settings, observer)
    }

    /// Chooses the interface of a card.
    pub(crate) fn new(
        found: FetchedCard,
        settings: &Settings,
        observer: Option<Arc<dyn Observer>>,
    ) -> Result<Self, Failure> {
        let from = found.url.clone().unwrap_or_else(|| "the file".to_owned());
        let card = card_signatures::read(&found.json, &from, settings)?;
        let (interface, signaled) = chosen(&card, settings)?;
        // A file is the user's own: what it names is believed.
        let home = found.url.unwrap_or_else(|| interface.url.clone());
        let mut options = applied(base(settings, observer), settings, &card.json)?
            .timeout(settings.time("timeout"))
            .binding(interface.binding)
            .version(interface.version);
        if let Some(version) = signaled {
            options =
                options.signaled_version(&version).map_err(|error| Failure::from_answer(&error, false))?;
        }
        if settings.flag("credentials-for-other-hosts") {
            options = options.credentials_for_other_hosts();
        }
        let has_credentials = ["bearer", "api-key", "svc-param"].iter().any(|name| settings.is_set(name));
        if settings.flag("insecure") && has_credentials && interface.url.starts_with("https:") {
            note(
                "warning: credentials are sent over a connection whose certificate is NOT verified (--insecure): whoever \
                 answers there gets them",
            );
        }
        let client = Client::of_card(card.clone(), &home, &options).map_err(|error| {
            let failure = Failure::from_answer(&error, false);
            let is_elsewhere = has_credentials && card.interfaces.contains(&interface);
            if is_elsewhere {
                failure.hint("--credentials-for-other-hosts shows them there too")
            } else {
                failure
            }
        })?;
        let named = settings.text("agent-card").unwrap_or_default();
        let named =
            if settings.is_flag("agent-card") { format!(" -a {}", shell_word(named)) } else { String::new() };
        Ok(Self { client, card, has_credentials, named })
    }

    /// Whether the agent says that it streams.
    pub(crate) fn streams(&self) -> bool {
        self.card.streaming
    }

    /// Returns the failure of a question to the agent.
    pub(crate) fn failed(&self, error: &A2aError) -> Failure {
        Failure::from_answer(error, self.has_credentials)
    }

    /// Returns a command line about the agent.
    pub(crate) fn typed(&self, command: &str, rest: &str) -> String {
        let rest = if rest.is_empty() { String::new() } else { format!(" {rest}") };
        format!("taskreel a2a {command}{}{rest}", self.named)
    }
}

/// Returns the settings of a client without credentials.
pub(crate) fn base(settings: &Settings, observer: Option<Arc<dyn Observer>>) -> Options {
    let mut options = Options::new().attempts(3);
    if settings.flag("insecure") {
        options = options.without_verification();
    }
    match observer {
        Some(observer) => options.observer(observer),
        None => options,
    }
}

/// Chooses the interface, and the version that requests name where it is another than the interface's.
fn chosen(card: &Card, settings: &Settings) -> Result<(Interface, Option<String>), Failure> {
    let (version, signaled) = match settings.text("a2a-version").map(str::trim) {
        None => (Version::V1, None),
        Some(text) => match Version::of_number(text) {
            Some(version) => (version, None),
            None if is_number(text) => (Version::V1, Some(text.to_owned())),
            None => return Err(Failure::usage("--a2a-version is no version", "use 1.0 or 0.3")),
        },
    };
    let fitting: Vec<&Interface> = card.interfaces.iter().filter(|one| one.version == version).collect();
    let Some(first) = fitting.first() else {
        return Err(match version {
            Version::V1 => Failure::version(
                "the agent speaks no version of 1.x that is spoken here",
                "--a2a-version 0.3 speaks the older version, which the card names",
            ),
            Version::V03 => {
                Failure::version("the agent's card names no interface of 0.3", "leave out --a2a-version")
            }
        });
    };
    let wanted: Vec<&str> = settings
        .text("transport")
        .unwrap_or_default()
        .split(['\n', ','])
        .map(str::trim)
        .filter(|word| !word.is_empty())
        .collect();
    let of_word = |word: &str| {
        Binding::of_word(word).and_then(|binding| fitting.iter().find(|one| one.binding == binding))
    };
    let chosen = wanted.iter().find_map(|word| of_word(word));
    if chosen.is_none() && !wanted.is_empty() {
        note(&format!(
            "note: the card names no interface of {} that is spoken here; its own order is used",
            wanted.join(" or ")
        ));
    }
    let chosen = chosen.unwrap_or(first);
    Ok(((*chosen).clone(), signaled))
}

fn is_number(text: &str) -> bool {
    text.split('.').count() <= 3
        && text.split('.').all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Finds the card that the settings name.
///
/// # Errors
/// [`Failure`] if no card is found.
pub(crate) async fn find_card(
    settings: &Settings,
    observer: Option<Arc<dyn Observer>>,
) -> Result<FetchedCard, Failure> {
    let named = settings.text("agent-card").map(str::trim).filter(|named| !named.is_empty());
    let Some(named) = named else {
        let hint = "name it: -a http://localhost:8080, or A2ACLI_AGENT_CARD";
        return Err(Failure::usage("no agent is named", hint));
    };
    if let Some(path) = file_of(named) {
        return of_file(&path).map(|json| FetchedCard { json, url: None });
    }
    let url = if named.contains("://") { named.to_owned() } else { with_scheme(named) };
    let options = base(settings, observer).timeout(CARD_WITHIN.min(settings.time("timeout")));
    let has_path = url.split_once("://").is_some_and(|(_, rest)| {
        rest.split_once('/').is_some_and(|(_, path)| !path.trim_matches('/').is_empty())
    });
    let appended = format!("{}{PLACE}", url.trim_end_matches('/'));
    // Before 0.3 cards had another place, which is asked where the new place has none.
    let older = format!("{}{OLDER_PLACE}", url.trim_end_matches('/'));
    let places = if has_path { vec![url, appended, older] } else { vec![appended, older] };
    let is_older = |place: &str| place.ends_with(OLDER_PLACE);
    let mut failure: Option<Failure> = None;
    for place in places {
        if is_older(&place) && failure.as_ref().is_some_and(|known| known.code != CARD_NOT_FOUND) {
            break;
        }
        match Client::card_at(&place, &options).await {
            // Protolink's own card, which names its transport.
            Ok(json) if is_older(&place) && json.member("transport").is_some() => {}
            Ok(json) if json.is_object() => return Ok(FetchedCard { json, url: Some(place) }),
            Ok(_) => failure = failure.or_else(|| Some(no_card(&place, "it is no JSON object"))),
            Err(error) => {
                let one = card_failure(&place, &error);
                // An address that is that of an agent and not of its card: what is said of the card's place counts.
                let is_final = !matches!(
                    error,
                    A2aError::Transport(ClientError::Status { .. }) | A2aError::Answer { .. }
                );
                failure = Some(match failure {
                    Some(first) if one.code == CARD_NOT_FOUND => first,
                    _ => one,
                });
                if is_final {
                    break;
                }
            }
        }
    }
    Err(failure.unwrap_or_else(|| Failure::internal("no card was asked for", "")))
}

/// Returns the name under which a token is kept for the agent that the settings name.
///
/// # Errors
/// [`Failure`] if none is named.
pub(crate) fn agent_named(settings: &Settings) -> Result<String, Failure> {
    let named = settings.text("agent-card").map(str::trim).filter(|named| !named.is_empty());
    let Some(named) = named else {
        let hint = "name it: -a http://localhost:8080, or A2ACLI_AGENT_CARD";
        return Err(Failure::usage("no agent is named", hint));
    };
    if let Some(path) = file_of(named) {
        let path = std::fs::canonicalize(&path).unwrap_or(path);
        return Ok(path.display().to_string());
    }
    Ok(agent_of(&if named.contains("://") { named.to_owned() } else { with_scheme(named) }))
}

/// Returns the path of a reference that is a file.
fn file_of(named: &str) -> Option<PathBuf> {
    if let Some(path) = named.strip_prefix("file://") {
        return Some(PathBuf::from(path.strip_prefix("localhost").unwrap_or(path)));
    }
    let is_path = !named.contains("://")
        && (named.starts_with(['/', '.', '~'])
            || named.to_ascii_lowercase().ends_with(".json")
            || Path::new(named).is_file());
    is_path.then(|| PathBuf::from(named))
}

fn of_file(path: &Path) -> Result<JsonText, Failure> {
    let wrong = |code, exit, why: String| {
        Failure::new(
            code,
            exit,
            format!("the card {} cannot be used: {why}", path.display()),
            "name a file with a card in JSON",
        )
    };
    let absent = |error: std::io::Error| wrong(CARD_NOT_FOUND, EXIT_UNREACHABLE, error.to_string());
    if std::fs::metadata(path).map_err(absent)?.len() > CARD_MAX {
        return Err(wrong(CARD_INVALID, EXIT_NO, format!("it has more than {CARD_MAX} bytes")));
    }
    let text = std::fs::read_to_string(path).map_err(absent)?;
    let json = JsonText::parse(&text).map_err(|error| wrong(CARD_INVALID, EXIT_NO, error.to_string()))?;
    if json.is_object() {
        Ok(json)
    } else {
        Err(wrong(CARD_INVALID, EXIT_NO, "it is no JSON object".to_owned()))
    }
}

/// Returns the address of a host without a scheme: this machine by http, others by https.
fn with_scheme(host: &str) -> String {
    let name = host.split(['/', '?']).next().unwrap_or_default();
    let name = match name.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => name.rsplit_once(':').map_or(name, |(name, _)| name),
    };
    let is_here = name.eq_ignore_ascii_case("localhost")
        || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    format!("{}://{host}", if is_here { "http" } else { "https" })
}

fn no_card(place: &str, why: &str) -> Failure {
    let message = format!("what is at {place} is no card of an agent: {why}");
    Failure::new(CARD_INVALID, EXIT_NO, message, "check the address; `--debug` shows what is there")
}

fn card_failure(place: &str, error: &A2aError) -> Failure {
    match error {
        A2aError::Answer { why, .. } => no_card(place, why),
        A2aError::Transport(ClientError::Status { status, .. })
            if !matches!(status.as_u16(), 401 | 403 | 502..=504) =>
        {
            let message = format!("there is no card at {place}: HTTP {}", status.as_u16());
            let hint = "check the address; a card at another place is named by its whole address";
            Failure::new(CARD_NOT_FOUND, EXIT_UNREACHABLE, message, hint)
        }
        // The card is asked for without credentials: showing them to any server that answers would give them away.
        A2aError::Transport(ClientError::Status { status, .. }) if matches!(status.as_u16(), 401 | 403) => {
            let hint = "credentials are shown to no card's address; save the card to a file, and name the file with -a";
            Failure::from_answer(error, false).hint(hint)
        }
        other => Failure::from_answer(other, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_is_a_file_or_an_address_and_this_machine_needs_no_tls() {
        assert_eq!(file_of("file:///a/b.json"), Some(PathBuf::from("/a/b.json")));
        assert_eq!(file_of("./card"), Some(PathBuf::from("./card")));
        assert_eq!(file_of("http://h/agent-card.json"), None);
        assert_eq!(file_of("example.org"), None);
        assert_eq!(with_scheme("localhost:80"), "http://localhost:80");
        assert_eq!(with_scheme("[::1]:80"), "http://[::1]:80");
        assert_eq!(with_scheme("127.0.0.1"), "http://127.0.0.1");
        assert_eq!(with_scheme("example.org:8443/x"), "https://example.org:8443/x");
        assert!(
            is_number("9.9")
                && is_number("2")
                && !is_number("1.x")
                && !is_number("1.0.0.0")
                && !is_number("")
        );
    }
}
