//! Webhooks: registering, reading, listing and removing them. Token and credentials are never read back.

use proto_events::id::{Digest, Mint as _, check_id};
use proto_events::json::JsonText;
use taskreel::webhook::{NewWebhook, WebhookRegistration};
use taskreel::{Ports, TaskHandle};

use crate::a2a::a2a_request::A2aRequest;
use crate::a2a::failure::{A2aFailure, FailureKind};
use crate::a2a::model::PushConfig;
use crate::a2a::push::PushDeliveries;
use crate::a2a::push::format::{secret_header, word_of};
use crate::a2a::wire::fields::{Invalid, WireFields};
use crate::a2a::wire::write::Members;
use crate::a2a::wire::{DataForm, read, write};

/// The registrations of a page where the client asks for no number, and the most.
const PAGE: i64 = 100;

/// Returns the deliveries.
///
/// # Errors
/// [`FailureKind::PushNotificationNotSupported`] where webhooks are not served.
fn pushing(asking: &A2aRequest) -> Result<&PushDeliveries, A2aFailure> {
    let text = "this agent calls no webhooks";
    asking
        .settings
        .push
        .as_ref()
        .ok_or_else(|| A2aFailure::new(FailureKind::PushNotificationNotSupported, text))
}

/// Returns the names of the members with the task and the registration: 0.3 calls the task `id`.
const fn names(form: DataForm) -> (&'static str, &'static str) {
    match form {
        DataForm::V1 | DataForm::Rest03 => ("taskId", "id"),
        DataForm::V03 => ("id", "pushNotificationConfigId"),
    }
}

/// Registers a webhook of a task.
pub(crate) async fn create(asking: &A2aRequest, fields: &WireFields) -> Result<JsonText, A2aFailure> {
    let push = pushing(asking)?;
    let task_id = fields.needed("taskId")?;
    // REST in 0.3 has the registration in a member of its own, and its id beside it.
    let inner = if asking.form == DataForm::Rest03 { fields.inner("config")? } else { None };
    let mut config = read::push_config_of(asking.form, inner.as_ref().unwrap_or(fields))?;
    if config.id.is_empty() && asking.form == DataForm::Rest03 {
        config.id = fields.word("configId")?.unwrap_or_default();
    }
    let (task, _) = asking.task(&task_id).await?;
    config.id = match (config.id.is_empty(), asking.form) {
        (false, _) => config.id,
        (true, DataForm::V1) => format!("push_{}", Ports::default().uuid()),
        // In 0.3 one without an id is the task's only one.
        (true, DataForm::V03 | DataForm::Rest03) => task_id.clone(),
    };
    let webhook = checked(asking, push, config).await?;
    let id = webhook.id.clone();
    set(push, &acting(asking, task.clone()), webhook).await?;
    let (_, snapshot) = asking.task(&task_id).await?;
    let registered = snapshot.task().webhooks().get(&id);
    registered.map(|known| shown(asking.form, &task_id, known)).ok_or_else(|| unknown(&task_id, &id))
}

/// Returns the webhook that a message names for its task, checked; `None` if it names none.
pub(crate) async fn of_message(
    asking: &A2aRequest,
    config: Option<PushConfig>,
    message_id: &str,
) -> Result<Option<NewWebhook>, A2aFailure> {
    let Some(mut config) = config else { return Ok(None) };
    if config.id.is_empty() {
        // The same message again registers the same webhook.
        let digest = Digest::of_parts(&[message_id.as_bytes(), b"\0", config.url.as_bytes()]).to_string();
        config.id = format!("push_{}", digest.get(..32).unwrap_or_default());
    }
    checked(asking, pushing(asking)?, config).await.map(Some)
}

/// Registers the webhook of a message. A task that the message began tells it everything.
pub(crate) async fn set_of_message(
    asking: &A2aRequest,
    task: &TaskHandle,
    webhook: NewWebhook,
    is_begun: bool,
) -> Result<(), A2aFailure> {
    let after = is_begun.then_some(1);
    let mut webhook = webhook;
    webhook.after = after;
    set(pushing(asking)?, &acting(asking, task.clone()), webhook).await
}

fn acting(asking: &A2aRequest, task: TaskHandle) -> TaskHandle {
    match asking.owner() {
        Some(owner) => task.acting_as(owner.clone()),
        None => task,
    }
}

async fn set(push: &PushDeliveries, task: &TaskHandle, webhook: NewWebhook) -> Result<(), A2aFailure> {
    let place = (task.stream().clone(), webhook.id.clone());
    task.set_webhook(webhook, push.per_task()).await?;
    push.set(place);
    Ok(())
}

/// Returns a webhook whose address may be reached and whose secrets can be sent.
async fn checked(
    asking: &A2aRequest,
    push: &PushDeliveries,
    config: PushConfig,
) -> Result<NewWebhook, A2aFailure> {
    check_id(&config.id).map_err(|error| Invalid::new("id", error.to_string()))?;
    push.check(&config.url).await.map_err(|why| Invalid::new("url", why))?;
    let mut webhook = NewWebhook::new(config.id, config.url, word_of(asking.form));
    let fits = |name: &str, text: &str| match secret_header(text) {
        Ok(_) => Ok(()),
        Err(_) => Err(Invalid::new(name, "must be a text that can stand in a header")),
    };
    if let Some(token) = &config.token {
        fits("token", token)?;
    }
    webhook.token = config.token;
    if let Some((scheme, credentials)) = config.authentication {
        fits("authentication", &format!("{scheme} {}", credentials.as_deref().unwrap_or_default()))?;
        (webhook.scheme, webhook.credentials) = (Some(scheme), credentials);
    }
    Ok(webhook)
}

/// Returns a registration of a task.
pub(crate) async fn get(asking: &A2aRequest, fields: &WireFields) -> Result<JsonText, A2aFailure> {
    pushing(asking)?;
    let (task, id) = names(asking.form);
    let (task_id, id) = (fields.needed(task)?, fields.word(id)?);
    let (_, snapshot) = asking.task(&task_id).await?;
    let webhooks = snapshot.task().webhooks();
    let found = match (&id, asking.form) {
        (Some(id), _) => webhooks.get(id),
        // Only 0.3 leaves the id out: it means the one that there is.
        (None, DataForm::V03) => webhooks.iter().next(),
        (None, DataForm::V1 | DataForm::Rest03) => return Err(fields.wrong("id", "is required").into()),
    };
    let found = found.ok_or_else(|| unknown(&task_id, id.as_deref().unwrap_or_default()))?;
    Ok(shown(asking.form, &task_id, found))
}

/// Returns a page of the registrations of a task, oldest first.
pub(crate) async fn list(asking: &A2aRequest, fields: &WireFields) -> Result<JsonText, A2aFailure> {
    pushing(asking)?;
    let (task, _) = names(asking.form);
    let task_id = fields.needed(task)?;
    let (_, snapshot) = asking.task(&task_id).await?;
    let size = match fields.number("pageSize")? {
        None | Some(0) => PAGE,
        Some(size) if (1..=PAGE).contains(&size) => size,
        Some(_) => return Err(fields.wrong("pageSize", "must be from 1 to 100").into()),
    };
    let size = usize::try_from(size).unwrap_or(1);
    let all: Vec<_> = snapshot.task().webhooks().iter().collect();
    let begin = match fields.word("pageToken")? {
        None => 0,
        Some(token) => {
            // A registration that was removed meanwhile leaves its number.
            let after: Option<u32> = token.parse().ok();
            let after = after
                .ok_or_else(|| fields.wrong("pageToken", "must be the nextPageToken of another page"))?;
            all.iter().position(|known| known.number > after).unwrap_or(all.len())
        }
    };
    let rest = all.get(begin..).unwrap_or_default();
    let page = rest.get(..size).unwrap_or(rest);
    let next = if page.len() < rest.len() { page.last() } else { None };
    let shown: Vec<_> = page.iter().map(|known| shown(asking.form, &task_id, known)).collect();
    if asking.form == DataForm::V03 {
        return Ok(JsonText::of_model(&shown));
    }
    let next = next.map(|last| last.number.to_string());
    Ok(Members::default()
        .json("configs", JsonText::of_model(&shown))
        .optional("nextPageToken", next.as_deref())
        .end())
}

/// Removes a registration of a task. One that is not there is removed already.
pub(crate) async fn delete(asking: &A2aRequest, fields: &WireFields) -> Result<JsonText, A2aFailure> {
    let push = pushing(asking)?;
    let (task, id) = names(asking.form);
    let (task_id, id) = (fields.needed(task)?, fields.needed(id)?);
    let (task, _) = asking.task(&task_id).await?;
    acting(asking, task.clone()).remove_webhook(&id).await?;
    push.removed(&(task.stream().clone(), id));
    Ok(match asking.form {
        DataForm::V03 => JsonText::null(),
        DataForm::V1 | DataForm::Rest03 => JsonText::empty_object(),
    })
}

fn unknown(task_id: &str, id: &str) -> A2aFailure {
    let text = "the task has no such push notification configuration";
    A2aFailure::new(FailureKind::TaskNotFound, text).with("taskId", task_id).with("id", id)
}

/// Returns a registration without its secrets.
fn shown(form: DataForm, task_id: &str, registered: &WebhookRegistration) -> JsonText {
    let webhook = &registered.webhook;
    let config = PushConfig {
        id: webhook.id.clone(),
        task_id: task_id.to_owned(),
        url: webhook.url.clone(),
        token: None,
        authentication: webhook.scheme.clone().map(|scheme| (scheme, None)),
    };
    write::push_config(form, &config)
}
