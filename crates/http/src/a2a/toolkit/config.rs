//! The list of agents as JSON: an object with an object for each agent, with the names of a2a-utils for Python
//! (`custom_headers`) or for TypeScript (`customHeaders`).

use std::path::Path;

use proto_events::json::JsonValue as Value;
use proto_events::model::python_json::type_name;

use crate::a2a::toolkit::error::AgentsError;
use crate::a2a::toolkit::way::AgentAt;

/// The most bytes of a file of agents.
const FILE_MAX: u64 = 16 * 1024 * 1024;

/// An agent as the list has it: its id, and its address or what is wrong with it.
pub(crate) type Listed = (String, Result<AgentAt, String>);

/// Reads a list. An agent that is written wrongly is kept with the fault, and does not stop the others.
///
/// # Errors
/// [`AgentsError::Json`] if it is not an object.
pub(crate) fn read(list: &Value) -> Result<Vec<Listed>, AgentsError> {
    if list.is_null() {
        return Ok(Vec::new());
    }
    let wrong = || AgentsError::Json(format!("it is a {}, not an object", type_name(list)));
    let agents = list.as_object().ok_or_else(wrong)?;
    Ok(agents.iter().map(|(id, agent)| (id.clone(), agent_at(agent))).collect())
}

/// Reads a list from a file.
///
/// # Errors
/// [`AgentsError`].
pub(crate) fn read_file(path: &Path) -> Result<Vec<Listed>, AgentsError> {
    let unread = |why: &dyn std::fmt::Display| AgentsError::File(format!("{}: {why}", path.display()));
    let size = std::fs::metadata(path).map_err(|error| unread(&error))?.len();
    if size > FILE_MAX {
        return Err(unread(&format!("it has {size} bytes; at most {FILE_MAX} are read")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| unread(&error))?;
    // Python's list is null where it is absent; a file holds one.
    match Value::parse(&text) {
        Ok(list) => read(&list),
        Err(error) => Err(AgentsError::Json(error.to_string())),
    }
}

fn agent_at(agent: &Value) -> Result<AgentAt, String> {
    if !agent.is_object() {
        return Err(format!("TypeError: the agent is a {}, not an object", type_name(agent)));
    }
    let url = agent.get("url").ok_or("KeyError: 'url'")?;
    let url = url.as_str().ok_or_else(|| format!("TypeError: `url` is a {}", type_name(url)))?;
    let headers = ["custom_headers", "customHeaders"].iter().find_map(|name| agent.get(name));
    let headers = match headers.filter(|headers| !headers.is_null()) {
        None => Vec::new(),
        Some(headers) => {
            let wrong = || "TypeError: `custom_headers` is no object of strings".to_owned();
            let pair = |(name, value): (&String, &Value)| {
                value.as_str().map(|value| (name.clone(), value.to_owned())).ok_or_else(wrong)
            };
            headers.as_object().ok_or_else(wrong)?.iter().map(pair).collect::<Result<_, _>>()?
        }
    };
    let other_hosts = agent.get("other_hosts").or_else(|| agent.get("otherHosts"));
    let other_hosts = other_hosts.is_some_and(|flag| *flag == Value::Bool(true));
    Ok(AgentAt { url: url.to_owned(), headers, other_hosts, card_headers: true })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_in_both_spellings_and_a_wrong_agent_stays_with_its_fault() {
        let list = r#"{"a":{"url":"http://h","customHeaders":{"X":"1"}},"b":{"url":"http://h","custom_headers":{"X":"2"}},
            "c":{},"d":5,"e":{"url":5},"f":{"url":"http://h","custom_headers":[]},"g":{"url":"http://h","custom_headers":null}}"#;
        let agents = read(&Value::parse(list).unwrap()).unwrap();
        let header = |at: &AgentAt| at.headers.first().map(|(_, value)| value.clone());
        let shown: Vec<_> = agents.iter().map(|(_, at)| at.as_ref().map(header).map_err(|_| ())).collect();
        let (one, two) = (Ok(Some("1".to_owned())), Ok(Some("2".to_owned())));
        assert_eq!(shown, [one, two, Err(()), Err(()), Err(()), Err(()), Ok(None)]);
        assert!(read(&Value::from("x")).is_err() && read(&Value::Null).unwrap().is_empty());
    }
}
