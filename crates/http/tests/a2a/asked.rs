//! Questions that are asked over every binding.

use std::sync::Arc;

use serde_json::{Value, json};
use taskreel::System;
use taskreel_http::a2a::PushDeliveries;
use taskreel_http::{A2a, HttpHandler, Mounted, Protolink};

use crate::support::{Answer, Host, Named, connect, hosts_of, request, send};

/// A binding in a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Binding {
    Rpc1,
    Rpc03,
    Rest1,
    Rest03,
}

pub(crate) const ALL: [Binding; 4] = [Binding::Rpc1, Binding::Rpc03, Binding::Rest1, Binding::Rest03];

/// The answer: the result, or the error with its code (the status over REST) and its reason.
pub(crate) type Came = Result<Value, (i64, String)>;

/// Returns the handler beside Protolink's, behind a check of callers that trusts a header.
pub(crate) fn handler(system: &System) -> Arc<dyn HttpHandler> {
    let handlers = Mounted::new()
        .mount("/", Arc::new(A2a::new(system.clone())))
        .mount("/", Arc::new(Protolink::new(system.clone())));
    Arc::new(Named(Arc::new(handlers)))
}

/// Returns the handler with webhooks, behind the same check.
pub(crate) fn handler_with(system: &System, pushing: &PushDeliveries) -> Arc<dyn HttpHandler> {
    let handlers = Mounted::new()
        .mount("/", Arc::new(A2a::new(system.clone()).push(pushing)))
        .mount("/", Arc::new(Protolink::new(system.clone())));
    Arc::new(Named(Arc::new(handlers)))
}

pub(crate) async fn hosts(system: &System) -> [Host; 2] {
    hosts_of(handler(system)).await
}

impl Binding {
    pub(crate) fn is_1(self) -> bool {
        matches!(self, Self::Rpc1 | Self::Rest1)
    }

    pub(crate) fn is_rpc(self) -> bool {
        matches!(self, Self::Rpc1 | Self::Rpc03)
    }

    /// Returns a message of the user in the binding's form.
    pub(crate) fn message(self, text: &str, more: &Value) -> Value {
        let mut message = match self {
            Self::Rpc1 | Self::Rest1 => json!({"role": "ROLE_USER", "parts": [{"text": text}]}),
            Self::Rpc03 => {
                json!({"kind": "message", "role": "user", "parts": [{"kind": "text", "text": text}]})
            }
            Self::Rest03 => json!({"role": "ROLE_USER", "content": [{"text": text}]}),
        };
        message["messageId"] = json!("m1");
        for (key, value) in more.as_object().into_iter().flatten() {
            message[key] = value.clone();
        }
        message
    }

    /// Returns the word for a state.
    pub(crate) fn state(self, word: &str) -> String {
        match self {
            Self::Rpc03 => word.to_owned(),
            Self::Rest03 if word == "canceled" => "TASK_STATE_CANCELLED".to_owned(),
            _ => format!("TASK_STATE_{}", word.to_uppercase().replace('-', "_")),
        }
    }

    /// Returns the bytes of a request.
    pub(crate) fn request(self, operation: &str, params: &Value, headers: &[(&str, &str)]) -> Vec<u8> {
        let mut headers = headers.to_vec();
        if self.is_1() {
            headers.push(("a2a-version", "1.0"));
        }
        if self.is_rpc() {
            headers.push(("content-type", "application/json"));
            let method = self.method(operation);
            let params = &self.of_webhook(operation, params);
            let body = json!({"jsonrpc": "2.0", "id": "r1", "method": method, "params": params});
            return request("POST", "/", &headers, &body.to_string());
        }
        let id = params["id"].as_str().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (method, path) = match operation {
            "send" => ("POST", "/message:send".to_owned()),
            "stream" => ("POST", "/message:stream".to_owned()),
            "get" => ("GET", format!("/tasks/{id}")),
            "list" => ("GET", "/tasks".to_owned()),
            "cancel" => ("POST", format!("/tasks/{id}:cancel")),
            "subscribe" => ("POST", format!("/tasks/{id}:subscribe")),
            "card" if self.is_1() => ("GET", "/extendedAgentCard".to_owned()),
            "card" => ("GET", "/card".to_owned()),
            "push" => ("POST", format!("/tasks/{id}/pushNotificationConfigs")),
            "webhooks" => ("GET", format!("/tasks/{id}/pushNotificationConfigs")),
            "webhook" => ("GET", format!("/tasks/{id}/pushNotificationConfigs/{}", text(&params["config"]))),
            "unhook" => {
                ("DELETE", format!("/tasks/{id}/pushNotificationConfigs/{}", text(&params["config"])))
            }
            other => panic!("{other}"),
        };
        let at = if self.is_1() { "" } else { "/v1" };
        if method == "POST" {
            headers.push(("content-type", "application/json"));
            let mut body = params.clone();
            body.as_object_mut().unwrap().remove("id");
            return request(method, &format!("{at}{path}"), &headers, &body.to_string());
        }
        let pairs =
            params.as_object().into_iter().flatten().filter(|(key, _)| *key != "id" && *key != "config");
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let query: Vec<_> = pairs.map(|(key, value)| format!("{key}={}", text(value))).collect();
        request(method, &format!("{at}{path}?{}", query.join("&")), &headers, "")
    }

    /// Returns the parameters of an operation on webhooks over JSON-RPC, made of the task's `id` and the webhook's `config`.
    fn of_webhook(self, operation: &str, params: &Value) -> Value {
        let mut params = params.clone();
        if matches!(operation, "webhook" | "webhooks" | "unhook") {
            let (task, config) =
                if self.is_1() { ("taskId", "id") } else { ("id", "pushNotificationConfigId") };
            let (id, own) = (params["id"].take(), params["config"].take());
            params.as_object_mut().unwrap().retain(|_, value| !value.is_null());
            params[task] = id;
            if !own.is_null() {
                params[config] = own;
            }
        }
        params
    }

    fn method(self, operation: &str) -> &'static str {
        let (new, old) = match operation {
            "send" => ("SendMessage", "message/send"),
            "stream" => ("SendStreamingMessage", "message/stream"),
            "get" => ("GetTask", "tasks/get"),
            "list" => ("ListTasks", "tasks/list"),
            "cancel" => ("CancelTask", "tasks/cancel"),
            "subscribe" => ("SubscribeToTask", "tasks/resubscribe"),
            "card" => ("GetExtendedAgentCard", "agent/getAuthenticatedExtendedCard"),
            "webhooks" => ("ListTaskPushNotificationConfigs", "tasks/pushNotificationConfig/list"),
            "webhook" => ("GetTaskPushNotificationConfig", "tasks/pushNotificationConfig/get"),
            "unhook" => ("DeleteTaskPushNotificationConfig", "tasks/pushNotificationConfig/delete"),
            "push" => ("CreateTaskPushNotificationConfig", "tasks/pushNotificationConfig/set"),
            other => panic!("{other}"),
        };
        if self.is_1() { new } else { old }
    }

    /// Asks, as a caller if one is named.
    pub(crate) async fn ask_as(
        self,
        host: &Host,
        caller: Option<&str>,
        operation: &str,
        params: Value,
    ) -> Came {
        let headers: Vec<_> = caller.map(|caller| ("x-caller", caller)).into_iter().collect();
        self.came(&send(host, &self.request(operation, &params, &headers)).await)
    }

    pub(crate) async fn ask(self, host: &Host, operation: &str, params: Value) -> Came {
        self.ask_as(host, None, operation, params).await
    }

    /// Reads an answer.
    pub(crate) fn came(self, answer: &Answer) -> Came {
        let body = answer.json();
        if self.is_rpc() {
            assert_eq!((body["jsonrpc"].as_str(), answer.status), (Some("2.0"), 200), "{answer:?}");
        }
        self.result(&body)
    }

    /// Reads a body, or a frame.
    pub(crate) fn result(self, body: &Value) -> Came {
        let error = &body["error"];
        if error.is_object() {
            let details = if self.is_rpc() { &error["data"] } else { &error["details"] };
            let reason = details[0]["reason"].as_str().unwrap_or_default();
            return Err((error["code"].as_i64().unwrap(), reason.to_owned()));
        }
        Ok(if self.is_rpc() { body["result"].clone() } else { body.clone() })
    }

    /// Sends a text, and returns the task.
    pub(crate) async fn task(self, host: &Host, text: &str) -> Value {
        self.task_of(
            host,
            None,
            json!({"message": self.message(text, &Value::Null), "configuration": self.blocking()}),
        )
        .await
        .unwrap()
    }

    /// Sends, and returns the task.
    pub(crate) async fn task_of(self, host: &Host, caller: Option<&str>, params: Value) -> Came {
        let came = self.ask_as(host, caller, "send", params).await?;
        Ok(if self == Self::Rpc03 { came } else { came["task"].clone() })
    }

    /// Returns the configuration of a message whose sender waits.
    pub(crate) fn blocking(self) -> Value {
        if self.is_1() { json!({}) } else { json!({"blocking": true}) }
    }

    /// Returns the configuration of a message whose sender does not wait.
    pub(crate) fn at_once(self) -> Value {
        if self.is_1() { json!({"returnImmediately": true}) } else { json!({"blocking": false}) }
    }

    /// Returns the frames of a stream, each with its place: all of them, or as many as are asked for.
    pub(crate) async fn frames(
        self,
        host: &Host,
        operation: &str,
        params: &Value,
        headers: &[(&str, &str)],
        most: usize,
    ) -> Vec<(Option<String>, Value)> {
        let mut connection = connect(host).await;
        connection.write_all(&self.request(operation, params, headers)).await.unwrap();
        let (status, head) = connection.head().await;
        assert_eq!(status, 200, "{head}");
        assert!(head.to_lowercase().contains("text/event-stream"), "{head}");
        let mut frames = Vec::new();
        while frames.len() < most {
            let Some((place, body)) = connection.frame().await else { break };
            frames.push((place, self.result(&body).unwrap_or_else(|error| panic!("{error:?}: {body}"))));
        }
        frames
    }
}

/// Returns the text of a part in any form.
pub(crate) fn text_of(message: &Value) -> String {
    let parts = if message["content"].is_array() { &message["content"] } else { &message["parts"] };
    parts[0]["text"].as_str().unwrap_or_default().to_owned()
}
