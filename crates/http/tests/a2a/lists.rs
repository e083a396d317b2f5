//! Lists of tasks against a plain model of them: every filter, page and caller, after a restart too.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use taskreel::System;
use taskreel_log::sled::SledStore;

use crate::agent::{Gate, with_handler};
use crate::asked::{Binding, handler};
use crate::stepping::Stepping;
use crate::support::{Host, actix};

/// A task as its caller knows it.
struct Known {
    id: String,
    caller: Option<&'static str>,
    context: String,
    state: String,
    since: String,
}

const CALLERS: [Option<&str>; 3] = [None, Some("ada"), Some("bob")];

async fn ids(host: &Host, caller: Option<&str>, params: &Value, size: usize) -> (Vec<String>, usize) {
    let (mut ids, mut token, mut total) = (Vec::new(), String::new(), None);
    loop {
        let mut params = params.clone();
        params["pageSize"] = json!(size);
        params["pageToken"] = json!(token);
        let page = Binding::Rpc1.ask_as(host, caller, "list", params).await.unwrap();
        let tasks = page["tasks"].as_array().unwrap();
        assert!(tasks.len() <= size, "{page}");
        ids.extend(tasks.iter().map(|task| task["id"].as_str().unwrap().to_owned()));
        let count = page["totalSize"].as_u64().unwrap();
        assert_eq!(*total.get_or_insert(count), count);
        page["nextPageToken"].as_str().unwrap().clone_into(&mut token);
        if token.is_empty() {
            return (ids, usize::try_from(count).unwrap());
        }
        assert_eq!(tasks.len(), size, "a page that is not the last one is full");
    }
}

/// Makes tasks of every kind, for every caller, in contexts of their own and in others.
async fn tasks(host: &Host, before_each: impl Fn(usize)) -> Vec<Known> {
    let texts = ["hello", "ask", "log in", "reply", "fail", "reject", "report"];
    let mut known: BTreeMap<String, Known> = BTreeMap::new();
    for n in 0..90_usize {
        before_each(n);
        let (caller, text) = (CALLERS[n % 3], texts[(n * 5 + n / 7) % texts.len()]);
        let mut at = json!({"messageId": format!("m{n}")});
        if n % 4 == 1 {
            at["contextId"] = json!(format!("c{}-{}", n % 3, n % 8));
        }
        // Some go on with a task that waits, which makes it the newest one.
        let waiting =
            known.values().find(|one| n % 5 == 4 && one.caller == caller && one.state.ends_with("REQUIRED"));
        if let Some(waiting) = waiting {
            at = json!({"messageId": format!("m{n}"), "taskId": waiting.id});
        }
        let params = json!({"message": Binding::Rpc1.message(text, &at)});
        let came = Binding::Rpc1.ask_as(host, caller, "send", params).await.unwrap();
        let task = &came["task"];
        if task.is_null() {
            // Answered by a message alone; the task that went on with it is not listed any more.
            if let Some(id) = at["taskId"].as_str() {
                known.remove(id);
            }
            continue;
        }
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let one = Known {
            id: text(&task["id"]),
            caller,
            context: text(&task["contextId"]),
            state: text(&task["status"]["state"]),
            since: text(&task["status"]["timestamp"]),
        };
        known.insert(one.id.clone(), one);
    }
    known.into_values().collect()
}

async fn compare(host: &Host, known: &[Known]) {
    let states =
        ["COMPLETED", "FAILED", "REJECTED", "INPUT_REQUIRED", "AUTH_REQUIRED", "WORKING", "CANCELED"];
    let states = states.map(|state| format!("TASK_STATE_{state}"));
    let mut times: Vec<&str> = known.iter().map(|one| one.since.as_str()).collect();
    times.sort_unstable();
    let contexts: Vec<&str> = known.iter().map(|one| one.context.as_str()).chain(["none"]).collect();
    let (mut asked, mut found) = (0, 0);
    for (n, context) in contexts.iter().map(|one| Some(*one)).chain([None; 30]).enumerate() {
        for caller in CALLERS {
            let state = (n % 3 > 0).then(|| states[n % states.len()].clone());
            let since = (n % 4 == 3).then(|| times[(n * 7) % times.len()]);
            let mut params = json!({});
            for (key, value) in
                [("contextId", context), ("status", state.as_deref()), ("statusTimestampAfter", since)]
            {
                if let Some(value) = value {
                    params[key] = json!(value);
                }
            }
            let mut expected: Vec<&str> = known
                .iter()
                .filter(|one| caller.is_none() || one.caller == caller)
                .filter(|one| context.is_none_or(|wanted| one.context == wanted))
                .filter(|one| state.as_ref().is_none_or(|wanted| one.state == *wanted))
                .filter(|one| since.is_none_or(|wanted| one.since.as_str() >= wanted))
                .map(|one| one.id.as_str())
                .collect();
            let (mut listed, total) = ids(host, caller, &params, 1 + n % 9).await;
            // Of two that changed within one millisecond only the log knows the order.
            let since: BTreeMap<&str, &str> =
                known.iter().map(|one| (one.id.as_str(), one.since.as_str())).collect();
            assert!(listed.is_sorted_by(|a, b| since[a.as_str()] >= since[b.as_str()]), "{params}");
            listed.sort_unstable();
            expected.sort_unstable();
            assert_eq!(
                (&listed, total),
                (&expected.iter().map(|id| (*id).to_owned()).collect(), expected.len()),
                "{caller:?} {params}"
            );
            asked += 1;
            found += usize::from(total > 0);
        }
    }
    assert!(found * 5 > asked, "{found} of {asked} found something");
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_what_a_plain_model_says_for_every_caller_filter_and_page_after_a_restart_too() {
    let dir = tempfile::tempdir().unwrap();
    let start = || {
        let store = Arc::new(SledStore::open(dir.path()).unwrap());
        with_handler(System::builder(dir.path()).log(store), &Gate::shut()).start()
    };
    let system = start().await.unwrap();
    let host = actix(handler(&system)).await;
    let known = tasks(&host, |_| {}).await;
    assert!(known.len() > 50, "{}", known.len());
    compare(&host, &known).await;
    host.stop().await;
    system.shutdown().await.unwrap();
    let system = start().await.unwrap();
    let host = actix(handler(&system)).await;
    compare(&host, &known).await;
    host.stop().await;
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_what_a_plain_model_says_while_the_clock_steps_back_and_forth_by_an_hour() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(Stepping::default());
    let start = || {
        let store = Arc::new(SledStore::open(dir.path()).unwrap());
        with_handler(System::builder(dir.path()).log(store).ports(clock.ports()), &Gate::shut()).start()
    };
    let system = start().await.unwrap();
    let host = actix(handler(&system)).await;
    let known = tasks(&host, |n| clock.step(n * n / 7)).await;
    compare(&host, &known).await;
    host.stop().await;
    system.shutdown().await.unwrap();
    clock.step(2);
    let system = start().await.unwrap();
    let host = actix(handler(&system)).await;
    compare(&host, &known).await;
    host.stop().await;
    system.shutdown().await.unwrap();
}
