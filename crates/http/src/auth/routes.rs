//! The one table of routes: to which protocol a path belongs, and which scope a request needs.

use http::Method;

use crate::auth::caller::{Scope, Scopes};

/// The protocol to which a path belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteClass {
    /// Protolink's agent: tasks, cards, state, pages.
    Protolink,
    /// A2A, where a path is its alone.
    A2a,
    /// Protolink's registry of agents.
    Registry,
    /// The live API.
    Api,
    /// Health and figures.
    Ops,
    /// Any other path.
    Other,
}

impl RouteClass {
    /// Every class.
    pub const ALL: [Self; 6] =
        [Self::Protolink, Self::A2a, Self::Registry, Self::Api, Self::Ops, Self::Other];

    /// Returns the name of the class in figures.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Protolink => "protolink",
            Self::A2a => "a2a",
            Self::Registry => "registry",
            Self::Api => "api",
            Self::Ops => "ops",
            Self::Other => "other",
        }
    }

    /// Whether a refusal has Protolink's body, and a credential may stand in the query.
    pub const fn is_protolinks(self) -> bool {
        matches!(self, Self::Protolink | Self::Registry)
    }
}

/// The right that a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// No credential: probes of a supervisor have none, and the card of A2A is what a client reads before it has one.
    Nothing,
    /// Any scope. The handler asks for the scope of each message of the connection ([`scope_of`]).
    AnyScope,
    /// The scope that is needed.
    Scope(Scope),
}

impl Need {
    /// Whether a caller with these scopes may send the request.
    pub fn is_met(self, scopes: Scopes) -> bool {
        match self {
            Self::Nothing => true,
            Self::AnyScope => scopes != Scopes::NONE,
            Self::Scope(scope) => scopes.has(scope),
        }
    }
}

/// The rule of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// The protocol.
    pub class: RouteClass,
    /// The right.
    pub need: Need,
}

/// Returns the rule of a request. What reads needs [`Scope::Read`]; what changes something needs [`Scope::Control`] unless
/// the table says that [`Scope::Run`] is enough, so a path that the table does not know is never too easy to reach.
pub fn rule_of(method: &Method, path: &str, is_upgrade: bool) -> Rule {
    let segments: Vec<&str> = path.trim_start_matches('/').trim_end_matches('/').split('/').collect();
    let reads = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
    let (class, scope) = match segments.as_slice() {
        ["healthz" | "readyz"] if reads => return Rule { class: RouteClass::Ops, need: Need::Nothing },
        // A handler of its own stands at each of these: what lies below is not an agent of that name, whose card would be public.
        ["healthz" | "readyz" | "metrics", ..] => (RouteClass::Ops, None),
        ["api", rest @ ..] => (RouteClass::Api, of_api(method, rest)),
        ["inspect", ..] => (RouteClass::Other, None),
        ["agents"] => {
            let registers = matches!(*method, Method::POST | Method::DELETE);
            (RouteClass::Registry, registers.then_some(Scope::Run))
        }
        ["agents", "heartbeat"] => (RouteClass::Registry, (*method == Method::POST).then_some(Scope::Run)),
        ["agents", "status"] => (RouteClass::Registry, None),
        other if let Some(need) = of_a2a(method, other, (is_upgrade, path.ends_with('/'))) => {
            return Rule { class: RouteClass::A2a, need };
        }
        ["agents", _, rest @ ..] => (RouteClass::Protolink, of_agent(method, rest)),
        ["" | "tasks" | "llm" | "state" | ".well-known" | "status" | "chat", ..] => {
            (RouteClass::Protolink, of_agent(method, &segments))
        }
        _ => (RouteClass::Other, None),
    };
    let by_method = if reads { Scope::Read } else { Scope::Control };
    // Sockets stand at the root of an agent, where nothing else is.
    let is_socket = is_upgrade
        && match segments.as_slice() {
            [""] => true,
            ["agents", name] => !matches!(*name, "status" | "heartbeat"),
            _ => false,
        };
    let need = if is_socket { Need::AnyScope } else { Need::Scope(scope.unwrap_or(by_method)) };
    Rule { class, need }
}

/// Returns the scope that a message of a connection needs: the scope of the request with this method and path.
pub fn scope_of(method: &Method, path: &str) -> Option<Scope> {
    match rule_of(method, path, false).need {
        Need::Scope(scope) => Some(scope),
        Need::Nothing | Need::AnyScope => None,
    }
}

/// Returns the scope of an agent's route, where its method does not say it.
fn of_agent(method: &Method, segments: &[&str]) -> Option<Scope> {
    match (method, segments) {
        // A caller that runs tasks may cancel them: the handler refuses the tasks of others.
        (&Method::POST, ["tasks" | "chat"] | ["tasks", "cancel" | "stream"]) => Some(Scope::Run),
        (&Method::POST, ["state", "describe"]) => Some(Scope::Read),
        _ => None,
    }
}

/// Returns what a path of A2A's needs; `None` for any other path, or if its method says it. The path may begin with the name of an
/// agent. A request over JSON-RPC says in its body what it is: the handler asks for the scope of each.
fn of_a2a(method: &Method, segments: &[&str], (is_upgrade, is_slashed): (bool, bool)) -> Option<Need> {
    let posts = *method == Method::POST;
    let reads = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
    let changes = posts || *method == Method::DELETE;
    let rest = match segments {
        [""] | ["agents", _] if posts && !is_upgrade => return Some(Need::AnyScope),
        // gRPC: the handler asks for the scope of each call.
        ["lf.a2a.v1.A2AService", _] if posts => return Some(Need::AnyScope),
        [".well-known" | "v1" | "tasks" | "message:send" | "message:stream" | "extendedAgentCard", ..] => {
            segments
        }
        ["agents", _, rest @ ..] | [_, rest @ ..] => rest,
        [] => return None,
    };
    let is_of = |named: &str, action: &str| named.strip_suffix(action).is_some_and(|id| id.ends_with(':'));
    match rest.strip_prefix(&["v1"]).unwrap_or(rest) {
        [".well-known", "agent-card.json"] if matches!(*method, Method::GET | Method::HEAD) => {
            Some(Need::Nothing)
        }
        ["message:send" | "message:stream"] if posts => Some(Need::Scope(Scope::Run)),
        ["tasks", named] if posts && is_of(named, "cancel") => Some(Need::Scope(Scope::Run)),
        ["tasks", named] if posts && is_of(named, "subscribe") => Some(Need::Scope(Scope::Read)),
        ["tasks", _, "pushNotificationConfigs"] | ["tasks", _, "pushNotificationConfigs", _] if changes => {
            Some(Need::Scope(Scope::Run))
        }
        // Protolink reads nothing there. Its own path of tasks ends with a slash.
        ["tasks", _, ..] | ["extendedAgentCard" | "card"] if reads => Some(Need::Scope(Scope::Read)),
        ["tasks"] if reads && !is_slashed => Some(Need::Scope(Scope::Read)),
        _ => None,
    }
}

/// Returns the scope of a route of the live API, where its method does not say it.
fn of_api(method: &Method, segments: &[&str]) -> Option<Scope> {
    match (method, segments) {
        (&Method::POST, ["v1", "tasks"] | ["v1", "tasks", _, "cancel"]) => Some(Scope::Run),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_written_in_another_way_never_needs_less() {
        let plain = scope_of(&Method::POST, "/state/reset");
        assert_eq!(plain, Some(Scope::Control));
        for path in ["//state/reset", "/state/reset/", "/state//reset", "/%73tate/reset", "/a/../state/reset"]
        {
            assert_eq!(scope_of(&Method::POST, path), plain, "{path}");
        }
        for path in ["/tasks/../state/reset", "/tasks/x", "/agents/a/tasks/x", "/api/v1/tasks/a/approve"] {
            assert_eq!(scope_of(&Method::POST, path), Some(Scope::Control), "{path}");
        }
    }

    #[test]
    fn only_probes_need_nothing_and_only_to_read() {
        assert_eq!(rule_of(&Method::GET, "/healthz", false).need, Need::Nothing);
        assert_eq!(rule_of(&Method::POST, "/healthz", false).need, Need::Scope(Scope::Control));
        assert_eq!(rule_of(&Method::GET, "/healthz/x", false).need, Need::Scope(Scope::Read));
        assert_eq!(rule_of(&Method::GET, "/metrics", false).need, Need::Scope(Scope::Read));
        assert_eq!(
            rule_of(&Method::POST, "/.well-known/agent-card.json", false).need,
            Need::Scope(Scope::Control)
        );
        assert_eq!(rule_of(&Method::GET, "/.well-known/agent.json", false).need, Need::Scope(Scope::Read));
    }

    #[test]
    fn the_paths_of_a2a_need_what_their_operation_needs_for_every_agent() {
        let need = |method: &Method, path: &str| rule_of(method, path, false).need;
        for at in ["", "/ada", "/agents/ada"] {
            let card = format!("{at}/.well-known/agent-card.json");
            assert_eq!(
                rule_of(&Method::GET, &card, false),
                Rule { class: RouteClass::A2a, need: Need::Nothing }
            );
            for path in
                ["/message:send", "/v1/message:stream", "/tasks/t:cancel", "/tasks/t/pushNotificationConfigs"]
            {
                let path = format!("{at}{path}");
                assert_eq!(need(&Method::POST, &path), Need::Scope(Scope::Run), "{path}");
            }
            assert_eq!(need(&Method::POST, &format!("{at}/v1/tasks/t:subscribe")), Need::Scope(Scope::Read));
            for path in ["/tasks", "/tasks/t", "/v1/tasks/t", "/extendedAgentCard", "/v1/card"] {
                let read = Rule { class: RouteClass::A2a, need: Need::Scope(Scope::Read) };
                assert_eq!(rule_of(&Method::GET, &format!("{at}{path}"), false), read, "{at}{path}");
            }
        }
        for path in ["/", "/agents/ada"] {
            assert_eq!(need(&Method::POST, path), Need::AnyScope);
        }
        assert_eq!(need(&Method::POST, "/lf.a2a.v1.A2AService/GetTask"), Need::AnyScope);
        assert_eq!(need(&Method::POST, "/lf.a2a.v2.A2AService/GetTask"), Need::Scope(Scope::Control));
        for handler in ["inspect", "api", "metrics", "healthz", "readyz"] {
            for at in ["", "/", "/v1"] {
                let card = format!("/{handler}{at}/.well-known/agent-card.json");
                assert_eq!(need(&Method::GET, &card), Need::Scope(Scope::Read), "{card}");
            }
            let sent = format!("/{handler}/message:send");
            assert_eq!(need(&Method::POST, &sent), Need::Scope(Scope::Control), "{sent}");
        }
        for path in
            ["/ada", "/message:other", "/tasks/cancel/x:cancel", "/tasks/xcancel", "/api/v1/tasks/t:cancel"]
        {
            assert_eq!(need(&Method::POST, path), Need::Scope(Scope::Control), "{path}");
        }
    }
}
