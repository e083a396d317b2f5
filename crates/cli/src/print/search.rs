//! `search`: prints what was found, newest first.

use std::ops::ControlFlow;

use proto_events::id::StreamId;
use taskreel_log::api::EventReader;
use taskreel_log::views::{Expression, Hit, SearchEnd, Selection, search as find};

use crate::print::answer::Answer;
use crate::print::plain::{columns, cut};
use crate::print::problem::Problem;
use crate::print::screen::{Screen, count, note};
use crate::print::time;

/// The subject of a search.
pub(crate) struct SearchRequest {
    /// The expression.
    pub(crate) asked: taskreel_log::views::Pattern,
    /// The events that are searched.
    pub(crate) selection: Selection,
    /// The condition over what was found.
    pub(crate) condition: Option<Expression>,
    /// The most that is printed.
    pub(crate) limit: Option<usize>,
    /// Whether only the number is printed.
    pub(crate) is_counted: bool,
}

/// Prints each text that is found, newest first; the answer is "no" without a hit. `next` is the command that shows the
/// event of one.
///
/// # Errors
/// [`Problem`] if the log cannot be read or the reader of the output is gone. What can be read of a damaged log was printed
/// then.
pub(crate) fn search(
    reader: &dyn EventReader,
    of: Option<&StreamId>,
    wanted: SearchRequest,
    next: &str,
    screen: &mut Screen,
) -> Result<Answer, Problem> {
    let SearchRequest { asked, selection, condition, limit, is_counted } = wanted;
    let (mut taken, mut events, mut first) = (SearchEnd::default(), None, None);
    let searched = find(reader, of, &asked, selection, |hit| {
        if condition.as_ref().is_some_and(|condition| !condition.holds(&hit.to_json().tree())) {
            return Ok::<_, Problem>(ControlFlow::Continue(()));
        }
        taken.hits += 1;
        taken.events += u64::from(events.replace(hit.position) != Some(hit.position));
        if !is_counted {
            print_hit(&hit, screen)?;
        }
        let is_enough = limit.is_some_and(|limit| taken.hits >= limit as u64);
        first.get_or_insert(hit);
        Ok(if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    if is_counted && screen.json {
        screen.json_line(&taken.to_json())?;
    } else if is_counted {
        screen.line(&taken.hits.to_string())?;
    }
    screen.flush()?;
    if let Some(hit) = first.filter(|_| !is_counted) {
        let found = count(taken.hits, "text", "texts");
        note(&format!(
            "{found} in {}; next: {next} {} {}",
            count(taken.events, "event", "events"),
            hit.stream,
            hit.version
        ));
    } else if taken.hits == 0 {
        note("nothing was found");
    }
    match searched.damage.into_iter().next_back() {
        Some(oldest) => Err(oldest.into()),
        None => Ok(if taken.hits == 0 { Answer::No } else { Answer::Yes }),
    }
}

fn print_hit(hit: &Hit, screen: &mut Screen) -> Result<(), Problem> {
    if screen.json {
        return screen.json_line(&hit.to_json());
    }
    let place = screen.bold(&screen.plain(&format!("{} v{}", hit.stream.id(), hit.version)));
    let what = screen.plain(&format!("{} {}", hit.kind, hit.path));
    screen.line(&format!("{place}   {}   {what}", time::local(hit.at)))?;
    let (before, found, after) =
        (screen.plain(&hit.before), screen.plain(&hit.found), screen.plain(&hit.after));
    let room = screen.width().filter(|_| !screen.full).map_or(usize::MAX, |width| width.saturating_sub(2));
    let found = cut(&found, room, screen.end());
    // What was found is in view; the text around it shares the rest.
    let rest = room.saturating_sub(columns(&found));
    let before = end_of(&before, rest / 2, screen.end());
    let after = cut(&after, rest.saturating_sub(columns(&before)), screen.end());
    screen.line(&format!("  {before}{}{after}", screen.bold(&found)))
}

/// Cuts the beginning of a text away where it is wider than this number of columns.
fn end_of(text: &str, room: usize, mark: &str) -> String {
    if columns(text) <= room {
        return text.to_owned();
    }
    let room = room.saturating_sub(columns(mark));
    let mut kept = text.char_indices().rev().map(|(at, _)| text.get(at..).unwrap_or_default());
    let mut end = "";
    while let Some(longer) = kept.next().filter(|longer| columns(longer) <= room) {
        end = longer;
    }
    format!("{mark}{end}")
}
