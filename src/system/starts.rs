//! The records of a system's own life: each start with the definitions that decide from then on, and each
//! orderly end. They are written in the first append of an epoch and in its last.

use std::sync::Arc;

use proto_events::definition::{AgentHistory, Definition};
use proto_events::envelope::Metadata;
use proto_events::id::{StreamId, Version};
use proto_events::system::{
    AgentRevision, SystemCommand, SystemEvent, SystemHistory, ToolServerSeen, WriterStart,
};
use taskreel_log::api::{Append, AppendError, AppendPart, EventStore, ReadError, StoredRecord};
use taskreel_log::ports::Ports;
use taskreel_log::read::{FoldedStream, decode_record};
use taskreel_log::shown::{Offer, system_prompt};

use crate::actors::entity::{Entity, SetPart};
use crate::actors::seed::Seed;
use crate::actors::shared::messages::Cause;
use crate::actors::stream_reads::on_blocking_pool;
use crate::agent::card::Agent;
use crate::agent::definition::definition;
use crate::error::Error;
use crate::tools::revision::{Revision, declared_secret_args};

/// The version of taskreel, as starts record it.
const RELEASE: &str = env!("CARGO_PKG_VERSION");

/// The number of times that an entry is decided while others write to the same streams.
const TRIES: usize = 16;

/// Records that a program begins to write, what the definitions of its agents are now, and the servers of tools that
/// brought less than they should. Returns the revisions of the definitions, in the order of the agents.
pub(crate) async fn record_start(
    store: &Arc<dyn EventStore>,
    ports: &Ports,
    agents: &[&Agent],
    build: Option<&str>,
    servers: Vec<ToolServerSeen>,
) -> Result<Vec<Revision>, Error> {
    decided_anew(|| decide_start(store, ports, agents, build, servers.clone())).await
}

/// Decides again, from what is there then, as long as another system over the same store writes first.
async fn decided_anew<T, D>(decide: impl Fn() -> D) -> Result<T, Error>
where
    D: Future<Output = Result<T, Error>>,
{
    let mut tries = 1;
    loop {
        match decide().await {
            Err(Error::Append(AppendError::Conflict { .. })) if tries < TRIES => tries += 1,
            recorded => return recorded,
        }
    }
}

async fn decide_start(
    store: &Arc<dyn EventStore>,
    ports: &Ports,
    agents: &[&Agent],
    build: Option<&str>,
    servers: Vec<ToolServerSeen>,
) -> Result<Vec<Revision>, Error> {
    let epoch = store.fence().epoch;
    let metadata = Cause::from_system(format_args!("start:{epoch}"), "start").metadata(ports.clock.now());
    let (mut revised, mut revisions, mut started_agents) = (Vec::new(), Vec::new(), Vec::new());
    for agent in agents {
        let mut entity =
            Entity::<AgentHistory>::recover(store, StreamId::of_agent(&agent.name)?, Seed::draw(ports))
                .await?;
        let definition = definition(agent);
        let system = rendered(&definition)?;
        entity.decide(definition, &metadata)?;
        let secret_args = declared_secret_args(entity.state()).into();
        let revision =
            Revision { number: entity.state().number(), record: entity.last_hash(), system, secret_args };
        started_agents.push(AgentRevision { name: agent.name.clone(), number: revision.number });
        if entity.is_pending() {
            revised.push((revisions.len(), entity));
        }
        revisions.push(revision);
    }
    let (release, build) = (RELEASE.to_owned(), build.map(str::to_owned));
    let started = WriterStart { epoch, release, build, agents: started_agents };
    let mut system = recover_end(store, Seed::draw(ports)).await?;
    system.decide(SystemCommand::Start(started), &metadata)?;
    for seen in servers {
        system.decide(SystemCommand::NoteToolServer(ToolServerSeen { epoch, ..seen }), &metadata)?;
    }
    let set_id = ports.ids.random();
    let too_many = |_| Error::Builder("a system cannot have that many agents".to_owned());
    let before = u16::try_from(revised.len()).map_err(too_many)?;
    let all = before.saturating_add(1);
    let mut encoded: Vec<AppendPart> = Vec::new();
    for (part, (place, mut agent)) in (0..before).zip(revised) {
        let part = agent.part(store.fence(), SetPart { set_id, part, parts: all }, &metadata, None)?;
        if let Some(revision) = revisions.get_mut(place) {
            revision.record = part.record.hash();
        }
        encoded.push(part);
    }
    encoded.push(system.part(
        store.fence(),
        SetPart { set_id, part: before, parts: all },
        &metadata,
        None,
    )?);
    append(store, set_id, encoded).await?;
    Ok(revisions)
}

/// Renders the system prompt from a definition, as an auditor renders it from the log.
fn rendered(definition: &Definition) -> Result<Arc<str>, Error> {
    let offer = Offer::from_definition(definition).map_err(|error| Error::Internal(error.to_string()))?;
    Ok(system_prompt(&offer).into())
}

/// Records a definition of the agent that holds from now on, in the middle of an epoch, and returns its revision. `cause`
/// names what has joined the agent.
pub(crate) async fn record_revision(
    store: &Arc<dyn EventStore>,
    ports: &Ports,
    agent: &Agent,
    cause: &str,
) -> Result<Revision, Error> {
    let mut entity =
        Entity::<AgentHistory>::recover(store, StreamId::of_agent(&agent.name)?, Seed::draw(ports)).await?;
    let (epoch, number) = (store.fence().epoch, entity.state().number());
    let cause = Cause::from_system(format_args!("revise:{epoch}:{number}"), cause);
    let metadata = cause.metadata(ports.clock.now());
    let definition = definition(agent);
    let system = rendered(&definition)?;
    entity.decide(definition, &metadata)?;
    let (number, record) = (entity.state().number(), entity.last_hash());
    let secret_args = declared_secret_args(entity.state()).into();
    if !entity.is_pending() {
        return Ok(Revision { number, record, system, secret_args });
    }
    let set_id = ports.ids.random();
    let part = entity.part(store.fence(), SetPart::only(set_id), &metadata, None)?;
    let record = part.record.hash();
    append(store, set_id, vec![part]).await?;
    Ok(Revision { number, record, system, secret_args })
}

/// Records what the running program saw of a server of tools.
#[cfg(feature = "mcp")]
pub(crate) async fn record_tool_server(
    store: &Arc<dyn EventStore>,
    ports: &Ports,
    seen: ToolServerSeen,
) -> Result<(), Error> {
    let epoch = store.fence().epoch;
    decided_anew(|| async {
        let mut system = recover_end(store, Seed::draw(ports)).await?;
        let cause = Cause::from_system(format_args!("server:{epoch}:{}", system.version()), "mcp");
        let metadata = cause.metadata(ports.clock.now());
        let seen = ToolServerSeen { epoch, ..seen.clone() };
        system.decide(SystemCommand::NoteToolServer(seen), &metadata)?;
        append_pending(store, ports, &mut system, &metadata).await
    })
    .await
}

/// Records that the program ends in order, or that its start failed for this reason. A program whose start is
/// not recorded has no end either.
pub(crate) async fn record_stop(
    store: &Arc<dyn EventStore>,
    ports: &Ports,
    reason: Option<String>,
) -> Result<(), Error> {
    let epoch = store.fence().epoch;
    let metadata = Cause::from_system(format_args!("stop:{epoch}"), "stop").metadata(ports.clock.now());
    decided_anew(|| async {
        let mut system = recover_end(store, Seed::draw(ports)).await?;
        system.decide(SystemCommand::Stop { epoch, reason: reason.clone() }, &metadata)?;
        append_pending(store, ports, &mut system, &metadata).await
    })
    .await
}

/// Appends what was decided of the system's stream, if anything was.
async fn append_pending(
    store: &Arc<dyn EventStore>,
    ports: &Ports,
    system: &mut Entity<SystemHistory>,
    metadata: &Metadata,
) -> Result<(), Error> {
    if !system.is_pending() {
        return Ok(());
    }
    let set_id = ports.ids.random();
    let part = system.part(store.fence(), SetPart::only(set_id), metadata, None)?;
    append(store, set_id, vec![part]).await
}

async fn append(store: &Arc<dyn EventStore>, set_id: [u8; 16], parts: Vec<AppendPart>) -> Result<(), Error> {
    let append = Append { fence: store.fence(), set_id, parts };
    store.append(append).await?;
    Ok(())
}

/// Reads the end of the partition's system stream, from its last start: a log with many starts is not folded at each.
async fn recover_end(store: &Arc<dyn EventStore>, salts: Seed) -> Result<Entity<SystemHistory>, Error> {
    let stream = StreamId::of_system(store.fence().partition);
    let end = store.stream_version(&stream)?;
    let mut folded = FoldedStream::<SystemHistory>::default();
    if end > Version(0) {
        let (reader, name) = (Arc::clone(store), stream.clone());
        folded = on_blocking_pool(store, &stream, move || fold_end(reader.as_ref(), &name, end)).await??;
    }
    let FoldedStream { state, version, position, last_hash, .. } = folded;
    Ok(Entity::from_parts(stream, state, version, position, last_hash, salts))
}

/// Folds the records of a system stream from its last start on.
fn fold_end(
    reader: &dyn EventStore,
    stream: &StreamId,
    end: Version,
) -> Result<FoldedStream<SystemHistory>, ReadError> {
    let mut records: Vec<StoredRecord> = Vec::new();
    let mut at = end;
    while at > Version(0) {
        let Some(record) = reader.read_stream(stream, at, 1)?.into_iter().next() else { break };
        at = Version(record.record.first_version.0.saturating_sub(1));
        let begins = decode_record::<SystemEvent>(&record)?
            .iter()
            .any(|recorded| matches!(recorded.event, SystemEvent::Started(_)));
        records.push(record);
        if begins {
            break;
        }
    }
    let previous = records.last().map(|first| first.record.previous).unwrap_or_default();
    let mut folded = FoldedStream { version: at, last_hash: previous, ..FoldedStream::default() };
    for record in records.iter().rev() {
        folded.take_record(record, end)?;
    }
    Ok(folded)
}
