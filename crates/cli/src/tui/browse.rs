//! The browser: a page of the server's inspector, or of one that is started beside the screen and ended with it.

use std::process::Child;
#[cfg(unix)]
use std::time::{Duration, Instant};

use crate::opened_log::{LogLocation, OpenedLog};
use crate::tui::data;

/// A server of pages that was started for the browser.
#[derive(Debug, Default)]
pub(crate) struct BrowserServer {
    started: Option<(Child, String)>,
}

impl Drop for BrowserServer {
    fn drop(&mut self) {
        if let Some((mut child, _)) = self.started.take() {
            stop_server(&mut child);
        }
    }
}

/// The time within which a server of pages ends in order.
#[cfg(unix)]
const ENDS_WITHIN: Duration = Duration::from_secs(10);

/// Ends a server of pages: in order, so that it removes its private copy; otherwise by force.
fn stop_server(child: &mut Child) {
    #[cfg(unix)]
    if std::process::Command::new("kill")
        .arg(child.id().to_string())
        .status()
        .is_ok_and(|sent| sent.success())
    {
        let began = Instant::now();
        while began.elapsed() < ENDS_WITHIN {
            match child.try_wait() {
                Ok(None) => std::thread::sleep(Duration::from_millis(10)),
                _ => break,
            }
        }
    }
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(feature = "inspector")]
impl BrowserServer {
    /// Opens the page of an event and returns its address.
    ///
    /// # Errors
    /// The reason in words.
    pub(crate) fn open(
        &mut self,
        opened: &OpenedLog,
        scratch: Option<&std::path::Path>,
        place: &data::EventRef,
    ) -> Result<String, String> {
        let base = match &opened.place {
            LogLocation::Server(_) => format!("{}/inspect", opened.name.trim_end_matches('/')),
            LogLocation::Dir(..) | LogLocation::File(_) => self.base(opened, scratch)?,
        };
        let address = crate::tui::link::page(&base, place).ok_or("this program has no pages")?;
        browser(&address)?;
        Ok(address)
    }

    /// Returns the address of the pages, which are served by a process of their own.
    fn base(&mut self, opened: &OpenedLog, scratch: Option<&std::path::Path>) -> Result<String, String> {
        use std::io::BufRead as _;
        use std::process::{Command, Stdio};
        if let Some((child, base)) = &mut self.started
            && child.try_wait().is_ok_and(|ended| ended.is_none())
        {
            return Ok(base.clone());
        }
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new(program);
        command.arg("inspect").arg("--json");
        match &opened.place {
            LogLocation::Dir(dir, _) => command.arg("--data-dir").arg(dir),
            LogLocation::File(file) => command.arg("--file").arg(file),
            LogLocation::Server(_) => return Err("the server has its own pages".to_owned()),
        };
        if let Some(scratch) = scratch {
            command.arg("--scratch").arg(scratch);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let out = child.stdout.take().ok_or("its output cannot be read")?;
        let mut line = String::new();
        let read = std::io::BufReader::new(out).read_line(&mut line);
        let said = read.ok().and_then(|_| serde_json::from_str::<serde_json::Value>(&line).ok());
        let url = said.as_ref().and_then(|said| said.get("url")?.as_str().map(str::to_owned));
        let Some(url) = url else {
            let _ = child.kill();
            let _ = child.wait();
            return Err("`taskreel inspect` did not start".to_owned());
        };
        let base = url.trim_end_matches('/').to_owned();
        self.started = Some((child, base.clone()));
        Ok(base)
    }
}

#[cfg(not(feature = "inspector"))]
impl BrowserServer {
    /// Refuses: this program has no pages.
    ///
    /// # Errors
    /// The reason in words.
    pub(crate) fn open(
        &mut self,
        _: &OpenedLog,
        _: Option<&std::path::Path>,
        _: &data::EventRef,
    ) -> Result<String, String> {
        Err("this program was built without the web inspector".to_owned())
    }
}

/// Opens an address in the user's browser, which writes nothing into the terminal.
#[cfg(feature = "inspector")]
fn browser(address: &str) -> Result<(), String> {
    use std::process::{Command, Stdio};
    let program = if cfg!(target_os = "macos") {
        "open"
    } else if cfg!(windows) {
        "explorer"
    } else {
        "xdg-open"
    };
    let mut command = Command::new(program);
    command.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let started = command.spawn();
    started.map(drop).map_err(|error| format!("{program} cannot be started ({error}); open {address}"))
}
