//! The floors of ARCHITECTURE.md: imports go downward only, readers know no actor, and names of the crates that are
//! ours to hide are in no other folder than theirs. Reads the source, because no type can say it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::path::{Path, PathBuf};

/// Modules, each with those of its crate that it may name, itself apart.
type Floors = &'static [(&'static str, &'static [&'static str])];

/// Those of `proto-events`. `scenario` is for tests and may name all.
const VOCABULARY: Floors = &[
    ("limits", &[]),
    ("id", &["limits"]),
    ("json", &["limits"]),
    ("decider", &["envelope"]),
    ("envelope", &["id"]),
    ("model", &["envelope", "id", "json", "limits"]),
    ("turn", &["id", "model"]),
    ("call", &["envelope", "id", "json"]),
    ("task", &["call", "decider", "envelope", "id", "json", "model", "turn"]),
    ("session", &["decider", "envelope", "id", "model", "turn"]),
    ("tool_store", &["decider", "envelope", "id", "json", "limits"]),
    (
        "codec",
        &[
            "call",
            "decider",
            "envelope",
            "id",
            "json",
            "limits",
            "model",
            "session",
            "task",
            "tool_store",
            "turn",
        ],
    ),
];

/// Those of `taskreel`.
const LIBRARY: Floors = &[
    ("limits", &[]),
    ("ports", &[]),
    ("otel", &[]),
    // `modelled` and `trying` are there in the crate `interleavings` only.
    ("store", &["limits", "modelled", "ports", "trying"]),
    ("context", &["limits"]),
    ("agent", &["context", "limits", "ports", "store"]),
    ("audit", &["limits", "ports", "store"]),
    ("inspect", &["audit", "error", "limits", "ports", "store"]),
    ("error", &["limits", "store"]),
    ("actors", &["agent", "error", "limits", "ports", "store"]),
    ("system", &["actors", "agent", "error", "limits", "ports", "store"]),
    // Of all that is below it, for tests of those who embed it.
    ("testing", &["actors", "agent", "audit", "error", "limits", "ports", "store", "system"]),
];

/// Crates, and the only places that may name them.
const HIDDEN: &[(&str, &[&str])] = &[
    ("actix", &["src/actors/", "src/system.rs", "src/system/"]),
    ("actix_rt", &["src/actors/", "src/system/"]),
    ("sled", &["src/store/sled.rs", "src/store/sled/"]),
    ("reqwest", &["src/agent/genai.rs", "src/agent/openai/"]),
    ("bincode", &["proto-events/src/codec/payload.rs"]),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All source files, with their path from the root and their text without comments.
fn sources() -> Vec<(String, String)> {
    let mut folders = vec![root().join("src"), root().join("proto-events/src")];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let code: Vec<_> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
                let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
                found.push((name, code.join("\n")));
            }
        }
    }
    found
}

/// The words that follow `before` in a text, and stand at the beginning of a path.
fn words_after<'a>(text: &'a str, before: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(before).skip(1).map(|rest| {
        let end = rest.find(|char: char| !char.is_alphanumeric() && char != '_');
        rest.split_at(end.unwrap_or(rest.len())).0
    })
}

/// Whether a path of this crate begins with the name: `sled::`, but not `super::sled::` or `self::sled::`.
fn names_crate(code: &str, name: &str) -> bool {
    let wanted = format!("{name}::");
    code.match_indices(&wanted).any(|(at, _)| {
        let before = code.split_at(at).0;
        let in_a_word = before.ends_with(|char: char| char.is_alphanumeric() || char == '_');
        let in_a_path = ["super::", "self::", "crate::", "store::"].iter().any(|path| before.ends_with(path));
        !in_a_word && !in_a_path
    })
}

#[test]
fn imports_go_downward_only() {
    let mut seen = 0;
    for (name, code) in sources() {
        let library = name.starts_with("src/");
        let floors = if library { LIBRARY } else { VOCABULARY };
        let module = words_after(&name, "src/").next().unwrap();
        let Some((_, below)) = floors.iter().find(|(floor, _)| *floor == module) else {
            let no_floor = ["lib", "bin", "scenario"];
            assert!(no_floor.contains(&module), "{name} stands on no floor");
            continue;
        };
        for used in words_after(&code, "crate::") {
            seen += 1;
            assert!(
                used == module || below.contains(&used),
                "{name} names crate::{used}, which is not below {module}"
            );
        }
    }
    assert!(seen > 100, "only {seen} imports were looked at");
}

#[test]
fn the_crates_that_we_hide_are_named_in_their_own_places_only() {
    let sources = sources();
    for (hidden, places) in HIDDEN {
        let named: Vec<_> =
            sources.iter().filter(|(_, code)| names_crate(code, hidden)).map(|(name, _)| name).collect();
        assert!(!named.is_empty(), "{hidden} is named nowhere; is the rule still needed?");
        for name in named {
            assert!(
                places.iter().any(|place| name.starts_with(place)),
                "{name} names {hidden}, which only {places:?} may"
            );
        }
    }
}
