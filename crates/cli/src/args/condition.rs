//! The condition over the fields of what is printed.

use clap::Args;
use taskreel_log::documents::condition_over;
use taskreel_log::views::Expression;

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
    /// [`Problem`] if it is not valid, or compares a field that such lines do not have.
    pub(crate) fn over(&self, line: &str) -> Result<Option<Expression>, Problem> {
        let Some(text) = &self.condition else { return Ok(None) };
        condition_over(text, line).map(Some).map_err(|error| Problem::condition(&error, text))
    }
}
