//! A2A's service: each call is one of the operations.

use std::pin::Pin;

use a2a_pb::proto::a2a_service_server::A2aService;
use a2a_pb::proto::{
    AgentCard, CancelTaskRequest, DeleteTaskPushNotificationConfigRequest, GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest, GetTaskRequest, ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse, ListTasksRequest, ListTasksResponse, SendMessageRequest,
    SendMessageResponse, StreamResponse, SubscribeToTaskRequest, Task, TaskPushNotificationConfig,
};
use futures_util::{Stream, stream};
use tonic::{Request, Response, Status, async_trait};

use crate::a2a::events::Events;
use crate::a2a::grpc::answer;
use crate::a2a::grpc::call::AgentCalls;
use crate::a2a::grpc::status::status;
use crate::a2a::ops::operation::A2aOperation;

/// The events of a stream as messages.
type Answers = Pin<Box<dyn Stream<Item = Result<StreamResponse, Status>> + Send>>;

fn answers(events: Events) -> Answers {
    Box::pin(stream::unfold(events, |mut events| async move {
        let (place, event) = events.next().await?;
        let place = place.map(|place| place.to_string());
        let told = event.map(|event| answer::event(&event, place.as_deref()));
        Some((told.map_err(|failure| status(&failure)), events))
    }))
}

#[async_trait]
impl A2aService for AgentCalls {
    async fn send_message(
        &self,
        request: Request<SendMessageRequest>,
    ) -> Result<Response<SendMessageResponse>, Status> {
        self.unary(A2aOperation::Send, request, answer::sent).await
    }

    type SendStreamingMessageStream = Answers;

    async fn send_streaming_message(
        &self,
        request: Request<SendMessageRequest>,
    ) -> Result<Response<Answers>, Status> {
        Ok(Response::new(answers(self.events(A2aOperation::SendStream, request).await?)))
    }

    async fn get_task(&self, request: Request<GetTaskRequest>) -> Result<Response<Task>, Status> {
        self.unary(A2aOperation::Get, request, answer::one_task).await
    }

    async fn list_tasks(
        &self,
        request: Request<ListTasksRequest>,
    ) -> Result<Response<ListTasksResponse>, Status> {
        self.unary(A2aOperation::List, request, answer::page).await
    }

    async fn cancel_task(&self, request: Request<CancelTaskRequest>) -> Result<Response<Task>, Status> {
        self.unary(A2aOperation::Cancel, request, answer::one_task).await
    }

    type SubscribeToTaskStream = Answers;

    async fn subscribe_to_task(
        &self,
        request: Request<SubscribeToTaskRequest>,
    ) -> Result<Response<Answers>, Status> {
        Ok(Response::new(answers(self.events(A2aOperation::Subscribe, request).await?)))
    }

    async fn create_task_push_notification_config(
        &self,
        request: Request<TaskPushNotificationConfig>,
    ) -> Result<Response<TaskPushNotificationConfig>, Status> {
        self.unary(A2aOperation::CreatePush, request, answer::push).await
    }

    async fn get_task_push_notification_config(
        &self,
        request: Request<GetTaskPushNotificationConfigRequest>,
    ) -> Result<Response<TaskPushNotificationConfig>, Status> {
        self.unary(A2aOperation::GetPush, request, answer::push).await
    }

    async fn list_task_push_notification_configs(
        &self,
        request: Request<ListTaskPushNotificationConfigsRequest>,
    ) -> Result<Response<ListTaskPushNotificationConfigsResponse>, Status> {
        self.unary(A2aOperation::ListPush, request, answer::pushes).await
    }

    async fn get_extended_agent_card(
        &self,
        request: Request<GetExtendedAgentCardRequest>,
    ) -> Result<Response<AgentCard>, Status> {
        self.unary(A2aOperation::ExtendedCard, request, answer::card).await
    }

    async fn delete_task_push_notification_config(
        &self,
        request: Request<DeleteTaskPushNotificationConfigRequest>,
    ) -> Result<Response<()>, Status> {
        self.unary(A2aOperation::DeletePush, request, |_| Ok(())).await
    }
}
