//! Webhooks against a small model: random sequences of registering, replacing, removing, reading, events, ends, a receiver that is
//! away, a clock that steps by an hour, kills and restarts. Whoever stays registered is told each event at least once and in order, and a registration that
//! replaces another goes on where that one was.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use taskreel::System;
use taskreel_http::a2a::PushDeliveries;
use taskreel_log::memory::MemoryStore;

use crate::agent::{Gate, with_handler};
use crate::asked::{Binding, handler_with};
use crate::hook::{Hook, quick};
use crate::push::until;
use crate::stepping::Stepping;
use crate::support::{Host, actix};

const BINDING: Binding = Binding::Rpc1;

/// A generator of numbers that follow from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).unwrap()
    }
}

/// A registration as the model knows it.
#[derive(Debug, Clone)]
struct Known {
    task: String,
    path: String,
    /// The version behind which events are owed.
    after: u64,
    /// The version up to which they are, if the registration was replaced; none is where it was removed.
    through: Option<u64>,
}

/// A system that can be killed.
struct Running {
    store: Arc<MemoryStore>,
    clock: Arc<Stepping>,
    system: System,
    pushing: PushDeliveries,
    host: Host,
}

impl Running {
    async fn start(store: Arc<MemoryStore>, clock: Arc<Stepping>) -> Self {
        let builder =
            System::builder("in memory").store(Arc::<MemoryStore>::clone(&store)).ports(clock.ports());
        let system = with_handler(builder, &Gate::shut()).start().await.unwrap();
        let pushing = quick().attempts(100_000).start(&system).unwrap();
        let host = actix(handler_with(&system, &pushing)).await;
        Self { store, clock, system, pushing, host }
    }

    /// Kills it, at any moment or once the deliveries have ended in order, and starts it again.
    async fn again(self, is_at_once: bool) -> Self {
        let Self { store, clock, system, pushing, host } = self;
        let at_once = is_at_once.then(|| store.reopened().unwrap());
        host.stop().await;
        if is_at_once {
            drop(pushing);
        } else {
            pushing.stop().await;
        }
        let killed = at_once.unwrap_or_else(|| store.reopened().unwrap());
        system.shutdown().await.unwrap();
        Self::start(Arc::new(killed), clock).await
    }

    async fn version(&self, task: &str) -> u64 {
        self.system.task(task).unwrap().snapshot().await.unwrap().version().0
    }
}

/// The model.
#[derive(Default)]
struct Model {
    /// The tasks, and whether each is over.
    tasks: Vec<(String, bool)>,
    /// The registrations by task and id.
    now: BTreeMap<(String, String), Known>,
    /// The registrations that were replaced or removed.
    before: Vec<Known>,
    count: usize,
}

impl Model {
    async fn step(&mut self, random: &mut Random, running: &Running, hook: &Hook) {
        let host = &running.host;
        if self.tasks.is_empty() || (self.tasks.len() < 4 && random.below(12) == 0) {
            let task = BINDING.task(host, "ask").await;
            self.tasks.push((task["id"].as_str().unwrap().to_owned(), false));
            return;
        }
        let at = random.below(self.tasks.len());
        let (task, is_over) = self.tasks[at].clone();
        let id = format!("w{}", random.below(4));
        match random.below(10) {
            0..=3 if !is_over => self.set(random, running, hook, (&task, &id)).await,
            4 => {
                let asked = BINDING.ask(host, "webhook", json!({"id": task, "config": id})).await;
                match self.now.get(&(task, id)) {
                    Some(known) => assert_eq!(asked.unwrap()["url"], json!(hook.url(&known.path))),
                    None => assert!(asked.is_err(), "{asked:?}"),
                }
            }
            5 => {
                let listed = BINDING.ask(host, "webhooks", json!({"id": task})).await.unwrap();
                let told = listed["configs"].as_array().cloned().unwrap_or_default();
                let mut told: Vec<_> =
                    told.iter().map(|one| (one["id"].clone(), one["url"].clone())).collect();
                told.sort_by_key(|(id, _)| id.to_string());
                let own = self.now.iter().filter(|((of, _), _)| *of == task);
                let own: Vec<_> =
                    own.map(|((_, id), known)| (json!(id), json!(hook.url(&known.path)))).collect();
                assert_eq!(told, own);
            }
            6 => {
                let removed = BINDING.ask(host, "unhook", json!({"id": task, "config": id})).await;
                // Whether there was none is not told.
                if let Some(known) = self.now.remove(&(task, id)) {
                    removed.unwrap();
                    self.before.push(known);
                }
            }
            7 | 8 if !is_over => say(host, &task, "ask").await,
            9 if !is_over && random.below(3) == 0 => {
                self.tasks[at].1 = true;
                end(random, host, &task).await;
            }
            _ => hook.set_up(random.below(2) == 0),
        }
    }

    async fn set(&mut self, random: &mut Random, running: &Running, hook: &Hook, (task, id): (&str, &str)) {
        self.count += 1;
        let path = match random.below(3) {
            0 => format!("/fail/2/{}", self.count),
            _ => format!("/ok/{}", self.count),
        };
        let at_first = running.version(task).await;
        let config = json!({"taskId": task, "id": id, "url": hook.url(&path)});
        BINDING.ask(&running.host, "push", config).await.unwrap();
        let snapshot = running.system.task(task).unwrap().snapshot().await.unwrap();
        let after = snapshot.task().webhooks().get(id).unwrap().webhook.after;
        let known = Known { task: task.to_owned(), path, after, through: None };
        match self.now.insert((task.to_owned(), id.to_owned()), known) {
            Some(replaced) => {
                assert!(replaced.after <= after, "it goes on where the other was");
                self.before.push(Known { through: Some(after), ..replaced });
            }
            // Notes of other webhooks may have come between.
            None => assert!(at_first <= after && after < snapshot.version().0),
        }
    }

    /// Ends all tasks, and checks what was delivered.
    async fn check(mut self, random: &mut Random, running: &Running, hook: &Hook) {
        hook.set_up(true);
        for (task, is_over) in &mut self.tasks {
            if !std::mem::replace(is_over, true) {
                end(random, &running.host, task).await;
            }
        }
        let mut events = BTreeMap::new();
        for (task, _) in &self.tasks {
            let (params, begin) = (json!({"id": task}), [("last-event-id", "1")]);
            let frames = Binding::Rest1.frames(&running.host, "subscribe", &params, &begin, 9_999).await;
            let version = |place: &str| place.rsplit(':').next().unwrap().parse::<u64>().unwrap();
            let numbered = frames.into_iter().map(|(place, event)| (version(&place.unwrap()), event));
            events.insert(task.clone(), numbered.collect::<Vec<_>>());
        }
        for known in self.now.values() {
            let owed = owed(&events, known, u64::MAX);
            let is_told = |seen: &[Value]| told(known, &owed, seen) == owed.len();
            until(async || is_told(&seen(hook, known))).await;
        }
        for known in &self.before {
            let whole = owed(&events, known, u64::MAX);
            let told = told(known, &whole, &seen(hook, known));
            let owed = known.through.map_or(0, |through| owed(&events, known, through).len());
            assert!(told >= owed, "{known:?} was told {told} of {owed} before another took its place");
        }
        for (task, id) in self.now.keys() {
            let over = async || {
                let snapshot = running.system.task(task).unwrap().snapshot().await.unwrap();
                snapshot.task().webhooks().get(id).unwrap().state.as_str() == "over"
            };
            until(over).await;
        }
    }
}

/// Returns the deliveries to a registration that were taken.
fn seen(hook: &Hook, known: &Known) -> Vec<Value> {
    let seen = hook.seen(&known.path).into_iter();
    let seen = seen.filter(|one| one.path == known.path && !one.is_refused);
    seen.map(|one| one.body).collect()
}

/// Returns the events behind a registration, up to a version.
fn owed(events: &BTreeMap<String, Vec<(u64, Value)>>, known: &Known, through: u64) -> Vec<Value> {
    let of_task = events[&known.task].iter();
    let owed = of_task.filter(|(version, _)| (known.after + 1..=through).contains(version));
    owed.map(|(_, event)| event.clone()).collect()
}

/// Returns how many of the events that are owed were told, and checks that none came before its turn. One whose note was lost
/// comes again.
fn told(known: &Known, owed: &[Value], seen: &[Value]) -> usize {
    let mut told = 0;
    for event in seen {
        if owed.get(told) == Some(event) {
            told += 1;
        } else {
            assert!(
                owed[..told].contains(event),
                "{known:?}: {event} is not in turn after {told} of {owed:#?}"
            );
        }
    }
    told
}

async fn say(host: &Host, task: &str, text: &str) {
    let message = BINDING.message(text, &json!({"taskId": task, "messageId": format!("m-{}", next_id())}));
    BINDING.ask(host, "send", json!({"message": message})).await.unwrap();
}

async fn end(random: &mut Random, host: &Host, task: &str) {
    if random.below(2) == 0 {
        BINDING.ask(host, "cancel", json!({"id": task})).await.unwrap();
    } else {
        say(host, task, "hello").await;
    }
}

/// Returns a number that no other message has.
fn next_id() -> u64 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

#[tokio::test(flavor = "multi_thread")]
async fn random_lives_of_webhooks_lose_nothing_and_are_told_in_order() {
    let rounds: u64 = std::env::var("TASKREEL_PUSH_MODEL").map_or(6, |rounds| rounds.parse().unwrap());
    for seed in 1..=rounds {
        println!("seed {seed}");
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let hook = Hook::start().await;
        let mut running = Running::start(Arc::new(MemoryStore::new()), Arc::default()).await;
        let mut model = Model::default();
        for _ in 0..60 {
            match random.below(15) {
                0 => running = running.again(true).await,
                1 => running = running.again(false).await,
                2 | 3 => running.clock.step(random.below(3)),
                _ => model.step(&mut random, &running, &hook).await,
            }
        }
        model.check(&mut random, &running, &hook).await;
        let verified = taskreel_log::audit::verify(running.store.as_ref());
        assert!(verified.is_sound(), "{:?}", verified.findings);
        running.host.stop().await;
        running.pushing.stop().await;
        running.system.shutdown().await.unwrap();
    }
}
