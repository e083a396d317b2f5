//! Runs generated from a seed: tasks, the behaviour of their tools and models at each attempt, the cancels, repeated
//! posts, and what their users say meanwhile.

use proto_events::envelope::Timestamp;
use proto_events::json;
use proto_events::json::JsonValue as Value;

use crate::dice::Dice;
use crate::setting::{Care, Setting};

/// The tools' names, for each mode: one that starts at once, and one that allows a single call at a time.
pub(crate) const TOOLS: [&str; 17] = [
    "read",
    "read_one",
    "read_late",
    "put",
    "put_one",
    "put_soon",
    "put_asked",
    "ask",
    "ask_one",
    "pay",
    "pay_one",
    "pay_asked",
    "keep",
    "frail",
    "block",
    "block_async",
    "put_secret",
];

/// The value of the secret argument: it stands in no record.
pub(crate) const SECRET: &str = "hush-7731-quiet";

/// The time at which the virtual clock begins.
const BEGINNING: Timestamp = Timestamp(1_767_225_600_000_000);

/// A generated run.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) seed: u64,
    /// Whether the agent keeps conversations.
    pub(crate) conversation: bool,
    /// The maximum number of concurrent calls, all tools and the model together.
    pub(crate) places: Option<usize>,
    pub(crate) tasks: Vec<TaskPlan>,
    /// Whether an approval handler decides before a person does.
    pub(crate) handler: bool,
    /// The recovery mode of the handler that does the agent's work, if there is one.
    pub(crate) handled: Option<&'static str>,
    pub(crate) setting: Setting,
    /// The person's action for each task, by its number, when all work has ended.
    pub(crate) care: Vec<Care>,
}

/// A task of a run.
#[derive(Debug, Clone)]
pub(crate) struct TaskPlan {
    pub(crate) session: u64,
    pub(crate) parts: Vec<PartPlan>,
    /// The time when the task is submitted, in milliseconds; then the time of its cancel.
    pub(crate) comes_at: u64,
    pub(crate) canceled_at: Option<u64>,
    /// The time when its user says more to the task.
    pub(crate) said_at: Option<u64>,
    /// Whether it is posted a second time, at the time of its cancel or right away.
    pub(crate) is_repeated: bool,
    /// The time limit of the task's run, in milliseconds.
    pub(crate) run_limit: Option<u64>,
}

/// A part of a task's message.
#[derive(Debug, Clone)]
pub(crate) enum PartPlan {
    Tool { tool: &'static str, args: Value },
    Infer { prompt: String, replies: Vec<String>, is_structured: bool },
}

impl Run {
    pub(crate) fn of(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let places = (dice.below(3) == 0).then(|| 1 + usize::from(dice.below(2) == 0));
        let mut tasks: Vec<_> = (0..=dice.below(3)).map(|number| TaskPlan::of(&mut dice, number)).collect();
        let care = (0..4).map(|_| Care::of(&mut dice)).collect();
        let down_for = [0, 0, 700, 3_600_000][dice.below(4) as usize];
        let (conversation, handler) = (dice.below(4) != 0, dice.below(2) == 0);
        let mut setting = Setting::of(&mut dice, down_for);
        if let (Some((at, _)), Some(task)) = (setting.clock_steps.first_mut(), tasks.first_mut()) {
            // The clock is corrected while the run has a time limit.
            *at = task.comes_at + 1 + dice.below(1_400);
            task.run_limit = Some(1_500 + dice.below(2_000));
        }
        let modes = ["manual", "idempotent", "read_only"];
        let mode = (dice.below(8) == 0).then(|| modes[dice.below(3) as usize]);
        let mut run = Self { seed, conversation, places, tasks, handler, handled: mode, setting, care };
        crate::delegation::add(&mut run);
        run
    }

    /// Returns smaller versions of the run, each with one thing left out.
    pub(crate) fn smaller(&self) -> Vec<Self> {
        let settings = self.setting.smaller().into_iter();
        let mut smaller: Vec<_> = settings.map(|setting| Self { setting, ..self.clone() }).collect();
        if self.handled.is_some() {
            smaller.push(Self { handled: None, ..self.clone() });
        }
        if self.places.is_some() {
            smaller.push(Self { places: None, ..self.clone() });
        }
        for task in 0..self.tasks.len() {
            let mut without = self.clone();
            without.tasks.remove(task);
            smaller.push(without);
            for part in 0..self.tasks[task].parts.len() {
                let mut without = self.clone();
                without.tasks[task].parts.remove(part);
                smaller.push(without);
            }
            if self.tasks[task].canceled_at.is_some() {
                let mut without = self.clone();
                without.tasks[task].canceled_at = None;
                smaller.push(without);
            }
            if self.tasks[task].said_at.is_some() {
                let mut without = self.clone();
                without.tasks[task].said_at = None;
                smaller.push(without);
            }
            if self.tasks[task].is_repeated {
                let mut without = self.clone();
                without.tasks[task].is_repeated = false;
                smaller.push(without);
            }
        }
        smaller
    }
}

impl TaskPlan {
    fn of(dice: &mut Dice, number: u64) -> Self {
        let parts = (0..=dice.below(3)).map(|part| PartPlan::of(dice, number, part)).collect();
        let canceled = dice.below(4) == 0;
        let comes_at = dice.below(2_000);
        Self {
            session: dice.below(2),
            parts,
            comes_at,
            canceled_at: canceled.then(|| comes_at + dice.below(4_000)),
            said_at: (dice.below(3) == 0).then(|| comes_at + dice.below(3_000)),
            is_repeated: dice.below(4) == 0,
            run_limit: (dice.below(8) == 0).then(|| 1_000 + dice.below(4_000)),
        }
    }

    /// Returns the task as posted.
    pub(crate) fn posted(&self, number: usize) -> Value {
        let parts: Vec<Value> = self.parts.iter().zip(0..).map(|(part, at)| part.posted(at)).collect();
        let mut metadata = json!({"session_id": format!("s{}", self.session)});
        if let Some(limit) = self.run_limit {
            #[allow(clippy::cast_precision_loss, reason = "a few thousand milliseconds")]
            let seconds = limit as f64 / 1_000.0;
            // At times the same limit as a moment.
            let budget = if limit % 2 == 0 {
                json!({"max_runtime_seconds": seconds})
            } else {
                json!({"deadline": BEGINNING.plus_millis(self.comes_at + limit).to_string()})
            };
            metadata["run_context"] = json!({"budget": budget});
        }
        json!({
            "id": format!("t{number}"), "created_at": "x", "metadata": metadata,
            "messages": [{"id": format!("m{number}"), "role": "user", "timestamp": "x", "parts": parts}],
        })
    }
}

impl PartPlan {
    fn of(dice: &mut Dice, task: u64, part: u64) -> Self {
        if dice.below(5) < 3 {
            let tool = TOOLS[dice.below(TOOLS.len() as u64) as usize];
            return Self::Tool { tool, args: args_of(dice, tool) };
        }
        let steps = dice.below(4);
        let mut replies: Vec<String> = (0..steps).map(|step| reply(dice, step)).collect();
        let is_structured = dice.below(4) == 0;
        if is_structured {
            // One answer that does not fit, at times two of them.
            let unfit = json!({"type": "final", "content": "no number"}).to_string();
            replies.extend(std::iter::repeat_n(unfit, dice.below(3) as usize));
            replies.push(json!({"type": "final", "content": "{\"n\": 1}"}).to_string());
        } else {
            replies.push(json!({"type": "final", "content": format!("done {task}.{part}")}).to_string());
        }
        Self::Infer { prompt: format!("question {task}.{part}?"), replies, is_structured }
    }

    fn posted(&self, at: u32) -> Value {
        match self {
            Self::Tool { tool, args } => {
                let call_id = format!("p{at}");
                json!({"type": "tool_call", "content": {"tool_name": tool, "args": args, "call_id": call_id}})
            }
            Self::Infer { prompt, is_structured: true, .. } => {
                let schema = json!({"type": "object", "required": ["n"]});
                json!({"type": "infer", "content": {"prompt": prompt, "output_schema": schema}})
            }
            Self::Infer { prompt, .. } => json!({"type": "infer", "content": {"prompt": prompt}}),
        }
    }
}

/// Returns the arguments of a call of this tool: a secret one is given by name, or in clear.
fn args_of(dice: &mut Dice, tool: &str) -> Value {
    let mut args = args(dice);
    if tool == "put_secret" {
        args["pin"] = json!(if dice.below(2) == 0 { "secret:pin" } else { SECRET });
    }
    args
}

/// Returns the tool's behaviour at each attempt, the last one for all further ones, and its probe's verdict.
fn args(dice: &mut Dice) -> Value {
    let does: Vec<String> = (0..=dice.below(2)).map(|_| doing(dice)).collect();
    let probe = ["landed", "absent", "unsure", "broken", "panics"][dice.below(5) as usize];
    json!({"does": does, "probe": probe})
}

fn doing(dice: &mut Dice) -> String {
    let time = 1 + dice.below(1_500);
    match dice.below(14) {
        0..=5 => format!("ok {time}"),
        6 => format!("fail {time}"),
        7 => "reject 0".to_owned(),
        8 | 9 => "hang 0".to_owned(),
        10 => format!("panic {time}"),
        // It asks a person one question, or two.
        11 => format!("asks {time}"),
        12 if time.is_multiple_of(2) => format!("asks_twice {time}"),
        // It returns when it is notified that its result is no longer wanted.
        _ => "heed 0".to_owned(),
    }
}

fn reply(dice: &mut Dice, step: u64) -> String {
    match dice.below(12) {
        0 => format!("no action at all, {step}"),
        3 | 4 => {
            // Several calls at once, through the provider's own interface.
            let call = |dice: &mut Dice| {
                let tool = TOOLS[dice.below(TOOLS.len() as u64) as usize];
                json!({"tool": tool, "args": args_of(dice, tool)})
            };
            let calls: Vec<Value> = (0..2 + dice.below(3)).map(|_| call(dice)).collect();
            json!({"calls": calls}).to_string()
        }
        1 => json!({"type": "tool_call", "tool": "nobody knows it", "args": {"step": step}}).to_string(),
        5 => json!({"type": "agent_call", "agent": "friend", "action": "infer", "prompt": format!("who knows {step}?")})
            .to_string(),
        2 => json!({"type": "tool_call", "tool": "read", "args": {"does": step}}).to_string(),
        _ => {
            let tool = TOOLS[dice.below(TOOLS.len() as u64) as usize];
            json!({"type": "tool_call", "tool": tool, "args": args_of(dice, tool)}).to_string()
        }
    }
}
