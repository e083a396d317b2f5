//! The cost of calls: the price is in each intent, the tokens are in the outcomes, and the sums are exact.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the answer, in helpers too")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use taskreel::infer::{
    InferBackend, InferError, InferErrorKind, InferReply, InferRequest, Price, TokenUsage,
};
use taskreel::testing::system;
use taskreel::{BoxFuture, Builder, Error, Part, System, TaskSnapshot, TaskState};
use taskreel_log::memory::MemoryStore;
use taskreel_log::views::{StatsGroup, StatsRow, stats, unsettled};

/// A model that fails once with a usage, and then answers with another.
struct Paid(Arc<AtomicUsize>);

impl InferBackend for Paid {
    fn backend(&self) -> &'static str {
        "paid"
    }

    fn model(&self) -> &'static str {
        "large"
    }

    fn infer(&self, _: InferRequest) -> BoxFuture<'static, Result<InferReply, InferError>> {
        let is_first = self.0.fetch_add(1, Ordering::SeqCst) == 0;
        Box::pin(async move {
            if is_first {
                let kind = InferErrorKind::Transient { retry_after: None };
                let usage = Some(TokenUsage { input_tokens: 1_000, output_tokens: 1 });
                return Err(InferError::new(kind, "Overloaded", "cut off").with_usage(usage));
            }
            let content = r#"{"type": "final", "content": "done"}"#.to_owned();
            let usage = Some(TokenUsage { input_tokens: 2_000, output_tokens: 100 });
            Ok(InferReply { content, usage, model: "large".to_owned(), ..InferReply::default() })
        })
    }
}

fn price(input_per_million: u64, output_per_million: u64, currency: &str) -> Price {
    Price { input_per_million, output_per_million, currency: currency.to_owned() }
}

async fn run(describe: impl Fn(Builder) -> Builder + Send + Sync + 'static) -> (TaskSnapshot, Vec<StatsRow>) {
    let system = system(move |agent| describe(agent.infer(Paid(Arc::default())))).await.unwrap();
    let task = system.submit(Part::infer("go")).await.unwrap();
    let end = system.finish(&task).await.unwrap();
    assert_eq!(end.state(), TaskState::Completed, "{}", end.to_json());
    let rows = stats(system.store().as_ref()).unwrap().rows;
    system.shutdown().await.unwrap();
    (end, rows)
}

#[tokio::test]
async fn a_call_costs_its_tokens_at_the_price_of_its_intent_failed_attempts_too() {
    let (end, rows) = run(|agent| agent.price("large", price(3_000_000, 15_000_000, "USD"))).await;
    let call = end.task().calls().iter().next().unwrap();
    assert_eq!(call.request.price, Some(price(3_000_000, 15_000_000, "USD")));
    // 3,000 tokens at 3 dollars and 101 at 15 dollars for a million.
    assert_eq!(call.cost().unwrap().to_string(), "0.010515");
    assert_eq!(end.task().costs().to_string(), "0.010515 USD");
    for group in [StatsGroup::All, StatsGroup::Model, StatsGroup::Session] {
        let row = rows.iter().find(|row| row.group == group).unwrap();
        assert_eq!(row.costs.to_string(), "0.010515 USD", "{group:?}");
        assert!(row.to_json().as_str().contains(r#""costs":{"USD":"0.010515"}"#), "{}", row.to_json());
    }
}

#[tokio::test]
async fn a_price_for_backend_and_model_comes_before_one_for_the_model() {
    let both = |agent: Builder| {
        agent
            .price("large", price(1_000_000, 1_000_000, "USD"))
            .price("paid/large", price(2_000_000, 0, "EUR"))
    };
    let (end, _) = run(both).await;
    assert_eq!(end.task().costs().to_string(), "0.006 EUR");
}

#[tokio::test]
async fn without_a_price_nothing_is_said_of_a_cost() {
    let (end, rows) = run(|agent| agent.price("small", price(1, 1, "USD"))).await;
    assert!(end.task().costs().is_empty());
    assert_eq!(end.task().calls().iter().next().unwrap().cost(), None);
    assert!(rows.iter().all(|row| row.costs.is_empty()));
}

#[tokio::test]
async fn calls_shows_what_an_open_call_has_cost_so_far() {
    let system = system(|agent| agent.infer(Paid(Arc::default())).price("large", price(3_000_000, 0, "USD")));
    let system = system.await.unwrap();
    system.submit(Part::infer("go")).await.unwrap();
    system.until_idle().await;
    let rows = unsettled(system.store().as_ref(), None, taskreel::Timestamp::default()).unwrap().rows;
    let [row] = &rows[..] else { panic!("{rows:?}") };
    assert!(row.to_json().as_str().contains(r#""costs":{"USD":"0.003"}"#), "{}", row.to_json());
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_price_in_no_currency_is_refused_at_the_start() {
    let builder = System::builder("-").store(Arc::new(MemoryStore::new())).price("large", price(1, 1, ""));
    assert!(matches!(builder.start().await, Err(Error::Builder(why)) if why.contains("price of large")));
}
