//! Texts that quote an action: a model that repeats one from a prompt, a document or a result of a tool carries out nothing.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use crate::histories_support::assert_verifies;
use proptest::prelude::*;
use proto_events::json::JsonText;
use serde::Deserialize;
use taskreel::infer::{ChatMessage, InferBackend, InferError, InferReply, InferRequest, ToolAsk};
use taskreel::tool::BoxFuture;
use taskreel::{JsonSchema, LoopRules, Part, System, TaskSnapshot, TaskState};
use taskreel_log::memory::MemoryStore;

#[derive(Deserialize, JsonSchema)]
struct Order {
    #[allow(dead_code, reason = "only the call counts")]
    order: String,
}

/// A model that gives these replies in turn, and the last one for ever.
#[derive(Clone)]
struct Replies {
    native: bool,
    left: Arc<Mutex<VecDeque<InferReply>>>,
    requests: Arc<Mutex<Vec<InferRequest>>>,
}

impl Replies {
    fn new(native: bool, replies: impl IntoIterator<Item = InferReply>) -> Self {
        let left = Arc::new(Mutex::new(replies.into_iter().collect()));
        Self { native, left, requests: Arc::default() }
    }

    /// Returns the texts of the last request, the newest last.
    fn last_prompt(&self) -> Vec<String> {
        let requests = self.requests.lock().unwrap();
        requests.last().unwrap().messages.iter().map(ChatMessage::to_text).collect()
    }
}

impl InferBackend for Replies {
    fn backend(&self) -> &'static str {
        "replies"
    }

    fn model(&self) -> &'static str {
        "replies"
    }

    fn has_native_tools(&self) -> bool {
        self.native
    }

    fn infer(&self, request: InferRequest) -> BoxFuture<'static, Result<InferReply, InferError>> {
        self.requests.lock().unwrap().push(request);
        let mut left = self.left.lock().unwrap();
        let reply = if left.len() > 1 { left.pop_front() } else { left.front().cloned() };
        Box::pin(std::future::ready(Ok(reply.unwrap())))
    }
}

fn says(text: &str) -> InferReply {
    InferReply { content: text.to_owned(), model: "replies".to_owned(), ..InferReply::default() }
}

fn calls(asks: &[(&str, &str)]) -> InferReply {
    let ask = |(tool, args): &(&str, &str)| ToolAsk::from_provider(tool, args);
    InferReply { calls: asks.iter().map(ask).collect(), ..says("") }
}

/// Asks the model once; returns the end of the task and the number of refunds.
async fn asked(model: &Replies, rules: LoopRules) -> (TaskSnapshot, u32) {
    let refunds = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&refunds);
    let refund = move |_: Order| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { Ok::<_, Infallible>("refunded") }
    };
    let system = System::builder("-")
        .store(Arc::new(MemoryStore::new()))
        .loop_rules(rules)
        .delegation(true)
        .tool("refund", "Refunds an order", refund)
        .infer(model.clone())
        .start()
        .await
        .unwrap();
    let end = system.session("s").send(Part::infer("Where is A1?")).await.unwrap().finished().await.unwrap();
    system.shutdown().await.unwrap();
    (end, refunds.load(Ordering::SeqCst))
}

fn answer(end: &TaskSnapshot) -> Option<String> {
    end.answer().and_then(JsonText::to_str)
}

const ACTION: &str = r#"{"type":"tool_call","tool":"refund","args":{"order":"A1"}}"#;

/// Actions in the forms that models and documents write.
fn action() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        ACTION.to_owned(),
        r#"{"thought":"now","type":"tool_call","args":{"order":"A1"},"tool":"refund"}"#.to_owned(),
        r#"{"type":"tool_call","payload":{"tool":"refund","args":{"order":"A1"}}}"#.to_owned(),
        r#"{"type":"tool_call","prompt":"refund(order='A1')"}"#.to_owned(),
        r#"{"type":"agent_call","agent":"other","action":"infer","prompt":"refund A1"}"#.to_owned(),
        r#"{"name":"refund","arguments":{"order":"A1"}}"#.to_owned(),
        "<tool_call>\n{\"name\":\"refund\",\"arguments\":{\"order\":\"A1\"}}\n</tool_call>".to_owned(),
        "<function=refund>\n<parameter=order>A1</parameter>\n</function>".to_owned(),
    ])
}

/// Returns what stands before and behind a quotation.
fn wrapping() -> impl Strategy<Value = (String, String)> {
    let pairs = [
        ("", ""),
        ("The page says: ", ""),
        ("", " I have not done it."),
        ("Here is the form:\n", "\nShall I?"),
        ("```json\n", "\n```"),
        ("~~~\n", "\n~~~"),
        ("> ", ""),
        ("\"", "\""),
        ("`", "`"),
        ("<think>", "</think>\n"),
        ("<think>the page says </think>", ""),
        ("<document>", "</document>"),
        ("[", "]"),
        ("{\"quoted\":", "}"),
        ("<b>", "</b>"),
        ("\u{feff}", ""),
        ("ä\u{2028}", "🧾"),
    ];
    let pairs = pairs.map(|(before, behind)| (before.to_owned(), behind.to_owned()));
    prop::sample::select(pairs.to_vec())
}

fn quoted() -> impl Strategy<Value = String> {
    (action(), prop::collection::vec(wrapping(), 0..4)).prop_map(|(action, wrappings)| {
        wrappings.into_iter().fold(action, |text, (before, behind)| format!("{before}{text}{behind}"))
    })
}

/// Whether the text is an action by itself: only reasoning stands before it, and one fence around all of the rest.
fn is_bare(text: &str) -> bool {
    let mut text = text.trim_start_matches(['\u{feff}', '\n', ' ']).trim();
    while let Some((_, behind)) = text.strip_prefix("<think>").and_then(|rest| rest.split_once("</think>")) {
        text = behind.trim_start_matches(['\u{feff}', '\n', ' ']).trim();
    }
    let inner = text.strip_prefix("```json\n").and_then(|rest| rest.strip_suffix("\n```")).unwrap_or(text);
    JsonText::parse(inner).is_ok_and(|json| json.tree().get("type").is_some())
}

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_model_with_native_tools_that_repeats_an_action_in_any_wrapping_calls_nothing(text in quoted()) {
        let model = Replies::new(true, [says(&text)]);
        let (end, refunds) = run(asked(&model, LoopRules::Taskreel));
        prop_assert_eq!(refunds, 0, "{}", text);
        prop_assert!(end.task().calls().iter().all(|call| call.request.prompt.is_some()), "{}", text);
        prop_assert!(matches!(end.state(), TaskState::Completed | TaskState::Failed));
    }

    #[test]
    fn a_model_that_asks_by_text_calls_only_by_a_reply_that_is_an_action_as_a_whole(text in quoted()) {
        let done = r#"{"type":"final","content":"done"}"#;
        let model = Replies::new(false, [says(&text), says(done)]);
        let (end, refunds) = run(asked(&model, LoopRules::Taskreel));
        prop_assert_eq!(end.state(), TaskState::Completed, "{}", text);
        prop_assert!(refunds == 0 || is_bare(&text), "{}", text);
    }
}

#[tokio::test]
async fn a_quoted_action_is_the_answer_of_a_model_with_native_tools_word_for_word() {
    for text in [
        format!("To refund it one would write {ACTION} and wait. I have not done it."),
        format!("Here is the form:\n```json\n{ACTION}\n```\nShall I?"),
        "An answer has the form {\"type\":\"final\",\"content\":\"...\"} here.".to_owned(),
    ] {
        let (end, refunds) = asked(&Replies::new(true, [says(&text)]), LoopRules::Taskreel).await;
        assert_eq!((answer(&end), refunds), (Some(text), 0));
    }
    let thought = format!("<think>I could send {ACTION} but must not.</think>\nIt is on its way.");
    let (end, refunds) = asked(&Replies::new(true, [says(&thought)]), LoopRules::Taskreel).await;
    assert_eq!((answer(&end).as_deref(), refunds), (Some("It is on its way."), 0));
}

#[tokio::test]
async fn a_whole_reply_that_looks_like_a_call_is_told_so_once_and_then_the_run_ends() {
    let model = Replies::new(true, [says(ACTION), says("It is on its way.")]);
    let (end, refunds) = asked(&model, LoopRules::Taskreel).await;
    assert_eq!((answer(&end).as_deref(), refunds), (Some("It is on its way."), 0));
    assert!(model.last_prompt().last().unwrap().contains("a call written as text"));
    let (end, refunds) = asked(&Replies::new(true, [says(ACTION)]), LoopRules::Taskreel).await;
    assert_eq!((end.state(), refunds), (TaskState::Failed, 0));
    assert!(end.task().error().unwrap().contains("json_actions"), "{:?}", end.task().error());
}

#[tokio::test]
async fn reasoning_and_a_fence_around_a_whole_action_are_taken_off_and_not_sent_back() {
    let text = format!("<think>The user wants {{\"city\": ...}}.</think>\n\n```json\n{ACTION}\n```");
    let done = "<think>done</think>{\"type\":\"final\",\"content\":\"done\"}";
    let model = Replies::new(false, [says(&text), says(done)]);
    let (end, refunds) = asked(&model, LoopRules::Taskreel).await;
    assert_eq!((answer(&end).as_deref(), refunds), (Some("done"), 1));
    assert!(model.last_prompt().iter().all(|text| !text.contains("The user wants")));
}

#[tokio::test]
async fn protolinks_own_reading_is_a_setting() {
    let text = format!("I have not done it: {ACTION}");
    let done = says(r#"Sure: {"type":"final","content":"done"} there"#);
    for native in [false, true] {
        let model = Replies::new(native, [says(&text), done.clone()]);
        let (end, refunds) = asked(&model, LoopRules::Protolink).await;
        assert_eq!((answer(&end).as_deref(), refunds), (Some("done"), 1));
    }
}

#[tokio::test]
async fn a_model_with_native_tools_asks_another_agent_by_a_function_call() {
    let other = Replies::new(false, [says(r#"{"type":"final","content":"sunny"}"#)]);
    let ask = r#"{"agent":"weather","action":"infer","prompt":"Oslo?"}"#;
    let model = Replies::new(
        true,
        [
            calls(&[("agent_call", ask), ("agent_call", r#"{"agent":"weather"}"#)]),
            calls(&[("agent_call", ask)]),
            calls(&[("agent_call", ask)]),
            says("It is sunny."),
        ],
    );
    let store = Arc::new(MemoryStore::new());
    let system = System::builder("-")
        .store(Arc::clone(&store) as _)
        .agent("weather", |agent| agent.infer(other))
        .delegation(true)
        .infer(model.clone())
        .start()
        .await
        .unwrap();
    let sent = system.session("s").send(Part::infer("Coat?")).await.unwrap();
    let end = sent.finished().await.unwrap();
    assert_eq!(answer(&end).as_deref(), Some("It is sunny."), "{}", end.to_json());
    {
        let requests = model.requests.lock().unwrap();
        assert!(requests.iter().all(|request| request.tools.iter().any(|tool| tool.name == "agent_call")));
        let last = requests.last().unwrap();
        let said: Vec<String> = last
            .messages
            .iter()
            .filter(|message| message.answers.is_some())
            .map(ChatMessage::to_text)
            .collect();
        assert_eq!(said.len(), 4, "each ask has its answer");
        assert!(said[0].contains("beside other calls"), "{said:?}");
        assert!(said[1].contains("Field 'action'"), "{said:?}");
        assert!(said[2].contains("sunny"), "{said:?}");
        assert!(said[3].contains("not made again"), "{said:?}");
    }
    assert_verifies(&store);
    system.shutdown().await.unwrap();
}
