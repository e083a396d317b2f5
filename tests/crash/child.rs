//! The parent's control of the child: starts it, reads its lines, kills it at a random line.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use proto_events::id::{StreamId, Version};

use crate::dice::Dice;

/// The variable that marks the child and holds its directory.
pub(crate) const BASE: &str = "TASKREEL_CRASH_BASE";
/// The variable that holds the seed of the child's dice.
pub(crate) const SEED: &str = "TASKREEL_CRASH_SEED";
/// The ignored test that is the child's entry.
pub(crate) const ENTRY: &str = "the_child_of_the_kill_test";

/// The maximum silence of a living child.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// The maximum number of lines after the first acknowledgement before the child is killed.
const WORDS_MAX: u64 = 600;

/// A line in which the child reports something as on disk.
#[derive(Debug, Clone)]
pub(crate) struct Ack {
    pub(crate) stream: StreamId,
    pub(crate) version: Version,
    pub(crate) what: What,
}

/// The reason why the child knew.
#[derive(Debug, Clone)]
pub(crate) enum What {
    /// A command was acknowledged.
    Answered,
    /// A record with this leaf hash was published.
    Published(String),
    /// The task came to rest in this state.
    Ended(String),
}

impl Ack {
    fn read(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let (kind, stream, version) = (words.next()?, words.next()?, words.next()?);
        let what = match kind {
            "ack" => What::Answered,
            "seen" => What::Published(words.next()?.to_owned()),
            "end" => What::Ended(words.next()?.to_owned()),
            _ => return None,
        };
        let (stream, version) = (StreamId::parse(stream).ok()?, Version(version.parse().ok()?));
        Some(Self { stream, version, what })
    }
}

/// A child that is killed when this is dropped.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        // It may be dead already, as intended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Lets a child work on `base` and kills it at a random moment under load. Returns its acknowledgements.
pub(crate) fn work_and_die(base: &Path, seed: u64, dice: &mut Dice) -> Vec<Ack> {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", ENTRY, "--ignored", "--nocapture", "--test-threads=1"])
        .env(BASE, base)
        .env(SEED, seed.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut child = Guard(child);
    let mut said = BufReader::new(child.0.stdout.take().unwrap());
    let (tell, told) = channel();
    let listener = std::thread::spawn(move || {
        let mut line = String::new();
        // A line without an end does not count: the child died while writing it.
        while said.read_line(&mut line).is_ok_and(|_| line.ends_with('\n')) {
            let _nobody_listens_at_the_end = tell.send(line.trim_end().to_owned());
            line.clear();
        }
    });
    let mut acks = Vec::new();
    let words = dice.below(WORDS_MAX);
    let mut left = None;
    while left != Some(0) {
        let ack = Ack::read(&next_line(&told));
        left = match (left, &ack) {
            (Some(left), _) => Some(left - 1),
            (None, Some(ack)) if matches!(ack.what, What::Answered) => Some(words),
            (None, _) => None,
        };
        acks.extend(ack);
    }
    drop(child);
    // Lines from before its death count as well.
    listener.join().unwrap();
    acks.extend(told.try_iter().filter_map(|line| Ack::read(&checked(line))));
    acks
}

fn next_line(told: &Receiver<String>) -> String {
    match told.recv_timeout(SILENCE_MAX) {
        Ok(line) => checked(line),
        Err(RecvTimeoutError::Timeout) => panic!("the child says nothing: it hangs"),
        Err(RecvTimeoutError::Disconnected) => panic!("the child ended before it was killed"),
    }
}

fn checked(line: String) -> String {
    assert!(!line.starts_with("error "), "the child met an error: {line}");
    line
}
