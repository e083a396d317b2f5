//! The blocking twin of the client.

use taskreel_http::a2a::{BlockingClient, Event, ListQuery, Message, Part, SendRequest, State, StreamItem};

use crate::agent::{Gate, agent};
use crate::forge::{options, say};
use crate::ours::handler;
use crate::support::actix;

/// Tries each operation on a thread without a runtime.
fn try_all(url: &str) {
    let client = BlockingClient::discover(url, &options()).unwrap();
    assert!(client.card().unwrap().sends_once() && client.interface().url.starts_with("http"));
    let Event::Task(done) = client.send(&say("hello")).unwrap() else { panic!() };
    assert_eq!(client.get(&done.id, None).unwrap(), *done);
    let mut events = client.stream(&say("report")).unwrap();
    let StreamItem::Event(first) = events.next().unwrap().unwrap() else { panic!() };
    let (id, place) = (first.task_id().unwrap().to_owned(), events.place().unwrap().to_owned());
    let rest: Vec<StreamItem> = events.map(Result::unwrap).collect();
    assert!(rest.len() > 3);
    let again: Vec<StreamItem> = client.subscribe_after(&id, &place).unwrap().map(Result::unwrap).collect();
    assert_eq!(again, rest);
    let Event::Task(waits) = client.send(&say("wait").returning_immediately()).unwrap() else { panic!() };
    let mut followed = client.subscribe(&waits.id).unwrap();
    assert!(followed.next().unwrap().is_ok());
    assert_eq!(client.cancel(&waits.id).unwrap().status.state, State::Canceled);
    assert!(followed.all(|item| item.is_ok()));
    assert_eq!(client.list(&ListQuery::new()).unwrap().tasks.len(), 3);
    let late = Message::user("m2", vec![Part::text("more")]).for_task(&done.id);
    client.send(&SendRequest::new(late)).unwrap_err();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_blocking_twin_does_all_that_the_client_does_within_a_runtime_and_without() {
    let system = agent(&Gate::shut()).await;
    let host = actix(handler(&system)).await;
    let url = format!("http://{}", host.address);
    let without = url.clone();
    tokio::task::spawn_blocking(move || std::thread::spawn(move || try_all(&without)).join().unwrap())
        .await
        .unwrap();
    // In a task of a runtime it holds up that task's thread alone.
    tokio::spawn(async move {
        BlockingClient::discover(&url, &options()).unwrap().list(&ListQuery::new()).unwrap()
    })
    .await
    .unwrap();
    host.stop().await;
    system.shutdown().await.unwrap();
}
