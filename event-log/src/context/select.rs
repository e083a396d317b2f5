//! The selection of a history that an inference is shown by a strategy, as the data of its intent.

use std::panic::{AssertUnwindSafe, catch_unwind};

use proto_events::call::{Selection, Sizes};

use crate::context::counter::Counting;
use crate::context::cuts_by_rule::CutsByRule;
use crate::context::error::ContextError;
use crate::context::facts::Facts;
use crate::context::history::History;
use crate::context::strategy::ContextStrategy;
use crate::context::transcript::Transcript;
use crate::context::view::{Reduction, View};

/// Returns what an inference is shown of these messages by a strategy; `None` if all of them, whole.
///
/// # Errors
/// [`ContextError`] if what must be sent does not fit, or a strategy of the host returns what cannot be sent or panics.
pub fn select(
    strategy: &dyn ContextStrategy,
    transcript: &dyn Transcript,
    facts: &mut Facts,
) -> Result<Option<Selection>, ContextError> {
    let mut history = History::new(transcript, facts);
    let caught =
        catch_unwind(AssertUnwindSafe(|| (strategy.name(), strategy.limit(), strategy.reduce(&mut history))));
    let (name, limit, reduced) = caught.map_err(|_| ContextError::Panicked)?;
    let reduced = reduced?;
    let Reduction::View(view) = reduced else { return Ok(None) };
    history.set_view(View::whole(transcript.count()));
    if let Some(why) = history.fault(&view) {
        return Err(ContextError::View { strategy: name, why });
    }
    if view.is_whole(transcript.count()) {
        return Ok(None);
    }
    let standard = Counting::default();
    let counting = strategy.counting().unwrap_or(&standard);
    let measured = history.measure(counting);
    let figure = |tokens: i64| u64::try_from(tokens).unwrap_or_default();
    let sizes = Sizes {
        counter: counting.name(),
        messages_before: transcript.count().saturating_add(1),
        tokens_before: figure(measured.total_of(&history, history.view())),
        tokens_after: figure(measured.total_of(&history, &view)),
        limit,
    };
    let CutsByRule { rules, cuts } = CutsByRule::of(&history, &view);
    Ok(Some(view.into_selection(name, sizes, rules, cuts)))
}
