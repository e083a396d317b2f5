//! What a server says about its log.

use proto_events::id::{LogId, Position};
use proto_events::json::{JsonText, JsonValue};
use taskreel_log::api::Durability;
use taskreel_log::sled::{DiskSpace, Head};

use crate::api::client::error::HttpLogError;

/// What a server says about its log.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LogAbout {
    /// The log's id.
    pub id: LogId,
    /// The failures that an acknowledged append survives.
    pub durability: Durability,
    /// The position of the log's last event.
    pub end: Position,
    /// The contents of the file HEAD beside the log, if the server has one.
    pub head: Option<Head>,
    /// The room on the disk of the log, where the server knows it.
    pub disk: Option<DiskSpace>,
    /// The failure after which the program takes no more appends.
    pub poisoned: Option<String>,
}

impl LogAbout {
    /// Reads the document `taskreel.log/1`.
    pub(crate) fn read(json: &JsonText) -> Result<Self, HttpLogError> {
        let fields = json.tree();
        let read = || {
            let text = |name: &str| fields.get(name).and_then(JsonValue::as_str);
            if text("schema") != Some("taskreel.log/1") {
                return None;
            }
            let head = match fields.get("head_file") {
                Some(JsonValue::String(text)) => Some(Head::parse(text)?),
                _ => None,
            };
            let disk = fields.get("disk").and_then(|disk| {
                let bytes = |name: &str| disk.get(name).and_then(JsonValue::as_u64);
                Some(DiskSpace { free: bytes("free")?, total: bytes("size")? })
            });
            Some(Self {
                id: LogId::parse(text("log")?)?,
                durability: Durability::of_name(text("durability")?)?,
                end: Position(fields.get("head")?.as_u64()?),
                head,
                disk,
                poisoned: text("poisoned").map(str::to_owned),
            })
        };
        read().ok_or_else(|| HttpLogError::Nonsense {
            what: "its words about its log are not those of taskreel".to_owned(),
        })
    }
}
