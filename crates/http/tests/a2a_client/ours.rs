//! A server of ours as the peer.

use std::sync::Arc;

use taskreel_http::a2a::{
    A2aError, Binding, Client, ErrorKind, Event, ListQuery, Message, Part, Role, SendRequest, State,
    StreamItem, Task, Version,
};
use taskreel_http::{A2a, HttpHandler};

use crate::agent::{Gate, agent};
use crate::forge::{options, say};
use crate::support::actix;

/// All ways of talking with our server.
pub(crate) const WAYS: [(Version, Binding); 4] = [
    (Version::V1, Binding::JsonRpc),
    (Version::V1, Binding::HttpJson),
    (Version::V03, Binding::JsonRpc),
    (Version::V03, Binding::HttpJson),
];

pub(crate) fn handler(system: &taskreel::System) -> Arc<dyn HttpHandler> {
    Arc::new(A2a::new(system.clone()))
}

pub(crate) async fn client(url: &str, (version, binding): (Version, Binding)) -> Client {
    let options = options().version(version).binding(binding);
    Client::discover(url, &options).await.unwrap()
}

pub(crate) fn task_of(event: Event) -> Task {
    let Event::Task(task) = event else { panic!("{event:?}") };
    *task
}

fn kind(result: Result<impl std::fmt::Debug, A2aError>) -> ErrorKind {
    let error = result.unwrap_err();
    error.kind().unwrap_or_else(|| panic!("{error}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn each_operation_is_answered_over_each_binding_in_each_version() {
    let gate = Gate::shut();
    let system = agent(&gate).await;
    let host = actix(handler(&system)).await;
    let url = format!("http://{}", host.address);
    let chosen = Client::discover(&url, &options()).await.unwrap();
    assert_eq!((chosen.interface().version, chosen.interface().binding), WAYS[0]);
    assert!(chosen.card().unwrap().resumes && chosen.card().unwrap().interfaces.len() == 4);
    for way in WAYS {
        let client = client(&url, way).await;
        let done = task_of(client.send(&say("hello")).await.unwrap());
        assert_eq!(done.status.state, State::Completed, "{way:?}");
        assert_eq!(done.history.last().unwrap().role, Role::Agent);
        assert_eq!(client.get(&done.id, None).await.unwrap(), done);
        assert_eq!(client.get(&done.id, Some(1)).await.unwrap().history.len(), 1);

        let asked = task_of(client.send(&say("ask")).await.unwrap());
        assert_eq!(asked.status.state, State::InputRequired);
        let answer = Message::user("m2", vec![Part::text("Oslo")]).for_task(&asked.id);
        let answered = task_of(client.send(&SendRequest::new(answer)).await.unwrap());
        assert_eq!((answered.id, answered.status.state), (asked.id, State::Completed));

        let waiting = task_of(client.send(&say("wait").returning_immediately()).await.unwrap());
        assert!(!waiting.status.state.is_terminal());
        let mut followed = client.subscribe(&waiting.id).await.unwrap();
        assert!(matches!(followed.next().await, Some(Ok(StreamItem::Event(Event::Task(_))))));
        assert_eq!(client.cancel(&waiting.id).await.unwrap().status.state, State::Canceled);
        let mut last = None;
        while let Some(item) = followed.next().await {
            let StreamItem::Event(event) = item.unwrap() else { panic!("a gap") };
            last = event.state().or(last);
        }
        assert_eq!(last, Some(State::Canceled), "{way:?}");

        assert_eq!(kind(client.cancel(&done.id).await), ErrorKind::TaskNotCancelable);
        for id in ["unknown", "a/b ?#%", "é"] {
            assert_eq!(kind(client.get(id, None).await), ErrorKind::TaskNotFound, "{way:?} {id}");
        }
        let late = Message::user("m3", vec![Part::text("more")]).for_task(&done.id);
        assert_eq!(kind(client.send(&SendRequest::new(late)).await), ErrorKind::UnsupportedOperation);
        // 0.3 over JSON-RPC follows a task that is over: it comes as the only event.
        if way != (Version::V03, Binding::JsonRpc) {
            assert_eq!(kind(client.subscribe(&done.id).await), ErrorKind::UnsupportedOperation);
        }

        let query = ListQuery::new().state(State::Completed).page_size(1).with_artifacts();
        if way == (Version::V03, Binding::JsonRpc) {
            assert!(matches!(client.list(&query).await, Err(A2aError::Request(_))));
            continue;
        }
        let first = client.list(&query).await.unwrap();
        assert_eq!((first.tasks.len(), first.tasks[0].status.state), (1, State::Completed));
        let second = client.list(&query.page_token(&first.next.unwrap())).await.unwrap();
        assert_ne!(first.tasks[0].id, second.tasks[0].id);
        let refused = client.list(&ListQuery::new().page_size(1000)).await;
        assert_eq!(kind(refused), ErrorKind::InvalidParams, "{way:?}");
    }
    host.stop().await;
    system.shutdown().await.unwrap();
}
