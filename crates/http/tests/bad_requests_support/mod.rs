//! The generator of bad requests: to any route, with any path, query, head and body; and heads that state the end of their body
//! in two ways.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests only")]

mod random;

use crate::support::tool_task;
pub(crate) use random::Random;

/// The routes; `{}` is an open piece.
const ROUTES: &[&str] = &[
    "POST /tasks/",
    "POST /tasks/stream",
    "POST /tasks/cancel",
    "POST /llm/history/compact",
    "POST /state/describe",
    "POST /state/reset",
    "POST /state/compact",
    "GET /.well-known/agent.json",
    "GET /status",
    "GET /chat",
    "POST /chat",
    "POST /agents/",
    "DELETE /agents/",
    "POST /agents/heartbeat",
    "GET /agents/",
    "GET /agents/status",
    "POST /agents/{}/tasks/",
    "POST /agents/{}/state/describe",
    "GET /agents/{}/.well-known/agent.json",
    "GET /healthz",
    "GET /readyz",
    "GET /metrics",
    "GET /api/openapi.json",
    "GET /api/v1/log",
    "GET /api/v1/streams",
    "GET /api/v1/agents",
    "GET /api/v1/tasks",
    "POST /api/v1/tasks",
    "GET /api/v1/tasks/{}",
    "GET /api/v1/tasks/{}/events",
    "GET /api/v1/tasks/{}/state",
    "POST /api/v1/tasks/{}/cancel",
    "POST /api/v1/tasks/{}/approve",
    "POST /api/v1/tasks/{}/deny",
    "POST /api/v1/tasks/{}/reconcile",
    "POST /api/v1/tasks/{}/abandon",
    "POST /api/v1/tasks/{}/answer",
    "POST /api/v1/tasks/{}/budget",
    "GET /api/v1/sessions/{}",
    "GET /api/v1/calls",
    "GET /api/v1/stats",
    "GET /api/v1/verify",
    "GET /api/v1/records",
    "PUT /tasks/",
    "GET /{}",
    "POST /{}/{}",
    "OPTIONS /api/v1/tasks",
    "TRACE /",
];

/// Pieces of paths and queries, as they stand in a request line.
const PIECES: &[&str] = &[
    "..",
    "%2e%2e",
    "..%2f..%2fetc%2fpasswd",
    "%00",
    "a%00b",
    "%0a",
    "a%0d%0ax:%20y",
    "%",
    "%f",
    "%ff%fe",
    "%c0%ae",
    "known",
    "agent",
    "nobody",
    "*",
    "~",
    "%20",
    "a%2fb",
    "task-agent%2Fknown",
    "session-%",
    "-",
    "0",
    "-1",
    "18446744073709551616",
    "1e9",
    "true",
    "null",
    "%E2%80%AE",
    "[]",
    "a;b=c",
    "'%22%3C%3E",
];

/// Names of parameters of some route.
const PARAMS: &[&str] = &[
    "limit", "after", "agent", "state", "since", "until", "kind", "tool", "text", "session", "not", "newest",
    "from", "stream", "records", "bytes", "survey", "at", "prefix", "open", "name", "role", "tags",
    "api_key", "wait", "x",
];

/// Texts that are no good ids.
const TEXTS: &[&str] = &[
    "",
    "..",
    "../../etc/passwd",
    "a\\u0000b",
    "a\\nb",
    "\\ud800",
    "\\u202e",
    "known",
    "agent",
    "t",
    "echo",
    "infer",
    "tool_call",
    "text",
    "user",
    "submitted",
    "completed",
    "done",
    "2024-02-02T00:00:00+00:00",
    "9999-99-99",
    "http://",
    "http://127.0.0.1:1/",
    "recent",
    "summary",
    "conversation",
];

/// Names of fields of some body.
const FIELDS: &[&str] = &[
    "id",
    "state",
    "messages",
    "artifacts",
    "metadata",
    "flow_state",
    "created_at",
    "parts",
    "role",
    "type",
    "content",
    "tool_name",
    "args",
    "call_id",
    "prompt",
    "session_id",
    "stores",
    "include_data",
    "strategy",
    "max_messages",
    "max_tokens",
    "preserve_recent",
    "summary_max_tokens",
    "message",
    "name",
    "url",
    "description",
    "capabilities",
    "skills",
    "agent_url",
    "reason",
    "approval",
    "call",
    "landed",
    "question",
    "answer",
    "budget",
    "max_steps",
    "run_context",
    "permissions",
    "timestamp",
    "task_id",
    "__proto__",
    "",
];

const NUMBERS: &[&str] = &[
    "0",
    "-0.0",
    "1",
    "7",
    "-1",
    "1e400",
    "1.5",
    "18446744073709551616",
    "1180591620717411303424",
    "00",
    "1e-400",
];

/// Returns JSON, mostly, of any form.
fn json_of(random: &mut Random, depth: u64) -> String {
    match random.below(if depth == 0 { 5 } else { 9 }) {
        0 => "null".to_owned(),
        1 => random.of(&["true", "false"]).to_owned(),
        2 => random.of(NUMBERS).to_owned(),
        3 | 4 => format!("\"{}\"", random.of(TEXTS)),
        5 => {
            let items: Vec<String> = (0..random.below(4)).map(|_| json_of(random, depth - 1)).collect();
            format!("[{}]", items.join(","))
        }
        _ => {
            let field =
                |random: &mut Random| format!("\"{}\": {}", random.of(FIELDS), json_of(random, depth - 1));
            let fields: Vec<String> = (0..=random.below(5)).map(|_| field(random)).collect();
            format!("{{{}}}", fields.join(","))
        }
    }
}

/// Returns a good body with one thing changed, or a body of any form.
fn body_of(random: &mut Random, good: &[&str]) -> Vec<u8> {
    let good = random.of(good);
    match random.below(10) {
        0 => Vec::new(),
        1 => good.as_bytes()[..usize::try_from(random.below(good.len() as u64)).unwrap()].to_vec(),
        2 => {
            let mut bytes = good.as_bytes().to_vec();
            let at = usize::try_from(random.below(bytes.len() as u64)).unwrap();
            bytes[at] = random.of(&[0, b'"', b'{', b'\n', 0x7f, 0xc3, 0xff]);
            bytes
        }
        3 => (0..random.below(64)).map(|_| u8::try_from(random.below(256)).unwrap()).collect(),
        4 => {
            let (open, close) = random.of(&[("[", "]"), ("{\"metadata\":", "}")]);
            let deep = random.of(&[100, 127, 128, 129, 10_000, 200_000]);
            format!("{}1{}", open.repeat(deep), close.repeat(deep)).into_bytes()
        }
        5 => {
            let text = random.of(FIELDS);
            let long = "x".repeat(random.of(&[
                200,
                201,
                201,
                10_000,
                100_000,
                100_000,
                1_000_000,
                10 * 1024 * 1024,
            ]));
            format!("{{\"{text}\": \"{long}\", \"id\": \"{long}\"}}").into_bytes()
        }
        _ => {
            // Two members of one name among them.
            let field = random.of(FIELDS);
            let value = json_of(random, 3);
            good.replacen('{', &format!("{{\"{field}\": {value}, "), 1).into_bytes()
        }
    }
}

/// Returns a request, and what to print of it.
pub(crate) fn request_of(random: &mut Random) -> (Vec<u8>, String) {
    let task = tool_task("known", "echo", r#"{"text": "x"}"#);
    let good = [
        task.as_str(),
        r#"{"id": "known", "messages": [{"role": "user", "parts": [{"type": "infer", "content": {"prompt": "x"}}]}]}"#,
        r#"{"session_id": "known", "stores": ["conversation"], "include_data": true, "strategy": "recent"}"#,
        r#"{"name": "ada", "description": "x", "url": "http://127.0.0.1:1"}"#,
        r#"{"call": "known", "reason": "x", "landed": 1}"#,
    ];
    request_to(random, ROUTES, &good, "")
}

/// Returns a request to one of these routes, with a body like one of these and lines of the head that may be missing, and what to
/// print of it.
pub(crate) fn request_to(
    random: &mut Random,
    routes: &[&str],
    good: &[&str],
    lines: &str,
) -> (Vec<u8>, String) {
    let (method, mut path) = {
        let route = random.of(routes);
        let (method, path) = route.split_once(' ').unwrap();
        (method, path.to_owned())
    };
    while path.contains("{}") {
        path = path.replacen("{}", random.of(PIECES), 1);
    }
    if path == "/api/v1/tasks" && method == "POST" {
        path.push_str("?wait=20&");
    } else {
        path.push('?');
    }
    for _ in 0..random.below(3) {
        path += &[random.of(PARAMS), "=", random.of(PIECES), "&"].concat();
    }
    let types = [
        "application/json",
        "application/json",
        "application/json",
        "application/json; charset=utf-8",
        "text/plain",
        "",
        "\u{ff}",
    ];
    let mut head =
        format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {}\r\n", random.of(&types));
    if random.below(6) > 0 {
        head += lines;
    }
    if random.below(8) == 0 {
        let header = random.of(&[
            "last-event-id: x",
            "last-event-id: 99999999999999999999",
            "accept: text/event-stream",
            "content-encoding: br",
            "idempotency-key: \u{ff}",
            "idempotency-key: a",
            "x-protolink-request-id: \u{7f}",
            "expect: 100-continue",
            "upgrade: websocket",
            "origin: null",
            "cookie: a=b",
            "authorization: Basic !!!",
            "range: bytes=0-0",
        ]);
        head += &[header, "\r\n"].concat();
    }
    let body = if method == "GET" && random.below(8) > 0 { Vec::new() } else { body_of(random, good) };
    head += &["content-length: ", &body.len().to_string(), "\r\nconnection: close\r\n\r\n"].concat();
    let shown: String = String::from_utf8_lossy(&body).chars().take(300).collect();
    let shown = format!("{head:?} {shown}");
    (head.into_bytes().into_iter().chain(body).collect(), shown)
}

/// Returns a request whose end can be read in two ways, with a whole request hidden in its body.
pub(crate) fn smuggling(random: &mut Random, hidden: &str) -> String {
    let name = random.of(&[
        "transfer-encoding",
        "Transfer-Encoding",
        "transfer-encoding ",
        " transfer-encoding",
        "transfer_encoding",
        "transfer-encoding\t",
        "\u{b}transfer-encoding",
        "x: y\r\n transfer-encoding",
        "x: y\ntransfer-encoding",
        "x: y\rtransfer-encoding",
    ]);
    let value = random.of(&[
        "chunked",
        "\tchunked",
        "chunked ",
        "Chunked",
        "chunked, identity",
        "identity, chunked",
        "chunked;q=1",
        "\"chunked\"",
        "chunked\u{b}",
        "\u{b}chunked",
        "gzip, chunked",
        "chunked, chunked",
        "chunked\r\ntransfer-encoding: x",
        "identity",
        "chunk",
        "chunked,",
    ]);
    // The end by chunks is before the hidden request, the end by length is behind it.
    let body = format!("0\r\n\r\n{hidden}");
    let length = body.len();
    let length = random.of(&[
        format!("content-length: {length}"),
        format!("Content-Length:{length}"),
        format!("content-length: {length}\r\ncontent-length: {length}"),
        format!("content-length: {length}\r\ncontent-length: 5"),
        format!("content-length: {length}, 5"),
        format!("content-length: 0x{length:x}"),
        format!("content-length: 0{length}"),
        format!("content-length: {length}\u{b}"),
        format!("content-length: {length}.0"),
    ]);
    let lines = if random.below(2) == 0 {
        format!("{name}: {value}\r\n{length}")
    } else {
        format!("{length}\r\n{name}: {value}")
    };
    let version = random.of(&["1.1", "1.1", "1.1", "1.0"]);
    format!("POST /tasks/ HTTP/{version}\r\nhost: a\r\n{lines}\r\n\r\n{body}")
}
