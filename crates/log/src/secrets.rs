//! Secret values beside the log: one file for each, in a folder that only its owner can read.
//!
//! The log holds references to these values and never the values ([`proto_events::secret`]). A file is written and
//! synced before the event that names its reference is appended, and removed when no call needs it any more.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

use proto_events::id::StreamId;
use proto_events::json::{JsonObject, JsonText};
use proto_events::secret::{KeptSecret, SecretRef};

/// The folder of secret values in a log's directory.
pub const SECRETS_DIR: &str = "secrets";

/// The ending of a file that is being written.
const NEW: &str = ".new";

/// A secret value, and the argument whose calls it may be used for.
#[derive(Clone, PartialEq, Eq)]
pub struct KeptValue {
    /// The stream whose events name the reference.
    pub stream: StreamId,
    /// The tool that declares the argument secret.
    pub tool: String,
    /// The name of the argument.
    pub argument: String,
    /// The reference that stands in the log.
    pub reference: KeptSecret,
    /// The value.
    pub value: JsonText,
}

/// Shows everything but the value.
impl fmt::Debug for KeptValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stream, tool, argument, reference, .. } = self;
        write!(f, "KeptValue({stream}, {tool}.{argument}, {reference})")
    }
}

impl KeptValue {
    fn to_text(&self) -> String {
        let mut fields = JsonObject::new();
        fields.set("stream", JsonText::string(self.stream.as_str()));
        fields.set("tool", JsonText::string(&self.tool));
        fields.set("argument", JsonText::string(&self.argument));
        fields.set("reference", JsonText::string(&self.reference.to_string()));
        fields.set("value", self.value.clone());
        fields.to_text().as_str().to_owned()
    }

    fn read(text: &str) -> Option<Self> {
        let fields: JsonObject = JsonText::parse(text).ok()?.read().ok()?;
        let text = |name: &str| fields.get(name).and_then(JsonText::to_str);
        let SecretRef::Kept(reference) = SecretRef::parse(&text("reference")?)? else { return None };
        let value = fields.get("value")?.clone();
        let stream = StreamId::parse(&text("stream")?).ok()?;
        let kept = Self { stream, tool: text("tool")?, argument: text("argument")?, reference, value };
        reference.fits(&kept.value).then_some(kept)
    }
}

/// The files in the folder of secret values.
#[derive(Debug, Default)]
pub struct SecretsFound {
    /// The values that could be read.
    pub kept: Vec<KeptValue>,
    /// The files that could not.
    pub unreadable: Vec<PathBuf>,
}

/// The folder of secret values of one log.
#[derive(Debug, Clone)]
pub struct SecretFiles {
    dir: PathBuf,
}

impl SecretFiles {
    /// Returns the folder in this log's directory; it is created with the first value.
    pub fn of_log(dir: &Path) -> Self {
        // Whole: the program may change its working directory.
        let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
        Self { dir: dir.join(SECRETS_DIR) }
    }

    /// Writes a value, durably: a file that its owner alone may read, in a folder that its owner alone may enter.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn store(&self, kept: &KeptValue) -> io::Result<()> {
        make_private_dir(&self.dir)?;
        let path = self.path(&kept.reference);
        let new = path.with_extension(NEW.trim_start_matches('.'));
        // What a crash left has another value, or perhaps other rights.
        remove_if_there(&new)?;
        let mut file = private_file(&new)?;
        file.write_all(kept.to_text().as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, &path)?;
        sync_dir(&self.dir)
    }

    /// Removes a value.
    ///
    /// # Errors
    /// Errors of the file system. A missing value is `None`.
    pub fn remove(&self, reference: &KeptSecret) -> io::Result<()> {
        remove_if_there(&self.path(reference))?;
        sync_dir(&self.dir)
    }

    /// Reads all values. A log without secrets has none.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn all(&self) -> io::Result<SecretsFound> {
        let mut found = SecretsFound::default();
        let entries = match fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
            Err(error) => return Err(error),
        };
        for entry in entries {
            let path = entry?.path();
            match fs::read_to_string(&path).ok().and_then(|text| KeptValue::read(&text)) {
                Some(kept) if self.path(&kept.reference) == path => found.kept.push(kept),
                _ => found.unreadable.push(path),
            }
        }
        found.kept.sort_by_key(|kept| kept.reference);
        found.unreadable.sort();
        Ok(found)
    }

    /// Removes what a crash left of a value that was being written.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn remove_unfinished(&self) -> io::Result<()> {
        for path in self.all()?.unreadable {
            if path.to_string_lossy().ends_with(NEW) {
                remove_if_there(&path)?;
            }
        }
        Ok(())
    }

    fn path(&self, reference: &KeptSecret) -> PathBuf {
        self.dir.join(reference.digest.to_string())
    }
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn make_private_dir(dir: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
        match fs::DirBuilder::new().mode(0o700).create(dir) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                fs::set_permissions(dir, fs::Permissions::from_mode(0o700))?;
            }
            Err(error) => return Err(error),
            // The folder's own name must survive as well.
            Ok(()) => dir.parent().map_or(Ok(()), sync_dir)?,
        }
    }
    #[cfg(not(unix))]
    fs::create_dir_all(dir)?;
    Ok(())
}

fn private_file(path: &Path) -> io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    options.open(path)
}

fn sync_dir(dir: &Path) -> io::Result<()> {
    if cfg!(unix) {
        fs::File::open(dir)?.sync_all()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(value: &str) -> KeptValue {
        let value = JsonText::string(value);
        KeptValue {
            stream: StreamId::task("agent", "t").unwrap(),
            tool: "login".to_owned(),
            argument: "password".to_owned(),
            reference: KeptSecret::new([1; 16], &value),
            value,
        }
    }

    #[test]
    fn a_value_is_read_back_and_removed_and_no_other_user_can_read_it() {
        let dir = tempfile::tempdir().unwrap();
        let files = SecretFiles::of_log(dir.path());
        assert!(files.all().unwrap().kept.is_empty());
        files.store(&kept("hunter2")).unwrap();
        files.store(&kept("hunter3")).unwrap();
        assert_eq!(files.all().unwrap().kept.len(), 2);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode(&dir.path().join(SECRETS_DIR)), 0o700);
            assert_eq!(mode(&files.path(&kept("hunter2").reference)), 0o600);
        }
        files.remove(&kept("hunter2").reference).unwrap();
        files.remove(&kept("hunter2").reference).unwrap();
        assert_eq!(files.all().unwrap().kept, [kept("hunter3")]);
        assert!(!format!("{:?}", kept("hunter3")).contains("hunter3"));
    }

    #[test]
    fn a_file_that_does_not_fit_its_reference_is_unreadable_and_an_unfinished_one_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let files = SecretFiles::of_log(dir.path());
        files.store(&kept("hunter2")).unwrap();
        let path = files.path(&kept("hunter2").reference);
        let text = fs::read_to_string(&path).unwrap().replace("hunter2", "hunter9");
        fs::write(&path, text).unwrap();
        let unfinished = dir.path().join(SECRETS_DIR).join("abc.new");
        fs::write(&unfinished, "{").unwrap();
        assert_eq!(files.all().unwrap().unreadable.len(), 2);
        files.remove_unfinished().unwrap();
        assert_eq!(files.all().unwrap().unreadable, [path]);
    }
}
