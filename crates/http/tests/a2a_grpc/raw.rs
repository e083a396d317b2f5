//! Bytes that are no call: each has an answer, and the next call on the same connection is answered.

use std::sync::Arc;

use a2a_pb::proto::GetTaskRequest;
use prost::Message as _;
use reqwest::{Client, Response, StatusCode};
use taskreel_http::A2a;

use crate::agent::{Gate, agent};
use crate::peer::{peer_of, with_cryptography};

/// The start of a body: a message that is not compressed, of this length.
fn framed(length: usize, message: &[u8]) -> Vec<u8> {
    let mut framed = vec![0];
    framed.extend(u32::try_from(length).unwrap().to_be_bytes());
    framed.extend(message);
    framed
}

/// Returns a field of a message: its tag, its length, its bytes.
fn field(tag: u8, bytes: &[u8]) -> Vec<u8> {
    let mut field = vec![tag];
    prost::encoding::encode_varint(bytes.len() as u64, &mut field);
    field.extend(bytes);
    field
}

/// Returns the body of a message whose data is 200 lists in each other.
fn nested() -> Vec<u8> {
    // A value's list is its field 6, a list's values are its field 1.
    let data = (0..200).fold(Vec::new(), |deep, _| field(0x32, &field(0x0a, &deep)));
    // The data of a part, the part of a message, the message of a request.
    let request = [0x22, 0x2a, 0x12].iter().fold(data, |inner, tag| field(*tag, &inner));
    framed(request.len(), &request)
}

fn status(response: &Response) -> (StatusCode, String) {
    let code = response.headers().get("grpc-status").map(|code| code.to_str().unwrap().to_owned());
    (response.status(), code.unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_no_call_have_an_answer_and_the_connection_goes_on() {
    let system = agent(&Gate::shut()).await;
    let peer = peer_of(Arc::new(A2a::new(system.clone()).grpc())).await;
    with_cryptography();
    let client = Client::builder().http2_prior_knowledge().no_proxy().build().unwrap();
    let service = format!("http://{}/lf.a2a.v1.A2AService", peer.address());
    let post = |path: &str, kind: &str, body: Vec<u8>| {
        client
            .post(format!("{service}/{path}"))
            .header("content-type", kind)
            .header("te", "trailers")
            .body(body)
    };
    let get = GetTaskRequest { id: "none".to_owned(), ..GetTaskRequest::default() }.encode_to_vec();
    let good = || framed(get.len(), &get);
    let grpc = "application/grpc";

    let bodies: Vec<(&str, Vec<u8>, &[&str])> = vec![
        ("nothing", Vec::new(), &["3", "13"]),
        ("half a prefix", vec![0, 0, 0], &["3", "13"]),
        ("a length without a message", framed(100, b""), &["3", "13"]),
        ("a length beyond the bound", framed(usize::try_from(u32::MAX).unwrap(), b"x"), &["8", "11", "13"]),
        ("a message that is compressed", [vec![1], good()[1..].to_vec()].concat(), &["12", "13"]),
        ("bytes that are no message", framed(4, &[0xff; 4]), &["3", "13"]),
        ("a text that is no UTF-8", framed(4, &[0x12, 2, 0xff, 0xfe]), &["3", "13"]),
        ("a field of another kind", framed(2, &[0x10, 5]), &["3", "13"]),
    ];
    for (what, body, codes) in bodies {
        let answer = post("GetTask", grpc, body).send().await.unwrap();
        let (http, code) = status(&answer);
        assert!(http == StatusCode::OK && codes.contains(&code.as_str()), "{what}: {code} {answer:?}");
    }
    let answer = post("SendMessage", grpc, nested()).send().await.unwrap();
    assert!(["3", "13"].contains(&status(&answer).1.as_str()), "200 lists in each other: {answer:?}");

    for (path, kind, expected) in [
        ("GetTask", "application/json", (StatusCode::UNSUPPORTED_MEDIA_TYPE, "")),
        ("GetTask", "application/grpcx", (StatusCode::UNSUPPORTED_MEDIA_TYPE, "")),
        ("GetTask", "application/grpc+proto", (StatusCode::OK, "5")),
        ("NoSuchCall", grpc, (StatusCode::OK, "12")),
    ] {
        let answer = post(path, kind, good()).send().await.unwrap();
        assert_eq!(status(&answer), (expected.0, expected.1.to_owned()), "{path} {kind}");
    }
    let other = format!("http://{}/a2a.v1.A2AService/GetTask", peer.address());
    let other = client.post(other).header("content-type", grpc).body(good()).send().await.unwrap();
    assert_eq!(status(&other), (StatusCode::OK, "12".to_owned()), "the service of 0.3");
    let read = client.get(format!("{service}/GetTask")).header("content-type", grpc).send().await.unwrap();
    assert_ne!(status(&read).1, "0");
    // Metadata that is no time, no text, and too long.
    let long = vec![b'x'; 20_000];
    for (name, value, code) in [
        ("grpc-timeout", &b"soon"[..], "5"),
        ("grpc-timeout", b"99999999H", "5"),
        ("a2a-version", b"\xff", "9"),
        ("last-event-id", b"\xff", "5"),
        ("x-long", &long, "5"),
    ] {
        let value = reqwest::header::HeaderValue::from_bytes(value).unwrap();
        let answer = post("GetTask", grpc, good()).header(name, value).send().await.unwrap();
        assert_eq!(status(&answer), (StatusCode::OK, code.to_owned()), "{name}");
    }
    let too_long = post("GetTask", grpc, good()).header("x-long", "x".repeat(40_000)).send().await;
    assert!(too_long.is_err() || too_long.unwrap().status() == StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    let answer = post("GetTask", grpc, good()).send().await.unwrap();
    assert_eq!(status(&answer), (StatusCode::OK, "5".to_owned()));
    peer.stop().await;
    system.shutdown().await.unwrap();
}
