//! Reading a long session: from the disk before the first turn after a start, and again. Protolink reads and parses the
//! whole file at each turn; a system of ours keeps what it has read.

use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use taskreel::{ConversationHistory, KeptItem, KeptStream, Operator, TakenIn};
use taskreel_log::api::EventStore;
use taskreel_log::ports::Ports;
use taskreel_log::sled::SledStore;

use crate::report::{Failure, Report, Row, Target, median};
use crate::servers::{builder, log_dir, python, script};

/// The goal: how many times as quick as Protolink.
const GOAL: f64 = 50.0;

/// Measures both sides on a session of so many messages.
pub(crate) fn compare(report: &mut Report, messages: usize, times: usize) -> Result<(), Failure> {
    let Ours { first, again } = ours(messages, times)?;
    report.row(&Row::new(format!("our session of {messages} messages, first read"), first, "ms"))?;
    report.row(&Row::new(format!("our session of {messages} messages, read again"), again, "ms"))?;
    if let Some(theirs) = theirs(messages, times)? {
        report.row(&Row::new(format!("Protolink's session of {messages} messages, read"), theirs, "ms"))?;
        for (what, ours) in [("first read", first), ("read again", again)] {
            let row =
                Row::new(format!("how often ours is read in that time, {what}"), theirs / ours, "times");
            report.row(&row.beside(1.0).target(Target::RatioAtLeast(GOAL)))?;
        }
    }
    Ok(())
}

/// The milliseconds in which a started system reads the session for the first time, and once more.
struct Ours {
    first: f64,
    again: f64,
}

fn ours(messages: usize, times: usize) -> Result<Ours, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let dir = log_dir()?;
    runtime.block_on(async {
        let mut mint = Ports::default();
        let mut history = ConversationHistory::with_system("You talk for long.", &mut mint);
        for number in 0..messages / 2 {
            history.add_user(&format!("question {number}"), taskreel::JsonObject::new(), &mut mint);
            history.add_assistant(&format!("answer {number}"), taskreel::JsonObject::new(), &mut mint);
        }
        let store: Arc<dyn EventStore> = Arc::new(SledStore::open(dir.path())?);
        let operator = Operator::new(Arc::clone(&store));
        let what = KeptItem::Session { id: "long".to_owned(), messages: history.as_slice().to_vec() };
        let kept = KeptStream { agent: "agent".to_owned(), what, source: b"bench".to_vec() };
        if operator.take_in(&[kept], "bench").await?.into_iter().next().transpose()? != Some(TakenIn::New) {
            return Err("the session was not taken in".into());
        }
        operator.finish().await?;
        store.close()?;
        drop((operator, store));
        let (mut first, mut again) = (Vec::new(), Vec::new());
        for _ in 0..times {
            let system = builder(dir.path()).start().await?;
            for figures in [&mut first, &mut again] {
                let began = Instant::now();
                let read = system.session("long").history().await?;
                figures.push(began.elapsed().as_secs_f64() * 1_000.0);
                if read.len() != history.len() {
                    return Err(format!("{} messages were read", read.len()).into());
                }
            }
            system.shutdown().await?;
        }
        Ok(Ours { first: median(first), again: median(again) })
    })
}

/// Returns the milliseconds in which Protolink reads the session; `None` where it cannot be had.
fn theirs(messages: usize, times: usize) -> Result<Option<f64>, Failure> {
    let Some(python) = python() else { return Ok(None) };
    let dir = log_dir()?;
    let file = dir.path().join("state.db");
    let run = |name: &str, more: &[&str]| -> Result<String, Failure> {
        let output = Command::new(&python).arg(script(name)).arg(&file).args(more).output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
        }
        Ok(String::from_utf8(output.stdout)?)
    };
    run("make_db.py", &[&(messages + 1).to_string()])?;
    let printed = run("restore.py", &["talker", "long", &times.to_string()])?;
    let read: serde_json::Value = serde_json::from_str(printed.lines().last().unwrap_or_default())?;
    let figures = read.get("times").and_then(serde_json::Value::as_array).ok_or("no times were printed")?;
    Ok(Some(median(figures.iter().filter_map(serde_json::Value::as_f64).collect())))
}
