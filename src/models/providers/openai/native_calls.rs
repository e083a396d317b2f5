//! The native tool calls of an answer, put together from a document or from the pieces of a stream.

use std::collections::HashMap;

use proto_events::json::{JsonMap, JsonObject, JsonText, JsonValue as Value};

use crate::lenient_json::{joined, repaired_piece};
use crate::limits::NATIVE_CALLS_MAX;
use crate::models::backend::{InferError, InferErrorKind};

/// The members of an entry that are read; all others are the provider's own and are sent back with the call.
const OWN_MEMBERS: [&str; 4] = ["id", "type", "function", "index"];

/// The native calls that have arrived so far, in the order in which they began.
#[derive(Debug, Default)]
pub(crate) struct NativeCalls {
    calls: Vec<PartialCall>,
    /// The place of the newest call of a choice and an index.
    newest: HashMap<(u64, u64), usize>,
    /// The place of the call of a choice, an index, if there is one, and an id.
    by_id: HashMap<(u64, Option<u64>, String), usize>,
    bytes: usize,
}

/// A native tool call, as far as it has arrived.
#[derive(Debug, Default, Clone)]
pub(crate) struct PartialCall {
    /// The choice in which it stands.
    choice: u64,
    id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
    /// The members that the provider attached to the call.
    pub(crate) provider: JsonObject,
}

/// The place of an entry in an answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EntryPlace {
    pub(crate) choice: u64,
    pub(crate) index: Option<u64>,
}

impl NativeCalls {
    /// Returns the calls so far.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &PartialCall> {
        self.calls.iter()
    }

    /// Returns the calls of a whole answer. Arguments that are several objects, one behind the other, are as many calls: some
    /// servers give all calls one index.
    pub(crate) fn completed(&self) -> Vec<PartialCall> {
        let mut all = Vec::with_capacity(self.calls.len());
        for call in &self.calls {
            let arguments = joined(&call.arguments);
            let objects = objects_of(&arguments);
            if objects.len() < 2 || all.len() + objects.len() > NATIVE_CALLS_MAX {
                all.push(PartialCall { arguments, ..call.clone() });
                continue;
            }
            let split = objects
                .into_iter()
                .map(|object| PartialCall { arguments: object.to_owned(), ..call.clone() });
            all.extend(split);
        }
        all
    }

    /// Returns the number of bytes kept.
    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    /// Adds an entry of a choice's list of calls: a whole call, or a piece of one.
    ///
    /// # Errors
    /// [`InferErrorKind::Malformed`] for more calls than any reply is read with.
    pub(crate) fn accept_entry(&mut self, choice: u64, entry: &Value) -> Result<(), InferError> {
        let Some(function) = entry.get("function") else { return Ok(()) };
        let id = entry.get("id").and_then(Value::as_str).unwrap_or_default();
        let place = EntryPlace { choice, index: entry.get("index").and_then(Value::as_u64) };
        let Some(at) = self.add(place, id, function)? else { return Ok(()) };
        let Some(call) = self.calls.get_mut(at) else { return Ok(()) };
        let attached = entry.as_object().into_iter().flat_map(JsonMap::iter);
        for (name, value) in
            attached.filter(|(name, value)| !OWN_MEMBERS.contains(&name.as_str()) && !value.is_null())
        {
            let text = JsonText::from(value.clone());
            self.bytes += name.len() + text.as_str().len();
            call.provider.set(name.as_str(), text);
        }
        Ok(())
    }

    /// Adds a piece of the call of this place and id, which a server may leave out. Returns where the call stands; `None` if it
    /// repeats a call of another choice.
    pub(crate) fn add(
        &mut self,
        place: EntryPlace,
        id: &str,
        function: &Value,
    ) -> Result<Option<usize>, InferError> {
        let is_elsewhere =
            |call: &PartialCall| !id.is_empty() && call.choice != place.choice && call.id == id;
        if self.calls.iter().any(is_elsewhere) {
            return Ok(None);
        }
        let name = function.get("name").and_then(Value::as_str).unwrap_or_default();
        let at = match self.find_entry(place, id, name) {
            Some(at) => at,
            None => self.insert_entry(place)?,
        };
        let Some(call) = self.calls.get_mut(at) else { return Ok(None) };
        let before = call.name.len() + call.arguments.len();
        if call.name.is_empty() {
            name.clone_into(&mut call.name);
        }
        if call.id.is_empty() && !id.is_empty() {
            id.clone_into(&mut call.id);
            self.by_id.insert((place.choice, place.index, id.to_owned()), at);
        }
        match function.get("arguments") {
            Some(Value::String(piece)) => call.arguments.push_str(piece),
            None | Some(Value::Null) => {}
            // Some servers send the object itself instead of its text.
            Some(object) => call.arguments.push_str(&object.to_string()),
        }
        self.bytes += call.name.len() + call.arguments.len() - before;
        Ok(Some(at))
    }

    /// Returns the place of the call that a piece continues; `None` if it begins one. An id decides where there is one.
    fn find_entry(&self, place: EntryPlace, id: &str, name: &str) -> Option<usize> {
        let EntryPlace { choice, index } = place;
        if let Some(at) = self.by_id.get(&(choice, index, id.to_owned())) {
            return Some(*at);
        }
        let Some(index) = index else {
            let at = self.calls.len().checked_sub(1)?;
            let last = self.calls.get(at).filter(|last| last.choice == choice)?;
            // Without an index and an id a tool's name begins a call, unless the arguments of the same tool are not whole yet.
            let goes_on = name.is_empty() || (last.name == name && !is_whole(&last.arguments));
            return (id.is_empty() && goes_on).then_some(at);
        };
        let at = *self.newest.get(&(choice, index))?;
        let call = self.calls.get(at)?;
        // Some servers give all calls one index: another id, or without ids another name, begins a call.
        let is_other = |known: &str, new: &str| !known.is_empty() && !new.is_empty() && known != new;
        (!is_other(&call.id, id) && !is_other(&call.name, name)).then_some(at)
    }

    fn insert_entry(&mut self, place: EntryPlace) -> Result<usize, InferError> {
        let at = self.calls.len();
        if at >= NATIVE_CALLS_MAX {
            let why = format!("the model asked for more than {NATIVE_CALLS_MAX} tool calls in one reply");
            return Err(InferError::new(InferErrorKind::Malformed, "TooManyCalls", why));
        }
        place.index.map(|index| self.newest.insert((place.choice, index), at));
        self.calls.push(PartialCall { choice: place.choice, ..PartialCall::default() });
        self.bytes += 1;
        Ok(at)
    }
}

/// Whether a text is JSON that is whole, or nothing yet that could be continued.
fn is_whole(arguments: &str) -> bool {
    arguments.trim().is_empty() || JsonText::parse(&repaired_piece(arguments)).is_ok()
}

/// Returns the objects of a text that consists of objects alone; nothing for any other text.
fn objects_of(text: &str) -> Vec<&str> {
    let (mut objects, mut from, mut depth) = (Vec::new(), 0, 0_usize);
    let (mut is_inside, mut is_escaped) = (false, false);
    for (at, char) in text.char_indices() {
        match char {
            _ if is_escaped => is_escaped = false,
            '\\' if is_inside => is_escaped = true,
            '"' => is_inside = !is_inside,
            _ if is_inside => {}
            '{' => depth += 1,
            '}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    objects.extend(text.get(from..=at).map(str::trim));
                    from = at + 1;
                }
            }
            _ => {}
        }
    }
    let is_rest_empty = text.get(from..).is_none_or(|rest| rest.trim().is_empty());
    let are_objects = objects.iter().all(|object| object.starts_with('{') && JsonText::parse(object).is_ok());
    if is_rest_empty && are_objects { objects } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use proto_events::json;

    use super::*;

    fn read(entries: impl IntoIterator<Item = Value>) -> Result<Vec<(String, String)>, InferError> {
        let mut calls = NativeCalls::default();
        entries.into_iter().try_for_each(|entry| calls.accept_entry(0, &entry))?;
        let bytes: usize = calls.iter().map(|call| call.name.len() + call.arguments.len() + 1).sum();
        assert_eq!(calls.len(), bytes);
        Ok(calls.completed().into_iter().map(|call| (call.name, call.arguments)).collect())
    }

    fn piece(index: u64, id: &str, name: &str, arguments: &str) -> Value {
        json!({"index": index, "id": id, "function": json!({"name": name, "arguments": arguments})})
    }

    fn calls(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(name, arguments)| ((*name).to_owned(), (*arguments).to_owned())).collect()
    }

    #[test]
    fn calls_that_share_an_index_are_told_apart_by_their_ids_or_names() {
        let path = r#"{"path":"/x"}"#;
        let both = calls(&[("list", "{}"), ("delete", path)]);
        let by_id = [piece(0, "a", "list", "{}"), piece(0, "b", "delete", path)];
        assert_eq!(read(by_id).unwrap(), both);
        let by_name = [piece(0, "", "list", "{}"), piece(0, "", "delete", path)];
        assert_eq!(read(by_name).unwrap(), both);
        let same_name = [piece(0, "a", "list", "{}"), piece(0, "b", "list", path)];
        assert_eq!(read(same_name).unwrap(), calls(&[("list", "{}"), ("list", path)]));
        // The pieces of two calls may alternate where they have ids.
        let (left, right) = path.split_at(4);
        let mixed = [
            piece(0, "a", "list", ""),
            piece(0, "b", "delete", left),
            piece(0, "a", "", "{}"),
            piece(0, "b", "", right),
        ];
        assert_eq!(read(mixed).unwrap(), both);
    }

    #[test]
    fn a_server_that_repeats_id_and_name_in_each_piece_asks_for_one_call() {
        let pieces = ["{\"n\"", ":", "1}"].map(|text| piece(0, "a", "add", text));
        assert_eq!(read(pieces).unwrap(), calls(&[("add", r#"{"n":1}"#)]));
        let late_id = [piece(0, "", "add", "{"), piece(0, "a", "", "}"), piece(0, "", "", " ")];
        assert_eq!(read(late_id).unwrap(), calls(&[("add", "{} ")]));
    }

    #[test]
    fn a_reply_of_270_000_calls_is_refused_at_the_limit() {
        let entry = |n: u64| json!({"index": n, "function": json!({})});
        let refused = read((0..270_000).map(entry)).unwrap_err();
        assert_eq!((refused.type_name.as_str(), refused.kind), ("TooManyCalls", InferErrorKind::Malformed));
        assert_eq!(read((0..1_024).map(entry)).unwrap().len(), 1_024);
    }

    #[test]
    fn whole_objects_under_one_index_or_id_are_calls_of_their_own_however_they_are_cut() {
        let text = r#"{"city":"Oslo \"}{\""}{"city":"Rome"}"#;
        let both = calls(&[("w", r#"{"city":"Oslo \"}{\""}"#), ("w", r#"{"city":"Rome"}"#)]);
        for cut in 0..=text.len() {
            let (left, right) = text.split_at(cut);
            for id in ["", "a"] {
                assert_eq!(read([piece(0, id, "w", left), piece(0, id, "", right)]).unwrap(), both, "{cut}");
            }
        }
        for odd in [r#"{"a":1}{"b":"#, r#"{"a":1} x {"b":1}"#, "{}}{", "[1][2]"] {
            assert_eq!(read([piece(0, "", "w", odd)]).unwrap(), calls(&[("w", odd)]), "{odd}");
        }
    }

    #[test]
    fn without_an_index_ids_decide_and_a_repeated_name_continues_a_call_that_is_not_whole() {
        let entry = |id: &str, name: &str, arguments: &str| json!({"id": id, "function": json!({"name": name, "arguments": arguments})});
        let one = calls(&[("w", r#"{"city":"Oslo"}"#)]);
        for id in ["", "a"] {
            let pieces = [entry(id, "w", r#"{"city":"#), entry(id, "w", r#""Oslo"}"#)];
            assert_eq!(read(pieces).unwrap(), one);
        }
        let mixed = [
            entry("a", "w", r#"{"city":"#),
            entry("b", "w", r#"{"city":"#),
            entry("a", "", r#""Oslo"}"#),
            entry("b", "", r#""Rome"}"#),
        ];
        let both = calls(&[("w", r#"{"city":"Oslo"}"#), ("w", r#"{"city":"Rome"}"#)]);
        assert_eq!(read(mixed).unwrap(), both);
    }

    #[test]
    fn what_a_provider_attaches_to_a_call_is_kept() {
        let mut all = NativeCalls::default();
        let signed = json!({"index": 0, "id": "a", "type": "function", "extra_content": json!({"google": 1}),
            "function": json!({"name": "w", "arguments": "{}"})});
        all.accept_entry(0, &signed).unwrap();
        all.accept_entry(0, &json!({"index": 0, "function": json!({"arguments": ""}), "note": Value::Null}))
            .unwrap();
        let call = all.completed().remove(0);
        assert_eq!(call.provider.to_text().as_str(), r#"{"extra_content":{"google":1}}"#);
        // The same call in another choice is one call.
        all.accept_entry(1, &signed).unwrap();
        assert_eq!(all.completed().len(), 1);
    }
}
