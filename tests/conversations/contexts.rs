//! Long conversations under context strategies: each strategy through the system, the intent that says what was sent, and
//! the readers that render it again without any strategy.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

use std::sync::Arc;

use crate::contexts_support::{builder, call, forecast, last, run, script};
use crate::prompt_support::{assert_rendered, inferences, selection, with_other_intents};
use proto_events::call::{Call, Selection};
use proto_events::id::StreamId;
use proto_events::json;
use proto_events::session::Session;
use taskreel::context::{
    Chain, ContextError, ContextStrategy, FitContextWindow, History, Reduction, Rules, TrimRounds,
    TruncateToolOutputs,
};
use taskreel::infer::{BoxFuture, Entry, InferBackend, InferError, InferReply, InferRequest, Scripted};
use taskreel::tool::ToolPolicy;
use taskreel::{Builder, Live, Part, TaskState, testing};
use taskreel_log::api::EventStore;
use taskreel_log::audit::verify;
use taskreel_log::memory::MemoryStore;
use taskreel_log::read::fold_stream;
use tokio::sync::Notify;

#[tokio::test]
async fn each_strategy_sends_what_the_log_alone_renders_again_and_changes_no_history() {
    let strategies: [(Arc<dyn ContextStrategy>, &str); 6] = [
        (Arc::new(TrimRounds::new(3).unwrap()), "trim-rounds(3)"),
        (Arc::new(TrimRounds::new(3).unwrap().rules(Rules::Agentix)), "agentix/trim-rounds(3)"),
        (Arc::new(TruncateToolOutputs::new(40).unwrap()), "truncate-tool-outputs(40)"),
        (Arc::new(FitContextWindow::new(900).unwrap()), "fit-context-window(900)"),
        (
            Arc::new(Chain::new(TruncateToolOutputs::new(40).unwrap()).then(TrimRounds::new(4).unwrap())),
            "truncate-tool-outputs(40), trim-rounds(4)",
        ),
        (
            Arc::new(Chain::new(TrimRounds::new(9).unwrap()).then(FitContextWindow::new(700).unwrap())),
            "trim-rounds(9), fit-context-window(700)",
        ),
    ];
    for is_native in [false, true] {
        for (strategy, name) in &strategies {
            let (log, requests) = run(|builder| builder.context(Arc::clone(strategy)), 6, is_native).await;
            assert_eq!(requests.len(), 12);
            assert_rendered(&*log, &requests);
            let found = inferences(&*log);
            let reduced: Vec<&Selection> = found.iter().filter_map(|(_, call)| selection(call)).collect();
            assert!(
                !reduced.is_empty() && reduced.iter().all(|selection| selection.strategy == *name),
                "{name}"
            );
            for (selection, sizes) in
                reduced.iter().map(|selection| (selection, selection.sizes.as_ref().unwrap()))
            {
                assert!(sizes.tokens_after < sizes.tokens_before, "{selection:?}");
                assert!(sizes.limit.is_none_or(|limit| sizes.tokens_after <= limit), "{selection:?}");
            }
            for (at, request) in requests.iter().enumerate() {
                let question = request.messages.iter().rev().find(|message| message.role.as_str() == "user");
                // Two inferences in each turn.
                let newest = format!("question {}: shall I take a coat?", at / 2);
                assert_eq!(question.unwrap().content, newest, "the newest question is shown, whole");
                let pairs = request.messages.iter().filter(|message| message.answers.is_some()).count();
                assert_eq!(pairs, request.messages.iter().map(|message| message.calls.len()).sum::<usize>());
            }
            let session = StreamId::session("desk", "s").unwrap();
            let history = fold_stream::<Session>(&*log, &session, None).unwrap().state;
            assert_eq!(history.history().len(), 1 + 6 * 4, "the log keeps all messages");
        }
    }
}

#[tokio::test]
async fn a_cut_is_marked_by_a_field_and_a_window_alone_is_enough() {
    let (log, requests) = run(|builder| builder.context_window(900), 6, true).await;
    assert_rendered(&*log, &requests);
    let counts: Vec<usize> = requests.iter().map(|request| request.messages.len()).collect();
    assert!(counts.iter().max().unwrap() < &20 && counts[11] > 4, "{counts:?}");
    let (log, requests) =
        run(|builder| builder.context(TruncateToolOutputs::new(40).unwrap()), 2, true).await;
    assert_rendered(&*log, &requests);
    let answer = requests[1].messages.iter().find(|message| message.answers.is_some()).unwrap();
    assert_eq!(answer.content.chars().count(), 40);
    assert!(answer.content.ends_with("...[truncated]") && answer.omitted > 400, "{answer:?}");
    assert!(requests[1].messages.iter().filter(|message| message.omitted > 0).count() == 1);
}

#[tokio::test]
async fn without_a_strategy_an_intent_says_nothing_of_one() {
    let (log, requests) = run(|builder| builder, 3, false).await;
    assert_rendered(&*log, &requests);
    assert!(inferences(&*log).iter().all(|(_, call)| selection(call).is_none()));
    let (log, _) = run(|builder| builder.context_window(1_000_000), 3, false).await;
    assert!(inferences(&*log).iter().all(|(_, call)| selection(call).is_none()), "all fits the window");
}

#[tokio::test]
async fn a_listener_hears_once_for_each_inference_what_was_left_out() {
    let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
    let builder = builder(store.clone()).context(TrimRounds::new(1).unwrap());
    let system =
        builder.infer(Scripted::new([call("Oslo"), call("Rome"), last("yes")])).start().await.unwrap();
    let task = system.task("t").unwrap();
    let mut live = task.live();
    let posted = json!({"id": "t", "metadata": {"session_id": "s"},
        "messages": [{"role": "user", "parts": [{"type": "infer", "content": {"prompt": "coat?"}}]}]});
    let posted = taskreel::PostedTask::from_json(&posted.into(), &mut taskreel::Ports::default()).unwrap();
    system.submit(posted).await.unwrap();
    task.finished().await.unwrap();
    system.shutdown().await.unwrap();
    let mut heard = Vec::new();
    while let Some(event) = live.next().await {
        if let Live::ContextReduced { before, after, .. } = event {
            heard.push((before.messages, after.messages, after.tokens < before.tokens));
        }
    }
    let log = store.reopen().unwrap();
    let said: Vec<_> = inferences(&*log)
        .iter()
        .filter_map(|(_, call)| {
            Some((
                selection(call)?.sizes.clone()?.messages_before,
                call.request.prompt.clone()?.messages,
                true,
            ))
        })
        .collect();
    assert_eq!((heard.len(), &heard), (1, &said));
}

/// A model that never answers, and says when it is asked.
#[derive(Clone, Default)]
struct Silent(Arc<Notify>);

impl InferBackend for Silent {
    fn backend(&self) -> &'static str {
        "scripted"
    }

    fn model(&self) -> &'static str {
        "scripted"
    }

    fn infer(&self, _: InferRequest) -> BoxFuture<'static, Result<InferReply, InferError>> {
        self.0.notify_one();
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn an_inference_that_a_crash_interrupted_is_sent_again_as_its_intent_says_under_any_strategy() {
    let store = Arc::new(MemoryStore::new());
    let first = builder(store.clone()).infer(script(4, false)).start().await.unwrap();
    for _ in 0..4 {
        first.session("s").send(Part::infer("coat?")).await.unwrap().finished().await.unwrap();
    }
    // It ends without a word, as a crash ends it.
    let store = Arc::new(store.reopened().unwrap());
    let silent = Silent::default();
    let second = builder(store.clone())
        .context(TrimRounds::new(2).unwrap())
        .infer(silent.clone())
        .start()
        .await
        .unwrap();
    let task = second.session("s").send(Part::infer("and now?")).await.unwrap();
    silent.0.notified().await;
    // The program ends here.
    let store = Arc::new(store.reopened().unwrap());
    let model = Scripted::new([last("yes")]);
    let third = builder(store.clone())
        .context(TrimRounds::new(9).unwrap())
        .infer(model.clone())
        .start()
        .await
        .unwrap();
    let end = third.task(task.id()).unwrap().finished().await.unwrap();
    assert_eq!(end.answer().unwrap().as_str(), "\"yes\"");
    third.shutdown().await.unwrap();
    let log = store.reopen().unwrap();
    assert_rendered(&*log, &model.requests());
    let stream = StreamId::task("desk", task.id()).unwrap();
    let of_task: Vec<Call> =
        inferences(&*log).into_iter().filter(|(of, _)| *of == stream).map(|(_, call)| call).collect();
    assert_eq!(of_task.len(), 1, "no other inference takes its place");
    assert_eq!(of_task[0].attempts, 2);
    assert_eq!(selection(&of_task[0]).unwrap().strategy, "trim-rounds(2)");
    assert_eq!(
        model.requests()[0].messages.len(),
        of_task[0].request.prompt.as_ref().unwrap().messages as usize
    );
}

#[tokio::test]
async fn on_virtual_time_a_crash_at_each_append_leaves_prompts_that_the_log_renders() {
    let describe = |builder: Builder| {
        builder
            .tool_with("forecast", "Weather", forecast, ToolPolicy::read_only())
            .context(Chain::new(TruncateToolOutputs::new(60).unwrap()).then(TrimRounds::new(1).unwrap()))
            .infer(Scripted::by_prompt([(
                "coat?".to_owned(),
                vec![
                    Entry::json(&json!({"type": "tool_call", "tool": "forecast", "args": {"city": "Oslo"}})),
                    Entry::json(&json!({"type": "tool_call", "tool": "forecast", "args": {"city": "Rome"}})),
                    last("yes"),
                ],
            )]))
    };
    let workload = |driver: testing::Driver| async move {
        driver.session("s").send(Part::infer("coat?")).await?.finished().await.map(|_| ())
    };
    let matrix = testing::CrashMatrix::new(describe, workload);
    let report = matrix.run().await.unwrap_or_else(|broken| panic!("{broken}"));
    assert!(report.appends >= 5, "{report:?}");
}

#[tokio::test]
async fn a_changed_selection_in_an_intent_is_a_finding() {
    type Change = fn(&mut Selection);
    let changes: [(Change, &str); 7] = [
        (|selection| selection.kept[0].count += 200, "a selection of messages that does not fit"),
        (|selection| selection.kept[0].count -= 1, "but what it was shown has"),
        (
            |selection| selection.cuts.iter_mut().for_each(|cut| cut.characters += 1),
            "names a prompt of digest",
        ),
        (
            |selection| selection.rules.iter_mut().for_each(|rule| rule.characters += 1),
            "names a prompt of digest",
        ),
        (
            |selection| selection.rules.iter_mut().for_each(|rule| rule.except.push(1)),
            "names a prompt of digest",
        ),
        (|selection| selection.markers[0].push('!'), "names a prompt of digest"),
        (|selection| selection.sizes.as_mut().unwrap().messages_before += 1, "names a selection of"),
    ];
    let (log, _) = run(|builder| builder.context(TruncateToolOutputs::new(40).unwrap()), 2, true).await;
    for (change, finding) in changes {
        let forged = with_other_intents(&*log, |asked| {
            if let Some(selection) = asked.prompt.as_mut().and_then(|prompt| prompt.selection.as_mut()) {
                change(selection);
            }
        })
        .await;
        let findings = verify(&forged).findings;
        assert!(findings.iter().any(|found| found.what.contains(finding)), "{finding}: {findings:#?}");
    }
}

#[tokio::test]
async fn what_does_not_fit_the_window_fails_its_task_and_no_model_is_asked() {
    let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
    let model = script(1, false);
    let system = builder(store.clone()).context_window(60).infer(model.clone()).start().await.unwrap();
    let end = system.session("s").send(Part::infer("coat?")).await.unwrap().finished().await.unwrap();
    assert_eq!(end.state(), TaskState::Failed);
    let error = end.task().error().unwrap_or_default();
    assert!(error.contains("the model was not asked") && error.contains("of a limit of 60"), "{error}");
    system.shutdown().await.unwrap();
    assert!(model.requests().is_empty() && inferences(&*store.reopen().unwrap()).is_empty());
    let refused = builder(Arc::new(MemoryStore::new())).context_window(0).start().await.err().unwrap();
    assert!(refused.to_string().contains("max_tokens must be >= 1"), "{refused}");
}

/// A strategy of a host that keeps what it should not, or panics.
struct Wrong {
    panics: bool,
}

impl ContextStrategy for Wrong {
    fn name(&self) -> String {
        "wrong".to_owned()
    }

    fn reduce(&self, history: &mut History<'_>) -> Result<Reduction, ContextError> {
        assert!(!self.panics, "a panic on purpose");
        let mut view = history.view().clone();
        let newest = view.numbers().next_back();
        view.retain(|number| Some(number) != newest);
        Ok(Reduction::View(view))
    }
}

#[tokio::test]
async fn a_strategy_that_parts_a_call_from_its_answer_or_panics_fails_the_task_by_name() {
    let parted = "`wrong` has returned a view that cannot be sent: message 2 answers a call, and only one of the two is kept";
    let panicked = "the context strategy `wrong` has panicked: a panic on purpose";
    for (panics, is_native, told) in
        [(false, true, parted), (false, false, parted), (true, true, panicked), (true, false, panicked)]
    {
        let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
        let model = script(1, is_native);
        let system =
            builder(store.clone()).context(Wrong { panics }).infer(model.clone()).start().await.unwrap();
        let end = system.session("s").send(Part::infer("coat?")).await.unwrap().finished().await.unwrap();
        let error = end.task().error().unwrap_or_default();
        assert!(end.state() == TaskState::Failed && error.contains(told), "{error}");
        system.shutdown().await.unwrap();
        assert!(model.requests().len() <= 1 && verify(&*store.reopen().unwrap()).is_sound());
    }
}
