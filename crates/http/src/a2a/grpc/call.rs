//! A call: its metadata and its message as a request that every binding makes.

use std::sync::Arc;

use http::Extensions;
use taskreel::System;
use tonic::{Request, Response, Status};

use crate::a2a::a2a_request::A2aRequest;
use crate::a2a::bindings::request::Head;
use crate::a2a::events::Events;
use crate::a2a::failure::{A2aFailure, FailureKind};
use crate::a2a::grpc::params::Params;
use crate::a2a::grpc::status::status;
use crate::a2a::ops::operation::{A2aOperation, OperationOutcome, carry_out};
use crate::a2a::settings::A2aSettings;
use crate::a2a::version::{Version, unsupported};
use crate::a2a::wire::DataForm;
use crate::a2a::wire::fields::WireFields;

/// The calls to a system's agents.
#[derive(Debug, Clone)]
pub(crate) struct AgentCalls {
    pub(crate) system: System,
    pub(crate) settings: Arc<A2aSettings>,
}

impl AgentCalls {
    /// Carries out an operation that has one answer.
    pub(crate) async fn unary<P: Params, A>(
        &self,
        operation: A2aOperation,
        request: Request<P>,
        answer: impl FnOnce(OperationOutcome) -> Result<A, A2aFailure>,
    ) -> Result<Response<A>, Status> {
        let answered = self.outcome(operation, request).await.and_then(answer);
        answered.map(Response::new).map_err(|failure| status(&failure))
    }

    /// Carries out an operation whose answers are events.
    pub(crate) async fn events<P: Params>(
        &self,
        operation: A2aOperation,
        request: Request<P>,
    ) -> Result<Events, Status> {
        let outcome = match self.outcome(operation, request).await {
            Ok(OperationOutcome::Events(events)) => Ok(*events),
            Ok(_) => Err(A2aFailure::new(FailureKind::Internal, "the operation has one answer")),
            Err(failure) => Err(failure),
        };
        outcome.map_err(|failure| status(&failure))
    }

    async fn outcome<P: Params>(
        &self,
        operation: A2aOperation,
        request: Request<P>,
    ) -> Result<OperationOutcome, A2aFailure> {
        let (metadata, extensions, message) = request.into_parts();
        let (asking, params) = self.asking(metadata, &extensions, &message)?;
        drop(message);
        carry_out(&asking, operation, &params).await
    }

    fn asking<P: Params>(
        &self,
        metadata: tonic::metadata::MetadataMap,
        extensions: &Extensions,
        message: &P,
    ) -> Result<(A2aRequest, WireFields), A2aFailure> {
        let head = Head::of_call(
            metadata.into_headers(),
            extensions,
            self.system.clone(),
            self.settings.url.clone().unwrap_or_default(),
            Arc::clone(&self.settings),
        );
        // The service is 1.0's: a call that names no version speaks it.
        if head.version()? == Some(Version::V03) {
            return Err(unsupported("0.3 over gRPC"));
        }
        let params = WireFields::new(&message.params()?, "")?;
        Ok((head.asking(DataForm::V1, &params)?, params))
    }
}
