//! The files that stand beside a log, compared with the digests that the log holds.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use taskreel_log::artifacts::{KeptFile, KeptFileAt, KeptFiles};

use crate::files::digest::{digest_of, digest_of_bytes, has_length};
use crate::files::error::FileError;
use crate::files::local::LocalFileStore;
use crate::files::name::{cleaned, distinguished};

/// The files whose digests are remembered, about 30 MiB; beyond them all are forgotten, and read again where they are named
/// again.
const REMEMBERED_MAX: usize = 100_000;

/// The files of one or more stores, looked up by the digests that a log holds. Each file is read once, however often it is
/// looked for: a look is for one run, since a file that changes meanwhile is not read again.
#[derive(Debug)]
pub struct StoredFiles {
    stores: Vec<LocalFileStore>,
    seen: Mutex<SeenFiles>,
}

/// The files that were read.
#[derive(Debug, Default)]
struct SeenFiles {
    artifacts: HashMap<(String, String), SeenArtifact>,
    files: usize,
}

/// The files of one artifact that were read.
#[derive(Debug, Default)]
struct SeenArtifact {
    by_digest: HashMap<(String, u64), PathBuf>,
    read: BTreeSet<PathBuf>,
    /// The files that are not read, by their lengths.
    unread: HashMap<u64, BTreeSet<PathBuf>>,
    listed: usize,
    /// The times at which the folders were changed, when they were listed.
    changed: Option<Vec<Option<SystemTime>>>,
    /// The reason why a file could not be read.
    failed: Option<String>,
}

impl StoredFiles {
    /// Prepares a look into these stores.
    pub fn new(stores: impl IntoIterator<Item = LocalFileStore>) -> Self {
        Self { stores: stores.into_iter().collect(), seen: Mutex::default() }
    }

    /// Returns the path of a file to which part number `index`, from 0, of an artifact in a log refers. The file that has its
    /// name is read first, and others only if they have its length.
    ///
    /// # Errors
    /// The reason in words: it is missing, or another content stands in its place.
    pub fn path(
        &self,
        task_id: &str,
        artifact_id: &str,
        index: usize,
        kept: &KeptFile,
    ) -> Result<PathBuf, String> {
        let folders = self.folders(task_id, artifact_id)?;
        let named = named(&folders, index, kept);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.files > REMEMBERED_MAX {
            *seen = SeenFiles::default();
        }
        let SeenFiles { artifacts, files } = &mut *seen;
        let artifact = artifacts.entry((task_id.to_owned(), artifact_id.to_owned())).or_default();
        let before = artifact.read.len();
        let found = artifact.find(kept, &named, &folders);
        *files += artifact.read.len() - before;
        found.ok_or_else(|| artifact.why(kept, &named))
    }

    /// Returns the content of such a file. What is returned is what was compared.
    ///
    /// # Errors
    /// As for [`path`](Self::path).
    pub fn content(
        &self,
        task_id: &str,
        artifact_id: &str,
        index: usize,
        kept: &KeptFile,
    ) -> Result<Vec<u8>, String> {
        let read = |path: &Path| std::fs::read(path).map_err(FileError::io("cannot read", path));
        let is_it =
            |bytes: &Vec<u8>| bytes.len() as u64 == kept.size && digest_of_bytes(bytes) == kept.sha256;
        let folders = self.folders(task_id, artifact_id)?;
        for path in named(&folders, index, kept).iter().filter(|path| has_length(path, kept.size)) {
            if let Some(bytes) = read(path).ok().filter(is_it) {
                return Ok(bytes);
            }
        }
        let path = self.path(task_id, artifact_id, index, kept)?;
        let bytes = read(&path).map_err(|error| error.to_string())?;
        if is_it(&bytes) { Ok(bytes) } else { Err(format!("'{}' has just been changed", path.display())) }
    }

    /// Returns the folders of an artifact in all stores that take its ids.
    fn folders(&self, task_id: &str, artifact_id: &str) -> Result<Vec<(&LocalFileStore, PathBuf)>, String> {
        let (mut folders, mut refused) = (Vec::new(), None);
        for store in &self.stores {
            match store.artifact_folder(task_id, artifact_id) {
                Ok(folder) => folders.push((store, folder)),
                Err(error) => refused = refused.or(Some(error.to_string())),
            }
        }
        match refused {
            Some(why) if folders.is_empty() => Err(why),
            _ => Ok(folders),
        }
    }
}

/// Returns the paths at which a file stands, if it was saved under its name.
fn named(folders: &[(&LocalFileStore, PathBuf)], index: usize, kept: &KeptFile) -> Vec<PathBuf> {
    let name = cleaned(kept.name.as_deref(), index);
    let others = distinguished(&name, &kept.sha256);
    let names: Vec<String> = std::iter::once(name).chain(others).collect();
    folders.iter().flat_map(|(_, folder)| names.iter().map(|name| folder.join(name))).collect()
}

impl SeenArtifact {
    fn find(
        &mut self,
        kept: &KeptFile,
        named: &[PathBuf],
        folders: &[(&LocalFileStore, PathBuf)],
    ) -> Option<PathBuf> {
        let wanted = (kept.sha256.clone(), kept.size);
        if let Some(path) = self.by_digest.get(&wanted) {
            return Some(path.clone());
        }
        let fits = |path: &&PathBuf| has_length(path, kept.size);
        for path in named.iter().filter(fits).cloned().collect::<Vec<_>>() {
            self.read(path);
        }
        if !self.by_digest.contains_key(&wanted) {
            self.list(folders);
            // What was saved by another program may have any name.
            for path in self.unread.remove(&kept.size).unwrap_or_default() {
                self.read(path);
            }
        }
        self.by_digest.get(&wanted).cloned()
    }

    /// Lists the folders, if they have changed since that was done.
    fn list(&mut self, folders: &[(&LocalFileStore, PathBuf)]) {
        let changed = |folder: &PathBuf| std::fs::metadata(folder).and_then(|found| found.modified()).ok();
        let changed = Some(folders.iter().map(|(_, folder)| changed(folder)).collect());
        if self.changed == changed {
            return;
        }
        (self.changed, self.listed) = (changed, 0);
        for (store, folder) in folders {
            match store.files_in(folder) {
                Ok(paths) => {
                    self.listed += paths.len();
                    for path in paths.into_iter().filter(|path| !self.read.contains(path)) {
                        if let Ok(found) = std::fs::symlink_metadata(&path) {
                            self.unread.entry(found.len()).or_default().insert(path);
                        }
                    }
                }
                Err(error) => self.failed = Some(error.to_string()),
            }
        }
    }

    fn read(&mut self, path: PathBuf) {
        if !self.read.insert(path.clone()) {
            return;
        }
        match digest_of(&path) {
            Ok(digest) => drop(self.by_digest.entry(digest).or_insert(path)),
            Err(error) => self.failed = Some(FileError::io("cannot read", &path)(error).to_string()),
        }
    }

    /// Returns the reason why the file does not exist.
    fn why(&self, kept: &KeptFile, named: &[PathBuf]) -> String {
        if let Some(why) = &self.failed {
            return why.clone();
        }
        // A file under its name, or its only file, has been changed; any other is another part's.
        let is_there = |path: &&PathBuf| std::fs::symlink_metadata(path).is_ok();
        let only = || self.read.iter().chain(self.unread.values().flatten()).find(|_| self.listed == 1);
        match named.iter().find(is_there).or_else(only) {
            Some(path) => format!(
                "no file of the artifact has the digest {} and {} bytes; '{}' has another content",
                kept.sha256,
                kept.size,
                path.display()
            ),
            None => format!("the file with the digest {} and {} bytes is missing", kept.sha256, kept.size),
        }
    }
}

impl LocalFileStore {
    /// Returns the path of a file to which an artifact in a log refers: the one of the artifact's files that has its
    /// digest. [`StoredFiles`] looks for many.
    ///
    /// # Errors
    /// The reason in words: it is missing, or another content stands in its place.
    pub fn kept_file(&self, task_id: &str, artifact_id: &str, kept: &KeptFile) -> Result<PathBuf, String> {
        StoredFiles::new([self.clone()]).path(task_id, artifact_id, 0, kept)
    }
}

impl KeptFiles for StoredFiles {
    fn fault(&self, kept: &KeptFileAt) -> Option<String> {
        let index = kept.part.saturating_sub(1);
        let why = self.path(&kept.stream.id(), &kept.artifact_id, index, &kept.file).err()?;
        Some(format!("artifact {}, part {}: {why}", kept.artifact_id, kept.part))
    }
}

impl KeptFiles for LocalFileStore {
    /// Looks once; [`StoredFiles`] remembers what it has read.
    fn fault(&self, kept: &KeptFileAt) -> Option<String> {
        StoredFiles::new([self.clone()]).fault(kept)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proto_events::id::{Position, StreamId, Version};

    use super::*;

    fn kept(name: &str, content: &[u8]) -> KeptFile {
        KeptFile {
            sha256: digest_of_bytes(content),
            size: content.len() as u64,
            name: Some(name.to_owned()),
            mime_type: None,
        }
    }

    /// A store whose artifact `a` of task `t` has these files.
    fn store(files: &[(&str, &[u8])]) -> (tempfile::TempDir, LocalFileStore, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let store = LocalFileStore::new(folder.path()).unwrap();
        let path = folder.path().canonicalize().unwrap().join("artifacts/t/a");
        fs::create_dir_all(&path).unwrap();
        for (name, content) in files {
            fs::write(path.join(name), content).unwrap();
        }
        (folder, store, path)
    }

    #[test]
    fn a_file_is_read_once_and_only_if_it_has_the_name_or_the_length() {
        let [short, _] = distinguished("x.txt", &digest_of_bytes(b"two"));
        let (_folder, store, path) =
            store(&[("x.txt", b"one"), (&short, b"two"), ("other", b"six"), ("long", b"longer")]);
        let files = StoredFiles::new([store]);
        let find = |name: &str, content: &[u8]| files.path("t", "a", 0, &kept(name, content));
        let read = || files.seen.lock().unwrap().files;
        assert_eq!(find("x.txt", b"one"), Ok(path.join("x.txt")));
        assert_eq!(read(), 1);
        assert_eq!(find("x.txt", b"two"), Ok(path.join(short)));
        assert_eq!(read(), 2, "its own names are tried, and nothing else");
        // Again, under any name: nothing is read.
        for _ in 0..1_000 {
            find("y", b"two").unwrap();
        }
        assert_eq!(read(), 2);
        assert_eq!(find("y", b"six"), Ok(path.join("other")));
        assert!(find("y", b"new").unwrap_err().contains("is missing"));
        assert_eq!(read(), 3, "no file of another length is read");
        // A file that comes while a log is verified is found.
        let at = |number: u64| std::time::UNIX_EPOCH + std::time::Duration::from_secs(number);
        fs::write(path.join("z"), "new").unwrap();
        fs::File::open(&path).unwrap().set_modified(at(5)).unwrap();
        assert_eq!(find("y", b"new"), Ok(path.join("z")));
        assert_eq!(files.content("t", "a", 0, &kept("long", b"longer")).unwrap(), b"longer");
        assert!(
            files.content("t", "a", 0, &kept("long", b"LONGER")).unwrap_err().contains("another content")
        );
    }

    #[test]
    fn each_store_is_looked_into_and_an_id_that_one_takes_is_no_fault() {
        let (_first, first, _) = store(&[]);
        let (second_folder, second, _) = store(&[]);
        let flat = second_folder.path().canonicalize().unwrap().join("t é/a");
        fs::create_dir_all(&flat).unwrap();
        fs::write(flat.join("x"), "old").unwrap();
        let at = |task: &str| KeptFileAt {
            stream: StreamId::task("agent", task).unwrap(),
            version: Version(1),
            position: Position(1),
            artifact_id: "a".to_owned(),
            part: 1,
            file: kept("x", b"old"),
        };
        let files = StoredFiles::new([first.clone(), second.clone(), second.layout_of_0_2_0()]);
        assert_eq!(files.fault(&at("t é")), None);
        let refused = first.fault(&at("t é")).unwrap();
        assert!(refused.starts_with("artifact a, part 1: Invalid task id"), "{refused}");
        assert!(first.fault(&at("t")).unwrap().ends_with("is missing"));
    }
}
