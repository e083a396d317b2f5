//! The waterfall of a task: a lane of its states, and one lane for each call with its attempts and waits.

use proto_events::envelope::Timestamp;
use taskreel_log::views::{CallCourse, CallSpan, Course, SpanKind};

use crate::inspect::draw::rounded;
use crate::inspect::draw::scale::Scale;
use crate::inspect::words;

/// The width of the drawing, of the column of names, and the height of a lane.
const WIDTH: f64 = 1_000.0;
const NAMES: f64 = 190.0;
const LANE: f64 = 22.0;

/// The narrowest bar: what took no time is seen all the same.
const BAR_MIN: f64 = 2.0;

/// The characters of a lane's name.
const NAME_CHARACTERS: usize = 26;

/// A drawing.
#[derive(Debug, Default)]
pub(crate) struct Waterfall {
    pub(crate) width: f64,
    pub(crate) height: f64,
    pub(crate) lanes: Vec<Lane>,
    /// The folded gaps: place, width, the middle, and the time in words.
    pub(crate) folds: Vec<(f64, f64, f64, String)>,
    /// The place of the version that is shown.
    pub(crate) cursor: f64,
    /// The whole span in words.
    pub(crate) span: String,
}

/// A lane.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) text_y: f64,
    pub(crate) name: String,
    pub(crate) is_child: bool,
    pub(crate) bars: Vec<Bar>,
    /// The mark of the outcome, and its place.
    pub(crate) end: Option<(f64, words::Mark)>,
}

/// A bar.
#[derive(Debug)]
pub(crate) struct Bar {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
    pub(crate) class: &'static str,
    pub(crate) title: String,
}

/// Draws these calls of a task. What lasts is drawn up to `now`.
pub(crate) fn waterfall(course: &Course, calls: &[&CallCourse], at: Timestamp, now: Timestamp) -> Waterfall {
    let is_open = !course.newest.state.state().is_terminal();
    let end = if is_open && calls.iter().any(|call| call.ended.is_none()) { now } else { course.times.1 };
    let from = calls.first().map_or(course.times.0, |first| first.since.min(course.times.1));
    let from = if calls.len() == course.calls.len() { course.times.0 } else { from };
    let to = calls.iter().filter_map(|call| call.ended.map(|(.., at)| at)).max();
    let end = if calls.len() == course.calls.len() { end } else { to.unwrap_or(end) };
    let closed = |span: &CallSpan| (span.from.0, span.to.unwrap_or(end).0);
    let is_busy = |span: &&CallSpan| span.kind == SpanKind::Attempt;
    let busy = calls.iter().flat_map(|call| call.spans.iter().filter(is_busy).map(closed)).collect();
    let scale = Scale::new((from.0, end.0), busy, NAMES, WIDTH - NAMES - 30.0);
    let mut lanes = vec![states(course, &scale, end)];
    for (number, call) in (1_u16..).zip(calls) {
        lanes.push(lane(call, f64::from(number) * LANE, &scale, end));
    }
    let folds = scale.folds().map(|fold| {
        let middle = rounded(fold.x + fold.width / 2.0);
        (rounded(fold.x), rounded(fold.width), middle, words::micros(fold.to.saturating_sub(fold.from)))
    });
    Waterfall {
        width: WIDTH,
        folds: folds.collect(),
        height: f64::from(u16::try_from(lanes.len()).unwrap_or(u16::MAX)) * LANE + 20.0,
        cursor: scale.x(at.0),
        span: words::between(from, end),
        lanes,
    }
}

fn bar(scale: &Scale, (from, to): (i64, i64), y: f64, (class, title): (&'static str, String)) -> Bar {
    let x = scale.x(from);
    let width = rounded((scale.x(to) - x).max(BAR_MIN));
    Bar { x, y: y + 4.0, width, height: LANE - 8.0, class, title }
}

fn states(course: &Course, scale: &Scale, end: Timestamp) -> Lane {
    let ends = course.states.iter().skip(1).map(|next| next.at).chain([end]);
    let bars =
        course.states.iter().zip(ends).filter(|(state, _)| !state.state.is_terminal()).map(|(state, to)| {
            let title = format!("{} for {}", state.state, words::between(state.at, to));
            bar(scale, (state.at.0, to.0), 0.0, (words::state(state.state).class, title))
        });
    let last = course.states.last();
    let mark = last.map(|last| (scale.x(last.at.0) + 4.0, words::state(last.state)));
    Lane { text_y: 15.0, name: "states".to_owned(), is_child: false, bars: bars.collect(), end: mark }
}

fn lane(call: &CallCourse, y: f64, scale: &Scale, end: Timestamp) -> Lane {
    let bars = call.spans.iter().map(|span| {
        let to = span.to.unwrap_or(end);
        let class = match span.kind {
            SpanKind::Place => "place",
            SpanKind::BackOff => "backoff",
            SpanKind::Person => "person",
            _ => "attempt",
        };
        let title = format!("{} {}: {}", call.target, span.kind.as_str(), words::between(span.from, to));
        bar(scale, (span.from.0, to.0), y, (class, title))
    });
    let name = format!("{} {}", call.kind, call.target);
    let cut = name.chars().count() > NAME_CHARACTERS;
    let name: String = name.chars().take(NAME_CHARACTERS).chain(cut.then_some('…')).collect();
    let last = call.ended.map_or(end, |(.., at)| at);
    let mark = (scale.x(last.0) + 4.0, words::outcome(call.ended.map(|(word, ..)| word)));
    Lane { text_y: y + 15.0, name, is_child: call.parent.is_some(), bars: bars.collect(), end: Some(mark) }
}
