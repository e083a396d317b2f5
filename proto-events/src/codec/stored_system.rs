//! Storage structs of the events of systems and agents.

use serde::{Deserialize, Serialize};

use crate::codec::error::CodecError;
use crate::codec::kind;
use crate::codec::storable::{Payload, Storable};
use crate::codec::upcast::{first_version, read, write};
use crate::definition::{AgentEvent, DefinitionRevision, RevisedText};
use crate::id::Category;
use crate::system::{AgentRevision, SystemEvent, ToolLeftOut, ToolServerSeen, WriterStart};

#[derive(Serialize, Deserialize)]
struct StartedV1 {
    epoch: u64,
    release: String,
    build: Option<String>,
    agents: Vec<(String, u32)>,
}

#[derive(Serialize, Deserialize)]
struct StoppedV1 {
    epoch: u64,
    reason: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct ToolServerSeenV1 {
    epoch: u64,
    agent: String,
    server: String,
    failure: Option<String>,
    tools: Vec<String>,
    left_out: Vec<(String, String)>,
}

#[derive(Serialize, Deserialize)]
struct RevisedV1 {
    number: u32,
    model: RevisedTextV1,
    system_prompt: RevisedTextV1,
    tools: RevisedTextV1,
    agents: RevisedTextV1,
    parameters: RevisedTextV1,
}

#[derive(Serialize, Deserialize)]
struct RevisedTextV1 {
    since: u32,
    text: Option<String>,
}

first_version!(StartedV1, StoppedV1, ToolServerSeenV1, RevisedV1);

impl Storable for SystemEvent {
    const CATEGORY: Category = Category::System;

    fn encode(&self) -> Result<Payload, CodecError> {
        match self.clone() {
            Self::Started(WriterStart { epoch, release, build, agents }) => {
                let agents = agents.into_iter().map(|agent| (agent.name, agent.number)).collect();
                write(kind::STARTED, &StartedV1 { epoch, release, build, agents })
            }
            Self::Stopped { epoch, reason } => write(kind::STOPPED, &StoppedV1 { epoch, reason }),
            Self::ToolServerSeen(ToolServerSeen { epoch, agent, server, failure, tools, left_out }) => {
                let left_out = left_out.into_iter().map(|left| (left.tool, left.why)).collect();
                let stored = ToolServerSeenV1 { epoch, agent, server, failure, tools, left_out };
                write(kind::TOOL_SERVER_SEEN, &stored)
            }
        }
    }

    fn decode(kind: u16, schema: u8, body: &[u8]) -> Result<Self, CodecError> {
        Ok(match kind {
            kind::STARTED => {
                let StartedV1 { epoch, release, build, agents } = read(kind, schema, body)?;
                let agents = agents.into_iter().map(|(name, number)| AgentRevision { name, number });
                Self::Started(WriterStart { epoch, release, build, agents: agents.collect() })
            }
            kind::STOPPED => {
                let StoppedV1 { epoch, reason } = read(kind, schema, body)?;
                Self::Stopped { epoch, reason }
            }
            kind::TOOL_SERVER_SEEN => {
                let stored: ToolServerSeenV1 = read(kind, schema, body)?;
                let ToolServerSeenV1 { epoch, agent, server, failure, tools, left_out } = stored;
                let left_out = left_out.into_iter().map(|(tool, why)| ToolLeftOut { tool, why }).collect();
                Self::ToolServerSeen(ToolServerSeen { epoch, agent, server, failure, tools, left_out })
            }
            _ => return Err(CodecError::UnknownKind { kind, category: Self::CATEGORY.as_str() }),
        })
    }
}

impl Storable for AgentEvent {
    const CATEGORY: Category = Category::Agent;

    fn encode(&self) -> Result<Payload, CodecError> {
        let Self::Revised(revised) = self;
        let [model, system_prompt, tools, agents, parameters] = revised.texts.clone().map(|text| {
            RevisedTextV1 { since: text.since, text: text.text.map(|text| text.as_ref().to_owned()) }
        });
        let number = revised.number;
        write(kind::REVISED, &RevisedV1 { number, model, system_prompt, tools, agents, parameters })
    }

    fn decode(kind: u16, schema: u8, body: &[u8]) -> Result<Self, CodecError> {
        if kind != kind::REVISED {
            return Err(CodecError::UnknownKind { kind, category: Self::CATEGORY.as_str() });
        }
        let RevisedV1 { number, model, system_prompt, tools, agents, parameters } = read(kind, schema, body)?;
        let texts = [model, system_prompt, tools, agents, parameters]
            .map(|text| RevisedText { since: text.since, text: text.text.map(Into::into) });
        Ok(Self::Revised(Box::new(DefinitionRevision { number, texts })))
    }
}
