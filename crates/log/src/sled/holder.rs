//! The file `holder` beside the log names the process that has it open, for error messages. The lock itself
//! is the database's; a file left by a process that died means nothing.

use std::io;
use std::path::Path;

pub(crate) use crate::api::holder::Holder;
use crate::engine::files;
use crate::ports::{Clock as _, SystemClock};

/// Name of the file.
pub(crate) const HOLDER_FILE: &str = "holder";

impl Holder {
    /// Describes this process, with the current time.
    pub(crate) fn this() -> Self {
        let program = std::env::current_exe().ok();
        let name = program.as_deref().and_then(Path::file_name);
        Self {
            pid: std::process::id(),
            program: name.map_or_else(|| "unknown".to_owned(), |name| name.to_string_lossy().into_owned()),
            started: SystemClock.now().to_string(),
        }
    }

    /// Replaces the file in `dir`.
    pub(crate) fn write(&self, dir: &Path) -> io::Result<()> {
        let program = self.program.replace(char::is_control, "?");
        let text = format!("pid {}\nprogram {program}\nstarted {}\n", self.pid, self.started);
        files::replace(dir, HOLDER_FILE, &text)
    }

    /// Reads the file in `dir`; `None` if it is missing or cannot be parsed.
    pub(crate) fn read(dir: &Path) -> Option<Self> {
        let text = files::read(dir, HOLDER_FILE).ok()??;
        let mut lines = text.lines();
        Some(Self {
            pid: lines.next()?.strip_prefix("pid ")?.parse().ok()?,
            program: lines.next()?.strip_prefix("program ")?.to_owned(),
            started: lines.next()?.strip_prefix("started ")?.to_owned(),
        })
    }

    /// Removes the file if it names this holder, who must still have the database's lock.
    pub(crate) fn remove(&self, dir: &Path) {
        if Self::read(dir).as_ref() == Some(self) {
            // A file that stays is harmless: the next holder overwrites it.
            let _ = std::fs::remove_file(dir.join(HOLDER_FILE));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_comes_back_from_its_file() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Holder::read(dir.path()), None);
        let this = Holder::this();
        this.write(dir.path()).unwrap();
        assert_eq!(Holder::read(dir.path()), Some(this.clone()));
        Holder { pid: 1, ..this.clone() }.remove(dir.path());
        assert_eq!(Holder::read(dir.path()), Some(this.clone()), "it is another one's");
        this.remove(dir.path());
        assert_eq!(Holder::read(dir.path()), None);
    }
}
