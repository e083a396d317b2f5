//! The version that a request speaks.

use http::HeaderMap;

use crate::a2a::failure::{A2aFailure, FailureKind};

/// The header, and the parameter of the query, with the version.
pub(crate) const HEADER: &str = "a2a-version";

/// A version that is spoken here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// 1.0, with every patch.
    V1,
    /// 0.3, with every patch.
    V03,
}

impl Version {
    /// Returns the version with this number, such as `1.0` or `0.3.0`; `None` if it is not spoken here.
    pub fn of_number(number: &str) -> Option<Self> {
        of_text(number)
    }

    /// Returns the number, major and minor.
    pub fn number(self) -> &'static str {
        match self {
            Self::V1 => "1.0",
            Self::V03 => "0.3",
        }
    }
}

/// The versions, as a refusal names them.
pub(crate) const SPOKEN: &str = "1.0, 0.3";

/// Returns the version that a request names, in its header or its query; `None` if it names none. Major and minor count.
///
/// # Errors
/// [`FailureKind::VersionNotSupported`] for any other version.
pub(crate) fn named(headers: &HeaderMap, query: &[(String, String)]) -> Result<Option<Version>, A2aFailure> {
    let header = headers.get(HEADER).map(|value| value.to_str().unwrap_or("?").trim().to_owned());
    let in_query =
        || query.iter().find(|(key, _)| key.eq_ignore_ascii_case(HEADER)).map(|(_, value)| value.clone());
    let Some(text) = header.filter(|text| !text.is_empty()).or_else(in_query).filter(|text| !text.is_empty())
    else {
        return Ok(None);
    };
    of_text(&text).map(Some).ok_or_else(|| unsupported(&text))
}

/// Returns the version with this number; `None` if it is not spoken here.
pub(crate) fn of_text(text: &str) -> Option<Version> {
    let mut numbers = text.split('.');
    match (numbers.next(), numbers.next(), numbers.next(), numbers.next()) {
        (Some("1"), Some("0"), patch, None) if is_number(patch) => Some(Version::V1),
        (Some("0"), Some("3"), patch, None) if is_number(patch) => Some(Version::V03),
        _ => None,
    }
}

fn is_number(patch: Option<&str>) -> bool {
    patch.is_none_or(|patch| !patch.is_empty() && patch.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns the refusal of a version.
pub(crate) fn unsupported(version: &str) -> A2aFailure {
    let shown: String = version.chars().take(40).collect();
    let text = format!("the version {shown} is not spoken here; these are: {SPOKEN}");
    A2aFailure::new(FailureKind::VersionNotSupported, text)
        .with("requested", version)
        .with("supported", SPOKEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(header: Option<&str>, query: Option<&str>) -> Result<Option<Version>, FailureKind> {
        let mut headers = HeaderMap::new();
        if let Some(header) = header {
            headers.insert(HEADER, header.parse().unwrap());
        }
        let query: Vec<_> =
            query.map(|value| ("A2A-Version".to_owned(), value.to_owned())).into_iter().collect();
        named(&headers, &query).map_err(|failure| failure.kind)
    }

    #[test]
    fn major_and_minor_count_and_the_header_comes_before_the_query() {
        assert_eq!(of(None, None), Ok(None));
        assert_eq!(of(Some(""), None), Ok(None));
        for text in ["1.0", "1.0.1", " 1.0 "] {
            assert_eq!(of(Some(text), None), Ok(Some(Version::V1)), "{text}");
        }
        assert_eq!(of(None, Some("0.3.0")), Ok(Some(Version::V03)));
        assert_eq!(of(Some("1.0"), Some("0.3")), Ok(Some(Version::V1)));
        for text in ["1", "1.1", "2.0", "0.2", "99.0", "x", "1.0.", "1.0.x", "1.0.1.1"] {
            assert_eq!(of(Some(text), None), Err(FailureKind::VersionNotSupported), "{text}");
        }
    }
}
