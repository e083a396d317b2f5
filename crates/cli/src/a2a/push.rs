//! `task push-config`: the webhooks that an agent calls when a task changes.

use proto_events::json::{JsonObject, JsonText, JsonValue};
use taskreel_http::a2a::PushConfig;

use crate::a2a::failure::Failure;
use crate::a2a::follow::Turn;
use crate::a2a::out::Out;
use crate::args::a2a::{PushCommand, PushCreateArgs};
use crate::print::problem::EXIT_NO;
use crate::print::screen::note;

/// Carries out a command about webhooks.
///
/// # Errors
/// [`Failure`] if the agent refuses, or says in its card that it calls no webhooks.
pub(crate) async fn push(command: &PushCommand, turn: &Turn<'_>, out: &mut Out) -> Result<(), Failure> {
    let tree = turn.agent.card.json.tree();
    let capability = tree.pointer("/capabilities/pushNotifications");
    if capability != Some(&JsonValue::Bool(true)) {
        let hint = "follow the task: `taskreel a2a task subscribe`, or `task get --wait`";
        let message = "the agent's card says that it calls no webhooks";
        return Err(Failure::new("PushNotificationNotSupportedError", EXIT_NO, message, hint));
    }
    let client = &turn.agent.client;
    match command {
        PushCommand::Create(args) => {
            let config = config(args)?;
            print(&turn.wait_answer(client.set_push_config(&args.id, &config)).await?, out)?;
        }
        PushCommand::Get(args) => {
            print(&turn.wait_answer(client.push_config(&args.id, &args.config_id)).await?, out)?;
        }
        PushCommand::Delete(args) => {
            turn.wait_answer(client.delete_push_config(&args.id, &args.config_id)).await?;
            if out.json {
                // The protocol answers with an empty message.
                out.value(&JsonText::empty_object())?;
            } else {
                out.field("Task", &args.id)?;
                out.field("Removed", &args.config_id)?;
            }
        }
        PushCommand::List(args) => {
            let (mut all, mut page): (Vec<PushConfig>, Option<String>) = (Vec::new(), None);
            loop {
                let mut some = turn.wait_answer(client.push_configs(&args.id, page.as_deref())).await?;
                all.append(&mut some.configs);
                match some.next.filter(|next| !next.is_empty() && Some(next) != page.as_ref()) {
                    Some(next) => page = Some(next),
                    None => break,
                }
            }
            list(&all, turn, out)?;
        }
    }
    Ok(out.flush()?)
}

/// Returns the registration that the arguments make. Its secret comes from a file: a flag is seen by other users.
fn config(args: &PushCreateArgs) -> Result<PushConfig, Failure> {
    let mut config = PushConfig::new(&args.url);
    if let Some(id) = &args.config_id {
        config = config.id(id);
    }
    if let Some(path) = &args.token_file {
        let token = std::fs::read_to_string(path).map_err(|error| {
            Failure::usage(format!("{} cannot be read: {error}", path.display()), "name a file")
        })?;
        config = config.token(token.trim());
    }
    Ok(config)
}

fn list(all: &[PushConfig], turn: &Turn<'_>, out: &mut Out) -> Result<(), Failure> {
    if !out.json {
        if all.is_empty() {
            note("no webhook");
        }
        return all.iter().try_for_each(|one| {
            print(one, out)?;
            Ok(out.table_line("")?)
        });
    }
    if turn.settings.streams {
        return all.iter().try_for_each(|one| Ok(out.value(&json(one))?));
    }
    let mut whole = JsonObject::new();
    whole.set("configs", JsonText::of_model(&all.iter().map(json).collect::<Vec<_>>()));
    whole.set("nextPageToken", JsonText::string(""));
    Ok(out.value(&whole.to_text())?)
}

fn print(config: &PushConfig, out: &mut Out) -> Result<(), Failure> {
    if out.json {
        return Ok(out.value(&json(config))?);
    }
    out.field("Task", &config.task_id)?;
    out.field("Webhook", &config.id)?;
    out.field("Address", &config.url)?;
    Ok(out.optional("Scheme", config.authentication.as_ref().map(|(scheme, _)| scheme.as_str()))?)
}

/// Returns a registration as `TaskPushNotificationConfig` of A2A, without its secrets.
fn json(config: &PushConfig) -> JsonText {
    let mut object = JsonObject::new();
    object.set("taskId", JsonText::string(&config.task_id));
    object.set("id", JsonText::string(&config.id));
    object.set("url", JsonText::string(&config.url));
    if let Some((scheme, _)) = &config.authentication {
        let mut authentication = JsonObject::new();
        authentication.set("scheme", JsonText::string(scheme));
        object.set("authentication", authentication.to_text());
    }
    object.to_text()
}
