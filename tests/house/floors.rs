//! The order of modules of docs/how-it-works.md, read from the source because no type can state them: imports go downward
//! only, no two files and no two folders import each other in a circle, and a crate that we hide is named in
//! its own room only.
//!
//! Re-exports are followed to the file that defines an item, and a child's import of its parent counts like
//! any other.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod graph;
mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use graph::{Edges, circles, imports};
use source::{Crate, read};

/// The rooms of one crate, each with the rooms of the same crate that it may import.
type Floors = &'static [(&'static str, &'static [&'static str])];

/// The crates of the workspace: name in paths, folder, rooms.
const CRATES: &[(&str, &str, Floors)] = &[
    ("proto_events", "proto-events/src", VOCABULARY),
    ("taskreel_log", "crates/log/src", LOG),
    ("taskreel", "src", LIBRARY),
    ("taskreel_http", "crates/http/src", FACES),
    ("taskreel_cli", "crates/cli/src", COMMAND_LINE),
];

/// The rooms of `proto-events`. `scenario` is for tests and may import all.
const VOCABULARY: Floors = &[
    ("limits", &[]),
    ("growing_list", &[]),
    ("hash_count", &[]),
    ("memo", &[]),
    ("id", &["hash_count", "limits"]),
    ("json", &["limits"]),
    ("secret", &["id", "json"]),
    ("envelope", &["id"]),
    ("decider", &["envelope"]),
    ("model", &["envelope", "id", "json", "limits"]),
    ("turn", &["id", "model"]),
    ("call", &["envelope", "growing_list", "id", "json", "limits", "memo", "model", "secret"]),
    (
        "task",
        &[
            "call",
            "decider",
            "envelope",
            "growing_list",
            "id",
            "json",
            "limits",
            "memo",
            "model",
            "secret",
            "turn",
        ],
    ),
    ("session", &["call", "decider", "envelope", "id", "json", "model", "turn"]),
    ("flow", &["decider", "envelope", "id", "json"]),
    ("tool_store", &["decider", "envelope", "id", "json", "limits"]),
    ("system", &["decider", "envelope"]),
    ("definition", &["decider", "envelope"]),
    ("registry", &["decider", "envelope", "limits", "model"]),
    (
        "codec",
        &[
            "call",
            "decider",
            "definition",
            "envelope",
            "flow",
            "id",
            "json",
            "limits",
            "model",
            "registry",
            "secret",
            "session",
            "system",
            "task",
            "tool_store",
            "turn",
        ],
    ),
];

/// The rooms of `taskreel-log`.
const LOG: Floors = &[
    ("limits", &[]),
    ("ports", &[]),
    ("sync", &[]),
    ("secrets", &[]),
    ("api", &["limits", "sync"]),
    ("engine", &["api", "limits", "sync"]),
    ("memory", &["api", "engine", "limits", "sync"]),
    ("jsonl", &["api", "engine", "limits"]),
    ("sled", &["api", "engine", "limits", "ports", "sync"]),
    ("read", &["api", "limits", "sync"]),
    ("socket", &["api", "limits", "read", "sled"]),
    ("projection", &["api", "limits", "read"]),
    ("artifacts", &[]),
    ("context", &["artifacts"]),
    ("shown", &["api", "context", "read"]),
    ("audit", &["api", "artifacts", "context", "engine", "jsonl", "limits", "read", "shown"]),
    ("views", &["api", "artifacts", "audit", "jsonl", "limits", "read", "shown"]),
    ("documents", &["api", "audit", "read", "views"]),
    ("doctor", &["api", "audit", "engine", "read", "secrets", "sled", "views"]),
    // For tests of stores.
    ("testing", &["api", "engine", "limits", "memory", "read"]),
];

/// The rooms of `taskreel`.
const LIBRARY: Floors = &[
    ("limits", &[]),
    ("python", &[]),
    ("error", &[]),
    ("http_client", &[]),
    ("lenient_json", &[]),
    ("otel", &["http_client"]),
    ("grammar", &["python"]),
    ("tools", &["http_client", "lenient_json", "limits", "python"]),
    ("models", &["grammar", "http_client", "lenient_json", "limits", "python", "tools"]),
    ("files", &["http_client", "limits"]),
    ("agent", &["files", "grammar", "limits", "models", "python", "tools"]),
    ("run", &["agent", "grammar", "limits", "models", "python", "tools"]),
    ("live", &["grammar", "limits", "models", "tools"]),
    ("protolink", &["agent", "grammar", "live", "models", "run"]),
    ("actors", &["agent", "error", "files", "limits", "live", "models", "run", "tools"]),
    (
        "system",
        &["actors", "agent", "error", "files", "limits", "live", "models", "protolink", "run", "tools"],
    ),
    ("prelude", &["error", "system", "tools"]),
    // For tests of those who embed the library, and for our own fixture tests.
    ("testing", &["actors", "agent", "error", "limits", "models", "system", "tools"]),
    ("fidelity", &["grammar", "models", "python", "run", "tools"]),
];

/// The rooms of `taskreel-http`.
const FACES: Floors = &[
    ("limits", &[]),
    ("handler", &["limits"]),
    ("error", &["handler"]),
    ("auth", &["error", "handler", "limits"]),
    ("registry", &["auth", "error", "handler", "limits"]),
    ("client", &["limits", "registry"]),
    ("protolink", &["auth", "client", "error", "handler", "limits"]),
    ("a2a", &["auth", "client", "error", "handler", "limits"]),
    ("api", &["auth", "error", "handler", "limits"]),
    ("ops", &["auth", "client", "error", "handler", "limits"]),
    ("inspect", &["api", "auth", "error", "handler", "limits"]),
    ("tls", &[]),
    ("serve", &["api", "auth", "error", "handler", "limits", "ops", "protolink", "registry"]),
];

/// The rooms of `taskreel-cli`.
const COMMAND_LINE: Floors = &[
    ("print", &[]),
    ("tools", &[]),
    ("args", &["print"]),
    ("dirs", &["args", "print"]),
    ("server", &["args", "print"]),
    ("logs", &["args", "print"]),
    ("signals", &["print"]),
    ("demo", &["args", "dirs", "print", "signals", "tools"]),
    ("run", &["args", "dirs", "print", "signals", "tools"]),
    ("serve", &["args", "dirs", "print", "run", "signals", "tools"]),
    ("look", &["args", "dirs", "print", "server"]),
    ("opened_log", &["args", "dirs", "print", "server"]),
    ("watch", &["args", "dirs", "opened_log"]),
    ("decide", &["args", "dirs", "print", "signals", "server"]),
    ("inspector", &["args", "decide", "dirs", "opened_log", "print", "signals", "server", "watch"]),
    ("tui", &["args", "decide", "dirs", "opened_log", "print", "signals", "watch"]),
    ("doctor", &["args", "dirs", "print"]),
    ("import", &["args", "dirs", "print", "signals"]),
    ("salvage", &["args", "print", "signals"]),
    ("about", &["args", "dirs", "print"]),
    ("a2a", &["args", "dirs", "print", "signals"]),
];

/// Crates that stay inside, and the only places that may name them.
const HIDDEN: &[(&str, &[&str])] = &[
    ("actix", &["src/actors", "src/system"]),
    ("actix_rt", &["src/actors", "src/system"]),
    ("sled", &["crates/log/src/sled"]),
    (
        "reqwest",
        &[
            "crates/http/src/auth/jwks_fetch.rs",
            "crates/http/src/a2a/client/token.rs",
            "crates/http/src/a2a/push",
            "crates/http/src/api/client",
            "crates/http/src/client",
            "src/files/http",
            "src/http_client.rs",
            "src/models/providers",
            "src/tools/mcp",
        ],
    ),
    ("a2a_pb", &["crates/http/src/a2a/grpc"]),
    ("tonic", &["crates/http/src/a2a/grpc"]),
    ("prost", &["crates/http/src/a2a/grpc"]),
    ("prost_types", &["crates/http/src/a2a/grpc"]),
    ("flate2", &["src/files/http"]),
    ("jsonschema", &["src/models/output_schema"]),
    ("rmcp", &["src/tools/mcp"]),
    ("opentelemetry", &["src/otel.rs"]),
    ("bincode", &["proto-events/src/codec/payload.rs"]),
    ("ratatui", &["crates/cli/src/tui"]),
    ("rusqlite", &["crates/cli/src/import"]),
    ("clap", &["crates/cli/src"]),
    ("clap_complete", &["crates/cli/src/about"]),
    ("clap_mangen", &["crates/cli/src/about"]),
];

fn workspace() -> BTreeMap<String, Crate> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    CRATES.iter().map(|(name, folder, _)| ((*name).to_owned(), read(root, folder))).collect()
}

#[test]
fn imports_go_downward_only() {
    let workspace = workspace();
    let mut seen = 0;
    for (name, _, floors) in CRATES {
        for (from, to, items) in imports(&workspace, name) {
            let (Some(room), Some(used)) = (from.first(), to.first()) else { continue };
            if room == "scenario" || room == used {
                continue;
            }
            seen += 1;
            let Some((_, below)) = floors.iter().find(|(floor, _)| floor == room) else {
                panic!("{name}::{room} stands on no floor; give it one in this table");
            };
            assert!(
                below.contains(&used.as_str()),
                "{name}: {} imports {items:?} from {}, which is not below {room}",
                from.join("::"),
                to.join("::"),
            );
        }
    }
    assert!(seen > 300, "only {seen} imports between rooms were found");
}

#[test]
fn no_two_files_import_each_other_in_a_circle() {
    let workspace = workspace();
    for (name, ..) in CRATES {
        let edges = imports(&workspace, name).into_iter().map(|(from, to, _)| (from, to)).collect();
        assert_eq!(circles(&edges), Vec::<BTreeSet<Vec<String>>>::new(), "circles between files of {name}");
    }
}

#[test]
fn no_two_folders_import_each_other_in_a_circle() {
    let workspace = workspace();
    for (name, ..) in CRATES {
        // For each folder: its direct children, a file `a.rs` and its folder `a/` being one.
        let mut folders: BTreeMap<Vec<String>, Edges> = BTreeMap::new();
        for (from, to, _) in imports(&workspace, name) {
            let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
            if let (Some(a), Some(b)) = (from.get(..=shared), to.get(..=shared)) {
                folders.entry(from[..shared].to_vec()).or_default().insert((a.to_vec(), b.to_vec()));
            }
        }
        for (folder, edges) in folders {
            let found = circles(&edges);
            assert!(found.is_empty(), "a circle inside {name}::{}: {found:?}", folder.join("::"));
        }
    }
}

#[test]
fn a_circle_and_a_re_export_are_noticed() {
    let files = [
        (vec![], "mod a; mod b; pub use b::Second;"),
        (vec!["a"], "use crate::Second; pub struct First(Second);"),
        (vec!["b"], "use crate::a::First; pub struct Second(Box<First>);"),
    ];
    let workspace = BTreeMap::from([("one".to_owned(), Crate::of_texts(&files))]);
    let edges = imports(&workspace, "one").into_iter().map(|(from, to, _)| (from, to)).collect();
    assert_eq!(circles(&edges).len(), 1, "{edges:?}");
}

#[test]
fn hidden_crates_are_named_in_their_own_rooms_only() {
    let workspace = workspace();
    for (hidden, places) in HIDDEN {
        let named: Vec<&str> = workspace.values().flat_map(|krate| krate.files_that_name(hidden)).collect();
        assert!(!named.is_empty(), "{hidden} is named nowhere; is the rule still needed?");
        for file in named {
            assert!(
                places.iter().any(|place| file.starts_with(place)),
                "{file} names {hidden}, which only {places:?} may"
            );
        }
    }
}

#[test]
fn files_are_short_and_of_one_module_style() {
    for krate in workspace().values() {
        for (file, lines) in krate.lengths() {
            assert!(lines <= 600, "{file} has {lines} lines; split what does not belong together");
            assert!(!file.ends_with("/mod.rs"), "{file}: a module with children is `name.rs` beside `name/`");
        }
    }
}
