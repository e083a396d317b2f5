//! Small files beside the log, replaced as a whole: a reader sees the old one or the new one, never a part.

use std::fs::File;
use std::io;
use std::io::Write as _;
use std::path::Path;

/// Ending of a file that is being written.
pub(crate) const NEW: &str = ".new";

/// Writes `name` in `dir`, durably and as a whole.
pub(crate) fn replace(dir: &Path, name: &str, text: &str) -> io::Result<()> {
    let new = dir.join(format!("{name}{NEW}"));
    let mut file = File::create(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&new, dir.join(name))?;
    sync_dir(dir)
}

/// Reads `name` in `dir`, if it exists, up to 64 KiB: no file of ours is longer.
pub(crate) fn read(dir: &Path, name: &str) -> io::Result<Option<String>> {
    use io::Read as _;
    let file = match File::open(dir.join(name)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut text = String::new();
    file.take(64 * 1024).read_to_string(&mut text)?;
    Ok(Some(text))
}

/// Makes the names in a directory durable. Systems whose directories cannot be opened do this by themselves.
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    if cfg!(unix) {
        File::open(dir)?.sync_all()?;
    }
    Ok(())
}
