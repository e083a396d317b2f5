//! The parts of a condition.

use std::cmp::Ordering;

use crate::views::expression::literal::Literal;
use crate::views::pattern::Pattern;

/// A part of a condition.
#[derive(Debug, Clone)]
pub(super) enum ExpressionNode {
    /// Conditions of which one must hold.
    Any(Vec<ExpressionNode>),
    /// Conditions that must all hold.
    All(Vec<ExpressionNode>),
    /// A condition that must not hold.
    Not(Box<ExpressionNode>),
    /// A field, and the demand on it.
    Field(Vec<PathStep>, Test),
}

/// A step from a value to one inside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PathStep {
    Name(String),
    Element(usize),
}

/// The demand on a field.
#[derive(Debug, Clone)]
pub(super) enum Test {
    /// The field is neither null nor false.
    Present,
    /// The field is equal to a value.
    Equal(Literal),
    /// The field is not equal to a value.
    NotEqual(Literal),
    /// The field comes before or after a value, or is equal to it where this is allowed.
    Order {
        /// The wanted order.
        wanted: Ordering,
        /// Whether equality fits too.
        or_equal: bool,
        /// The value.
        literal: Literal,
    },
    /// A text in lower case stands in the field.
    Contains(String),
    /// A regular expression matches in the field.
    Matches(Pattern),
}
