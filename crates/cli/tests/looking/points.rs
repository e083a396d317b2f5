//! Points of a stream: by version, by position, by time, and counted from the end.

use super::ran;
use crate::binary::small_log;

#[test]
fn each_way_to_name_a_point_leads_to_the_same_state_and_event() {
    let place = small_log();
    let export = place.run("export").ended(0).out();
    std::fs::write(place.path().join("log.ndjson"), export).unwrap();
    let events = place.run("events ask-0001 --json").ended(0).json();
    let end = events.len();
    for (at, event) in events.iter().enumerate().step_by(5) {
        let version = at + 1;
        let (position, time) = (event["position"].as_u64().unwrap(), event["at"].as_str().unwrap());
        let state = |point: &str| place.run(&format!("state ask-0001 --at {point}")).ended(0).out();
        let expected = state(&version.to_string());
        assert_eq!(state(&format!("@{position}")), expected, "@{position}");
        assert_eq!(state(&format!("-{}", end - version)), expected);
        // Of several events of one time the last one.
        let last = events.iter().rposition(|other| other["at"] == event["at"]).unwrap() + 1;
        assert_eq!(state(time), state(&last.to_string()), "{time}");
        let shown = |point: &str| place.run(&format!("event ask-0001 {point} --json")).ended(0).json();
        assert_eq!(shown(&format!("@{position}"))[0]["event"], *event);
        assert_eq!(shown(&format!("-{}", end - version))[0]["event"], *event);
    }
    let explained = place.run("explain ask-0001 --at 4 --json").ended(0).out();
    assert_eq!(place.run(&format!("explain ask-0001 --at -{} --json", end - 4)).ended(0).out(), explained);
    let changes = place.run(&format!("diff ask-0001 2 {end} --json")).ended(1).out();
    assert_eq!(place.run(&format!("diff ask-0001 -{} -0 --json", end - 2)).ended(1).out(), changes);
    let (from, to) = (events[1]["at"].as_str().unwrap(), events[end - 1]["at"].as_str().unwrap());
    let version = |at: &str| events.iter().rposition(|event| event["at"] == at).unwrap() + 1;
    let by_versions =
        place.run(&format!("diff ask-0001 {} {} --json", version(from), version(to))).ended(1).out();
    assert_eq!(place.run(&format!("diff ask-0001 {from} {to} --json")).ended(1).out(), by_versions);
    let line = "diff ask-0001 2 -0 --with log.ndjson --json";
    assert_eq!(ran(&place, &line.split(' ').collect::<Vec<_>>()).ended(1).out(), changes);
}

#[test]
fn a_point_that_is_none_is_refused_in_words() {
    let place = small_log();
    place.run("state ask-0001 --at 99").ended(3).told(&["no version 99", "versions are 1 to"]);
    place.run("state ask-0001 --at -99").ended(3).told(&["99 events before its end"]);
    place.run("event ask-0001 @1").ended(3).told(&["no event up to that point", "begins after that"]);
    place.run("explain ask-0001 --at 2001-01-01").ended(3).told(&["begins after that"]);
    place.run("state ask-0001 --at sometime").ended(2).told(&["not a point of a stream", "@1204"]);
    place.run("event ask-0001 0").ended(3).told(&["no version 0"]);
}

#[test]
fn each_command_that_shows_a_stream_shows_it_as_it_was_at_each_point() {
    let place = small_log();
    let events = place.run("events ask-0001 --json").ended(0).json();
    let end = events.len();
    let lines = |line: String| place.run(&line).ended(0).json();
    for version in [1, end / 2, end - 1, end] {
        let event = &events[version - 1];
        let (position, before_end) = (event["position"].as_u64().unwrap(), end - version);
        assert_eq!(lines(format!("events ask-0001 --json --at {version}")), events[..version]);
        let shown = lines(format!("show ask-0001 --json --at {version}"));
        assert_eq!(shown[0]["version"].as_u64(), Some(version as u64));
        let state = place.run(&format!("state ask-0001 --at {version}")).ended(0).out();
        let state: proto_events::json::JsonValue = serde_json::from_str(&state).unwrap();
        assert_eq!(shown[0]["task"], state, "show and state agree");
        for command in ["show", "events", "seq", "graph", "trace", "transcript", "artifact"] {
            let at =
                |point: &str| place.run(&format!("{command} ask-0001 --json --at {point}")).ended(0).out();
            let expected = at(&version.to_string());
            assert_eq!(at(&format!("@{position}")), expected, "{command} @{position}");
            assert_eq!(at(&format!("-{before_end}")), expected, "{command} -{before_end}");
            if version == end {
                let newest = place.run(&format!("{command} ask-0001 --json")).ended(0).out();
                assert_eq!(expected, newest, "{command}");
            }
        }
        // Each view of the time knows nothing that came later.
        for command in ["seq", "graph", "trace"] {
            let steps = lines(format!("{command} ask-0001 --json --at {version}"));
            assert!(steps.iter().all(|step| step["version"].as_u64() <= Some(version as u64)), "{command}");
        }
        let all = lines(format!("events --all --json --at @{position}"));
        assert_eq!(all.len() as u64, position);
        let rows = lines(format!("ls --json --at @{position}"));
        let row = rows.iter().find(|row| row["id"] == "ask-0001").unwrap();
        assert_eq!(row["events"].as_u64(), Some(version as u64));
        let told = place.run(&format!("show ask-0001 --at -{before_end}")).ended(0).err();
        assert!(told.contains(&format!("as it was at version {version}, position {position}")), "{told}");
    }
    assert_eq!(
        lines("events --all --json --at -2".to_owned()).len(),
        lines("events --all --json".to_owned()).len() - 2
    );
    for (line, code, says) in [
        ("events --all --at 3", 2, "a place in one task, session or tool"),
        ("ls --at 3", 2, "@1204"),
        ("ls --at 2001-01-01", 3, "the log has no event up to that point"),
        ("show ask-0001 --at 99", 3, "no version 99"),
        ("events --all --follow --at @3", 2, "cannot be used with"),
        ("transcript ask-0001 --at sometime", 2, "not a point of a stream"),
    ] {
        place.run(line).ended(code).told(&[says]);
    }
}
