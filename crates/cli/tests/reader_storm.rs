//! A storm of readers beside many writers: processes of `verify`, `tail` and `export`, each again and again, beside a program
//! whose callers append as fast as they are answered. Nothing is lost, and no reader is refused. `TASKREEL_STORM_SECS` sets its
//! length in seconds, `TASKREEL_STORM_WRITERS` and `TASKREEL_STORM_READERS` its size: by default it is small, and the whole one has
//! 256 writers, 50 readers and 600 seconds. The figures are printed without `-- --nocapture`.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests only")]

mod binary;

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStderr, ChildStdout, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use binary::Place;
use proto_events::id::Position;
use proto_events::json;
use proto_events::json::JsonText;
use proto_events::model::Message;
use proto_events::task::TaskCommand;
use taskreel::{Error, PostedTask, System};
use taskreel_log::api::ReadError;
use taskreel_log::audit::verify;
use taskreel_log::ports::Ports;
use taskreel_log::read::for_each_record;

const LOG: &str = "taskreel-log";
/// The number of events of a task, each an append of its own.
const EVENTS_EACH: u64 = 20;
/// The number of lines that one `tail` reads.
const TAIL_LINES: usize = 2_000;
/// The longest time for which the writers work alone. What they write then is read by each reader again and again: a minute's
/// work of two processors would keep fifty readers busy for longer than the storm.
const ALONE_AT_MOST: Duration = Duration::from_secs(5);
/// The longest time beyond its length for which a storm waits for the first reading of each kind.
const LONGER: Duration = Duration::from_secs(180);

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().unwrap())
}

/// Prints a line past the test harness, which would hide it.
fn say(line: &str) {
    let _nobody_may_listen = writeln!(std::io::stderr(), "{line}");
}

/// The work of all readers.
#[derive(Default)]
struct Tally {
    verified: AtomicU64,
    exported: AtomicU64,
    tailed: AtomicU64,
    /// The lines and bytes that they printed.
    lines: AtomicU64,
    bytes: AtomicU64,
}

impl Tally {
    /// Whether each command has ended well at least once.
    fn has_all(&self) -> bool {
        [&self.verified, &self.exported, &self.tailed].iter().all(|count| count.load(Ordering::Acquire) > 0)
    }
}

/// The acknowledged appends: in all, and the last version of each task.
#[derive(Default)]
struct Acknowledged {
    count: AtomicU64,
    versions: Mutex<HashMap<String, u64>>,
    number: AtomicU64,
    /// The commands that were refused because too much was queued, and sent again.
    refused: AtomicU64,
}

/// The time for each append of all writers, in milliseconds.
struct Written {
    laps: Vec<f64>,
    spent: Duration,
}

impl Written {
    #[allow(clippy::cast_precision_loss, reason = "no count here comes near 2^52")]
    fn per_second(&self) -> f64 {
        self.laps.len() as f64 / self.spent.as_secs_f64()
    }

    fn percentile(&self, share: usize) -> f64 {
        self.laps[(self.laps.len() * share / 100).min(self.laps.len() - 1)]
    }
}

/// Writes with this many callers for as long as they are told to.
async fn write(system: &System, writers: u64, known: &Arc<Acknowledged>, goes_on: Arc<GoesOn>) -> Written {
    let begin = Instant::now();
    let callers = (0..writers).map(|_| {
        let (system, known, goes_on) = (system.clone(), Arc::clone(known), Arc::clone(&goes_on));
        tokio::spawn(async move {
            let mut laps = Vec::new();
            while goes_on() {
                one_task(&system, &known, &mut laps).await;
            }
            laps
        })
    });
    let callers: Vec<_> = callers.collect();
    let mut laps = Vec::new();
    for caller in callers {
        laps.extend(caller.await.unwrap());
    }
    let spent = begin.elapsed();
    laps.sort_by(f64::total_cmp);
    Written { laps, spent }
}

type GoesOn = dyn Fn() -> bool + Send + Sync;

/// Makes a task, one append after another.
async fn one_task(system: &System, known: &Acknowledged, laps: &mut Vec<f64>) {
    let id = format!("task-{:08}", known.number.fetch_add(1, Ordering::Relaxed));
    let task = system.task(&id).unwrap();
    for version in 1..=EVENTS_EACH {
        let parts = json!([{"type": "text", "content": "durable ".repeat(30)}]);
        let message = json!({"id": format!("{id}-{version}"), "role": "user", "parts": parts});
        let command = if version == 1 {
            let posted = JsonText::from(json!({"id": id.clone(), "messages": [message]}));
            TaskCommand::Submit(Box::new(PostedTask::from_json(&posted, &mut Ports::default()).unwrap()))
        } else {
            let message = JsonText::from(message);
            TaskCommand::AppendMessage(Message::from_json(&message, &mut Ports::default()).unwrap())
        };
        let lap = Instant::now();
        let committed = loop {
            match task.command(command.clone()).await {
                Ok(committed) => break committed,
                // Nothing was done, and the caller is told to try again.
                Err(Error::Overloaded { .. }) => {
                    known.refused.fetch_add(1, Ordering::Relaxed);
                    tokio::task::yield_now().await;
                }
                Err(error) => panic!("{id}: {error}"),
            }
        };
        laps.push(lap.elapsed().as_secs_f64() * 1_000.0);
        assert_eq!(committed.version.0, version);
        known.count.fetch_add(1, Ordering::AcqRel);
    }
    known.versions.lock().unwrap().insert(id, EVENTS_EACH);
}

/// The processes that read at the moment. They are killed when the storm is over.
#[derive(Default)]
struct Readers {
    is_over: AtomicBool,
    children: Mutex<HashMap<u32, Arc<Mutex<Child>>>>,
}

impl Readers {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        for child in self.children.lock().unwrap().values() {
            child.lock().unwrap().kill().unwrap();
        }
    }
}

/// A child process that reads. It is killed when it is dropped.
struct Reader<'a> {
    readers: &'a Readers,
    id: u32,
    child: Arc<Mutex<Child>>,
    out: BufReader<ChildStdout>,
    err: ChildStderr,
}

impl<'a> Reader<'a> {
    fn start(readers: &'a Readers, place: &Place, line: &str) -> Self {
        let mut command = place.command(line.split_whitespace());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (id, err) = (child.id(), child.stderr.take().unwrap());
        let child = Arc::new(Mutex::new(child));
        readers.children.lock().unwrap().insert(id, Arc::clone(&child));
        if readers.is_over() {
            child.lock().unwrap().kill().unwrap();
        }
        Self { readers, id, child, out, err }
    }

    /// Reads a line. Returns false at the end, and for a line that was cut off.
    fn line(&mut self, line: &mut Vec<u8>) -> bool {
        line.clear();
        self.out.read_until(b'\n', line).unwrap();
        line.ends_with(b"\n")
    }

    /// Waits for the end, which must be a good one, unless the storm is over. Returns whether it is one. `printed` is what
    /// it printed.
    fn has_ended(&mut self, printed: &str) -> bool {
        let mut said = String::new();
        self.err.read_to_string(&mut said).unwrap();
        let status = self.child.lock().unwrap().wait().unwrap();
        assert!(status.success() || self.readers.is_over(), "{status}: {said}\n{printed}");
        status.success()
    }
}

impl Reader<'_> {
    /// Ends a reader that would go on, and returns what it said.
    fn stopped(&mut self) -> String {
        // It may have ended already.
        let _ = self.child.lock().unwrap().kill();
        let mut said = String::new();
        self.err.read_to_string(&mut said).unwrap();
        said
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        self.readers.children.lock().unwrap().remove(&self.id);
        let mut child = self.child.lock().unwrap();
        // It may have ended already.
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Reads the log in one way until the storm is over: a whole reading each time.
fn read(place: &Place, way: usize, known: &Acknowledged, readers: &Readers, tally: &Tally) {
    // A copy cannot be made: a file stands in the place of its folder.
    let (mut line, mut newest, mut printed) = (Vec::new(), 0, String::new());
    while !readers.is_over() {
        let before = known.count.load(Ordering::Acquire);
        let command = ["verify", "export", "tail --json"][way].to_owned() + " --scratch no-folder";
        let mut reader = Reader::start(readers, place, &command);
        let (mut lines, mut bytes) = (0_usize, 0_usize);
        while (way != 2 || lines < TAIL_LINES) && reader.line(&mut line) {
            (lines, bytes) = (lines + 1, bytes + line.len());
            if way == 0 {
                printed.push_str(&String::from_utf8_lossy(&line));
            }
            if way == 2 {
                newest = follows(&line, if lines == 1 { None } else { Some(newest) });
            }
        }
        let is_whole = if way == 2 { lines == TAIL_LINES } else { reader.has_ended(&printed) };
        if way == 2 && is_whole {
            // Whoever is refused at the socket says so, and reads copies.
            let said = reader.stopped();
            assert!(!said.contains("copy") && !said.contains("busy"), "`tail` was refused: {said}");
        }
        if !is_whole {
            assert!(readers.is_over(), "`tail` ended by itself after {lines} lines");
            return;
        }
        printed.clear();
        if way == 1 {
            // One line for each record, a first and a last one: all that was acknowledged before it began.
            assert!(lines as u64 >= before + 2, "{lines} lines after {before} acknowledged appends");
        }
        let count = [&tally.verified, &tally.exported, &tally.tailed][way];
        count.fetch_add(1, Ordering::Relaxed);
        tally.lines.fetch_add(lines as u64, Ordering::Relaxed);
        tally.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// Returns the position of an event that `tail` printed, which follows the one before.
fn follows(line: &[u8], before: Option<u64>) -> u64 {
    let event: serde_json::Value = serde_json::from_slice(line).unwrap();
    let position = event["position"].as_u64().unwrap();
    if let Some(before) = before {
        assert_eq!(position, before + 1, "an event was left out or repeated");
    }
    position
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_that_read_beside_many_writers_lose_nothing_and_are_never_refused() {
    let time = Duration::from_secs(setting("TASKREEL_STORM_SECS", 3));
    let (writers, readers) = (setting("TASKREEL_STORM_WRITERS", 32), setting("TASKREEL_STORM_READERS", 6));
    let (place, known, tally) = (Arc::new(Place::new()), Arc::default(), Arc::new(Tally::default()));
    std::fs::write(place.path().join("no-folder"), "").unwrap();
    let system = System::builder(place.path().join(LOG)).start().await.unwrap();
    assert_eq!(system.socket_fault(), None);
    let until = Instant::now() + (time / 10).clamp(Duration::from_secs(1), ALONE_AT_MOST);
    let alone = write(&system, writers, &known, Arc::new(move || Instant::now() < until)).await;
    let reading = Arc::new(Readers::default());
    let threads: Vec<_> = (0..usize::try_from(readers).unwrap())
        .map(|number| {
            let (place, known, tally) = (Arc::clone(&place), Arc::clone(&known), Arc::clone(&tally));
            let reading = Arc::clone(&reading);
            std::thread::spawn(move || read(&place, number % 3, &known, &reading, &tally))
        })
        .collect();
    let until = Instant::now() + time;
    let read = Arc::clone(&tally);
    // On a busy machine it lasts until each command has read the log once.
    let goes_on = move || Instant::now() < until || (!read.has_all() && Instant::now() < until + LONGER);
    let beside = write(&system, writers, &known, Arc::new(goes_on)).await;
    reading.end();
    for thread in threads {
        thread.join().unwrap();
    }
    check(&system, &known);
    system.shutdown().await.unwrap();
    place.run("verify").ended(0);
    print(&alone, &beside, &tally, known.refused.load(Ordering::Relaxed), (writers, readers));
}

/// Checks that all that was acknowledged is there, and nothing else of these tasks, in unbroken chains.
fn check(system: &System, known: &Acknowledged) {
    let (log, mut found) = (system.log(), HashMap::new());
    for_each_record(log.as_ref(), Position(1), |stored| {
        let id = stored.record.stream.id();
        if id.starts_with("task-") {
            found.insert(id, stored.record.last_version().0);
        }
        Ok::<_, ReadError>(())
    })
    .unwrap();
    assert_eq!(found, *known.versions.lock().unwrap());
    let events: u64 = found.values().sum();
    assert_eq!(events, known.count.load(Ordering::Acquire));
    assert_eq!(verify(log.as_ref()).findings, []);
}

fn print(alone: &Written, beside: &Written, tally: &Tally, refused: u64, size: (u64, u64)) {
    let (writers, readers) = size;
    let told = |count: &AtomicU64| count.load(Ordering::Acquire);
    let rate = |written: &Written| {
        let (per_second, p50, p99) = (written.per_second(), written.percentile(50), written.percentile(99));
        format!(
            "{} appends in {:.0?}: {per_second:.0}/s, p50 {p50:.1} ms, p99 {p99:.1} ms",
            written.laps.len(),
            written.spent
        )
    };
    say(&format!("reader storm: {writers} writers alone: {}", rate(alone)));
    say(&format!("reader storm: beside {readers} readers: {}", rate(beside)));
    say(&format!("reader storm: {refused} commands were refused as overloaded and sent again"));
    say(&format!(
        "reader storm: lost 0, refused 0; whole readings: {} verify, {} export; {} tail of {TAIL_LINES} events; {} lines, {} MB",
        told(&tally.verified),
        told(&tally.exported),
        told(&tally.tailed),
        told(&tally.lines),
        told(&tally.bytes) / 1_000_000
    ));
    assert!(tally.has_all(), "a command never came to its end");
}
