//! Webhooks: the four operations and the configuration of a message on every binding, and what is delivered.

use serde_json::{Value, json};
use taskreel::System;
use taskreel_http::a2a::PushDeliveries;

use crate::agent::{Gate, agent};
use crate::asked::{ALL, Binding, handler_with};
use crate::hook::{Hook, noted, quick};
use crate::support::{Host, actix, ask, hosts_of};

/// A system with webhooks, and a receiver.
pub(crate) struct Setup {
    pub(crate) system: System,
    pub(crate) pushing: PushDeliveries,
    pub(crate) hook: Hook,
    pub(crate) host: Host,
    pub(crate) gate: Gate,
}

impl Setup {
    pub(crate) async fn start() -> Self {
        let gate = Gate::shut();
        let system = agent(&gate).await;
        let pushing = quick().start(&system).unwrap();
        let host = actix(handler_with(&system, &pushing)).await;
        Self { pushing, hook: Hook::start().await, host, gate, system }
    }

    pub(crate) async fn stop(self) {
        self.host.stop().await;
        self.pushing.stop().await;
        self.system.shutdown().await.unwrap();
    }

    /// Sends a text in 1.0 with a webhook in its configuration, and returns the task as it is at once.
    pub(crate) async fn begin(&self, text: &str, path: &str) -> String {
        let config = json!({"url": self.hook.url(path)});
        let configuration = json!({"returnImmediately": true, "taskPushNotificationConfig": config});
        let message = Binding::Rpc1.message(text, &Value::Null);
        let params = json!({"message": message, "configuration": configuration});
        let task = Binding::Rpc1.task_of(&self.host, None, params).await.unwrap();
        task["id"].as_str().unwrap().to_owned()
    }
}

/// Returns the configuration in a binding's form: of a message, and of an operation on a task.
fn config(binding: Binding, id: &str, url: &str) -> Value {
    let authentication = if binding.is_1() {
        json!({"scheme": "Bearer", "credentials": "c-r-e-d"})
    } else {
        json!({"schemes": ["Bearer"], "credentials": "c-r-e-d"})
    };
    json!({"id": id, "url": url, "token": "t-o-k", "authentication": authentication})
}

/// Returns the parameters that register a webhook of a task.
fn registering(binding: Binding, task: &str, config: &Value) -> Value {
    match binding {
        Binding::Rpc1 => {
            let mut params = config.clone();
            params["taskId"] = json!(task);
            params
        }
        Binding::Rpc03 => json!({"taskId": task, "pushNotificationConfig": config}),
        // The path of REST has the task; the helper takes it from `id`, where 1.0 has the registration's.
        Binding::Rest1 => unreachable!("it is sent with its path"),
        Binding::Rest03 => {
            json!({"id": task, "parent": format!("tasks/{task}"), "configId": config["id"],
                   "config": {"pushNotificationConfig": config}})
        }
    }
}

async fn register(host: &Host, binding: Binding, task: &str, config: &Value) -> Value {
    if binding == Binding::Rest1 {
        let answer =
            ask(host, "POST", &format!("/tasks/{task}/pushNotificationConfigs"), &config.to_string()).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        return answer.json();
    }
    binding.ask(host, "push", registering(binding, task, config)).await.unwrap()
}

/// Returns the registration in an answer, without what stands around it.
fn own(binding: Binding, answer: &Value) -> Value {
    if binding.is_1() { answer.clone() } else { answer["pushNotificationConfig"].clone() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_is_registered_read_listed_and_removed_on_every_binding_and_its_secrets_are_never_read_back()
 {
    let (gate, hook) = (Gate::shut(), Hook::start().await);
    let system = agent(&gate).await;
    let pushing = quick().start(&system).unwrap();
    for host in hosts_of(handler_with(&system, &pushing)).await {
        for binding in ALL {
            let task = binding.task(&host, "ask").await;
            let id = task["id"].as_str().unwrap();
            let of = |name: &'static str, more: Value| {
                let mut params = json!({"id": id});
                for (key, value) in more.as_object().unwrap() {
                    params[key] = value.clone();
                }
                let host = &host;
                async move { binding.ask(host, name, params).await }
            };
            let made = register(&host, binding, id, &config(binding, "one", &hook.url("/ok"))).await;
            let read = of("webhook", json!({"config": "one"})).await.unwrap();
            let listed = of("webhooks", json!({})).await.unwrap();
            let listed = if binding == Binding::Rpc03 { listed } else { listed["configs"].clone() };
            for answer in [&made, &read, &listed[0]] {
                let own = own(binding, answer);
                assert_eq!(
                    (own["id"].as_str(), own["url"].as_str()),
                    (Some("one"), Some(hook.url("/ok").as_str()))
                );
                let scheme = if binding.is_1() { json!("Bearer") } else { json!(["Bearer"]) };
                let named = if binding.is_1() { "scheme" } else { "schemes" };
                assert_eq!(own["authentication"], json!({named: scheme}), "{binding:?}: {answer}");
                assert!(!answer.to_string().contains("t-o-k") && !answer.to_string().contains("c-r-e-d"));
                match binding {
                    Binding::Rest03 => {
                        assert_eq!(answer["name"], format!("tasks/{id}/pushNotificationConfigs/one"));
                    }
                    _ => assert_eq!(answer["taskId"], id, "{binding:?}: {answer}"),
                }
            }
            let other = register(&host, binding, id, &json!({"url": hook.url("/other")})).await;
            let other = own(binding, &other)["id"].as_str().unwrap().to_owned();
            assert_eq!(other == id, !binding.is_1(), "0.3 has one webhook without an id for each task");
            for _ in 0..2 {
                let gone = of("unhook", json!({"config": "one"})).await.unwrap();
                assert_eq!(gone, if binding == Binding::Rpc03 { Value::Null } else { json!({}) });
            }
            let unknown = if binding.is_rpc() { -32001 } else { 404 };
            let refused = of("webhook", json!({"config": "one"})).await.unwrap_err();
            assert_eq!(refused, (unknown, "TASK_NOT_FOUND".to_owned()));
            let left = of("webhooks", json!({})).await.unwrap();
            let left = if binding == Binding::Rpc03 { left } else { left["configs"].clone() };
            assert_eq!((left.as_array().unwrap().len(), &own(binding, &left[0])["id"]), (1, &json!(other)));
            let nobodys = json!({"id": "task_none", "config": "one"});
            for name in ["webhook", "webhooks", "unhook"] {
                assert_eq!(binding.ask(&host, name, nobodys.clone()).await.unwrap_err().0, unknown, "{name}");
            }
        }
        host.stop().await;
    }
    pushing.stop().await;
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_registers_a_webhook_which_is_told_everything_in_order_with_its_token_and_authorization() {
    let setup = Setup::start().await;
    for (at, binding) in ALL.into_iter().enumerate() {
        let path = format!("/ok/{at}");
        let name = match binding {
            Binding::Rpc1 | Binding::Rest1 => "taskPushNotificationConfig",
            Binding::Rpc03 => "pushNotificationConfig",
            Binding::Rest03 => "pushNotification",
        };
        let mut configuration = binding.at_once();
        configuration[name] = config(binding, "mine", &setup.hook.url(&path));
        let message = binding.message("report", &json!({"messageId": format!("m{at}")}));
        let params = json!({"message": message, "configuration": configuration});
        let task = binding.task_of(&setup.host, None, params).await.unwrap();
        let is_last = |body: &Value| {
            body.to_string().contains("TASK_STATE_COMPLETED") || body["status"]["state"] == "completed"
        };
        let seen = setup.hook.until(&path, |seen| seen.last().is_some_and(|last| is_last(&last.body))).await;
        for one in &seen {
            assert_eq!(one.header("authorization"), Some("Bearer c-r-e-d"), "{binding:?}");
            assert_eq!(one.header("x-a2a-notification-token"), Some("t-o-k"));
        }
        let types: Vec<_> = seen.iter().map(|one| one.header("content-type").unwrap().to_owned()).collect();
        if binding.is_1() {
            let events: Vec<_> = seen.iter().map(crate::hook::Seen::event).collect();
            let kinds: Vec<_> =
                seen.iter().map(|one| one.body.as_object().unwrap().keys().next().unwrap().clone()).collect();
            assert_eq!(
                kinds,
                ["statusUpdate", "artifactUpdate", "artifactUpdate", "artifactUpdate", "statusUpdate"],
                "{events:?}"
            );
            // What a stream tells after the task's first event is what the webhook was told.
            let after = json!({"id": task["id"], "after": "1"});
            let frames =
                Binding::Rest1.frames(&setup.host, "subscribe", &after, &[("last-event-id", "1")], 99).await;
            let told: Vec<_> = frames.into_iter().map(|(_, event)| event).collect();
            assert_eq!(told, seen.iter().map(|one| one.body.clone()).collect::<Vec<_>>());
            assert!(types.iter().all(|media| media == "application/a2a+json"));
        } else {
            let states: Vec<_> =
                seen.iter().map(|one| one.body["status"]["state"].as_str().unwrap()).collect();
            assert_eq!(
                (states[0], *states.last().unwrap()),
                ("working", "completed"),
                "{binding:?}: {states:?}"
            );
            let last = &seen.last().unwrap().body;
            assert_eq!((&last["kind"], &last["id"]), (&json!("task"), &task["id"]), "0.3 is told the task");
            assert_eq!(last["artifacts"].as_array().unwrap().len(), 2);
            assert!(types.iter().all(|media| media == "application/json"));
        }
        let id = task["id"].as_str().unwrap();
        crate::push::until(async || noted(&setup.system, id) == ["WebhookSet", "WebhookDelivered"]).await;
    }
    setup.stop().await;
}

/// Waits until this holds.
pub(crate) async fn until(mut holds: impl AsyncFnMut() -> bool) {
    let began = std::time::Instant::now();
    while !holds().await {
        assert!(began.elapsed() < crate::support::PATIENCE, "it does not come");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_of_another_does_not_exist_and_a_task_has_ten_at_most() {
    let setup = Setup::start().await;
    let (host, binding) = (&setup.host, Binding::Rpc1);
    let message = json!({"message": binding.message("ask", &Value::Null)});
    let task = binding.task_of(host, Some("ada"), message).await.unwrap();
    let id = task["id"].as_str().unwrap();
    let url = setup.hook.url("/ok");
    let set = |caller: &'static str, own: String| {
        let params = registering(binding, id, &json!({"id": own, "url": url}));
        binding.ask_as(host, Some(caller), "push", params)
    };
    for name in ["push", "webhook", "webhooks", "unhook"] {
        let params = json!({"id": id, "config": "0", "taskId": id, "url": url});
        let refused = binding.ask_as(host, Some("bob"), name, params).await.unwrap_err();
        assert_eq!(refused, (-32001, "TASK_NOT_FOUND".to_owned()), "{name}");
    }
    for at in 0..10 {
        set("ada", at.to_string()).await.unwrap();
    }
    assert_eq!(set("ada", "10".to_owned()).await.unwrap_err().0, -32602);
    set("ada", "9".to_owned()).await.unwrap();
    // Pages of three, each once, in order.
    let (mut token, mut found) = (String::new(), Vec::new());
    loop {
        let params = json!({"id": id, "pageSize": 3, "pageToken": token});
        let page = binding.ask_as(host, Some("ada"), "webhooks", params).await.unwrap();
        found.extend(
            page["configs"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()),
        );
        token = page["nextPageToken"].as_str().unwrap_or_default().to_owned();
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(found, (0..10).map(|at| at.to_string()).collect::<Vec<_>>());
    for params in [json!({"id": id, "pageSize": 101}), json!({"id": id, "pageToken": "x"})] {
        assert_eq!(binding.ask_as(host, Some("ada"), "webhooks", params).await.unwrap_err().0, -32602);
    }
    let events = setup.system.task(id).unwrap().snapshot().await.unwrap();
    let by: Vec<_> = events.task().webhooks().iter().map(|known| known.by.name.clone()).collect();
    assert!(by.iter().all(|name| name == "ada"), "{by:?}");
    setup.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_card_says_whether_webhooks_are_called_and_a_webhook_of_a_finished_task_is_owed_nothing() {
    let setup = Setup::start().await;
    let card = ask(&setup.host, "GET", "/.well-known/agent-card.json", "").await.json();
    assert_eq!(card["capabilities"]["pushNotifications"], true);
    let task = Binding::Rpc1.task(&setup.host, "hello").await;
    let id = task["id"].as_str().unwrap();
    register(&setup.host, Binding::Rpc1, id, &json!({"id": "late", "url": setup.hook.url("/late")})).await;
    until(async || noted(&setup.system, id) == ["WebhookSet", "WebhookDelivered"]).await;
    let now = setup.system.task(id).unwrap().snapshot().await.unwrap();
    assert_eq!(now.task().webhooks().get("late").unwrap().state.as_str(), "over");
    assert!(setup.hook.seen("/").is_empty());
    setup.stop().await;
}
