//! The operations, on every binding and in two servers.

use std::sync::Arc;

use serde_json::{Value, json};
use taskreel::handler::ResponderEnd;
use taskreel_log::memory::MemoryStore;

use crate::agent::{Gate, agent};
use crate::asked::{ALL, Binding, hosts, text_of};
use crate::support::{ask, model, request, send, with_tools};

#[tokio::test(flavor = "multi_thread")]
async fn a_message_becomes_a_task_that_is_read_and_answered_on_every_binding() {
    let system = agent(&Gate::shut()).await;
    for host in hosts(&system).await {
        for binding in ALL {
            let done = binding.task(&host, "hello").await;
            let state = |task: &Value| task["status"]["state"].as_str().unwrap().to_owned();
            assert_eq!(state(&done), binding.state("completed"), "{binding:?} {done}");
            assert_eq!(text_of(&done["status"]["message"]), "heard hello");
            assert!(done["status"]["timestamp"].as_str().unwrap().ends_with('Z'));
            assert_eq!(done["contextId"], done["id"]);
            assert_eq!(done["history"][0]["messageId"], "m1");
            let params = json!({"id": done["id"]});
            assert_eq!(binding.ask(&host, "get", params).await.unwrap(), done, "{binding:?}");
            for (shown, count) in [(0, 0), (1, 1), (2, 2), (9, 2)] {
                let params = json!({"id": done["id"], "historyLength": shown});
                let task = binding.ask(&host, "get", params).await.unwrap();
                assert_eq!(task["history"].as_array().map_or(0, Vec::len), count, "{binding:?}");
            }
            for (text, word) in [("fail", "failed"), ("reject", "rejected"), ("ask", "input-required")] {
                let ended = binding.task(&host, text).await;
                assert_eq!(state(&ended), binding.state(word), "{binding:?} {ended}");
                assert!(!text_of(&ended["status"]["message"]).is_empty(), "{ended}");
            }
        }
        host.stop().await;
    }
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_responder_answers_asks_and_fails_on_every_binding() {
    let responder = |_: &taskreel::Task, message: &taskreel::Message| {
        let text = message.parts.first().and_then(|part| part.content().to_str()).unwrap_or_default();
        match text.as_str() {
            "ask" => ResponderEnd::InputRequired("Which city?".into()),
            "fail" => ResponderEnd::Failed("no paper".into()),
            text => format!("heard {text}").into(),
        }
    };
    let builder = taskreel::System::builder("in memory").store(Arc::new(MemoryStore::new()));
    let system = builder.responder(responder).start().await.unwrap();
    for host in hosts(&system).await {
        for binding in ALL {
            let state = |task: &Value| task["status"]["state"].as_str().unwrap().to_owned();
            let done = binding.task(&host, "hello").await;
            assert_eq!(state(&done), binding.state("completed"), "{binding:?} {done}");
            assert_eq!(text_of(&done["status"]["message"]), "heard hello");
            assert_eq!(done["history"].as_array().unwrap().len(), 2);
            assert_eq!(binding.ask(&host, "get", json!({"id": done["id"]})).await.unwrap(), done);
            let failed = binding.task(&host, "fail").await;
            assert_eq!(state(&failed), binding.state("failed"), "{binding:?} {failed}");
            assert_eq!(text_of(&failed["status"]["message"]), "no paper");
            let asked = binding.task(&host, "ask").await;
            assert_eq!(state(&asked), binding.state("input-required"), "{binding:?} {asked}");
            let at = json!({"taskId": asked["id"], "messageId": "m2"});
            let params =
                json!({"message": binding.message("Oslo", &at), "configuration": binding.blocking()});
            let done = binding.task_of(&host, None, params).await.unwrap();
            assert_eq!(text_of(&done["status"]["message"]), "heard Oslo", "{binding:?} {done}");
        }
        host.stop().await;
    }
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_continues_the_task_in_its_context_and_a_session_takes_further_tasks() {
    let system = agent(&Gate::shut()).await;
    for host in hosts(&system).await {
        for binding in ALL {
            let asked = binding.task(&host, "ask").await;
            let at = json!({"taskId": asked["id"], "contextId": asked["contextId"], "messageId": "m2"});
            let params =
                json!({"message": binding.message("Oslo", &at), "configuration": binding.blocking()});
            let done = binding.task_of(&host, None, params).await.unwrap();
            assert_eq!((&done["id"], &done["contextId"]), (&asked["id"], &asked["contextId"]));
            assert_eq!(done["status"]["state"].as_str().unwrap(), binding.state("completed"), "{binding:?}");
            assert_eq!(done["history"].as_array().unwrap().len(), 4);
            let context = format!("c-{binding:?}-{}", host.name);
            let at = json!({"contextId": context});
            for text in ["one", "two"] {
                let params =
                    json!({"message": binding.message(text, &at), "configuration": binding.blocking()});
                assert_eq!(
                    binding.task_of(&host, None, params).await.unwrap()["contextId"],
                    context.as_str()
                );
            }
            let listed = binding.ask(&host, "list", json!({"contextId": context})).await.unwrap();
            assert_eq!(listed["totalSize"], 2, "{binding:?} {listed}");
        }
        host.stop().await;
    }
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sender_that_does_not_wait_gets_the_task_at_work_and_may_cancel_it() {
    let system = agent(&Gate::shut()).await;
    for host in hosts(&system).await {
        for binding in ALL {
            let message = binding.message("wait", &Value::Null);
            let params = json!({"message": message, "configuration": binding.at_once()});
            let task = binding.task_of(&host, None, params).await.unwrap();
            assert_eq!(task["status"]["state"].as_str().unwrap(), binding.state("working"), "{binding:?}");
            for _ in 0..2 {
                let canceled = binding.ask(&host, "cancel", json!({"id": task["id"]})).await.unwrap();
                assert_eq!(canceled["status"]["state"].as_str().unwrap(), binding.state("canceled"));
            }
        }
        host.stop().await;
    }
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_are_listed_newest_first_in_pages_and_by_state() {
    let system = agent(&Gate::shut()).await;
    let [host, other] = hosts(&system).await;
    other.stop().await;
    let mut ids = Vec::new();
    for text in ["a", "b", "fail", "reject", "ask"] {
        ids.insert(0, Binding::Rpc1.task(&host, text).await["id"].clone());
    }
    for binding in ALL {
        let list = async |params: Value| binding.ask(&host, "list", params).await.unwrap();
        let all = list(json!({})).await;
        let listed: Vec<Value> =
            all["tasks"].as_array().unwrap().iter().map(|task| task["id"].clone()).collect();
        assert_eq!(listed, ids, "{binding:?}");
        assert_eq!(
            (&all["nextPageToken"], &all["pageSize"], &all["totalSize"]),
            (&json!(""), &json!(50), &json!(5))
        );
        assert!(all["tasks"].as_array().unwrap().iter().all(|task| task.get("artifacts").is_none()));
        let with = list(json!({"includeArtifacts": true})).await;
        assert!(with["tasks"].as_array().unwrap().iter().all(|task| task["artifacts"].is_array()));
        let (mut paged, mut token) = (Vec::new(), String::new());
        loop {
            let page = list(json!({"pageSize": 2, "pageToken": token, "historyLength": 0})).await;
            assert_eq!(page["totalSize"], 5);
            paged.extend(page["tasks"].as_array().unwrap().iter().map(|task| task["id"].clone()));
            token = page["nextPageToken"].as_str().unwrap().to_owned();
            if token.is_empty() {
                break;
            }
        }
        assert_eq!(paged, ids, "{binding:?}");
        for (word, count) in [
            ("completed", 2),
            ("failed", 1),
            ("rejected", 1),
            ("input-required", 1),
            ("auth-required", 0),
            ("working", 0),
        ] {
            let found = list(json!({"status": binding.state(word)})).await;
            assert_eq!(found["totalSize"], count, "{binding:?} {word}");
        }
        assert_eq!(list(json!({"statusTimestampAfter": "2999-01-01T00:00:00Z"})).await["totalSize"], 0);
        assert_eq!(list(json!({"statusTimestampAfter": "2000-01-01T00:00:00Z"})).await["totalSize"], 5);
    }
    host.stop().await;
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_to_an_agent_with_a_model_asks_the_model_and_stays_a_text() {
    let builder = crate::support::builder().infer(model(&["warm", "cold"]));
    let system = builder.start().await.unwrap();
    let [host, other] = hosts(&system).await;
    other.stop().await;
    for (binding, answer) in [(Binding::Rpc1, "warm"), (Binding::Rpc03, "cold")] {
        let done = binding.task(&host, "Coat in Oslo?").await;
        assert_eq!(done["artifacts"][0]["parts"][0]["text"], answer, "{done}");
        let parts = done["history"][0]["parts"].as_array().unwrap();
        assert_eq!((parts.len(), &parts[0]["text"]), (1, &json!("Coat in Oslo?")), "{done}");
    }
    host.stop().await;
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_is_called_by_data_whose_numbers_a_client_made_doubles() {
    let system = crate::support::builder().start().await.unwrap();
    let [host, other] = hosts(&system).await;
    other.stop().await;
    let part = json!({
        "data": {"tool_name": "slow", "args": {"ms": 1.0}, "call_id": "c1"},
        "metadata": {"urn:taskreel:a2a:protolink:v1": {"type": "tool_call"}},
    });
    let message = json!({"messageId": "m", "role": "ROLE_USER", "parts": [part]});
    let done = Binding::Rpc1.task_of(&host, None, json!({"message": message})).await.unwrap();
    assert_eq!(done["artifacts"][0]["parts"][0]["data"]["result"], 1, "{done}");
    host.stop().await;
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_under_a_key_is_sent_once_and_without_one_as_often_as_it_comes() {
    let system = agent(&Gate::shut()).await;
    for host in hosts(&system).await {
        for binding in ALL {
            let key = format!("k-{binding:?}-{}", host.name);
            let params = json!({"message": binding.message("hello", &Value::Null), "configuration": binding.blocking()});
            let sent = async |key: &str| {
                let bytes = binding.request("send", &params, &[("idempotency-key", key)]);
                let came = binding.came(&send(&host, &bytes).await).unwrap();
                if binding == Binding::Rpc03 { came["id"].clone() } else { came["task"]["id"].clone() }
            };
            let first = sent(&key).await;
            assert_eq!(sent(&key).await, first, "{binding:?}");
            assert_ne!(sent(&format!("{key}-2")).await, first);
            let other = json!({"message": binding.message("other", &Value::Null)});
            let bytes = binding.request("send", &other, &[("idempotency-key", &key)]);
            let refused = binding.came(&send(&host, &bytes).await).unwrap_err();
            assert_eq!(refused.0, if binding.is_rpc() { -32602 } else { 400 }, "{binding:?}");
            // The id of a message alone makes nothing idempotent.
            assert_ne!(binding.task(&host, "hello").await["id"], binding.task(&host, "hello").await["id"]);
        }
        host.stop().await;
    }
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_under_a_key_is_given_once_also_when_the_task_is_over() {
    let system = agent(&Gate::shut()).await;
    for host in hosts(&system).await {
        for binding in ALL {
            let asked = binding.task(&host, "ask").await;
            let at = json!({"taskId": asked["id"], "messageId": "m2"});
            let sent = async |text: &str| {
                let params =
                    json!({"message": binding.message(text, &at), "configuration": binding.blocking()});
                let bytes = binding.request("send", &params, &[("idempotency-key", "k")]);
                binding.came(&send(&host, &bytes).await)
            };
            let first = sent("Oslo").await.unwrap();
            assert_eq!(sent("Oslo").await.unwrap(), first, "{binding:?}");
            let task = if binding == Binding::Rpc03 { first } else { first["task"].clone() };
            assert_eq!(task["status"]["state"].as_str().unwrap(), binding.state("completed"));
            assert_eq!(task["history"].as_array().unwrap().len(), 4);
            let refused = sent("Bergen").await.unwrap_err();
            assert_eq!(refused.0, if binding.is_rpc() { -32602 } else { 400 }, "{binding:?}");
        }
        host.stop().await;
    }
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_agent_of_a_system_is_addressed_by_path_and_by_tenant() {
    use std::sync::Arc;
    use taskreel::System;
    let store = Arc::new(taskreel_log::memory::MemoryStore::new());
    let system = with_tools(System::builder("in memory").store(store))
        .name("first")
        .agent("second", |agent| {
            agent.handler(async |cx: taskreel::handler::HandlerContext, _: taskreel::Message| {
                cx.say("second").await?;
                Ok::<_, taskreel::tool::ToolError>(taskreel::handler::HandlerEnd::Completed)
            })
        })
        .start()
        .await
        .unwrap();
    let [host, other] = hosts(&system).await;
    other.stop().await;
    let message = Binding::Rest1.message("hello", &Value::Null);
    let body = json!({"message": message}).to_string();
    for path in ["/second/message:send", "/agents/second/message:send"] {
        let answer = ask(&host, "POST", path, &body).await;
        let came = Binding::Rest1.came(&answer).unwrap();
        assert_eq!(text_of(&came["task"]["status"]["message"]), "second", "{path}");
    }
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}})
        .to_string();
    let answer = ask(&host, "POST", "/agents/second", &body).await;
    assert_eq!(text_of(&answer.json()["result"]["task"]["status"]["message"]), "second");
    let params = json!({"tenant": "second", "message": message});
    let came = Binding::Rpc1.task_of(&host, None, params).await.unwrap();
    assert_eq!(text_of(&came["status"]["message"]), "second");
    let params = json!({"tenant": "third", "message": message});
    assert_eq!(Binding::Rpc1.task_of(&host, None, params).await.unwrap_err().0, -32602);
    assert_eq!(ask(&host, "POST", "/third/message:send", "{}").await.status, 404);
    let card = send(&host, &request("GET", "/second/.well-known/agent-card.json", &[], "")).await.json();
    assert_eq!((&card["name"], &card["url"]), (&json!("second"), &json!("http://localhost/second")));
    host.stop().await;
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_waits_for_an_approval_is_shown_and_no_message_decides_it() {
    let ran = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = std::sync::Arc::clone(&ran);
    let tool = move |args: crate::support::Text| {
        let ran = std::sync::Arc::clone(&counted);
        async move {
            ran.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            Ok::<_, taskreel::tool::ToolError>(args.text)
        }
    };
    let needs = taskreel::tool::ToolPolicy::manual().capabilities(["money.spend"]);
    let rules = taskreel::approval::CapabilityPolicy::new().require_approval("money.*");
    let builder = crate::support::builder().tool_with("pay", "pays", tool, needs);
    let builder = builder.capability_policy(rules).approvals_by_person();
    let system = builder.start().await.unwrap();
    let [host, other] = hosts(&system).await;
    other.stop().await;
    let call = json!({"tool_name": "pay", "args": {"text": "x"}, "call_id": "c"});
    let extension = "urn:taskreel:a2a:protolink:v1";
    let part = json!({"data": call, "metadata": {extension: {"type": "tool_call"}}});
    for binding in [Binding::Rpc1, Binding::Rest1] {
        let message = binding.message("", &json!({"parts": [part]}));
        let task = binding.task_of(&host, None, json!({"message": message})).await.unwrap();
        assert_eq!(task["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{task}");
        assert!(text_of(&task["status"]["message"]).contains("needs approval"), "{task}");
        let at = json!({"taskId": task["id"], "messageId": "m2"});
        let yes = json!({"message": binding.message("yes", &at)});
        let refused = binding.task_of(&host, None, yes).await.unwrap_err();
        assert_eq!(refused.1, "UNSUPPORTED_OPERATION", "{binding:?}");
        let read = binding.ask(&host, "get", json!({"id": task["id"]})).await.unwrap();
        assert_eq!(read, task, "it waits as before");
        assert_eq!(ran.swap(0, std::sync::atomic::Ordering::SeqCst), 0, "nothing was done");
        let handle = system.task(task["id"].as_str().unwrap()).unwrap();
        let waits = handle.snapshot().await.unwrap();
        let approval = waits.task().awaited_approvals().next().unwrap().request.approval_id.clone();
        handle.approve(&approval, "ada").await.unwrap();
        let done = handle.finished().await.unwrap();
        assert_eq!(ran.load(std::sync::atomic::Ordering::SeqCst), 1);
        let read = binding.ask(&host, "get", json!({"id": task["id"]})).await.unwrap();
        assert_eq!(read["status"]["state"], "TASK_STATE_COMPLETED", "{read}");
        let generation = &read["metadata"][extension]["generation"];
        assert_eq!(generation, &json!(done.version().0.to_string()), "one for each change of the task");
        ran.store(0, std::sync::atomic::Ordering::SeqCst);
    }
    host.stop().await;
    system.shutdown().await.unwrap();
}
