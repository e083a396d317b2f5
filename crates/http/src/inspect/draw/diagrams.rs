//! The diagrams of a stream, laid out as the command line lays them out, each row with a link to its event.

use std::fmt;

use proto_events::id::{StreamId, Version};
use taskreel_log::api::{EventReader, ReadError};
use taskreel_log::views::{
    causes_between, causes_svg_linked, sequence_between, sequence_svg_linked, visible,
};

/// The width of a diagram in columns of characters.
const COLUMNS: usize = 120;

/// The name of the language of pictures, which stands in a page without being said.
const NAMESPACE: &str = " xmlns=\"http://www.w3.org/2000/svg\"";

/// A diagram: markup that the log's views have made and escaped.
#[derive(Debug, Clone)]
pub(crate) struct Diagram(String);

impl fmt::Display for Diagram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Draws who sent what to whom between two versions.
///
/// # Errors
/// [`ReadError`] if the stream cannot be read.
pub(crate) fn sequence(
    log: &dyn EventReader,
    stream: &StreamId,
    between: (Version, Version),
    address: &dyn Fn(Version) -> String,
) -> Result<Diagram, ReadError> {
    let drawn = sequence_between(log, stream, between)?;
    Ok(parse(&sequence_svg_linked(&drawn, COLUMNS, &visible(stream.as_str()), address)))
}

/// Draws which event between two versions caused which.
///
/// # Errors
/// [`ReadError`] if the stream cannot be read.
pub(crate) fn causation(
    log: &dyn EventReader,
    stream: &StreamId,
    between: (Version, Version),
    address: &dyn Fn(Version) -> String,
) -> Result<Diagram, ReadError> {
    let events = causes_between(log, stream, between)?;
    Ok(parse(&causes_svg_linked(&events, COLUMNS, &visible(stream.as_str()), address)))
}

fn parse(picture: &str) -> Diagram {
    // A picture with links is not an image: what reads it aloud reads its rows.
    Diagram(picture.replacen(NAMESPACE, "", 1).replacen("role=\"img\"", "role=\"group\"", 1))
}
