//! A decoder of server-sent events. The network may split the bytes anywhere: within a character, between
//! carriage return and line feed, in the middle of a line.

/// The reason why a stream cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// A line or an event is longer than the limit of an answer.
    TooLong,
    /// A line is not UTF-8.
    NotUtf8,
}

/// A server-sent event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    /// The event's type; empty if none was given.
    pub(crate) name: String,
    /// The data, lines joined by line feeds.
    pub(crate) data: String,
}

/// A decoder of bytes into events.
#[derive(Debug)]
pub(crate) struct Decoder {
    line: Vec<u8>,
    name: String,
    data: Option<String>,
    /// Whether the last byte was a carriage return: a line feed that follows belongs to it.
    after_return: bool,
    first_line: bool,
    bytes_max: usize,
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

impl Decoder {
    /// Creates a decoder for events of at most `bytes_max` bytes.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            line: Vec::new(),
            name: String::new(),
            data: None,
            after_return: false,
            first_line: true,
            bytes_max,
        }
    }

    /// Returns the events that these bytes complete, in order.
    pub(crate) fn feed(&mut self, mut bytes: &[u8]) -> Result<Vec<Event>, Unreadable> {
        let mut events = Vec::new();
        if !bytes.is_empty() && std::mem::take(&mut self.after_return) {
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let (line, rest) = bytes.split_at(end);
            self.add_to_line(line)?;
            events.extend(self.end_line()?);
            bytes = match rest {
                [b'\r', b'\n', rest @ ..] | [_, rest @ ..] => rest,
                [] => rest,
            };
            self.after_return = rest == b"\r";
        }
        self.add_to_line(bytes)?;
        Ok(events)
    }

    /// Returns the data after the last blank line at the end of the stream. By the specification it is not an
    /// event, since it may be incomplete.
    pub(crate) fn flush(mut self) -> Option<Event> {
        let ended = self.end_line().ok()?;
        ended.or_else(|| self.end_event())
    }

    fn add_to_line(&mut self, bytes: &[u8]) -> Result<(), Unreadable> {
        let waiting = self.data.as_ref().map_or(0, String::len);
        if self.line.len() + bytes.len() + waiting > self.bytes_max {
            return Err(Unreadable::TooLong);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self) -> Result<Option<Event>, Unreadable> {
        let mut line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.first_line) && line.starts_with(BYTE_ORDER_MARK) {
            line.drain(..BYTE_ORDER_MARK.len());
        }
        let line = String::from_utf8(line).map_err(|_| Unreadable::NotUtf8)?;
        if line.is_empty() {
            return Ok(self.end_event());
        }
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match (field, &mut self.data) {
            ("data", Some(data)) => {
                data.push('\n');
                data.push_str(value);
            }
            ("data", data @ None) => *data = Some(value.to_owned()),
            ("event", _) => value.clone_into(&mut self.name),
            // Comments begin with a colon; ids and retry times are not used.
            _ => {}
        }
        Ok(None)
    }

    fn end_event(&mut self) -> Option<Event> {
        let name = std::mem::take(&mut self.name);
        self.data.take().map(|data| Event { name, data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(pieces: &[&[u8]]) -> Result<Vec<String>, Unreadable> {
        let mut decoder = Decoder::new(1_000);
        let mut found = Vec::new();
        for piece in pieces {
            found.extend(decoder.feed(piece)?.into_iter().map(|event| event.data));
        }
        Ok(found)
    }

    const TEXT: &str = "\u{feff}: hello\ndata: {\"a\":\"Zürich 😀\"}\r\n\r\nid: 7\r\rdata:b\ndata: c\n\n:\n\ndata\n\ndata: d";

    #[test]
    fn events_come_out_the_same_wherever_the_bytes_are_cut() {
        let whole = data(&[TEXT.as_bytes()]).unwrap();
        assert_eq!(whole, ["{\"a\":\"Zürich 😀\"}", "b\nc", ""]);
        for cut in 0..TEXT.len() {
            let (left, right) = TEXT.as_bytes().split_at(cut);
            assert_eq!(data(&[left, right]).unwrap(), whole, "cut at {cut}");
            assert_eq!(data(&[left, b"", right]).unwrap(), whole, "cut at {cut}, with nothing between");
        }
        let single: Vec<&[u8]> = TEXT.as_bytes().chunks(1).collect();
        assert_eq!(data(&single).unwrap(), whole);
    }

    #[test]
    fn what_has_no_blank_line_behind_it_is_no_event_but_can_be_looked_at() {
        let mut decoder = Decoder::new(100);
        assert!(decoder.feed(b"event: end\ndata: [DO").unwrap().is_empty());
        assert!(decoder.feed(b"NE]").unwrap().is_empty());
        let rest = decoder.flush().unwrap();
        assert_eq!((rest.name.as_str(), rest.data.as_str()), ("end", "[DONE]"));
        assert_eq!(Decoder::new(100).flush(), None);
    }

    #[test]
    fn long_events_and_other_encodings_are_refused() {
        assert_eq!(data(&[b"data: ", &[b'a'; 2_000]]), Err(Unreadable::TooLong));
        let line = [b"data: ", [b'a'; 300].as_slice(), b"\n"].concat();
        assert_eq!(data(&[&line, &line, &line, &line]), Err(Unreadable::TooLong));
        assert_eq!(data(&[b"data: \xff\n"]), Err(Unreadable::NotUtf8));
    }
}
