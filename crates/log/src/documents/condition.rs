//! Conditions over the lines that handlers show: they use the fields of the table.

use crate::documents::forms::Form;
use crate::documents::schema::described;
use crate::views::expression::{Expression, ExpressionError};

/// Parses a condition over the lines of a kind such as `taskreel.event/1`.
///
/// # Errors
/// [`ExpressionError`] if it is not valid, or compares a field that such lines do not have.
pub fn condition_over(text: &str, line: &str) -> Result<Expression, ExpressionError> {
    let condition = Expression::parse(text)?;
    let form = described().find(|(name, ..)| *name == line).map(|(.., form)| form);
    let Some(Form::Fields(fields)) = form else { return Ok(condition) };
    let is_known = |asked: &str| asked == "schema" || fields.iter().any(|(field, _)| *field == asked);
    let unknown = condition.fields().find(|(asked, _)| !is_known(asked));
    let refused = unknown.map(|(asked, at)| {
        let all: Vec<_> = fields.iter().map(|(field, _)| *field).collect();
        let why = format!("there is no field `{asked}`; the fields are {}", all.join(", "));
        ExpressionError::new(at, why)
    });
    refused.map_or(Ok(condition), Err)
}
