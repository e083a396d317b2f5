//! A form that was sent: the decision that it states, checked against its token, and carried out.

use bytes::Bytes;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use proto_events::id::StreamId;
use proto_events::json::{JsonObject, JsonText};

use crate::error::Problem;
use crate::handler::body::{BodyError, RequestBody};
use crate::handler::path::form;
use crate::inspect::answer::PageAnswer;
use crate::inspect::control::{SignedControl, caller_of, check_origin};
use crate::inspect::frame::Cx;
use crate::limits::INSPECT_FORM_MAX;

/// Carries out the decision of a form, and leads to the task's page.
///
/// # Errors
/// [`Problem`] if the form is not one of ours, the caller may not decide, or the decision is refused.
pub(crate) async fn decided(
    cx: &Cx,
    backend: &SignedControl,
    parts: &Parts,
    body: RequestBody,
) -> Result<PageAnswer, Problem> {
    check_origin(&parts.headers)?;
    let caller = caller_of(parts);
    let signer = backend.signer(&caller);
    let signer = signer.ok_or_else(|| Problem::forbidden("the caller does not have the scope of control"))?;
    let fields = DecisionFields::read(parts, body).await?;
    let task =
        StreamId::parse(fields.text("task")?).map_err(|error| Problem::malformed(error.to_string()))?;
    let (about, shown) = (fields.text("about")?, fields.optional("shown"));
    if !signer.has_signed(fields.text("token")?, &task, about, shown) {
        let why = "the form is not one of this program for this caller; it may have been started again: load the page again";
        return Err(Problem::new(StatusCode::CONFLICT, "form", why));
    }
    let decision = fields.decision(about)?;
    backend.decide(task.clone(), decision, caller).await?;
    Ok(PageAnswer::Other(cx.links.stream(&task), None))
}

/// The fields of a form.
struct DecisionFields(Vec<(String, String)>);

impl DecisionFields {
    async fn read(parts: &Parts, body: RequestBody) -> Result<Self, Problem> {
        let kind = parts.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if kind.split(';').next().is_none_or(|kind| kind.trim() != "application/x-www-form-urlencoded") {
            return Err(Problem::from(BodyError::OtherType(kind.to_owned())));
        }
        let body: Bytes = body.read(INSPECT_FORM_MAX).await?;
        let text = std::str::from_utf8(&body).map_err(|error| Problem::malformed(error.to_string()))?;
        form(text).map(Self).map_err(|error| Problem::malformed(error.to_string()))
    }

    fn optional(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value.as_str())
    }

    fn text(&self, name: &str) -> Result<&str, Problem> {
        let missing = || Problem::malformed(format!("give the field `{name}`"));
        Some(self.optional(name)).filter(|text| !text.trim().is_empty()).ok_or_else(missing)
    }

    /// Returns the decision as the live API names it, and its body.
    fn decision(&self, about: &str) -> Result<(&'static str, JsonText), Problem> {
        let text = JsonText::string;
        let reason = Some(self.optional("reason").trim()).filter(|reason| !reason.is_empty()).map(text);
        let (word, members) = match self.text("decision")? {
            "approve" => ("approve", vec![("approval", Some(text(about)))]),
            "deny" => ("deny", vec![("approval", Some(text(about))), ("reason", reason)]),
            "landed" => {
                let landed = JsonText::parse(self.text("landed")?.trim()).map_err(|error| {
                    let form = "the result is given as JSON, as the tool would have returned it, such as \"R-17\" or {\"id\": 7}";
                    Problem::malformed(format!("{form}: {error}"))
                })?;
                ("reconcile", vec![("call", Some(text(about))), ("landed", Some(landed))])
            }
            "did-not-happen" => ("reconcile", vec![("call", Some(text(about)))]),
            "abandon" => {
                let reason = Some(text(self.text("reason")?.trim()));
                ("abandon", vec![("call", Some(text(about))), ("reason", reason)])
            }
            "answer" => {
                let answer = Some(text(self.text("answer")?));
                ("answer", vec![("question", Some(text(about))), ("answer", answer)])
            }
            "decline" => {
                let why = Some(text(self.text("reason")?.trim()));
                ("answer", vec![("question", Some(text(about))), ("declined", why)])
            }
            "cancel" => ("cancel", vec![("reason", reason)]),
            other => return Err(Problem::malformed(format!("there is no decision `{other}`"))),
        };
        let members = members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        Ok((word, members.collect::<JsonObject>().to_text()))
    }
}
