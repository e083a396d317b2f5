//! The health of a system and its figures, for a host's own checks and metrics.

use std::time::Duration;

use proto_events::id::Position;
use taskreel_log::api::StoreFigures;
use taskreel_log::sled::free_bytes;

use crate::actors::shared::condition::Condition;
use crate::error::Error;
use crate::system::exposition::Exposition;
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
    /// The bytes that may still be written to the directory's disk; `None` without a directory, or if the disk does not
    /// say.
    pub disk_free: Option<u64>,
}

/// The figures of a system since its start, see [`System::metrics`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Metrics {
    /// The system's health.
    pub health: Health,
    /// The name of the agent that the handle addresses. The figures are for the whole system.
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
    /// The number of commands of callers, refused ones included.
    pub commands: u64,
    /// The ended attempts of calls, by target, mode and outcome.
    pub calls: Vec<CallCount>,
    /// The number of streams with work that is open or waits.
    pub open_work: usize,
    /// The figures of the store since it was opened; `None` where it keeps none.
    pub store: Option<StoreFigures>,
}

/// A number of ended attempts of calls, see [`Metrics::calls`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallCount {
    /// The kind of the calls: `tool`, `infer`, `agent` or `handler`.
    pub kind: &'static str,
    /// The name of the tool or agent, or backend and model. Above 200 calls that differ, further ones are `(other)`.
    pub target: String,
    /// The recovery mode.
    pub mode: &'static str,
    /// The outcome: `succeeded`, `failed`, `timed_out`, `lost`, `asked` or `canceled`.
    pub outcome: &'static str,
    /// The number of attempts.
    pub count: u64,
}

impl System {
    /// Returns the directory of the log, as an absolute path; `None` if the host gave a store of its own.
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
        let log = self.log();
        let reader = self.log();
        let open_work = self.on_pool(move || Ok(reader.open_work()?.len())).await?;
        Ok(Metrics {
            health,
            agent: self.agent_name().to_owned(),
            live_tasks,
            live_sessions,
            stuck_calls: self.stuck_calls(),
            appends: counts.appends,
            append_failures: counts.failures,
            append_wait: counts.waited,
            commands: self.inner.figures.commands(),
            calls: self.call_counts(),
            open_work,
            store: log.figures(),
        })
    }
}

impl System {
    fn call_counts(&self) -> Vec<CallCount> {
        let rows = self.inner.figures.calls().into_iter();
        rows.map(|(label, ending, count)| CallCount {
            kind: label.kind,
            target: label.target,
            mode: label.mode,
            outcome: ending.as_str(),
            count,
        })
        .collect()
    }
}

impl Metrics {
    /// Returns the figures in Prometheus' text format, each with the label `agent`.
    pub fn to_prometheus(&self) -> String {
        let mut out = Exposition::default();
        self.write(&mut out);
        out.finish()
    }

    /// Adds the figures to others in Prometheus' text format, each with the label `agent`.
    pub fn write(&self, out: &mut Exposition) {
        let agent = [("agent", self.agent.as_str())];
        self.write_log(out, &agent);
        let gauges = [
            ("taskreel_live_tasks", "Tasks in memory", self.live_tasks),
            ("taskreel_live_sessions", "Sessions in memory", self.live_sessions),
            ("taskreel_stuck_calls", "Calls given up that go on", self.stuck_calls),
            ("taskreel_open_work", "Streams with work that is open or waits", self.open_work),
        ];
        for (name, help, value) in gauges {
            out.gauge(name, help).sample(&agent, value);
        }
        out.counter("taskreel_commands_total", "Commands of callers").sample(&agent, self.commands);
        let mut calls = out.counter("taskreel_call_attempts_total", "Ended attempts of calls");
        for call in &self.calls {
            let labels = [
                agent[0],
                ("kind", call.kind),
                ("target", &call.target),
                ("mode", call.mode),
                ("outcome", call.outcome),
            ];
            calls.sample(&labels, call.count);
        }
    }

    fn write_log(&self, out: &mut Exposition, agent: &[(&str, &str)]) {
        let health = &self.health;
        let poisoned = u8::from(health.poisoned.is_some());
        out.gauge("taskreel_open", "Whether the system takes work").sample(agent, u8::from(health.open));
        out.gauge("taskreel_log_poisoned", "Whether the log takes no more appends until it is reopened")
            .sample(agent, poisoned);
        out.gauge("taskreel_log_head", "Position of the last durable event").sample(agent, health.head.0);
        out.gauge("taskreel_log_queue", "Appends that wait to become durable").sample(agent, health.queue);
        out.counter("taskreel_log_appends_total", "Durable appends").sample(agent, self.appends);
        out.counter("taskreel_log_append_failures_total", "Appends that were refused or failed")
            .sample(agent, self.append_failures);
        out.counter("taskreel_log_append_wait_seconds_total", "Time that appends waited for their answers")
            .sample(agent, self.append_wait.as_secs_f64());
        if let Some(free) = health.disk_free {
            out.gauge("taskreel_disk_free_bytes", "Bytes left on the disk of the log").sample(agent, free);
        }
        let Some(store) = &self.store else { return };
        out.gauge("taskreel_log_feeds", "Followers of the log").sample(agent, store.feeds);
        out.gauge("taskreel_log_feed_lag_records", "Records that the slowest follower has not taken")
            .sample(agent, store.feed_lag);
        let sizes = "Sizes of the groups that one sync makes durable, in appends";
        out.histogram("taskreel_log_group_appends", sizes, 1).distribution(agent, &store.group_appends);
        let times = "Times in which groups were written and synced";
        out.histogram("taskreel_log_sync_seconds", times, 1_000_000).distribution(agent, &store.sync_micros);
    }
}
