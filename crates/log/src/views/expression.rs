//! Conditions over the fields of a row's JSON, typed as one line, such as `state = failed and not (id ~ demo)`. The parser
//! and the evaluation are our own: a condition makes no call and takes time in proportion to its length and to the row.

pub(crate) mod error;
mod evaluate;
mod literal;
mod node;
mod parse;

use proto_events::json::JsonValue;

pub use crate::views::expression::error::ExpressionError;
use crate::views::expression::node::ExpressionNode;

/// A condition over the fields of a JSON object.
///
/// ```text
/// condition = conjunction { "or" conjunction }
/// conjunction = negation { "and" negation }
/// negation = "not" negation | "(" condition ")" | FIELD [ OPERATOR VALUE ]
/// ```
///
/// A field is a name, with `.name` for a member and `[0]` for an element; a name with other characters than letters, digits,
/// `_` and `-` stands in double quotes. A name that meets a list is looked up in each of its elements; of several values, and
/// of the elements of a list, one must fit. A field that is absent is `null`. A field alone holds if it is neither `null` nor `false`.
///
/// The operators are `=`, `!=`, `<`, `<=`, `>`, `>=` and `~`. A value is a text in single or double quotes, or a word up to the
/// next blank or `)`. A word that looks like a number, `true`, `false` or `null` fits both that value and the same text; a
/// text in quotes fits only a text. Times compare as times. `~` holds where the text stands anywhere in the field, in any
/// case of letters, and `~ /.../` where the regular expression matches; in lists and objects, in any key or value.
#[derive(Debug, Clone)]
pub struct Expression {
    root: ExpressionNode,
    fields: Vec<(String, usize)>,
}

impl Expression {
    /// Parses a condition.
    ///
    /// # Errors
    /// [`ExpressionError`], with the place of the fault.
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        let (root, fields) = parse::parse(text)?;
        Ok(Self { root, fields })
    }

    /// Whether the condition holds for a row's JSON.
    pub fn holds(&self, row: &JsonValue) -> bool {
        evaluate::holds(&self.root, row)
    }

    /// Returns the outermost name of each field that the condition compares, with its place in the text, in bytes.
    pub fn fields(&self) -> impl Iterator<Item = (&str, usize)> {
        self.fields.iter().map(|(name, at)| (name.as_str(), *at))
    }

    /// Whether the condition compares this field of the row.
    pub fn names(&self, field: &str) -> bool {
        self.fields.iter().any(|(name, _)| name == field)
    }
}

#[cfg(test)]
mod tests;
