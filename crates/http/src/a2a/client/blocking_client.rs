//! The blocking twin of the client, for programs that are not asynchronous: each call waits for its end.

use std::sync::Arc;

use proto_events::json::JsonText;

use crate::a2a::client::card::{Card, Interface};
use crate::a2a::client::error::A2aError;
use crate::a2a::client::options::Options;
use crate::a2a::client::push::PushPage;
use crate::a2a::client::request::{ListQuery, SendRequest, TaskPage};
use crate::a2a::client::stream::{EventStream, StreamItem};
use crate::a2a::client::work::Client;
use crate::a2a::model::{Event, PushConfig, Task};
use crate::client::blocking_client::ClientThread;
use crate::client::error::ClientError;

/// A [`Client`] whose calls wait for their end. Its work is done on a thread of its own, so that it needs no runtime and
/// disturbs none: called from a task of a runtime, a call holds up that task's thread, and no other. Clones share the thread and
/// the connections.
///
/// ```no_run
/// use taskreel_http::a2a::{A2aError, BlockingClient, Message, Options, Part, SendRequest};
///
/// fn main() -> Result<(), A2aError> {
///     let client = BlockingClient::discover("http://127.0.0.1:8000", &Options::new())?;
///     let message = Message::user("m1", vec![Part::text("Weather in Oslo?")]);
///     for item in client.stream(&SendRequest::new(message))? {
///         println!("{:?}", item?);
///     }
///     Ok(())
/// }
/// ```
#[derive(Debug, Clone)]
pub struct BlockingClient {
    client: Client,
    worker: Arc<ClientThread>,
}

impl BlockingClient {
    /// Reads the card of the agent at an address and chooses a way to the agent; see [`Client::discover`].
    ///
    /// # Errors
    /// [`A2aError`].
    pub fn discover(url: &str, options: &Options) -> Result<Self, A2aError> {
        let (worker, url, options) = (worker()?, url.to_owned(), options.clone());
        let client = worker.run(async move { Client::discover(&url, &options).await });
        Ok(Self { client: or_canceled(client)?, worker })
    }

    /// Returns the JSON at the address of a card, whatever it is; see [`Client::card_at`].
    ///
    /// # Errors
    /// [`A2aError`].
    pub fn card_at(url: &str, options: &Options) -> Result<JsonText, A2aError> {
        let (url, options) = (url.to_owned(), options.clone());
        or_canceled(worker()?.run(async move { Client::card_at(&url, &options).await }))
    }

    /// Returns the client of an agent whose card is known; see [`Client::of_card`].
    ///
    /// # Errors
    /// [`A2aError`].
    pub fn of_card(card: Card, card_url: &str, options: &Options) -> Result<Self, A2aError> {
        Ok(Self { client: Client::of_card(card, card_url, options)?, worker: worker()? })
    }

    /// Returns the client of an agent at an interface, without its card; see [`Client::at`].
    ///
    /// # Errors
    /// [`A2aError`].
    pub fn at(interface: Interface, options: &Options) -> Result<Self, A2aError> {
        Ok(Self { client: Client::at(interface, options)?, worker: worker()? })
    }

    /// Returns the agent's card, where it was read.
    pub fn card(&self) -> Option<&Card> {
        self.client.card()
    }

    /// Returns the way to the agent.
    pub fn interface(&self) -> &Interface {
        self.client.interface()
    }

    /// Sends a message; see [`Client::send`].
    ///
    /// # Errors
    /// [`A2aError`].
    pub fn send(&self, request: &SendRequest) -> Result<Event, A2aError> {
        let request = request.clone();
        self.wait(|client| async move { client.send(&request).await })
    }

    /// Sends a message, and returns the events that follow; see [`Client::stream`].
    ///
    /// # Errors
    /// [`A2aError`].
    pub fn stream(&self, request: &SendRequest) -> Result<BlockingEvents, A2aError> {
        let request = request.clone();
        Ok(self.events(self.wait(|client| async move { client.stream(&request).await })?))
    }

    /// Returns a task; see [`Client::get`].
    ///
    /// # Errors
    /// [`A2aError`].
    pub fn get(&self, task_id: &str, history_length: Option<u32>) -> Result<Task, A2aError> {
        let id = task_id.to_owned();
        self.wait(|client| async move { client.get(&id, history_length).await })
    }

    /// Returns a page of the caller's tasks; see [`Client::list`].
    ///
    /// # Errors
    /// [`A2aError`].
    pub fn list(&self, query: &ListQuery) -> Result<TaskPage, A2aError> {
        let query = query.clone();
        self.wait(|client| async move { client.list(&query).await })
    }

    /// Cancels a task, and returns it; see [`Client::cancel`].
    ///
    /// # Errors
    /// [`A2aError`].
    pub fn cancel(&self, task_id: &str) -> Result<Task, A2aError> {
        let id = task_id.to_owned();
        self.wait(|client| async move { client.cancel(&id).await })
    }

    /// Returns the card for callers who present a credential; see [`Client::extended_card`].
    ///
    /// # Errors
    /// [`A2aError`].
    pub fn extended_card(&self) -> Result<Card, A2aError> {
        self.wait(|client| async move { client.extended_card().await })
    }

    /// Follows a task that is not over; see [`Client::subscribe`].
    ///
    /// # Errors
    /// [`A2aError`].
    pub fn subscribe(&self, task_id: &str) -> Result<BlockingEvents, A2aError> {
        let id = task_id.to_owned();
        Ok(self.events(self.wait(|client| async move { client.subscribe(&id).await })?))
    }

    /// Follows a task after a place of an earlier stream; see [`Client::subscribe_after`].
    ///
    /// # Errors
    /// [`A2aError`].
    pub fn subscribe_after(&self, task_id: &str, place: &str) -> Result<BlockingEvents, A2aError> {
        let (id, place) = (task_id.to_owned(), place.to_owned());
        Ok(self.events(self.wait(|client| async move { client.subscribe_after(&id, &place).await })?))
    }

    /// Registers a webhook of a task; see [`Client::set_push_config`].
    ///
    /// # Errors
    /// [`A2aError`].
    pub fn set_push_config(&self, task_id: &str, config: &PushConfig) -> Result<PushConfig, A2aError> {
        let (id, config) = (task_id.to_owned(), config.clone());
        self.wait(|client| async move { client.set_push_config(&id, &config).await })
    }

    /// Returns a registration of a task; see [`Client::push_config`].
    ///
    /// # Errors
    /// [`A2aError`].
    pub fn push_config(&self, task_id: &str, id: &str) -> Result<PushConfig, A2aError> {
        let (task, id) = (task_id.to_owned(), id.to_owned());
        self.wait(|client| async move { client.push_config(&task, &id).await })
    }

    /// Returns a page of the registrations of a task; see [`Client::push_configs`].
    ///
    /// # Errors
    /// [`A2aError`].
    pub fn push_configs(&self, task_id: &str, page: Option<&str>) -> Result<PushPage, A2aError> {
        let (id, page) = (task_id.to_owned(), page.map(str::to_owned));
        self.wait(|client| async move { client.push_configs(&id, page.as_deref()).await })
    }

    /// Removes a registration of a task; see [`Client::delete_push_config`].
    ///
    /// # Errors
    /// [`A2aError`].
    pub fn delete_push_config(&self, task_id: &str, id: &str) -> Result<(), A2aError> {
        let (task, id) = (task_id.to_owned(), id.to_owned());
        self.wait(|client| async move { client.delete_push_config(&task, &id).await })
    }

    fn events(&self, stream: EventStream) -> BlockingEvents {
        BlockingEvents { worker: Arc::clone(&self.worker), stream: Some(stream) }
    }

    /// Carries out a call on the client's thread, and waits for its end.
    fn wait<T, F>(&self, call: impl FnOnce(Client) -> F) -> Result<T, A2aError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, A2aError>> + Send + 'static,
    {
        or_canceled(self.worker.run(call(self.client.clone())))
    }
}

fn worker() -> Result<Arc<ClientThread>, A2aError> {
    let worker = ClientThread::start().map_err(|error| ClientError::Setup(error.to_string()))?;
    Ok(Arc::new(worker))
}

fn or_canceled<T>(answer: Option<Result<T, A2aError>>) -> Result<T, A2aError> {
    answer.unwrap_or_else(|| Err(ClientError::Setup("the thread of the client has ended".to_owned()).into()))
}

/// The items of a stream: an iterator that ends after the last one. After an error no item follows.
#[derive(Debug)]
pub struct BlockingEvents {
    worker: Arc<ClientThread>,
    /// The stream, while nobody waits for its next item.
    stream: Option<EventStream>,
}

impl BlockingEvents {
    /// Returns the place behind the last item, for [`BlockingClient::subscribe_after`]; `None` where the agent names none.
    pub fn place(&self) -> Option<&str> {
        self.stream.as_ref().and_then(EventStream::place)
    }
}

impl Iterator for BlockingEvents {
    type Item = Result<StreamItem, A2aError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut stream = self.stream.take()?;
        let next = self.worker.run(async move {
            let item = stream.next().await;
            Ok((item, stream))
        });
        match or_canceled(next) {
            Ok((item, stream)) => {
                self.stream = Some(stream);
                item
            }
            Err(error) => Some(Err(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    /// Returns the names of the functions of a file that begin so.
    fn functions(source: &str, begin: &str) -> Vec<String> {
        let lines = source.lines().filter_map(|line| line.trim().strip_prefix(begin));
        lines.map(|rest| rest.split('(').next().unwrap_or_default().to_owned()).collect()
    }

    #[test]
    fn each_call_of_the_client_has_its_twin() {
        let twins = functions(include_str!("blocking_client.rs"), "pub fn ");
        let sources = [include_str!("work.rs"), include_str!("push.rs")];
        let calls = ["pub async fn ", "pub fn "]
            .map(|begin| sources.map(|source| functions(source, begin)).concat())
            .concat();
        assert!(calls.len() >= 17, "{calls:?}");
        for call in calls {
            assert!(twins.contains(&call), "{call} has no twin");
        }
    }
}
