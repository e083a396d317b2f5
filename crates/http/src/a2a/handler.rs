//! The handler: a path leads to a binding, or to the card.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use taskreel::{BoxFuture, System};

use crate::a2a::bindings::request::Head;
use crate::a2a::bindings::rest::RestCall;
use crate::a2a::bindings::route::{AgentPath, Target, route};
use crate::a2a::bindings::{rest, rpc};
use crate::a2a::card;
use crate::a2a::card_parts::card_signature::CardKey;
use crate::a2a::card_parts::schemes::CardScheme;
use crate::a2a::failure::A2aFailure;
use crate::a2a::settings::{A2aSettings, Extension};
use crate::a2a::version::Version;
use crate::auth::access::Access;
use crate::handler::connection::base_url;
use crate::handler::message::{HttpHandler, Request, Response};
use crate::handler::respond;

/// A2A, versions 1.0 and 0.3, for the agents of a system: the default agent at the root, every agent at `/<name>` and
/// `/agents/<name>`. JSON-RPC is posted to that place itself, REST has its paths under it, and the card is at
/// `/.well-known/agent-card.json` there.
///
/// It takes no path of [`Protolink`](crate::Protolink)'s, so that both are mounted at the same place, this one first:
///
/// ```
/// # use std::sync::Arc;
/// # use taskreel::System;
/// use taskreel_http::{A2a, Protolink, Server};
///
/// # async fn run(system: System) -> Result<(), taskreel_http::ServeError> {
/// let serving = Server::new()
///     .mount("/", Arc::new(A2a::new(system.clone())))
///     .mount("/", Arc::new(Protolink::new(system)))
///     .start("127.0.0.1:0")
///     .await?;
/// # serving.stop().await
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct A2a {
    system: System,
    settings: Arc<A2aSettings>,
}

impl A2a {
    /// Returns the handler of a system's agents.
    pub fn new(system: System) -> Self {
        Self { system, settings: Arc::default() }
    }

    /// Sets the address under which clients reach the root, for the agents' cards. By default it is the one that the request
    /// names, which behind a proxy may be another one.
    #[must_use]
    pub fn url(self, url: &str) -> Self {
        self.with(|settings| settings.url = Some(url.trim_end_matches('/').to_owned()))
    }

    /// Names the host and port at which [`A2a::grpc`] is served, for the agents' cards: the cards of this handler and of all that were
    /// made of it. A host that names none (`0.0.0.0`, `[::]`) stands for the one under which clients reach the card. The first
    /// call counts.
    #[cfg(feature = "grpc")]
    pub fn grpc_at(&self, address: &str) {
        let _first = self.settings.grpc.set(address.to_owned());
    }

    /// Returns the handler for gRPC of the same agents, with the same settings; it has a port of its own, or a place in a host's
    /// server of HTTP/2:
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use taskreel::System;
    /// use taskreel_http::{A2a, Server};
    ///
    /// # async fn run(system: System) -> Result<(), taskreel_http::ServeError> {
    /// let a2a = A2a::new(system);
    /// let grpc = Server::new().mount("/", Arc::new(a2a.grpc())).start_grpc("127.0.0.1:0").await?;
    /// a2a.grpc_at(&grpc.address().to_string());
    /// let http = Server::new().mount("/", Arc::new(a2a)).start("127.0.0.1:0").await?;
    /// # http.stop().await?;
    /// # grpc.stop().await
    /// # }
    /// ```
    #[cfg(feature = "grpc")]
    pub fn grpc(&self) -> crate::a2a::grpc::handler::A2aGrpc {
        crate::a2a::grpc::handler::A2aGrpc::new(self.system.clone(), Arc::clone(&self.settings))
    }

    /// Lets streams wait this long for a handler that answers with a message alone
    /// ([`HandlerEnd::Replied`](taskreel::handler::HandlerEnd)), before they show the task; from then on the task is shown, and the
    /// message in it. By default a stream shows the task at once, and only a client that waits for the answer of `SendMessage` gets
    /// such a message without its task.
    #[must_use]
    pub fn reply_wait(self, wait: Duration) -> Self {
        Self {
            settings: Arc::new(A2aSettings { reply_wait: Some(wait), ..A2aSettings::clone(&self.settings) }),
            ..self
        }
    }

    /// Takes registrations of webhooks, which are told the events of tasks, and says so in the cards. Without deliveries, this
    /// agent calls no webhooks.
    #[cfg(feature = "client")]
    #[must_use]
    pub fn push(self, pushing: &crate::a2a::push::PushDeliveries) -> Self {
        self.with(|settings| settings.push = Some(pushing.clone()))
    }

    /// Says in the cards that callers present a bearer token or an API key, because a [`Guard`](crate::Guard) stands before this
    /// handler, and offers the extended card to those who do.
    #[must_use]
    pub fn secured(self) -> Self {
        self.with(|settings| settings.schemes = vec![CardScheme::Bearer, CardScheme::ApiKey])
    }

    /// Says in the cards which credentials these rules check: tokens, API keys, passwords, signed tokens, and the scopes that
    /// requests need. A [`Guard`](crate::Guard) with the rules stands before this handler. Where they check none, nothing is said.
    #[must_use]
    pub fn access(self, access: &Access) -> Self {
        self.with(|settings| settings.schemes = CardScheme::from_access(access))
    }

    /// Speaks this version only.
    #[must_use]
    pub fn only(self, version: Version) -> Self {
        self.with(|settings| settings.only = Some(version))
    }

    /// Takes messages of these media types only, such as `text/plain` or `image/*`. A part that says nothing of its type is
    /// `text/plain` if it is a text and `application/json` if it is data.
    #[must_use]
    pub fn input_modes<M: Into<String>>(self, modes: impl IntoIterator<Item = M>) -> Self {
        self.with(|settings| settings.input_modes = modes.into_iter().map(Into::into).collect())
    }

    /// Says in the cards that results have these media types. A client that accepts none of them is refused.
    #[must_use]
    pub fn output_modes<M: Into<String>>(self, modes: impl IntoIterator<Item = M>) -> Self {
        self.with(|settings| settings.output_modes = modes.into_iter().map(Into::into).collect())
    }

    /// Declares an extension of the host's own in the cards.
    #[must_use]
    pub fn extension(self, extension: Extension) -> Self {
        self.with(|settings| settings.extensions.push(extension))
    }

    /// Shows these skills on the public cards; all others stand only on the extended card, which callers read who present a
    /// credential.
    #[must_use]
    pub fn public_skills<S: Into<String>>(self, skills: impl IntoIterator<Item = S>) -> Self {
        self.with(|settings| settings.public_skills = Some(skills.into_iter().map(Into::into).collect()))
    }

    /// Signs the cards.
    #[must_use]
    pub fn card_key(self, key: CardKey) -> Self {
        self.with(|settings| settings.key = Some(Arc::new(key)))
    }

    fn with(self, set: impl FnOnce(&mut A2aSettings)) -> Self {
        let mut settings = A2aSettings { kept: Arc::default(), ..A2aSettings::clone(&self.settings) };
        set(&mut settings);
        Self { settings: Arc::new(settings), ..self }
    }
}

impl HttpHandler for A2a {
    fn answer(&self, request: Request) -> BoxFuture<'static, Response> {
        let handler = self.clone();
        Box::pin(async move {
            let Some(found) = route(&handler.system, request.method(), request.uri().path()) else {
                return respond::not_found();
            };
            answer(handler.settings, found, request).await
        })
    }

    fn serves(&self, path: &str) -> bool {
        [Method::GET, Method::POST, Method::DELETE].iter().any(|method| self.takes(method, path))
    }

    fn takes(&self, method: &Method, path: &str) -> bool {
        route(&self.system, method, path).is_some()
    }

    fn checks_scopes(&self, method: &Method, path: &str) -> bool {
        route(&self.system, method, path).is_some_and(|route| route.target == Target::Rpc)
    }
}

async fn answer(settings: Arc<A2aSettings>, found: AgentPath, request: Request) -> Response {
    let AgentPath { system, at, target } = found;
    let (parts, body) = request.into_parts();
    let base = settings.url.clone().unwrap_or_else(|| base_url(&parts));
    let url = base + &at;
    match target {
        Target::OtherMethod(allowed) => respond::method_not_allowed(allowed),
        Target::Card => card::response(&card::card(&system, &url, &settings), &parts.headers),
        Target::Rpc => match Head::new(parts, system, url, settings) {
            Ok(head) => rpc::answer(head, body).await,
            Err(wrong) => rpc::refused(&proto_events::json::JsonText::null(), &A2aFailure::from(wrong)),
        },
        Target::Rest { operation, id, config, is_03 } => {
            let method = parts.method.clone();
            match Head::new(parts, system, url, settings) {
                Ok(head) => rest::answer(method, head, body, RestCall { operation, id, config, is_03 }).await,
                Err(wrong) => rest::refused(&A2aFailure::from(wrong)),
            }
        }
    }
}
