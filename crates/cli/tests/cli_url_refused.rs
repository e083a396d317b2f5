//! `--url` where there is no server, one that refuses, or one that answers something else; and the token that is sent.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

mod binary;

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use binary::{Place, Ran};

/// A server that answers every connection with these bytes and closes it.
fn says(status: &str, body: &str) -> String {
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let Ok(mut connection) = connection else { return };
            let mut asked = [0; 4096];
            let _ = connection.read(&mut asked);
            let _ = connection.write_all(answer.as_bytes());
        }
    });
    format!("http://{address}")
}

#[test]
fn a_server_that_cannot_be_read_is_told_with_the_exit_code_of_its_kind() {
    let place = Place::new();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nonsense = says("200 OK", "{}");
    let refuses =
        says("401 Unauthorized", r#"{"error": {"code": "unauthorized", "message": "no such token"}}"#);
    let other = says("404 Not Found", "");
    let began = Instant::now();
    for command in ["ls", "verify", "export", "attention", "cancel some-task", "tail"] {
        for (url, code, words) in [
            (format!("http://{closed}"), 4, "cannot be reached"),
            (nonsense.clone(), 5, "cannot be read"),
            (refuses.clone(), 2, "no such token"),
            (other.clone(), 5, "404"),
            ("nonsense".to_owned(), 2, "not the address"),
        ] {
            place.run(&format!("{command} --url {url}")).ended(code).told(&[words]);
        }
    }
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    place.run("ls --url http://x --file y").ended(2).told(&["cannot be used with"]);
    place.run("ls --url http://x --data-dir y").ended(2).told(&["cannot be used with"]);
    place.run("ls --token-file y").ended(2).told(&["--url"]);
    place.run(&format!("ls --url {nonsense} --token-file none")).ended(2).told(&["none", "token"]);
}

#[test]
fn a_token_is_read_from_a_file_or_the_environment() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let mut asked = [0; 4096];
            let count = connection.read(&mut asked).unwrap();
            send.send(String::from_utf8_lossy(&asked[..count]).into_owned()).unwrap();
            connection.write_all(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n").unwrap();
        }
    });
    let place = Place::new();
    std::fs::write(place.path().join("token"), "of-a-file\n").unwrap();
    let asked = || receive.recv_timeout(Duration::from_secs(20)).unwrap().to_lowercase();
    place.run(&format!("ls --url {url} --token-file token")).ended(2).told(&["TASKREEL_TOKEN"]);
    assert!(asked().contains("authorization: bearer of-a-file\r\n"));
    let mut with_variable = place.command(["ls", "--url", &url]);
    let ran = Ran(with_variable.env("TASKREEL_TOKEN", "of-the-environment").output().unwrap()).ended(2);
    assert!(asked().contains("authorization: bearer of-the-environment\r\n"));
    assert!(!ran.err().contains("of-the-environment"), "{}", ran.err());
    place.run(&format!("ls --url {url}")).ended(2);
    assert!(!asked().contains("authorization"));
}
