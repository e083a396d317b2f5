//! The condition over the fields of what is printed.

use clap::Args;
use taskreel_log::documents::{Form, described};
use taskreel_log::views::{Expression, ExpressionError};

use crate::print::problem::Problem;

/// A condition over the fields of the lines that a command prints with `--json`.
#[derive(Debug, Clone, Default, Args)]
#[command(
    next_help_heading = "Filters (of several values of one option one must fit, different options must all fit)"
)]
pub(crate) struct WhereArgs {
    /// Only where this condition over the fields of --json holds, such as `kind = CallFailed and payload.attempt > 1`
    ///
    /// FIELD alone, or with = != < <= > >= or ~ and a value; conditions are joined by and, or, not and braces. `a.b` is a
    /// member, `a[0]` an element; a name that meets a list is looked up in each of its elements, and one must fit. A text with
    /// blanks stands in quotes; times compare as times. `~ TEXT` holds where the text stands anywhere in the field, in upper or
    /// lower case, `~ /REGEX/` where the regular expression matches. A field that is absent is null. `taskreel schema COMMAND`
    /// lists the fields.
    #[arg(long = "where", value_name = "CONDITION")]
    pub(crate) condition: Option<String>,
}

impl WhereArgs {
    /// Returns the condition over the lines of a kind.
    ///
    /// # Errors
    /// [`Problem`] if it is none, or compares a field that such lines do not have.
    pub(crate) fn over(&self, line: &str) -> Result<Option<Expression>, Problem> {
        let Some(text) = &self.condition else { return Ok(None) };
        let parsed = Expression::parse(text).and_then(|condition| known(condition, line));
        parsed.map(Some).map_err(|error| Problem::condition(&error, text))
    }
}

/// Checks that the lines have the fields that a condition compares.
fn known(condition: Expression, line: &str) -> Result<Expression, ExpressionError> {
    let form = described().find(|(name, ..)| *name == line).map(|(.., form)| form);
    let Some(Form::Fields(fields)) = form else { return Ok(condition) };
    let is_known = |asked: &str| asked == "schema" || fields.iter().any(|(field, _)| *field == asked);
    let unknown =
        condition.fields().find(|(asked, _)| !is_known(asked)).map(|(asked, at)| (asked.to_owned(), at));
    match unknown {
        None => Ok(condition),
        Some((asked, at)) => {
            let all: Vec<_> = fields.iter().map(|(field, _)| *field).collect();
            Err(ExpressionError::new(
                at,
                format!("there is no field `{asked}`; the fields are {}", all.join(", ")),
            ))
        }
    }
}
