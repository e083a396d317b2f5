//! Divides a stream of JSON into its values, byte by byte, without reading past the end of a value: the next one may be
//! written much later.

use std::io::BufRead;

/// The longest text of one value in bytes. A task over the log's own limit is refused by name, so this only bounds the
/// memory that an input without an end can take.
const PIECE_BYTES_MAX: usize = 256 << 20;

/// The text of a value, and the place where it begins.
#[derive(Debug)]
pub(crate) struct Piece {
    /// The text, which is JSON if its author meant it so.
    pub(crate) text: String,
    /// The line of its first character, from 1.
    pub(crate) line: usize,
    /// The number of bytes before it in its line.
    pub(crate) column: usize,
}

/// The place in the input between two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Between {
    /// Outside any array.
    Values,
    /// After the beginning of an array.
    First,
    /// After an item of an array.
    AfterItem,
    /// After a comma of an array.
    Item,
}

/// A stream of values: the values of the input, and the items of each array in it.
pub(crate) struct Pieces<R> {
    input: R,
    between: Between,
    line: usize,
    column: usize,
}

impl<R: BufRead> Pieces<R> {
    pub(crate) fn new(input: R) -> Self {
        Self { input, between: Between::Values, line: 1, column: 0 }
    }

    /// Returns the next value; `None` at the end of the input.
    ///
    /// # Errors
    /// The fault in words, with its line and column.
    pub(crate) fn next(&mut self) -> Result<Option<Piece>, String> {
        loop {
            self.skip_blanks()?;
            let next = self.peek()?;
            match (self.between, next) {
                (Between::Values, None) => return Ok(None),
                (_, None) => return Err(self.fault("EOF while parsing a list")),
                (Between::Values, Some(b'[')) => self.step(Between::First)?,
                (Between::First | Between::AfterItem, Some(b']')) => self.step(Between::Values)?,
                (Between::AfterItem, Some(b',')) => self.step(Between::Item)?,
                (Between::AfterItem, Some(_)) => return Err(self.fault("expected `,` or `]`")),
                (Between::Item, Some(b']')) => return Err(self.fault("trailing comma")),
                (Between::Values, Some(_)) => return self.value().map(Some),
                (Between::First | Between::Item, Some(_)) => {
                    self.between = Between::AfterItem;
                    return self.value().map(Some);
                }
            }
        }
    }

    fn step(&mut self, between: Between) -> Result<(), String> {
        self.between = between;
        self.next_byte().map(drop)
    }

    fn fault(&self, what: &str) -> String {
        format!("line {}, column {}: {what}", self.line, self.column)
    }

    fn skip_blanks(&mut self) -> Result<(), String> {
        while let Some(byte) = self.peek()? {
            // A byte order mark may lead the text.
            let is_mark = self.line == 1 && self.column < 3 && [0xef, 0xbb, 0xbf].contains(&byte);
            if !byte.is_ascii_whitespace() && !is_mark {
                return Ok(());
            }
            self.next_byte()?;
        }
        Ok(())
    }

    fn peek(&mut self) -> Result<Option<u8>, String> {
        loop {
            match self.input.fill_buf() {
                Ok(bytes) => return Ok(bytes.first().copied()),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(format!("line {}: {error}", self.line)),
            }
        }
    }

    fn next_byte(&mut self) -> Result<Option<u8>, String> {
        let byte = self.peek()?;
        if let Some(byte) = byte {
            self.input.consume(1);
            (self.line, self.column) =
                if byte == b'\n' { (self.line + 1, 0) } else { (self.line, self.column + 1) };
        }
        Ok(byte)
    }

    /// Takes the bytes of one value. Whether they are JSON is for the parser to say: they end where the value does, or
    /// where it is certain that they are not values.
    fn value(&mut self) -> Result<Piece, String> {
        let (line, column) = (self.line, self.column);
        let mut scanner = Scanner::default();
        let mut bytes = Vec::new();
        while let Some(byte) = self.peek()? {
            if scanner.ends_before(byte, self.between == Between::AfterItem) {
                break;
            }
            self.next_byte()?;
            bytes.push(byte);
            if bytes.len() > PIECE_BYTES_MAX {
                return Err(format!("line {line}: a value is longer than {PIECE_BYTES_MAX} bytes"));
            }
            if scanner.ends_after(byte) {
                break;
            }
        }
        let text =
            String::from_utf8(bytes).map_err(|error| format!("line {line}: {}", error.utf8_error()))?;
        Ok(Piece { text, line, column })
    }
}

/// The end of a value, found byte by byte.
#[derive(Debug, Default)]
struct Scanner {
    open: Vec<u8>,
    in_string: bool,
    escaped: bool,
    begun: bool,
}

impl Scanner {
    /// Whether a value that is neither an object, an array nor a text ends before this byte.
    fn ends_before(&self, byte: u8, in_array: bool) -> bool {
        let bare = self.begun && self.open.is_empty() && !self.in_string;
        bare && (byte.is_ascii_whitespace() || (in_array && matches!(byte, b',' | b']')))
    }

    fn ends_after(&mut self, byte: u8) -> bool {
        self.begun = true;
        if self.in_string {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return !self.in_string && self.open.is_empty();
        }
        match byte {
            b'"' => self.in_string = true,
            b'{' => self.open.push(b'}'),
            b'[' => self.open.push(b']'),
            // A closing bracket that closes nothing, or something else, ends it too: it is not JSON.
            b'}' | b']' => return self.open.pop() != Some(byte) || self.open.is_empty(),
            _ => {}
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Read};

    use super::*;

    fn pieces(text: &str) -> Vec<(String, usize)> {
        let mut pieces = Pieces::new(text.as_bytes());
        std::iter::from_fn(|| pieces.next().unwrap()).map(|piece| (piece.text, piece.line)).collect()
    }

    #[test]
    fn values_and_the_items_of_arrays_come_with_their_lines() {
        let owned = |all: &[(&str, usize)]| -> Vec<(String, usize)> {
            all.iter().map(|(text, line)| ((*text).to_owned(), *line)).collect()
        };
        assert_eq!(
            pieces("{\"a\":\"}\\\"\"}\n\n {\"b\":[{}]}"),
            owned(&[("{\"a\":\"}\\\"\"}", 1), ("{\"b\":[{}]}", 3)])
        );
        assert_eq!(pieces("[\n{},\n[1],2]\n3"), owned(&[("{}", 2), ("[1]", 3), ("2", 3), ("3", 4)]));
        assert_eq!(pieces("[] []"), []);
        assert_eq!(pieces("{\"a\": [}\n{}"), owned(&[("{\"a\": [}", 1), ("{}", 2)]));
    }

    #[test]
    fn an_array_that_does_not_go_on_is_told_by_its_place() {
        for (text, says) in [
            ("[{},\n", "line 2, column 0: EOF"),
            ("[{} {}]", "line 1, column 4: expected `,`"),
            ("[{},]", "line 1, column 4: trailing comma"),
        ] {
            let mut pieces = Pieces::new(text.as_bytes());
            let fault = loop {
                match pieces.next() {
                    Ok(Some(_)) => {}
                    other => break other.unwrap_err(),
                }
            };
            assert!(fault.starts_with(says), "{fault}");
        }
    }

    #[test]
    fn a_value_is_given_before_anything_after_it_is_read() {
        /// A source that fails once its text was read.
        struct Then(&'static [u8]);
        impl Read for Then {
            fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
                assert!(!self.0.is_empty(), "more was read than the value takes");
                self.0.read(into)
            }
        }
        let mut pieces = Pieces::new(BufReader::new(Then(b"{\"id\":\"a\"}")));
        assert_eq!(pieces.next().unwrap().unwrap().text, "{\"id\":\"a\"}");
    }
}
