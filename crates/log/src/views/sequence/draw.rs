//! Drawings of a sequence diagram: in characters and as SVG from one layout, and in Mermaid's language.

use std::fmt::Write as _;

use proto_events::envelope::Timestamp;
use proto_events::id::Version;

use crate::views::diagram_marks::{
    Address, Cells, DIAGRAM_COLUMNS_MIN, DiagramMarks, labelled, linked, mermaid, svg_begin, xml,
};
use crate::views::sequence::diagram::{SequenceDiagram, SequenceStep};
use crate::views::visible::{columns, cut};

/// The columns between two lanes.
const LANES_APART: (usize, usize) = (4, 14);

/// The least columns for the text of a step.
const WORDS_COLUMNS_MIN: usize = 16;

/// The size of a column and of a row in a picture, in pixels.
const PIXELS: (usize, usize) = (8, 20);

/// The most columns of a label in Mermaid.
const MERMAID_COLUMNS_MAX: usize = 100;

/// A diagram laid out in columns and rows.
struct Layout<'a> {
    diagram: &'a SequenceDiagram,
    width: usize,
    /// The width of the versions at the left.
    versions: usize,
    /// The columns of the lanes. Participants beyond the last lane share it.
    lanes: Vec<usize>,
    /// The columns that the lanes take, with the columns of versions and times before them.
    drawn: usize,
    began: Option<Timestamp>,
}

impl<'a> Layout<'a> {
    fn new(diagram: &'a SequenceDiagram, width: usize) -> Self {
        let width = width.max(DIAGRAM_COLUMNS_MIN);
        let last = diagram.steps.last().map_or(0, |step| step.version.0);
        let versions = format!("v{last}").len();
        let gutter = versions + 1 + SINCE_COLUMNS + 1;
        let room = width.saturating_sub(gutter + WORDS_COLUMNS_MIN).min(width * 3 / 5);
        let count = diagram.participants.len().max(1).min((room / LANES_APART.0).max(1));
        let apart = (room / count).clamp(LANES_APART.0, LANES_APART.1);
        let lanes = (0..count).map(|lane| gutter + lane * apart + 1).collect::<Vec<_>>();
        let drawn = lanes.last().map_or(gutter, |last| last + 2);
        Self { diagram, width, versions, lanes, drawn, began: diagram.steps.first().map(|step| step.at) }
    }

    fn lane(&self, participant: usize) -> usize {
        self.lanes.get(participant).or(self.lanes.last()).copied().unwrap_or_default()
    }

    fn apart(&self) -> usize {
        match self.lanes.as_slice() {
            [first, second, ..] => second - first,
            _ => LANES_APART.1,
        }
    }

    /// Whether all names fit above their lanes.
    fn has_names(&self) -> bool {
        let names = self.diagram.participants.iter();
        self.diagram.participants.len() <= self.lanes.len()
            && names.map(|participant| columns(&participant.name)).all(|width| width < self.apart())
    }

    /// Returns the text above each lane, and the lines that explain numbers.
    fn heads(&self) -> (Vec<String>, Vec<String>) {
        let names = self.diagram.participants.iter().map(|participant| &participant.name);
        if self.has_names() {
            return (names.cloned().collect(), Vec::new());
        }
        let lanes = self.lanes.len();
        let number = |at: usize| if at < lanes { at + 1 } else { lanes };
        let legend = names.enumerate().map(|(at, name)| format!("{:>3} {name}", number(at))).collect();
        ((1..=lanes).map(|number| number.to_string()).collect(), legend)
    }

    fn gutter(&self, step: &SequenceStep) -> String {
        let since = since(self.began.unwrap_or(step.at), step.at);
        format!(
            "{:<versions$} {since:>SINCE_COLUMNS$} ",
            format!("v{}", step.version),
            versions = self.versions
        )
    }
}

/// The columns of the time since the first step.
const SINCE_COLUMNS: usize = 9;

/// Returns a time span in at most nine columns.
fn since(began: Timestamp, at: Timestamp) -> String {
    let micros = at.0.saturating_sub(began.0);
    let (sign, micros) = if micros < 0 { ("-", micros.saturating_abs()) } else { ("+", micros) };
    match micros {
        0..=99_999_999 => format!("{sign}{}.{:03} s", micros / 1_000_000, micros / 1_000 % 1_000),
        100_000_000..=5_999_999_999 => format!("{sign}{} min", micros / 60_000_000),
        6_000_000_000..=359_999_999_999 => format!("{sign}{} h", micros / 3_600_000_000),
        _ => format!("{sign}{} d", (micros / 86_400_000_000).min(99_999)),
    }
}

/// Draws a diagram in characters, line by line: names or their numbers, then one line for each step. No line is wider than the
/// width, which is at least [`DIAGRAM_COLUMNS_MIN`].
pub fn sequence_text(diagram: &SequenceDiagram, width: usize, marks: DiagramMarks) -> Vec<String> {
    let layout = Layout::new(diagram, width);
    let (heads, legend) = layout.heads();
    let mut lines: Vec<String> = legend.iter().map(|line| cut(line, layout.width, marks.end)).collect();
    let mut head = String::new();
    for (lane, name) in layout.lanes.iter().zip(&heads) {
        let blanks = lane.saturating_sub(columns(&head));
        let _ = write!(head, "{}{name}", " ".repeat(blanks));
    }
    lines.push(cut(&head, layout.width, marks.end));
    for step in &diagram.steps {
        let mut cells = Cells::new(layout.drawn);
        for lane in &layout.lanes {
            cells.set(*lane, marks.line);
        }
        arrow(&mut cells, &layout, step, marks);
        let gutter = layout.gutter(step);
        let drawn = cells.text();
        // The gutter takes the first columns, which the lanes leave free.
        let behind: String = drawn.chars().skip(gutter.chars().count()).collect();
        let words = format!("{} {}", step.kind, step.text);
        lines.push(labelled(&format!("{gutter}{behind}"), &words, layout.width, marks.end));
    }
    lines
}

fn arrow(cells: &mut Cells, layout: &Layout<'_>, step: &SequenceStep, marks: DiagramMarks) {
    let (from, to) = (layout.lane(step.from), layout.lane(step.to));
    if from == to {
        cells.set(from, if step.is_failed { marks.failed } else { marks.here });
        return;
    }
    let (left, right) = (from.min(to), from.max(to));
    for at in left + 1..right {
        let crosses = cells.get(at) == marks.line;
        cells.set(at, if crosses { marks.crossing } else { marks.across });
    }
    let is_right = to > from;
    cells.set(from, if is_right { marks.to_right } else { marks.to_left });
    let (head, at) = if is_right { (marks.right, to - 1) } else { (marks.left, to + 1) };
    cells.set(at, if step.is_failed { marks.failed } else { head });
}

/// Draws a diagram as a picture, with the same layout as in characters, of this many columns.
pub fn sequence_svg(diagram: &SequenceDiagram, width: usize, title: &str) -> String {
    picture(diagram, width, title, None)
}

/// Draws the picture of [`sequence_svg`] with the text of each step as a link to an address of its version, which the function
/// returns.
pub fn sequence_svg_linked(
    diagram: &SequenceDiagram,
    width: usize,
    title: &str,
    address: &dyn Fn(Version) -> String,
) -> String {
    picture(diagram, width, title, Some(address))
}

fn picture(diagram: &SequenceDiagram, width: usize, title: &str, address: Option<Address<'_>>) -> String {
    let layout = Layout::new(diagram, width);
    let (heads, legend) = layout.heads();
    let (column, row) = PIXELS;
    let top = (legend.len() + 2) * row;
    let height = top + diagram.steps.len() * row + row;
    let mut svg = svg_begin(layout.width * column, height, title);
    for (at, line) in legend.iter().enumerate() {
        let _ = writeln!(svg, "<text x=\"0\" y=\"{}\">{}</text>", (at + 1) * row - 5, xml(line));
    }
    for (lane, name) in layout.lanes.iter().zip(&heads) {
        let x = lane * column + column / 2;
        let _ = writeln!(svg, "<text x=\"{x}\" y=\"{}\">{}</text>", top - row / 2, xml(name));
        let _ = writeln!(
            svg,
            "<line x1=\"{x}\" y1=\"{top}\" x2=\"{x}\" y2=\"{}\" stroke=\"currentColor\" stroke-opacity=\"0.3\"/>",
            height - row / 2
        );
    }
    for (at, step) in diagram.steps.iter().enumerate() {
        let middle = top + at * row + row / 2;
        let base = middle + 4;
        let (from, to) =
            (layout.lane(step.from) * column + column / 2, layout.lane(step.to) * column + column / 2);
        let room = layout.width.saturating_sub(layout.drawn + 1);
        let words = cut(&format!("{} {}", step.kind, step.text), room, "…");
        let _ = writeln!(
            svg,
            "<text x=\"0\" y=\"{base}\" xml:space=\"preserve\">{}</text>",
            xml(&layout.gutter(step))
        );
        svg.push_str(&arrow_svg(from, to, middle, step.is_failed));
        let x = (layout.drawn + 1) * column;
        let drawn = format!("<text x=\"{x}\" y=\"{base}\">{}</text>", xml(&words));
        let _ = writeln!(svg, "{}", linked(&drawn, step.version, address));
    }
    svg.push_str("</svg>\n");
    svg
}

fn arrow_svg(from: usize, to: usize, y: usize, is_failed: bool) -> String {
    let colour = if is_failed { "#c5221f" } else { "currentColor" };
    if from == to {
        return format!("<circle cx=\"{from}\" cy=\"{y}\" r=\"4\" fill=\"{colour}\"/>\n");
    }
    let (back, dash) = if to > from { (to - 7, "") } else { (to + 7, " stroke-dasharray=\"5 3\"") };
    format!(
        "<line x1=\"{from}\" y1=\"{y}\" x2=\"{to}\" y2=\"{y}\" stroke=\"{colour}\"{dash}/>\
         <polygon points=\"{to},{y} {back},{} {back},{}\" fill=\"{colour}\"/>\n",
        y.saturating_sub(4),
        y + 4
    )
}

/// Returns a diagram in the language of Mermaid.
pub fn sequence_mermaid(diagram: &SequenceDiagram) -> String {
    let mut text = "sequenceDiagram\n".to_owned();
    for (at, participant) in diagram.participants.iter().enumerate() {
        let _ = writeln!(text, "    participant p{at} as {}", mermaid(&participant.name));
    }
    for step in &diagram.steps {
        let words = cut(&format!("v{} {} {}", step.version, step.kind, step.text), MERMAID_COLUMNS_MAX, "…");
        let words = mermaid(words.trim_end());
        let _ = match (step.from == step.to, step.is_failed) {
            (true, _) => writeln!(text, "    Note over p{}: {words}", step.from),
            (false, false) => writeln!(text, "    p{}->>p{}: {words}", step.from, step.to),
            (false, true) => writeln!(text, "    p{}-xp{}: {words}", step.from, step.to),
        };
    }
    text
}
