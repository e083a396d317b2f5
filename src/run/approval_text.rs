//! The question to a person about an approval. It is recorded with the task, and known again by its text: to an answer, and to the
//! next attempt of a tool or a handler in whose middle it was asked.

use proto_events::id::StreamId;
use proto_events::task::ApprovalRequested;

/// The most of a call's arguments that the question contains, in characters.
const ARGS_SHOWN: usize = 400;

/// Returns the question to the person, which is the task's last message. Its commands name the task by its stream: the id alone may
/// be read as `@last`, as a stream or as an option, and several agents may have it.
pub(crate) fn for_person(task: &StreamId, asked: &ApprovalRequested) -> String {
    around_task(asked).join(shell_word(task.as_str()).as_str())
}

/// Whether a text is the question about this approval, whatever its commands call the task: earlier releases wrote the id alone.
pub(crate) fn is_for_person(text: &str, asked: &ApprovalRequested) -> bool {
    let [before, between, after] = around_task(asked);
    let rest = text.strip_prefix(before.as_str()).and_then(|rest| rest.strip_suffix(after.as_str()));
    rest.is_some_and(|rest| {
        // The task is named twice, by the same word.
        let named = rest.get(..rest.len().saturating_sub(between.len()) / 2);
        named.is_some_and(|named| {
            let second = rest.strip_prefix(named).and_then(|rest| rest.strip_prefix(between.as_str()));
            second == Some(named)
        })
    })
}

/// Returns what the question says before, between and after the two places where it names the task.
fn around_task(asked: &ApprovalRequested) -> [String; 3] {
    let ApprovalRequested { approval_id, tool, args, capabilities, .. } = asked;
    let mut shown: String = args.as_str().chars().take(ARGS_SHOWN).collect();
    if shown.len() < args.as_str().len() {
        shown.push('…');
    }
    let (needed, approval) = (capabilities.join(", "), shell_word(approval_id));
    [
        format!(
            "The call of {tool} with {shown} needs approval ({needed}). It has not been made. Approve it \
             with `taskreel approve "
        ),
        format!(" {approval}`, or refuse it with `taskreel deny "),
        format!(" {approval} --reason WHY`."),
    ]
}

/// Quotes a word for a shell, if necessary.
fn shell_word(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./:@%+=,".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use proto_events::call::CallOrigin;
    use proto_events::json::JsonText;

    use super::*;

    fn asked(approval: &str, args: &str) -> ApprovalRequested {
        ApprovalRequested {
            approval_id: approval.to_owned(),
            call_id: "c".to_owned(),
            tool: "pay".to_owned(),
            args: JsonText::parse(args).unwrap(),
            capabilities: vec!["a".to_owned(), "b".to_owned()],
            origin: CallOrigin::default(),
        }
    }

    #[test]
    fn a_person_is_shown_what_is_asked_for_and_what_to_type() {
        let task = |id: &str| StreamId::task("a desk", id).unwrap();
        assert_eq!(
            for_person(&task("it's"), &asked("approval_1", r#"{"cents":1}"#)),
            "The call of pay with {\"cents\":1} needs approval (a, b). It has not been made. Approve it \
             with `taskreel approve task-a%20desk/it%27s approval_1`, or refuse it with `taskreel deny \
             task-a%20desk/it%27s approval_1 --reason WHY`."
        );
        let long = for_person(&task("t"), &asked("it's", &format!("\"{}\"", "ü".repeat(1_000))));
        assert!(long.contains("ü…") && long.chars().count() < 700, "{long}");
        assert!(long.contains("approve task-a%20desk/t 'it'\\''s'`"), "{long}");
    }

    #[test]
    fn the_commands_name_no_other_task_whatever_the_id_of_this_one() {
        for (id, named) in [
            ("@last", "task-agent/%40last"),
            ("--help", "task-agent/--help"),
            ("task-payments/order-17", "task-agent/task-payments%2Forder-17"),
        ] {
            let said = for_person(&StreamId::task("agent", id).unwrap(), &asked("approval_1", "{}"));
            assert!(said.contains(&format!("`taskreel approve {named} approval_1`")), "{said}");
            assert!(said.contains(&format!("`taskreel deny {named} approval_1 --reason WHY`")), "{said}");
        }
    }

    #[test]
    fn a_question_is_known_again_by_its_approval_also_as_earlier_releases_named_the_task() {
        let (own, other) = (asked("approval_1", r#"{"cents":1}"#), asked("approval_2", r#"{"cents":1}"#));
        let today = for_person(&StreamId::task("agent", "it's").unwrap(), &own);
        let before = "The call of pay with {\"cents\":1} needs approval (a, b). It has not been made. \
             Approve it with `taskreel approve 'it'\\''s' approval_1`, or refuse it with `taskreel deny \
             'it'\\''s' approval_1 --reason WHY`.";
        for text in [today.as_str(), before] {
            assert!(is_for_person(text, &own), "{text}");
            assert!(!is_for_person(text, &other), "{text}");
            assert!(!is_for_person(text, &asked("approval_1", r#"{"cents":2}"#)), "{text}");
        }
        let other_task = before.replacen("'it'", "'is'", 1);
        for text in [other_task, format!("{before} Really?"), "Which account?".to_owned()] {
            assert!(!is_for_person(&text, &own), "{text}");
        }
    }
}
