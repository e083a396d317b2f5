//! The process that opens damaged logs, one after another, and its parent, which enforces the deadline.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use taskreel_log::api::EventStore as _;
use taskreel_log::sled::SledStore;

use crate::base::{Base, copy, proven_by};
use crate::damage::{Damage, How};
use crate::outcome;

const ROOT: &str = "TASKREEL_CORRUPTION_ROOT";
const ENTRY: &str = "the_opener_of_damaged_logs";
/// The maximum time to open and read one log.
const WATCHDOG: Duration = Duration::from_secs(10);

/// Opens each log named on standard input, until its end; runs in the child.
pub(crate) fn work() {
    let Some(root) = std::env::var_os(ROOT) else {
        return;
    };
    let root = Path::new(&root);
    for line in std::io::stdin().lines() {
        let damage: Damage = line.unwrap().parse().unwrap();
        let (dir, told) =
            (root.join("damaged"), fs::read_to_string(root.join(format!("{}.hashes", damage.base))));
        let told = told.unwrap();
        let (proven, hashes) = told.split_once('\n').unwrap();
        let mut hashes: Vec<String> = hashes.lines().map(str::to_owned).collect();
        let mut proven: usize = proven.parse().unwrap();
        let earlier = root.join(format!("{}-earlier", damage.base));
        copy(&root.join(&damage.base), &dir);
        if damage.how == How::Backup {
            // The log goes on after the backup, and is opened again: its snapshot is of what the backup does not have.
            SledStore::open(&dir).unwrap().close().unwrap();
            // The backup is a whole log of its own.
            proven = proven_by(&earlier);
            hashes.truncate(proven);
        }
        damage.inflict(&earlier, &dir);
        let outcome = outcome::of(&dir, &hashes, proven);
        let mut out = std::io::stdout().lock();
        out.write_all(format!("\nOUTCOME {}\n", outcome.line()).as_bytes())
            .and_then(|()| out.flush())
            .unwrap();
    }
}

/// A child that is killed when this is dropped.
struct Opener {
    child: Child,
    lines: Receiver<String>,
}

impl Drop for Opener {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Opener {
    fn start(root: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", ENTRY, "--nocapture", "--test-threads=1"])
            .env(ROOT, root)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        let (tell, lines) = channel();
        std::thread::spawn(move || {
            for line in said.lines().map_while(Result::ok) {
                if let Some(outcome) = line.strip_prefix("OUTCOME ") {
                    let _nobody_may_listen = tell.send(outcome.to_owned());
                }
            }
        });
        Self { child, lines }
    }

    fn ask(&mut self, damage: &Damage) -> Result<String, String> {
        let stdin = self.child.stdin.as_mut().unwrap();
        writeln!(stdin, "{damage}").map_err(|error| format!("DIED before it was asked: {error}"))?;
        self.lines.recv_timeout(WATCHDOG).map_err(|_| match self.child.try_wait().unwrap() {
            Some(status) => format!("DIED {status}"),
            None => "HUNG".to_owned(),
        })
    }
}

/// Inflicts each damage on a copy of its log and has the log opened. Returns the outcome of each.
pub(crate) fn open_all(root: &Path, bases: &[Base], damages: &[Damage]) -> Vec<String> {
    for base in bases {
        let hashes = format!("{}\n{}\n", base.proven, base.hashes.join("\n"));
        fs::write(root.join(format!("{}.hashes", base.name)), hashes).unwrap();
    }
    let mut opener = Opener::start(root);
    let mut outcomes = Vec::new();
    for damage in damages {
        let answer = opener.ask(damage);
        if answer.is_err() {
            opener = Opener::start(root);
        }
        outcomes.push(answer.unwrap_or_else(|gone| gone));
    }
    outcomes
}
