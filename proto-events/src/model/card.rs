//! Agent cards: what an agent says of itself ([`agent_card`]), its [`capabilities`], its [`skill`]s, the open lists of
//! names that stand in it ([`kinds`]), the texts by which a model is shown it ([`prompt`]), and the endpoints at which
//! it is reached ([`endpoint`]).

pub(crate) mod agent_card;
pub(crate) mod capabilities;
pub(crate) mod endpoint;
pub(crate) mod kinds;
pub(crate) mod prompt;
pub(crate) mod skill;

pub use agent_card::{AgentCard, CARD_URL_BYTES_MAX, PROTOCOL_VERSION};
pub use capabilities::AgentCapabilities;
pub use endpoint::{
    ClientRequestSpec, EndpointContent, EndpointMode, EndpointSpec, HttpMethod, RequestSource,
};
pub use kinds::{AgentRole, MimeType, SecuritySchemeType, TransportType};
pub use skill::AgentSkill;
