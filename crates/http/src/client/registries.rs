//! The requests of a registry: what Protolink's `RegistryClient` does.

use proto_events::json;
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{AgentCard, ClientRequestSpec, HttpMethod, ModelError, RequestSource};

use crate::client::error::ClientError;
use crate::client::transport::{Client, RequestContent};
use crate::registry::filter::AgentFilter;

const REGISTER: ClientRequestSpec = ClientRequestSpec::with_body("register", HttpMethod::Post, "/agents/");
const UNREGISTER: ClientRequestSpec =
    ClientRequestSpec::with_body("unregister", HttpMethod::Delete, "/agents/");
const HEARTBEAT: ClientRequestSpec =
    ClientRequestSpec::with_body("heartbeat", HttpMethod::Post, "/agents/heartbeat");
const DISCOVER: ClientRequestSpec =
    ClientRequestSpec::reading("discover", "/agents/", RequestSource::QueryParams);

impl Client {
    /// Registers an agent.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn register(&self, registry_url: &str, card: &AgentCard) -> Result<(), ClientError> {
        self.json(registry_url, REGISTER, RequestContent::Body(&card.to_json()), status).await.map(|_said| ())
    }

    /// Unregisters an agent; one that is not registered is not an error.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn unregister(&self, registry_url: &str, agent_url: &str) -> Result<(), ClientError> {
        self.json(registry_url, UNREGISTER, RequestContent::Body(&body(agent_url)), status)
            .await
            .map(|_said| ())
    }

    /// Tells the registry that an agent is alive, and returns whether it is registered: one that is not, because it was
    /// silent for too long, is to register again.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn heartbeat(&self, registry_url: &str, agent_url: &str) -> Result<bool, ClientError> {
        let said = self.json(registry_url, HEARTBEAT, RequestContent::Body(&body(agent_url)), status).await?;
        Ok(said == "agent heartbeat recorded")
    }

    /// Returns the cards of the agents that fit the filter.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn discover(
        &self,
        registry_url: &str,
        filter: &AgentFilter,
    ) -> Result<Vec<AgentCard>, ClientError> {
        let pairs: Vec<(&str, &str)> = filter.fields().collect();
        let read = |answer: &JsonText| {
            let cards: Vec<JsonText> = answer.read()?;
            cards.iter().map(AgentCard::from_json).collect()
        };
        self.json(registry_url, DISCOVER, RequestContent::Query(&pairs), read).await
    }
}

fn body(agent_url: &str) -> JsonText {
    JsonText::from(json!({"agent_url": agent_url}))
}

/// Reads the registry's word.
fn status(answer: &JsonText) -> Result<String, ModelError> {
    let fields: JsonObject = answer.read()?;
    let said = fields.get("status").and_then(JsonText::to_str);
    said.ok_or_else(|| ModelError::Missing { key: "status".to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::routes::REGISTRY_ENDPOINTS;

    #[test]
    fn each_request_has_its_endpoint_in_our_registry() {
        for request in [REGISTER, UNREGISTER, HEARTBEAT, DISCOVER] {
            let answered = REGISTRY_ENDPOINTS.iter().find(|endpoint| request.fits(endpoint));
            assert_eq!(answered.map(|endpoint| endpoint.name), Some(request.name));
        }
    }
}
