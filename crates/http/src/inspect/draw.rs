//! Drawings, made here as figures that a template writes as SVG: no library draws in the browser.

pub(crate) mod bars;
pub(crate) mod diagrams;
pub(crate) mod scale;
pub(crate) mod waterfall;

/// Returns a figure with one digit behind the point, which is all that a drawing needs.
pub(crate) fn rounded(figure: f64) -> f64 {
    (figure * 10.0).round() / 10.0
}
