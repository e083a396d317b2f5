//! The images that tools attach to a task, as messages name them to models which take images.

use std::fmt;

use proto_events::json::{JsonObject, JsonText};
use proto_events::model::LlmMessage;
use proto_events::task::Task;
use serde::{Deserialize, Serialize};

/// The member of the metadata of artifacts and messages that names images.
const IMAGES: &str = "taskreel.images";

/// The media types of images that are sent: those that all known providers take.
const IMAGE_TYPES: [&str; 3] = ["image/png", "image/jpeg", "image/webp"];

/// The largest image that is sent, in bytes: Anthropic's limit, the smallest of the known providers.
const IMAGE_BYTES_MAX: u64 = 5_000_000;

/// The most images of one request: more cost more than they tell.
const SENT_MAX: usize = 16;

/// The most bytes of all images of one request: Gemini takes 20 MB in base64.
const SENT_BYTES_MAX: u64 = 14_000_000;

/// An image that a tool attached to its task: a part of an artifact, by the digest of its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ImageRef {
    /// The call that attached the image.
    pub call_id: String,
    /// The id of the artifact.
    pub artifact_id: String,
    /// The number of the part in its artifact, from 0.
    pub part: u32,
    /// The media type, for example `image/png`.
    pub media_type: String,
    /// The size of the content in bytes.
    pub bytes: u64,
    /// The SHA-256 of the content in hexadecimal digits.
    pub sha256: String,
}

impl ImageRef {
    /// Names a part of an artifact as an image; `None` if its content, read by its first bytes, is not an image of that type that
    /// models are sent.
    pub fn new(
        (call_id, artifact_id, part): (&str, &str, u32),
        media_type: &str,
        content: &[u8],
        sha256: String,
    ) -> Option<Self> {
        let bytes = content.len() as u64;
        let is_sent = type_of(content) == Some(media_type) && bytes <= IMAGE_BYTES_MAX;
        let (call_id, artifact_id) = (call_id.to_owned(), artifact_id.to_owned());
        is_sent.then(|| Self { call_id, artifact_id, part, media_type: media_type.to_owned(), bytes, sha256 })
    }

    /// Returns the images that the metadata of an artifact or a message names.
    pub fn named_in(metadata: &JsonObject) -> Vec<Self> {
        metadata.get(IMAGES).and_then(|named| named.read().ok()).unwrap_or_default()
    }

    /// Returns the images that a call attached to its task.
    pub fn attached_by(call_id: &str, task: &Task) -> Vec<Self> {
        let named = task.artifacts().iter().flat_map(|artifact| Self::named_in(&artifact.metadata));
        named.filter(|image| image.call_id == call_id).collect()
    }

    /// Names the images in the metadata of an artifact or a message, in place of those that it names.
    pub fn name_in(images: &[Self], metadata: &mut JsonObject) {
        metadata.remove(IMAGES);
        if !images.is_empty() {
            metadata.set(IMAGES, JsonText::of_model(&images));
        }
    }
}

impl fmt::Display for ImageRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} bytes, artifact {}", self.media_type, self.bytes, self.artifact_id)
    }
}

/// Returns the media type that the first bytes of an image tell.
fn type_of(content: &[u8]) -> Option<&'static str> {
    let is = |from: usize, mark: &[u8]| content.get(from..).is_some_and(|rest| rest.starts_with(mark));
    let [png, jpeg, webp] = IMAGE_TYPES;
    if is(0, b"\x89PNG\r\n\x1a\n") {
        Some(png)
    } else if is(0, b"\xff\xd8\xff") {
        Some(jpeg)
    } else {
        (is(0, b"RIFF") && is(8, b"WEBP")).then_some(webp)
    }
}

/// Returns the images that are sent with each message of a turn: of those that the messages name, the newest ones as far as one
/// request holds them.
pub(crate) fn sent_images(turn: &[&LlmMessage]) -> Vec<Vec<ImageRef>> {
    let (mut count, mut bytes) = (0_usize, 0_u64);
    let mut sent: Vec<Vec<ImageRef>> = turn
        .iter()
        .rev()
        .map(|message| {
            let mut images = ImageRef::named_in(&message.metadata);
            images.retain(|image| {
                count = count.saturating_add(1);
                bytes = bytes.saturating_add(image.bytes);
                count <= SENT_MAX && bytes <= SENT_BYTES_MAX
            });
            images
        })
        .collect();
    sent.reverse();
    sent
}

#[cfg(test)]
mod tests {
    use proto_events::model::LlmRole;

    use super::*;
    use crate::ports::Ports;

    fn image(artifact: &str, bytes: u64) -> ImageRef {
        let text = |text: &str| text.to_owned();
        ImageRef {
            call_id: text("c"),
            artifact_id: text(artifact),
            part: 0,
            media_type: text("image/png"),
            bytes,
            sha256: text("0"),
        }
    }

    #[test]
    fn the_newest_images_are_sent_as_far_as_a_request_holds_them() {
        let message = |images: &[ImageRef]| {
            let mut message = LlmMessage::new(LlmRole::Tool, "x", &mut Ports::default());
            ImageRef::name_in(images, &mut message.metadata);
            message
        };
        let sent = |turn: &[LlmMessage]| -> Vec<Vec<String>> {
            let sent = sent_images(&turn.iter().collect::<Vec<_>>());
            sent.into_iter().map(|of| of.into_iter().map(|image| image.artifact_id).collect()).collect()
        };
        let turn = [message(&[image("a", 1), image("b", 2)]), message(&[]), message(&[image("c", 3)])];
        assert_eq!(sent(&turn), [vec!["a", "b"], vec![], vec!["c"]]);
        let large =
            [message(&[image("a", 1)]), message(&[image("b", 9_000_000)]), message(&[image("c", 5_000_001)])];
        assert_eq!(sent(&large), [vec![], vec![], vec!["c".to_owned()]]);
        let many: Vec<LlmMessage> = (0..20).map(|n| message(&[image(&n.to_string(), 1)])).collect();
        let kept = sent(&many).concat();
        assert_eq!((kept.len(), kept.first().map(String::as_str)), (16, Some("4")));
    }

    #[test]
    fn an_image_is_what_its_first_bytes_say() {
        let named = |kind: &str, content: &[u8]| ImageRef::new(("c", "a", 0), kind, content, String::new());
        assert!(named("image/png", b"\x89PNG\r\n\x1a\n rest").is_some());
        assert!(named("image/webp", b"RIFF\0\0\0\0WEBPVP8").is_some());
        assert!(named("image/jpeg", b"\x89PNG\r\n\x1a\n rest").is_none());
        assert!(named("image/svg+xml", b"<svg/>").is_none());
        assert!(named("image/png", b"").is_none());
        let large = [b"\xff\xd8\xff".to_vec(), vec![0; 5_000_000]].concat();
        assert!(named("image/jpeg", &large).is_none());
    }
}
