//! The content of an artifact or of a long result: texts, data, and files by what they are.

use taskreel_log::artifacts::{A2aFile, A2aFileContent, KeptFile};
use taskreel_log::views::{ArtifactContent, ArtifactRow, FoundArtifact};

use crate::inspect::block::Block;
use crate::inspect::words;

/// A piece of content.
#[derive(Debug)]
pub(crate) struct ContentPiece {
    pub(crate) title: String,
    pub(crate) class: &'static str,
    pub(crate) block: Block,
}

/// Returns the pieces of an artifact, in their order.
pub(crate) fn pieces(found: &FoundArtifact, bytes_max: usize, whole_at: &str) -> Vec<ContentPiece> {
    let piece = |(number, part): (usize, &ArtifactContent)| {
        let title = |what: &str| format!("{number} {what}");
        let text = |text: &str| Block::within(text, bytes_max, whole_at);
        match part {
            ArtifactContent::Text(said) => {
                ContentPiece { title: title("text"), class: "text", block: text(said) }
            }
            ArtifactContent::Data(data) => ContentPiece {
                title: title("data"),
                class: "json",
                block: Block::json_within(data, bytes_max, whole_at),
            },
            ArtifactContent::File(file) => {
                ContentPiece { title: title("file"), class: "text", block: text(&of_file(file)) }
            }
            ArtifactContent::KeptFile(kept) => ContentPiece {
                title: title("file beside the log"),
                class: "text",
                block: text(&of_kept(kept)),
            },
            other => ContentPiece { title: title(other.kind()), class: "head", block: Block::default() },
        }
    };
    (1..).zip(&found.parts).map(piece).collect()
}

/// Returns what is said of an artifact in a list.
pub(crate) fn in_words(row: &ArtifactRow) -> String {
    let kinds: Vec<&str> = row.kinds.iter().copied().collect();
    let state = if row.is_complete { "" } else { ", more pieces are expected" };
    format!(
        "{} {} · {} · {}, {}{state}",
        row.source.as_str(),
        row.name.as_deref().unwrap_or_default(),
        kinds.join(", "),
        words::of(row.parts as u64, "part", "parts"),
        words::of(row.characters, "character", "characters"),
    )
}

fn of_file(file: &A2aFile) -> String {
    let mut told = named(file.name.as_deref(), file.mime_type.as_deref());
    match &file.content {
        A2aFileContent::Bytes(text) => {
            // Four characters of base64 hold three bytes.
            let padding = text.bytes().rev().take_while(|byte| *byte == b'=').count();
            let bytes = (text.len() / 4 * 3).saturating_sub(padding);
            told.extend(["\nabout ", &words::bytes(bytes), ", in base64 in the log"]);
        }
        A2aFileContent::Uri(address) => told.extend(["\nat ", address, ", not fetched"]),
    }
    told
}

fn of_kept(kept: &KeptFile) -> String {
    let told = named(kept.name.as_deref(), kept.mime_type.as_deref());
    format!("{told}\n{} bytes, sha256 {}", kept.size, kept.sha256)
}

fn named(name: Option<&str>, media: Option<&str>) -> String {
    format!("{}, {}", name.unwrap_or("without a name"), media.unwrap_or("without a media type"))
}
