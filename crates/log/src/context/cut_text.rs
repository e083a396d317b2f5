//! The text that is sent in place of a cut one: its head, or the minimized form of the result that it tells.

use std::borrow::Cow;

use proto_events::call::CutRule;
use proto_events::json::{JsonMap, JsonText, JsonValue as Value};
use proto_events::model::LlmRole;
use proto_events::model::python_json::python_json;

use crate::artifacts::{CharacterLimit, DataArtifacts, MinimizeLimits, MinimizedValue};

/// The characters that a message with a minimized result may have beyond the limit: room for the tip, the ranges, and the
/// note around the result.
pub(crate) const MINIMIZED_ROOM: usize = 4_096;

/// The notes that tell a model a result, by their type.
const NOTES: [&str; 2] = ["tool_result", "agent_result"];

/// A cut with its texts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PreparedCut<'a> {
    /// The rule that says what is sent.
    pub(crate) rule: CutRule,
    /// The number of characters that are kept, or the limit of a minimized form.
    pub(crate) characters: u64,
    /// The text that follows what is kept.
    pub(crate) marker: &'a str,
    /// The tip for the message that is cut.
    pub(crate) tip: &'a str,
}

/// Returns the text that is sent in place of a whole one. A text that is not longer than what the cut keeps is sent as it
/// is.
pub(crate) fn cut_text<'a>(cutting: PreparedCut<'_>, role: LlmRole, whole: &'a str) -> Cow<'a, str> {
    let PreparedCut { rule, characters, marker, tip } = cutting;
    match rule {
        CutRule::Head => with_head(whole, characters, marker),
        CutRule::HeadWithTip => with_head(whole, characters, &format!("{marker} {tip}")),
        CutRule::Minimized => minimized(role, whole, characters, tip),
    }
}

fn with_head<'a>(whole: &'a str, characters: u64, marker: &str) -> Cow<'a, str> {
    let at = usize::try_from(characters).unwrap_or(usize::MAX);
    let end = whole.char_indices().nth(at).map_or(whole.len(), |(end, _)| end);
    let kept = whole.get(..end).unwrap_or(whole);
    if kept.len() == whole.len() || marker.is_empty() {
        return Cow::Borrowed(kept);
    }
    Cow::Owned([kept, marker].concat())
}

/// Returns the message with its result minimized. A result whose form is too long as JSON writes it, since it has many
/// escapes, is minimized for half the limit, and so on.
fn minimized<'a>(role: LlmRole, whole: &'a str, limit: u64, tip: &str) -> Cow<'a, str> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let most = limit.saturating_add(MINIMIZED_ROOM);
    let told = CutText::new(role, whole);
    let mut within = CharacterLimit::new(limit).unwrap_or_else(|_| CharacterLimit::least());
    loop {
        let form = DataArtifacts::minimize(&told.result, &MinimizeLimits::of_output(within, tip));
        let text = match &form {
            MinimizedValue::Whole(_) => Cow::Borrowed(whole),
            form => Cow::Owned(told.with(form.to_json())),
        };
        if text.chars().count() <= most || within == CharacterLimit::least() {
            return text;
        }
        within = within.half();
    }
}

/// A result, and the note of the system in which it stands, if it does.
struct CutText {
    result: Value,
    note: Option<JsonMap>,
}

impl CutText {
    fn new(role: LlmRole, whole: &str) -> Self {
        // A note around a result of the greatest depth is deeper than what a tool may return.
        match JsonText::parse_stored(whole).map(|text| text.tree()) {
            Ok(Value::Object(mut note)) if role != LlmRole::Tool && is_note(&note) => {
                let result = note.get_mut("result").map(Value::take).unwrap_or_default();
                Self { result, note: Some(note) }
            }
            Ok(result) => Self { result, note: None },
            Err(_) => Self { result: Value::from(whole), note: None },
        }
    }

    fn with(&self, result: Value) -> String {
        let Some(mut note) = self.note.clone() else {
            return JsonText::from(result).as_str().to_owned();
        };
        note.insert("result", result);
        python_json(&Value::from(note))
    }
}

/// Whether a text of the system begins as a note that tells a result does.
pub(crate) fn is_result_note(text: &str) -> bool {
    let kind = text.strip_prefix("{\"type\": \"").and_then(|rest| rest.split_once('"'));
    kind.is_some_and(|(kind, _)| NOTES.contains(&kind))
}

fn is_note(note: &JsonMap) -> bool {
    let kind = note.get("type").and_then(Value::as_str);
    kind.is_some_and(|kind| NOTES.contains(&kind)) && note.contains_key("result")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proto_events::json;

    use super::*;
    use crate::artifacts::{TextArtifacts, TextSelection};
    use crate::shown::RENDERER_VERSION;

    const TEXT: &str = r#"{"text":"zoë says: \n\n[... 70 characters omitted ...]\n\nzoë says: ","_total_lines":1,"_total_characters":90,"_start_line_range":"1-1","_end_line_range":"1-1","_start_character_range":"0-10","_end_character_range":"80-90","_tip":"see: t, c"}"#;
    const LIST: &str = r#"{"data":{"_total_items":200,"_summary":{"count":200,"unique_count":150,"types":[{"name":"string","count":200,"percentage":100.0,"sample_value":"item 0","length_minimum":6,"length_maximum":8,"length_average":7.15,"length_stdev":0.57}]},"_tip":"see: t, c"}}"#;
    const TABLE: &str = r#"{"data":{"_total_rows":30,"_columns":[{"count":30,"unique_count":30,"types":[{"name":"string","count":30,"percentage":100.0,"sample_value":"person 0","length_minimum":8,"length_maximum":9,"length_average":8.67,"length_stdev":0.48}],"name":"name"},{"name":"age","values":[0,1,2,0,1,2,0,1,2,0,1,2,0,1,2,0,1,2,0,1,2,0,1,2,0,1,2,0,1,2]}],"_tip":"see: t, c"}}"#;
    const NOTE: &str = r#"{"type": "tool_result", "tool": "t", "result": {"text": "word word \n\n[... 40 characters omitted ...]\n\nword word ", "_total_lines": 1, "_total_characters": 60, "_start_line_range": "1-1", "_end_line_range": "1-1", "_start_character_range": "0-10", "_end_character_range": "50-60", "_tip": "see: t, c"}}"#;

    fn minimal(limit: u64, role: LlmRole, whole: &str) -> Cow<'_, str> {
        let cutting =
            PreparedCut { rule: CutRule::Minimized, characters: limit, marker: "", tip: "see: t, c" };
        cut_text(cutting, role, whole)
    }

    #[test]
    fn a_head_is_cut_between_characters_and_a_marker_follows_only_a_text_that_is_cut() {
        let of = |rule, characters, marker| {
            cut_text(PreparedCut { rule, characters, marker, tip: "t" }, LlmRole::User, "zoë!")
        };
        let text = |characters, marker| of(CutRule::Head, characters, marker);
        assert_eq!(of(CutRule::HeadWithTip, 2, "..."), "zo... t");
        assert_eq!(of(CutRule::HeadWithTip, 4, "..."), "zoë!");
        assert_eq!(text(3, ""), "zoë");
        assert_eq!(text(2, "..."), "zo...");
        assert_eq!(text(4, "..."), "zoë!");
        assert_eq!(text(9, "..."), "zoë!");
        assert_eq!(text(0, ""), "");
    }

    #[test]
    fn a_note_stays_a_note_with_its_result_minimized() {
        let rows: Vec<Value> =
            (0..400).map(|n| json!({"name": format!("person {n}"), "age": n % 90})).collect();
        let note = python_json(&json!({"type": "tool_result", "tool": "list", "result": rows}));
        let sent = minimal(4_000, LlmRole::System, &note);
        let sent = Value::parse(&sent).unwrap();
        assert_eq!(sent.get("tool").and_then(Value::as_str), Some("list"));
        let data = sent.pointer("/result/data").unwrap();
        assert_eq!(data.get("_total_rows").and_then(Value::as_u64), Some(400));
        assert_eq!(data.get("_tip").and_then(Value::as_str), Some("see: t, c"));
    }

    /// The prompts of old intents are rendered anew: a form that changes here needs another [`RENDERER_VERSION`].
    #[test]
    fn the_minimized_forms_of_this_renderer_are_these() {
        assert_eq!(RENDERER_VERSION, 1);
        let names = |n: u32| json!({"name": format!("person {n}"), "age": n % 3});
        let table = Value::Array((0..30).map(names).collect());
        let list = Value::Array((0..200_u32).map(|n| Value::from(format!("item {}", n % 150))).collect());
        let note = python_json(&json!({"type": "tool_result", "tool": "t", "result": "word ".repeat(12)}));
        let cases = [
            (LlmRole::Tool, "zoë says: ".repeat(9), TEXT),
            (LlmRole::Tool, JsonText::from(list).as_str().to_owned(), LIST),
            (LlmRole::Tool, JsonText::from(table).as_str().to_owned(), TABLE),
            (LlmRole::System, note, NOTE),
        ];
        for (role, whole, form) in cases {
            assert_eq!(minimal(20, role, &whole), form);
        }
    }

    #[test]
    fn a_note_of_a_result_of_the_greatest_depth_stays_a_note() {
        let levels = proto_events::limits::JSON_DEPTH_MAX;
        let deep = format!("{}\"{}\"{}", "[".repeat(levels), "x".repeat(9_000), "]".repeat(levels));
        let result = Value::parse(&deep).unwrap();
        let note = python_json(&json!({"type": "tool_result", "tool": "list", "result": result}));
        let sent = Value::parse(&minimal(4_000, LlmRole::System, &note)).unwrap();
        assert_eq!(sent.get("tool").and_then(Value::as_str), Some("list"));
        assert_eq!(sent.pointer("/result/data/_total_items").and_then(Value::as_u64), Some(1), "{sent}");
    }

    #[test]
    fn a_text_that_is_no_json_is_minimized_as_a_text() {
        let whole = "word ".repeat(2_000);
        let sent = minimal(10, LlmRole::Tool, &whole);
        let sent = Value::parse(&sent).unwrap();
        assert_eq!(sent.get("_total_characters").and_then(Value::as_u64), Some(10_000));
        assert_eq!(sent.get("_tip").and_then(Value::as_str), Some("see: t, c"));
    }

    proptest! {
        #[test]
        fn a_minimized_message_never_exceeds_its_bound(
            text in "[a-zé😀\"\n\u{1}]{0,60}",
            times in 1_usize..400,
            limit in 2_u64..3_000,
            is_native in any::<bool>(),
        ) {
            let result = Value::from(text.repeat(times));
            let (role, whole) = if is_native {
                (LlmRole::Tool, JsonText::from(result).as_str().to_owned())
            } else {
                (LlmRole::System, python_json(&json!({"type": "tool_result", "tool": "t", "result": result})))
            };
            let sent = minimal(limit, role, &whole);
            prop_assert!(sent.chars().count() <= usize::try_from(limit).unwrap() + MINIMIZED_ROOM);
            prop_assert_eq!(&sent, &minimal(limit, role, &whole));
        }

        #[test]
        fn a_view_of_the_range_between_head_and_tail_gives_exactly_what_was_omitted(
            text in "[a-zé😀\"\n]{20,60}",
            times in 1_usize..200,
            limit in 2_u64..900,
        ) {
            let text = text.repeat(times);
            let sent = minimal(limit, LlmRole::Tool, JsonText::string(&text).as_str()).into_owned();
            let sent = Value::parse(&sent).unwrap();
            if let Some(shown) = sent.get("text").and_then(Value::as_str) {
                let range = |key: &str| sent.get(key).and_then(Value::as_str).unwrap().split_once('-').unwrap();
                let (_, from) = range("_start_character_range");
                let (to, _) = range("_end_character_range");
                let number = |text: &str| text.parse().ok();
                let omitted = TextSelection {
                    character_start: number(from),
                    character_end: number(to),
                    ..TextSelection::default()
                };
                let all = CharacterLimit::new(1_000_000).unwrap();
                let omitted = TextArtifacts::view(&text, &omitted, all).unwrap();
                let begin = shown.split("\n\n[... ").next().unwrap();
                let end = shown.rsplit(" characters omitted ...]\n\n").next().unwrap();
                prop_assert_eq!([begin, omitted, end].concat(), text);
            } else {
                prop_assert_eq!(sent.as_str(), Some(text.as_str()));
            }
        }
    }
}
