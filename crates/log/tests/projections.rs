//! Projections: each event counts once over aborts, poison is parked, a new revision is rebuilt beside the old one.
#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::collections::BTreeMap;
use std::sync::Arc;

use proto_events::codec::record::{EventBody, RecordDraft};
use proto_events::codec::{AnyEvent, Storable as _};
use proto_events::envelope::Metadata;
use proto_events::id::{Digest, ExpectedVersion, Position, StreamId, Version};
use proto_events::model::{Message, PostedTask};
use proto_events::task::TaskEvent;
use taskreel_log::api::{Append, AppendPart, EventReader, EventStore};
use taskreel_log::memory::MemoryStore;
use taskreel_log::ports::Ports;
use taskreel_log::projection::{
    ApplyError, Cursor, ParkedEvent, ProjectedEvent, Projection, ProjectionError, ProjectionStore, Runner,
    Slot,
};

/// The content of a database in memory.
#[derive(Debug, Clone, Default)]
struct Data {
    rows: BTreeMap<String, Vec<(u64, String)>>,
    cursors: BTreeMap<(String, String), Cursor>,
    parked: BTreeMap<String, Vec<ParkedEvent>>,
}

/// A database in memory that aborts when it is told to.
#[derive(Debug, Default)]
struct Database {
    data: Data,
    /// The number of commits until one fails.
    fails_in: Option<u32>,
    /// A log, and the content after another runner has gone on with a new event of it: that happens while the next
    /// transaction waits for the database.
    beside: Option<(Arc<MemoryStore>, Data)>,
}

struct Tx<'a> {
    of: &'a mut Database,
    work: Data,
}

#[derive(Debug, thiserror::Error)]
#[error("the commit was aborted")]
struct Aborted;

impl ProjectionStore for Database {
    type Tx<'a> = Tx<'a>;
    type Error = Aborted;

    fn begin(&mut self) -> Result<Tx<'_>, Aborted> {
        if let Some((log, data)) = self.beside.take() {
            let submits = || tokio::runtime::Runtime::new().unwrap().block_on(submit(&log, "t2"));
            std::thread::scope(|scope| scope.spawn(submits).join().unwrap());
            self.data = data;
        }
        let work = self.data.clone();
        Ok(Tx { of: self, work })
    }

    fn commit(tx: Tx<'_>) -> Result<(), Aborted> {
        if let Some(left) = &mut tx.of.fails_in {
            if *left == 0 {
                tx.of.fails_in = None;
                return Err(Aborted);
            }
            *left -= 1;
        }
        tx.of.data = tx.work;
        Ok(())
    }

    fn cursor(tx: &mut Tx<'_>, name: &str, slot: Slot) -> Result<Option<Cursor>, Aborted> {
        Ok(tx.work.cursors.get(&(name.to_owned(), slot.table(""))).cloned())
    }

    fn put_cursor(tx: &mut Tx<'_>, name: &str, slot: Slot, cursor: Option<&Cursor>) -> Result<(), Aborted> {
        let key = (name.to_owned(), slot.table(""));
        match cursor {
            Some(cursor) => drop(tx.work.cursors.insert(key, cursor.clone())),
            None => drop(tx.work.cursors.remove(&key)),
        }
        Ok(())
    }

    fn park(tx: &mut Tx<'_>, _: &str, slot: Slot, parked: &ParkedEvent) -> Result<(), Aborted> {
        tx.work.parked.entry(slot.table("parked")).or_default().push(parked.clone());
        Ok(())
    }

    fn clear_parked(tx: &mut Tx<'_>, _: &str, slot: Slot) -> Result<(), Aborted> {
        tx.work.parked.remove(&slot.table("parked"));
        Ok(())
    }

    fn promote_parked(tx: &mut Tx<'_>, _: &str) -> Result<(), Aborted> {
        let parked = tx.work.parked.remove(&Slot::Shadow.table("parked")).unwrap_or_default();
        tx.work.parked.insert("parked".to_owned(), parked);
        Ok(())
    }
}

/// A list of the submitted tasks, under a title of its revision. It cannot apply tasks whose ids begin with `bad`.
struct Submitted(u32);

impl Projection<Database> for Submitted {
    fn name(&self) -> &'static str {
        "submitted"
    }

    fn revision(&self) -> u32 {
        self.0
    }

    fn create(&mut self, tx: &mut Tx<'_>, slot: Slot) -> Result<(), Aborted> {
        tx.work.rows.insert(slot.table("tasks"), Vec::new());
        Ok(())
    }

    fn apply(&mut self, tx: &mut Tx<'_>, event: &ProjectedEvent<'_>) -> Result<(), ApplyError<Aborted>> {
        if let AnyEvent::Task(TaskEvent::Submitted(posted)) = event.event {
            let rows = tx.work.rows.get_mut(&event.slot.table("tasks")).unwrap();
            rows.push((event.position.0, format!("{} r{}", posted.id, self.0)));
            if posted.id.starts_with("bad") {
                return Err(ApplyError::Poison(format!("`{}` is bad", posted.id)));
            }
        }
        Ok(())
    }

    fn promote(&mut self, tx: &mut Tx<'_>) -> Result<(), Aborted> {
        let rows = tx.work.rows.remove(&Slot::Shadow.table("tasks")).unwrap();
        tx.work.rows.insert("tasks".to_owned(), rows);
        Ok(())
    }
}

async fn submit(store: &MemoryStore, id: &str) {
    let mut mint = Ports::default();
    let posted =
        PostedTask { id: id.to_owned(), ..PostedTask::new(Message::user("x", &mut mint), &mut mint) };
    let event = TaskEvent::Submitted(Box::new(posted)).encode().unwrap();
    let stream = StreamId::task("agent", id).unwrap();
    let body = EventBody { kind: event.kind, schema: event.schema, salt: [1; 16], body: event.body };
    let mut set_id = [0; 16];
    set_id.iter_mut().zip(id.bytes()).for_each(|(to, byte)| *to = byte);
    let draft = RecordDraft {
        stream: stream.clone(),
        first_version: Version(1),
        set_id,
        part: 0,
        parts: 1,
        partition: store.fence().partition,
        epoch: store.fence().epoch,
        metadata: Metadata { command_id: id.to_owned(), ..Metadata::default() },
        fields: Vec::new(),
        previous: Digest::default(),
        events: vec![body],
    };
    let record = draft.encode_within(50_000).unwrap();
    let part = AppendPart { stream, expected: ExpectedVersion::exactly(Version(0)), record };
    store.append(Append { fence: store.fence(), set_id, parts: vec![part] }).await.unwrap();
}

async fn log(ids: &[&str]) -> MemoryStore {
    let store = MemoryStore::new();
    for id in ids {
        submit(&store, id).await;
    }
    store
}

fn tasks(database: &Database) -> Vec<String> {
    database.data.rows.get("tasks").unwrap().iter().map(|(_, task)| task.clone()).collect()
}

#[tokio::test]
async fn each_event_counts_once_whichever_commit_is_aborted() {
    let ids = ["t1", "t2", "bad1", "t3", "t4", "bad2", "bad3", "t5"];
    let log = log(&ids).await;
    let runner = Runner::new("log-1").records_at_once(3);
    for abort in 0..10 {
        let mut database = Database { fails_in: Some(abort), ..Database::default() };
        let mut aborts = 0;
        let progress = loop {
            match runner.catch_up(&log, &mut database, &mut Submitted(1)) {
                Ok(progress) => break progress,
                Err(ProjectionError::Store { name, .. }) => {
                    assert_eq!(name, "submitted");
                    aborts += 1;
                }
                Err(other) => panic!("{other}"),
            }
        };
        assert_eq!(aborts, 1, "commit {abort} was aborted");
        assert_eq!((progress.position, progress.lag()), (log.head().unwrap(), 0));
        assert_eq!(tasks(&database), ["t1 r1", "t2 r1", "t3 r1", "t4 r1", "t5 r1"], "abort {abort}");
        let parked: Vec<_> =
            database.data.parked["parked"].iter().map(|parked| parked.reason.as_str()).collect();
        assert_eq!(parked, ["`bad1` is bad", "`bad2` is bad", "`bad3` is bad"], "abort {abort}");
    }
}

#[tokio::test]
async fn a_new_revision_is_built_beside_the_old_one_and_takes_its_place_at_the_end() {
    let log = log(&["t1", "bad1", "t2"]).await;
    let runner = Runner::new("log-1").records_at_once(1);
    let mut database = Database::default();
    runner.catch_up(&log, &mut database, &mut Submitted(1)).unwrap();
    submit(&log, "t3").await;
    assert_eq!(runner.progress(&log, &mut database, &Submitted(1)).unwrap().lag(), 1);
    // The fourth commit of the rebuilding is aborted: the old output is still read.
    database.fails_in = Some(3);
    assert!(runner.catch_up(&log, &mut database, &mut Submitted(2)).is_err());
    assert_eq!(tasks(&database), ["t1 r1", "t2 r1"]);
    let half = runner.progress(&log, &mut database, &Submitted(2)).unwrap();
    assert!(half.rebuilt.is_some_and(|reached| reached > Position(0) && reached < half.head), "{half:?}");
    let done = runner.catch_up(&log, &mut database, &mut Submitted(2)).unwrap();
    assert_eq!((done.lag(), done.rebuilt), (0, None));
    assert_eq!(tasks(&database), ["t1 r2", "t2 r2", "t3 r2"]);
    assert_eq!(database.data.parked["parked"].len(), 1, "not twice");
    assert!(!database.data.rows.contains_key("tasks__next"));
}

#[tokio::test]
async fn a_projection_of_another_log_or_of_a_later_state_of_this_one_is_refused() {
    let (long, short) = (log(&["t1", "t2"]).await, log(&["t1"]).await);
    let mut database = Database::default();
    Runner::new("log-1").catch_up(&long, &mut database, &mut Submitted(1)).unwrap();
    let other = Runner::new("log-2").catch_up(&long, &mut database, &mut Submitted(1)).unwrap_err();
    assert!(matches!(&other, ProjectionError::OtherLog { made_from, .. } if made_from == "log-1"), "{other}");
    let ahead = Runner::new("log-1").catch_up(&short, &mut database, &mut Submitted(1)).unwrap_err();
    assert!(
        matches!(ahead, ProjectionError::Ahead { cursor: Position(2), head: Position(1), .. }),
        "{ahead}"
    );
}

#[tokio::test]
async fn a_runner_that_another_one_has_overtaken_goes_on_from_there() {
    let log = Arc::new(log(&["t1"]).await);
    let later = Arc::new(self::log(&["t1", "t2"]).await);
    let (mut database, mut overtaken) = (Database::default(), Database::default());
    let runner = Runner::new("log-1");
    runner.catch_up(log.as_ref(), &mut database, &mut Submitted(1)).unwrap();
    runner.catch_up(later.as_ref(), &mut overtaken, &mut Submitted(1)).unwrap();
    database.beside = Some((Arc::clone(&log), overtaken.data));
    let progress = runner.catch_up(log.as_ref(), &mut database, &mut Submitted(1)).unwrap();
    assert_eq!((progress.position, progress.head), (Position(2), Position(2)));
    assert_eq!(tasks(&database), ["t1 r1", "t2 r1"]);
}
