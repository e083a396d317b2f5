//! A recorded case, how an area answers it, and how the files that hold cases are read.

use std::path::Path;

use proto_events::json::JsonValue as Value;
use proto_events::model::ModelError;

/// A function that answers a case with the value to compare with `expected`, or with a failure.
pub(crate) type Area = fn(&Case) -> Result<Value, Failure>;

/// The reason why a case has no result.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The code under test refuses the input, with this text; compared with the recorded error.
    Refused(String),
    /// The case needs this part, which is not built yet.
    #[allow(dead_code, reason = "an area that is being built says so case by case")]
    NotBuilt(&'static str),
    /// The area's runner cannot do what the case asks for; the case fails.
    Unanswerable(String),
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Self {
        Self::Refused(error.to_string())
    }
}

/// A recorded case.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    /// The case as written in the file.
    pub(crate) whole: Value,
}

impl Case {
    /// Returns the case's name.
    pub(crate) fn name(&self) -> &str {
        self.whole["name"].as_str().unwrap_or("(no name)")
    }

    /// Returns the case's input.
    pub(crate) fn input(&self) -> &Value {
        &self.whole["input"]
    }

    /// Returns a text of the input.
    pub(crate) fn text(&self, key: &str) -> Result<&str, Failure> {
        self.input()[key].as_str().ok_or_else(|| Failure::Unanswerable(format!("input.{key} is no string")))
    }
}

/// Loads the cases of every area whose file stands in a folder, by the names in the files.
///
/// # Errors
/// A text that names the folder or file that cannot be read.
pub(crate) fn load(folder: &Path) -> Result<Vec<(String, Vec<Case>)>, String> {
    let listed = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths: Vec<_> = listed
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    paths.sort();
    let file =
        |path: &std::path::PathBuf| load_file(path).map_err(|why| format!("{}: {why}", path.display()));
    paths.iter().map(file).collect()
}

fn load_file(path: &Path) -> Result<(String, Vec<Case>), String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let file: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let area = file["area"].as_str().ok_or("the file names no area")?;
    let cases = file["cases"].as_array().ok_or("the file holds no cases")?;
    let cases = cases.iter().map(|whole| Case { whole: whole.clone() });
    Ok((area.to_owned(), cases.collect()))
}
