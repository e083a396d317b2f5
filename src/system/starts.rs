//! The records of a system's own life: each start with the definitions that decide from then on, and each
//! orderly end. They are written in the first append of an epoch and in its last.

use std::sync::Arc;

use proto_events::definition::{AgentHistory, Definition};
use proto_events::envelope::Committed;
use proto_events::id::{Digest, Position, StreamId, Version};
use proto_events::system::{AgentRevision, Started, SystemCommand, SystemHistory};
use taskreel_log::api::{Append, AppendPart, EventStore};
use taskreel_log::ports::Ports;
use taskreel_log::read::Folded;
use taskreel_log::shown::{Offer, system_prompt};

use crate::actors::entity::{Entity, Seed, SetPart, on_blocking_pool};
use crate::actors::shared::messages::Cause;
use crate::agent::card::Agent;
use crate::agent::definition::definition;
use crate::error::Error;
use crate::tools::revision::Revision;

/// The version of taskreel, as starts record it.
const RELEASE: &str = env!("CARGO_PKG_VERSION");

/// Records that a program begins to write, and what the agent's definition is now. Returns the revision of the
/// definition; that of no agent is the default.
pub(crate) async fn record_start(
    store: &Arc<dyn EventStore>,
    ports: &Ports,
    agent: Option<&Agent>,
    build: Option<&str>,
) -> Result<Revision, Error> {
    let epoch = store.fence().epoch;
    let metadata = Cause::own(format_args!("start:{epoch}"), "start").metadata(ports.clock.now());
    let mut revised = None;
    let mut revision = Revision::default();
    let mut agents = Vec::new();
    if let Some(agent) = agent {
        let mut entity =
            Entity::<AgentHistory>::recover(store, StreamId::of_agent(&agent.name)?, Seed::draw(ports))
                .await?;
        let definition = definition(agent);
        let system = rendered(&definition)?;
        entity.decide(definition, &metadata)?;
        revision = Revision { number: entity.state().number(), record: entity.last_hash(), system };
        agents.push(AgentRevision { name: agent.name.clone(), number: revision.number });
        revised = Some(entity).filter(|entity| !entity.pending().is_empty());
    }
    let started = Started { epoch, release: RELEASE.to_owned(), build: build.map(str::to_owned), agents };
    let mut system = recover_end(store, Seed::draw(ports)).await?;
    system.decide(SystemCommand::Start(started), &metadata)?;
    let seed = Seed::draw(ports);
    let count = if revised.is_some() { 2 } else { 1 };
    let mut encoded: Vec<AppendPart> = Vec::new();
    if let Some(mut agent) = revised {
        let part = agent.part(store.fence(), SetPart { seed, part: 0, parts: count }, &metadata, None)?;
        revision.record = part.record.hash();
        encoded.push(part);
    }
    let set = SetPart { seed, part: count - 1, parts: count };
    encoded.push(system.part(store.fence(), set, &metadata, None)?);
    append(store, seed, encoded).await?;
    Ok(revision)
}

/// Renders the system prompt from a definition, as an auditor renders it from the log.
fn rendered(definition: &Definition) -> Result<Arc<str>, Error> {
    let offer = Offer::of(definition).map_err(|error| Error::Internal(error.to_string()))?;
    Ok(system_prompt(&offer).into())
}

/// Records a definition of the agent that holds from now on, in the middle of an epoch, and returns its revision.
#[cfg(feature = "mcp")]
pub(crate) async fn record_revision(
    store: &Arc<dyn EventStore>,
    ports: &Ports,
    agent: &Agent,
) -> Result<Revision, Error> {
    let mut entity =
        Entity::<AgentHistory>::recover(store, StreamId::of_agent(&agent.name)?, Seed::draw(ports)).await?;
    let (epoch, number) = (store.fence().epoch, entity.state().number());
    let cause = Cause::own(format_args!("revise:{epoch}:{number}"), "mcp");
    let metadata = cause.metadata(ports.clock.now());
    let definition = definition(agent);
    let system = rendered(&definition)?;
    entity.decide(definition, &metadata)?;
    let (number, record) = (entity.state().number(), entity.last_hash());
    if entity.pending().is_empty() {
        return Ok(Revision { number, record, system });
    }
    let seed = Seed::draw(ports);
    let part = entity.part(store.fence(), SetPart { seed, part: 0, parts: 1 }, &metadata, None)?;
    let record = part.record.hash();
    append(store, seed, vec![part]).await?;
    Ok(Revision { number, record, system })
}

/// Records that the program ends in order, or that its start failed for this reason. A program whose start is
/// not recorded has no end either.
pub(crate) async fn record_stop(
    store: &Arc<dyn EventStore>,
    ports: &Ports,
    reason: Option<String>,
) -> Result<(), Error> {
    let epoch = store.fence().epoch;
    let metadata = Cause::own(format_args!("stop:{epoch}"), "stop").metadata(ports.clock.now());
    let mut system = recover_end(store, Seed::draw(ports)).await?;
    system.decide(SystemCommand::Stop { epoch, reason }, &metadata)?;
    if system.pending().is_empty() {
        return Ok(());
    }
    let seed = Seed::draw(ports);
    let part = system.part(store.fence(), SetPart { seed, part: 0, parts: 1 }, &metadata, None)?;
    append(store, seed, vec![part]).await
}

async fn append(store: &Arc<dyn EventStore>, seed: Seed, parts: Vec<AppendPart>) -> Result<(), Error> {
    let append = Append { fence: store.fence(), set_id: seed.set_id(), parts };
    store.append(append).await?;
    Ok(())
}

/// Reads the last record of the partition's system stream alone: a log with many starts is not folded at each.
async fn recover_end(store: &Arc<dyn EventStore>, salts: Seed) -> Result<Entity<SystemHistory>, Error> {
    let stream = StreamId::of_system(store.fence().partition);
    let end = store.stream_version(&stream)?;
    let (state, nowhere) =
        (SystemHistory::default(), Committed { version: Version(0), position: Position(0) });
    if end == nowhere.version {
        return Ok(Entity::from_parts(
            stream,
            state,
            nowhere.version,
            nowhere.position,
            Digest::default(),
            salts,
        ));
    }
    let (reader, name) = (Arc::clone(store), stream.clone());
    let page = on_blocking_pool(store, &stream, move || reader.read_stream(&name, end, 1)).await??;
    let Some(last) = page.last() else {
        return Err(Error::Internal(format!("{stream} ends at version {end}, but has no such record")));
    };
    let before = Version(last.record.first_version.0.saturating_sub(1));
    let mut folded = Folded { version: before, last_hash: last.record.previous, ..Folded::default() };
    folded.take_record(last, end)?;
    let Folded { state, version, position, last_hash, .. } = folded;
    Ok(Entity::from_parts(stream, state, version, position, last_hash, salts))
}
