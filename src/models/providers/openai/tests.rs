//! Tests of a backend's settings, without a server.

use super::*;

#[test]
fn the_endpoint_stands_behind_the_base_and_what_is_shown_holds_no_secret() {
    let (url, shown, secrets) = endpoint(" https://me:hidden@host:8443/v1/?api-version=2024&code=hush ");
    assert_eq!(
        url.unwrap().as_str(),
        "https://me:hidden@host:8443/v1/chat/completions?api-version=2024&code=hush"
    );
    assert_eq!(shown, "https://host:8443/v1");
    assert_eq!(secrets.redact("hidden hush".to_owned()), "[REDACTED] [REDACTED]");
    let (url, shown, _) = endpoint("http://127.0.0.1:1");
    assert_eq!(url.unwrap().as_str(), "http://127.0.0.1:1/chat/completions");
    assert_eq!(shown, "http://127.0.0.1:1");
}

#[test]
fn what_cannot_work_is_said_before_the_first_call() {
    let model = || OpenAiCompatible::new("http://host/v1", "m");
    assert_eq!(model().check(), Ok(()));
    let wrong = [
        (OpenAiCompatible::new("host/v1", "m"), "base URL is invalid"),
        (OpenAiCompatible::new("file:///v1", "m"), "`file:`"),
        (model().header("a b", "x"), "`a b`"),
        (model().header("a", "se\ncret"), "header `a`"),
        (model().parameter("stream", false), "`stream`"),
        (model().api_key_env("TASKREEL_NO_SUCH_KEY"), "TASKREEL_NO_SUCH_KEY"),
    ];
    for (model, expected) in wrong {
        let why = model.check().unwrap_err();
        assert!(why.contains(expected) && !why.contains("cret"), "{why}");
    }
}

#[test]
fn the_parameters_of_an_intent_hold_what_shapes_the_answer_and_no_secret() {
    let model = OpenAiCompatible::new("http://user:hidden@host/v1?key=hush", "m")
        .api_key("sk-secret")
        .header("x-token", "secret-token")
        .organization("org-secret")
        .temperature(0.2)
        .max_tokens(100)
        .seed(7)
        .parameter("top_p", 0.5)
        .json_actions()
        .notes_as_user();
    let said = model.parameters().to_text();
    assert_eq!(
        said.as_str(),
        r#"{"base_url":"http://host/v1","tools":"json-actions","notes":"user","parameters":{"temperature":0.2,"max_tokens":100,"seed":7,"top_p":0.5}}"#
    );
    let printed = format!("{said:?} {model:?}");
    for secret in ["hidden", "hush", "sk-secret", "secret-token", "org-secret", "user:"] {
        assert!(!printed.contains(secret), "{secret} in {printed}");
    }
    assert!(printed.contains("x-token") && printed.contains("inline"));
}
