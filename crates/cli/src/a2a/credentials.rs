//! The credentials that a card asks for, and the lists of what it says of itself.

use proto_events::json::{JsonObject, JsonText};
use taskreel_http::a2a::{A2aError, Options};

use crate::a2a::failure::{CREDENTIALS_MISSING, EXIT_AUTH, Failure};
use crate::a2a::redact::Redactor;
use crate::a2a::settings::Settings;

/// The header of an API key where the card names no place for it.
const KEY_HEADER: &str = "X-API-Key";

/// A way in which an agent knows its callers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// A token, as `Authorization: Bearer`.
    Bearer,
    /// A key in a header, in the query or in a cookie.
    ApiKey { place: String, name: String },
    /// Any other way.
    Other(String),
}

/// The lists of a card, each as lines for people.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    pub(crate) interfaces: Vec<String>,
    pub(crate) extensions: Vec<String>,
    pub(crate) schemes: Vec<String>,
    pub(crate) requirements: Vec<String>,
    pub(crate) inputs: Vec<String>,
    pub(crate) outputs: Vec<String>,
    pub(crate) skills: Vec<String>,
}

fn object(json: &JsonText) -> JsonObject {
    json.read().unwrap_or_default()
}

fn objects(card: &JsonObject, name: &str) -> Vec<JsonObject> {
    let items: Vec<JsonText> = card.get(name).and_then(|list| list.read().ok()).unwrap_or_default();
    items.iter().map(object).collect()
}

fn text(object: &JsonObject, name: &str) -> Option<String> {
    object.get(name).and_then(JsonText::to_str).filter(|text| !text.is_empty())
}

fn texts(object: &JsonObject, name: &str) -> Vec<String> {
    object.get(name).and_then(|list| list.read().ok()).unwrap_or_default()
}

/// Returns the schemes that a card declares, in the form of either version, by their names.
pub(crate) fn schemes(card: &JsonText) -> Vec<(String, Scheme)> {
    let declared = object(card).get("securitySchemes").map(object).unwrap_or_default();
    declared.iter().map(|(name, scheme)| (name.to_owned(), scheme_of(&object(scheme)))).collect()
}

fn scheme_of(scheme: &JsonObject) -> Scheme {
    let inner = |name: &str| scheme.get(name).map(object);
    let key = |place: Option<String>, name: Option<String>| Scheme::ApiKey {
        place: place.unwrap_or_else(|| "header".to_owned()).to_ascii_lowercase(),
        name: name.unwrap_or_else(|| KEY_HEADER.to_owned()),
    };
    if let Some(one) = inner("apiKeySecurityScheme") {
        return key(text(&one, "location"), text(&one, "name"));
    }
    let of_http = |one: &JsonObject| match text(one, "scheme") {
        Some(word) if word.eq_ignore_ascii_case("bearer") => Scheme::Bearer,
        word => Scheme::Other(format!("http {}", word.unwrap_or_default())),
    };
    if let Some(one) = inner("httpAuthSecurityScheme") {
        return of_http(&one);
    }
    if inner("oauth2SecurityScheme").or_else(|| inner("openIdConnectSecurityScheme")).is_some() {
        return Scheme::Bearer;
    }
    match text(scheme, "type").as_deref() {
        Some("apiKey") => key(text(scheme, "in"), text(scheme, "name")),
        Some("http") => of_http(scheme),
        Some("oauth2" | "openIdConnect") => Scheme::Bearer,
        Some(other) => Scheme::Other(other.to_owned()),
        None => Scheme::Other(scheme.iter().next().map_or_else(String::new, |(name, _)| name.to_owned())),
    }
}

/// Returns the sets of schemes that a card asks for, one of which must be met.
fn requirements(card: &JsonText) -> Vec<Vec<String>> {
    let card = object(card);
    let names = |set: &JsonObject| set.iter().map(|(name, _)| name.to_owned()).collect::<Vec<_>>();
    let new = objects(&card, "securityRequirements");
    let new = new.iter().map(|set| set.get("schemes").map(object).unwrap_or_default());
    let old = objects(&card, "security");
    new.chain(old).map(|set| names(&set)).collect()
}

/// Returns the settings of a client with the credentials, each where the card says.
///
/// # Errors
/// [`Failure`] if the card asks for one that is not given, or one cannot stand in a header.
pub(crate) fn applied(options: Options, settings: &Settings, card: &JsonText) -> Result<Options, Failure> {
    let declared = schemes(card);
    // A token that was brought for this agent is shown where its card wants one, not to a server that asks for nothing.
    let wants_bearer = || declared.iter().any(|(_, scheme)| *scheme == Scheme::Bearer);
    let bearer = settings.text("bearer").filter(|_| !settings.is_of_login() || wants_bearer());
    let key = settings.text("api-key");
    let parameters = parameters(settings)?;
    let is_met = |set: &Vec<String>| {
        set.iter().all(|name| {
            match declared.iter().find(|(known, _)| known == name).map(|(_, scheme)| scheme) {
                Some(Scheme::Bearer) => bearer.is_some(),
                Some(Scheme::ApiKey { .. }) => key.is_some(),
                // What is not declared, or not known here, is left to the agent.
                Some(Scheme::Other(_)) | None => true,
            }
        })
    };
    let asked = requirements(card);
    // A service parameter may be a credential of any kind.
    if parameters.is_empty() && !asked.is_empty() && !asked.iter().any(is_met) {
        return Err(missing(&declared, &asked));
    }
    let wrong =
        |error: A2aError| Failure::usage(error.to_string(), "check the credential and the parameters");
    let mut options = options;
    if let Some(token) = bearer {
        if token.chars().any(|letter| !letter.is_ascii_graphic()) {
            return Err(Failure::usage("the token cannot stand in a header", "give it without white space"));
        }
        options = options.bearer(token);
    }
    if let Some(key) = key {
        let place = declared.iter().find_map(|(_, scheme)| match scheme {
            Scheme::ApiKey { place, name } => Some((place.as_str(), name.as_str())),
            _ => None,
        });
        options = match place {
            Some(("query", name)) => options.query(name, key),
            Some(("cookie", name)) => options.header("cookie", &format!("{name}={key}")).map_err(wrong)?,
            Some((_, name)) => options.header(name, key).map_err(wrong)?,
            None => options.header(KEY_HEADER, key).map_err(wrong)?,
        };
    }
    for (name, value) in &parameters {
        options = options.header(name, value).map_err(wrong)?;
    }
    Ok(options)
}

/// Returns the service parameters.
pub(crate) fn parameters(settings: &Settings) -> Result<Vec<(String, String)>, Failure> {
    let lines = settings.text("svc-param").unwrap_or_default().lines();
    let one = |line: &str| {
        let wrong = || Failure::usage("a service parameter is none", "give it as --svc-param NAME:VALUE");
        let (name, value) = line.split_once(':').ok_or_else(wrong)?;
        if name.eq_ignore_ascii_case("a2a-version") {
            return Err(Failure::usage(
                "the version is no service parameter to give here",
                "use --a2a-version",
            ));
        }
        Ok((name.trim().to_owned(), value.trim().to_owned()))
    };
    lines.filter(|line| !line.trim().is_empty()).map(one).collect()
}

/// Returns what takes the credentials in force out of what is shown.
pub(crate) fn redactor(settings: &Settings) -> Redactor {
    let single = ["bearer", "api-key", "client-secret"]
        .into_iter()
        .filter_map(|name| settings.text(name).map(str::to_owned));
    let parameters = parameters(settings).unwrap_or_default().into_iter().map(|(_, value)| value);
    Redactor::from_credentials(single.chain(parameters))
}

fn missing(declared: &[(String, Scheme)], asked: &[Vec<String>]) -> Failure {
    let names = asked.iter().map(|set| set.join(" and ")).collect::<Vec<_>>().join(", or ");
    let has = |wanted: fn(&Scheme) -> bool| {
        declared
            .iter()
            .any(|(name, scheme)| wanted(scheme) && asked.iter().flatten().any(|asked| asked == name))
    };
    let hint = match (has(|one| *one == Scheme::Bearer), has(|one| matches!(one, Scheme::ApiKey { .. }))) {
        (true, true) => "set A2ACLI_BEARER or A2ACLI_API_KEY",
        (true, false) => {
            "set A2ACLI_BEARER to the token, for example in a file with mode 0600 for --config; where the card names an authorization server, `taskreel a2a auth login` gets one"
        }
        (false, true) => "set A2ACLI_API_KEY to the key, for example in a file with mode 0600 for --config",
        (false, false) => "`taskreel a2a card get` shows the schemes",
    };
    let message = format!("the agent's card asks for a credential ({names}), and none was given");
    Failure::new(CREDENTIALS_MISSING, EXIT_AUTH, message, hint)
}

/// Returns the lists of a card.
pub(crate) fn lists(card: &JsonText) -> Lists {
    let fields = object(card);
    let join = |words: &[Option<String>]| words.iter().flatten().cloned().collect::<Vec<_>>().join(" ");
    let mut interfaces: Vec<String> = objects(&fields, "supportedInterfaces")
        .iter()
        .map(|one| {
            let tenant = text(one, "tenant").map(|tenant| format!("tenant {tenant}"));
            join(&[text(one, "protocolBinding"), text(one, "protocolVersion"), text(one, "url"), tenant])
        })
        .collect();
    if interfaces.is_empty() {
        let version = text(&fields, "protocolVersion");
        interfaces.extend(
            text(&fields, "url").map(|url| join(&[text(&fields, "preferredTransport"), version, Some(url)])),
        );
    }
    let capabilities = fields.get("capabilities").map(object).unwrap_or_default();
    let extensions = objects(&capabilities, "extensions").into_iter().map(|one| {
        let is_required = one.get("required").is_some_and(|value| value.as_str() == "true");
        join(&[text(&one, "uri"), is_required.then(|| "(required)".to_owned())])
    });
    let skills = objects(&fields, "skills").into_iter().map(|one| {
        join(&[
            text(&one, "id"),
            text(&one, "name").map(|name| format!("({name})")),
            text(&one, "description"),
        ])
    });
    let schemes = schemes(card).into_iter().map(|(name, scheme)| match scheme {
        Scheme::Bearer => format!("{name} bearer token"),
        Scheme::ApiKey { place, name: key } => format!("{name} API key in the {place} {key}"),
        Scheme::Other(what) => format!("{name} {what}, which this program does not speak"),
    });
    Lists {
        interfaces,
        extensions: extensions.collect(),
        schemes: schemes.collect(),
        requirements: requirements(card).iter().map(|set| set.join(" and ")).collect(),
        inputs: texts(&fields, "defaultInputModes"),
        outputs: texts(&fields, "defaultOutputModes"),
        skills: skills.collect(),
    }
}
