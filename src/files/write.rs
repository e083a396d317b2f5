//! Files written as a whole: to a name of its own, synced, then named, so that a crash leaves the old file or the new
//! one, and never a part.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::files::digest::digest_of_bytes;
use crate::files::error::FileError;
use crate::files::folder::Folder;
use crate::files::folder::kind::MissingFolder;
use crate::files::name::distinguished;

/// The bytes that are compared of a file at a time.
const PIECE: usize = 64 * 1024;

/// The folder in a store's for files that are being written, where no reader looks.
pub(super) const UNFINISHED: &str = ".taskreel-tmp";

/// The number of times that the folder for unfinished files is opened anew for one file.
const OPENS_MAX: u32 = 100;

/// The age at which an unfinished file is one of a program that was killed.
const LEFT_AFTER: Duration = Duration::from_secs(3_600);

/// A file that is whole, and does not have its name yet.
struct UnnamedFile {
    folder: Folder,
    name: String,
}

/// Replaces a file in a store's folder, or makes it.
pub(super) fn replace(root: &Path, name: &str, bytes: &[u8]) -> Result<(), FileError> {
    let path = root.join(name);
    let (whole, folder) = (UnnamedFile::written(root, bytes)?, Folder::made(root, root)?);
    if let Err(error) = whole.folder.rename(&whole.name, &folder, name) {
        let _ = whole.folder.remove(&whole.name);
        return Err(FileError::io("cannot name", &path)(error));
    }
    folder.sync().map_err(FileError::io("cannot sync", root))
}

/// A folder below a store's to which files are added that replace none.
pub(super) struct FileAddition<'a> {
    root: &'a Path,
    path: &'a Path,
    folder: Folder,
}

impl<'a> FileAddition<'a> {
    /// Opens the folder, which is made if it is missing.
    pub(super) fn to(root: &'a Path, path: &'a Path) -> Result<Self, FileError> {
        Ok(Self { root, path, folder: Folder::made(root, path)? })
    }

    /// Makes a file under its own name, or under one with its digest if another content has that. The same content under one of
    /// these names is the same file, an artifact that is saved again: nothing is written then, so that a repetition needs no
    /// free space.
    pub(super) fn add(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, FileError> {
        for tried in names(name, bytes) {
            match self.content(&tried, bytes)? {
                ContentComparison::None => break,
                ContentComparison::Equal => return Ok(self.path.join(tried)),
                ContentComparison::Other => {}
            }
        }
        let whole = UnnamedFile::written(self.root, bytes)?;
        let named = self.first_free(name, &whole, bytes);
        // It is gone where it was moved.
        let removed = whole.folder.remove(&whole.name).or_else(|error| match error.kind() {
            ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        });
        let path = named?;
        removed.map_err(FileError::io("cannot remove a file in", &self.root.join(UNFINISHED)))?;
        Ok(path)
    }

    /// Makes the names of the files durable.
    pub(super) fn finish(self) -> Result<(), FileError> {
        self.folder.sync().map_err(FileError::io("cannot sync", self.path))
    }

    fn first_free(&self, name: &str, whole: &UnnamedFile, bytes: &[u8]) -> Result<PathBuf, FileError> {
        for tried in names(name, bytes) {
            match whole.named(&self.folder, &tried, bytes) {
                Ok(()) => return Ok(self.path.join(tried)),
                // Another writer may have been faster.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    if self.content(&tried, bytes)? == ContentComparison::Equal {
                        return Ok(self.path.join(tried));
                    }
                }
                Err(error) => return Err(FileError::io("cannot name", &self.path.join(tried))(error)),
            }
        }
        Err(FileError::NameTaken { path: self.path.join(name) })
    }

    /// Compares what stands under a name. An equal content is synced: its writer may not have come to that.
    fn content(&self, name: &str, bytes: &[u8]) -> Result<ContentComparison, FileError> {
        let mut file = match self.folder.opened(name) {
            Ok(Some(file)) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(ContentComparison::None),
            // What cannot be read is not known to be equal.
            Ok(None) | Err(_) => return Ok(ContentComparison::Other),
        };
        if !is_equal(&mut file, bytes).unwrap_or(false) {
            return Ok(ContentComparison::Other);
        }
        file.sync_all().map_err(FileError::io("cannot sync", &self.path.join(name)))?;
        Ok(ContentComparison::Equal)
    }
}

/// The result of a comparison of what stands under a name with a content.
#[derive(PartialEq, Eq)]
enum ContentComparison {
    None,
    Equal,
    Other,
}

/// Returns the names that are tried for a content, in their order. Its digest is taken with the second one.
fn names(name: &str, bytes: &[u8]) -> impl Iterator<Item = String> {
    let others = std::iter::once_with(move || distinguished(name, &digest_of_bytes(bytes))).flatten();
    std::iter::once(name.to_owned()).chain(others)
}

/// Whether a file has this content.
fn is_equal(file: &mut File, mut bytes: &[u8]) -> io::Result<bool> {
    if file.metadata()?.len() != bytes.len() as u64 {
        return Ok(false);
    }
    let mut piece = vec![0; PIECE.min(bytes.len().max(1))];
    loop {
        let read = file.read(&mut piece)?;
        let Some(found) = piece.get(..read).filter(|found| !found.is_empty()) else {
            return Ok(bytes.is_empty());
        };
        match bytes.strip_prefix(found) {
            Some(rest) => bytes = rest,
            None => return Ok(false),
        }
    }
}

impl UnnamedFile {
    /// Writes a synced file under a name that nobody looks for.
    fn written(root: &Path, bytes: &[u8]) -> Result<Self, FileError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let path = root.join(UNFINISHED);
        let mut opens = 0;
        loop {
            let folder = match unfinished(root, MissingFolder::None)? {
                Some(folder) => Some(folder),
                None => unfinished(root, MissingFolder::Made)?,
            };
            let missing = || FileError::io("cannot make", &path)(ErrorKind::NotFound.into());
            let folder = folder.ok_or_else(missing)?;
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("{}-{number}.tmp", std::process::id());
            let file = match folder.create(&name) {
                // A program that had this process id was killed here.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                // Another program removed the empty folder.
                Err(error) if error.kind() == ErrorKind::NotFound && opens < OPENS_MAX => {
                    opens += 1;
                    continue;
                }
                file => file.map_err(FileError::io("cannot make", &path.join(&name)))?,
            };
            if let Err(error) = fill(file, bytes) {
                let _ = folder.remove(&name);
                return Err(FileError::io("cannot write", &path.join(&name))(error));
            }
            return Ok(Self { folder, name });
        }
    }

    /// Gives the file a name that no other has. Where the file system has no hard links it is moved, and where it cannot move
    /// without replacing, the file is written once more: a crash may then leave a part of it.
    fn named(&self, folder: &Folder, name: &str, bytes: &[u8]) -> io::Result<()> {
        match self.folder.link(&self.name, folder, name) {
            Err(error) if lacks_support(&error) => {}
            linked => return linked,
        }
        match self.folder.move_new(&self.name, folder, name) {
            Err(error) if lacks_support(&error) => {}
            moved => return moved,
        }
        let filled = fill(folder.create(name)?, bytes);
        if filled.is_err() {
            let _ = folder.remove(name);
        }
        filled
    }
}

/// Whether a file system says that it does not have an operation.
fn lacks_support(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::PermissionDenied
            | ErrorKind::Unsupported
            | ErrorKind::CrossesDevices
            | ErrorKind::TooManyLinks
            | ErrorKind::InvalidInput
    )
}

/// Opens the folder for unfinished files, which is not a link: what is left there is removed.
fn unfinished(root: &Path, missing: MissingFolder) -> Result<Option<Folder>, FileError> {
    let path = root.join(UNFINISHED);
    let Some(folder) = Folder::within(root, root, MissingFolder::None)? else { return Ok(None) };
    match folder.below(OsStr::new(UNFINISHED), missing) {
        Ok(folder) => Ok(Some(folder)),
        Err(error) if error.kind() == ErrorKind::NotFound && missing == MissingFolder::None => Ok(None),
        Err(error) if Folder::is_link(&error) => Err(FileError::Escapes { path }),
        Err(error) => Err(FileError::io("cannot open", &path)(error)),
    }
}

fn fill(mut file: File, bytes: &[u8]) -> io::Result<()> {
    file.write_all(bytes)?;
    file.sync_all()
}

/// Removes the unfinished files that programs left when they were killed.
pub(super) fn remove_left(root: &Path) -> Result<(), FileError> {
    let path = root.join(UNFINISHED);
    let Some(folder) = unfinished(root, MissingFolder::None)? else { return Ok(()) };
    for (name, _) in folder.entries().map_err(FileError::io("cannot read", &path))? {
        // Another program may be writing one, or removing the same.
        if folder.age(&name).is_ok_and(|age| age > LEFT_AFTER)
            && let Err(error) = folder.remove_folder(&name)
            && error.kind() != ErrorKind::NotFound
        {
            tracing::warn!(path = %path.join(&name).display(), %error, "an unfinished file cannot be removed");
        }
    }
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::files::folder::missing_operations::{Lacks, lack};

    #[test]
    fn without_hard_links_files_are_named_too_and_none_is_replaced() {
        for lacking in [Lacks::Nothing, Lacks::Links, Lacks::Moves] {
            lack(lacking);
            let folder = tempfile::tempdir().unwrap();
            let root = folder.path().canonicalize().unwrap();
            let path = root.join("a");
            let adding = FileAddition::to(&root, &path).unwrap();
            let two = format!("x-{}.txt", &digest_of_bytes(b"two")[..16]);
            for (content, name) in [("one", "x.txt"), ("two", &two), ("one", "x.txt"), ("two", &two)] {
                let saved = adding.add("x.txt", content.as_bytes()).unwrap();
                assert_eq!(saved, path.join(name), "{lacking:?}");
                assert_eq!(fs::read_to_string(saved).unwrap(), content);
            }
            adding.finish().unwrap();
            assert_eq!(fs::read_dir(root.join(UNFINISHED)).unwrap().count(), 0, "{lacking:?}");
            assert_eq!(fs::read_dir(&path).unwrap().count(), 2, "{lacking:?}");
        }
        lack(Lacks::Nothing);
    }

    #[test]
    fn what_is_there_is_not_written_again_and_a_hostile_name_costs_a_longer_digest() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let path = root.join("a");
        let adding = FileAddition::to(&root, &path).unwrap();
        let [short, long] = distinguished("x", &digest_of_bytes(b"two"));
        let saved = adding.add("x", b"one").unwrap();
        // Where nothing can be written, as on a full disk, a repetition goes well.
        fs::remove_dir(root.join(UNFINISHED)).unwrap();
        fs::write(root.join(UNFINISHED), "no folder").unwrap();
        assert_eq!(adding.add("x", b"one").unwrap(), saved);
        assert!(adding.add("x", b"two").is_err());
        fs::remove_file(root.join(UNFINISHED)).unwrap();
        fs::write(path.join(&short), "put there").unwrap();
        for _ in 0..2 {
            assert_eq!(adding.add("x", b"two").unwrap(), path.join(&long));
        }
        fs::write(path.join(&long), "put there").unwrap();
        assert!(matches!(adding.add("x", b"two"), Err(FileError::NameTaken { .. })));
        assert_eq!(fs::read(&saved).unwrap(), b"one");
    }

    #[test]
    fn a_move_between_file_systems_is_a_lack_of_support() {
        assert!(lacks_support(&ErrorKind::CrossesDevices.into()));
        assert!(!lacks_support(&ErrorKind::StorageFull.into()));
    }

    #[test]
    fn a_link_in_the_place_of_the_folder_for_unfinished_files_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let kept = root.join("artifacts");
        fs::create_dir(&kept).unwrap();
        let old = File::create(kept.join("old")).unwrap();
        old.set_modified(std::time::SystemTime::now() - 2 * LEFT_AFTER).unwrap();
        symlink(&kept, root.join(UNFINISHED)).unwrap();
        assert!(matches!(remove_left(&root), Err(FileError::Escapes { .. })));
        assert!(matches!(replace(&root, "x", b"x"), Err(FileError::Escapes { .. })));
        assert!(kept.join("old").exists() && fs::read_dir(&kept).unwrap().count() == 1);
    }
}
