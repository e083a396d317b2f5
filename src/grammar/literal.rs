//! The parser of Python literals: strings, numbers, `True`, `None`, lists, tuples, sets and dicts.

use std::iter::Peekable;
use std::str::Chars;

use proto_events::json::{JsonMap, JsonNumber, JsonValue as Value};

use crate::python::float_repr;

/// The deepest nesting of a literal, in levels.
const DEPTH_MAX: usize = 64;

/// A reader of a text from its beginning to its end.
pub(crate) struct Reader<'a> {
    chars: Peekable<Chars<'a>>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        let chars = text.chars().peekable();
        Self { chars }
    }

    /// Whether only space is left.
    pub(crate) fn is_done(&mut self) -> bool {
        self.peek().is_none()
    }

    /// Skips whitespace and comments.
    fn skip_space(&mut self) {
        while let Some(&char) = self.chars.peek() {
            if char == '#' {
                while self.chars.next_if(|char| *char != '\n').is_some() {}
            } else if char.is_whitespace() {
                self.chars.next();
            } else {
                return;
            }
        }
    }

    /// Takes this character, after space, if it is next.
    pub(crate) fn eat(&mut self, wanted: char) -> bool {
        self.skip_space();
        self.chars.next_if_eq(&wanted).is_some()
    }

    /// Returns the next character after space, without taking it.
    pub(crate) fn peek(&mut self) -> Option<char> {
        self.skip_space();
        self.chars.peek().copied()
    }

    /// Takes letters, digits and underscores, after space; the result may be empty.
    pub(crate) fn word(&mut self) -> String {
        self.skip_space();
        let mut word = String::new();
        while let Some(char) = self.chars.next_if(|char| char.is_alphanumeric() || *char == '_') {
            word.push(char);
        }
        word
    }

    /// Parses a literal. `depth` is the number of brackets around it.
    pub(crate) fn literal(&mut self, depth: usize) -> Option<Value> {
        if depth >= DEPTH_MAX {
            return None;
        }
        match self.peek()? {
            '[' => self.items('[', ']', depth).map(|(items, _)| Value::Array(items)),
            '(' => self.tuple(depth),
            '{' => self.braces(depth),
            '\'' | '"' => self.strings("").map(Value::String),
            '+' | '-' => self.signed(),
            '.' | '0'..='9' => self.number("").map(Value::Number),
            _ => self.word_literal(),
        }
    }

    fn word_literal(&mut self) -> Option<Value> {
        let word = self.word();
        match word.as_str() {
            "True" => Some(Value::Bool(true)),
            "False" => Some(Value::Bool(false)),
            "None" => Some(Value::Null),
            "r" | "R" | "u" | "U" if matches!(self.chars.peek(), Some('\'' | '"')) => {
                self.strings(&word.to_lowercase()).map(Value::String)
            }
            _ => None,
        }
    }

    /// Parses items up to the closing bracket. Also returns whether there was a comma.
    fn items(&mut self, open: char, close: char, depth: usize) -> Option<(Vec<Value>, bool)> {
        let (mut items, mut comma) = (Vec::new(), false);
        if !self.eat(open) {
            return None;
        }
        while !self.eat(close) {
            items.push(self.literal(depth + 1)?);
            if self.eat(',') {
                comma = true;
            } else {
                return self.eat(close).then_some((items, comma));
            }
        }
        Some((items, comma))
    }

    /// Parses a tuple such as `(1,)`; `(1)` is its only item in brackets.
    fn tuple(&mut self, depth: usize) -> Option<Value> {
        let (mut items, comma) = self.items('(', ')', depth)?;
        if items.len() == 1 && !comma {
            return items.pop();
        }
        Some(Value::Array(items))
    }

    /// Parses a dict with string keys, or a set, which becomes a list.
    fn braces(&mut self, depth: usize) -> Option<Value> {
        self.eat('{');
        let (mut fields, mut items) = (JsonMap::new(), Vec::new());
        while !self.eat('}') {
            let item = self.literal(depth + 1)?;
            if self.eat(':') {
                fields.insert(key(&item)?, self.literal(depth + 1)?);
            } else {
                items.push(item);
            }
            if !self.eat(',') {
                if self.eat('}') {
                    break;
                }
                return None;
            }
        }
        match (fields.is_empty(), items.is_empty()) {
            (_, true) => Some(Value::Object(fields)),
            (true, false) => Some(Value::Array(items)),
            (false, false) => None,
        }
    }

    /// Parses a number after one sign, as Python's literals allow.
    fn signed(&mut self) -> Option<Value> {
        let sign = if self.chars.next()? == '-' { "-" } else { "" };
        if !matches!(self.peek()?, '.' | '0'..='9') {
            return None;
        }
        self.number(sign).map(Value::Number)
    }

    fn number(&mut self, sign: &str) -> Option<JsonNumber> {
        let mut text = String::new();
        while let Some(&char) = self.chars.peek() {
            let exponent_sign = matches!(char, '+' | '-') && text.ends_with(['e', 'E']) && !is_radix(&text);
            if !(char.is_alphanumeric() || matches!(char, '.' | '_') || exponent_sign) {
                break;
            }
            text.push(char);
            self.chars.next();
        }
        number_of(sign, &text)
    }

    /// Parses adjacent strings, which are joined.
    fn strings(&mut self, prefix: &str) -> Option<String> {
        let mut text = self.string(prefix == "r")?;
        loop {
            match self.peek() {
                Some('\'' | '"') => text.push_str(&self.string(false)?),
                _ => return Some(text),
            }
        }
    }

    fn string(&mut self, raw: bool) -> Option<String> {
        let quote = self.chars.next()?;
        let mut ahead = self.chars.clone();
        let triple = ahead.next() == Some(quote) && ahead.next() == Some(quote);
        if triple {
            self.chars.next();
            self.chars.next();
        }
        let mut text = String::new();
        loop {
            let char = self.chars.next()?;
            if char == quote && (!triple || self.closes_triple(quote)) {
                return Some(text);
            }
            match char {
                '\n' if !triple => return None,
                '\\' if raw => {
                    text.push('\\');
                    text.push(self.chars.next()?);
                }
                '\\' => self.escape(&mut text)?,
                _ => text.push(char),
            }
        }
    }

    /// Whether two more quotes follow a first one, which are then taken.
    fn closes_triple(&mut self, quote: char) -> bool {
        let mut ahead = self.chars.clone();
        let closes = ahead.next() == Some(quote) && ahead.next() == Some(quote);
        if closes {
            self.chars = ahead;
        }
        closes
    }

    fn escape(&mut self, text: &mut String) -> Option<()> {
        let char = self.chars.next()?;
        let made = match char {
            '\n' => return Some(()),
            '\\' | '\'' | '"' => char,
            'a' => '\u{7}',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            'x' => self.hex(2)?,
            'u' => self.hex(4)?,
            'U' => self.hex(8)?,
            '0'..='7' => self.octal(char)?,
            'N' => return None,
            other => {
                // Python keeps the backslash of an unknown escape.
                text.push('\\');
                other
            }
        };
        text.push(made);
        Some(())
    }

    fn hex(&mut self, digits: usize) -> Option<char> {
        let mut code = 0;
        for _ in 0..digits {
            code = code * 16 + self.chars.next()?.to_digit(16)?;
        }
        char::from_u32(code)
    }

    fn octal(&mut self, first: char) -> Option<char> {
        let mut code = first.to_digit(8)?;
        for _ in 0..2 {
            match self.chars.next_if(|char| char.is_digit(8)) {
                Some(digit) => code = code * 8 + digit.to_digit(8)?,
                None => break,
            }
        }
        char::from_u32(code)
    }
}

/// Returns the key of a dict. JSON's keys are strings; a dict with other keys is refused, as their text is
/// undefined.
fn key(item: &Value) -> Option<String> {
    match item {
        Value::String(text) => Some(text.clone()),
        _ => None,
    }
}

fn is_radix(text: &str) -> bool {
    text.get(..2).is_some_and(|start| matches!(start.to_lowercase().as_str(), "0x" | "0o" | "0b"))
}

/// Parses a Python number: underscores between digits, no leading zeros, other bases, floats. One that JSON can
/// write keeps its text.
fn number_of(sign: &str, text: &str) -> Option<JsonNumber> {
    if text.starts_with('_') || text.ends_with('_') || text.contains("__") {
        return None;
    }
    let plain = text.replace('_', "");
    if is_radix(&plain) {
        let radix = match plain.get(1..2)?.to_lowercase().as_str() {
            "x" => 16,
            "o" => 8,
            _ => 2,
        };
        let whole = u128::from_str_radix(plain.get(2..)?, radix).ok()?;
        return format!("{sign}{whole}").parse().ok();
    }
    if plain.bytes().all(|byte| byte.is_ascii_digit()) {
        let digits = plain.trim_start_matches('0');
        return match (digits, plain.len()) {
            ("", _) => "0".parse().ok(),
            (digits, length) if digits.len() == length => format!("{sign}{digits}").parse().ok(),
            _ => None,
        };
    }
    let simple = plain.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'));
    let float: f64 = Some(format!("{sign}{plain}")).filter(|_| simple)?.parse().ok()?;
    let float = Some(float).filter(|float| float.is_finite())?;
    format!("{sign}{text}").parse().ok().or_else(|| float_repr(float).parse().ok())
}
