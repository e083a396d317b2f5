//! A process that asks an agent elsewhere, and is killed at each point of that: the agent has exactly one task.

use std::path::Path;
use std::process::Stdio;

use proto_events::call::{CallEvent, CallStatus};
use proto_events::id::Version;
use proto_events::task::TaskEvent;
use taskreel::infer::{Entry, Scripted};
use taskreel::{Part, System, TaskState};
use taskreel_http::a2a::{Options, Remote};
use taskreel_log::read::decode_record;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::agent::Gate;
use crate::ours::handler;
use crate::relays::{Held, Relay, relay};
use crate::remote::{asks, far, stop, tasks, until};
use crate::support::{PATIENCE, actix};

const BASE: &str = "TASKREEL_A2A_BASE";
const URL: &str = "TASKREEL_A2A_URL";
const PROMPT: &str = "TASKREEL_A2A_PROMPT";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "not a test: the process that the tests of restarts start and kill"]
async fn the_child_of_the_restarts() {
    let (Ok(base), Ok(url)) = (std::env::var(BASE), std::env::var(URL)) else { return };
    let is_first = std::fs::read_dir(&base).unwrap().next().is_none();
    let model = if is_first {
        asks(&std::env::var(PROMPT).unwrap())
    } else {
        Scripted::new([Entry::Text(r#"{"type": "final", "content": "done"}"#.to_owned())])
    };
    let remote = Remote::at(&url).named("far").options(Options::new().timeout(PATIENCE));
    let system = System::builder(&base).infer(model).peer(remote).start().await.unwrap();
    let task = if is_first {
        system.submit(Part::infer("q")).await.unwrap()
    } else {
        let page = system.tasks().page(9).await.unwrap();
        system.task(&page.tasks[0].id).unwrap()
    };
    println!("\nbegun");
    let is_taken = || {
        let records = system.log().read_stream(task.stream(), Version(1), 10_000).unwrap();
        let mut events = records.iter().flat_map(|record| decode_record::<TaskEvent>(record).unwrap());
        events.any(|recorded| matches!(recorded.event, TaskEvent::Call(CallEvent::Accepted { .. })))
    };
    if is_first {
        while !is_taken() {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
        println!("\ntaken");
    }
    let ended = task.finished().await.unwrap();
    let call = ended.task().calls().iter().find(|call| call.request.target == "far").unwrap();
    let word = match &call.status {
        CallStatus::Succeeded(_) => "succeeded".to_owned(),
        other => format!("{other:?}"),
    };
    println!("\nend {} after {}: {word}", ended.state(), call.attempts);
    system.shutdown().await.unwrap();
}

/// The process under test, which is killed when this is dropped.
pub(crate) struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    pub(crate) fn start(base: &Path, url: &str, prompt: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "restarts::the_child_of_the_restarts", "--ignored", "--nocapture"]);
        command.env(BASE, base).env(URL, url).env(PROMPT, prompt).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Returns the rest of the first line that begins so.
    pub(crate) async fn says(&mut self, begin: &str) -> String {
        let said = async {
            let mut all = Vec::new();
            while let Some(line) = self.lines.next_line().await.unwrap() {
                if let Some(rest) = line.strip_prefix(begin) {
                    return rest.to_owned();
                }
                all.push(line);
            }
            panic!("the process ended without `{begin}`: {all:?}");
        };
        tokio::time::timeout(PATIENCE, said).await.unwrap_or_else(|_| panic!("it never says `{begin}`"))
    }

    /// Kills the process at once (SIGKILL).
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }
}

/// The point at which the process is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Point {
    /// The message never reaches the agent.
    BeforeSending,
    /// The message reaches the agent after the process was started again.
    InTransit,
    /// The agent has the message; its answer did not come.
    BeforeAnswer,
    /// The agent works.
    AtWork,
    /// The agent's task is over; the process does not know it.
    AfterEnd,
}

const POINTS: [Point; 5] =
    [Point::BeforeSending, Point::InTransit, Point::BeforeAnswer, Point::AtWork, Point::AfterEnd];

/// Kills a process at a point, starts it again, and returns how its task ended, and the number of the agent's tasks.
async fn killed(point: Point, foreign: bool) -> (String, usize) {
    let gate = Gate::shut();
    let agent = far(&gate).await;
    let host = actix(handler(&agent)).await;
    let Relay { url, held, mut sendings, .. } = relay(host.address, foreign).await;
    let base = tempfile::tempdir().unwrap();
    held.send_replace(match point {
        Point::BeforeSending | Point::InTransit => Held::Sending,
        Point::BeforeAnswer => Held::AnswerToSending,
        Point::AtWork | Point::AfterEnd => Held::Nothing,
    });
    let mut first = Process::start(base.path(), &url, "wait");
    match point {
        Point::BeforeSending | Point::InTransit => {
            sendings.wait_for(|count| *count == 1).await.unwrap();
        }
        Point::BeforeAnswer => {
            until("the agent works", async || !tasks(&agent).await.is_empty()).await;
        }
        Point::AtWork => drop(first.says("taken").await),
        Point::AfterEnd => {
            first.says("taken").await;
            held.send_replace(Held::Answers);
            gate.open();
            until("it is over", async || tasks(&agent).await[0].1 == TaskState::Completed).await;
        }
    }
    first.kill().await;
    held.send_replace(if point == Point::BeforeSending { Held::Lost } else { Held::Nothing });
    let mut second = Process::start(base.path(), &url, "wait");
    second.says("begun").await;
    if point != Point::AfterEnd {
        gate.open();
    }
    let end = second.says("end ").await;
    let count = tasks(&agent).await.len();
    host.stop().await;
    stop([agent]).await;
    (end, count)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_killed_anywhere_goes_on_with_the_one_task_of_the_agent() {
    for point in POINTS {
        let (end, count) = killed(point, false).await;
        assert_eq!((end.as_str(), count), ("completed after 2: succeeded", 1), "{point:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_of_any_make_is_asked_for_the_task_and_what_it_cannot_say_a_person_decides() {
    for point in POINTS {
        let (end, count) = killed(point, true).await;
        if matches!(point, Point::BeforeSending | Point::InTransit) && end.contains("Unknown(") {
            // It is not sent a second time on a guess.
            assert_eq!(count, usize::from(point == Point::InTransit), "{point:?}");
            assert!(end.starts_with("input-required after 1: Unknown("), "{end}");
            continue;
        }
        assert_eq!((end.as_str(), count), ("completed after 2: succeeded", 1), "{point:?}");
    }
}
