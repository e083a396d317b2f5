//! The check before a handler: host, origin, credentials, scope and bounds, in this order, before the handler sees
//! anything of the request.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, CONTENT_TYPE,
    HeaderValue, RETRY_AFTER, UPGRADE, VARY, WWW_AUTHENTICATE,
};
use http::{HeaderMap, Method, StatusCode, Uri};
use proto_events::envelope::Principal;
use proto_events::json;
use proto_events::json::JsonText;
use taskreel::BoxFuture;

use crate::auth::access::Access;
use crate::auth::allowance::{Allowance, TakenQuota};
use crate::auth::caller::{Caller, Scope, Scopes};
use crate::auth::places::{Origin, Places};
use crate::auth::presented_secret::{presented, without_credentials};
use crate::auth::quota::{QuotaPermit, Usage};
use crate::auth::refusals::{Refusal, Refusals};
use crate::auth::response_permits::holding;
use crate::auth::routes::{Need, RouteClass, Rule, rule_of};
use crate::error::Problem;
use crate::handler::message::{HttpHandler, Request, Response, ResponseBody};
use crate::limits::ANSWER_UNCOUNTED;

/// A handler behind the check of its callers. The [`Caller`] stands in the extensions of each request that the handler gets.
pub struct Guard(Arc<Inner>);

struct Inner {
    access: Arc<Access>,
    places: Places,
    usage: Arc<Usage>,
    refusals: Arc<Refusals>,
    handler: Arc<dyn HttpHandler>,
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard").field("access", &self.0.access).finish_non_exhaustive()
    }
}

impl Guard {
    /// Puts these rules before a handler. It stands at the root: it sees the paths that the rules name.
    pub fn new(access: Access, handler: Arc<dyn HttpHandler>) -> Self {
        Self::counting(access, handler, Arc::default())
    }

    /// Puts these rules before a handler as [`Guard::new`] does, and counts the refused requests here.
    pub fn counting(access: Access, handler: Arc<dyn HttpHandler>, refusals: Arc<Refusals>) -> Self {
        let usage = Arc::new(Usage::new(access.quota));
        let places = access.places.clone();
        Self(Arc::new(Inner { access: Arc::new(access), places, usage, refusals, handler }))
    }

    /// Puts the same rules before the handler of another port: a principal has one quota for both. The port answers only
    /// requests that name a host of this machine, or an allowed one, if `is_local`; see [`Access::only_local_hosts`].
    #[must_use]
    pub fn beside(&self, handler: Arc<dyn HttpHandler>, is_local: bool) -> Self {
        let Inner { access, places, usage, refusals, .. } = &*self.0;
        let mut places = places.clone();
        places.is_local = is_local;
        let (access, usage, refusals) = (Arc::clone(access), Arc::clone(usage), Arc::clone(refusals));
        Self(Arc::new(Inner { access, places, usage, refusals, handler }))
    }

    /// Returns the counts of the requests that were refused.
    pub fn refusals(&self) -> Arc<Refusals> {
        Arc::clone(&self.0.refusals)
    }
}

impl HttpHandler for Guard {
    fn answer(&self, request: Request) -> BoxFuture<'static, Response> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move { inner.answer(request).await })
    }

    fn serves(&self, path: &str) -> bool {
        self.0.handler.serves(path)
    }

    fn checks_callers(&self) -> bool {
        self.0.access.authenticates()
    }

    fn takes(&self, method: &Method, path: &str) -> bool {
        // A browser asks before it sends, whatever the handler's own methods are.
        self.0.handler.takes(method, path) || *method == Method::OPTIONS && self.0.handler.serves(path)
    }

    fn checks_scopes(&self, method: &Method, path: &str) -> bool {
        self.0.handler.checks_scopes(method, path)
    }
}

/// A request that was let in.
struct AdmittedRequest {
    request: Request,
    /// The quota of the caller and the places that the request has of it; `None` for one that does not count.
    places: Option<(Allowance, TakenQuota)>,
    origin: Origin,
}

impl Inner {
    async fn answer(self: Arc<Self>, request: Request) -> Response {
        let admitted = match self.admit(request).await {
            Ok(admitted) => admitted,
            Err(refusal) => return *refusal,
        };
        let AdmittedRequest { request, places, origin } = admitted;
        let answer = tokio::time::timeout(self.access.answer_within, self.handler.answer(request)).await;
        let response = answer.unwrap_or_else(|_| {
            let message = format!(
                "the answer took more than {} seconds; what was submitted goes on",
                self.access.answer_within.as_secs()
            );
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "time_limit", message).into_response()
        });
        let response = match places {
            Some((allowance, taken)) => attach_permits(response, &allowance, taken).await,
            None => response,
        };
        visible_to(response, &origin)
    }

    async fn admit(&self, mut request: Request) -> Result<AdmittedRequest, Box<Response>> {
        let is_upgrade = *request.method() == Method::GET && request.headers().contains_key(UPGRADE);
        let mut rule = rule_of(request.method(), request.uri().path(), is_upgrade);
        // The table knows no names of agents.
        if rule.class == RouteClass::Other
            && self.handler.checks_scopes(request.method(), request.uri().path())
        {
            rule = Rule { class: RouteClass::A2a, need: Need::AnyScope };
        }
        let nobody = Caller { principal: Principal::default(), scopes: Scopes::NONE };
        let free = |mut request: Request, origin| {
            request.extensions_mut().insert(nobody);
            Ok(AdmittedRequest { request, places: None, origin })
        };
        // A supervisor asks by address.
        if rule.need == Need::Nothing && rule.class == RouteClass::Ops {
            return free(request, Origin::Own);
        }
        let origin = self.check_places(&request)?;
        if rule.need == Need::Nothing {
            return free(request, origin);
        }
        if let (Origin::Allowed(page), true) = (&origin, is_preflight(&request)) {
            return Err(Box::new(preflight(page)));
        }
        let caller = match self.caller(request.headers(), request.uri(), rule).await {
            Ok(caller) => caller,
            Err(refused) => return Err(Box::new(visible_to(*refused, &origin))),
        };
        let (usage, refusals) = (Arc::clone(&self.usage), Arc::clone(&self.refusals));
        let allowance = Allowance::new(usage, refusals, &caller.principal.name);
        let is_stream = is_upgrade || asks_for_stream(&request);
        let taken = allowance.take(is_stream).map_err(|refused| {
            let mut response = refused.problem.into_response();
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(refused.retry_seconds));
            Box::new(visible_to(response, &origin))
        })?;
        if let Some(uri) = without_credentials(request.uri()) {
            *request.uri_mut() = uri;
        }
        request.extensions_mut().insert(caller);
        // A socket counts each request that comes through it.
        request.extensions_mut().insert(allowance.clone());
        Ok(AdmittedRequest { request, places: Some((allowance, taken)), origin })
    }

    fn refuse(&self, reason: Refusal, problem: Problem) -> Box<Response> {
        self.refusals.count(reason);
        Box::new(problem.into_response())
    }

    /// Names the way of a browser to ask a person too, where a page was asked for and somebody has a user and a password.
    fn asking_a_person(&self, mut refused: Response, headers: &HeaderMap) -> Response {
        let accepts = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
        let has_users = self.access.credentials.iter().any(|credential| credential.user.is_some());
        if has_users && accepts.contains("text/html") {
            let way = HeaderValue::from_static("Basic realm=\"taskreel\", charset=\"UTF-8\"");
            refused.headers_mut().append(WWW_AUTHENTICATE, way);
        }
        refused
    }

    fn check_places(&self, request: &Request) -> Result<Origin, Box<Response>> {
        let places = &self.places;
        let host = places
            .check_host(request.headers(), request.uri())
            .map_err(|problem| self.refuse(Refusal::Host, problem))?;
        places.check_origin(request.headers(), &host).map_err(|problem| self.refuse(Refusal::Origin, problem))
    }

    /// Returns the caller of a request, if it may send it.
    async fn caller(&self, headers: &HeaderMap, uri: &Uri, rule: Rule) -> Result<Caller, Box<Response>> {
        if !self.access.authenticates() {
            return Ok(Caller::unknown());
        }
        let in_query = rule.class.is_protolinks();
        let Some(credential) = presented(headers, uri, in_query) else {
            self.refusals.count(Refusal::Missing);
            let refused = unauthorized(rule, "Missing credentials", "missing_credentials");
            return Err(Box::new(self.asking_a_person(refused, headers)));
        };
        let caller = self.access.caller(&credential).await.map_err(|why| {
            self.refusals.count(Refusal::Failed);
            let text = format!("Authentication failed: {why}");
            Box::new(self.asking_a_person(unauthorized(rule, &text, "authentication_failed"), headers))
        })?;
        if rule.need.is_met(caller.scopes) {
            return Ok(caller);
        }
        let needed = match rule.need {
            Need::Scope(scope) => scope.as_str(),
            Need::AnyScope | Need::Nothing => Scope::Read.as_str(),
        };
        let message = format!("the credential has not the scope `{needed}`, which this request needs");
        Err(self.refuse(Refusal::Forbidden, Problem::forbidden(message)))
    }
}

/// Gives the response its places: the place of a stream, and of the bytes of a long answer, are held until it was sent. Of a socket it
/// is that of the stream alone: the handshake is answered, and the requests that follow take places of their own.
async fn attach_permits(mut response: Response, allowance: &Allowance, taken: TakenQuota) -> Response {
    if let ResponseBody::Whole(bytes) = response.body_mut() {
        if bytes.len() > ANSWER_UNCOUNTED {
            match allowance.take_answer(bytes.len()).await {
                Ok(place) => {
                    *bytes = Bytes::from_owner(CountedBytes { bytes: std::mem::take(bytes), _place: place });
                }
                Err(problem) => {
                    response = problem.into_response();
                    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
                }
            }
        }
        return response;
    }
    let TakenQuota { request, stream } = taken;
    let mut places = vec![stream.unwrap_or_else(|| allowance.take_stream())];
    if let ResponseBody::Pieces(_) = response.body() {
        places.push(request);
    }
    holding(response, places)
}

/// The bytes of an answer, which have their place until the last of them was sent.
struct CountedBytes {
    bytes: Bytes,
    _place: QuotaPermit,
}

impl AsRef<[u8]> for CountedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Lets the page of a request, if it is allowed, read the response.
fn visible_to(response: Response, origin: &Origin) -> Response {
    match origin {
        Origin::Own => response,
        Origin::Allowed(origin) => for_page(response, origin),
    }
}

/// Returns the refusal of a request without a valid credential: Protolink's on its own routes.
fn unauthorized(rule: Rule, text: &str, code: &'static str) -> Response {
    let mut response = if rule.class.is_protolinks() {
        let body = JsonText::from(json!({"error": text})).as_str().to_owned();
        let mut response = Response::new(ResponseBody::Whole(Bytes::from(body)));
        *response.status_mut() = StatusCode::UNAUTHORIZED;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    } else {
        Problem::new(StatusCode::UNAUTHORIZED, code, text).into_response()
    };
    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

/// Whether the client says that it wants a stream: by its path, or by what it accepts.
fn asks_for_stream(request: &Request) -> bool {
    let path = request.uri().path().trim_end_matches('/');
    let accepts = request.headers().get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let named = path.rsplit('/').next().unwrap_or_default();
    matches!(named, "stream" | "live" | "SendStreamingMessage" | "SubscribeToTask")
        || accepts.contains("text/event-stream")
}

fn is_preflight(request: &Request) -> bool {
    *request.method() == Method::OPTIONS && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// Returns the answer to a browser that asks whether an allowed page may send a request.
fn preflight(origin: &str) -> Response {
    let mut response = Response::new(ResponseBody::Whole(Bytes::new()));
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    let methods = HeaderValue::from_static("GET, HEAD, POST, DELETE");
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, methods);
    let names = "a2a-extensions, a2a-version, authorization, content-type, idempotency-key, last-event-id, \
        x-a2a-extensions, x-api-key, x-protolink-request-id";
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(names));
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    for_page(response, origin)
}

/// Lets a page read the response.
fn for_page(mut response: Response, origin: &str) -> Response {
    if let Ok(origin) = HeaderValue::from_str(origin) {
        response.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        response.headers_mut().append(VARY, HeaderValue::from_static("origin"));
        // Besides the body a page reads only the headers that are named to it.
        let read =
            HeaderValue::from_static("etag, retry-after, www-authenticate, x-a2a-extensions, a2a-extensions");
        response.headers_mut().insert(ACCESS_CONTROL_EXPOSE_HEADERS, read);
    }
    response
}
