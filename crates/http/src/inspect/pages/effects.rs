//! The effects of the calls of a log, as the audit shows them: by tool and by other agent.

use taskreel_log::views::Effects;

use crate::inspect::words;

/// The most tools and agents that are listed.
const ROWS_MAX: usize = 200;

/// The effects.
#[derive(Debug)]
pub(crate) struct EffectsView {
    pub(crate) rows: Vec<EffectsRowView>,
    pub(crate) left_out: usize,
    /// The places that could not be counted, with the first reason.
    pub(crate) unread: Option<String>,
}

/// The effects of one tool or agent.
#[derive(Debug)]
pub(crate) struct EffectsRowView {
    pub(crate) kind: &'static str,
    pub(crate) name: String,
    pub(crate) calls: String,
    /// The modes of recovery, each with its number of calls.
    pub(crate) modes: String,
    pub(crate) people: String,
    pub(crate) succeeded: String,
    pub(crate) failed: String,
    pub(crate) canceled: String,
    pub(crate) open: String,
    pub(crate) lost: String,
    pub(crate) is_unknown: bool,
}

impl EffectsView {
    /// Returns the view of effects that were counted.
    pub(crate) fn from_effects(found: &Effects) -> Self {
        let all = found.rows().count();
        let unread = found.unread().first().map(|first| {
            let records = words::of(found.unread().len() as u64, "place", "places");
            format!("{records} of the log could not be read and are not counted; the first one: {first}")
        });
        Self {
            rows: found.rows().take(ROWS_MAX).map(EffectsRowView::new).collect(),
            left_out: all.saturating_sub(ROWS_MAX),
            unread,
        }
    }
}

impl EffectsRowView {
    fn new((kind, name, row): (&'static str, &str, &taskreel_log::views::EffectsRow)) -> Self {
        let modes = row.calls.iter().map(|(mode, calls)| format!("{mode} {}", words::count(*calls)));
        Self {
            kind,
            name: name.to_owned(),
            calls: words::count(row.count()),
            modes: modes.collect::<Vec<_>>().join(", "),
            people: in_words(&[("asked", row.asked), ("approved", row.approved), ("denied", row.denied)]),
            succeeded: words::count(row.succeeded),
            failed: words::count(row.failed),
            canceled: words::count(row.canceled),
            open: words::count(row.open),
            lost: in_words(&[
                ("lost", row.lost),
                ("landed", row.landed),
                ("did not happen", row.did_not_happen),
                ("given up", row.abandoned),
                ("still unknown", row.unknown()),
            ]),
            is_unknown: row.unknown() > 0,
        }
    }
}

/// Returns figures in words, without those that are zero.
fn in_words(figures: &[(&str, u64)]) -> String {
    let figures = figures.iter().filter(|(_, figure)| *figure > 0);
    let figures: Vec<String> =
        figures.map(|(name, figure)| format!("{} {name}", words::count(*figure))).collect();
    if figures.is_empty() { "–".to_owned() } else { figures.join(", ") }
}
