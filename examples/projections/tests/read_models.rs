//! The read models say what the log says, over aborts and after a rebuilding.

use projections::cost::CostBySession;
use projections::sqlite::Sqlite;
use projections::tasks::TasksByState;
use rusqlite::Connection;
use taskreel::infer::{InferBackend, InferError, InferReply, InferRequest, Price, TokenUsage};
use taskreel::log::projection::{ProjectionError, Runner};
use taskreel::{BoxFuture, Part, System};

/// A model that says how many tokens it used.
struct Counted;

impl InferBackend for Counted {
    fn backend(&self) -> &str {
        "counted"
    }

    fn model(&self) -> &str {
        "m"
    }

    fn infer(&self, _: InferRequest) -> BoxFuture<'static, Result<InferReply, InferError>> {
        let content = r#"{"type":"final","content":"done"}"#.to_owned();
        let usage = Some(TokenUsage { input_tokens: 1_000, output_tokens: 10 });
        Box::pin(std::future::ready(Ok(InferReply {
            content,
            usage,
            model: "m".into(),
            ..Default::default()
        })))
    }
}

fn price() -> Price {
    Price { input_per_million: 3_000_000, output_per_million: 15_000_000, currency: "USD".into() }
}

fn rows(database: &Sqlite, sql: &str) -> Vec<String> {
    let mut found = database.connection().prepare(sql).unwrap();
    found.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

const STATES: &str = "SELECT state || ' ' || count(*) FROM tasks GROUP BY state ORDER BY state";
const COST: &str = "SELECT session || ' ' || input_tokens || ' ' || output_tokens || ' ' || amount FROM cost ORDER BY session";

#[tokio::test]
async fn tasks_by_state_and_cost_by_session_follow_the_log_over_restarts_and_aborts() {
    let dir = tempfile::tempdir().unwrap();
    let (log_dir, file) = (dir.path().join("log"), dir.path().join("models.sqlite"));
    let system = System::builder(&log_dir).infer(Counted).price("m", price()).start().await.unwrap();
    for session in ["ada", "ada", "bob"] {
        system.session(session).run("Go").await.unwrap().finished().await.unwrap();
    }
    system
        .submit(Part::tool_call("unknown", proto_events::json!({})).unwrap())
        .await
        .unwrap()
        .finished()
        .await
        .unwrap();
    let id = taskreel::log::sled::log_header(&log_dir).unwrap().id.to_string();
    let runner = Runner::new(id).records_at_once(2);
    let log = system.log();
    let open = || Sqlite::open(Connection::open(&file).unwrap()).unwrap();

    // A trigger aborts the projection in its middle, as a full disk would.
    let mut database = open();
    database
        .connection()
        .execute_batch(
            "CREATE TABLE fuse (left INTEGER); INSERT INTO fuse VALUES (3);
             CREATE TRIGGER abort AFTER INSERT ON projection_cursors BEGIN
                 UPDATE fuse SET left = left - 1;
                 SELECT RAISE(ROLLBACK, 'aborted') FROM fuse WHERE left < 0;
             END;",
        )
        .unwrap();
    let aborted = runner.catch_up(log.as_ref(), &mut database, &mut TasksByState).unwrap_err();
    assert!(matches!(aborted, ProjectionError::Store { .. }), "{aborted}");
    database.connection().execute_batch("DROP TRIGGER abort").unwrap();
    drop(database);

    let mut database = open();
    let progress = runner.catch_up(log.as_ref(), &mut database, &mut TasksByState).unwrap();
    assert_eq!((progress.position, progress.lag()), (log.head().unwrap(), 0));
    runner.catch_up(log.as_ref(), &mut database, &mut CostBySession).unwrap();
    assert_eq!(rows(&database, STATES), ["completed 3", "failed 1"]);
    // 1,000 tokens at 3 USD and 10 at 15 USD for a million are 0.00315 USD.
    assert_eq!(rows(&database, COST), ["ada 2000 20 6300000000", "bob 1000 10 3150000000"]);

    system.session("bob").run("Go").await.unwrap().finished().await.unwrap();
    assert!(runner.progress(log.as_ref(), &mut database, &TasksByState).unwrap().lag() > 0);
    runner.catch_up(log.as_ref(), &mut database, &mut CostBySession).unwrap();
    runner.catch_up(log.as_ref(), &mut database, &mut CostBySession).unwrap();
    assert_eq!(
        rows(&database, COST),
        ["ada 2000 20 6300000000", "bob 2000 20 6300000000"],
        "nothing counts twice"
    );
    system.shutdown().await.unwrap();
}
