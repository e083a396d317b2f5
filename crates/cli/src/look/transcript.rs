//! `transcript`: a session as a conversation.

use taskreel_log::views::transcript as told;

use crate::args::Global;
use crate::args::transcript::{TalkFormat, TranscriptArgs};
use crate::look::open_log::OpenLog;
use crate::print::answer::Answer;
use crate::print::problem::Problem;
use crate::print::screen::{Screen, note};
use crate::print::transcript::{Talk, print_entry, title};

pub(crate) fn transcript(
    args: &TranscriptArgs,
    global: &Global,
    screen: &mut Screen,
) -> Result<Answer, Problem> {
    let condition = args.only.over("taskreel.transcript/1")?;
    let talk = match args.format {
        _ if screen.json => Talk::Lines,
        TalkFormat::Jsonl => Talk::Lines,
        TalkFormat::Text => Talk::Text,
        TalkFormat::Md => Talk::Markdown,
    };
    OpenLog::show(&args.from, global, |log| {
        let (stream, then) = log.find_at(&args.id, args.point.at)?;
        if talk == Talk::Markdown {
            title(&stream, screen)?;
        }
        let mut is_empty = true;
        let read = told(then.reader(), &stream, |entry| {
            let is_left_out = args.no_tools && entry.speaker.is_tool();
            if is_left_out || condition.as_ref().is_some_and(|it| !it.holds(&entry.to_json().tree())) {
                return Ok::<_, Problem>(());
            }
            is_empty = false;
            print_entry(&entry, talk, screen)
        })?;
        screen.flush()?;
        note(&if is_empty {
            format!("nothing was said in {read}")
        } else {
            format!("next: {} {read} VERSION", log.typed("event"))
        });
        Ok(Answer::Yes)
    })
}
