//! The life of one system under the matrix: its log, the executions seen outside, and the check of both.

use std::fmt;
use std::sync::Arc;

use proto_events::codec::AnyEvent;
use proto_events::id::Position;
use taskreel_log::api::EventReader;
use taskreel_log::read::for_each_record;

use crate::error::Error;
use crate::testing::assert::ill_formed;
use crate::testing::judge::Judge;
use crate::testing::judge::row::Cells;
use crate::testing::ledger::Execution;
use crate::testing::matrix::report::Broken;
use crate::testing::system::ClockStep;

/// The maximum number of characters of an event in a line.
const LINE_CHARS: usize = 240;

/// The result of one system's life: its log, and the executions seen outside.
pub(crate) struct Ran {
    pub(crate) log: Arc<dyn EventReader>,
    pub(crate) seen: Vec<Execution>,
    /// The corrections of its clock: the head of the log at the time, and the milliseconds.
    pub(crate) steps: Vec<ClockStep>,
}

impl Ran {
    /// Checks the log against all general rules, and against those that `more` adds.
    pub(crate) fn sound(
        &self,
        cut: Option<usize>,
        secrets: &[String],
        more: impl FnOnce(&mut Judge),
    ) -> Result<Cells, Broken> {
        let judged = || {
            let mut judge = Judge::of(self.log.as_ref())?;
            judge.is_idle(&self.seen);
            more(&mut judge);
            for secret in secrets {
                self.holds_not(secret, &mut judge)?;
            }
            judge.faults.extend(ill_formed(self.log.as_ref())?);
            Ok::<_, Error>(judge)
        };
        let Judge { faults, cells, .. } = judged().map_err(|error| self.broken(cut, &error))?;
        if faults.is_empty() {
            return Ok(cells);
        }
        Err(Broken { cut, faults, log: lines(self.log.as_ref()) })
    }

    /// Checks that no record holds this text.
    fn holds_not(&self, secret: &str, judge: &mut Judge) -> Result<(), Error> {
        for_each_record(self.log.as_ref(), Position(1), |stored| {
            if stored.bytes.windows(secret.len()).any(|bytes| bytes == secret.as_bytes()) {
                judge.faults.push(format!("position {}: the record holds `{secret}`", stored.position));
            }
            Ok(())
        })
    }

    pub(crate) fn broken(&self, cut: Option<usize>, why: &dyn fmt::Display) -> Broken {
        Broken { cut, faults: vec![why.to_string()], log: lines(self.log.as_ref()) }
    }
}

/// Returns the events of a log, one per line, as far as it can be read.
fn lines(log: &dyn EventReader) -> Vec<String> {
    let mut lines = Vec::new();
    let read = for_each_record::<Error>(log, Position(1), |stored| {
        let record = &stored.record;
        for (event, at) in record.events.iter().zip(0_u64..) {
            let body = event.body().unwrap_or_default();
            let decoded = AnyEvent::decode(record.stream.category(), event.kind, event.schema, body);
            let text = decoded.map_or_else(|error| error.to_string(), |event| format!("{event:?}"));
            let (position, version) = (stored.position.0 + at, record.first_version.0 + at);
            let text: String = text.chars().take(LINE_CHARS).collect();
            lines.push(format!("{position} {} v{version} {} {text}", record.stream, record.metadata.at));
        }
        Ok(())
    });
    lines.extend(read.err().map(|error| error.to_string()));
    lines
}
