//! The area `agents_for_llm`: a registry, and operations on it in order.

use std::fs;

use proto_events::json;
use proto_events::json::{JsonMap, JsonValue as Value};
use taskreel_http::a2a::{A2aAgents, AgentDetail, AgentManager};

use super::script::Scripted;
use super::{Case, Failure, broken, on_own_clock, python_error};

/// The registry of a version.
enum Registry {
    Old(AgentManager),
    New(A2aAgents),
}

impl Registry {
    async fn headers(&self, id: &str) -> Value {
        let agent = match self {
            Self::Old(manager) => manager.get_agent(id).await,
            Self::New(agents) => agents.get_agent(id).await,
        };
        agent.map_or(Value::Null, |agent| {
            let pairs =
                agent.headers().iter().map(|(name, value)| (name.clone(), Value::from(value.as_str())));
            pairs.collect::<JsonMap>().into()
        })
    }

    async fn run(&self, op: &Value) -> Result<Value, Failure> {
        let text = |at: usize| op[at].as_str().unwrap_or_default();
        let detail = |at: usize| op[at].as_str().map_or(AgentDetail::default(), AgentDetail::of_name);
        Ok(match (text(0), self) {
            ("get_agents_for_llm", Self::New(agents)) => agents.get_agents_for_llm(detail(1)).await,
            ("get_agents_for_llm", Self::Old(agents)) => agents.get_agents_for_llm(detail(1)).await,
            ("get_agent_for_llm", Self::New(agents)) => {
                agents.get_agent_for_llm(text(1), detail(2)).await.into()
            }
            ("get_agent_for_llm", Self::Old(agents)) => {
                agents.get_agent_for_llm(text(1), detail(2)).await.into()
            }
            ("get_agents_ids", registry) => {
                let agents = match registry {
                    Self::New(agents) => agents.get_agents().await,
                    Self::Old(agents) => agents.get_agents().await,
                };
                agents.into_iter().map(|(id, _)| Value::from(id)).collect()
            }
            ("get_agent_headers", registry) => registry.headers(text(1)).await,
            ("initialization_errors", Self::Old(_)) => "(not in 0.2.0)".into(),
            ("initialization_errors", Self::New(agents)) => {
                let errors = agents.initialization_errors();
                errors.into_iter().map(|(id, error)| (id, Value::from(error))).collect::<JsonMap>().into()
            }
            ("add_agent", registry) => {
                let headers: Vec<(String, String)> = op[3]
                    .as_object()
                    .into_iter()
                    .flatten()
                    .map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned()))
                    .collect();
                let headers = headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
                let added = match registry {
                    Self::New(agents) => agents.add_agent(text(1), text(2), headers).await,
                    Self::Old(agents) => agents.add_agent(text(1), text(2), headers).await,
                };
                return Ok(match added {
                    Ok(()) => json!({"ok": null}),
                    Err(error) => json!({"error": python_error(&error)}),
                });
            }
            (other, _) => return Err(broken(format!("no operation `{other}`"))),
        })
    }
}

fn registry(case: &Case, script: &Scripted) -> Result<Registry, Failure> {
    let input = case.input();
    let agents = if input.get("config_file").is_some() {
        let folder = tempfile::tempdir().map_err(broken)?;
        let path = folder.path().join("agents.json");
        if let Some(text) = input["config_file"].as_str() {
            fs::write(&path, text).map_err(broken)?;
        }
        let agents = A2aAgents::from_file(&path).map_err(|error| Failure::Refused(error.to_string()))?;
        script.behind(agents)
    } else {
        script.agents(case)?
    };
    let is_old = case.whole["version"] == "0.2.0";
    Ok(if is_old { Registry::Old(AgentManager::new(agents)) } else { Registry::New(agents) })
}

pub(crate) fn answer(case: &Case) -> Result<Value, Failure> {
    on_own_clock(async {
        let script = Scripted::of(case);
        let registry = registry(case, &script)?;
        let (mut results, mut orders) = (Vec::new(), Vec::new());
        for op in case.input()["ops"].as_array().into_iter().flatten() {
            let answer = registry.run(op).await?;
            if op[0] == "add_agent" {
                results.push(answer);
                continue;
            }
            if let Some(object) = answer.as_object() {
                orders.push(object.keys().map(|key| Value::from(key.as_str())).collect::<Value>());
            }
            results.push(json!({"ok": answer}));
        }
        // Cards that nobody has waited for are asked for all the same.
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        let results = Value::from(results);
        Ok(
            json!({"results": results, "card_requests": script.card_requests(), "llm_output_key_order": Value::from(orders)}),
        )
    })
}
