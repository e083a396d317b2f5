//! `config show`: each setting with its value and its source.

use proto_events::json::{JsonObject, JsonText};

use crate::a2a::failure::Failure;
use crate::a2a::out::Out;
use crate::a2a::settings::Settings;

/// The mark in the place of a credential.
const HIDDEN: &str = "[redacted]";

/// Prints the settings.
///
/// # Errors
/// [`Failure`] if they cannot be written.
pub(crate) fn show(settings: &Settings, out: &mut Out) -> Result<(), Failure> {
    let mut all = Vec::new();
    for (name, setting) in settings.all() {
        let value = setting.value.as_deref().map(|value| if setting.is_secret { HIDDEN } else { value });
        let source = setting.source.to_string();
        if out.json {
            let mut one = JsonObject::new();
            one.set("name", JsonText::string(name));
            one.set("value", value.map_or_else(JsonText::null, JsonText::string));
            one.set("source", JsonText::string(&source));
            all.push(one.to_text());
        } else {
            let value = value.map_or_else(|| "(none)".to_owned(), |value| value.replace('\n', ", "));
            out.field(name, &format!("{value}   (from: {source})"))?;
        }
    }
    if out.json {
        let mut whole = JsonObject::new();
        whole.set("schema", JsonText::string("taskreel.a2a-config/1"));
        whole.set("settings", JsonText::of_model(&all));
        out.value(&whole.to_text())?;
    }
    Ok(out.flush()?)
}
