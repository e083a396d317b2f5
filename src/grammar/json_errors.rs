//! Error texts for invalid JSON, with the wording and positions of Python's `json`, which models and
//! Protolink's clients expect. Called only after parsing has failed.

use proto_events::limits::JSON_DEPTH_MAX;

/// Returns the first error: its text, line, column and character.
pub(crate) fn describe(text: &str) -> String {
    let mut scan = Scan { chars: text.chars().collect(), at: 0 };
    let found = scan.value(0).and_then(|()| {
        scan.space();
        if scan.at < scan.chars.len() { Err(("Extra data", scan.at)) } else { Ok(()) }
    });
    let (words, at) = found.err().unwrap_or(("Expecting value", 0));
    let before = scan.chars.get(..at).unwrap_or_default();
    let line = 1 + before.iter().filter(|char| **char == '\n').count();
    let column = 1 + before.iter().rev().take_while(|char| **char != '\n').count();
    format!("{words}: line {line} column {column} (char {at})")
}

type Found = Result<(), (&'static str, usize)>;

struct Scan {
    chars: Vec<char>,
    at: usize,
}

impl Scan {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(' ' | '\t' | '\n' | '\r')) {
            self.at += 1;
        }
    }

    fn accept_if(&mut self, wanted: char) -> bool {
        let there = self.peek() == Some(wanted);
        self.at += usize::from(there);
        there
    }

    fn value(&mut self, depth: usize) -> Found {
        if depth > JSON_DEPTH_MAX {
            return Err(("Nested too deep", self.at));
        }
        self.space();
        match self.peek() {
            Some('{') => self.object(depth),
            Some('[') => self.array(depth),
            Some('"') => self.string(),
            Some('-' | '0'..='9') => self.number(),
            _ => self.word(),
        }
    }

    fn word(&mut self) -> Found {
        for word in ["true", "false", "null", "NaN", "Infinity"] {
            let rest = self.chars.get(self.at..).unwrap_or_default();
            if rest.iter().copied().take(word.len()).eq(word.chars()) {
                self.at += word.len();
                return Ok(());
            }
        }
        Err(("Expecting value", self.at))
    }

    fn number(&mut self) -> Found {
        let start = self.at;
        self.accept_if('-');
        let digits = self.digits();
        if digits == 0 {
            return Err(("Expecting value", start));
        }
        let whole = self.at;
        if self.accept_if('.') && self.digits() == 0 {
            self.at = whole;
        }
        let fraction = self.at;
        if self.accept_if('e') || self.accept_if('E') {
            let _sign = self.accept_if('+') || self.accept_if('-');
            if self.digits() == 0 {
                self.at = fraction;
            }
        }
        Ok(())
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while self.peek().is_some_and(|char| char.is_ascii_digit()) {
            self.at += 1;
        }
        self.at - start
    }

    fn string(&mut self) -> Found {
        let start = self.at;
        self.at += 1;
        loop {
            match self.peek() {
                None => return Err(("Unterminated string starting at", start)),
                Some('"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some('\\') => self.escape(start)?,
                Some(_) => self.at += 1,
            }
        }
    }

    fn escape(&mut self, start: usize) -> Found {
        let at = self.at;
        self.at += 1;
        match self.peek() {
            None => Err(("Unterminated string starting at", start)),
            Some('u') => {
                let digits = self.chars.get(self.at + 1..self.at + 5).unwrap_or_default();
                if digits.len() < 4 || !digits.iter().all(char::is_ascii_hexdigit) {
                    return Err(("Invalid \\uXXXX escape", at + 1));
                }
                self.at += 5;
                Ok(())
            }
            Some('"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't') => {
                self.at += 1;
                Ok(())
            }
            Some(_) => Err(("Invalid \\escape", at)),
        }
    }

    fn object(&mut self, depth: usize) -> Found {
        self.at += 1;
        self.space();
        if self.accept_if('}') {
            return Ok(());
        }
        loop {
            self.space();
            if self.peek() != Some('"') {
                return Err(("Expecting property name enclosed in double quotes", self.at));
            }
            self.string()?;
            self.space();
            if !self.accept_if(':') {
                return Err(("Expecting ':' delimiter", self.at));
            }
            self.value(depth + 1)?;
            self.space();
            if self.accept_if('}') {
                return Ok(());
            }
            if !self.accept_if(',') {
                return Err(("Expecting ',' delimiter", self.at));
            }
        }
    }

    fn array(&mut self, depth: usize) -> Found {
        self.at += 1;
        self.space();
        if self.accept_if(']') {
            return Ok(());
        }
        loop {
            self.value(depth + 1)?;
            self.space();
            if self.accept_if(']') {
                return Ok(());
            }
            if !self.accept_if(',') {
                return Err(("Expecting ',' delimiter", self.at));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::describe;

    #[test]
    fn errors_have_pythons_words_and_places() {
        for (text, words) in [
            ("garbage", "Expecting value: line 1 column 1 (char 0)"),
            ("", "Expecting value: line 1 column 1 (char 0)"),
            ("{\"a\": }", "Expecting value: line 1 column 7 (char 6)"),
            ("{a: 1}", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
            ("{\"a\" 1}", "Expecting ':' delimiter: line 1 column 6 (char 5)"),
            ("[1 2]", "Expecting ',' delimiter: line 1 column 4 (char 3)"),
            ("{}\n x", "Extra data: line 2 column 2 (char 4)"),
            ("[\"a", "Unterminated string starting at: line 1 column 2 (char 1)"),
            ("\"\\x\"", "Invalid \\escape: line 1 column 2 (char 1)"),
        ] {
            assert_eq!(describe(text), words, "{text}");
        }
    }
}
