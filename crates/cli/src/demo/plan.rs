//! The plan of a demo: tasks generated from a seed, and the model's replies. The same seed gives the same
//! tasks, so a process can resume a demo from the log alone.

use proto_events::codec::Storable;
use proto_events::id::{Category, Mint, StreamId, Version};
use proto_events::json::{JsonObject, JsonText, JsonValue as Value};
use proto_events::model::{Message, Part, PostedTask, TaskState};
use proto_events::task::TaskEvent;
use proto_events::{GrowingList, json};
use serde::{Deserialize, Serialize};
use taskreel::infer::{Entry, Scripted};
use taskreel_log::api::EventReader;
use taskreel_log::ports::{Clock as _, SystemClock};
use taskreel_log::views::streams;

use crate::print::problem::Problem;
use crate::tools::SILENT_BANK;

/// The metadata key of a demo task that holds its plan.
const PLAN_KEY: &str = "demo";

/// The parameters of a demo.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// The seed of the tasks.
    pub(crate) seed: u64,
    /// The number of tasks.
    pub(crate) tasks: u32,
}

/// The case that a demo task shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DemoCase {
    /// Two tool parts, one after the other.
    Sum,
    /// The model asks for a tool, then answers.
    Weather,
    /// A tool that fails, and its task with it.
    Failure,
    /// A payment that is never confirmed: its outcome is unknown and a person is asked.
    Lost,
    /// A task canceled while its tool runs.
    Canceled,
    /// A payment that goes well.
    Payment,
    /// A turn of a conversation.
    Chat,
    /// The model asks for a tool that does not exist, then corrects itself.
    Mended,
    /// Like `Lost`, but the person answers and the task continues.
    Answered,
    /// Two tools, one of which returns nothing.
    Shout,
}

/// The cases in order: the first tasks show each of them once.
const KINDS: [DemoCase; 10] = [
    DemoCase::Sum,
    DemoCase::Weather,
    DemoCase::Lost,
    DemoCase::Failure,
    DemoCase::Canceled,
    DemoCase::Chat,
    DemoCase::Payment,
    DemoCase::Answered,
    DemoCase::Mended,
    DemoCase::Shout,
];

const CITIES: [&str; 6] = ["Oslo", "Rome", "Athens", "Lisbon", "Madrid", "Vienna"];
const PEOPLE: [&str; 6] = ["Ada", "Grace", "Edsger", "Barbara", "Tony", "Leslie"];
const WORDS: [&str; 5] = ["hello", "replay me", "on the record", "once", "again"];

/// A task of a demo.
#[derive(Debug, Clone)]
pub(crate) struct DemoTask {
    /// The case that the task shows.
    pub(crate) kind: DemoCase,
    /// The task as posted.
    pub(crate) posted: PostedTask,
    /// The model's replies, and the prompt that they answer.
    replies: Option<(String, Vec<Entry>)>,
}

impl Plan {
    /// Returns the plan of the demo in a log, if there is one.
    pub(crate) fn of_log(reader: &dyn EventReader) -> Result<Option<Self>, Problem> {
        for info in streams(reader, Category::Task.prefix())? {
            if let Some(plan) = planned(reader, &info.stream)? {
                return Ok(Some(plan));
            }
        }
        Ok(None)
    }

    /// Returns all tasks of the plan.
    pub(crate) fn tasks(self) -> Vec<DemoTask> {
        let mut dice = Dice(self.seed);
        (1..=self.tasks).map(|number| self.task(number, &mut dice)).collect()
    }

    /// Returns the model for these tasks.
    pub(crate) fn model(tasks: &[DemoTask]) -> Scripted {
        Scripted::by_prompt(tasks.iter().filter_map(|task| task.replies.clone()))
    }

    fn task(self, number: u32, dice: &mut Dice) -> DemoTask {
        let at = usize::try_from(number - 1).unwrap_or(usize::MAX);
        let kind = KINDS.get(at).copied().unwrap_or_else(|| *dice.pick(&KINDS));
        let id = format!("demo-{}-{number:02}", self.seed);
        let mut mint = CaseNames::new(&id);
        let made = CaseParts::new(kind, number, dice);
        let mut metadata = JsonObject::new();
        metadata.set(PLAN_KEY, JsonText::of_model(&self));
        metadata.set("session_id", JsonText::string(&self.session(kind, &id)));
        let mut posted = PostedTask::new(Message::new("user", made.parts, &mut mint), &mut mint);
        posted.id = id;
        posted.metadata = metadata;
        DemoTask { kind, posted, replies: made.replies }
    }

    /// Returns the task's session: one for all chats, one of its own for each other task.
    fn session(self, kind: DemoCase, id: &str) -> String {
        match kind {
            DemoCase::Chat | DemoCase::Mended => format!("demo-{}-chat", self.seed),
            _ => id.to_owned(),
        }
    }
}

/// Returns the plan in a task's first event.
fn planned(reader: &dyn EventReader, stream: &StreamId) -> Result<Option<Plan>, Problem> {
    let page = reader.read_stream(stream, Version(1), 1)?;
    let first = page.first().and_then(|stored| stored.record.events.first());
    let Some((event, body)) = first.and_then(|event| Some((event, event.body()?))) else {
        return Ok(None);
    };
    Ok(match TaskEvent::decode(event.kind, event.schema, body) {
        Ok(TaskEvent::Submitted(posted)) => posted.metadata.get(PLAN_KEY).and_then(|plan| plan.read().ok()),
        _ => None,
    })
}

/// The parts of a task, and the model's replies.
struct CaseParts {
    parts: Vec<Part>,
    replies: Option<(String, Vec<Entry>)>,
}

impl CaseParts {
    fn new(kind: DemoCase, number: u32, dice: &mut Dice) -> Self {
        let (a, b) = (dice.up_to(90), dice.up_to(90));
        let (city, person, word) = (*dice.pick(&CITIES), *dice.pick(&PEOPLE), *dice.pick(&WORDS));
        let cents = 100 + dice.up_to(9_900);
        match kind {
            DemoCase::Sum => Self::tools(&[
                ("add", json!({"a": a, "b": b})),
                ("echo", json!({"text": format!("a sum for {person}")})),
            ]),
            DemoCase::Failure => Self::tools(&[
                ("lookup", json!({"city": city})),
                ("fail", json!({"message": format!("no table in {city} tonight")})),
            ]),
            DemoCase::Lost | DemoCase::Answered => {
                Self::tools(&[("pay", json!({"to": SILENT_BANK, "cents": cents}))])
            }
            DemoCase::Canceled => Self::tools(&[("slow", json!({"ms": 60_000}))]),
            DemoCase::Payment => Self::tools(&[("pay", json!({"to": person, "cents": cents}))]),
            DemoCase::Shout => Self::tools(&[("upper", json!({"text": word})), ("none", json!({}))]),
            DemoCase::Weather => Self::asks(
                format!("How warm is it in {city}? (question {number})"),
                &[
                    json!({"type": "tool_call", "tool": "lookup", "args": {"city": city}}),
                    json!({"type": "final", "content": format!("It is 20 degrees in {city}.")}),
                ],
            ),
            DemoCase::Chat => Self::asks(
                format!("My name is {person}. What are {a} and {b} together? (question {number})"),
                &[
                    json!({"type": "tool_call", "tool": "add", "args": {"a": a, "b": b}}),
                    json!({"type": "final", "content": format!("{person}, it is {}.", a + b)}),
                ],
            ),
            DemoCase::Mended => Self::asks(
                format!("Shout \"{word}\", please. (question {number})"),
                &[
                    json!({"type": "tool_call", "tool": "shout", "args": {"text": word}}),
                    json!({"type": "tool_call", "tool": "upper", "args": {"text": word}}),
                    json!({"type": "final", "content": format!("{}!", word.to_uppercase())}),
                ],
            ),
        }
    }

    fn tools(calls: &[(&str, Value)]) -> Self {
        let call = |(at, (name, args)): (usize, &(&str, Value))| {
            Part::tool_call_of(name, JsonText::from(args.clone()), Some(&format!("call-{}", at + 1)))
        };
        Self { parts: calls.iter().enumerate().map(call).collect(), replies: None }
    }

    fn asks(prompt: String, replies: &[Value]) -> Self {
        Self {
            parts: vec![Part::infer(prompt.as_str())],
            replies: Some((prompt, replies.iter().map(Entry::json).collect())),
        }
    }
}

impl DemoTask {
    /// Whether the task needs no more work.
    pub(crate) fn is_done(&self, state: TaskState, messages: &GrowingList<Message>) -> bool {
        match state {
            TaskState::InputRequired => self.kind != DemoCase::Answered || self.is_answered(messages),
            state => state.is_terminal(),
        }
    }

    /// Whether the person has answered.
    pub(crate) fn is_answered(&self, messages: &GrowingList<Message>) -> bool {
        let id = self.answer().id;
        messages.iter().any(|message| message.id == id)
    }

    /// Returns the person's answer to the question about the payment.
    pub(crate) fn answer(&self) -> Message {
        let mut mint = CaseNames::new(&format!("{}-answer", self.posted.id));
        let said = Part::text("I asked the bank: it was paid. Note that, please.");
        let noted = Part::tool_call_of(
            "echo",
            JsonText::from(json!({"text": "paid, says the bank"})),
            Some("call-2"),
        );
        Message::new("user", vec![said, noted], &mut mint)
    }
}

/// Derives ids from the task's name, so that a task is the same each time it is generated.
struct CaseNames {
    name: String,
    made: u32,
}

impl CaseNames {
    fn new(name: &str) -> Self {
        Self { name: name.to_owned(), made: 0 }
    }
}

impl Mint for CaseNames {
    fn id(&mut self, prefix: &str) -> String {
        self.made += 1;
        format!("{prefix}{}_{}", self.name, self.made)
    }

    fn uuid(&mut self) -> String {
        self.id("")
    }

    fn timestamp(&mut self) -> String {
        SystemClock.now().to_string()
    }
}

/// The `SplitMix64` generator: small, the same on every platform, random enough for a demo.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn up_to(&mut self, most: u64) -> u64 {
        1 + self.roll() % most
    }

    fn pick<'a, T, const N: usize>(&mut self, from: &'a [T; N]) -> &'a T {
        let at = usize::try_from(self.roll() % N as u64).unwrap_or(0);
        from.get(at).unwrap_or_else(|| unreachable!("a number modulo the length is an index"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A task's id, its parts, and the model's replies.
    type Shown = (String, JsonText, Option<(String, Vec<Entry>)>);

    fn shown(plan: Plan) -> Vec<Shown> {
        let one = |task: DemoTask| {
            let parts: Vec<_> = task.posted.messages.iter().flat_map(|m| m.parts.clone()).collect();
            (task.posted.id.clone(), JsonText::of_model(&parts), task.replies)
        };
        plan.tasks().into_iter().map(one).collect()
    }

    #[test]
    fn a_seed_makes_up_the_same_tasks_again_and_another_seed_others() {
        let plan = Plan { seed: 7, tasks: 25 };
        assert_eq!(shown(plan), shown(plan));
        assert_ne!(shown(plan), shown(Plan { seed: 8, tasks: 25 }));
        // A larger plan begins with the same tasks.
        assert_eq!(shown(plan)[..12], shown(Plan { seed: 7, tasks: 12 })[..]);
    }

    #[test]
    fn no_prompt_is_part_of_another_so_that_each_finds_its_own_replies() {
        let tasks = Plan { seed: 3, tasks: 200 }.tasks();
        let prompts: Vec<_> = tasks.iter().filter_map(|t| t.replies.as_ref()).map(|r| &r.0).collect();
        for (at, one) in prompts.iter().enumerate() {
            let others = prompts.iter().enumerate().filter(|(other, _)| *other != at);
            assert!(others.into_iter().all(|(_, other)| !other.contains(one.as_str())), "{one}");
        }
    }
}
