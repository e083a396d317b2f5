//! The data as callers of the client write it down and make it: the JSON of 1.0, and the bytes of a file in a part.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proto_events::json::JsonText;

use crate::a2a::model::{Artifact, Content, Event, Message, Part, Task};
use crate::a2a::wire::{DataForm, write};

impl Task {
    /// Returns the task in the form of 1.0.
    pub fn to_json(&self) -> JsonText {
        write::task(DataForm::V1, self)
    }
}

impl Message {
    /// Returns the message in the form of 1.0.
    pub fn to_json(&self) -> JsonText {
        write::message(DataForm::V1, self)
    }
}

impl Artifact {
    /// Returns the result in the form of 1.0.
    pub fn to_json(&self) -> JsonText {
        write::artifact(DataForm::V1, self)
    }
}

impl Event {
    /// Returns the event in the form of 1.0, `StreamResponse`: an object with one member, which says what it is. That of an
    /// answer to a message is `SendMessageResponse`.
    pub fn to_json(&self) -> JsonText {
        write::event(DataForm::V1, self)
    }
}

impl Part {
    /// Returns a part with bytes.
    pub fn raw(bytes: &[u8]) -> Self {
        Self::from_content(Content::Raw(STANDARD.encode(bytes)))
    }

    /// Returns the bytes of a part that holds some; `None` for any other part, and for what is not base64.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        match &self.content {
            Content::Raw(raw) => STANDARD.decode(raw).ok(),
            Content::Text(_) | Content::Url(_) | Content::Data(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_and_what_is_no_base64_is_none() {
        let part = Part::raw(&[0, 255, 7]);
        assert_eq!(part.bytes(), Some(vec![0, 255, 7]));
        assert_eq!(Part::from_content(Content::Raw("*".to_owned())).bytes(), None);
        assert_eq!(Part::text("a").bytes(), None);
    }
}
