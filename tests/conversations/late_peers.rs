//! Agents elsewhere that become known while a system runs: they join the prompt, and the log alone renders each prompt as it was
//! sent, with them and without.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use proto_events::definition::AgentEvent;
use proto_events::id::Version;
use proto_events::json;
use proto_events::model::AgentCard;
use taskreel::infer::{Entry, Scripted};
use taskreel::peer::{Delegation, Peer, PeerAnswer, PeerDirectory, PeerError, PeerErrorKind};
use taskreel::tool::BoxFuture;
use taskreel::{BudgetUsage, Part, System, TaskState};
use taskreel_log::api::EventStore as _;
use taskreel_log::audit::{replay_all, verify};
use taskreel_log::memory::MemoryStore;
use taskreel_log::read::decode_record;

use crate::prompt_support::assert_rendered;

/// An agent elsewhere that has a card once it is there.
#[derive(Clone)]
struct Late {
    name: String,
    description: String,
    is_there: Arc<AtomicBool>,
}

impl Late {
    fn named(name: &str) -> Self {
        let description = format!("knows all about {name}");
        Self { name: name.to_owned(), description, is_there: Arc::default() }
    }
}

impl Peer for Late {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        if self.is_there.load(Ordering::SeqCst) { &self.description } else { "" }
    }

    fn skills(&self) -> Vec<String> {
        Vec::new()
    }

    fn card(&self) -> Option<AgentCard> {
        let card = || AgentCard::new(&self.name, &self.description, "http://h");
        self.is_there.load(Ordering::SeqCst).then(card)
    }

    fn prepare(&self) -> BoxFuture<'static, Result<(), PeerError>> {
        let away = || PeerError::new(PeerErrorKind::Unreachable, "it is not there");
        let prepared = if self.is_there.load(Ordering::SeqCst) { Ok(()) } else { Err(away()) };
        Box::pin(std::future::ready(prepared))
    }

    fn send(&self, _: Delegation) -> BoxFuture<'static, Result<PeerAnswer, PeerError>> {
        let (state, result) = (TaskState::Completed, proto_events::json::JsonText::string("sunny"));
        Box::pin(std::future::ready(Ok(PeerAnswer {
            state,
            result,
            error: None,
            used: BudgetUsage::default(),
        })))
    }

    fn cancel(&self, _: &str, _: &str) -> BoxFuture<'static, Result<(), PeerError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// A directory that lists some of the agents that it finds.
#[derive(Clone, Default)]
struct Directory {
    /// The agents, and whether each is listed.
    agents: Arc<std::sync::Mutex<Vec<(Late, bool)>>>,
    listed: Arc<AtomicU64>,
}

impl Directory {
    fn add(&self, name: &str, is_listed: bool) {
        let late = Late::named(name);
        late.is_there.store(true, Ordering::SeqCst);
        self.agents.lock().unwrap().push((late, is_listed));
    }
}

impl PeerDirectory for Directory {
    fn find(&self, name: &str) -> BoxFuture<'static, Result<Arc<dyn Peer>, PeerError>> {
        let known = self.agents.lock().unwrap();
        let found = known.iter().find(|(agent, _)| agent.name == name).map(|(agent, _)| agent.clone());
        let missing = || PeerError::new(PeerErrorKind::NotFound, "there is none of this name");
        let found = found.map(|agent| Arc::new(agent) as Arc<dyn Peer>).ok_or_else(missing);
        Box::pin(std::future::ready(found))
    }

    fn list(&self) -> BoxFuture<'static, Result<Vec<Arc<dyn Peer>>, PeerError>> {
        self.listed.fetch_add(1, Ordering::SeqCst);
        let known = self.agents.lock().unwrap();
        let listed = known.iter().filter(|(_, is_listed)| *is_listed);
        let listed = listed.map(|(agent, _)| Arc::new(agent.clone()) as Arc<dyn Peer>).collect();
        Box::pin(std::future::ready(Ok(listed)))
    }
}

/// Returns the number of revisions of the definition of the system's agent.
fn revisions(system: &System) -> usize {
    let streams = system.log().list_streams("agent-", None, 9).unwrap();
    let records = system.log().read_stream(&streams[0].stream, Version(1), 99).unwrap();
    records.iter().map(|record| decode_record::<AgentEvent>(record).unwrap().len()).sum()
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let waited = async {
        while !holds() {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    };
    let patience = std::time::Duration::from_secs(60);
    tokio::time::timeout(patience, waited).await.unwrap_or_else(|_| panic!("never: {what}"));
}

/// Asks the model once, and returns the system prompt that it was shown.
async fn asked(system: &System, model: &Scripted) -> String {
    let end = system.session("s").send(Part::infer("q")).await.unwrap().finished().await.unwrap();
    assert_eq!(end.state(), TaskState::Completed, "{}", end.to_json());
    model.requests().last().unwrap().messages.iter().next().unwrap().content.clone()
}

async fn ended(system: System, model: &Scripted) {
    assert_rendered(&*system.log(), &model.requests());
    let verified = verify(system.log().as_ref());
    assert!(verified.is_sound(), "{verified:?}");
    assert_eq!(replay_all(system.log().as_ref()).unwrap().mismatch, None);
    system.shutdown().await.unwrap();
}

fn done() -> Entry {
    Entry::json(&json!({"type": "final", "content": "done"}))
}

#[tokio::test]
async fn an_agent_that_was_silent_at_the_start_joins_the_prompt_once_it_says_something_of_itself() {
    for stateless in [false, true] {
        let store = Arc::new(MemoryStore::new());
        let (late, model) = (Late::named("weather"), Scripted::new([done(), done()]));
        let builder = System::builder("-").store(store.clone()).infer(model.clone()).peer(late.clone());
        let builder = if stateless { builder.stateless() } else { builder };
        let system = builder.start().await.unwrap();
        let before = asked(&system, &model).await;
        assert!(before.contains("weather") && !before.contains("all about"), "{before}");
        assert_eq!(revisions(&system), 1);
        late.is_there.store(true, Ordering::SeqCst);
        until("it joins", || revisions(&system) == 2).await;
        let after = asked(&system, &model).await;
        assert!(after.contains("knows all about weather"), "{after}");
        ended(system, &model).await;
        // The next start finds it at once, and nothing is new.
        let model = Scripted::new([done()]);
        let again = System::builder("-").store(store.reopen().unwrap()).infer(model.clone());
        let again = if stateless { again.stateless() } else { again };
        let again = again.peer(late).start().await.unwrap();
        assert!(asked(&again, &model).await.contains("knows all about weather"));
        assert_eq!(revisions(&again), 2);
        ended(again, &model).await;
    }
}

#[tokio::test]
async fn agents_of_a_directory_join_the_prompt_when_they_are_listed_and_when_they_were_found() {
    let directory = Directory::default();
    for (name, is_listed) in
        [("first", true), ("hidden", false), ("agent", true), ("closed", true), ("a\u{0}", true)]
    {
        directory.add(name, is_listed);
    }
    let ask = json!({"type": "agent_call", "agent": "hidden", "action": "infer", "prompt": "Coat?"});
    let model = Scripted::new([done(), done(), Entry::json(&ask), done(), done()]);
    let system = System::builder("-")
        .store(Arc::new(MemoryStore::new()))
        .infer(model.clone())
        .agent("open", |agent| agent)
        .agent("closed", |agent| agent)
        .delegates_to(["open"])
        .peer_directory(directory.clone());
    let system = system.start().await.unwrap();
    let shown = asked(&system, &model).await;
    assert!(shown.contains("all about first"), "{shown}");
    for missing in ["all about hidden", "all about agent", "all about closed", "all about a\u{0}"] {
        assert!(!shown.contains(missing), "{missing:?}: {shown}");
    }
    let begun = revisions(&system);
    directory.add("second", true);
    until("it is listed", || revisions(&system) > begun).await;
    let shown = asked(&system, &model).await;
    assert!(shown.contains("all about second") && !shown.contains("all about hidden"), "{shown}");
    // The model asks one that is not listed, and is shown it from then on.
    let begun = revisions(&system);
    asked(&system, &model).await;
    until("it was found", || revisions(&system) > begun).await;
    let shown = asked(&system, &model).await;
    assert!(shown.contains("all about hidden"), "{shown}");
    ended(system, &model).await;
}

#[tokio::test]
async fn of_a_directory_of_a_thousand_agents_a_hundred_are_shown_and_none_that_says_too_much() {
    let directory = Directory::default();
    let long = Late { description: "x".repeat(20_000_000), ..Late::named("endless") };
    long.is_there.store(true, Ordering::SeqCst);
    directory.agents.lock().unwrap().push((long, true));
    (0..1_000).for_each(|number| directory.add(&format!("n{number}-"), true));
    let model = Scripted::new([done(), done()]);
    let system = System::builder("-").store(Arc::new(MemoryStore::new())).infer(model.clone());
    let system = system.peer_directory(directory.clone()).start().await.unwrap();
    let shown = asked(&system, &model).await;
    assert_eq!(shown.matches("knows all about").count(), 100);
    assert!(shown.contains("about n99-") && !shown.contains("about n100-") && shown.len() < 100_000);
    until("it is listed again", || directory.listed.load(Ordering::SeqCst) > 1).await;
    assert_eq!(asked(&system, &model).await, shown);
    ended(system, &model).await;
}
