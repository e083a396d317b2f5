//! The areas of views and minimized forms.

use proto_events::json::JsonValue as Value;
use taskreel_log::artifacts::{
    ArtifactSettings, CharacterLimit, ColumnSelection, DataArtifacts, DataSelection, MinimizeLimits,
    RowSelection, TextArtifacts, TextSelection,
};

use super::{Case, Failure, within_caps};

fn limit(case: &Case) -> Result<CharacterLimit, Failure> {
    Ok(CharacterLimit::new(case.characters("character_limit", 50_000)?)?)
}

pub(crate) fn text_view(case: &Case) -> Result<Value, Failure> {
    let selection = TextSelection {
        line_start: case.integer("line_start")?,
        line_end: case.integer("line_end")?,
        character_start: case.integer("character_start")?,
        character_end: case.integer("character_end")?,
    };
    Ok(TextArtifacts::view(case.text("text")?, &selection, limit(case)?)?.into())
}

pub(crate) fn text_minimize(case: &Case) -> Result<Value, Failure> {
    let text = case.text("text")?;
    let minimized = TextArtifacts::minimize(text, limit(case)?, case.input()["tip"].as_str());
    Ok(minimized.to_json())
}

pub(crate) fn data_view(case: &Case) -> Result<Value, Failure> {
    let given = |key: &str| case.input().get(key).filter(|value| !value.is_null());
    let selection = DataSelection {
        json_path: given("json_path").and_then(Value::as_str).map(str::to_owned),
        rows: given("rows").map(RowSelection::from_json),
        columns: given("columns").map(ColumnSelection::from_json),
    };
    Ok(DataArtifacts::view(&case.input()["data"], &selection, limit(case)?)?.into_owned())
}

pub(crate) fn data_minimize(case: &Case) -> Result<Value, Failure> {
    let options = MinimizeLimits::new(&ArtifactSettings::default())
        .limit(limit(case)?)
        .string_length(case.characters("minimized_object_string_length", 5_000)?)
        .tip(case.input()["tip"].as_str());
    let data = &case.input()["data"];
    let minimized = DataArtifacts::minimize(data, &options);
    Ok(within_caps(&case.whole["expected"], minimized.to_json()))
}

fn list<'a>(case: &'a Case, keys: &[&str]) -> Result<&'a [Value], Failure> {
    let list = keys.iter().find_map(|key| case.input()[*key].as_array());
    list.map(Vec::as_slice).ok_or_else(|| Failure::Unanswerable(format!("the input has no list in {keys:?}")))
}

pub(crate) fn summarize_values(case: &Case) -> Result<Value, Failure> {
    Ok(DataArtifacts::summarize_values(list(case, &["values", "data"])?))
}

pub(crate) fn summarize_table(case: &Case) -> Result<Value, Failure> {
    Ok(DataArtifacts::summarize_table(list(case, &["data", "rows"])?))
}
