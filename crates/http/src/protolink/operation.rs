//! The operations of an agent: what a method and a path mean. A request over HTTP and a frame of a WebSocket are the same
//! operation.

/// An operation of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AgentOperation {
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
type Route = (&'static str, &'static [(&'static str, AgentOperation)]);

/// The paths of an agent.
const ROUTES: &[Route] = &[
    ("/tasks/", &[("POST", AgentOperation::RunTask)]),
    ("/tasks/cancel", &[("POST", AgentOperation::CancelTask)]),
    ("/tasks/stream", &[("POST", AgentOperation::StreamTask)]),
    ("/llm/history/compact", &[("POST", AgentOperation::CompactHistory)]),
    ("/state/describe", &[("POST", AgentOperation::DescribeState)]),
    ("/state/reset", &[("POST", AgentOperation::ResetState)]),
    ("/state/compact", &[("POST", AgentOperation::CompactState)]),
    ("/.well-known/agent.json", &[("GET", AgentOperation::Card)]),
    ("/status", &[("GET", AgentOperation::StatusPage)]),
    ("/chat", &[("GET", AgentOperation::ChatPage), ("POST", AgentOperation::Chat)]),
];

/// The meaning of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathMeaning {
    /// The operation of this method.
    Operation(AgentOperation),
    /// The path exists with other methods.
    OtherMethod(&'static str),
    /// The path exists with a slash more, or less, at its end.
    Redirect(&'static str),
    /// The path does not exist.
    Nothing,
}

/// Returns what a method and a path mean.
pub(crate) fn find(method: &str, path: &str) -> PathMeaning {
    let route = |path: &str| ROUTES.iter().find(|(known, _)| *known == path);
    if let Some((_, methods)) = route(path) {
        let wanted = if method == "HEAD" { "GET" } else { method };
        let operation = methods.iter().find(|(known, _)| *known == wanted);
        return match (operation, methods) {
            (Some((_, operation)), _) => PathMeaning::Operation(*operation),
            (None, [(_, _), (_, _)]) => PathMeaning::OtherMethod("GET, POST"),
            (None, [("GET", _)]) => PathMeaning::OtherMethod("GET"),
            (None, _) => PathMeaning::OtherMethod("POST"),
        };
    }
    let other = path.strip_suffix('/').map_or_else(|| format!("{path}/"), str::to_owned);
    route(&other).map_or(PathMeaning::Nothing, |(known, _)| PathMeaning::Redirect(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_its_methods_and_one_with_a_slash_too_many_or_few_leads_to_it() {
        assert_eq!(find("POST", "/tasks/"), PathMeaning::Operation(AgentOperation::RunTask));
        assert_eq!(find("GET", "/tasks/"), PathMeaning::OtherMethod("POST"));
        assert_eq!(find("DELETE", "/chat"), PathMeaning::OtherMethod("GET, POST"));
        assert_eq!(find("POST", "/status"), PathMeaning::OtherMethod("GET"));
        assert_eq!(find("HEAD", "/status"), PathMeaning::Operation(AgentOperation::StatusPage));
        assert_eq!(find("POST", "/tasks"), PathMeaning::Redirect("/tasks/"));
        assert_eq!(find("POST", "/tasks/cancel/"), PathMeaning::Redirect("/tasks/cancel"));
        assert_eq!(find("GET", "/"), PathMeaning::Nothing);
        assert_eq!(find("GET", "//tasks/"), PathMeaning::Nothing);
    }
}
