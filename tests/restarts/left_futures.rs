//! A reopening beside callers whose futures were polled once and are held without being polled again: it ends all the same, and
//! neither other callers nor those that are polled again later wait for ever.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::FutureExt as _;
use proto_events::envelope::Principal;
use proto_events::json::JsonText;
use proto_events::registry::RegistryCommand;
use taskreel::state::StateModules;
use taskreel::{Error, Part, RegistryRecord, System, Version};
use taskreel_log::api::{Append, AppendFuture, EventStore, OpenError};
use taskreel_log::sled::SledStore;
use taskreel_log::testing::{DelegatingStore, Overrides};
use tokio::sync::watch;

use crate::call_support::{Nothing, soon};

/// Keeps the answers of appends while it says so.
struct Keeps(watch::Sender<bool>);

impl Overrides for Keeps {
    fn append(&self, log: &dyn EventStore, append: Append) -> AppendFuture {
        let (written, mut keeps) = (log.append(append), self.0.subscribe());
        Box::pin(async move {
            let _ = keeps.wait_for(|keeps| !keeps).await;
            written.await
        })
    }

    fn reopen(&self, log: &dyn EventStore) -> Result<Arc<dyn EventStore>, OpenError> {
        Ok(Arc::new(DelegatingStore::new(log.reopen()?, Self(self.0.clone()))))
    }
}

async fn keeps(_: Nothing) -> Result<u32, Infallible> {
    Ok(7)
}

type Call<'a> = Pin<Box<dyn Future<Output = Result<(), Error>> + Send + 'a>>;

/// Calls of every kind that sends, appends or reads under a lock.
fn calls<'a>(system: &'a System, registry: &'a RegistryRecord, turn: u32) -> Vec<(&'static str, Call<'a>)> {
    let put = async move {
        let value = JsonText::parse("1").unwrap();
        system.state().tools()?.put("keeps", &format!("key {turn}"), value, Version(0)).await.map(|_| ())
    };
    let flow = async move {
        system
            .state()
            .flow()?
            .put(&format!("run-{turn}"), JsonText::parse("1").unwrap(), None)
            .await
            .map(|_| ())
    };
    let unregister = RegistryCommand::Unregister { url: "http://gone".to_owned(), by: Principal::default() };
    let command = async move { registry.command(unregister, &Principal::default()).await.map(|_| ()) };
    let run = async move {
        system.session("desk").run(Part::text("A note")).once(format!("{turn}")).await.map(|_| ())
    };
    vec![
        ("a value of a tool", Box::pin(put)),
        ("a value of the flow", Box::pin(flow)),
        ("a command to a registry", Box::pin(command)),
        ("a look at a registry", Box::pin(async move { registry.state().await.map(|_| ()) })),
        ("a task", Box::pin(async move { system.submit(Part::text("A note")).await.map(|_| ()) })),
        ("a run with a key", Box::pin(run)),
        ("a session", Box::pin(async move { system.session("desk").history().await.map(|_| ()) })),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reopening_ends_beside_callers_that_are_not_polled_any_more_and_so_do_the_calls_of_others() {
    let dir = tempfile::tempdir().unwrap();
    let store = SledStore::open(dir.path()).unwrap();
    let store = Arc::new(DelegatingStore::new(Arc::new(store), Keeps(watch::channel(false).0)));
    let builder = System::builder("-").store(Arc::clone(&store) as Arc<dyn EventStore>);
    let system = builder.tool("keeps", "", keeps).state(StateModules::all()).start().await.unwrap();
    let registry = system.registry("desk").unwrap();
    for turn in 0..4 {
        store.overrides().0.send_replace(true);
        let mut left: Vec<_> =
            calls(&system, &registry, turn).into_iter().map(|(what, call)| (what, call.fuse())).collect();
        for (_, call) in &mut left {
            let _ = futures_util::poll!(call);
        }
        store.overrides().0.send_replace(false);
        for _ in 0..=turn {
            soon(system.reopen()).await.unwrap();
        }
        for (what, call) in calls(&system, &registry, 100 + turn) {
            soon(call).await.unwrap_or_else(|error| panic!("{what}: {error}"));
        }
        for (what, call) in left {
            use futures_util::future::FusedFuture as _;
            if !call.is_terminated() {
                let ended = soon(call).await;
                assert!(matches!(ended, Ok(()) | Err(Error::InDoubt { .. })), "{what}: {ended:?}");
            }
        }
    }
    system.shutdown().await.unwrap();
}
