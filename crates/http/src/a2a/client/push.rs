//! The webhooks of a task of an agent elsewhere.

use proto_events::json::{JsonObject, JsonText};

use crate::a2a::client::call::{AgentQuestion, unreadable};
use crate::a2a::client::error::A2aError;
use crate::a2a::client::work::Client;
use crate::a2a::model::PushConfig;
use crate::a2a::ops::operation::A2aOperation;
use crate::a2a::wire::fields::{Invalid, WireFields};
use crate::a2a::wire::{DataForm, read, write};

/// A page of the webhooks of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PushPage {
    /// The registrations.
    pub configs: Vec<PushConfig>,
    /// The token of the next page; `None` on the last one.
    pub next: Option<String>,
}

impl Client {
    /// Registers a webhook that is told what happens to a task, and returns the registration with its id. It is asked again
    /// where the answer is lost only if it has an id: under it the same registration is made once.
    ///
    /// # Errors
    /// [`A2aError`]; [`A2aError::Refused`] where the agent calls no webhooks.
    pub async fn set_push_config(&self, task_id: &str, config: &PushConfig) -> Result<PushConfig, A2aError> {
        let config = PushConfig { task_id: task_id.to_owned(), ..config.clone() };
        let form = self.line.interface.form();
        let written = write::push_config(form, &config);
        let mut params: JsonObject = written.read().unwrap_or_default();
        if form == DataForm::Rest03 {
            let mut whole = JsonObject::new();
            whole.set("parent", JsonText::string(&format!("tasks/{task_id}")));
            whole.set("configId", JsonText::string(&config.id));
            whole.set("config", written);
            params = whole;
        }
        let id = Some(config.id.clone()).filter(|id| !id.is_empty());
        let asked =
            AgentQuestion { params, config: id, ..AgentQuestion::about(A2aOperation::CreatePush, task_id) };
        self.config(task_id, &self.line.ask(&asked).await?)
    }

    /// Returns a registration of a task. Agents leave the secrets out.
    ///
    /// # Errors
    /// [`A2aError`].
    pub async fn push_config(&self, task_id: &str, id: &str) -> Result<PushConfig, A2aError> {
        let asked = AgentQuestion {
            config: Some(id.to_owned()),
            ..AgentQuestion::about(A2aOperation::GetPush, task_id)
        };
        self.config(task_id, &self.line.ask(&asked).await?)
    }

    /// Returns a page of the registrations of a task: the first one, or the one that another page names as the next.
    ///
    /// # Errors
    /// [`A2aError`].
    pub async fn push_configs(&self, task_id: &str, page: Option<&str>) -> Result<PushPage, A2aError> {
        let mut asked = AgentQuestion::about(A2aOperation::ListPush, task_id);
        if let Some(page) = page {
            asked.params.set("pageToken", JsonText::string(page));
        }
        let json = self.line.ask(&asked).await?;
        let none = JsonText::empty_object();
        let read = || {
            // 0.3 answers JSON-RPC with a list alone.
            let list = json.read::<Vec<JsonText>>().ok();
            let fields = WireFields::new(if list.is_some() { &none } else { &json }, "")?;
            let listed = match list {
                Some(list) => list,
                None => fields.list("configs")?,
            };
            let form = self.line.interface.form();
            let of_task = |json: &JsonText| {
                let config = read::push_config(form, json, "configs")?;
                Ok::<_, Invalid>(PushConfig { task_id: task_id.to_owned(), ..config })
            };
            let configs = listed.iter().map(of_task).collect::<Result<_, _>>()?;
            Ok(PushPage { configs, next: fields.word("nextPageToken")? })
        };
        read().map_err(|wrong: Invalid| unreadable(&self.line.interface.url, wrong))
    }

    /// Removes a registration of a task.
    ///
    /// # Errors
    /// [`A2aError`].
    pub async fn delete_push_config(&self, task_id: &str, id: &str) -> Result<(), A2aError> {
        let asked = AgentQuestion {
            config: Some(id.to_owned()),
            ..AgentQuestion::about(A2aOperation::DeletePush, task_id)
        };
        self.line.ask(&asked).await.map(|_| ())
    }

    /// Reads the registration that an answer must be.
    fn config(&self, task_id: &str, json: &JsonText) -> Result<PushConfig, A2aError> {
        let config = read::push_config(self.line.interface.form(), json, "");
        let config = config.map_err(|wrong| unreadable(&self.line.interface.url, wrong))?;
        Ok(PushConfig { task_id: task_id.to_owned(), ..config })
    }
}
