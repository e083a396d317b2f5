//! The answers to what was asked, and the end of the log as it moves.

use std::sync::Arc;
use std::time::Duration;

use crate::tui::ask::{AnswerContent, Ask, AskAnswer, AskKind, ListPage, StreamList};
use crate::tui::data::{InboxRow, StreamPage};
use crate::tui::keys::Key;
use crate::tui::marks::Tone;
use crate::tui::model::Model;
use crate::tui::model::layer::Over;
use crate::tui::model::parts::Pane;
use crate::tui::model::run::RunPane;
use crate::watch::SeenEnd;

/// The least time between two readings of a part of the screen.
const AGAIN_AFTER: Duration = Duration::from_millis(200);

/// The least time between two passes over the log.
const PASS_AFTER: Duration = Duration::from_secs(2);

impl Model {
    /// Takes an answer. One to a question whose reason is gone changes nothing.
    pub(crate) fn accept_answer(&mut self, told: AskAnswer) {
        let kind = told.ask.kind();
        self.waiting.remove(&kind);
        let rest = if told.ask.is_slow() { PASS_AFTER } else { AGAIN_AFTER };
        // Whatever takes long is asked for less often.
        let next = self.live.at + rest.max(told.took.saturating_mul(4));
        if let Some((_, after)) = self.asked.get_mut(&kind) {
            *after = next;
        }
        match told.answer {
            Ok(answer) => self.answered(told.ask, answer),
            Err(why) => self.refused(&told.ask, why),
        }
    }

    fn refused(&mut self, ask: &Ask, why: String) {
        match ask {
            Ask::Inbox => {
                self.inbox.fault = Some(why);
                self.inbox.is_read = true;
            }
            Ask::Streams(_, ListPage::First { .. }) => self.streams.damage = Some(why),
            Ask::Detail(place, tab, _) => {
                if self.detail.of.as_ref().is_some_and(|of| of.0 == *place && of.1 == *tab) {
                    let content = crate::tui::data::Content::single_line(format!("it cannot be read: {why}"));
                    self.detail.content = Arc::new(content);
                    self.lay_out_detail();
                }
            }
            Ask::Run(stream, _) => {
                let told = format!("{} cannot be read: {why}", stream.id());
                if let Some(run) = self.run.as_mut().filter(|run| run.stream == *stream && !run.is_read) {
                    run.is_read = true;
                    run.data = Arc::new(crate::tui::data::RunData {
                        damage: Some(why),
                        ..crate::tui::data::RunData::default()
                    });
                }
                self.set_message(told, Tone::Bad);
            }
            Ask::Decide(_) => {
                self.set_message(why, Tone::Bad);
                self.ask(Ask::Inbox);
            }
            Ask::Find(..) | Ask::FindTwo(..) if self.source.note.is_some() => {
                self.set_message(format!("{why}; it may stand behind the damage of the log"), Tone::Bad);
            }
            _ => self.set_message(why, Tone::Bad),
        }
    }

    fn answered(&mut self, ask: Ask, answer: AnswerContent) {
        match (ask, answer) {
            (Ask::Streams(listed, at), AnswerContent::Streams(page)) if listed == self.streams.listed => {
                match at {
                    // A further page has come since this one was asked for: the next look at the log asks for both. While following is
                    // paused nothing comes, and what is listed stays.
                    ListPage::First { reached, .. }
                        if self.streams.is_filtered() && reached != self.streams.reached =>
                    {
                        self.asked.entry(AskKind::Streams).or_default().0 = u64::MAX;
                    }
                    ListPage::First { .. } => self.take_streams(page, false),
                    // A further page is taken only where the list still ends before it.
                    ListPage::Further(cursor) if Some(cursor) == self.streams.next => {
                        self.take_streams(page, true);
                    }
                    ListPage::Further(_) => {}
                }
            }
            (Ask::Run(stream, filter), AnswerContent::Run(data)) => {
                let is_followed = self.live.paused_at.is_none();
                let Some(run) = &mut self.run else { return };
                if run.stream == stream && run.filter == filter {
                    run.accept_data(data, is_followed);
                    self.request_detail();
                }
            }
            (Ask::Detail(place, tab, marked), AnswerContent::Detail(content))
                if self.detail.of == Some((place.clone(), tab, marked)) =>
            {
                self.detail.content = Arc::new(content);
                self.lay_out_detail();
            }
            (Ask::Drawing(stream, ..), AnswerContent::Drawing(drawing))
                if self.run.as_ref().is_some_and(|run| run.stream == stream) =>
            {
                self.over = Some(Over::drawing(drawing));
            }
            (Ask::Cause(place), AnswerContent::Cause(cause)) => {
                let is_here = self.run.as_ref().and_then(RunPane::selected).is_some_and(|now| now == place);
                match cause {
                    Ok(version) if is_here => self.travel_to(version.0),
                    Ok(_) => {}
                    Err(why) => self.set_message(why, Tone::Dim),
                }
            }
            (Ask::Search(stream, text), AnswerContent::Found(versions)) => {
                self.accept_matches(&stream, &text, versions);
            }
            (_, AnswerContent::Inbox(rows)) => self.take_inbox(rows),
            (_, AnswerContent::Compared(runs)) => self.compare.runs = Some(runs),
            (_, AnswerContent::Stream(stream, at)) => {
                self.open(&stream, at);
                self.show_run(Pane::Events);
            }
            (_, AnswerContent::TwoStreams(left, right)) => self.compare_runs(left, right),
            (_, AnswerContent::Text(json)) => self.copy(json, "the event"),
            (_, AnswerContent::Decided(words)) => {
                self.set_message(words, Tone::Good);
                self.ask(Ask::Inbox);
            }
            _ => {}
        }
    }

    fn take_streams(&mut self, page: StreamPage, is_further: bool) {
        let chosen = self.streams.rows.get(self.streams.list.at).map(|row| row.stream().clone());
        self.streams.damage.clone_from(&page.damage);
        if is_further {
            self.streams.take_further(page);
        } else {
            self.streams.take_first(page);
        }
        // The first row stays the first one: a list that nobody has moved in shows what is newest.
        let place = chosen.filter(|_| self.streams.list.at > 0);
        if let Some(at) = place.and_then(|it| self.streams.rows.iter().position(|row| *row.stream() == it)) {
            self.streams.list.select(at);
        }
    }

    fn take_inbox(&mut self, rows: Vec<InboxRow>) {
        let chosen = self.inbox.rows.get(self.inbox.list.at).cloned();
        self.inbox.rows = rows;
        self.inbox.fault = None;
        self.inbox.is_read = true;
        let same = chosen.as_ref().and_then(|it| self.inbox.rows.iter().position(|row| row.is_same(it)));
        if let Some(at) = same {
            self.inbox.list.select(at);
        } else {
            // Another row stands there now: the person who was about to decide looks again.
            self.inbox.list.settle(self.inbox.rows.len(), usize::MAX);
            self.inbox.top = 0;
        }
        self.inbox.readings += 1;
    }

    fn accept_matches(&mut self, stream: &proto_events::id::StreamId, text: &str, versions: Vec<u64>) {
        let Some(run) = self.run.as_mut().filter(|run| run.stream == *stream) else { return };
        if self.search.as_deref() != Some(text) {
            return;
        }
        let wanted = text.to_lowercase();
        let named = run.data.events.iter().filter(|event| {
            event.kind.to_lowercase().contains(&wanted) || event.words.to_lowercase().contains(&wanted)
        });
        let mut versions: Vec<u64> = versions.into_iter().chain(named.map(|event| event.version)).collect();
        versions.sort_unstable();
        versions.dedup();
        let count = versions.len();
        run.found = versions;
        if count == 0 {
            return self.set_message(format!("`{text}` stands nowhere in this stream"), Tone::Asks);
        }
        let is_here = run.found.binary_search(&run.at).is_ok();
        self.set_message(format!("{count} events have `{text}`; n and N go through them"), Tone::Good);
        if !is_here {
            let said = self.said.take();
            self.page_key(Key::Char('n'));
            if self.said.is_some() {
                self.page_key(Key::Char('N'));
            }
            self.said = said;
        }
    }

    /// Takes the end of the log, and asks for what is shown if it has moved and is followed.
    pub(crate) fn seen(&mut self, seen: SeenEnd) {
        self.live.at = seen.at;
        let writer_changed = self.live.writer != seen.writer;
        self.live.writer = seen.writer;
        match seen.head {
            Ok(head) => {
                self.live.fault = None;
                if self.live.record_head(head, seen.at) {
                    // What was asked for until now is read of a log that ends there.
                    self.asked.values_mut().for_each(|asked| asked.0 = head);
                }
            }
            Err(why) => self.live.fault = Some(why),
        }
        if self.live.paused_at.is_some() {
            return;
        }
        if writer_changed {
            self.asked.remove(&AskKind::Inbox);
        }
        if matches!(self.streams.listed, StreamList::Tasks(_)) {
            self.ask_again(AskKind::Streams);
        }
        if self.run.is_some() {
            self.ask_again(AskKind::Run);
        }
        self.ask_again(AskKind::Inbox);
    }

    fn ask_again(&mut self, kind: AskKind) {
        let (head, next) = self.asked.get(&kind).copied().unwrap_or((u64::MAX, Duration::ZERO));
        if head == self.live.head || self.waiting.contains(&kind) || self.live.at < next {
            return;
        }
        match kind {
            AskKind::Streams => self.ask_first_streams(),
            AskKind::Run => self.ask_run(),
            _ => self.ask(Ask::Inbox),
        }
    }
}
