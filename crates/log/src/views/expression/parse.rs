//! The parser of conditions: by recursive descent, of bounded depth and length.

use std::cmp::Ordering;

use crate::views::expression::error::ExpressionError;
use crate::views::expression::literal::Literal;
use crate::views::expression::node::{ExpressionNode, PathStep, Test};
use crate::views::pattern::pattern;

/// The longest condition in bytes: longer ones are no longer typed by anybody.
const LENGTH_MAX: usize = 16_384;

/// The deepest nesting of braces and negations.
const DEPTH_MAX: usize = 64;

/// Signs of other languages, each with the operator to write.
const HINTS: [(&str, &str); 6] =
    [("==", "="), ("=~", "~"), ("<>", "!="), ("!~", "not FIELD ~"), ("&&", "and"), ("||", "or")];

/// The operators, the longer ones first.
const OPERATORS: [&str; 7] = ["!=", "<=", ">=", "=", "<", ">", "~"];

type Parsed<T> = Result<T, ExpressionError>;

/// Returns the parts of a condition, and the outermost name of each field with its place.
pub(super) fn parse(text: &str) -> Parsed<(ExpressionNode, Vec<(String, usize)>)> {
    if text.len() > LENGTH_MAX {
        let what = format!("the condition is longer than {LENGTH_MAX} bytes");
        return Err(ExpressionError::new(0, what));
    }
    let mut parser = ExpressionParser { text, at: 0, depth: 0, fields: Vec::new() };
    let root = parser.any()?;
    parser.blanks();
    if parser.at < text.len() {
        return Err(parser.behind());
    }
    Ok((root, parser.fields))
}

struct ExpressionParser<'a> {
    text: &'a str,
    /// The place that is read next, in bytes.
    at: usize,
    depth: usize,
    fields: Vec<(String, usize)>,
}

impl<'a> ExpressionParser<'a> {
    fn remaining_text(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn blanks(&mut self) {
        self.at += self.remaining_text().len() - self.remaining_text().trim_start().len();
    }

    fn fault<T>(&self, what: impl Into<String>) -> Parsed<T> {
        Err(ExpressionError::new(self.at, what))
    }

    /// Returns the fault of what stands behind a complete condition.
    fn behind(&self) -> ExpressionError {
        let rest = self.remaining_text();
        if let Some((wrong, right)) = HINTS.iter().find(|(wrong, _)| rest.starts_with(wrong)) {
            return ExpressionError::new(self.at, format!("`{wrong}` is not an operator; write `{right}`"));
        }
        let what = if rest.starts_with(')') {
            "there is no `(` for this `)`"
        } else {
            "after a condition, `and`, `or` or the end must come"
        };
        ExpressionError::new(self.at, what)
    }

    /// Takes a word of the language, in any case, if it comes next and ends there.
    fn word(&mut self, word: &str) -> bool {
        self.blanks();
        let rest = self.remaining_text();
        let fits = rest.get(..word.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(word));
        let behind = rest.get(word.len()..).and_then(|behind| behind.chars().next());
        let taken = fits && behind.is_none_or(|next| next.is_whitespace() || "()".contains(next));
        if taken {
            self.at += word.len();
        }
        taken
    }

    fn any(&mut self) -> Parsed<ExpressionNode> {
        let mut nodes = vec![self.all()?];
        while self.word("or") {
            nodes.push(self.all()?);
        }
        Ok(one_or(nodes, ExpressionNode::Any))
    }

    fn all(&mut self) -> Parsed<ExpressionNode> {
        let mut nodes = vec![self.negation()?];
        while self.word("and") {
            nodes.push(self.negation()?);
        }
        Ok(one_or(nodes, ExpressionNode::All))
    }

    fn negation(&mut self) -> Parsed<ExpressionNode> {
        self.blanks();
        let begin = self.at;
        let is_negated = self.word("not");
        if !is_negated && !self.remaining_text().starts_with('(') {
            return self.field();
        }
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            let what = format!("conditions nest at most {DEPTH_MAX} deep");
            return Err(ExpressionError::new(begin, what));
        }
        let node = if is_negated {
            ExpressionNode::Not(Box::new(self.negation()?))
        } else {
            self.at += 1;
            let inner = self.any()?;
            self.blanks();
            if !self.remaining_text().starts_with(')') {
                let behind = if self.remaining_text().is_empty() { None } else { Some(self.behind()) };
                let missing = || ExpressionError::new(begin, "there is no `)` for this `(`");
                return Err(behind.unwrap_or_else(missing));
            }
            self.at += 1;
            inner
        };
        self.depth -= 1;
        Ok(node)
    }

    fn field(&mut self) -> Parsed<ExpressionNode> {
        self.blanks();
        let begin = self.at;
        for word in ["and", "or"] {
            if self.word(word) {
                self.at = begin;
                return self.fault(format!("a condition must stand before `{word}`"));
            }
        }
        let first = self.name()?;
        self.fields.push((first.clone(), begin));
        let mut steps = vec![PathStep::Name(first)];
        loop {
            if self.remaining_text().starts_with('.') {
                self.at += 1;
                steps.push(PathStep::Name(self.name()?));
            } else if self.remaining_text().starts_with('[') {
                steps.push(self.element()?);
            } else {
                break;
            }
        }
        Ok(ExpressionNode::Field(steps, self.test()?))
    }

    fn name(&mut self) -> Parsed<String> {
        if self.remaining_text().starts_with('"') {
            return self.quoted('"');
        }
        let is_part = |letter: char| letter.is_alphanumeric() || "_-".contains(letter);
        let name: String = self.remaining_text().chars().take_while(|letter| is_part(*letter)).collect();
        if name.is_empty() {
            let at_end = self.remaining_text().is_empty();
            let hint = HINTS.iter().find(|(wrong, _)| self.remaining_text().starts_with(wrong));
            return match hint {
                Some((wrong, right)) => self.fault(format!("`{wrong}` is not an operator; write `{right}`")),
                None if at_end => self.fault("the name of a field is missing here"),
                None => self.fault("the name of a field must come here"),
            };
        }
        self.at += name.len();
        Ok(name)
    }

    fn element(&mut self) -> Parsed<PathStep> {
        let inner =
            self.remaining_text().get(1..).and_then(|rest| rest.split_once(']')).map(|(inner, _)| inner);
        let number = inner.and_then(|inner| Some((inner.len(), inner.parse().ok()?)));
        let Some((length, number)) = number else {
            return self.fault("an element of a list is written `[0]`");
        };
        self.at += length + 2;
        Ok(PathStep::Element(number))
    }

    fn test(&mut self) -> Parsed<Test> {
        self.blanks();
        let rest = self.remaining_text();
        if let Some((wrong, right)) = HINTS.iter().take(4).find(|(wrong, _)| rest.starts_with(wrong)) {
            return self.fault(format!("`{wrong}` is not an operator; write `{right}`"));
        }
        let Some(operator) = OPERATORS.into_iter().find(|operator| rest.starts_with(operator)) else {
            return Ok(Test::Present);
        };
        self.at += operator.len();
        self.blanks();
        if operator == "~" {
            return self.text_test();
        }
        let literal = self.literal(operator)?;
        let order = |wanted, or_equal, literal| Test::Order { wanted, or_equal, literal };
        Ok(match operator {
            "=" => Test::Equal(literal),
            "!=" => Test::NotEqual(literal),
            "<" => order(Ordering::Less, false, literal),
            "<=" => order(Ordering::Less, true, literal),
            ">" => order(Ordering::Greater, false, literal),
            _ => order(Ordering::Greater, true, literal),
        })
    }

    fn text_test(&mut self) -> Parsed<Test> {
        if !self.remaining_text().starts_with('/') {
            let (text, _) = self.value("~")?;
            return Ok(Test::Contains(text.to_lowercase()));
        }
        let begin = self.at;
        let text = self.quoted('/')?;
        let regex = pattern(&text, false).map_err(|fault| {
            let at = fault.at.map_or(begin, |at| begin + 1 + at);
            ExpressionError::new(at, format!("the regular expression is not valid: {}", fault.what))
        })?;
        Ok(Test::Matches(regex))
    }

    fn literal(&mut self, operator: &str) -> Parsed<Literal> {
        let (text, is_quoted) = self.value(operator)?;
        Ok(Literal::new(text, is_quoted))
    }

    /// Reads a value, and whether it stood in quotes.
    fn value(&mut self, operator: &str) -> Parsed<(String, bool)> {
        let rest = self.remaining_text();
        if let Some(quote) = rest.chars().next().filter(|first| "'\"".contains(*first)) {
            return Ok((self.quoted(quote)?, true));
        }
        let is_part = |letter: &char| !letter.is_whitespace() && !"()'\"".contains(*letter);
        let word: String = rest.chars().take_while(is_part).collect();
        if word.is_empty() {
            return self.fault(format!("a value must come after `{operator}`"));
        }
        self.at += word.len();
        Ok((word, false))
    }

    /// Reads a text up to the next `quote`. Behind a backslash, the quote and the backslash stand for themselves; in a
    /// regular expression only the slash does.
    fn quoted(&mut self, quote: char) -> Parsed<String> {
        let begin = self.at;
        let mut text = String::new();
        let mut letters = self.remaining_text().char_indices().skip(1).peekable();
        while let Some((at, letter)) = letters.next() {
            if letter == quote {
                self.at += at + quote.len_utf8();
                return Ok(text);
            }
            let escaped = letters
                .peek()
                .map(|(_, next)| *next)
                .filter(|next| letter == '\\' && (*next == quote || (*next == '\\' && quote != '/')));
            match escaped {
                Some(next) => {
                    text.push(next);
                    letters.next();
                }
                // So that `\\/` is a backslash for the regular expression and then its end.
                None if letter == '\\' && quote == '/' => {
                    text.push(letter);
                    text.extend(letters.next().map(|(_, next)| next));
                }
                None => text.push(letter),
            }
        }
        let what = if quote == '/' { "this `/` has no end" } else { "this quote has no end" };
        Err(ExpressionError::new(begin, what))
    }
}

/// Returns the one node, or what joins several.
fn one_or(
    mut nodes: Vec<ExpressionNode>,
    join: impl Fn(Vec<ExpressionNode>) -> ExpressionNode,
) -> ExpressionNode {
    match nodes.pop() {
        Some(only) if nodes.is_empty() => only,
        last => {
            nodes.extend(last);
            join(nodes)
        }
    }
}
