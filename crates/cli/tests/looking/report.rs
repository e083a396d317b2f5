//! `report`: one file from each source of a log, whole or not there at all.

use crate::binary::{Place, small_log};

/// Returns the names of the files in the place's folder that are left of a report.
fn parts(place: &Place) -> Vec<String> {
    let files = place.files(".");
    files.into_iter().map(|(name, _)| name).filter(|name| name.contains(".part")).collect()
}

/// Returns a report without the time at which it was made, the name of its log and how a command is typed there.
fn content(report: &str) -> String {
    let main = report.split("<nav aria-label=\"Contents\">").nth(1).unwrap();
    let main = main.split("id=\"again\"").next().unwrap();
    main.split(" ago<").map(|piece| piece.rsplit_once('>').map_or(piece, |(piece, _)| piece)).collect()
}

#[test]
fn a_report_is_the_same_from_the_directory_and_an_export_in_a_file_and_on_stdout() {
    let place = small_log();
    std::fs::write(place.path().join("log.ndjson"), place.run("export").ended(0).out()).unwrap();
    let out = place.run("report ask-0001").ended(0).out();
    assert!(out.starts_with("<!doctype html>") && out.trim_end().ends_with("</html>"), "{out}");
    for held in
        ["20 degrees", "what is it?", "✓ checked:", "no fault was found", "leaf hash", "End of the report."]
    {
        assert!(out.contains(held), "{held}");
    }
    assert!(!out.contains("<script") && !out.contains("src="));
    let told = place.run("report ask-0001 -o ask.html").ended(0);
    assert!(told.out().is_empty() && told.err().contains(" in ask.html"), "{}", told.err());
    let file = std::fs::read_to_string(place.path().join("ask.html")).unwrap();
    assert_eq!(content(&file), content(&out));
    place.run("report ask-0001 --file log.ndjson -o exported.html --whole").ended(0);
    let exported = std::fs::read_to_string(place.path().join("exported.html")).unwrap();
    assert!(exported.contains("log.ndjson, an export") && exported.contains("20 degrees"));
    // The conversation with the task that had its turn, and a file that is replaced.
    place.run("report s:ask-0001 -o ask.html").ended(0);
    let session = std::fs::read_to_string(place.path().join("ask.html")).unwrap();
    assert!(
        session.contains("Session <span class=\"id\">ask-0001</span>")
            && session.matches("<article id=").count() == 2
    );
    assert!(parts(&place).is_empty());
}

#[test]
fn a_report_that_cannot_be_made_leaves_nothing_and_what_was_there_stays() {
    let place = small_log();
    std::fs::write(place.path().join("old.html"), "old").unwrap();
    place.run("report nobody-at-all -o old.html").ended(3).told(&["nobody-at-all"]);
    place.run("report system-0 -o old.html").ended(2).told(&["no task and no session"]);
    place.run("report ask-0001 -o missing/ask.html").ended(8).told(&["missing/ask.html"]);
    place.run("report ask-0001 -o old.html --json").ended(2).told(&["a report is not JSON"]);
    place.run("report ask-0001 -o ..").ended(2).told(&["is no file"]);
    assert_eq!(std::fs::read_to_string(place.path().join("old.html")).unwrap(), "old");
    assert!(parts(&place).is_empty());
}

#[test]
fn the_report_of_a_damaged_export_says_where_it_ends_and_exits_with_five_or_one() {
    let place = small_log();
    let whole = place.run("export").ended(0).out();
    let lines: Vec<&str> = whole.lines().collect();
    let at = lines.iter().rposition(|line| line.contains("\"stream\":\"task-agent/ask-0001\"")).unwrap();
    let mut bent = lines[at].to_owned();
    let byte = bent.find("\"bytes\":\"").unwrap() + 49;
    let other = if bent.as_bytes()[byte] == b'0' { "1" } else { "0" };
    bent.replace_range(byte..=byte, other);
    let damaged: Vec<&str> =
        lines.iter().enumerate().map(|(line, text)| if line == at { &bent } else { *text }).collect();
    std::fs::write(place.path().join("damaged.ndjson"), damaged.join("\n") + "\n").unwrap();
    let ran = place.run("report ask-0001 --file damaged.ndjson -o ask.html");
    assert!(matches!(ran.code(), Some(1 | 5)), "{:?} {}", ran.code(), ran.err());
    assert!(ran.err().contains("The log is damaged"), "{}", ran.err());
    let report = std::fs::read_to_string(place.path().join("ask.html")).unwrap();
    assert!(report.contains("The log is damaged") && report.contains("End of the report."));
}
