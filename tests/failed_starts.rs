//! A start that fails after it was recorded, because the process has no descriptor left for the actors' runtime: the log
//! says that it ended, and why.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "in a test a panic is the answer, in helpers too")]

use std::fs::File;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proto_events::envelope::Timestamp;
use proto_events::id::{StreamId, Version};
use proto_events::system::SystemEvent;
use taskreel::{Builder, System};
use taskreel_log::api::{EventReader, EventStore};
use taskreel_log::memory::MemoryStore;
use taskreel_log::ports::{Clock, Ports, RandomIds, Sleep, SystemClock};
use taskreel_log::read::decode_record;

/// The entry of the process that has few descriptors.
const ENTRY: &str = "the_process_with_few_descriptors";

/// A clock that takes all descriptors that the process may have, each time it is asked, once it is told to.
#[derive(Default)]
struct Greedy {
    is_told_to: AtomicBool,
    taken: Mutex<Vec<File>>,
}

impl Greedy {
    fn begin(&self) {
        self.is_told_to.store(true, Ordering::SeqCst);
    }

    fn end(&self) {
        self.is_told_to.store(false, Ordering::SeqCst);
        self.taken.lock().unwrap().clear();
    }
}

impl Clock for Greedy {
    fn now(&self) -> Timestamp {
        if self.is_told_to.load(Ordering::SeqCst) {
            self.taken.lock().unwrap().extend(std::iter::from_fn(|| File::open("/dev/null").ok()));
        }
        SystemClock.now()
    }

    fn sleep(&self, time: Duration) -> Sleep {
        SystemClock.sleep(time)
    }
}

fn builder(store: &Arc<MemoryStore>, clock: &Arc<Greedy>) -> Builder {
    let ports = Ports { clock: Arc::clone(clock) as Arc<dyn Clock>, ids: Arc::new(RandomIds) };
    System::builder("-").store(Arc::clone(store) as Arc<dyn EventStore>).ports(ports)
}

/// Returns the system's own events, in order.
fn events(store: &dyn EventReader) -> Vec<SystemEvent> {
    let stream = StreamId::of_system(0);
    let mut events = Vec::new();
    for record in store.read_stream(&stream, Version(1), usize::MAX).unwrap() {
        events.extend(
            decode_record::<SystemEvent>(&record).unwrap().into_iter().map(|recorded| recorded.event),
        );
    }
    events
}

/// Whether the last start of the log is followed by an end with a reason about descriptors.
fn last_start_failed(store: &dyn EventReader) -> bool {
    let events = events(store);
    matches!(
        events.as_slice(),
        [.., SystemEvent::Started(started), SystemEvent::Stopped { epoch, reason: Some(why) }]
            if *epoch == started.epoch && why.contains("Too many open files")
    )
}

#[test]
#[ignore = "not a test: the process that has few descriptors"]
fn the_process_with_few_descriptors() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (store, clock) = (Arc::new(MemoryStore::new()), Arc::new(Greedy::default()));
    runtime.block_on(async {
        clock.begin();
        let failed = builder(&store, &clock).start().await.unwrap_err();
        assert!(failed.to_string().contains("Too many open files"), "{failed}");
        assert!(last_start_failed(store.as_ref()), "{:?}", events(store.as_ref()));
        clock.end();

        let system = builder(&store, &clock).start().await.unwrap();
        clock.begin();
        let failed = system.reopen().await.unwrap_err();
        clock.end();
        assert!(failed.to_string().contains("Too many open files"), "{failed}");
        let log = system.log();
        assert!(last_start_failed(log.as_ref()), "{:?}", events(log.as_ref()));
        system.reopen().await.unwrap();
        let log = system.log();
        let reasons: Vec<bool> = events(log.as_ref())
            .iter()
            .filter_map(|event| match event {
                SystemEvent::Stopped { reason, .. } => Some(reason.is_some()),
                SystemEvent::Started(_) | SystemEvent::ToolServerSeen(_) => None,
            })
            .collect();
        assert_eq!(reasons, [true, true], "{:?}", events(log.as_ref()));
        system.shutdown().await.unwrap();
        println!("all was as it must be");
    });
}

#[test]
fn a_start_that_fails_after_it_was_recorded_is_recorded_as_ended_with_its_reason() {
    let child = Command::new("sh")
        .args(["-c", "ulimit -n 48; exec \"$0\" --exact \"$1\" --ignored --nocapture --test-threads=1"])
        .arg(std::env::current_exe().unwrap())
        .arg(ENTRY)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(said.contains("all was as it must be"), "{said}{}", String::from_utf8_lossy(&child.stderr));
}
