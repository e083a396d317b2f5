//! `check`: whether an agent speaks A2A as it should. Each check has a name, and passes, fails, warns of what A2A only advises, or
//! is skipped where it does not apply.
//!
//! [`card`] checks the card, [`read_checks`] what is asked without changing anything at the agent, [`send_checks`] what happens to a
//! message, [`interface`] is an interface that is checked, and [`table`] the list of the results.

pub(crate) mod card;
pub(crate) mod checked_interface;
pub(crate) mod read_checks;
pub(crate) mod send_checks;
pub(crate) mod table;

use std::sync::Arc;

use taskreel_http::a2a::{Client, Observer, Probe};

use crate::a2a::agent::{FetchedCard, base, find_card};
use crate::a2a::check::checked_interface::CheckedInterface;
use crate::a2a::check::table::Table;
use crate::a2a::credentials::applied;
use crate::a2a::failure::Failure;
use crate::a2a::out::Out;
use crate::a2a::settings::Settings;
use crate::args::a2a::CheckArgs;
use crate::print::answer::Answer;

/// Checks an agent, and prints the results. The answer is "no" if a check fails.
///
/// # Errors
/// [`Failure`] if the agent's card cannot be had, or the results cannot be written.
pub(crate) async fn check(
    args: &CheckArgs,
    settings: &Settings,
    observer: Option<Arc<dyn Observer>>,
    out: &mut Out,
) -> Result<Answer, Failure> {
    let FetchedCard { json, url } = find_card(settings, observer.clone()).await?;
    let mut table = Table::new(settings, out);
    let from = url.clone().unwrap_or_else(|| "the file".to_owned());
    let plain = base(settings, observer).attempts(1).timeout(settings.time("timeout"));
    if let Some(url) = &url {
        card::served(url, &plain, &mut table).await?;
    }
    let card = card::read(&json, &from, &mut table)?;
    let options = match applied(plain, settings, &json) {
        Ok(options) => options,
        Err(failure) => {
            table.fail("credentials", "", failure.message)?;
            return table.finish(&from);
        }
    };
    for interface in card.iter().flat_map(|card| card.interfaces.iter()) {
        let Some(card) = &card else { continue };
        let name = format!("{} {}", interface.binding.word(), interface.version.number());
        let made =
            Client::at(interface.clone(), &options).and_then(|client| Ok((client, Probe::new(&options)?)));
        let (client, probe) = match made {
            Ok(made) => made,
            Err(error) => {
                table.fail("reachable", &name, error.to_string())?;
                continue;
            }
        };
        let checked = CheckedInterface { card, interface, client, probe, options: options.clone(), name };
        if read_checks::checked(&checked, &mut table).await?
            && let Some(text) = &args.send
        {
            send_checks::checked(&checked, text, &mut table).await?;
        }
    }
    table.finish(&from)
}
