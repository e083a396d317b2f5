//! Horizontal bars: a figure of several things beside each other.

#![allow(clippy::cast_precision_loss, reason = "lengths in a drawing")]

use crate::inspect::draw::rounded;

/// The width of the drawing, of the column of names, and the height of a bar.
const WIDTH: f64 = 640.0;
const NAMES: f64 = 190.0;
const ROW: f64 = 24.0;

/// The characters of a name.
const NAME_CHARACTERS: usize = 26;

/// A drawing of bars, each in segments.
#[derive(Debug, Default)]
pub(crate) struct Bars {
    pub(crate) width: f64,
    pub(crate) height: f64,
    pub(crate) rows: Vec<BarRow>,
}

/// A bar: its name, its segments and the figure at its end.
#[derive(Debug)]
pub(crate) struct BarRow {
    pub(crate) y: f64,
    pub(crate) text_y: f64,
    pub(crate) name: String,
    /// The segments: place, width, class.
    pub(crate) segments: Vec<(f64, f64, &'static str)>,
    pub(crate) figure_x: f64,
    pub(crate) figure: String,
}

/// A bar as it is asked for: its name, its figures with their classes, and the figure at its end.
pub(crate) type Asked = (String, Vec<(u64, &'static str)>, String);

/// Draws bars. The longest one fills the width.
pub(crate) fn bars(rows: Vec<Asked>) -> Bars {
    let length =
        |segments: &[(u64, &str)]| segments.iter().map(|(figure, _)| *figure).fold(0, u64::saturating_add);
    let longest = rows.iter().map(|(_, segments, _)| length(segments)).max().unwrap_or(0).max(1) as f64;
    let room = WIDTH - NAMES - 110.0;
    let mut drawn = Vec::with_capacity(rows.len());
    for (number, (name, segments, figure)) in (0_u16..).zip(rows) {
        let y = f64::from(number) * ROW;
        let mut x = NAMES;
        let mut placed = Vec::new();
        for (figure, class) in segments {
            let width = figure as f64 / longest * room;
            placed.push((rounded(x), rounded(width), class));
            x += width;
        }
        let is_cut = name.chars().count() > NAME_CHARACTERS;
        let name = name.chars().take(NAME_CHARACTERS).chain(is_cut.then_some('…')).collect();
        drawn.push(BarRow {
            y: y + 4.0,
            text_y: y + 16.0,
            name,
            segments: placed,
            figure_x: rounded(x + 6.0),
            figure,
        });
    }
    let height = f64::from(u16::try_from(drawn.len()).unwrap_or(u16::MAX)) * ROW + 4.0;
    Bars { width: WIDTH, height, rows: drawn }
}
