//! The selection of a history that an inference is shown by a strategy, as the data of its intent.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use proto_events::call::{Selection, Sizes};

use crate::context::counter::MessageMeasure;
use crate::context::cuts_by_rule::CutsByRule;
use crate::context::error::ContextError;
use crate::context::facts::ConversationFacts;
use crate::context::history::History;
use crate::context::strategy::ContextStrategy;
use crate::context::transcript::Transcript;
use crate::context::view::{Reduction, View};

/// The most of a name of a host that an intent or an error holds, in characters.
const NAME_MAX: usize = 1_000;

/// The most of a panic's text that an error holds, in characters.
const PANIC_MAX: usize = 1_000;

/// Returns what an inference is shown of these messages by a strategy; `None` if all of them, whole.
///
/// # Errors
/// [`ContextError`] if what must be sent does not fit, or a strategy of the host returns what cannot be sent or panics.
pub fn select(
    strategy: &dyn ContextStrategy,
    transcript: &dyn Transcript,
    facts: &mut ConversationFacts,
) -> Result<Option<Selection>, ContextError> {
    let mut name = None;
    // Strategies, counters and what they read are the host's: each may panic.
    let caught = catch_unwind(AssertUnwindSafe(|| {
        let name = name.insert(bounded(&strategy.name(), NAME_MAX)).clone();
        selected(strategy, &name, transcript, facts)
    }));
    caught.unwrap_or_else(|panic| {
        // What was read when it panicked may be half of a message.
        *facts = ConversationFacts::new();
        let strategy = name.unwrap_or_else(|| "?".to_owned());
        Err(ContextError::Panicked { strategy, why: bounded(text_of(&*panic), PANIC_MAX) })
    })
}

fn selected(
    strategy: &dyn ContextStrategy,
    name: &str,
    transcript: &dyn Transcript,
    facts: &mut ConversationFacts,
) -> Result<Option<Selection>, ContextError> {
    let mut history = History::new(transcript, facts);
    let Reduction::View(view) = strategy.reduce(&mut history)? else { return Ok(None) };
    history.set_view(View::all_whole(transcript.count()));
    let refused = |why: String| ContextError::View { strategy: name.to_owned(), why };
    if let Some(why) = history.fault(&view) {
        return Err(refused(why));
    }
    if view.is_whole(transcript.count()) {
        return Ok(None);
    }
    let standard = MessageMeasure::default();
    let counting = strategy.counting().unwrap_or(&standard);
    let measured = history.measure(counting);
    let figure = |tokens: i64| u64::try_from(tokens).unwrap_or_default();
    let sizes = Sizes {
        counter: bounded(&counting.name(), NAME_MAX),
        messages_before: transcript.count().saturating_add(1),
        tokens_before: figure(measured.total_of(&history, history.view())),
        tokens_after: figure(measured.total_of(&history, &view)),
        limit: strategy.limit(),
    };
    if let Some(limit) = sizes.limit.filter(|limit| sizes.tokens_after > *limit) {
        return Err(refused(format!(
            "it shows {} tokens, more than its limit of {limit}",
            sizes.tokens_after
        )));
    }
    let CutsByRule { rules, cuts } = CutsByRule::new(&history, &view);
    Ok(Some(view.into_selection(name.to_owned(), sizes, rules, cuts)))
}

/// Returns the first characters of a text.
fn bounded(text: &str, characters: usize) -> String {
    text.chars().take(characters).collect()
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text")
}
