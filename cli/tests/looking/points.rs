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
