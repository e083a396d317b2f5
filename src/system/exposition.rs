//! Figures in Prometheus' text format.

use std::fmt;
use std::fmt::{Display, Write as _};

use taskreel_log::api::Distribution;

/// A text of figures in Prometheus' text format, version 0.0.4.
///
/// ```
/// let mut text = taskreel::Exposition::default();
/// text.gauge("shop_open", "Whether the shop is open").sample(&[("city", "Oslo")], 1);
/// let expected = "# HELP shop_open Whether the shop is open.\n# TYPE shop_open gauge\nshop_open{city=\"Oslo\"} 1\n";
/// assert_eq!(text.finish(), expected);
/// ```
#[derive(Debug, Default)]
pub struct Exposition(String);

/// A figure, to which samples are added.
#[derive(Debug)]
pub struct Family<'a> {
    out: &'a mut String,
    name: &'a str,
    /// The number by which whole values are divided.
    unit: u32,
}

impl Exposition {
    /// Begins a figure that only grows; its name ends with `_total`.
    pub fn counter<'a>(&'a mut self, name: &'a str, help: &str) -> Family<'a> {
        self.family(name, "counter", help, 1)
    }

    /// Begins a figure that grows and shrinks.
    pub fn gauge<'a>(&'a mut self, name: &'a str, help: &str) -> Family<'a> {
        self.family(name, "gauge", help, 1)
    }

    /// Begins a histogram whose whole values are divided by `unit`: 1,000,000 makes seconds of microseconds.
    pub fn histogram<'a>(&'a mut self, name: &'a str, help: &str, unit: u32) -> Family<'a> {
        self.family(name, "histogram", help, unit)
    }

    /// Returns the text.
    pub fn finish(self) -> String {
        self.0
    }

    fn family<'a>(&'a mut self, name: &'a str, kind: &str, help: &str, unit: u32) -> Family<'a> {
        // Writing to a `String` cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}.\n# TYPE {name} {kind}");
        Family { out: &mut self.0, name, unit }
    }
}

impl Family<'_> {
    /// Adds a sample of a counter or a gauge.
    pub fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) -> &mut Self {
        self.write_sample("", labels, None, value);
        self
    }

    /// Adds the samples of a histogram.
    pub fn distribution(&mut self, labels: &[(&str, &str)], values: &Distribution) -> &mut Self {
        let mut below = 0;
        for (bound, count) in values.bounds.iter().zip(&values.counts) {
            below += count;
            let bound = self.scaled(*bound);
            self.write_sample("_bucket", labels, Some(&bound), below);
        }
        self.write_sample("_bucket", labels, Some("+Inf"), values.count());
        let sum = self.scaled(values.sum);
        self.write_sample("_sum", labels, None, sum);
        self.write_sample("_count", labels, None, values.count());
        self
    }

    /// Returns a whole value in the figure's unit, exactly.
    fn scaled(&self, value: u64) -> String {
        let unit = u64::from(self.unit);
        let digits = self.unit.ilog10() as usize;
        let text = format!("{}.{:0digits$}", value / unit, value % unit);
        if digits == 0 {
            return value.to_string();
        }
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }

    fn write_sample(
        &mut self,
        ending: &str,
        labels: &[(&str, &str)],
        bound: Option<&str>,
        value: impl Display,
    ) {
        let _ = write!(self.out, "{}{ending}", self.name);
        let labels = labels.iter().copied().chain(bound.map(|bound| ("le", bound)));
        let mut open = '{';
        for (name, value) in labels {
            let _ = write!(self.out, "{open}{name}=\"{}\"", Label(value));
            open = ',';
        }
        let close = if open == ',' { "}" } else { "" };
        let _ = writeln!(self.out, "{close} {value}");
    }
}

/// A text as the value of a label.
struct Label<'a>(&'a str);

impl fmt::Display for Label<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|char| match char {
            '\\' | '"' => write!(f, "\\{char}"),
            '\n' => f.write_str("\\n"),
            char => f.write_char(char),
        })
    }
}

#[cfg(test)]
mod tests {
    use taskreel_log::api::Histogram;

    use super::*;

    #[test]
    fn a_histogram_adds_up_and_its_values_are_exact() {
        let histogram = Histogram::new(&[250, 1_500_000]);
        for micros in [100, 2_000, 2_000_001] {
            histogram.record(micros);
        }
        let mut out = Exposition::default();
        out.histogram("x_seconds", "Times", 1_000_000).distribution(&[("a", "b\"\n\\")], &histogram.read());
        let text = out.finish();
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(
            lines,
            [
                r#"x_seconds_bucket{a="b\"\n\\",le="0.00025"} 1"#,
                r#"x_seconds_bucket{a="b\"\n\\",le="1.5"} 2"#,
                r#"x_seconds_bucket{a="b\"\n\\",le="+Inf"} 3"#,
                r#"x_seconds_sum{a="b\"\n\\"} 2.002101"#,
                r#"x_seconds_count{a="b\"\n\\"} 3"#,
            ]
        );
    }

    #[test]
    fn a_figure_without_labels_has_no_braces() {
        let mut out = Exposition::default();
        out.counter("x_total", "Xs").sample(&[], 5);
        assert!(out.finish().ends_with("\nx_total 5\n"));
    }
}
