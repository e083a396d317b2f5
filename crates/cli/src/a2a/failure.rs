//! The failures of `a2a`: a code for programs, words for people, and the exit code, by the specification of A2A command
//! lines. What the protocol names has the protocol's name.

use proto_events::json::{JsonObject, JsonText};
use taskreel_http::a2a::{A2aError, ErrorKind, ErrorReply};
use taskreel_http::protolink::ClientError;

use crate::a2a::redact::Redactor;
use crate::print::problem::{EXIT_INTERRUPTED, EXIT_NO, EXIT_USAGE, Problem};

/// The agent or its card cannot be reached.
pub(crate) const EXIT_UNREACHABLE: u8 = 3;
/// The credentials are missing, or were refused.
pub(crate) const EXIT_AUTH: u8 = 4;
/// The time for the wait has passed.
pub(crate) const EXIT_TIMEOUT: u8 = 5;

/// The codes of failures that the protocol does not name.
pub(crate) const USAGE: &str = "A2ACLI_ERR_USAGE";
pub(crate) const CARD_NOT_FOUND: &str = "A2ACLI_ERR_CARD_NOT_FOUND";
pub(crate) const CARD_INVALID: &str = "A2ACLI_ERR_CARD_INVALID";
pub(crate) const UNREACHABLE: &str = "A2ACLI_ERR_UNREACHABLE";
pub(crate) const CREDENTIALS_MISSING: &str = "A2ACLI_ERR_CREDENTIALS_MISSING";
pub(crate) const AUTH_FAILED: &str = "A2ACLI_ERR_AUTH_FAILED";
pub(crate) const TIMEOUT: &str = "A2ACLI_ERR_TIMEOUT";
pub(crate) const INTERNAL: &str = "A2ACLI_ERR_INTERNAL";
/// The code of an interruption. The specification has none, and keeps its own prefix to itself.
const INTERRUPTED: &str = "TASKREEL_INTERRUPTED";

/// The names of the protocol's errors.
const NAMES: [(ErrorKind, &str, &str); 14] = [
    (
        ErrorKind::TaskNotFound,
        "TaskNotFoundError",
        "`taskreel a2a task list` lists the tasks that this caller has",
    ),
    (ErrorKind::TaskNotCancelable, "TaskNotCancelableError", "`taskreel a2a task get` shows its state"),
    (
        ErrorKind::PushNotificationNotSupported,
        "PushNotificationNotSupportedError",
        "follow the task: `taskreel a2a task subscribe`, or `task get --wait`",
    ),
    (
        ErrorKind::UnsupportedOperation,
        "UnsupportedOperationError",
        "`taskreel a2a card get` shows what the agent can do",
    ),
    (
        ErrorKind::ContentTypeNotSupported,
        "ContentTypeNotSupportedError",
        "`taskreel a2a card get` shows the media types that the agent reads",
    ),
    (ErrorKind::InvalidAgentResponse, "InvalidAgentResponseError", "`--debug` shows what the agent answered"),
    (
        ErrorKind::ExtendedAgentCardNotConfigured,
        "ExtendedAgentCardNotConfiguredError",
        "leave out --extended",
    ),
    (
        ErrorKind::ExtensionSupportRequired,
        "ExtensionSupportRequiredError",
        "name the extension with --svc-param A2A-Extensions:URI; `card get` lists those that the agent requires",
    ),
    (
        ErrorKind::VersionNotSupported,
        "VersionNotSupportedError",
        "`taskreel a2a card get` shows the versions; --a2a-version chooses one",
    ),
    (ErrorKind::Parse, "JSONParseError", "`--debug` shows what was sent"),
    (ErrorKind::InvalidRequest, "InvalidRequestError", "`--debug` shows what was sent"),
    (ErrorKind::MethodNotFound, "MethodNotFoundError", "`taskreel a2a card get` shows what the agent can do"),
    (ErrorKind::InvalidParams, "InvalidParamsError", "`--debug` shows what was sent"),
    (ErrorKind::Internal, "InternalError", "`--debug` shows the exchange; the agent's log may say more"),
];

/// A failure.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Failure {
    /// The code for programs.
    pub(crate) code: String,
    /// What people are told.
    pub(crate) message: String,
    /// The advice.
    pub(crate) hint: Option<String>,
    /// The code over the wire.
    pub(crate) a2a_code: Option<JsonText>,
    /// The exit code.
    pub(crate) exit: u8,
    /// Whether there is nobody to tell it to.
    pub(crate) is_quiet: bool,
}

impl Failure {
    pub(crate) fn new(code: &str, exit: u8, message: impl Into<String>, hint: impl Into<String>) -> Self {
        let hint = Some(hint.into()).filter(|hint| !hint.is_empty());
        Self { code: code.to_owned(), message: message.into(), hint, a2a_code: None, exit, is_quiet: false }
    }

    pub(crate) fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(USAGE, EXIT_USAGE, message, hint)
    }

    pub(crate) fn internal(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(INTERNAL, EXIT_NO, message, hint)
    }

    pub(crate) fn version(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new("VersionNotSupportedError", EXIT_NO, message, hint)
    }

    /// The failure of a command that a signal ended.
    pub(crate) fn interrupted(hint: impl Into<String>) -> Self {
        Self::new(INTERRUPTED, EXIT_INTERRUPTED, "interrupted; nothing was canceled at the agent", hint)
    }

    /// Sets the advice.
    #[must_use]
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Returns the failure without credentials.
    pub(crate) fn cleaned(self, redactor: &Redactor) -> Self {
        let hint = self.hint.as_deref().map(|hint| redactor.clean(hint));
        Self { message: redactor.clean(&self.message), hint, ..self }
    }

    /// Whether the agent refused with this error of the protocol.
    pub(crate) fn is(&self, kind: ErrorKind) -> bool {
        NAMES.iter().any(|(known, name, _)| *known == kind && self.code == *name)
    }

    /// Returns the envelope of the specification.
    pub(crate) fn to_json(&self) -> JsonText {
        let text = |text: &str| JsonText::string(text);
        let mut error = JsonObject::new();
        error.set("code", text(&self.code));
        error.set("message", text(&self.message));
        error.set("hint", self.hint.as_deref().map_or_else(JsonText::null, text));
        error.set("a2aCode", self.a2a_code.clone().unwrap_or_else(JsonText::null));
        let mut envelope = JsonObject::new();
        envelope.set("error", error.to_text());
        envelope.to_text()
    }

    /// Returns the three lines for people.
    pub(crate) fn to_problem(&self) -> Problem {
        let why = match &self.a2a_code {
            Some(code) => format!("{} ({})", self.code, code.to_str().unwrap_or_else(|| code.to_string())),
            None => self.code.clone(),
        };
        let hint =
            self.hint.clone().unwrap_or_else(|| "`--debug` shows the exchange with the agent".to_owned());
        Problem::new(self.exit, self.message.clone(), why, hint)
    }

    /// The failure of a question to an agent.
    pub(crate) fn from_answer(error: &A2aError, has_credentials: bool) -> Self {
        match error {
            A2aError::Refused { reply, .. } => Self::refused(reply, has_credentials),
            A2aError::Transport(error) => Self::transport(error, has_credentials),
            A2aError::Card { .. } => Self::new(
                CARD_INVALID,
                EXIT_NO,
                error.to_string(),
                "`taskreel a2a card get --validate` says more",
            ),
            A2aError::Answer { .. } => {
                let hint = "`--debug` shows what the agent answered";
                Self::new("InvalidAgentResponseError", EXIT_NO, error.to_string(), hint)
            }
            A2aError::Observer(why) => {
                let hint = "check that the directory of --record can be written, and has free space";
                Self::internal(format!("the exchange could not be recorded: {why}"), hint)
            }
            other => Self::internal(other.to_string(), ""),
        }
    }

    fn refused(reply: &ErrorReply, has_credentials: bool) -> Self {
        let a2a_code = match reply.code {
            Some(code) => Some(JsonText::of_model(&code)),
            None if reply.status >= 400 => Some(JsonText::of_model(&reply.status)),
            None => None,
        };
        let words =
            if reply.message.is_empty() { "the agent gives no reason" } else { reply.message.as_str() };
        let message = format!("the agent refused: {words}");
        if matches!(reply.kind, ErrorKind::Unauthenticated | ErrorKind::Forbidden) {
            return Self { message, a2a_code, ..Self::not_let_in(has_credentials) };
        }
        let named = NAMES.iter().find(|(kind, ..)| *kind == reply.kind);
        let failure = match named {
            Some((_, name, hint)) => Self::new(name, EXIT_NO, message, *hint),
            None if matches!(reply.kind, ErrorKind::Overloaded | ErrorKind::Unavailable) => {
                Self::internal(message, "run the same command again a little later")
            }
            None => Self::internal(message, ""),
        };
        Self { a2a_code, ..failure }
    }

    fn transport(error: &ClientError, has_credentials: bool) -> Self {
        let message = error.to_string();
        match error {
            ClientError::Unreachable { url, why } => {
                let hint = "check the address, and that the agent runs";
                // The client's own words name the address once more before the cause.
                let why =
                    why.rsplit_once("client error (Connect): ").map_or(why.as_str(), |(_, cause)| cause);
                Self::new(UNREACHABLE, EXIT_UNREACHABLE, format!("{url} cannot be reached: {why}"), hint)
            }
            ClientError::Protocol { url, why } => {
                let hint = "`--debug` shows how far it came";
                Self::new(
                    UNREACHABLE,
                    EXIT_UNREACHABLE,
                    format!("the connection to {url} broke: {why}"),
                    hint,
                )
            }
            ClientError::TimedOut { url, after } => {
                let message = format!("{url} did not answer within {after:?}");
                Self::new(TIMEOUT, EXIT_TIMEOUT, message, "a longer --timeout waits longer")
            }
            ClientError::Status { status, .. } if matches!(status.as_u16(), 401 | 403) => Self {
                message,
                a2a_code: Some(JsonText::of_model(&status.as_u16())),
                ..Self::not_let_in(has_credentials)
            },
            ClientError::Status { status, .. } => {
                let failure = match status.as_u16() {
                    502..=504 => Self::new(
                        UNREACHABLE,
                        EXIT_UNREACHABLE,
                        message,
                        "check that the agent runs behind its proxy",
                    ),
                    _ => Self::internal(message, "check that the address is that of an A2A agent"),
                };
                Self { a2a_code: Some(JsonText::of_model(&status.as_u16())), ..failure }
            }
            ClientError::Url { .. } => {
                Self::usage(message, "use an address such as https://agent.example.org")
            }
            _ => Self::internal(message, ""),
        }
    }

    fn not_let_in(has_credentials: bool) -> Self {
        if has_credentials {
            Self::new(
                AUTH_FAILED,
                EXIT_AUTH,
                "",
                "check the credential, and that it is the one that `card get` asks for",
            )
        } else {
            let hint =
                "set A2ACLI_BEARER or A2ACLI_API_KEY; `taskreel a2a card get` shows which one is asked for";
            Self::new(CREDENTIALS_MISSING, EXIT_AUTH, "", hint)
        }
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        let message = format!("{}: {}", problem.what, problem.why);
        let code = if problem.code == EXIT_USAGE { USAGE } else { INTERNAL };
        Self { is_quiet: problem.quiet, ..Self::new(code, problem.code, message, problem.hint) }
    }
}
