//! A request to the live API: its route, the pieces of its path, and its parameters, checked against those that the
//! route takes.

use std::str::FromStr;

use http::{Method, StatusCode};

use crate::api::routes::{ApiRoute, ParameterType, ROUTES};
use crate::error::Problem;
use crate::handler::path::{PathError, pairs, segments};
use crate::limits::PAGE_ITEMS;

/// A request whose route is known.
#[derive(Debug, Clone)]
pub(crate) struct RoutedRequest {
    pub(crate) route: &'static ApiRoute,
    /// The pieces of the path that the route leaves open.
    pieces: Vec<String>,
    query: Vec<(String, String)>,
}

impl RoutedRequest {
    /// Finds the route of a request, and reads its path and parameters.
    ///
    /// # Errors
    /// [`Problem`] if the route does not exist, takes no such method or parameter, or a text is not well formed.
    pub(crate) fn read(method: &Method, path: &str, query: Option<&str>) -> Result<Self, Problem> {
        let malformed = |error: PathError| Problem::malformed(error.to_string());
        let given = segments(path).map_err(malformed)?;
        let mut known =
            ROUTES.iter().filter_map(|route| Some((route, match_pattern(route.path, &given)?))).peekable();
        if known.peek().is_none() {
            return Err(Problem::not_found(format!("there is nothing at `{path}`")));
        }
        let method = if method == Method::HEAD { &Method::GET } else { method };
        let found = known.find(|(route, _)| route.method == method.as_str());
        let (route, pieces) = found.ok_or_else(|| {
            let what = format!("`{path}` does not take the method {method}");
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", what)
        })?;
        let query = pairs(query.unwrap_or_default()).map_err(malformed)?;
        let asked = Self { route, pieces, query };
        asked.check()?;
        Ok(asked)
    }

    fn check(&self) -> Result<(), Problem> {
        for (at, (name, value)) in self.query.iter().enumerate() {
            let known = self.route.params.iter().find(|param| param.name == name);
            let Some(param) = known else {
                let all: Vec<&str> = self.route.params.iter().map(|param| param.name).collect();
                let known = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
                return Err(Problem::malformed(format!(
                    "there is no parameter `{name}` here; known: {known}"
                )));
            };
            let is_repeated = self.query.iter().take(at).any(|(before, _)| before == name);
            if is_repeated && !param.is_list {
                return Err(Problem::malformed(format!("the parameter `{name}` is there twice")));
            }
            param.kind.check(name, value)?;
        }
        Ok(())
    }

    /// Returns the first open piece of the path, which is the id of what is asked for.
    pub(crate) fn id(&self) -> &str {
        self.pieces.first().map_or("", String::as_str)
    }

    /// Returns the value of a parameter.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.texts(name).next()
    }

    /// Returns the values of a parameter that may be there several times.
    pub(crate) fn texts(&self, name: &str) -> impl Iterator<Item = &str> {
        self.query.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the value of a parameter as a number.
    pub(crate) fn number<N: FromStr>(&self, name: &str) -> Result<Option<N>, Problem> {
        let number = |value: &str| value.parse().map_err(|_| not_a_number(name, value));
        self.text(name).map(number).transpose()
    }

    /// Whether a parameter is true.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.text(name) == Some("true")
    }

    /// Returns the number of items of the page.
    pub(crate) fn limit(&self) -> Result<usize, Problem> {
        Ok(self.number("limit")?.unwrap_or(PAGE_ITEMS))
    }
}

fn not_a_number(name: &str, value: &str) -> Problem {
    Problem::malformed(format!("the parameter `{name}` is not a whole number that fits: `{value}`"))
}

impl ParameterType {
    fn check(self, name: &str, value: &str) -> Result<(), Problem> {
        let is_valid = match self {
            // What a form or a time means is read by the operation.
            Self::Text | Self::Form(_) | Self::Time => !value.is_empty(),
            Self::Number { least, most } => {
                let number = value.parse().ok().filter(|_| value.bytes().all(|byte| byte.is_ascii_digit()));
                number.is_some_and(|number| (least..=most).contains(&number))
            }
            Self::Flag => matches!(value, "true" | "false"),
            Self::OneOf(known) => known.contains(&value),
        };
        match self {
            _ if is_valid => Ok(()),
            Self::Text | Self::Form(_) | Self::Time => {
                Err(Problem::malformed(format!("the parameter `{name}` is empty")))
            }
            Self::Number { least, most } => Err(Problem::malformed(format!(
                "the parameter `{name}` is a whole number from {least} to {most}, not `{value}`"
            ))),
            Self::Flag => {
                Err(Problem::malformed(format!("the parameter `{name}` is true or false, not `{value}`")))
            }
            Self::OneOf(known) => {
                let known = known.join(", ");
                Err(Problem::malformed(format!("the parameter `{name}` is one of {known}, not `{value}`")))
            }
        }
    }
}

/// Returns the pieces of a path that its pattern leaves open; `None` if the path does not fit.
fn match_pattern(pattern: &str, given: &[String]) -> Option<Vec<String>> {
    let wanted: Vec<&str> = pattern.split('/').skip(1).collect();
    if wanted.len() != given.len() {
        return None;
    }
    let is_open = |wanted: &str| wanted.starts_with('{');
    let fits =
        |(wanted, given): (&&str, &String)| if is_open(wanted) { !given.is_empty() } else { wanted == given };
    let pairs = || wanted.iter().zip(given);
    pairs()
        .all(fits)
        .then(|| pairs().filter(|(wanted, _)| is_open(wanted)).map(|(_, given)| given.clone()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(method: &str, path: &str, query: &str) -> Result<RoutedRequest, Problem> {
        RoutedRequest::read(&method.parse().unwrap(), path, Some(query))
    }

    #[test]
    fn a_path_is_read_piece_by_piece_and_an_id_keeps_its_slash() {
        let found = asked("GET", "/v1/tasks/a%2Fb%20c/events", "from=3&limit=7").unwrap();
        assert_eq!((found.id(), found.limit()), ("a/b c", Ok(7)));
        assert_eq!(found.number::<u64>("from"), Ok(Some(3)));
        assert_eq!(asked("GET", "/v1/nothing", "").unwrap_err().status(), 404);
        assert_eq!(asked("GET", "/v1/tasks//events", "").unwrap_err().status(), 404);
        assert_eq!(asked("GET", "/v1/tasks/", "").unwrap_err().status(), 404);
        assert_eq!(asked("DELETE", "/v1/tasks/a", "").unwrap_err().status(), 405);
    }

    #[test]
    fn what_a_route_does_not_take_is_refused_and_not_passed_over() {
        for query in
            ["stat=failed", "limit=x", "limit=0", "limit=1001", "limit=99999999999999999999", "state=odd"]
        {
            let refused = asked("GET", "/v1/tasks", query).and_then(|asked| asked.limit());
            assert_eq!(refused.unwrap_err().status(), 400, "{query}");
        }
        assert_eq!(asked("GET", "/v1/tasks/%ff", "").unwrap_err().status(), 400);
        assert_eq!(asked("GET", "/v1/tasks", "session=%ff").unwrap_err().status(), 400);
        assert_eq!(
            asked("GET", "/v1/tasks", "state=failed&state=working").unwrap().texts("state").count(),
            2
        );
        assert_eq!(asked("GET", "/v1/tasks", "after=a&after=b").unwrap_err().status(), 400);
    }
}
