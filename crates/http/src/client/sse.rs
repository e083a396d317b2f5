//! Server-sent events, read from bytes that arrive in any pieces; and lines of JSON, which some servers send in their place.

use proto_events::json::JsonText;

/// An event of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SseEvent {
    /// The data, its lines joined.
    pub(crate) data: String,
    /// The id of this event or of an earlier one.
    pub(crate) id: Option<String>,
}

/// The reading of a stream: what came of the current event.
#[derive(Debug, Default)]
pub(crate) struct SseReader {
    /// The bytes of the current line.
    line: Vec<u8>,
    /// Whether a line feed that comes next belongs to the line end before it.
    after_return: bool,
    data: String,
    has_data: bool,
    id: Option<String>,
    limit: usize,
    /// Whether each line is an event.
    is_lines: bool,
}

/// An event that is larger than it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLarge;

impl SseReader {
    /// Returns a reader of events of at most this many bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Returns a reader that takes each line for the data of an event.
    pub(crate) fn of_lines(limit: usize) -> Self {
        Self { is_lines: true, ..Self::new(limit) }
    }

    /// Returns the last line at the end of the answer, which needs no line end. One that was cut off is not an event.
    pub(crate) fn rest(&mut self) -> Option<SseEvent> {
        let last = if self.is_lines { self.end_line() } else { None };
        last.filter(|last| JsonText::parse(&last.data).is_ok())
    }

    /// Takes the next bytes, and puts the events that they complete behind the others.
    ///
    /// # Errors
    /// [`TooLarge`] if an event is larger than it may be.
    pub(crate) fn take(&mut self, bytes: &[u8], events: &mut impl Extend<SseEvent>) -> Result<(), TooLarge> {
        for byte in bytes {
            let after_return = std::mem::take(&mut self.after_return);
            match byte {
                b'\n' if after_return => {}
                b'\n' | b'\r' => {
                    self.after_return = *byte == b'\r';
                    events.extend(self.end_line());
                }
                _ => self.line.push(*byte),
            }
            if self.line.len() + self.data.len() > self.limit {
                return Err(TooLarge);
            }
        }
        Ok(())
    }

    /// Ends a line, and returns the event that it ends.
    fn end_line(&mut self) -> Option<SseEvent> {
        let line = String::from_utf8_lossy(&self.line).into_owned();
        self.line.clear();
        if self.is_lines {
            return (!line.trim().is_empty()).then_some(SseEvent { data: line, id: None });
        }
        if line.is_empty() {
            let data = std::mem::take(&mut self.data);
            return std::mem::take(&mut self.has_data).then(|| SseEvent { data, id: self.id.clone() });
        }
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if self.has_data {
                    self.data.push('\n');
                }
                self.has_data = true;
                self.data.push_str(value);
            }
            "id" if !value.contains('\0') => self.id = Some(value.to_owned()),
            // A comment, or a field that has no meaning here.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(pieces: &[&[u8]]) -> Vec<(String, Option<String>)> {
        let (mut reader, mut events) = (SseReader::new(1_000), Vec::new());
        for piece in pieces {
            reader.take(piece, &mut events).unwrap();
        }
        events.into_iter().map(|event| (event.data, event.id)).collect()
    }

    #[test]
    fn events_are_read_with_any_line_end_and_comments_are_skipped() {
        let one = |data: &str, id: Option<&str>| (data.to_owned(), id.map(str::to_owned));
        let stream = b": hello\n\ndata: a\nid: 7\n\ndata:b\r\ndata: c\r\n\r\nevent: x\rdata: d\r\rdata: cut";
        assert_eq!(read(&[stream]), [one("a", Some("7")), one("b\nc", Some("7")), one("d", Some("7"))]);
        assert_eq!(read(&[b"data\n\n"]), [one("", None)]);
    }

    #[test]
    fn an_event_without_an_end_is_refused_once_it_is_too_large() {
        let mut reader = SseReader::new(10);
        let mut events: Vec<SseEvent> = Vec::new();
        assert_eq!(reader.take(b"data: 12345678901", &mut events), Err(TooLarge));
        assert!(SseReader::new(10).take(&b"data: 1\n\n".repeat(100), &mut events).is_ok());
    }

    proptest! {
        #[test]
        fn the_places_at_which_a_stream_is_cut_change_nothing(
            texts in prop::collection::vec("[a-zé ]{0,12}", 0..6),
            cuts in prop::collection::vec(0..200_usize, 0..8),
        ) {
            let stream = texts.iter().fold(String::new(), |stream, text| stream + "data: " + text + "\r\n\r\n");
            let bytes = stream.as_bytes();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
            cuts.sort_unstable();
            let (mut pieces, mut from) = (Vec::new(), 0);
            for cut in cuts {
                pieces.push(&bytes[from..cut]);
                from = cut;
            }
            pieces.push(&bytes[from..]);
            let read: Vec<String> = read(&pieces).into_iter().map(|(data, _)| data).collect();
            prop_assert_eq!(read, texts);
        }
    }
}
