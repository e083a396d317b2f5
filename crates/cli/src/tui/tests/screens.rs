//! The screens, kept as files at three sizes.

use super::*;

const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (40, 12)];

/// The log of `taskreel demo --seed 7 --tasks 20` with a payment that waits, cut where its last lines begin.
const DEMO: &str = "src/tui/tests/demo.ndjson";

fn each(reader: fn() -> Arc<dyn EventReader>, check: impl Fn(&mut Stand)) {
    for size in SIZES {
        check(&mut Stand::new(reader(), size));
    }
}

fn demo() -> Arc<dyn EventReader> {
    log(DEMO)
}

#[test]
fn the_list_of_runs() {
    each(demo, |stand| {
        stand.is("streams");
        stand.keys("/failed<Enter>").is("streams-search");
        stand.keys("fstate=failed<Enter>").is("streams-filter");
    });
}

#[test]
fn a_run_with_its_events_and_details() {
    each(demo, |stand| {
        stand.keys(":open demo-7-09<Enter>").is("run");
        stand.keys("3").is("run-detail");
        stand.keys("<Esc>Z").is("run-open");
        stand.keys("[[[").is("run-travel");
        stand.keys("m]]d").is("run-diff");
        stand.keys("p").is("run-prompt");
        stand.keys("<Esc><Esc>").is("run-back");
    });
}

#[test]
fn drawings_of_a_run() {
    each(demo, |stand| {
        stand.keys(":open demo-7-09<Enter>s").is("sequence");
        stand.keys("<Esc>t").is("trace");
        stand.keys("j<Enter>").is("trace-entered");
    });
}

#[test]
fn all_that_waits() {
    each(demo, |stand| {
        stand.keys("i").is("inbox");
        stand.keys("j").is("inbox-second");
    });
}

#[test]
fn two_runs_beside_each_other() {
    each(demo, |stand| {
        stand.keys("v").is("compare-none");
        stand.keys(":compare demo-7-09 demo-7-03<Enter>").is("compare");
        stand.keys("e<Enter>").is("compare-step");
    });
}

#[test]
fn help_and_messages() {
    each(demo, |stand| {
        stand.keys("?").is("help");
        stand.keys("copy").is("help-search");
        stand.keys("<Esc>:nonsense<Enter>").is("command-unknown");
    });
}

#[test]
fn a_log_of_every_event_and_one_without_any() {
    each(
        || golden("every_event"),
        |stand| {
            stand.keys(":streams<Enter><End><Enter>").is("every-event");
        },
    );
    each(
        || Arc::new(taskreel_log::memory::MemoryStore::new()),
        |stand| {
            stand.is("empty");
            stand.keys("i").is("empty-inbox");
        },
    );
}

#[test]
fn without_colours_and_in_ascii_all_is_said_by_marks_and_words() {
    let plain = Marks { is_unicode: false, is_coloured: false };
    let mut stand = Stand::with(demo(), (80, 24), plain, LogUse::Exported);
    for keys in ["", ":open demo-7-09<Enter>", "3", "<Esc>t", "<Esc>s", "<Esc>i", "v", "?"] {
        stand.keys(keys);
        let drawn = stand.drawn();
        for cell in &drawn.content {
            assert!(cell.symbol().is_ascii(), "{keys}: {:?}\n{}", cell.symbol(), text(&drawn));
            assert_eq!(cell.fg, ratatui::style::Color::Reset, "{keys}\n{}", text(&drawn));
        }
    }
}

#[test]
fn the_colours_are_the_sixteen_of_the_terminal() {
    use ratatui::style::Color;
    let mut stand = Stand::new(demo(), (120, 40));
    let mut seen = std::collections::HashSet::new();
    for keys in ["", ":open demo-7-09<Enter>", "p", "i", "v", "?"] {
        stand.keys(keys);
        for cell in &stand.drawn().content {
            assert!(!matches!(cell.fg, Color::Rgb(..) | Color::Indexed(_)), "{keys}: {:?}", cell.fg);
            assert_eq!(cell.bg, Color::Reset);
            seen.insert(cell.fg);
        }
    }
    assert!(seen.len() > 4, "{seen:?}");
}
