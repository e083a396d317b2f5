//! `card get`: a card, checked where that is asked for.

use std::sync::Arc;

use proto_events::json::{JsonText, JsonValue};
use taskreel_http::a2a::Observer;

use crate::a2a::agent::{Agent, find_card};
use crate::a2a::card_signatures;
use crate::a2a::failure::{CARD_INVALID, Failure};
use crate::a2a::out::Out;
use crate::a2a::settings::Settings;
use crate::a2a::shape::faults;
use crate::a2a::text;
use crate::a2a::wait::Bounds;
use crate::args::a2a::CardGetArgs;
use crate::print::problem::EXIT_NO;
use crate::print::screen::note;

/// Prints the card.
///
/// # Errors
/// [`Failure`] if no card is found, or it breaks A2A's schema and a strict reading is asked for.
pub(crate) async fn get(
    args: &CardGetArgs,
    settings: &Settings,
    observer: Option<Arc<dyn Observer>>,
    out: &mut Out,
) -> Result<(), Failure> {
    let found = find_card(settings, observer.clone()).await?;
    let json = if args.extended {
        let agent = Agent::new(found, settings, observer)?;
        let is_offered = agent.card.json.tree();
        let is_offered = ["/capabilities/extendedAgentCard", "/supportsAuthenticatedExtendedCard"]
            .iter()
            .any(|pointer| is_offered.pointer(pointer).is_some_and(|value| *value == JsonValue::Bool(true)));
        if !is_offered {
            let message = "the agent's card says that there is no extended card";
            return Err(Failure::new("UnsupportedOperationError", EXIT_NO, message, "leave out --extended"));
        }
        let bounds = Bounds::from_settings(settings);
        let card =
            bounds.within(agent.client.extended_card()).await.map_err(|late| late.failure(&agent, None))?;
        card.map_err(|error| agent.failed(&error))?.json
    } else {
        found.json
    };
    if args.validate {
        validated(&json)?;
    }
    print(&json, &card_signatures::outcome(&json, settings)?, out)
}

/// Checks a card against A2A's schema.
fn validated(json: &JsonText) -> Result<(), Failure> {
    let faults = faults(json);
    if faults.is_empty() {
        note("the card is as A2A's schema has it");
        return Ok(());
    }
    let message = format!("the card is not as A2A's schema has it: {}", faults.join("; "));
    Err(Failure::new(CARD_INVALID, EXIT_NO, message, "`card get` without --validate prints it as it is"))
}

fn print(json: &JsonText, signatures: &str, out: &mut Out) -> Result<(), Failure> {
    if out.json {
        // The card is printed as it came; what is known of its signatures stands beside it.
        note(&format!("signatures: {signatures}"));
        return Ok(out.value(json)?);
    }
    Ok(text::card(out, json, signatures)?)
}
