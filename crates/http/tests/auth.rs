//! Callers by token, by key and by password: who is let in, under which name, and what the others are told.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod auth_support;

use auth_support::{Rules, guarded, post_task, send};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use taskreel_http::{Access, Scopes};

const FILE: &str = r#"{"credentials": [
    {"name": "ada", "scopes": ["read", "run", "control"], "secret_file": "ada.token"},
    {"name": "robot", "scopes": ["run"], "sha256": "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"},
    {"name": "Bob", "user": "bob", "scopes": ["run"], "secret_file": "bob.password"}
]}"#;

fn rules() -> Rules {
    Rules::new(&[("ada.token", b"key-123\n"), ("bob.password", b"p:w\n")])
}

#[tokio::test]
async fn a_token_is_taken_from_each_place_where_protolink_puts_one() {
    let rules = rules();
    let handler = guarded(rules.read(FILE).unwrap());
    for header in [
        ("authorization", "Bearer key-123"),
        ("authorization", "bearer   key-123 "),
        ("authorization", "ApiKey key-123"),
        ("authorization", "apikey key-123"),
        ("authorization", "key-123"),
        ("x-api-key", "key-123"),
    ] {
        let answer = post_task(&handler, &[header]).await;
        assert_eq!(
            (answer.status.as_u16(), answer.body.as_str()),
            (200, "ada authenticated /tasks/"),
            "{header:?}"
        );
    }
    let hashed = post_task(&handler, &[("x-api-key", "secret")]).await;
    assert_eq!(hashed.body, "robot authenticated /tasks/");
}

#[tokio::test]
async fn a_password_is_taken_in_base64_and_as_it_is() {
    let rules = rules();
    let handler = guarded(rules.read(FILE).unwrap());
    for text in [STANDARD.encode("bob:p:w"), "bob:p:w".to_owned()] {
        let answer = post_task(&handler, &[("authorization", &format!("Basic {text}"))]).await;
        assert_eq!(answer.body, "Bob authenticated /tasks/");
    }
    let told = |text: String| {
        let handler = &handler;
        async move { post_task(handler, &[("authorization", &format!("Basic {text}"))]).await.body }
    };
    let wrong = r#"{"error":"Authentication failed: Invalid username or password"}"#;
    for pair in ["bob:no", "bob:", "eve:p:w", "ada:key-123", ":p:w"] {
        assert_eq!(told(STANDARD.encode(pair)).await, wrong, "{pair}");
    }
    let malformed = r#"{"error":"Authentication failed: Invalid Basic authentication format"}"#;
    assert_eq!(told("bob".to_owned()).await, malformed);
    assert_eq!(told(String::new()).await, malformed);
    // A password is no token, and a token no password.
    let token = post_task(&handler, &[("authorization", "Bearer p:w")]).await;
    assert_eq!(token.status, 401);
}

#[tokio::test]
async fn protolinks_routes_keep_its_bodies_and_all_others_have_the_table() {
    let rules = rules();
    let handler = guarded(rules.read(FILE).unwrap());
    for path in ["/tasks/", "/.well-known/agent.json", "/agents/", "/agents/desk/tasks/", "/status", "/"] {
        let missing = send(&handler, Method::GET, path, &[]).await;
        assert_eq!(
            (missing.status.as_u16(), missing.body.as_str()),
            (401, r#"{"error":"Missing credentials"}"#)
        );
        assert_eq!(missing.headers["content-type"], "application/json");
        let wrong = send(&handler, Method::GET, path, &[("x-api-key", "bad")]).await;
        let body = r#"{"error":"Authentication failed: Invalid API key"}"#;
        assert_eq!((wrong.status.as_u16(), wrong.body.as_str()), (401, body), "{path}");
    }
    for path in ["/api/v1/tasks", "/metrics", "/something"] {
        let missing = send(&handler, Method::GET, path, &[]).await;
        let body = r#"{"error":{"code":"missing_credentials","message":"Missing credentials"}}"#;
        assert_eq!((missing.status.as_u16(), missing.body.as_str()), (401, body), "{path}");
        assert_eq!(missing.headers["www-authenticate"], "Bearer");
        let wrong = send(&handler, Method::GET, path, &[("x-api-key", "bad")]).await;
        assert!(
            wrong.body.starts_with(r#"{"error":{"code":"authentication_failed","message":"#),
            "{}",
            wrong.body
        );
    }
}

#[tokio::test]
async fn a_credential_in_the_query_is_for_protolinks_routes_and_no_handler_sees_it() {
    let rules = rules();
    let handler = guarded(rules.read(FILE).unwrap());
    for name in ["api_key", "apikey", "token"] {
        let answer = send(&handler, Method::POST, &format!("/tasks/?{name}=key-123&a=b"), &[]).await;
        assert_eq!(answer.body, "ada authenticated /tasks/?a=b", "{name}");
    }
    let escaped = send(&handler, Method::POST, "/tasks/?api_key=key%2D123", &[]).await;
    assert_eq!(escaped.body, "ada authenticated /tasks/");
    for path in ["/api/v1/tasks?api_key=key-123", "/metrics?token=key-123"] {
        let answer = send(&handler, Method::GET, path, &[]).await;
        assert_eq!(answer.status, 401, "{path}");
        assert!(answer.body.contains("missing_credentials"), "{}", answer.body);
    }
    // A header counts more.
    let both = send(&handler, Method::POST, "/tasks/?api_key=key-123", &[("x-api-key", "bad")]).await;
    assert_eq!(both.status, 401);
}

#[tokio::test]
async fn empty_several_and_unreadable_credentials_open_nothing() {
    let rules = rules();
    let handler = guarded(rules.read(FILE).unwrap());
    for headers in [
        vec![("authorization", "")],
        vec![("authorization", "Bearer")],
        vec![("authorization", "Bearer ")],
        vec![("x-api-key", "")],
        vec![("authorization", "Bearer key-123"), ("authorization", "Bearer bad")],
        vec![("x-api-key", "key-123"), ("x-api-key", "key-123")],
        vec![("authorization", "Bearer key-12")],
        vec![("authorization", "Bearer key-1234")],
        vec![("authorization", "Bearer KEY-123")],
        vec![("authorization", "Digest key-123")],
        vec![("authorization", "Bearer 8aaa9cc9aab80aa96c6d8ea0a1b2b6ef1bb6a9a4f5e8d56d39ab3e56e0ccb2e5")],
    ] {
        assert_eq!(post_task(&handler, &headers).await.status, 401, "{headers:?}");
    }
    for query in ["api_key=", "api_key", "token=&token=bad"] {
        assert_eq!(
            send(&handler, Method::POST, &format!("/tasks/?{query}"), &[]).await.status,
            401,
            "{query}"
        );
    }
}

#[tokio::test]
async fn without_credentials_every_caller_is_let_in_under_no_name() {
    let handler = guarded(Access::open());
    assert_eq!(post_task(&handler, &[("x-api-key", "any")]).await.body, " asserted /tasks/");
}

#[tokio::test]
async fn a_lone_token_of_a_file_has_every_scope() {
    let rules = rules();
    let access = Access::open().with_token_file("operator", &rules.path("ada.token")).unwrap();
    assert!(access.authenticates());
    let handler = guarded(access);
    let answer = send(&handler, Method::POST, "/state/reset", &[("authorization", "Bearer key-123")]).await;
    assert_eq!(answer.body, "operator authenticated /state/reset");
}

#[test]
fn a_file_that_cannot_be_used_is_named_with_the_reason_and_never_with_a_secret() {
    let rules = Rules::new(&[("empty", b" \n"), ("good", b"s3cret")]);
    let entry = |rest: &str| format!(r#"{{"credentials": [{{"name": "a", "scopes": ["read"]{rest}}}]}}"#);
    let cases = [
        (entry(""), "it has one of secret_file, secret_env and sha256"),
        (entry(r#", "secret_file": "good", "sha256": "00""#), "it has one of"),
        (entry(r#", "secret_file": "none""#), "none: it cannot be read"),
        (entry(r#", "secret_file": "empty""#), "empty: there is none"),
        (
            entry(r#", "secret_env": "TASKREEL_TEST_NOT_SET""#),
            "the variable TASKREEL_TEST_NOT_SET: there is none",
        ),
        (entry(r#", "sha256": "s3cret""#), "sha256 has 64 hexadecimal digits"),
        (entry(r#", "secret": "s3cret""#), "unknown field `secret`"),
        (entry(r#", "secret_file": {"s3cret": 1}"#), "line 1 column"),
        (r#"{"credentials": "s3cret"}"#.to_owned(), "line 1 column"),
        (
            r#"{"credentials": [{"name": "a", "scopes": ["s3cret"], "secret_file": "good"}]}"#.to_owned(),
            "a scope is one of",
        ),
        (
            r#"{"credentials": [{"name": "", "scopes": [], "secret_file": "good"}]}"#.to_owned(),
            "a name has 1 to 200",
        ),
        (r#"{"allow_hosts": ["a b"]}"#.to_owned(), "`a b` is no host"),
        (r#"{"allow_origins": ["example.org"]}"#.to_owned(), "`example.org` is no origin"),
        (r#"{"limits": {"burst": 0}}"#.to_owned(), "a limit is 1 or more"),
        ("{".to_owned(), "line 1 column 1"),
    ];
    for (text, why) in cases {
        let error = rules.read(&text).unwrap_err().to_string();
        assert!(error.contains(why) && error.contains("auth.json"), "{text}: {error}");
        assert!(!error.contains("s3cret"), "{error}");
    }
}

#[test]
fn nothing_that_is_printed_of_the_rules_holds_a_secret() {
    let rules = rules();
    let access = rules.read(FILE).unwrap().with_token("x", Scopes::ALL, "t0ken").unwrap();
    let printed = format!("{access:?} {:?}", guarded(rules.read(FILE).unwrap()));
    for secret in ["key-123", "p:w", "t0ken", "2bb80d"] {
        assert!(!printed.contains(secret), "{printed}");
    }
}
