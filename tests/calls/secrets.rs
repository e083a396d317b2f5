//! Secret arguments of tools: the value reaches the tool, and no byte of the log ever holds it.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

use std::sync::Arc;
use std::time::Duration;

use crate::bench::{
    Bench, Does, PASSWORD, TASK, argument, ended, failure, files, holds, last_call, login, spills,
};
use proto_events::call::CallStatus;
use proto_events::json;
use proto_events::json::JsonText;
use proto_events::secret::{KeptSecret, SecretRef};
use taskreel::approval::{ApprovalRequest, ApprovalVerdict, CapabilityPolicy};
use taskreel::infer::Scripted;
use taskreel::tool::{SecretRequest, ToolPolicy, Verdict};
use taskreel::{Error, Live, StreamId, TaskState};
use taskreel_log::doctor::examine;
use taskreel_log::memory::MemoryStore;
use taskreel_log::secrets::{KeptValue, SECRETS_DIR, SecretFiles};
use taskreel_log::testing::{AppendFault, Faults, FaultyStore};

fn idempotent() -> ToolPolicy {
    ToolPolicy::idempotent()
}

#[tokio::test]
async fn a_posted_value_is_in_one_private_file_while_its_call_is_open_and_nowhere_afterwards() {
    let bench = Bench::that(Does::Hangs);
    let dir = tempfile::tempdir().unwrap();
    let system = bench.start(dir.path(), idempotent()).await;
    let task = system.submit(login(PASSWORD)).await.unwrap();
    bench.reached().await;
    assert!(spills(dir.path()).is_empty(), "the log holds the value: {:?}", spills(dir.path()));
    let kept = files(dir.path());
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert!(holds(&std::fs::read(&kept[0]).unwrap()));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&kept[0]), mode(&dir.path().join(SECRETS_DIR))), (0o600, 0o700));
    }
    bench.let_go();
    let end = ended(&task).await;
    assert_eq!(end.state(), TaskState::Completed, "{}", end.to_json());
    assert_eq!(bench.given(), [PASSWORD]);
    system.shutdown().await.unwrap();
    assert!(files(dir.path()).is_empty(), "the call is settled");
    assert!(spills(dir.path()).is_empty());
    let call = last_call(&end);
    let Some(SecretRef::Kept(reference)) = SecretRef::parse(&argument(&call)) else { panic!("{call:?}") };
    assert!(reference.fits(&JsonText::string(PASSWORD)), "the salted digest proves the value");
    assert_eq!(call.request.secrets, ["password"]);
    let shown = end.to_json();
    assert!(
        shown.as_str().matches(&reference.to_string()).count() >= 2,
        "message and answer name it: {shown}"
    );
}

#[tokio::test]
async fn after_a_crash_the_call_is_sent_again_with_the_value() {
    let bench = Bench::that(Does::Hangs);
    let (dir, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let system = bench.start(dir.path(), idempotent()).await;
    system.submit(login(PASSWORD)).await.unwrap();
    bench.reached().await;
    crate::bench::copy(dir.path(), copy.path());
    assert!(examine(copy.path()).unwrap().is_sound(), "an open call needs the value");
    let after = Bench::default();
    let again = after.start(copy.path(), idempotent()).await;
    let end = ended(&again.task(TASK).unwrap()).await;
    assert_eq!(end.state(), TaskState::Completed, "{}", end.to_json());
    assert_eq!((after.given(), last_call(&end).attempts), (vec![PASSWORD.to_owned()], 2));
    again.shutdown().await.unwrap();
    assert!(files(copy.path()).is_empty() && spills(copy.path()).is_empty());
    bench.let_go();
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_failure_a_panic_a_lost_answer_and_progress_are_masked() {
    for does in [Does::Fails, Does::Panics, Does::Loses, Does::Repeats] {
        let bench = Bench::that(does);
        let dir = tempfile::tempdir().unwrap();
        let system = bench.start(dir.path(), ToolPolicy::manual()).await;
        let task = system.task(TASK).unwrap();
        let mut live = task.live();
        system.submit(login(PASSWORD)).await.unwrap();
        let end = ended(&task).await;
        let reference = argument(&last_call(&end));
        match (does, &last_call(&end).status) {
            (Does::Loses, CallStatus::Unknown(why)) => assert!(why.contains(&reference), "{why}"),
            (Does::Repeats, CallStatus::Succeeded(said)) => assert!(said.as_str().contains(&reference)),
            (_, CallStatus::Failed(failure)) => assert!(failure.message.contains(&reference), "{failure:?}"),
            (_, other) => panic!("{other:?}"),
        }
        let heard = tokio::time::timeout(Duration::from_secs(5), async {
            loop {
                if let Some(Live::Progress { text, .. }) = live.next().await {
                    return text;
                }
            }
        });
        let heard = heard.await.unwrap();
        assert!(heard.contains(&reference) && !holds(heard.as_bytes()), "{heard}");
        system.shutdown().await.unwrap();
        assert!(spills(dir.path()).is_empty());
        let is_kept = !files(dir.path()).is_empty();
        assert_eq!(is_kept, does == Does::Loses, "only an unknown call may be sent again");
    }
}

#[tokio::test]
async fn a_value_is_removed_when_a_person_has_settled_its_call() {
    let bench = Bench::that(Does::Loses);
    let dir = tempfile::tempdir().unwrap();
    let system = bench.start(dir.path(), ToolPolicy::manual()).await;
    let task = system.submit(login(PASSWORD)).await.unwrap();
    let end = ended(&task).await;
    assert_eq!(end.state(), TaskState::InputRequired);
    let call_id = last_call(&end).request.call_id;
    task.reconcile(&call_id, Verdict::DidNotHappen, "ada").await.unwrap();
    let end = ended(&task).await;
    assert_eq!(bench.given().len(), 2, "the call is made again with the value: {}", end.to_json());
    let call_id = last_call(&end).request.call_id;
    task.reconcile(&call_id, Verdict::Landed(JsonText::null()), "ada").await.unwrap();
    ended(&task).await;
    system.shutdown().await.unwrap();
    assert!(files(dir.path()).is_empty() && spills(dir.path()).is_empty());
}

#[tokio::test]
async fn a_value_given_by_name_comes_from_the_host_and_is_kept_nowhere() {
    let provider = |asked: SecretRequest| async move {
        assert_eq!((asked.tool.as_str(), asked.argument.as_str()), ("login", "password"));
        match asked.name.as_str() {
            "prod/login" => Ok(Some(PASSWORD.to_owned())),
            "locked" => Err("the vault is locked".to_owned()),
            _ => Ok(None),
        }
    };
    for (name, served, says) in [
        ("secret:prod/login", true, ""),
        ("secret:other", true, "no secret `other` for the argument `password` of login"),
        ("secret:locked", true, "the vault is locked"),
        ("secret:prod/login", false, "set a provider with `Builder::secrets`"),
    ] {
        let (bench, dir) = (Bench::default(), tempfile::tempdir().unwrap());
        let builder = bench.builder(dir.path(), idempotent());
        let builder = if served { builder.secrets(provider) } else { builder };
        let system = builder.start().await.unwrap();
        let end = ended(&system.submit(login(name)).await.unwrap()).await;
        assert_eq!(argument(&last_call(&end)), name);
        if says.is_empty() {
            assert_eq!((bench.given(), end.state()), (vec![PASSWORD.to_owned()], TaskState::Completed));
        } else {
            let failure = failure(&end);
            assert!(failure.message.contains(says), "{failure:?}");
            assert_eq!((failure.class.as_str(), bench.given().len()), ("before-effect", 0));
        }
        system.shutdown().await.unwrap();
        assert!(files(dir.path()).is_empty() && spills(dir.path()).is_empty());
    }
}

#[tokio::test]
async fn what_a_model_writes_in_clear_is_replaced_before_its_reply_is_stored() {
    let args = json!({"user": "ada", "password": PASSWORD});
    let text = json!({"type": "tool_call", "tool": "login", "args": args.clone()});
    let native =
        json!({"calls": [json!({"tool": "login", "args": args})], "content": format!("I use {PASSWORD}")});
    let answer = json!({"type": "final", "content": "done"});
    let said = format!("Let me log in with {PASSWORD}:\n```json\n{text}\n```");
    // What is only quoted is not carried out, and holds the value no more than an action does.
    for (first, made) in [(text.clone(), true), (native, true), (said.into(), false)] {
        let (bench, dir) = (Bench::default(), tempfile::tempdir().unwrap());
        let script = JsonText::from(json!([first, answer.clone()]));
        let script = Scripted::from_json(script.as_str()).unwrap();
        let system = bench.builder(dir.path(), idempotent()).infer(script.clone()).start().await.unwrap();
        let part = json!({"type": "infer", "content": json!({"prompt": "log in"})});
        let end = ended(&system.submit(crate::bench::task(TASK, &part)).await.unwrap()).await;
        let given = if made { vec![PASSWORD.to_owned()] } else { Vec::new() };
        assert_eq!((end.state(), bench.given()), (TaskState::Completed, given));
        let shown = format!("{:?}", script.requests().last().unwrap().messages);
        assert!(!holds(shown.as_bytes()) && shown.contains("secret:sha256-"), "{shown}");
        system.shutdown().await.unwrap();
        assert!(files(dir.path()).is_empty() && spills(dir.path()).is_empty());
    }
}

#[tokio::test]
async fn an_approver_sees_the_reference_and_the_approved_call_gets_the_value() {
    let (bench, dir) = (Bench::default(), tempfile::tempdir().unwrap());
    let approver = |asked: ApprovalRequest| async move {
        assert!(!holds(format!("{asked:?}").as_bytes()), "{asked:?}");
        ApprovalVerdict::Approved
    };
    let policy = CapabilityPolicy::new().require_approval("net.login");
    let builder = bench.builder(dir.path(), idempotent().capabilities(["net.login"]));
    let system = builder.capability_policy(policy).approval_handler(approver).start().await.unwrap();
    let end = ended(&system.submit(login(PASSWORD)).await.unwrap()).await;
    assert_eq!((end.state(), bench.given()), (TaskState::Completed, vec![PASSWORD.to_owned()]));
    system.shutdown().await.unwrap();
    assert!(files(dir.path()).is_empty() && spills(dir.path()).is_empty());
}

#[tokio::test]
async fn a_repeated_post_is_recognised_and_another_value_is_another_content() {
    let (bench, dir) = (Bench::default(), tempfile::tempdir().unwrap());
    let system = bench.start(dir.path(), idempotent()).await;
    let end = ended(&system.submit_once("once", login(PASSWORD)).await.unwrap()).await;
    let again = ended(&system.submit_once("once", login(PASSWORD)).await.unwrap()).await;
    assert_eq!((again.version(), bench.given().len()), (end.version(), 1));
    let other = system.submit_once("once", login("another-battery-4711")).await;
    assert!(matches!(other, Err(Error::CommandIdReused { .. })), "{other:?}");
    // The task as its client got it back holds the reference.
    let back =
        taskreel::PostedTask::parse(end.to_json().as_str(), &mut taskreel_log::ports::Ports::default());
    let back = ended(&system.submit(back.unwrap()).await.unwrap()).await;
    assert_eq!((back.version(), bench.given().len()), (end.version(), 1));
    system.shutdown().await.unwrap();
    assert!(files(dir.path()).is_empty() && spills(dir.path()).is_empty());
}

#[tokio::test]
async fn a_reference_is_worth_nothing_in_another_task() {
    let bench = Bench::that(Does::Loses);
    let dir = tempfile::tempdir().unwrap();
    let system = bench.start(dir.path(), ToolPolicy::manual()).await;
    let end = ended(&system.submit(login(PASSWORD)).await.unwrap()).await;
    let mut stolen = login(&argument(&last_call(&end)));
    stolen.id = "thief".to_owned();
    let end = ended(&system.submit(stolen).await.unwrap()).await;
    let failure = failure(&end);
    assert_eq!((failure.error_type.as_str(), bench.given().len()), ("SecretMissing", 1));
    assert!(failure.message.contains("post the task again with the value"), "{failure:?}");
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_value_that_no_call_needs_is_told_by_doctor_and_removed_by_the_next_start() {
    let (bench, dir) = (Bench::default(), tempfile::tempdir().unwrap());
    let system = bench.start(dir.path(), idempotent()).await;
    ended(&system.submit(login(PASSWORD)).await.unwrap()).await;
    system.shutdown().await.unwrap();
    let value = JsonText::string("left behind");
    let left = KeptValue {
        stream: StreamId::task("agent", TASK).unwrap(),
        tool: "login".to_owned(),
        argument: "password".to_owned(),
        reference: KeptSecret::new([5; 16], &value),
        value,
    };
    SecretFiles::of_log(dir.path()).store(&left).unwrap();
    let found = examine(dir.path()).unwrap();
    let told = found.findings.iter().any(|finding| finding.what.contains("no open call needs"));
    assert!(told, "{:?}", found.findings);
    assert!(!format!("{found:?}").contains("left behind"));
    let system = bench.start(dir.path(), idempotent()).await;
    system.submit(crate::bench::task("u", &json!({"type": "text", "content": "x"}))).await.unwrap();
    let gone = async {
        while !files(dir.path()).is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), gone).await.unwrap();
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_value_that_an_append_in_doubt_names_outlives_every_look_at_its_task() {
    let (bench, dir) = (Bench::default(), tempfile::tempdir().unwrap());
    let faults = Faults::none();
    let store = FaultyStore::new(Arc::new(MemoryStore::new()), faults.clone());
    let system = bench.builder(dir.path(), idempotent()).store(Arc::new(store)).start().await.unwrap();
    faults.at_next_append(AppendFault::AfterWrite);
    let doubt = system.submit(login(PASSWORD)).await.unwrap_err();
    assert!(matches!(doubt, Error::InDoubt { .. }), "{doubt}");
    for _ in 0..3 {
        let _ = system.task(TASK).unwrap().snapshot().await;
    }
    system.reopen().await.unwrap();
    let end = ended(&system.task(TASK).unwrap()).await;
    assert_eq!((end.state(), bench.given()), (TaskState::Completed, vec![PASSWORD.to_owned()]));
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn over_a_store_in_memory_values_are_kept_in_memory() {
    let (bench, dir) = (Bench::default(), tempfile::tempdir().unwrap());
    let store = Arc::new(MemoryStore::new());
    let system = bench.builder(dir.path(), idempotent()).store(store).start().await.unwrap();
    let end = ended(&system.submit(login(PASSWORD)).await.unwrap()).await;
    assert_eq!((end.state(), bench.given()), (TaskState::Completed, vec![PASSWORD.to_owned()]));
    assert!(!holds(end.to_json().as_str().as_bytes()));
    system.shutdown().await.unwrap();
    assert!(std::fs::read_dir(dir.path()).unwrap().next().is_none());
}

#[tokio::test]
async fn a_value_that_does_not_suit_the_tool_is_refused_before_it_is_sent() {
    let (bench, dir) = (Bench::default(), tempfile::tempdir().unwrap());
    let system = bench.start(dir.path(), idempotent()).await;
    let part = json!({"type": "tool_call", "content": json!({
        "tool_name": "login", "args": json!({"user": "ada", "password": ["a-battery-4711"]}),
    })});
    let end = ended(&system.submit(crate::bench::task(TASK, &part)).await.unwrap()).await;
    assert_eq!((failure(&end).class.as_str(), bench.given().len()), ("rejected", 0));
    system.shutdown().await.unwrap();
    assert!(files(dir.path()).is_empty() && spills(dir.path()).is_empty());
}

#[derive(serde::Deserialize, taskreel::JsonSchema)]
struct Unlock {
    pin: u32,
}

#[tokio::test]
async fn a_number_may_be_secret_and_is_checked_when_its_value_is_in_place() {
    let dir = tempfile::tempdir().unwrap();
    let unlock = |asked: Unlock| async move { Ok::<_, String>(asked.pin) };
    let policy = idempotent().secret_args(["pin"]);
    let builder = taskreel::System::builder(dir.path()).tool_with("unlock", "Unlocks", unlock, policy);
    let system = builder.start().await.unwrap();
    for (id, pin, state) in
        [("t", json!(47_114_711), TaskState::Completed), ("u", json!(-1), TaskState::Failed)]
    {
        let content = json!({"tool_name": "unlock", "args": json!({"pin": pin})});
        let part = json!({"type": "tool_call", "content": content});
        let end = ended(&system.submit(crate::bench::task(id, &part)).await.unwrap()).await;
        assert_eq!(end.state(), state, "{}", end.to_json());
        assert!(!end.to_json().as_str().contains("47114711"), "{}", end.to_json());
    }
    system.shutdown().await.unwrap();
    assert!(files(dir.path()).is_empty());
}
