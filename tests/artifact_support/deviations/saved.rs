//! Names of saved files: what they become in our store, worked out from the operations and from what is said of the rule.

use std::collections::BTreeMap;

use proto_events::id::Digest;
use proto_events::json;
use proto_events::json::JsonValue as Value;
use taskreel::files::decode_base64;

use crate::fixtures_support::stores::encoded;

/// The bytes of a name that is not shortened.
const NAME_BYTES_MAX: usize = 200;

/// The files of a store: folders by path, in each the contents by name.
type Folders = BTreeMap<String, BTreeMap<String, Vec<u8>>>;

/// A recording as our store answers it.
#[derive(Default)]
struct Ours {
    folders: Folders,
    results: Vec<Value>,
    /// Whether a name was taken by another content, or had characters that ours leaves out.
    differs: bool,
}

/// Returns the last component of a name as both stores clean it, or `None` if a name that ours shortens decides.
fn cleaned(given: &str, index: usize) -> Option<(String, bool)> {
    let last = given.split('/').rfind(|part| !matches!(*part, "" | ".")).unwrap_or_default();
    let shown: String = last.chars().filter(|char| !char.is_control()).collect();
    let has_hidden = shown != last;
    let name = shown.replace("..", "");
    let name = name.trim_start_matches('.');
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    Some((if name.is_empty() { format!("file_{index}") } else { name.to_owned() }, has_hidden))
}

fn distinguished(name: &str, content: &[u8]) -> String {
    let digest: String = Digest::compute(content).to_string().chars().take(16).collect();
    match name.rsplit_once('.') {
        Some((stem, ending)) if !stem.is_empty() => format!("{stem}-{digest}.{ending}"),
        _ => format!("{name}-{digest}"),
    }
}

impl Ours {
    /// Saves the files of an operation, up to the first that cannot be read. Returns their paths.
    fn save(&mut self, folder: &str, parts: &Value, remote: &Value) -> Option<Vec<String>> {
        let mut paths = Vec::new();
        for (index, part) in parts.as_array().into_iter().flatten().enumerate() {
            let file = &part["file"];
            let bytes = match (file["bytes"].as_str(), file["uri"].as_str()) {
                (Some(bytes), _) => bytes,
                (None, Some(uri)) => remote.get(uri).and_then(Value::as_str).unwrap_or("!"),
                (None, None) => continue,
            };
            let Ok(content) = decode_base64(bytes) else { break };
            let (name, has_hidden) = cleaned(file["name"].as_str().unwrap_or_default(), index)?;
            let names = self.folders.entry(folder.to_owned()).or_default();
            let is_taken = names.get(&name).is_some_and(|known| *known != content);
            self.differs |= has_hidden || is_taken;
            let name = if is_taken { distinguished(&name, &content) } else { name };
            paths.push(format!("$ROOT/{folder}/{name}"));
            names.insert(name, content);
        }
        Some(paths)
    }

    fn list(&self, folder: &str) -> Vec<String> {
        let names = self.folders.get(folder).into_iter().flatten();
        names.map(|(name, _)| format!("$ROOT/{folder}/{name}")).collect()
    }
}

/// Returns a recording as our store answers it; `None` where a part of it is left to another rule.
fn ours(case: &Value) -> Option<Ours> {
    let mut ours = Ours::default();
    let is_old = case["version"] == "0.2.0";
    let (input, results) = (&case["input"], case["expected"]["results"].as_array()?);
    for (operation, result) in input["ops"].as_array()?.iter().zip(results) {
        let text = |at: usize| operation[at].as_str().unwrap_or_default();
        let artifact = |id: &str| {
            if is_old { format!("{}/{id}", text(1)) } else { format!("artifacts/{}/{id}", text(1)) }
        };
        let message = |id: &str| format!("messages/{id}");
        let says = result["error"]["message"].as_str().unwrap_or_default();
        let is_refused = says.starts_with("Invalid") && !says.starts_with("Invalid remote");
        let is_done = result.get("ok").is_some();
        let paths = match text(0) {
            _ if is_refused => None,
            "save_artifact" => {
                let folder = artifact(operation[2]["artifactId"].as_str().unwrap_or_default());
                Some(ours.save(&folder, &operation[2]["parts"], &input["remote"])?)
            }
            "save_message" => {
                let folder = message(operation[1]["messageId"].as_str().unwrap_or_default());
                Some(ours.save(&folder, &operation[1]["parts"], &input["remote"])?)
            }
            "get_artifact" => Some(ours.list(&artifact(text(2)))),
            "get_message" => Some(ours.list(&message(text(1)))),
            "delete_artifact" => {
                ours.folders.remove(&artifact(text(2)));
                None
            }
            "delete_message" => {
                ours.folders.remove(&message(text(1)));
                None
            }
            _ => return None,
        };
        ours.results.push(match paths {
            Some(paths) if is_done => json!({"ok": paths}),
            _ => result.clone(),
        });
    }
    Some(ours)
}

pub(super) fn is_taken(case: &Value) -> bool {
    ours(case).is_some_and(|ours| ours.differs)
}

pub(super) fn name_by_digest(case: &mut Value) {
    let Some(ours) = ours(case) else { return };
    let mut files = json!({});
    for (folder, names) in &ours.folders {
        for (name, content) in names {
            files[format!("{folder}/{name}").as_str()] = encoded(content).into();
        }
    }
    case["expected"]["results"] = Value::from(ours.results);
    case["expected"]["files_base64"] = files;
}

pub(super) fn taken_example() -> (Value, Value) {
    let file = |name: &str, bytes: &str| json!({"kind": "file", "file": {"bytes": bytes, "name": name}});
    let artifact = |file: Value| json!({"artifactId": "a", "parts": [file]});
    let ops = json!([
        ["save_artifact", "t", artifact(file("x.txt", "YQ=="))],
        ["save_artifact", "t", artifact(file("x.txt", "Yg=="))],
        ["save_artifact", "t", artifact(file("x\t.txt", "YQ=="))],
        ["get_artifact", "t", "a"]
    ]);
    let case = |results: Value, files: Value| {
        json!({
            "version": "0.7.3",
            "input": {"ops": ops},
            "expected": {"results": results, "files_base64": files},
        })
    };
    let path = |name: &str| format!("$ROOT/artifacts/t/a/{name}");
    let (one, other, hidden) = (path("x.txt"), path("x-3e23e8160039594a.txt"), path("x\t.txt"));
    (
        case(
            json!([{"ok": [one]}, {"ok": [one]}, {"ok": [hidden]}, {"ok": [hidden, one]}]),
            json!({"artifacts/t/a/x.txt": "Yg==", "artifacts/t/a/x\t.txt": "YQ=="}),
        ),
        case(
            json!([{"ok": [one]}, {"ok": [other]}, {"ok": [one]}, {"ok": [other, one]}]),
            json!({"artifacts/t/a/x.txt": "YQ==", "artifacts/t/a/x-3e23e8160039594a.txt": "Yg=="}),
        ),
    )
}
