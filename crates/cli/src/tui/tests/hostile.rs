//! Any keys on any log at any size; hostile and very large contents; damaged logs.

use std::time::Instant;

use proptest::prelude::*;

use super::*;

fn any_key() -> impl Strategy<Value = Key> {
    let letters: Vec<char> = "jkgGhl1234/nNfFxeE []{}mdstcyopirv<>zZ?:qaJK\u{1b}\u{202e}日".chars().collect();
    prop_oneof![
        8 => prop::sample::select(letters).prop_map(Key::Char),
        4 => prop::sample::select(vec![
            Key::Enter, Key::Enter, Key::Esc, Key::Tab, Key::BackTab, Key::Up, Key::Down, Key::Left, Key::Right,
            Key::PageUp, Key::PageDown, Key::Home, Key::End, Key::Backspace,
            Key::Ctrl('d'), Key::Ctrl('u'), Key::Ctrl('w'), Key::Ctrl('l'),
        ]),
    ]
}

/// A change of the screen: a key, or another size.
#[derive(Debug, Clone)]
enum Step {
    Key(Key),
    Size(u16, u16),
    Typed(&'static str),
}

fn any_step() -> impl Strategy<Value = Step> {
    let typed = vec![
        ":streams<Enter><Enter>",
        ":tasks<Enter>",
        ":at 3<Enter>",
        ":at -1<Enter>",
        ":open demo-7-09<Enter>",
        ":compare demo-7-09 demo-7-03<Enter>",
        "/a<Enter>",
        "fkind=call<Enter>",
        "Ftext=x<Enter>",
        "fstate=failed<Enter>",
        "fstate=no<Enter>",
        ":9999999999999999999999<Enter>",
        "i",
        "<Enter><Enter>",
    ];
    prop_oneof![
        12 => any_key().prop_map(Step::Key),
        2 => prop::sample::select(typed).prop_map(Step::Typed),
        1 => (0_u16..140, 0_u16..50).prop_map(|(width, height)| Step::Size(width, height)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]
    #[test]
    fn no_keys_on_any_log_at_any_size_panic_or_leave_the_screen(
        which in 0_usize..5, steps in prop::collection::vec(any_step(), 0..60), width in 0_u16..140, height in 0_u16..50,
    ) {
        let logs = ["varied", "every_event", "delegated", "webhooks"];
        let reader = logs.get(which).map_or_else(|| log("src/tui/tests/demo.ndjson"), |name| golden(name));
        let mut stand = Stand::new(reader, (width, height));
        for step in steps {
            match step {
                Step::Key(key) => stand.key(key),
                Step::Typed(keys) => drop(stand.keys(keys)),
                Step::Size(width, height) => drop(stand.resize(width, height)),
            }
            let shown = stand.shown();
            prop_assert!(!shown.chars().any(|letter| letter != '\n' && taskreel_log::views::is_obeyed(letter)), "{}", shown);
        }
    }
}

/// Returns the number of sequences of keys; `TASKREEL_TUI_CASES` has more tried.
fn cases() -> u32 {
    std::env::var("TASKREEL_TUI_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(24)
}

#[test]
fn hostile_names_and_texts_are_shown_as_text_on_every_page() {
    let text = "\u{1b}[2J\u{1b}]0;title\u{7}\u{202e}turned\u{200b}\u{9b}31m\r\n<b>日本</b>";
    let (reader, _) = super::made::log(text, 3);
    for size in [(80, 24), (120, 40), (40, 12)] {
        let mut stand = Stand::new(Arc::clone(&reader), size);
        for keys in [
            "",
            "<Enter>",
            "3",
            ">",
            ">",
            ">",
            ">",
            ">",
            ">",
            ">",
            "<Esc>s",
            "<Esc>t",
            "<Esc>i",
            "v",
            "yj",
            "yc",
            "/turned<Enter>",
        ] {
            stand.keys(keys);
            let shown = stand.shown();
            let is_bad = |letter: char| {
                letter != '\n'
                    && (taskreel_log::views::is_obeyed(letter) || taskreel_log::views::is_invisible(letter))
            };
            assert!(!shown.chars().any(is_bad), "{keys}: {shown:?}");
        }
        // From the last tab to the first one.
        stand.keys("r1<Enter>:at 1<Enter>3>");
        if size.1 > 20 {
            assert!(stand.shown().contains("\\u001b["), "{}", stand.shown());
        }
    }
}

#[test]
fn a_line_of_ten_megabytes_and_a_task_of_many_events_are_drawn_at_once() {
    let calls =
        std::env::var("TASKREEL_TUI_CALLS").ok().and_then(|calls| calls.parse().ok()).unwrap_or(3_000);
    let (reader, _) = super::made::log(&"x".repeat(10 << 20), calls);
    let mut stand = Stand::new(reader, (120, 40));
    stand.keys("<Enter>");
    let rows = stand.model.run.as_ref().unwrap().rows.len();
    assert_eq!(rows, calls + 2);
    // Of many rows and of a long line, what is on the screen is drawn and no more.
    let mut slowest = Duration::ZERO;
    for keys in ["<Home>", "jjj", "<PgDn>", "<End>", "3", "<Esc>", "[", "{", "<Home>", "3"] {
        stand.keys(keys);
        let began = Instant::now();
        stand.drawn();
        slowest = slowest.max(began.elapsed());
    }
    assert!(slowest < Duration::from_millis(250), "a screen took {slowest:?}");
    assert!(stand.shown().contains("10.0 MiB"), "{}", stand.shown());
}

#[test]
fn a_damaged_log_shows_what_can_be_read_and_says_where_it_ends() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/tui/tests/demo.ndjson");
    let export = std::fs::read_to_string(path).unwrap();
    let whole = Stand::new(log("src/tui/tests/demo.ndjson"), (120, 40));
    let runs = whole.model.streams.rows.len();
    // The fifth record of a run of 17 events.
    let line = export.lines().filter(|line| line.contains("task-demo/demo-7-09\"")).nth(4).unwrap();
    let damaged = export.replacen(line, &line.replacen("\"hash\":\"", "\"hash\":\"0", 1), 1);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("damaged.ndjson");
    std::fs::write(&file, damaged).unwrap();
    let reader: Arc<dyn EventReader> = Arc::new(JsonLines::open_damaged(&file).unwrap());
    let mut stand = Stand::new(reader, (120, 40));
    assert!(stand.model.streams.rows.len() + 2 >= runs, "{}", stand.shown());
    stand.keys(":open demo-7-09<Enter>");
    let run = stand.model.run.as_ref().unwrap();
    let hole = run
        .data
        .events
        .iter()
        .find(|event| event.kind == "(damaged)")
        .expect("the place of the damage")
        .version;
    assert!(hole > 3 && run.data.end == 17, "{}", stand.shown());
    assert!(
        stand.shown().contains(&format!("v{hole} to v"))
            && stand.shown().contains(&format!("those behind v{}", hole - 1)),
        "{}",
        stand.shown()
    );
    stand.keys(&format!(":at {hole}<Enter>3"));
    assert!(stand.shown().contains("it cannot be read"), "{}", stand.shown());
    stand.model.source.note = Some("the log is damaged".to_owned());
    assert!(stand.shown().lines().next().unwrap().contains("DAMAGED"), "{}", stand.shown());
}
