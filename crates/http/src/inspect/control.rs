//! The decisions of people on the pages: who carries them out, and the proof that a form is one of ours and that its maker had shown
//! all of what is decided.

use std::sync::Arc;

use http::HeaderMap;
use http::header::{HOST, HeaderValue, ORIGIN};
use http::request::Parts;
use http::uri::Authority;
use proto_events::envelope::Principal;
use proto_events::id::StreamId;
use proto_events::json::JsonText;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use taskreel::{BoxFuture, System};
use taskreel_log::jsonl::hex;
use taskreel_log::ports::Ports;

use crate::api::control;
use crate::api::routes::Control;
use crate::auth::caller::{Caller, Scope, Scopes};
use crate::error::Problem;

/// The part of a program that carries out the decisions that people make on the pages.
///
/// [`System`] is one: the decisions are then made as by its live API, with the same checks and the same records.
pub trait ControlBackend: Send + Sync + 'static {
    /// Carries out a decision about a task for this caller. The decision and its body are named as in the live API: `approve`, `deny`,
    /// `reconcile`, `abandon`, `answer`, `cancel`; and so is the result, `taskreel.decision/1`.
    fn decide(
        &self,
        task: StreamId,
        decision: &'static str,
        body: JsonText,
        caller: Caller,
    ) -> BoxFuture<'static, Result<JsonText, Problem>>;

    /// Returns the name under which the log will record a decision of this caller, in words. By default it is the caller's own.
    fn recorded_as(&self, caller: &Caller) -> String {
        let Principal { name, basis } = &caller.principal;
        let name = if name.is_empty() { "a caller without a name" } else { name };
        format!("{name} ({})", basis.as_str())
    }
}

impl ControlBackend for System {
    fn decide(
        &self,
        task: StreamId,
        decision: &'static str,
        body: JsonText,
        caller: Caller,
    ) -> BoxFuture<'static, Result<JsonText, Problem>> {
        let system = self.clone();
        Box::pin(async move {
            let control = control_of(decision)
                .ok_or_else(|| Problem::malformed(format!("there is no decision `{decision}`")))?;
            let system = system.agent(&task.agent()).ok_or_else(|| {
                Problem::not_found(format!("this program does not run the agent `{}`", task.agent()))
            })?;
            control::decide(control, (&system, task), (&HeaderMap::new(), &caller), Some(body)).await
        })
    }
}

fn control_of(decision: &str) -> Option<Control> {
    Some(match decision {
        "abandon" => Control::Abandon,
        "answer" => Control::Answer,
        "approve" => Control::Approve,
        "cancel" => Control::Cancel,
        "deny" => Control::Deny,
        "reconcile" => Control::Reconcile,
        _ => return None,
    })
}

/// A control backend, and the secret with which the forms for it are signed.
#[derive(Clone)]
pub(crate) struct SignedControl {
    backend: Arc<dyn ControlBackend>,
    secret: Arc<[u8; 32]>,
}

impl std::fmt::Debug for SignedControl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SignedControl").finish_non_exhaustive()
    }
}

impl SignedControl {
    pub(crate) fn new(backend: Arc<dyn ControlBackend>) -> Self {
        let (ids, mut secret) = (Ports::default().ids, [0; 32]);
        for half in secret.chunks_exact_mut(16) {
            half.copy_from_slice(&ids.random());
        }
        Self { backend, secret: Arc::new(secret) }
    }

    /// Returns what signs forms for a caller; `None` if the caller may not decide.
    pub(crate) fn signer(&self, caller: &Caller) -> Option<Signer> {
        let signer = || Signer {
            secret: Arc::clone(&self.secret),
            by: caller.principal.clone(),
            recorded_as: self.backend.recorded_as(caller),
        };
        caller.scopes.has(Scope::Control).then(signer)
    }

    /// Carries out a decision.
    ///
    /// # Errors
    /// [`Problem`] if it is refused.
    pub(crate) async fn decide(
        &self,
        task: StreamId,
        (decision, body): (&'static str, JsonText),
        caller: Caller,
    ) -> Result<JsonText, Problem> {
        self.backend.decide(task, decision, body, caller).await
    }
}

/// The signer of the forms of one caller.
#[derive(Debug, Clone)]
pub(crate) struct Signer {
    secret: Arc<[u8; 32]>,
    by: Principal,
    /// The name that the log will record, in words.
    pub(crate) recorded_as: String,
}

impl Signer {
    /// Returns the token of a form about this approval, question, call or task, whose arguments all stand on the page.
    pub(crate) fn token(&self, task: &StreamId, about: &str, shown: &str) -> String {
        let mut inner = Sha256::new();
        for text in [self.by.basis.as_str(), &self.by.name, task.as_str(), about, shown] {
            inner.update((text.len() as u64).to_le_bytes());
            inner.update(text);
        }
        let mut outer = Sha256::new_with_prefix(self.secret.as_ref());
        outer.update(Sha256::new_with_prefix(self.secret.as_ref()).chain_update(inner.finalize()).finalize());
        hex(&outer.finalize())
    }

    /// Whether a token is that of a form.
    pub(crate) fn has_signed(&self, token: &str, task: &StreamId, about: &str, shown: &str) -> bool {
        self.token(task, about, shown).as_bytes().ct_eq(token.as_bytes()).into()
    }
}

/// Returns the digest by which a form names the arguments that were shown.
pub(crate) fn digest_of(args: Option<&JsonText>) -> String {
    args.map_or_else(String::new, |args| hex(&Sha256::digest(args.as_str())))
}

/// Returns the caller of a request; without one, nobody has checked it, and the host that mounts the pages answers for it.
pub(crate) fn caller_of(parts: &Parts) -> Caller {
    let unchecked = || Caller { principal: Principal::asserted("http"), scopes: Scopes::ALL };
    parts.extensions.get::<Caller>().cloned().unwrap_or_else(unchecked)
}

/// Checks that a request was sent by a form of a page of this server: browsers name the origin of each form that is sent.
///
/// # Errors
/// [`Problem`] if it was not.
pub(crate) fn check_origin(headers: &HeaderMap) -> Result<(), Problem> {
    let refused =
        || Problem::forbidden("a decision is sent by a form of these pages alone: load the page again");
    let text = |value: Option<&HeaderValue>| value.and_then(|value| value.to_str().ok()).map(str::to_owned);
    let site = text(headers.get("sec-fetch-site")).unwrap_or_else(|| "same-origin".to_owned());
    let origin = text(headers.get(ORIGIN)).ok_or_else(refused)?;
    let host: Authority = text(headers.get(HOST)).and_then(|host| host.parse().ok()).ok_or_else(refused)?;
    let (scheme, origin) = origin.split_once("://").ok_or_else(refused)?;
    let origin: Authority = origin.parse().map_err(|_| refused())?;
    let usual = if scheme == "https" { 443 } else { 80 };
    let port = |authority: &Authority| authority.port_u16().unwrap_or(usual);
    let is_own = origin.host().eq_ignore_ascii_case(host.host()) && port(&origin) == port(&host);
    if is_own && site == "same-origin" { Ok(()) } else { Err(refused()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing;

    impl ControlBackend for Nothing {
        fn decide(
            &self,
            _: StreamId,
            _: &'static str,
            _: JsonText,
            _: Caller,
        ) -> BoxFuture<'static, Result<JsonText, Problem>> {
            Box::pin(async { Err(Problem::forbidden("nothing is decided here")) })
        }
    }

    #[test]
    fn a_token_is_good_for_one_caller_one_subject_and_what_was_shown_and_for_one_program() {
        let backend = SignedControl::new(Arc::new(Nothing));
        let of = |name: &str| {
            let caller = Caller { principal: Principal::authenticated(name), scopes: Scopes::ALL };
            backend.signer(&caller).unwrap()
        };
        let (task, other) = (StreamId::task("a", "t").unwrap(), StreamId::task("a", "u").unwrap());
        let token = of("ada").token(&task, "approval_1", "00");
        assert!(of("ada").has_signed(&token, &task, "approval_1", "00"));
        for (by, task, about, shown) in [
            ("eve", &task, "approval_1", "00"),
            ("ada", &other, "approval_1", "00"),
            ("ada", &task, "approval_2", "00"),
            ("ada", &task, "approval_1", "01"),
            ("ada", &task, "approval_10", "0"),
        ] {
            assert!(!of(by).has_signed(&token, task, about, shown), "{by} {about} {shown}");
        }
        let again = SignedControl::new(Arc::new(Nothing));
        let ada = Caller { principal: Principal::authenticated("ada"), scopes: Scopes::ALL };
        assert!(!again.signer(&ada).unwrap().has_signed(&token, &task, "approval_1", "00"));
        let reader = Caller { scopes: Scopes::NONE.with(Scope::Read), ..ada };
        assert!(backend.signer(&reader).is_none());
    }

    #[test]
    fn a_form_of_another_site_and_one_of_no_site_are_refused() {
        let check = |host: &str, origin: Option<&str>, site: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, host.parse().unwrap());
            for (name, value) in [("origin", origin), ("sec-fetch-site", site)] {
                if let Some(value) = value {
                    headers.insert(name, value.parse().unwrap());
                }
            }
            check_origin(&headers).is_ok()
        };
        assert!(check("localhost:8080", Some("http://localhost:8080"), Some("same-origin")));
        assert!(check("example.org", Some("https://example.org"), None));
        for (origin, site) in [
            (None, Some("same-origin")),
            (Some("null"), None),
            (Some("http://evil.example"), None),
            (Some("http://localhost:8081"), None),
            (Some("http://localhost"), None),
            (Some("http://localhost:8080"), Some("cross-site")),
            (Some("http://localhost:8080"), Some("same-site")),
            (Some("http://localhost:8080@evil.example"), None),
        ] {
            assert!(!check("localhost:8080", origin, site), "{origin:?} {site:?}");
        }
    }
}
