//! A log that is damaged in its middle shows what can be read, and says where it ends.

use std::sync::Arc;

use proto_events::id::LogId;
use taskreel_http::InspectedLog;
use taskreel_log::api::ReadError;
use taskreel_log::audit::export;
use taskreel_log::jsonl::JsonLines;
use taskreel_log::views::LogUse;

use crate::asked::Pages;
use crate::markup::harmless;
use crate::seeded::seeded;

/// Changes a digit of the stored bytes of a line.
fn bent(line: &str) -> String {
    let bytes = line.find("\"bytes\":\"").unwrap() + 9;
    // In its stream name or set id, which the leaf hash covers.
    let at = bytes + 40;
    let letter = if line.as_bytes()[at] == b'0' { "1" } else { "0" };
    format!("{}{letter}{}", &line[..at], &line[at + 1..])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_export_shows_what_can_be_read_and_says_where_it_ends() {
    let system = seeded().await;
    let mut lines = Vec::new();
    let write = |line: &str| {
        lines.push(line.to_owned());
        Ok::<_, ReadError>(())
    };
    export(system.log().as_ref(), LogId([7; 16]), "os", write).unwrap();
    system.shutdown().await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log.ndjson");
    let records: Vec<usize> =
        (1..lines.len() - 1).filter(|at| lines[*at].contains("\"stream\":\"task-")).collect();
    for at in [records[0], records[records.len() / 2], *records.last().unwrap()] {
        let mut damaged = lines.clone();
        damaged[at] = bent(&damaged[at]);
        std::fs::write(&path, damaged.join("\n") + "\n").unwrap();
        let log = InspectedLog::new(Arc::new(JsonLines::open_damaged(&path).unwrap()), "damaged")
            .used(LogUse::Exported)
            .noted("its <end>");
        let pages = Pages::of(log);
        let runs = pages.page("/").await;
        harmless("/", &runs);
        // A stream whose last record is damaged ends before it: only the note of the log tells of that on this page.
        assert!(runs.contains("its &lt;end&gt;"));
        let named = ["echo-0001", "fail-0001", "pay-0001", "ask-0001", "hang-0001"];
        let there = named.iter().filter(|id| runs.contains(**id)).count();
        assert!(there >= 4, "line {at}: only {there} runs are named: {runs}");
        for id in named {
            let got = pages.get(&format!("/t/agent/{id}")).await;
            harmless(id, &got.body);
        }
        let audit = pages.page("/audit?verify=1").await;
        assert!(audit.contains("✗ not sound:"), "line {at}: {audit}");
    }
}
