//! The settings: a flag before the environment, this before a local file, this before the global one, this before the default.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::a2a::failure::Failure;

/// The local file, and its place in the folder of the user.
const FILE: &str = ".env";
const GLOBAL: &str = ".config/a2a-cli/.env";

/// The most bytes of a file of settings.
const FILE_MAX: u64 = 1024 * 1024;

/// A setting: its name, its default, and whether its value is a secret.
type Known = (&'static str, Option<&'static str>, bool);

/// All settings.
const KNOWN: [Known; 23] = [
    ("a2a-version", None, false),
    ("agent-card", None, false),
    ("api-key", None, true),
    ("async", Some("false"), false),
    ("bearer", None, true),
    ("card-keys", None, false),
    ("client-id", None, false),
    ("client-secret", None, true),
    ("context-id", None, false),
    ("credentials-for-other-hosts", Some("false"), false),
    ("debug", Some("false"), false),
    ("history", None, false),
    ("insecure", Some("false"), false),
    ("metadata", None, false),
    ("output", Some("text"), false),
    ("poll-interval", Some("2s"), false),
    ("record", None, false),
    ("svc-param", None, true),
    ("task-id", None, false),
    ("timeout", Some("5m"), false),
    ("transport", None, false),
    ("verbose", Some("false"), false),
    ("wait", Some("false"), false),
];

/// The origin of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ValueOrigin {
    /// A flag of the command line.
    Flag,
    /// A variable of the environment.
    Environment(String),
    /// A file of settings.
    File(PathBuf),
    /// The token that `auth login` has brought.
    Login,
    /// No one: it is the default.
    Default,
}

/// A value and its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) value: Option<String>,
    pub(crate) source: ValueOrigin,
    pub(crate) is_secret: bool,
}

/// The settings in force.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    known: BTreeMap<&'static str, Setting>,
    /// Whether events are printed as they come. Only a flag says so.
    pub(crate) streams: bool,
}

impl std::fmt::Display for ValueOrigin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Flag => f.write_str("flag"),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Login => f.write_str("auth login"),
            Self::Default => f.write_str("default"),
        }
    }
}

/// Returns the name of a setting's variable.
pub(crate) fn variable(name: &str) -> String {
    format!("A2ACLI_{}", name.to_ascii_uppercase().replace('-', "_"))
}

impl Settings {
    /// Returns the settings in force under these flags.
    ///
    /// # Errors
    /// [`Failure`] if a file cannot be used.
    pub(crate) fn resolve(
        flags: &[(&'static str, String)],
        streams: bool,
        config: Option<&Path>,
    ) -> Result<Self, Failure> {
        let files = files(config)?;
        let mut known = BTreeMap::new();
        for (name, default, is_secret) in KNOWN {
            let variable = variable(name);
            let of_flag = flags
                .iter()
                .find(|(flag, _)| *flag == name)
                .map(|(_, value)| (value.clone(), ValueOrigin::Flag));
            let of_environment = || {
                let value = std::env::var(&variable).ok().filter(|value| !value.is_empty())?;
                Some((value, ValueOrigin::Environment(variable.clone())))
            };
            let of_file = || {
                let found = files.iter().find_map(|(path, values)| Some((path, values.get(&variable)?)));
                found.map(|(path, value)| (value.clone(), ValueOrigin::File(path.clone())))
            };
            let found = of_flag.or_else(of_environment).or_else(of_file);
            let (value, source) = match found {
                Some((value, source)) => (Some(value), source),
                None => (default.map(str::to_owned), ValueOrigin::Default),
            };
            known.insert(name, Setting { value, source, is_secret });
        }
        let settings = Self { known, streams };
        settings.check()?;
        Ok(settings)
    }

    /// Checks the values, so that a wrong one is told before anything is done.
    fn check(&self) -> Result<(), Failure> {
        for name in ["async", "credentials-for-other-hosts", "debug", "insecure", "verbose", "wait"] {
            self.read(name, "true or false", boolean)?;
        }
        for name in ["poll-interval", "timeout"] {
            self.read(name, "a time such as 30s, 5m or 500ms", duration)?;
        }
        self.read("output", "text or json", |text| matches!(text, "text" | "json").then_some(()))?;
        self.read("history", "a whole number", |text| text.parse::<u32>().ok())?;
        Ok(())
    }

    fn read<T>(
        &self,
        name: &str,
        wanted: &str,
        of: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, Failure> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let wrong = || {
            let from = self.known.get(name).map_or_else(String::new, |setting| setting.source.to_string());
            Failure::usage(format!("the setting {name} (from the {from}) is none"), format!("use {wanted}"))
        };
        of(text.trim()).map(Some).ok_or_else(wrong)
    }

    /// Returns a value.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.known.get(name)?.value.as_deref()
    }

    /// Returns a value that is yes or no.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.text(name).and_then(|text| boolean(text.trim())).unwrap_or(false)
    }

    /// Returns a time.
    pub(crate) fn time(&self, name: &str) -> Duration {
        self.text(name).and_then(|text| duration(text.trim())).unwrap_or_default()
    }

    /// Returns a whole number.
    pub(crate) fn number(&self, name: &str) -> Option<u32> {
        self.text(name)?.trim().parse().ok()
    }

    /// Whether a value was set, and is not the default.
    pub(crate) fn is_set(&self, name: &str) -> bool {
        self.known.get(name).is_some_and(|setting| setting.source != ValueOrigin::Default)
    }

    /// Returns the settings with the token that `auth login` has brought.
    pub(crate) fn with_login(&self, token: String) -> Self {
        let mut settings = self.clone();
        let setting = Setting { value: Some(token), source: ValueOrigin::Login, is_secret: true };
        settings.known.insert("bearer", setting);
        settings
    }

    /// Whether the token is that of `auth login`.
    pub(crate) fn is_of_login(&self) -> bool {
        self.known.get("bearer").is_some_and(|setting| setting.source == ValueOrigin::Login)
    }

    /// Whether a value is that of a flag.
    pub(crate) fn is_flag(&self, name: &str) -> bool {
        self.known.get(name).is_some_and(|setting| setting.source == ValueOrigin::Flag)
    }

    /// Whether the output is JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.text("output") == Some("json")
    }

    /// Returns all settings by their names.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&'static str, &Setting)> {
        self.known.iter().map(|(name, setting)| (*name, setting))
    }
}

fn boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Some(true),
        "false" | "0" | "no" | "off" => Some(false),
        _ => None,
    }
}

/// Reads a time with its unit; a number alone is in seconds.
fn duration(text: &str) -> Option<Duration> {
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let number: f64 = text.get(..end)?.parse().ok()?;
    let unit = match text.get(end..)? {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(number * unit).ok()
}

/// A file of settings, and what it sets.
type Read = (PathBuf, BTreeMap<String, String>);

/// Returns the files in force, the first one counting most.
fn files(config: Option<&Path>) -> Result<Vec<Read>, Failure> {
    let named = config.map(Path::to_owned).or_else(|| std::env::var_os("A2ACLI_CONFIG").map(PathBuf::from));
    let mut found = Vec::new();
    if let Some(path) = named {
        found.push(path);
    } else {
        let here = std::env::current_dir().unwrap_or_default();
        found.extend(here.ancestors().map(|folder| folder.join(FILE)).find(|path| path.is_file()));
    }
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(GLOBAL));
    found.extend(home.filter(|path| path.is_file() && !found.contains(path)));
    found.into_iter().map(|path| file(&path).map(|values| (path, values))).collect()
}

fn file(path: &Path) -> Result<BTreeMap<String, String>, Failure> {
    let wrong = |why: String| {
        let message = format!("the settings in {} cannot be used: {why}", path.display());
        Failure::usage(message, "write one NAME=VALUE per line")
    };
    let about = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?;
    if about.len() > FILE_MAX {
        return Err(wrong("the file is too large".to_owned()));
    }
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let values = values(&text);
    let is_secret =
        |name: &String| KNOWN.iter().any(|(known, _, secret)| *secret && variable(known) == *name);
    if values.keys().any(is_secret) && is_open(&about) {
        let hint = format!("chmod 600 {}", path.display());
        return Err(wrong("it holds a credential, and others can read it".to_owned()).hint(hint));
    }
    Ok(values)
}

#[cfg(unix)]
fn is_open(about: &std::fs::Metadata) -> bool {
    std::os::unix::fs::PermissionsExt::mode(&about.permissions()) & 0o077 != 0
}

#[cfg(not(unix))]
fn is_open(_: &std::fs::Metadata) -> bool {
    false
}

/// Reads the lines that are settings of ours; others belong to other programs.
fn values(text: &str) -> BTreeMap<String, String> {
    let line = |line: &str| {
        let line = line.trim();
        let line = line.strip_prefix("export ").unwrap_or(line);
        let (name, value) = line.split_once('=').filter(|(name, _)| name.trim().starts_with("A2ACLI_"))?;
        let value = value.trim();
        let quoted = |mark| value.strip_prefix(mark).and_then(|value| value.strip_suffix(mark));
        let value = match (quoted('\''), quoted('"')) {
            (Some(value), _) => value.to_owned(),
            (_, Some(value)) => value.replace("\\n", "\n").replace("\\\"", "\"").replace("\\\\", "\\"),
            _ => value.split_once(" #").map_or(value, |(value, _)| value.trim_end()).to_owned(),
        };
        Some((name.trim().to_owned(), value)).filter(|(_, value)| !value.is_empty())
    };
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_values_with_and_without_quotes_and_lines_of_others() {
        let text = "# c\nA2ACLI_OUTPUT = json # why\nexport A2ACLI_BEARER='a # b'\nOTHER=1\nA2ACLI_RECORD=\"x y\"\nA2ACLI_DEBUG=\n";
        let read = values(text);
        let shown: Vec<_> = read.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(shown, [("A2ACLI_BEARER", "a # b"), ("A2ACLI_OUTPUT", "json"), ("A2ACLI_RECORD", "x y")]);
    }

    #[test]
    fn times_have_units() {
        assert_eq!(duration("1.5s"), Some(Duration::from_millis(1500)));
        assert_eq!(duration("200ms"), Some(Duration::from_millis(200)));
        assert_eq!(duration("7"), Some(Duration::from_secs(7)));
        assert_eq!(duration("5m"), Some(Duration::from_secs(300)));
        for wrong in ["", "s", "-1s", "1x", "1e400", "99999999999999999999h"] {
            assert_eq!(duration(wrong), None, "{wrong}");
        }
    }
}
