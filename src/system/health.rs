//! The health of a system and its figures, for a host's own checks and metrics.

use std::fmt;
use std::fmt::Write as _;
use std::time::Duration;

use proto_events::id::Position;
use taskreel_log::sled::free_bytes;

use crate::actors::shared::condition::Condition;
use crate::error::Error;
use crate::system::handle::System;

/// The health of a system, see [`System::health`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// Whether the system takes work: it is not shut down, and its log takes appends.
    pub open: bool,
    /// The first failure after which the log takes no more appends, until [`System::reopen`].
    pub poisoned: Option<String>,
    /// The number of appends that wait to become durable.
    pub queue: usize,
    /// The position of the last durable event.
    pub head: Position,
    /// The bytes that may still be written to the directory's disk; `None` where there is no directory or the disk does not
    /// say.
    pub disk_free: Option<u64>,
}

/// The figures of a system since its start, see [`System::metrics`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Metrics {
    /// The system's health.
    pub health: Health,
    /// The name of the agent that the handle addresses. The figures are those of the whole system.
    pub agent: String,
    /// The number of live tasks.
    pub live_tasks: usize,
    /// The number of live sessions.
    pub live_sessions: usize,
    /// The number of calls that were given up and go on, see [`System::stuck_calls`].
    pub stuck_calls: usize,
    /// The number of durable appends.
    pub appends: u64,
    /// The number of appends that were refused or failed; a conflict that was decided again counts.
    pub append_failures: u64,
    /// The time that appends waited for their answers, all together.
    pub append_wait: Duration,
}

impl System {
    /// Returns the directory of the log; `None` if the host gave a store of its own.
    pub fn directory(&self) -> Option<&std::path::Path> {
        self.inner.dir.as_deref()
    }

    /// Returns the health of the system. Works after a shutdown and while the log is poisoned.
    ///
    /// # Errors
    /// [`Error::Internal`] if the disk could not be asked.
    pub async fn health(&self) -> Result<Health, Error> {
        let running = self.inner.running();
        let dir = self.inner.dir.clone();
        let disk_free = match dir {
            Some(dir) => self.on_pool(move || Ok(free_bytes(&dir))).await?,
            None => None,
        };
        let condition = running.parts.condition.watch().borrow().clone();
        let stops = self.refuse_if_stopping().is_err();
        let poisoned = match &condition {
            Condition::Poisoned(why) => Some(why.clone()),
            // A write of the store's own may have failed, without an append of this system.
            Condition::Open => running.store().poisoned(),
            Condition::Stopped => None,
        };
        Ok(Health {
            open: condition == Condition::Open && poisoned.is_none() && !stops && running.actors().is_ok(),
            poisoned,
            queue: running.parts.condition.counts().queued,
            head: running.store().head().unwrap_or_default(),
            disk_free,
        })
    }

    /// Waits until the log takes no more appends, and returns why; `None` once the system has stopped. The commands that
    /// failed are sent again after [`System::reopen`].
    pub async fn until_poisoned(&self) -> Option<String> {
        let mut condition = self.inner.running().parts.condition.watch();
        // The sender is in the system, which this call holds.
        match condition.wait_for(|now| *now != Condition::Open).await.ok()?.clone() {
            Condition::Poisoned(why) => Some(why),
            Condition::Open | Condition::Stopped => None,
        }
    }

    /// Returns the figures of the system. [`Metrics::to_prometheus`] writes them for a host that serves them.
    ///
    /// # Errors
    /// [`Error::Stopped`] after a shutdown.
    pub async fn metrics(&self) -> Result<Metrics, Error> {
        let (live_tasks, live_sessions) = self.count_live().await?;
        let health = self.health().await?;
        let counts = self.inner.running().parts.condition.counts();
        Ok(Metrics {
            health,
            agent: self.agent_name().to_owned(),
            live_tasks,
            live_sessions,
            stuck_calls: self.stuck_calls(),
            appends: counts.appends,
            append_failures: counts.failures,
            append_wait: counts.waited,
        })
    }
}

impl Metrics {
    /// Returns the figures in Prometheus' text format, each with the label `agent`.
    pub fn to_prometheus(&self) -> String {
        let (health, mut out) = (&self.health, String::new());
        let free = health.disk_free.map(|free| free.to_string());
        let rows: [(&str, &str, &str, Option<String>); 11] = [
            ("open", "gauge", "Whether the system takes work", Some(u8::from(health.open).to_string())),
            (
                "log_poisoned",
                "gauge",
                "Whether the log takes no more appends until it is reopened",
                Some(u8::from(health.poisoned.is_some()).to_string()),
            ),
            ("log_head", "counter", "Position of the last durable event", Some(health.head.0.to_string())),
            ("log_queue", "gauge", "Appends that wait to become durable", Some(health.queue.to_string())),
            (
                "log_appends_total",
                "counter",
                "Durable appends since the start",
                Some(self.appends.to_string()),
            ),
            (
                "log_append_failures_total",
                "counter",
                "Appends refused or failed since the start",
                Some(self.append_failures.to_string()),
            ),
            (
                "log_append_wait_seconds_total",
                "counter",
                "Time that appends waited for their answers",
                Some(self.append_wait.as_secs_f64().to_string()),
            ),
            ("disk_free_bytes", "gauge", "Bytes left on the disk of the log", free),
            ("live_tasks", "gauge", "Tasks in memory", Some(self.live_tasks.to_string())),
            ("live_sessions", "gauge", "Sessions in memory", Some(self.live_sessions.to_string())),
            ("stuck_calls", "gauge", "Calls given up that go on", Some(self.stuck_calls.to_string())),
        ];
        let agent = Label(&self.agent);
        for (name, kind, help, value) in rows {
            let Some(value) = value else { continue };
            // Writing to a `String` cannot fail.
            let _ = writeln!(out, "# HELP taskreel_{name} {help}.\n# TYPE taskreel_{name} {kind}");
            let _ = writeln!(out, "taskreel_{name}{{agent=\"{agent}\"}} {value}");
        }
        out
    }
}

/// A text as the value of a label.
struct Label<'a>(&'a str);

impl fmt::Display for Label<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|char| match char {
            '\\' | '"' => write!(f, "\\{char}"),
            '\n' => f.write_str("\\n"),
            char => f.write_char(char),
        })
    }
}
