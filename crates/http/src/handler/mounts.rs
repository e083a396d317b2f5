//! Several handlers under one: each at a prefix.

use std::str::FromStr;
use std::sync::Arc;

use http::uri::PathAndQuery;
use http::{Method, Uri};
use taskreel::BoxFuture;

use crate::handler::connection::mount_deeper;
use crate::handler::message::{HttpHandler, Request, Response};
use crate::handler::respond::not_found;

/// Several handlers, each mounted at a prefix. A path goes to the handler with the longest prefix of it that
/// [takes](HttpHandler::takes) the rest with the request's method, and to a 404 if no handler takes it.
#[derive(Clone, Default)]
pub struct Mounted {
    /// The handlers by prefix, the longest first.
    handlers: Vec<(String, Arc<dyn HttpHandler>)>,
}

impl std::fmt::Debug for Mounted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.handlers.iter().map(|(prefix, _)| prefix)).finish()
    }
}

impl Mounted {
    /// Returns a composition without a handler.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a handler at a prefix such as `/api`; the empty one and `/` are the root. Of two at the same prefix the one added
    /// first comes first.
    #[must_use]
    pub fn mount(mut self, prefix: &str, handler: Arc<dyn HttpHandler>) -> Self {
        let prefix = prefix.trim_matches('/');
        let prefix = if prefix.is_empty() { String::new() } else { format!("/{prefix}") };
        let at = self.handlers.partition_point(|(other, _)| other.len() >= prefix.len());
        self.handlers.insert(at, (prefix, handler));
        self
    }

    fn find<'a>(
        &self,
        path: &'a str,
        is_for: impl Fn(&dyn HttpHandler, &str) -> bool,
    ) -> Option<(&str, &'a str, &Arc<dyn HttpHandler>)> {
        self.handlers.iter().find_map(|(prefix, handler)| {
            let rest = path.strip_prefix(prefix.as_str())?;
            let rest = if rest.is_empty() { "/" } else { rest };
            let is_here = rest.starts_with('/') && is_for(handler.as_ref(), rest);
            is_here.then_some((prefix.as_str(), rest, handler))
        })
    }
}

impl HttpHandler for Mounted {
    fn answer(&self, mut request: Request) -> BoxFuture<'static, Response> {
        let method = request.method();
        let found = self.find(request.uri().path(), |handler, rest| handler.takes(method, rest));
        let Some((prefix, rest, handler)) = found else { return Box::pin(async { not_found() }) };
        if !prefix.is_empty() {
            let uri = with_path(request.uri(), rest);
            *request.uri_mut() = uri;
            mount_deeper(request.extensions_mut(), prefix);
        }
        handler.answer(request)
    }

    fn serves(&self, path: &str) -> bool {
        self.find(path, <dyn HttpHandler>::serves).is_some()
    }

    fn takes(&self, method: &Method, path: &str) -> bool {
        self.find(path, |handler, rest| handler.takes(method, rest)).is_some()
    }

    fn checks_scopes(&self, method: &Method, path: &str) -> bool {
        let found = self.find(path, |handler, rest| handler.takes(method, rest));
        found.is_some_and(|(_, rest, handler)| handler.checks_scopes(method, rest))
    }

    fn checks_callers(&self) -> bool {
        self.handlers.iter().all(|(_, handler)| handler.checks_callers())
    }
}

/// Returns an address of another path, with the same host and query.
pub(crate) fn with_path(uri: &Uri, path: &str) -> Uri {
    let text = match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    let Ok(path) = PathAndQuery::from_str(&text) else { return uri.clone() };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(path);
    Uri::from_parts(parts).unwrap_or_else(|_| uri.clone())
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use proto_events::json;
    use proto_events::json::JsonText;

    use super::*;
    use crate::handler::body::RequestBody;
    use crate::handler::connection::mounted_at;
    use crate::handler::message::ResponseBody;
    use crate::handler::respond;

    /// A handler that says its name, its place and the path that it was given.
    struct Says(&'static str, fn(&str) -> bool);

    impl HttpHandler for Says {
        fn answer(&self, request: Request) -> BoxFuture<'static, Response> {
            let said = json!([self.0, mounted_at(request.extensions()), request.uri().to_string()]);
            Box::pin(async move { respond::json(StatusCode::OK, &JsonText::from(said)) })
        }

        fn serves(&self, path: &str) -> bool {
            (self.1)(path)
        }
    }

    async fn asked(mounted: &Mounted, uri: &str) -> (StatusCode, String) {
        let request = http::Request::get(uri).body(RequestBody::empty()).unwrap();
        let response = mounted.answer(request).await;
        let status = response.status();
        let ResponseBody::Whole(body) = response.into_body() else { panic!("the body is whole") };
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn a_path_goes_to_the_longest_prefix_that_serves_it() {
        let inner = Mounted::new().mount("/b", Arc::new(Says("inner", |_| true)));
        let mounted = Mounted::new()
            .mount("/", Arc::new(Says("root", |_| true)))
            .mount("/agents", Arc::new(Says("registry", |path| matches!(path, "/" | "/heartbeat"))))
            .mount("/a", Arc::new(inner));
        let said = async |uri| asked(&mounted, uri).await.1;
        assert_eq!(said("/agents/heartbeat?x=1").await, r#"["registry","/agents","/heartbeat?x=1"]"#);
        assert_eq!(said("/agents").await, r#"["registry","/agents","/"]"#);
        assert_eq!(said("/agents/one/tasks/").await, r#"["root","","/agents/one/tasks/"]"#);
        assert_eq!(said("/agentsheartbeat").await, r#"["root","","/agentsheartbeat"]"#);
        assert_eq!(said("/a/b/c").await, r#"["inner","/a/b","/c"]"#);
        assert_eq!(said("/a/c").await, r#"["root","","/a/c"]"#);
        let alone = Mounted::new().mount("/a", Arc::new(Says("a", |_| true)));
        assert_eq!(asked(&alone, "/b").await, (StatusCode::NOT_FOUND, "Not Found".to_owned()));
    }
}
