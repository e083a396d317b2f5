//! The operations of an agent: what a method and a path mean. A request over HTTP and a frame of a WebSocket are the same
//! operation.

/// An operation of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    /// A task is accepted and carried out.
    RunTask,
    /// A task is canceled.
    CancelTask,
    /// A task is accepted, and its events are sent as they come.
    StreamTask,
    /// A conversation's history is compacted.
    CompactHistory,
    /// The agent's state is described.
    DescribeState,
    /// The agent's state is reset.
    ResetState,
    /// A conversation is compacted.
    CompactState,
    /// The agent's card.
    Card,
    /// The page about the agent.
    StatusPage,
    /// The page to talk with the agent.
    ChatPage,
    /// A message of a conversation.
    Chat,
}

/// A path, and the operations of its methods.
type Route = (&'static str, &'static [(&'static str, Operation)]);

/// The paths of an agent.
const ROUTES: &[Route] = &[
    ("/tasks/", &[("POST", Operation::RunTask)]),
    ("/tasks/cancel", &[("POST", Operation::CancelTask)]),
    ("/tasks/stream", &[("POST", Operation::StreamTask)]),
    ("/llm/history/compact", &[("POST", Operation::CompactHistory)]),
    ("/state/describe", &[("POST", Operation::DescribeState)]),
    ("/state/reset", &[("POST", Operation::ResetState)]),
    ("/state/compact", &[("POST", Operation::CompactState)]),
    ("/.well-known/agent.json", &[("GET", Operation::Card)]),
    ("/status", &[("GET", Operation::StatusPage)]),
    ("/chat", &[("GET", Operation::ChatPage), ("POST", Operation::Chat)]),
];

/// The meaning of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// The operation of this method.
    Operation(Operation),
    /// The path exists with other methods.
    OtherMethod(&'static str),
    /// The path exists with a slash more, or less, at its end.
    Redirect(&'static str),
    /// The path does not exist.
    Nothing,
}

/// Returns what a method and a path mean.
pub(crate) fn find(method: &str, path: &str) -> Found {
    let route = |path: &str| ROUTES.iter().find(|(known, _)| *known == path);
    if let Some((_, methods)) = route(path) {
        let wanted = if method == "HEAD" { "GET" } else { method };
        let operation = methods.iter().find(|(known, _)| *known == wanted);
        return match (operation, methods) {
            (Some((_, operation)), _) => Found::Operation(*operation),
            (None, [(_, _), (_, _)]) => Found::OtherMethod("GET, POST"),
            (None, [("GET", _)]) => Found::OtherMethod("GET"),
            (None, _) => Found::OtherMethod("POST"),
        };
    }
    let other = path.strip_suffix('/').map_or_else(|| format!("{path}/"), str::to_owned);
    route(&other).map_or(Found::Nothing, |(known, _)| Found::Redirect(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_its_methods_and_one_with_a_slash_too_many_or_few_leads_to_it() {
        assert_eq!(find("POST", "/tasks/"), Found::Operation(Operation::RunTask));
        assert_eq!(find("GET", "/tasks/"), Found::OtherMethod("POST"));
        assert_eq!(find("DELETE", "/chat"), Found::OtherMethod("GET, POST"));
        assert_eq!(find("POST", "/status"), Found::OtherMethod("GET"));
        assert_eq!(find("HEAD", "/status"), Found::Operation(Operation::StatusPage));
        assert_eq!(find("POST", "/tasks"), Found::Redirect("/tasks/"));
        assert_eq!(find("POST", "/tasks/cancel/"), Found::Redirect("/tasks/cancel"));
        assert_eq!(find("GET", "/"), Found::Nothing);
        assert_eq!(find("GET", "//tasks/"), Found::Nothing);
    }
}
