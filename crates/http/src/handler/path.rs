//! Paths and queries, percent-decoded.

use percent_encoding::percent_decode_str;

use crate::limits::{PATH_MAX, QUERY_MAX};

/// A path or query that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PathError {
    /// The path is too long.
    #[error("the path has more than {PATH_MAX} bytes")]
    TooLong,
    /// The query is too long.
    #[error("the query has more than {QUERY_MAX} bytes")]
    QueryTooLong,
    /// The path is not UTF-8 once it is decoded.
    #[error("the path is not UTF-8")]
    NotUtf8,
}

/// Returns the segments of a path, percent-decoded one by one, so that `%2F` parts nothing. A slash at the end gives an
/// empty last segment.
pub(crate) fn segments(path: &str) -> Result<Vec<String>, PathError> {
    if path.len() > PATH_MAX {
        return Err(PathError::TooLong);
    }
    let decode = |segment: &str| {
        percent_decode_str(segment).decode_utf8().map(String::from).map_err(|_| PathError::NotUtf8)
    };
    path.strip_prefix('/').unwrap_or(path).split('/').map(decode).collect()
}

/// Returns the pairs of a query, percent-decoded, `+` as a space. A key that stands alone has an empty value.
pub(crate) fn pairs(query: &str) -> Result<Vec<(String, String)>, PathError> {
    if query.len() > QUERY_MAX { Err(PathError::QueryTooLong) } else { form(query) }
}

/// Returns the fields of a form as it is sent in a body, whose length was bounded when it was read.
pub(crate) fn form(text: &str) -> Result<Vec<(String, String)>, PathError> {
    let decode = |text: &str| {
        let text = text.replace('+', " ");
        percent_decode_str(&text).decode_utf8().map(String::from).map_err(|_| PathError::NotUtf8)
    };
    let parts = text.split('&').filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            Ok((decode(key)?, decode(value)?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_decoded_one_by_one() {
        assert_eq!(segments("/agents/a%2Fb%20c/tasks/").unwrap(), ["agents", "a/b c", "tasks", ""]);
        assert_eq!(segments("/").unwrap(), [""]);
        assert_eq!(segments("/%ff"), Err(PathError::NotUtf8));
        assert_eq!(segments(&"/a".repeat(PATH_MAX)), Err(PathError::TooLong));
    }

    #[test]
    fn a_query_is_pairs_in_order() {
        let read = |query| pairs(query).unwrap();
        assert_eq!(read("a=1&b=x+y%26&c&a=2"), [("a", "1"), ("b", "x y&"), ("c", ""), ("a", "2")].map(own));
        assert!(read("").is_empty());
        assert_eq!(pairs("a=%ff"), Err(PathError::NotUtf8));
        assert_eq!(read(&"a=1&".repeat(QUERY_MAX / 4)).len(), QUERY_MAX / 4);
        assert_eq!(pairs(&"a".repeat(QUERY_MAX + 1)), Err(PathError::QueryTooLong));
    }

    fn own((key, value): (&str, &str)) -> (String, String) {
        (key.to_owned(), value.to_owned())
    }
}
