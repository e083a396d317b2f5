//! The requests and the answers of a socket, as JSON.

use proto_events::id::StreamId;
use serde::{Deserialize, Serialize};

use crate::api::failure::ReadFailure;
use crate::api::record::StreamInfo;
use crate::socket::operator::{OperatorRefusal, OperatorReply, OperatorRequest};

/// The version of the protocol. Both sides must have the same. In version 1 a survey had no `quiet`.
pub(crate) const PROTOCOL: u32 = 2;

/// A request of a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Request {
    /// The first request of each connection.
    Hello { protocol: u32 },
    /// A page of one stream.
    PageStream { stream: StreamName, from: u64, records: u64, bytes: u64 },
    /// A page of the log.
    PageAll { from: u64, records: u64, bytes: u64 },
    /// The last position.
    Head,
    /// The last version of a stream.
    StreamVersion { stream: StreamName },
    /// Streams in order of their names.
    ListStreams { prefix: String, after: Option<StreamName>, limit: u64 },
    /// The streams with open work.
    OpenWork,
    /// Every record, and an error for each that cannot be read.
    Survey,
    /// The faults of the index.
    SurveyIndex,
    /// The records from a position or, of a stream, a version on, and those that follow as they become durable.
    Follow { stream: Option<StreamName>, from: u64 },
    /// A person's decision.
    Operator(OperatorRequest),
}

/// An answer, or a part of one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// The answer to the first request.
    Welcome(Welcome),
    /// The number that was asked for.
    Number(u64),
    /// Streams with their versions; more may follow.
    Streams(Vec<(StreamName, u64)>),
    /// The answer is complete.
    Done,
    /// The log could not be read where it was asked for.
    Failed(ReadFailure),
    /// The follower was too slow for the live feed: these positions follow from the log.
    Lagged { from: u64, to: u64 },
    /// The log has not changed for a while, or a survey has shown nothing: the program is there.
    Quiet,
    /// The program has closed the log.
    Ended,
    /// The decision was made.
    Decided(OperatorReply),
    /// The decision was refused.
    Refused(OperatorRefusal),
    /// Too many clients are connected, or follow the log.
    Busy,
    /// The client is another user's.
    NotAllowed,
    /// The program speaks another version of the protocol.
    OtherProtocol { protocol: u32 },
    /// The request cannot be understood.
    Misunderstood { why: String },
}

/// The program and the log behind a socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Welcome {
    pub(crate) protocol: u32,
    pub(crate) release: String,
    pub(crate) pid: u32,
    pub(crate) program: String,
    pub(crate) started: String,
    pub(crate) format: u32,
    pub(crate) log: String,
    pub(crate) durability: String,
    /// Whether decisions are taken.
    pub(crate) takes_decisions: bool,
    /// The failure after which the program takes no appends. Programs before this field was known say nothing of it.
    #[serde(default)]
    pub(crate) poisoned: Option<String>,
}

/// The name of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct StreamName(pub(crate) StreamId);

impl TryFrom<String> for StreamName {
    type Error = proto_events::id::IdError;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        StreamId::parse(&name).map(Self)
    }
}

impl From<StreamName> for String {
    fn from(name: StreamName) -> Self {
        name.0.to_string()
    }
}

impl From<StreamInfo> for (StreamName, u64) {
    fn from(info: StreamInfo) -> Self {
        (StreamName(info.stream), info.version.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_with_a_name_that_is_no_stream_is_refused() {
        let request = Request::StreamVersion { stream: StreamName(StreamId::parse("task-a/b").unwrap()) };
        let text = serde_json::to_string(&request).unwrap();
        assert_eq!(serde_json::from_str::<Request>(&text).unwrap(), request);
        assert!(serde_json::from_str::<Request>(&text.replace("task-a/b", "")).is_err());
    }
}
