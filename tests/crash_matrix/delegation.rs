//! Tools of the runs that give work to other agents, and these agents, which behave as a run specifies.

use std::time::Duration;

use proto_events::json;
use proto_events::json::JsonText;
use serde::Deserialize;
use taskreel::Builder;
use taskreel::approval::CapabilityPolicy;
use taskreel::peer::{Delegation, Peer, PeerAnswer, PeerError, PeerErrorKind};
use taskreel::testing::sleep;
use taskreel::tool::{AgentWork, BoxFuture, DynTool, ToolContext, ToolError, ToolPolicy};

use crate::agent::{probe, work};
use crate::dice::Dice;
use crate::run::{PartPlan, Run};

/// The time limit of an attempt of a tool that asks other agents, and of a request to one.
const BOUND: Duration = Duration::from_secs(2);

/// The tools that ask other agents, one for each mode.
const LEADS: [&str; 4] = ["lead_read", "lead_put", "lead_ask", "lead_pay"];

/// The other agents: one that knows a repeated task, and one that does not.
const DESKS: [&str; 2] = ["desk", "desk_manual"];

/// The requests of a tool, besides what it does itself: the agents, and what each is told to do.
#[derive(Deserialize)]
struct Wishes {
    requests: Vec<(String, String)>,
    /// Whether they are made at once.
    at_once: bool,
    /// Whether another attempt asks for something else.
    is_fickle: bool,
}

/// Makes the requests, and then does what it is told.
async fn lead(cx: ToolContext, args: JsonText) -> Result<JsonText, ToolError> {
    let asked: Wishes = args.read().map_err(|error| ToolError::arguments(error.to_string()))?;
    let fickle = if asked.is_fickle { format!(" {}", cx.attempt()) } else { String::new() };
    let ask = |(agent, does): &(String, String)| {
        let look = || AgentWork::tool_call("look", JsonText::from(json!({"does": does.clone()})));
        let work = if does == "ok 1" { look() } else { format!("{does}{fickle}").into() };
        cx.delegate(agent, work)
    };
    let made: Vec<_> = if asked.at_once && asked.requests.len() == 2 {
        let (one, two) = tokio::join!(ask(&asked.requests[0]), ask(&asked.requests[1]));
        vec![one, two]
    } else {
        let mut made = Vec::new();
        for request in &asked.requests {
            made.push(ask(request).await);
        }
        made
    };
    for error in made.into_iter().filter_map(Result::err) {
        // Most tools pass on what they cannot handle.
        if error.type_name() == "WaitsForApproval" || error.message().len() % 2 == 0 {
            return Err(error);
        }
    }
    work(cx, args).await
}

/// Another agent, which does what a prompt says.
struct Desk(&'static str);

impl Peer for Desk {
    fn name(&self) -> &str {
        self.0
    }

    fn description(&self) -> &'static str {
        "does what it is told"
    }

    fn skills(&self) -> Vec<String> {
        vec!["look".to_owned()]
    }

    fn policy(&self) -> ToolPolicy {
        let policy =
            if self.0 == "desk" { ToolPolicy::idempotent().retries(1) } else { ToolPolicy::manual() };
        policy.timeout(BOUND)
    }

    fn send(&self, delegation: Delegation) -> BoxFuture<'static, Result<PeerAnswer, PeerError>> {
        let part = delegation.task.messages[0].parts[0].clone();
        let does = part.as_infer().map_or_else(|_| "ok 1".to_owned(), |asked| asked.prompt);
        let answer = PeerAnswer::of_posted(&delegation.task);
        Box::pin(async move {
            let mut words = does.split(' ');
            let (what, time) = (words.next().unwrap_or_default(), words.next().unwrap_or("1"));
            sleep(Duration::from_millis(time.parse().unwrap_or(1))).await;
            let failed = |kind, text: &str| Err(PeerError::new(kind, text));
            match what {
                "ok" => Ok(answer),
                "fail" => failed(PeerErrorKind::Failed, "it broke"),
                "reject" => failed(PeerErrorKind::Refused, "not my work"),
                "lose" => failed(PeerErrorKind::Lost, "the line broke"),
                // Without the panic hook, which would print it.
                "panic" => std::panic::resume_unwind(Box::new("as it was told to".to_owned())),
                _ => std::future::pending().await,
            }
        })
    }

    fn cancel(&self, _: &str, _: &str) -> BoxFuture<'static, Result<(), PeerError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

fn policy(tool: &str) -> ToolPolicy {
    let policy = match tool {
        "lead_read" => ToolPolicy::read_only().retries(1).parallel(),
        "lead_put" => ToolPolicy::idempotent().retries(1),
        "lead_ask" => ToolPolicy::reconcile(probe),
        _ => ToolPolicy::manual(),
    };
    policy.timeout(BOUND)
}

/// Adds the tools and the other agents. In some runs each request to an agent needs approval.
pub(crate) fn describe(run: &Run, mut builder: Builder) -> Builder {
    for tool in LEADS {
        builder = builder.tool_with(tool, "Asks others", DynTool::new(json!(null), lead), policy(tool));
    }
    for desk in DESKS {
        builder = builder.peer(Desk(desk));
    }
    if run.seed % 4 == 1 {
        let asked = CapabilityPolicy::new().require_approval("money.*").require_approval("agent.*");
        builder = builder.capability_policy(asked);
    }
    builder
}

/// Adds such a tool's calls to some tasks of a run. They follow from the seed alone, so that all else in it stays.
pub(crate) fn add(run: &mut Run) {
    let mut dice = Dice::new(run.seed ^ 0x0064_656c_6567_6174);
    for task in &mut run.tasks {
        if dice.below(3) > 0 {
            continue;
        }
        let tool = LEADS[dice.below(LEADS.len() as u64) as usize];
        let requests: Vec<_> = (0..dice.below(4)).map(|_| request(&mut dice)).collect();
        let does = ["ok 5", "ok 900", "fail 5", "hang 0", "heed 0"][dice.below(5) as usize];
        let probe = ["landed", "absent", "unsure"][dice.below(3) as usize];
        let (at_once, is_fickle) = (dice.below(3) == 0, dice.below(6) == 0);
        let args = json!({
            "requests": requests, "at_once": at_once, "is_fickle": is_fickle, "does": [does, "ok 5"], "probe": probe,
        });
        let asked = json!({"type": "tool_call", "tool": tool, "args": args}).to_string();
        let last = json!({"type": "final", "content": "done by others"}).to_string();
        let part = if dice.below(3) == 0 {
            let prompt = format!("who does it, {}?", task.comes_at);
            PartPlan::Infer { prompt, replies: vec![asked, last], is_structured: false }
        } else {
            PartPlan::Tool { tool, args }
        };
        let at = dice.below(task.parts.len() as u64 + 1) as usize;
        task.parts.insert(at, part);
    }
}

fn request(dice: &mut Dice) -> (&'static str, String) {
    let desk = DESKS[usize::from(dice.below(3) == 0)];
    let time = 1 + dice.below(900);
    let does = match dice.below(12) {
        0 => format!("fail {time}"),
        1 => "reject 1".to_owned(),
        2 => format!("lose {time}"),
        3 => "hang 1".to_owned(),
        4 => format!("panic {time}"),
        5 => "ok 1".to_owned(),
        _ => format!("ok {time}"),
    };
    (desk, does)
}
