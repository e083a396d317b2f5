//! The credentials that a request presents: in `Authorization`, in `X-API-Key`, or, on Protolink's routes, in the query.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::AUTHORIZATION;
use http::{HeaderMap, Uri};
use zeroize::Zeroizing;

/// The names of the query under which Protolink takes a credential, in its order.
const IN_QUERY: [&str; 3] = ["api_key", "apikey", "token"];

/// A presented credential. It has no `Debug`: nothing can print it by mistake.
pub(crate) enum PresentedSecret {
    /// A token or a key, however it was named.
    Token(Zeroizing<String>),
    /// A user and its password; `None` if they could not be read.
    Basic(Option<(String, Zeroizing<String>)>),
    /// Several of one kind, of which none is taken.
    Ambiguous,
}

/// Returns the credential of a request; `None` if it has none.
pub(crate) fn presented(headers: &HeaderMap, uri: &Uri, may_be_in_query: bool) -> Option<PresentedSecret> {
    let one = |name: &str| {
        let mut values = headers.get_all(name).iter();
        let first = values.next()?;
        // Bytes that are no text fit no secret.
        Some(if values.next().is_some() { None } else { Some(first.to_str().unwrap_or("\u{fffd}")) })
    };
    if let Some(value) = one(AUTHORIZATION.as_str()) {
        let Some(value) = value else { return Some(PresentedSecret::Ambiguous) };
        if !value.trim().is_empty() {
            return Some(authorization(value.trim()));
        }
    }
    if let Some(value) = one("x-api-key") {
        let Some(value) = value else { return Some(PresentedSecret::Ambiguous) };
        if !value.trim().is_empty() {
            return Some(PresentedSecret::Token(Zeroizing::new(value.trim().to_owned())));
        }
    }
    if !may_be_in_query {
        return None;
    }
    let query = uri.query()?;
    IN_QUERY.iter().find_map(|wanted| {
        let value = pairs(query).filter(|(name, _)| name == wanted).last().map(|(_, value)| value)?;
        Some(PresentedSecret::Token(Zeroizing::new(decoded(value).trim().to_owned())))
    })
}

/// Returns the credential of the header `Authorization`: after a scheme that Protolink knows, or the whole value.
fn authorization(value: &str) -> PresentedSecret {
    let (scheme, rest) = value.split_once(' ').unwrap_or((value, ""));
    let token = |text: &str| PresentedSecret::Token(Zeroizing::new(text.trim().to_owned()));
    match scheme.to_ascii_lowercase().as_str() {
        "basic" => PresentedSecret::Basic(basic(rest.trim())),
        "bearer" | "apikey" => token(rest),
        _ => token(value),
    }
}

/// Reads user and password: in base64, or as they are, as Protolink does.
fn basic(text: &str) -> Option<(String, Zeroizing<String>)> {
    let plain = STANDARD.decode(text).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let plain = Zeroizing::new(plain.unwrap_or_else(|| text.to_owned()));
    let (user, password) = plain.split_once(':')?;
    Some((user.to_owned(), Zeroizing::new(password.to_owned())))
}

/// Returns the address of a request without the credentials of its query, which no handler and no log sees.
pub(crate) fn without_credentials(uri: &Uri) -> Option<Uri> {
    let query = uri.query()?;
    let is_kept = |part: &&str| {
        let name = part.split('=').next().unwrap_or_default();
        !IN_QUERY.contains(&decoded(name).as_str())
    };
    let kept: Vec<&str> = query.split('&').filter(is_kept).collect();
    if kept.len() == query.split('&').count() {
        return None;
    }
    let path = uri.path();
    let text = if kept.is_empty() { path.to_owned() } else { format!("{path}?{}", kept.join("&")) };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = text.parse().ok();
    Uri::from_parts(parts).ok()
}

fn pairs(query: &str) -> impl Iterator<Item = (String, &str)> {
    query.split('&').map(|part| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        (decoded(name), value)
    })
}

/// Decodes a name or a value of a query; what is not an escape stays as it is.
fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let escaped = (*byte == b'%').then(|| text.get(at + 1..at + 3)).flatten();
        let escaped = escaped.filter(|hex| hex.bytes().all(|digit| digit.is_ascii_hexdigit()));
        if let Some(code) = escaped.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            out.push(code);
            at += 3;
        } else {
            out.push(if *byte == b'+' { b' ' } else { *byte });
            at += 1;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_credential_of_a_query_is_left_however_it_is_written() {
        let left = |uri: &str| without_credentials(&uri.parse().unwrap()).map(|uri| uri.to_string());
        assert_eq!(left("/tasks/?api_key=k").unwrap(), "/tasks/");
        assert_eq!(left("/agents/?name=a&api%5Fkey=k&tags=b&token=").unwrap(), "/agents/?name=a&tags=b");
        assert_eq!(left("/agents/?name=a"), None);
        assert_eq!(left("/agents/"), None);
    }

    #[test]
    fn an_escaped_value_is_decoded_and_a_lone_percent_sign_stays() {
        assert_eq!(decoded("a%2Fb+c"), "a/b c");
        assert_eq!(decoded("100%"), "100%");
        assert_eq!(decoded("%zz%-1%4"), "%zz%-1%4");
        assert_eq!(decoded("%é"), "%é");
    }
}
