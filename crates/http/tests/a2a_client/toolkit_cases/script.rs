//! The script of a recorded case in the place of agents: what it answers, and what it was asked, by a clock that is only advanced.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt as _;
use proto_events::json;
use proto_events::json::{JsonMap, JsonText, JsonValue as Value};
use taskreel::BoxFuture;
use taskreel_http::a2a::A2aAgents;
use taskreel_http::a2a::test_script::{Frames, Headers, Script, ScriptedFailure, agents_by};
use tokio::time::Instant;

use super::{Case, Failure, broken};

/// The agent of cases that name none.
pub(crate) fn default_config() -> Value {
    json!({"rb": {"url": "https://review.example.com/.well-known/agent-card.json"}})
}

fn default_card() -> Value {
    json!({"name": "Code Reviewer", "description": "Review code for best practices", "url": "https://a.example.com/rpc",
        "version": "1.0.0", "capabilities": {}, "skills": [], "defaultInputModes": ["text"], "defaultOutputModes": ["text"]})
}

/// The script of a case, shared with what it notes.
#[derive(Clone)]
pub(crate) struct Scripted(Arc<Inner>);

struct Inner {
    cards: Value,
    remote: Value,
    begun: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The number of answers that were given, by their kind.
    given: HashMap<String, usize>,
    calls: Vec<Value>,
    card_requests: Vec<Value>,
    sleeps: Vec<Value>,
    /// The end of the last answer.
    ended: Option<f64>,
    /// The time for which a stream hung, which the recordings' clock did not see.
    hung: Duration,
}

impl Scripted {
    pub(crate) fn of(case: &Case) -> Self {
        let input = case.input();
        let (cards, remote) = (input["cards"].clone(), input["remote"].clone());
        Self(Arc::new(Inner { cards, remote, begun: Instant::now(), state: Mutex::default() }))
    }

    /// Returns the agents of a case, which answer by the script.
    pub(crate) fn agents(&self, case: &Case) -> Result<A2aAgents, Failure> {
        let config = match case.input().get("config") {
            Some(config) => config.clone(),
            None => default_config(),
        };
        let agents = A2aAgents::from_json(&config).map_err(|error| Failure::Refused(error.to_string()))?;
        Ok(self.behind(agents))
    }

    pub(crate) fn behind(&self, agents: A2aAgents) -> A2aAgents {
        agents_by(agents, Arc::new(self.clone()))
    }

    fn state<T>(&self, with: impl FnOnce(&mut State) -> T) -> T {
        with(&mut self.0.state.lock().unwrap())
    }

    /// Returns the seconds since the case began, as the recordings' clock counted them.
    pub(crate) fn seconds(&self) -> f64 {
        let hung = self.state(|state| state.hung);
        self.0.begun.elapsed().saturating_sub(hung).as_secs_f64()
    }

    pub(crate) fn calls(&self) -> Vec<Value> {
        self.state(|state| state.calls.clone())
    }

    pub(crate) fn sleeps(&self) -> Vec<Value> {
        self.state(|state| state.sleeps.clone())
    }

    /// Returns the requests for cards, sorted as the recordings are.
    pub(crate) fn card_requests(&self) -> Value {
        let mut requests = self.state(|state| state.card_requests.clone());
        requests.sort_by_key(ToString::to_string);
        requests.into()
    }

    fn note(&self, method: &str, params: &JsonText, headers: &Headers, timeout: Duration) {
        let at = self.seconds();
        let call = json!({"method": method, "params": without_ids(&params.tree()), "headers": shown(headers),
            "http_timeout_s": timeout.as_secs_f64(), "at": at});
        self.state(|state| {
            if let Some(slept) = state.ended.map(|ended| at - ended).filter(|slept| *slept > 1e-6) {
                state.sleeps.push(json!(slept));
            }
            state.calls.push(call);
        });
    }

    fn end(&self) {
        let at = self.seconds();
        self.state(|state| state.ended = Some(at));
    }

    /// Returns the next answer of a kind; the last one again where there are no more.
    fn next(&self, kind: &str) -> Option<Value> {
        let answers = self.0.remote[kind].as_array()?;
        let at = self.state(|state| {
            let given = state.given.entry(kind.to_owned()).or_default();
            *given += 1;
            *given - 1
        });
        answers.get(at).or(answers.last()).cloned()
    }
}

/// Returns headers as the recordings write them.
fn shown(headers: &Headers) -> Value {
    if headers.is_empty() {
        return Value::Null;
    }
    let pairs = headers.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str())));
    pairs.collect::<JsonMap>().into()
}

fn is_uuid(text: &str) -> bool {
    let is_form = |(at, byte): (usize, u8)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    text.len() == 36 && text.bytes().enumerate().all(is_form)
}

/// Replaces ids that were made anew by what the recordings have in their place.
fn without_ids(value: &Value) -> Value {
    match value {
        Value::String(text) if is_uuid(text) => "$UUID".into(),
        Value::Array(items) => items.iter().map(without_ids).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| (key.clone(), without_ids(value))).collect::<JsonMap>().into()
        }
        other => other.clone(),
    }
}

fn failed(answer: &Value) -> ScriptedFailure {
    match answer["raise"].as_str() {
        Some("timeout") => ScriptedFailure::TimedOut,
        Some(_) => {
            let status = answer["status"].as_u64().and_then(|status| u16::try_from(status).ok());
            ScriptedFailure::Http(
                status.unwrap_or(503),
                answer["message"].as_str().unwrap_or_default().to_owned(),
            )
        }
        None if !answer["error"].is_null() => ScriptedFailure::JsonRpc(answer["error"].to_text()),
        None => ScriptedFailure::Http(500, format!("the script has {answer}")),
    }
}

fn takes(answer: &Value) -> Duration {
    Duration::from_secs_f64(answer["takes"].as_f64().unwrap_or_default())
}

impl Script for Scripted {
    fn card(&self, url: &str, headers: &Headers) -> BoxFuture<'static, Result<JsonText, ScriptedFailure>> {
        let sent = url.split('#').next().unwrap().to_owned();
        let known = sent.split('?').next().unwrap();
        let path = known.split("://").nth(1).unwrap().find('/').map_or("", |slash| {
            let at = known.split("://").next().unwrap().len() + 3 + slash;
            &sent[at..]
        });
        let base = sent.strip_suffix(path).unwrap();
        let request = json!({"base_url": base, "card_path": path, "headers": shown(headers)});
        self.state(|state| state.card_requests.push(request));
        let card = match &self.0.cards[known] {
            Value::Null => Ok(default_card().to_text()),
            Value::String(text) => Err(ScriptedFailure::Http(503, text.clone())),
            card => Ok(card.to_text()),
        };
        Box::pin(std::future::ready(card))
    }

    fn ask(
        &self,
        method: &str,
        params: JsonText,
        headers: &Headers,
        timeout: Duration,
    ) -> BoxFuture<'static, Result<JsonText, ScriptedFailure>> {
        self.note(method, &params, headers, timeout);
        let kind = if method == "message/send" { "send" } else { "get_task" };
        let (script, answer) = (self.clone(), self.next(kind).unwrap_or(json!({})));
        Box::pin(async move {
            tokio::time::sleep(takes(&answer)).await;
            script.end();
            if answer["result"].is_null() { Err(failed(&answer)) } else { Ok(answer["result"].to_text()) }
        })
    }

    fn follow(&self, params: JsonText, headers: &Headers, timeout: Duration) -> Frames {
        self.note("tasks/resubscribe", &params, headers, timeout);
        self.end();
        let frames: VecDeque<Value> =
            self.0.remote["stream"].as_array().into_iter().flatten().cloned().collect();
        let script = self.clone();
        let frames = futures_util::stream::unfold((script, frames), |(script, mut frames)| async move {
            let frame = frames.pop_front()?;
            if frame["hang"] == true {
                let hangs = Hangs(script.clone(), Instant::now());
                std::future::pending::<()>().await;
                drop(hangs);
            }
            tokio::time::sleep(takes(&frame)).await;
            script.end();
            let told =
                if frame["event"].is_null() { Err(failed(&frame)) } else { Ok(frame["event"].to_text()) };
            Some((told, (script, frames)))
        });
        frames.boxed()
    }
}

/// A stream that hangs until it is dropped.
struct Hangs(Scripted, Instant);

impl Drop for Hangs {
    fn drop(&mut self) {
        self.0.state(|state| state.hung += self.1.elapsed());
    }
}

/// Returns our value with the numbers of the recording where they are the same time.
pub(crate) fn same_times(expected: &Value, ours: Value) -> Value {
    match ours {
        Value::Array(items) => {
            items.into_iter().enumerate().map(|(at, item)| same_times(&expected[at], item)).collect()
        }
        Value::Object(fields) => {
            let member =
                |(key, value): (String, Value)| (key.clone(), same_times(&expected[key.as_str()], value));
            Value::from(fields.into_iter().map(member).collect::<JsonMap>())
        }
        number => match (expected.as_f64(), number.as_f64()) {
            (Some(theirs), Some(own)) if (theirs - own).abs() < 0.002 => expected.clone(),
            _ => number,
        },
    }
}

/// Reads a task of a case.
pub(crate) fn task(json: &Value) -> Result<taskreel_http::a2a::Task, Failure> {
    taskreel_http::a2a::test_script::task_of_0_3(&json.to_string()).map_err(broken)
}
