//! The native tool calls of an answer, put together from a document or from the pieces of a stream.

use std::collections::HashMap;

use proto_events::json::JsonValue as Value;

use crate::limits::NATIVE_CALLS_MAX;
use crate::models::backend::{InferError, InferErrorKind};

/// The native calls that have arrived so far, in the order in which they began.
#[derive(Debug, Default)]
pub(crate) struct NativeCalls {
    calls: Vec<NativeCall>,
    /// The place of the newest call of an index.
    newest: HashMap<u64, usize>,
    /// The place of the call of an index and an id.
    by_id: HashMap<(u64, String), usize>,
    bytes: usize,
}

/// A native tool call, as far as it has arrived.
#[derive(Debug, Default)]
pub(crate) struct NativeCall {
    id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
}

impl NativeCalls {
    /// Returns the calls.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &NativeCall> {
        self.calls.iter()
    }

    /// Returns the number of bytes kept.
    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    /// Adds an entry of a list of calls: a whole call, or a piece of one.
    ///
    /// # Errors
    /// [`InferErrorKind::Malformed`] for more calls than any reply is read with.
    pub(crate) fn take(&mut self, entry: &Value) -> Result<(), InferError> {
        let Some(function) = entry.get("function") else { return Ok(()) };
        let id = entry.get("id").and_then(Value::as_str).unwrap_or_default();
        self.add(entry.get("index").and_then(Value::as_u64), id, function)
    }

    /// Adds a piece of the call of this index and id, which a server may leave out.
    pub(crate) fn add(&mut self, index: Option<u64>, id: &str, function: &Value) -> Result<(), InferError> {
        let name = function.get("name").and_then(Value::as_str).unwrap_or_default();
        let at = match self.place(index, id, name) {
            Some(at) => at,
            None => self.begin(index)?,
        };
        let Some(call) = self.calls.get_mut(at) else { return Ok(()) };
        let before = call.name.len() + call.arguments.len();
        if call.name.is_empty() {
            name.clone_into(&mut call.name);
        }
        if call.id.is_empty() && !id.is_empty() {
            id.clone_into(&mut call.id);
            index.map(|index| self.by_id.insert((index, id.to_owned()), at));
        }
        match function.get("arguments") {
            Some(Value::String(piece)) => call.arguments.push_str(piece),
            None | Some(Value::Null) => {}
            // Some servers send the object itself instead of its text.
            Some(object) => call.arguments.push_str(&object.to_string()),
        }
        self.bytes += call.name.len() + call.arguments.len() - before;
        Ok(())
    }

    /// Returns the place of the call that a piece continues; `None` if it begins one.
    fn place(&self, index: Option<u64>, id: &str, name: &str) -> Option<usize> {
        let Some(index) = index else {
            // A server without indices: an entry with a tool's name begins a call, one without continues the last.
            return if name.is_empty() { self.calls.len().checked_sub(1) } else { None };
        };
        if let Some(at) = self.by_id.get(&(index, id.to_owned())) {
            return Some(*at);
        }
        let at = *self.newest.get(&index)?;
        let call = self.calls.get(at)?;
        // Some servers give all calls one index: another id, or where there is none another name, begins a call.
        let is_other = |known: &str, new: &str| !known.is_empty() && !new.is_empty() && known != new;
        (!is_other(&call.id, id) && !is_other(&call.name, name)).then_some(at)
    }

    fn begin(&mut self, index: Option<u64>) -> Result<usize, InferError> {
        let at = self.calls.len();
        if at >= NATIVE_CALLS_MAX {
            let why = format!("the model asked for more than {NATIVE_CALLS_MAX} tool calls in one reply");
            return Err(InferError::new(InferErrorKind::Malformed, "TooManyCalls", why));
        }
        index.map(|index| self.newest.insert(index, at));
        self.calls.push(NativeCall::default());
        self.bytes += 1;
        Ok(at)
    }
}

#[cfg(test)]
mod tests {
    use proto_events::json;

    use super::*;

    fn read(entries: impl IntoIterator<Item = Value>) -> Result<Vec<(String, String)>, InferError> {
        let mut calls = NativeCalls::default();
        entries.into_iter().try_for_each(|entry| calls.take(&entry))?;
        let bytes: usize = calls.iter().map(|call| call.name.len() + call.arguments.len() + 1).sum();
        assert_eq!(calls.len(), bytes);
        Ok(calls.iter().map(|call| (call.name.clone(), call.arguments.clone())).collect())
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
}
