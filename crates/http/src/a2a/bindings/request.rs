//! The parts of a request's head that both bindings read.

use std::sync::Arc;

use http::HeaderMap;
use http::request::Parts;
use taskreel::System;

use crate::a2a::a2a_request::A2aRequest;
use crate::a2a::failure::A2aFailure;
use crate::a2a::place::AFTER;
use crate::a2a::settings::A2aSettings;
use crate::a2a::version::{self, Version};
use crate::a2a::wire::DataForm;
use crate::a2a::wire::fields::{Invalid, WireFields};
use crate::auth::allowance::Allowance;
use crate::auth::caller::Caller;
use crate::handler::connection::StopSignal;
use crate::handler::path::pairs;

/// The headers that name extensions, in 1.0 and in 0.3.
const EXTENSIONS: [&str; 2] = ["a2a-extensions", "x-a2a-extensions"];

/// The most extensions of a request that are read.
const EXTENSIONS_MAX: usize = 100;

/// The head of a request, as far as it counts here.
pub(crate) struct Head {
    pub(crate) headers: HeaderMap,
    pub(crate) query: Vec<(String, String)>,
    caller: Option<Caller>,
    stopping: Option<StopSignal>,
    allowance: Option<Allowance>,
    system: System,
    url: String,
    settings: Arc<A2aSettings>,
}

impl Head {
    /// Reads the head of a request to an agent at an address.
    ///
    /// # Errors
    /// [`Invalid`] if its query cannot be read.
    pub(crate) fn new(
        parts: Parts,
        system: System,
        url: String,
        settings: Arc<A2aSettings>,
    ) -> Result<Self, Invalid> {
        let query = pairs(parts.uri.query().unwrap_or_default());
        let query = query.map_err(|error| Invalid::new("query", error.to_string()))?;
        let caller = parts.extensions.get::<Caller>().cloned();
        let stopping = parts.extensions.get::<StopSignal>().cloned();
        let allowance = parts.extensions.get::<Allowance>().cloned();
        Ok(Self { headers: parts.headers, query, caller, stopping, allowance, system, url, settings })
    }

    /// Returns the head of a call over gRPC, whose metadata are headers.
    #[cfg(feature = "grpc")]
    pub(crate) fn of_call(
        headers: HeaderMap,
        extensions: &http::Extensions,
        system: System,
        url: String,
        settings: Arc<A2aSettings>,
    ) -> Self {
        let caller = extensions.get::<Caller>().cloned();
        let stopping = extensions.get::<StopSignal>().cloned();
        let allowance = extensions.get::<Allowance>().cloned();
        Self { headers, query: Vec::new(), caller, stopping, allowance, system, url, settings }
    }

    fn header(&self, name: &str) -> Option<String> {
        Some(self.headers.get(name)?.to_str().ok()?.to_owned())
    }

    /// Returns the version that the request names.
    pub(crate) fn version(&self) -> Result<Option<Version>, A2aFailure> {
        version::named(&self.headers, &self.query)
    }

    /// Refuses a version that this handler does not speak.
    pub(crate) fn spoken(&self, version: Version) -> Result<(), A2aFailure> {
        if self.settings.speaks(version) { Ok(()) } else { Err(version::unsupported(version.number())) }
    }

    /// Returns the extensions that the client names: by the header of 1.0, or by that of 0.3.
    fn extensions(&self) -> Vec<String> {
        let values = EXTENSIONS.iter().flat_map(|name| self.headers.get_all(*name));
        let named = values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
        named.map(|uri| uri.trim().to_owned()).filter(|uri| !uri.is_empty()).take(EXTENSIONS_MAX).collect()
    }

    /// Returns the request to the agent, or to the one that the parameter `tenant` names.
    pub(crate) fn asking(self, form: DataForm, params: &WireFields) -> Result<A2aRequest, A2aFailure> {
        let after = self
            .header("last-event-id")
            .or_else(|| self.query.iter().find(|(key, _)| key == AFTER).map(|(_, value)| value.clone()));
        let key = self.header("idempotency-key");
        let extensions = self.extensions();
        let Self { caller, stopping, allowance, mut system, url, settings, .. } = self;
        if let Ok(Some(tenant)) = params.word("tenant") {
            let named = system.agent(&tenant);
            system = named.ok_or_else(|| Invalid::new("tenant", "names no agent"))?;
        }
        if let Some(caller) = &caller {
            system = system.acting_as(caller.principal.clone());
        }
        Ok(A2aRequest { system, settings, caller, form, url, after, key, extensions, stopping, allowance })
    }
}
