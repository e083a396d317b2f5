//! Drawings of a causation graph: in characters and as SVG from one layout, and in the languages of DOT and Mermaid.

use std::fmt::Write as _;

use proto_events::id::Version;

use crate::views::causes::event::CausedEvent;
use crate::views::causes::layout::{LanePlace, layout};
use crate::views::diagram_marks::{
    Address, Cells, DIAGRAM_COLUMNS_MIN, DiagramMarks, dot, labelled, linked, mermaid, svg_begin, xml,
};
use crate::views::visible::cut;

/// The columns of a lane.
const LANE_COLUMNS: usize = 2;

/// The most lanes.
const LANES_MAX: usize = 40;

/// The size of a column and of a row in a picture, in pixels.
const PIXELS: (usize, usize) = (8, 20);

/// The most columns of a label in DOT and Mermaid.
const LABEL_COLUMNS_MAX: usize = 80;

/// Returns the most lanes in this many columns: a third of them.
fn lanes(width: usize) -> usize {
    (width / (3 * LANE_COLUMNS)).clamp(1, LANES_MAX)
}

fn words(event: &CausedEvent) -> String {
    let outside = if event.outside.is_empty() || event.cause.is_some() {
        String::new()
    } else {
        format!(" (caused by {})", event.outside)
    };
    format!("v{} {} {}{outside}", event.version, event.kind, event.text)
}

/// Draws a causation graph in characters, one line for each event. No line is wider than the width, which is at least
/// [`DIAGRAM_COLUMNS_MIN`].
pub fn causes_text(events: &[CausedEvent], width: usize, marks: DiagramMarks) -> Vec<String> {
    let width = width.max(DIAGRAM_COLUMNS_MIN);
    let places = layout(events, lanes(width));
    let mut open: Vec<usize> = vec![0; lanes(width)];
    let mut lines = Vec::with_capacity(events.len());
    for (event, place) in events.iter().zip(&places) {
        let used = open.iter().rposition(|lines| *lines > 0).map_or(0, |last| last + 1).max(place.lane + 1);
        let mut cells = Cells::new(used * LANE_COLUMNS - 1);
        for (lane, _) in open.iter().enumerate().filter(|(_, lines)| **lines > 0) {
            cells.set(lane * LANE_COLUMNS, marks.line);
        }
        branch(&mut cells, place, marks);
        cells.set(place.lane * LANE_COLUMNS, if event.is_failed { marks.failed } else { marks.here });
        lines.push(labelled(&cells.text(), &words(event), width, marks.end));
        if let Some(lines) =
            place.cause.filter(|_| !place.cause_goes_on).and_then(|(_, lane)| open.get_mut(lane))
        {
            *lines = lines.saturating_sub(1);
        }
        if let Some(lines) = open.get_mut(place.lane).filter(|_| place.goes_on) {
            *lines += 1;
        }
    }
    lines
}

/// Draws the line from the lane of a cause to that of an event.
fn branch(cells: &mut Cells, place: &LanePlace, marks: DiagramMarks) {
    let Some((_, cause)) = place.cause.filter(|(_, lane)| *lane != place.lane) else { return };
    let (left, right) = (cause.min(place.lane) * LANE_COLUMNS, cause.max(place.lane) * LANE_COLUMNS);
    for at in left + 1..right {
        let crosses = cells.get(at) == marks.line;
        cells.set(at, if crosses { marks.crossing } else { marks.across });
    }
    cells.set(cause * LANE_COLUMNS, if cause < place.lane { marks.to_right } else { marks.to_left });
}

/// Draws a causation graph as a picture, with the same layout as in characters, of this many columns.
pub fn causes_svg(events: &[CausedEvent], width: usize, title: &str) -> String {
    picture(events, width, title, None)
}

/// Draws the picture of [`causes_svg`] with the text of each event as a link to an address of its version, which the function
/// returns.
pub fn causes_svg_linked(
    events: &[CausedEvent],
    width: usize,
    title: &str,
    address: &dyn Fn(Version) -> String,
) -> String {
    picture(events, width, title, Some(address))
}

fn picture(events: &[CausedEvent], width: usize, title: &str, address: Option<Address<'_>>) -> String {
    let width = width.max(DIAGRAM_COLUMNS_MIN);
    let places = layout(events, lanes(width));
    let (column, row) = PIXELS;
    let centre = |at: usize, lane: usize| (lane * LANE_COLUMNS * column + column, at * row + row / 2);
    let mut svg = svg_begin(width * column, events.len().max(1) * row, title);
    let used = places.iter().map(|place| place.lane + 1).max().unwrap_or(1);
    let begin = used * LANE_COLUMNS + 1;
    for (at, (event, place)) in events.iter().zip(&places).enumerate() {
        let (x, y) = centre(at, place.lane);
        if let Some((cause, lane)) = place.cause {
            let (from_x, from_y) = centre(cause, lane);
            let _ = writeln!(
                svg,
                "<path d=\"M {from_x} {from_y} V {y} H {x}\" fill=\"none\" stroke=\"currentColor\" stroke-opacity=\"0.5\"/>"
            );
        }
        let colour = if event.is_failed { "#c5221f" } else { "currentColor" };
        let _ = writeln!(svg, "<circle cx=\"{x}\" cy=\"{y}\" r=\"4\" fill=\"{colour}\"/>");
        let said = cut(&words(event), width.saturating_sub(begin), "…");
        let drawn = format!("<text x=\"{}\" y=\"{}\">{}</text>", begin * column, y + 4, xml(said.trim_end()));
        let _ = writeln!(svg, "{}", linked(&drawn, event.version, address));
    }
    svg.push_str("</svg>\n");
    svg
}

/// Returns a causation graph in the language of DOT.
pub fn causes_dot(events: &[CausedEvent], title: &str) -> String {
    let mut text = format!("digraph {} {{\n    node [shape=box];\n", dot(title));
    for (at, event) in events.iter().enumerate() {
        let colour = if event.is_failed { ", color=red" } else { "" };
        let label = cut(&words(event), LABEL_COLUMNS_MAX, "…");
        let _ = writeln!(text, "    n{at} [label={}{colour}];", dot(label.trim_end()));
        if let Some(cause) = event.cause {
            let _ = writeln!(text, "    n{cause} -> n{at};");
        }
    }
    text.push_str("}\n");
    text
}

/// Returns a causation graph in the language of Mermaid.
pub fn causes_mermaid(events: &[CausedEvent]) -> String {
    let mut text = "flowchart TD\n".to_owned();
    for (at, event) in events.iter().enumerate() {
        let label = cut(&words(event), LABEL_COLUMNS_MAX, "…");
        let _ = writeln!(text, "    n{at}[\"{}\"]", mermaid(label.trim_end()));
        if let Some(cause) = event.cause {
            let _ = writeln!(text, "    n{cause} --> n{at}");
        }
    }
    text
}
