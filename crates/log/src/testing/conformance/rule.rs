//! A rule of the suite while it is checked: it has a name, and a time within which it must hold.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt as _;

/// The longest time for one rule: a store that makes each append durable by itself on a slow disk needs less.
pub(crate) const RULE_WITHIN: Duration = Duration::from_secs(300);

/// Checks a rule. A store that blocks its thread for ever is found too, where the runtime has another thread.
pub(crate) async fn rule(name: &str, work: impl Future<Output = ()> + Send + 'static) {
    rule_within(RULE_WITHIN, name, work).await;
}

/// Checks a rule within this time.
pub(crate) async fn rule_within(time: Duration, name: &str, work: impl Future<Output = ()> + Send + 'static) {
    match tokio::time::timeout(time, tokio::spawn(work)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) if error.is_panic() => broken(name, error.into_panic().as_ref()),
        Ok(Err(error)) => panic!("the rule `{name}` could not be checked: {error}"),
        Err(_) => late(time, name),
    }
}

/// Checks a rule in place.
pub(crate) async fn rule_here(name: &str, work: impl Future<Output = ()>) {
    match tokio::time::timeout(RULE_WITHIN, AssertUnwindSafe(work).catch_unwind()).await {
        Ok(Ok(())) => {}
        Ok(Err(panic)) => broken(name, panic.as_ref()),
        Err(_) => late(RULE_WITHIN, name),
    }
}

/// Checks a rule that blocks its thread.
pub(crate) async fn rule_blocking(name: &str, work: impl FnOnce() + Send + 'static) {
    match tokio::time::timeout(RULE_WITHIN, tokio::task::spawn_blocking(work)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) if error.is_panic() => broken(name, error.into_panic().as_ref()),
        Ok(Err(error)) => panic!("the rule `{name}` could not be checked: {error}"),
        Err(_) => late(RULE_WITHIN, name),
    }
}

fn broken(name: &str, panic: &(dyn Any + Send)) -> ! {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked");
    panic!("the store breaks the rule `{name}`: {text}")
}

fn late(time: Duration, name: &str) -> ! {
    panic!(
        "the store breaks the rule `{name}`: it did not hold within {} s; a call that must end does not",
        time.as_secs()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    #[should_panic(expected = "the store breaks the rule `a_rule_without_end`: it did not hold within 0 s")]
    async fn a_rule_without_end_is_named() {
        rule_within(Duration::from_millis(5), "a_rule_without_end", std::future::pending()).await;
    }

    #[tokio::test]
    #[should_panic(expected = "the store breaks the rule `a_broken_rule`: 1 is not 2")]
    async fn a_broken_rule_is_named_with_its_words() {
        rule("a_broken_rule", async { panic!("1 is not 2") }).await;
    }
}
