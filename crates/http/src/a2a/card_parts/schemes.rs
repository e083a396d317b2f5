//! The ways in which callers present credentials, as a card names them.

use proto_events::json::JsonText;

use crate::a2a::wire::write::Members;
use crate::auth::access::Access;
use crate::auth::caller::Scope;

/// A way in which callers present credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CardScheme {
    /// A token in `Authorization`.
    Bearer,
    /// A token in `X-API-Key`.
    ApiKey,
    /// A name and a password.
    Basic,
    /// A signed token of an issuer.
    Jwt,
}

impl CardScheme {
    /// Returns the ways that rules check; none where they let everybody in.
    pub(crate) fn from_access(access: &Access) -> Vec<Self> {
        let mut schemes = Vec::new();
        if access.credentials.iter().any(|known| known.user.is_none()) {
            schemes.extend([Self::Bearer, Self::ApiKey]);
        }
        if access.credentials.iter().any(|known| known.user.is_some()) {
            schemes.push(Self::Basic);
        }
        if !access.issuers.is_empty() {
            schemes.push(Self::Jwt);
        }
        schemes
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Bearer => "bearer",
            Self::ApiKey => "apiKey",
            Self::Basic => "basic",
            Self::Jwt => "jwt",
        }
    }

    /// Returns the scheme in the form of 1.0, and beside it the members of 0.3 if that is spoken.
    fn written(self, is_03: bool) -> JsonText {
        let key = || Members::default().text("location", "header").text("name", "X-API-Key").end();
        let http = |scheme: &str, format: Option<&str>| {
            Members::default().text("scheme", scheme).optional("bearerFormat", format).end()
        };
        let (member, inner) = match self {
            Self::ApiKey => ("apiKeySecurityScheme", key()),
            Self::Bearer => ("httpAuthSecurityScheme", http("Bearer", None)),
            Self::Basic => ("httpAuthSecurityScheme", http("Basic", None)),
            Self::Jwt => ("httpAuthSecurityScheme", http("Bearer", Some("JWT"))),
        };
        let members = Members::default();
        let members = match (is_03, self) {
            (false, _) => members,
            (true, Self::ApiKey) => {
                members.text("type", "apiKey").text("in", "header").text("name", "X-API-Key")
            }
            (true, Self::Bearer) => members.text("type", "http").text("scheme", "bearer"),
            (true, Self::Basic) => members.text("type", "http").text("scheme", "basic"),
            (true, Self::Jwt) => {
                members.text("type", "http").text("scheme", "bearer").text("bearerFormat", "JWT")
            }
        };
        members.json(member, inner).end()
    }
}

/// Adds the schemes of a server that checks credentials, and the scopes that a client needs for all operations.
pub(crate) fn add_schemes(members: Members, schemes: &[CardScheme], is_1: bool, is_03: bool) -> Members {
    let all = schemes.iter().fold(Members::default(), |all, one| all.json(one.name(), one.written(is_03)));
    let scopes = [Scope::Read, Scope::Run].map(|scope| scope.as_str().to_owned());
    let of_1 = |one: &CardScheme| {
        let list = Members::default().texts("list", &scopes).end();
        Members::default().json("schemes", Members::default().json(one.name(), list).end()).end()
    };
    let of_03 = |one: &CardScheme| Members::default().json(one.name(), JsonText::of_model(&scopes)).end();
    let members = members.json("securitySchemes", all.end());
    let members = if is_1 {
        members.list("securityRequirements", &schemes.iter().map(of_1).collect::<Vec<_>>())
    } else {
        members
    };
    if is_03 { members.list("security", &schemes.iter().map(of_03).collect::<Vec<_>>()) } else { members }
}
