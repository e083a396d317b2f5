//! The following of a task: by its stream, or by looking again and again, to the end that is printed.

use std::cell::RefCell;

use taskreel_http::a2a::{A2aError, Event, EventStream, StreamItem, Task};

use crate::a2a::agent::Agent;
use crate::a2a::credentials::redactor;
use crate::a2a::failure::Failure;
use crate::a2a::out::Out;
use crate::a2a::settings::Settings;
use crate::a2a::task_summary::{note_ids, print_continuation};
use crate::a2a::text;
use crate::a2a::wait::{Bounds, TaskProgress, is_end, polled};
use crate::print::plain::without_control;
use crate::print::problem::EXIT_NO;
use crate::print::screen::note;

/// A command about a task, and what it needs.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    pub(crate) agent: &'a Agent,
    pub(crate) settings: &'a Settings,
    pub(crate) bounds: Bounds,
    /// The task that the command waits for, for the advice where it is interrupted.
    pub(crate) known: &'a RefCell<Option<String>>,
    /// Whether a message is sent, whose answer is wrapped in JSON.
    pub(crate) sends: bool,
}

impl Turn<'_> {
    /// Waits for an answer of the agent.
    ///
    /// # Errors
    /// [`Failure`] if no answer comes in time.
    pub(crate) async fn wait_answer<T>(
        &self,
        work: impl Future<Output = Result<T, A2aError>>,
    ) -> Result<T, Failure> {
        let known = self.known.borrow().clone();
        let answer = self.bounds.within(work).await;
        answer
            .map_err(|late| late.failure(self.agent, known.as_deref()))?
            .map_err(|error| self.agent.failed(&error))
    }

    /// Whether events are printed as they come. What follows a task for people always does.
    fn is_live(&self, out: &Out) -> bool {
        self.settings.streams || (!self.sends && !out.json)
    }

    /// Looks at a task until its end, and prints it: each change where events are printed, else the end alone.
    ///
    /// # Errors
    /// [`Failure`].
    pub(crate) async fn looked(&self, first: &Task, out: &mut Out) -> Result<(), Failure> {
        self.known.replace(Some(first.id.clone()));
        let is_live = self.is_live(out);
        let mut shown = None;
        if is_live {
            event(out, &Event::Task(Box::new(first.clone())))?;
            shown = Some(first.clone());
        }
        let task = polled(self.agent, &first.id, self.settings.number("history"), &self.bounds, |task| {
            if is_live && !is_end(task.status.state) && shown.as_ref() != Some(task) {
                shown = Some(task.clone());
                event(out, &Event::Task(Box::new(task.clone())))?;
            }
            Ok(())
        });
        let task = task.await?;
        self.print_answer(&Event::Task(Box::new(task)), out)
    }

    /// Prints a whole answer: a task or a message.
    ///
    /// # Errors
    /// [`Failure`] if it cannot be written.
    pub(crate) fn print_answer(&self, event: &Event, out: &mut Out) -> Result<(), Failure> {
        if out.json {
            let json = match event {
                Event::Task(task) if !self.sends && !self.settings.streams => task.to_json(),
                event => event.to_json(),
            };
            out.value(&json)?;
        } else {
            match event {
                Event::Message(message) => text::answer(out, message)?,
                Event::Task(task) => text::task(out, task)?,
                other => text::event(out, other)?,
            }
        }
        if let Event::Task(task) = event {
            // What was printed event by event ends with the ids and the state.
            let is_live = self.is_live(out);
            print_continuation(out, self.agent, (&task.id, &task.context_id, task.status.state), is_live)?;
        }
        Ok(out.flush()?)
    }

    /// Follows a stream to its end. Where it fails, the task is looked at again and again.
    ///
    /// # Errors
    /// [`Failure`] if that fails too.
    pub(crate) async fn followed(&self, mut stream: EventStream, out: &mut Out) -> Result<(), Failure> {
        let (mut told, is_live) = (TaskProgress::default(), self.is_live(out));
        loop {
            let known = told.ids.as_ref().map(|(task, _)| task.clone());
            let next = self.bounds.within(stream.next()).await;
            match next.map_err(|late| late.failure(self.agent, known.as_deref()))? {
                Some(Ok(item)) => {
                    told.accept_item(&item);
                    self.heard(&told, known.is_none(), is_live);
                    let Some(one) = event_of(item) else { continue };
                    if matches!(one, Event::Message(_)) && told.ids.is_none() {
                        return self.print_answer(&one, out);
                    }
                    if is_live {
                        event(out, &one)?;
                    }
                    if told.state.is_some_and(taskreel_http::a2a::State::is_interrupted) {
                        break;
                    }
                }
                Some(Err(error)) => {
                    let Some(id) = known else { return Err(self.agent.failed(&error)) };
                    if told.state.is_some_and(is_end) {
                        break;
                    }
                    return self.after_break(&id, &error, out).await;
                }
                None => break,
            }
        }
        // The connection is not needed any more, and the agent need not keep it.
        drop(stream);
        self.at_end(told, is_live, out).await
    }

    /// Takes note of a task that the stream has named.
    fn heard(&self, told: &TaskProgress, is_first: bool, is_live: bool) {
        let Some((task, context)) = told.ids.as_ref().filter(|_| is_first) else { return };
        self.known.replace(Some(task.clone()));
        if !is_live && !told.state.is_some_and(is_end) {
            note(&format!("task {task} context {context}"));
        }
    }

    /// Goes on where a stream has failed.
    async fn after_break(&self, id: &str, error: &A2aError, out: &mut Out) -> Result<(), Failure> {
        let why = redactor(self.settings).clean(&error.to_string());
        note(&format!(
            "note: the stream failed ({}); the task is looked at again and again",
            without_control(&why)
        ));
        let task = self.wait_answer(self.agent.client.get(id, self.settings.number("history"))).await?;
        if is_end(task.status.state) {
            return self.print_answer(&Event::Task(Box::new(task)), out);
        }
        note_ids(&task);
        self.looked(&task, out).await
    }

    /// Prints the end of a stream: the ids and the state where the events were printed, else the task whole.
    async fn at_end(&self, told: TaskProgress, is_live: bool, out: &mut Out) -> Result<(), Failure> {
        let Some((id, context)) = told.ids.clone() else {
            let hint = "`--debug` shows what the agent answered";
            let message = "the agent's stream ended without an event";
            return Err(Failure::new("InvalidAgentResponseError", EXIT_NO, message, hint));
        };
        if is_live {
            if let Some(state) = told.state {
                print_continuation(out, self.agent, (&id, &context, state), true)?;
            }
            return Ok(out.flush()?);
        }
        // The stream has told the events; the task whole is the agent's to say.
        match self.wait_answer(self.agent.client.get(&id, self.settings.number("history"))).await {
            Ok(task) => self.print_answer(&Event::Task(Box::new(task)), out),
            Err(failure) => match told.into_task() {
                Some(task) => self.print_answer(&Event::Task(Box::new(task)), out),
                None => Err(failure),
            },
        }
    }
}

/// Returns the event of an item. That of a gap is the task as it is.
fn event_of(item: StreamItem) -> Option<Event> {
    match item {
        StreamItem::Event(event) => Some(event),
        StreamItem::Gap(gap) => {
            note(
                "note: the connection broke; this is the task as it is now, and events before it are missing",
            );
            Some(Event::Task(Box::new(gap.task)))
        }
        _ => None,
    }
}

/// Prints an event as it came.
fn event(out: &mut Out, event: &Event) -> Result<(), Failure> {
    if out.json {
        out.value(&event.to_json())?;
    } else {
        text::event(out, event)?;
    }
    Ok(())
}
