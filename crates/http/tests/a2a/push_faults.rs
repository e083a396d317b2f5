//! Webhooks that fail, hang, are gone, or are many.

use std::time::{Duration, Instant};

use serde_json::json;
use taskreel_http::a2a::PushDeliveries;

use crate::agent::{Gate, agent};
use crate::asked::{Binding, handler_with};
use crate::hook::{Hook, noted, quick};
use crate::push::{Setup, until};
use crate::support::actix;

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_fails_is_told_the_same_event_again_until_it_takes_it_and_then_the_next() {
    let setup = Setup::start().await;
    let id = setup.begin("report", "/fail/4/a").await;
    let seen = setup.hook.wait("/fail/4/a", 9).await;
    let events: Vec<_> = seen.iter().map(crate::hook::Seen::event).collect();
    assert_eq!(events[..5], vec![events[0].clone(); 5], "four refusals, then it is taken: {events:?}");
    let mut each = events.clone();
    each.dedup();
    assert_eq!((each.len(), events.len()), (5, 9), "then each once: {events:?}");
    // The third failure is told, and that it is over once the event was taken.
    let told = ["WebhookSet", "WebhookFailed", "WebhookDelivered", "WebhookDelivered"];
    until(async || noted(&setup.system, &id) == told).await;
    setup.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_nobody_serves_is_given_up_visibly_and_told_the_rest_once_it_is_registered_again() {
    let gate = Gate::shut();
    let system = agent(&gate).await;
    let pushing: PushDeliveries = quick().attempts(4).start(&system).unwrap();
    let host = actix(handler_with(&system, &pushing)).await;
    let hook = Hook::start().await;
    let setup = Setup { system, pushing, hook, host, gate };
    // A port that was free a moment ago refuses connections.
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let config = json!({"url": format!("http://{free}/"), "id": "w"});
    let message = Binding::Rpc1.message("report", &serde_json::Value::Null);
    let params = json!({"message": message, "configuration": {"taskPushNotificationConfig": config}});
    let task = Binding::Rpc1.task_of(&setup.host, None, params).await.unwrap();
    let id = task["id"].as_str().unwrap();
    until(async || noted(&setup.system, id) == ["WebhookSet", "WebhookFailed", "WebhookFailed"]).await;
    let now = setup.system.task(id).unwrap().snapshot().await.unwrap();
    let known = now.task().webhooks().get("w").unwrap();
    assert_eq!((known.state.as_str(), known.failure().unwrap().attempts), ("given-up", 4));
    let log = setup.system.log();
    let shown = taskreel_log::views::attention(
        log.as_ref(),
        taskreel_log::views::LogUse::Open,
        taskreel_log::ports::Clock::now(&taskreel_log::ports::SystemClock),
    );
    let row = shown.unwrap().rows.into_iter().find(|row| row.kind.as_str() == "webhook").unwrap();
    assert!(row.what.contains("is not tried again after 4 attempts"), "{}", row.what);
    // Registered again under its id, it is told everything that it was not told.
    let again = json!({"taskId": id, "id": "w", "url": setup.hook.url("/again")});
    Binding::Rpc1.ask(&setup.host, "push", again).await.unwrap();
    let seen = setup.hook.wait("/again", 5).await;
    assert!(seen[0].event().starts_with("WORKING") && seen[4].event().starts_with("COMPLETED"));
    setup.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_is_gone_is_given_up_at_once_and_a_long_answer_is_not_read() {
    let setup = Setup::start().await;
    let gone = setup.begin("hello", "/gone").await;
    until(async || noted(&setup.system, &gone) == ["WebhookSet", "WebhookFailed"]).await;
    assert_eq!(setup.hook.seen("/gone").len(), 1);
    let much = setup.begin("hello", "/much").await;
    until(async || noted(&setup.system, &much) == ["WebhookSet", "WebhookDelivered"]).await;
    setup.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_never_answers_holds_back_no_other_one() {
    let setup = Setup::start().await;
    let silent = Hook::start().await;
    for at in 0..40 {
        let config = json!({"url": silent.url("/hang")});
        let message = Binding::Rpc1.message("hello", &json!({"messageId": format!("h{at}")}));
        let configuration = json!({"returnImmediately": true, "taskPushNotificationConfig": config});
        let params = json!({"message": message, "configuration": configuration});
        Binding::Rpc1.task_of(&setup.host, None, params).await.unwrap();
    }
    silent.wait("/hang", 16).await;
    let began = Instant::now();
    setup.begin("report", "/ok").await;
    setup.hook.wait("/ok", 5).await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert!(silent.seen("/hang").len() <= 16, "one host has no more than its turns");
    setup.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_was_removed_is_told_nothing_more() {
    let setup = Setup::start().await;
    let id = setup.begin("wait", "/ok/removed").await;
    // Working, and the agent's words.
    setup.hook.wait("/ok/removed", 2).await;
    let listed = Binding::Rpc1.ask(&setup.host, "webhooks", json!({"id": id})).await.unwrap();
    let own = listed["configs"][0]["id"].clone();
    Binding::Rpc1.ask(&setup.host, "unhook", json!({"id": id, "config": own})).await.unwrap();
    let kept = json!({"taskId": id, "id": "kept", "url": setup.hook.url("/ok/kept")});
    Binding::Rpc1.ask(&setup.host, "push", kept).await.unwrap();
    setup.gate.open();
    let seen = setup.hook.wait("/ok/kept", 1).await;
    assert!(seen[0].event().starts_with("COMPLETED"), "it is told what follows its registration");
    assert_eq!(setup.hook.seen("/ok/removed").len(), 2);
    setup.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_webhooks_at_once_are_each_told_the_end_of_their_task() {
    let count = std::env::var("TASKREEL_PUSH_WEBHOOKS").map_or(1_000, |count| count.parse().unwrap());
    let setup = Setup::start().await;
    let began = Instant::now();
    let message = json!({"message": Binding::Rpc1.message("wait", &serde_json::Value::Null),
                         "configuration": {"returnImmediately": true}});
    let mut tasks = Vec::new();
    for _ in 0..count / 10 {
        tasks.push(Binding::Rpc1.task_of(&setup.host, None, message.clone()).await.unwrap());
    }
    for (at, task) in tasks.iter().enumerate() {
        for own in 0..10 {
            let url = setup.hook.url(&format!("/many/{at}/{own}/"));
            let params = json!({"taskId": task["id"], "id": own.to_string(), "url": url});
            Binding::Rpc1.ask(&setup.host, "push", params).await.unwrap();
        }
    }
    let registered = began.elapsed();
    let (began, before) = (Instant::now(), setup.hook.seen("/many").len());
    for _ in &tasks {
        setup.gate.open();
    }
    let is_end = |one: &crate::hook::Seen| one.event().starts_with("COMPLETED");
    let all = setup
        .hook
        .until("/many", |seen| seen.iter().filter(|one| is_end(one)).count() >= tasks.len() * 10)
        .await;
    eprintln!(
        "{count} webhooks: registered in {registered:?}, {} deliveries in {:?}",
        all.len() - before,
        began.elapsed()
    );
    for at in 0..tasks.len() {
        for own in 0..10 {
            let path = format!("/many/{at}/{own}/");
            let of: Vec<_> =
                all.iter().filter(|one| one.path == path).map(crate::hook::Seen::event).collect();
            assert!(of.last().unwrap().starts_with("COMPLETED"), "{path}: {of:?}");
        }
    }
    setup.stop().await;
}
