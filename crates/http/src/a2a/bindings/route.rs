//! The meaning of a method and a path.

use http::Method;
use taskreel::System;

use crate::a2a::ops::operation::A2aOperation;
use crate::handler::path::segments;

/// The goal of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// JSON-RPC.
    Rpc,
    /// The agent's card.
    Card,
    /// An operation over REST.
    Rest {
        /// The operation.
        operation: A2aOperation,
        /// The task that the path names.
        id: Option<String>,
        /// The registration of a webhook that the path names.
        config: Option<String>,
        /// Whether the path is one of 0.3.
        is_03: bool,
    },
    /// A path of A2A's with another method than these.
    OtherMethod(&'static str),
}

/// The agent that a path names, and what it asks of it.
#[derive(Debug, Clone)]
pub(crate) struct AgentPath {
    /// The agent.
    pub(crate) system: System,
    /// The part of the path that names it, as it stands there.
    pub(crate) at: String,
    /// The operation that is asked for.
    pub(crate) target: Target,
}

/// Returns what a method and a path mean; `None` if the path is not one of A2A's. A first segment with the name of an agent, or
/// `agents` and a name, addresses that agent.
pub(crate) fn route(system: &System, method: &Method, path: &str) -> Option<AgentPath> {
    // By far the most requests: nothing is decoded for them.
    if path == "/" && *method == Method::POST {
        return Some(AgentPath { system: system.clone(), at: String::new(), target: Target::Rpc });
    }
    let decoded = segments(path).ok()?;
    let parts: Vec<&str> = decoded.iter().map(String::as_str).collect();
    let raw = |count: usize| {
        let raw = path.trim_start_matches('/').split('/').take(count);
        raw.fold(String::new(), |at, segment| at + "/" + segment)
    };
    if let Some(target) = target(method, &parts) {
        return Some(AgentPath { system: system.clone(), at: String::new(), target });
    }
    let (count, name, rest) = match parts.as_slice() {
        ["agents", name, rest @ ..] => (2, name, rest),
        // Clients leave the slash out. No agent has the name of a path of another handler: the builder refuses it.
        [name, rest @ ..] if !rest.is_empty() || *method == Method::POST => (1, name, rest),
        _ => return None,
    };
    let agent = system.agent(name)?;
    let rest = if rest.is_empty() { &[""][..] } else { rest };
    Some(AgentPath { system: agent, at: raw(count), target: target(method, rest)? })
}

fn target(method: &Method, parts: &[&str]) -> Option<Target> {
    let reads = matches!(*method, Method::GET | Method::HEAD);
    match parts {
        [""] if *method == Method::POST => Some(Target::Rpc),
        [".well-known", "agent-card.json"] if reads => Some(Target::Card),
        [".well-known", "agent-card.json"] => Some(Target::OtherMethod("GET, HEAD")),
        ["v1", "card"] if reads => Some(other_target(A2aOperation::ExtendedCard, None, true)),
        ["v1", "card"] => Some(Target::OtherMethod("GET")),
        ["v1", parts @ ..] => of_rest(method, parts, true),
        ["extendedAgentCard"] if reads => Some(other_target(A2aOperation::ExtendedCard, None, false)),
        ["extendedAgentCard"] => Some(Target::OtherMethod("GET")),
        parts => of_rest(method, parts, false),
    }
}

fn other_target(operation: A2aOperation, id: Option<&str>, is_03: bool) -> Target {
    Target::Rest { operation, id: id.map(str::to_owned), config: None, is_03 }
}

fn of_webhook(operation: A2aOperation, task: &str, config: Option<&str>, is_03: bool) -> Target {
    let (id, config) = (Some(task.to_owned()), config.map(str::to_owned));
    Target::Rest { operation, id, config, is_03 }
}

fn of_rest(method: &Method, parts: &[&str], is_03: bool) -> Option<Target> {
    let (reads, posts) = (*method == Method::GET, *method == Method::POST);
    Some(match parts {
        ["message:send"] if posts => other_target(A2aOperation::Send, None, is_03),
        ["message:stream"] if posts => other_target(A2aOperation::SendStream, None, is_03),
        ["message:send" | "message:stream"] => Target::OtherMethod("POST"),
        ["tasks"] if reads => other_target(A2aOperation::List, None, is_03),
        ["tasks", task, "pushNotificationConfigs"] if posts => {
            of_webhook(A2aOperation::CreatePush, task, None, is_03)
        }
        ["tasks", task, "pushNotificationConfigs"] if reads => {
            of_webhook(A2aOperation::ListPush, task, None, is_03)
        }
        ["tasks", _, "pushNotificationConfigs"] => Target::OtherMethod("GET, POST"),
        ["tasks", task, "pushNotificationConfigs", id] if reads => {
            of_webhook(A2aOperation::GetPush, task, Some(id), is_03)
        }
        ["tasks", task, "pushNotificationConfigs", id] if *method == Method::DELETE => {
            of_webhook(A2aOperation::DeletePush, task, Some(id), is_03)
        }
        ["tasks", _, "pushNotificationConfigs", _] => Target::OtherMethod("GET, DELETE"),
        ["tasks", named] => match named.rsplit_once(':') {
            Some((id, "cancel")) if posts => other_target(A2aOperation::Cancel, Some(id), is_03),
            Some((_, "cancel")) => Target::OtherMethod("POST"),
            // The specification says POST, its definition says GET.
            Some((id, "subscribe")) if posts || reads => {
                other_target(A2aOperation::Subscribe, Some(id), is_03)
            }
            Some((_, "subscribe")) => Target::OtherMethod("POST, GET"),
            _ if reads => other_target(A2aOperation::Get, Some(named), is_03),
            _ => return None,
        },
        _ => return None,
    })
}
