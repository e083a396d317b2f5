//! `seq` and `graph`: prints diagrams of a stream.

use proto_events::id::StreamId;
use taskreel_log::views::{CausedEvent, DiagramMarks, SequenceDiagram, causes_text, sequence_text, visible};

use crate::print::answer::Answer;
use crate::print::problem::Problem;
use crate::print::screen::Screen;

/// The width of a diagram where neither a width was asked for nor stdout is a terminal, in columns.
const COLUMNS: usize = 120;

/// Returns the width of a diagram in columns.
pub(crate) fn width(asked: Option<u16>, screen: &Screen) -> usize {
    asked.map(usize::from).or(screen.width()).unwrap_or(COLUMNS)
}

/// Returns the title of a picture of a stream.
pub(crate) fn title(stream: &StreamId) -> String {
    visible(stream.as_str())
}

fn marks(screen: &Screen) -> DiagramMarks {
    if screen.is_unicode() { DiagramMarks::BOX } else { DiagramMarks::ASCII }
}

fn lines(lines: &[String], screen: &mut Screen) -> Result<Answer, Problem> {
    lines.iter().try_for_each(|line| {
        let line = screen.plain(line);
        screen.line(&line)
    })?;
    screen.flush()?;
    Ok(Answer::Yes)
}

/// Prints a sequence diagram in characters.
///
/// # Errors
/// [`Problem`] if the reader of the output is gone.
pub(crate) fn sequence(
    drawn: &SequenceDiagram,
    width: usize,
    screen: &mut Screen,
) -> Result<Answer, Problem> {
    lines(&sequence_text(drawn, width, marks(screen)), screen)
}

/// Prints a causation graph in characters.
///
/// # Errors
/// [`Problem`] if the reader of the output is gone.
pub(crate) fn causes(events: &[CausedEvent], width: usize, screen: &mut Screen) -> Result<Answer, Problem> {
    lines(&causes_text(events, width, marks(screen)), screen)
}

/// Prints a document as it is.
///
/// # Errors
/// [`Problem`] if the reader of the output is gone.
pub(crate) fn print_document(document: &str, screen: &mut Screen) -> Result<Answer, Problem> {
    screen.text(document)?;
    screen.flush()?;
    Ok(Answer::Yes)
}

/// Prints the steps of a sequence diagram as lines of JSON.
///
/// # Errors
/// [`Problem`] if the reader of the output is gone.
pub(crate) fn sequence_lines(
    stream: &StreamId,
    drawn: &SequenceDiagram,
    screen: &mut Screen,
) -> Result<Answer, Problem> {
    drawn.steps.iter().try_for_each(|step| screen.json_line(&drawn.step_json(stream, step)))?;
    screen.flush()?;
    Ok(Answer::Yes)
}

/// Prints the events of a causation graph as lines of JSON.
///
/// # Errors
/// [`Problem`] if the reader of the output is gone.
pub(crate) fn causes_lines(
    stream: &StreamId,
    events: &[CausedEvent],
    screen: &mut Screen,
) -> Result<Answer, Problem> {
    for event in events {
        let cause = event.cause.and_then(|cause| events.get(cause));
        screen.json_line(&event.to_json(stream, cause))?;
    }
    screen.flush()?;
    Ok(Answer::Yes)
}
