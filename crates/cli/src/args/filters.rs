//! The filters of the commands that list, sum up and export.

use clap::Args;
use proto_events::envelope::Timestamp;
use taskreel_log::views::{Field, Filter, KindError, Term};

use crate::args::times::{parse_since, parse_until};
use crate::print::problem::{EXIT_USAGE, Problem};

pub(crate) use taskreel_log::views::KindsOf;

/// The conditions under which something is taken.
///
/// Of several values of one option one must fit; different options must all fit.
#[derive(Debug, Clone, Default, Args)]
#[command(
    next_help_heading = "Filters (of several values of one option one must fit, different options must all fit)"
)]
pub(crate) struct FilterArgs {
    /// From this time on: 2026-11-21, 2026-11-21T23:21 (local), 2026-11-21T22:21:47Z, or an age such as 2h or 3d
    #[arg(long, value_name = "TIME", value_parser = parse_since)]
    pub(crate) since: Option<Timestamp>,
    /// Before this time; a date is taken with all of its day
    #[arg(long, value_name = "TIME", value_parser = parse_until)]
    pub(crate) until: Option<Timestamp>,
    /// Of these kinds: of events by name, such as `CallFailed`, or by family (task, session, call, state, system,
    /// definition, flow, registry); of calls tool, infer, delegate, handler, agent
    #[arg(long, value_name = "KINDS", value_delimiter = ',')]
    pub(crate) kind: Vec<String>,
    /// Of this tool: its calls, their approvals, its state
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Vec<String>,
    /// With this text in any value or name, in upper or lower case
    #[arg(long, value_name = "TEXT")]
    pub(crate) text: Vec<String>,
    /// Of this session and of its tasks
    #[arg(long, value_name = "ID")]
    pub(crate) session: Vec<String>,
    /// Of this agent
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Vec<String>,
    /// Not where this holds: `kind=`, `tool=`, `text=`, `session=` or `agent=`, and a value; may be repeated
    #[arg(long = "not", value_name = "FIELD=VALUE", value_parser = Term::parse)]
    pub(crate) not: Vec<Term>,
    /// Only the newest COUNT of them; 0 is all
    #[arg(long, value_name = "COUNT")]
    pub(crate) limit: Option<usize>,
}

impl FilterArgs {
    /// Returns the filter.
    ///
    /// # Errors
    /// [`Problem`] if a kind is not valid.
    pub(crate) fn filter(&self, kinds: KindsOf) -> Result<Filter, Problem> {
        let fields = [
            (Field::Kind, &self.kind),
            (Field::Tool, &self.tool),
            (Field::Text, &self.text),
            (Field::Session, &self.session),
            (Field::Agent, &self.agent),
        ];
        let terms =
            fields.iter().flat_map(|(field, values)| values.iter().map(|value| Term::new(*field, value)));
        let mut filter = Filter::default();
        (filter.since, filter.until) = (self.since, self.until);
        filter.terms = terms.collect();
        filter.not.clone_from(&self.not);
        filter.check_kinds(kinds).map_err(|error| unknown_kind(&error))?;
        Ok(filter)
    }

    /// Returns the greatest number of what is shown; `None` means no limit.
    pub(crate) fn limit(&self) -> Option<usize> {
        self.limit.filter(|limit| *limit > 0)
    }
}

fn unknown_kind(error: &KindError) -> Problem {
    let kinds = error.kinds();
    Problem::new(
        EXIT_USAGE,
        format!("`{}` is not a kind of {kinds}", error.kind()),
        format!("the kinds of {kinds} are {}", kinds.names().join(", ")),
        "use one of them; upper and lower case are the same",
    )
}
