//! The servers of the recording: agents with the tools and the scripted model of the fixtures' README.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use proto_events::json;
use proto_events::json::{JsonText, JsonValue as Value};
use proto_events::model::{AgentCapabilities, AgentCard};
use taskreel::infer::{Entry, Scripted};
use taskreel::{BudgetScope, Builder, System};
use taskreel_http::{Access, Guard, HttpHandler, Protolink, Registry, RegistryHandler};
use taskreel_log::memory::MemoryStore;
use tokio::runtime::Runtime;

use super::Failure;
use super::execute_task::{ToolLog, broken, with_tool};
use super::http_api::exchange;
use crate::support::{Answer, Host, actix};

/// The tools of every agent, each with its arguments and their types.
const TOOLS: [(&str, &[(&str, &str)]); 5] = [
    ("add", &[("a", "integer"), ("b", "integer")]),
    ("echo", &[("text", "string")]),
    ("fail", &[("message", "string")]),
    ("slow", &[("ms", "integer")]),
    ("guarded", &[("x", "integer")]),
];

/// The answers of the scripted models, by prompt.
const ANSWERS: [(&str, &str); 4] = [("q1", "one"), ("q2", "two"), ("hello", "three"), ("hi", "streamed")];

/// The servers that check their callers: the name, and the rules, in which the recording's credentials stand as SHA-256.
const GUARDED: [(&str, &str); 2] = [
    (
        "api_key_agent",
        r#"{"credentials": [{"name": "client", "scopes": ["read", "run", "control"], "sha256": "65803be0872fa538d3ac513edadd6699f54dd8b4a566ee1cf6b185c8cc803949"}]}"#,
    ),
    (
        "basic_agent",
        r#"{"credentials": [{"name": "bob", "user": "bob", "scopes": ["read", "run", "control"], "sha256": "30c952fab122c3f9759f02a6d95c3758b246b4fee239957b2d4fee46e26170c4"}]}"#,
    ),
];

/// The servers, started when a case first names one.
pub(super) struct Servers {
    hosts: HashMap<String, Host>,
    tool_log: ToolLog,
    /// The answers to a task that was canceled while it ran: its own, and that of the cancel.
    canceled: HashMap<String, (Answer, Answer)>,
}

impl Servers {
    /// Runs a case with the servers of this process.
    pub(super) fn with<T>(
        work: impl FnOnce(&mut Self, &Runtime) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        static ALL: OnceLock<(Runtime, Mutex<Servers>)> = OnceLock::new();
        let (runtime, servers) = ALL.get_or_init(|| {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
            let runtime = runtime.expect("a runtime is built");
            let servers = runtime.block_on(Self::start()).expect("the servers start");
            (runtime, Mutex::new(servers))
        });
        let mut servers = servers.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        work(&mut servers, runtime)
    }

    async fn start() -> Result<Self, Failure> {
        let tool_log = ToolLog::default();
        let plain = agent(&tool_log)?.stateless();
        let model = || {
            let reply = |answer: &str| vec![Entry::json(&json!({"type": "final", "content": answer}))];
            Scripted::by_prompt(ANSWERS.map(|(prompt, answer)| (prompt.to_owned(), reply(answer))))
        };
        let with_model = agent(&tool_log)?.infer(model());
        let streaming = agent(&tool_log)?.stateless().infer(model());
        let mut hosts = HashMap::new();
        for (name, builder) in [("agent", plain), ("llm_agent", with_model), ("sse_agent", streaming)] {
            hosts.insert(name.to_owned(), served(builder).await?);
        }
        for (name, rules) in GUARDED {
            hosts.insert(name.to_owned(), guarded(agent(&tool_log)?.stateless(), rules).await?);
        }
        hosts.insert("registry".to_owned(), registry().await?);
        Ok(Self { hosts, tool_log, canceled: HashMap::new() })
    }

    /// Returns a server of the recording.
    pub(super) fn host(&self, name: &str) -> Result<&Host, Failure> {
        self.hosts.get(name).ok_or(Failure::NotBuilt("a server of this name"))
    }

    /// Returns the answers to a task that is canceled while it runs: its own, and that of the cancel.
    pub(super) async fn canceled(&mut self, id: &str, posted: &str) -> Result<(Answer, Answer), Failure> {
        if !self.canceled.contains_key(id) {
            let host = self.host("agent")?;
            let calls = self.slow_calls();
            let cancel = async {
                while self.slow_calls() == calls {
                    tokio::task::yield_now().await;
                }
                let body = json!({"id": id, "reason": "stop"}).to_string();
                exchange(host, "POST", "/tasks/cancel", &[], &body).await
            };
            let answers = tokio::join!(exchange(host, "POST", "/tasks/", &[], posted), cancel);
            self.canceled.insert(id.to_owned(), answers);
        }
        let (original, cancel) = self.canceled.get(id).expect("it was just inserted");
        Ok((original.clone(), cancel.clone()))
    }

    fn slow_calls(&self) -> usize {
        self.tool_log.lock().map_or(0, |log| log.iter().filter(|call| call[0] == json!("slow")).count())
    }
}

/// Returns an agent with the tools, and the card that the recording's agents were given.
fn agent(log: &ToolLog) -> Result<Builder, Failure> {
    let builder =
        System::builder("in memory").store(Arc::new(MemoryStore::new())).budget_scope(BudgetScope::Part);
    let builder = TOOLS.iter().try_fold(builder, |builder, (name, _)| with_tool(builder, name, log))?;
    Ok(builder.card(|mut card: AgentCard| {
        let has_llm = card.capabilities.has_llm;
        card.capabilities = AgentCapabilities { has_llm, delegation: false, ..AgentCapabilities::default() };
        "test agent".clone_into(&mut card.description);
        "9.9.9".clone_into(&mut card.protocol_version);
        for skill in &mut card.skills {
            let arguments = TOOLS.iter().find(|(name, _)| *name == skill.id).map_or(&[][..], |(_, all)| all);
            skill.description = format!("{} tool", skill.id);
            skill.input_schema = schema(&format!("{}Input", skill.id), arguments);
            skill.output_schema = schema(&format!("{}Output", skill.id), &[]);
        }
        card
    }))
}

/// Returns the schema that Protolink infers from a function of these arguments.
fn schema(title: &str, arguments: &[(&str, &str)]) -> JsonText {
    let mut properties = json!({});
    for (name, kind) in arguments {
        properties[*name] = json!({"type": kind});
    }
    let required: Vec<Value> = arguments.iter().map(|(name, _)| Value::from(*name)).collect();
    JsonText::from(json!({
        "type": "object", "properties": properties, "required": required, "additionalProperties": false, "title": title,
    }))
}

/// Returns a server of an agent.
async fn served(builder: Builder) -> Result<Host, Failure> {
    let system = builder.start().await.map_err(broken)?;
    Ok(actix(Arc::new(Protolink::new(system))).await)
}

/// Returns a server of an agent that checks its callers by these rules.
async fn guarded(builder: Builder, rules: &str) -> Result<Host, Failure> {
    let file = tempfile::NamedTempFile::new().map_err(broken)?;
    std::fs::write(file.path(), rules).map_err(broken)?;
    let access = Access::open().with_file(file.path()).map_err(broken)?;
    let system = builder.start().await.map_err(broken)?;
    let handler: Arc<dyn HttpHandler> = Arc::new(Protolink::new(system));
    Ok(actix(Arc::new(Guard::new(access, handler))).await)
}

/// Returns a server of a registry, on a port of its own.
async fn registry() -> Result<Host, Failure> {
    let store = Arc::new(MemoryStore::new());
    let system = System::builder("in memory").store(store).start().await.map_err(broken)?;
    let registry = Registry::new(&system, "Registry").map_err(broken)?;
    Ok(actix(Arc::new(RegistryHandler::alone(registry))).await)
}
