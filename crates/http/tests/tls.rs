//! A server by TLS, and a client that trusts its certificate alone.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]
#![cfg(feature = "tls")]

mod support;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, Stream};
use taskreel::BoxFuture;
use taskreel_http::{HttpHandler, Request, Response, ResponseBody, Server, server_config};

struct SaysHello;

impl HttpHandler for SaysHello {
    fn answer(&self, _: Request) -> BoxFuture<'static, Response> {
        Box::pin(async { Response::new(ResponseBody::Whole(Bytes::from("hello by TLS"))) })
    }
}

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls_files").join(name)
}

/// Asks the server with trust in this certificate.
fn ask(address: SocketAddr, trusted: &str) -> std::io::Result<String> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(file(trusted)).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let mut connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(Duration::from_secs(30)))?;
    let mut stream = Stream::new(&mut connection, &mut socket);
    stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        // A server may close the connection without a word.
        Err(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => return Err(error),
        _ => {}
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_answers_by_tls_and_whoever_does_not_trust_its_certificate_leaves() {
    let config = server_config(&file("one.pem"), &file("one.key.pem")).unwrap();
    let server = Server::new().workers(1).grace(Duration::from_millis(200)).tls(config);
    let serving = server.mount("/", Arc::new(SaysHello)).start("127.0.0.1:0").await.unwrap();
    let address = serving.address();
    let asked = move |trusted: &'static str| tokio::task::spawn_blocking(move || ask(address, trusted));
    let answer = asked("one.pem").await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("hello by TLS"), "{answer}");
    let error = asked("two.pem").await.unwrap().unwrap_err().to_string();
    assert!(error.contains("certificate"), "{error}");
    // Without TLS there is no answer.
    let plain = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    });
    let plain = plain.await.unwrap();
    assert!(!plain.contains("hello"), "{plain}");
    serving.stop().await.unwrap();
}

/// Names the agent's address to this program when it is started again as a client.
#[cfg(feature = "client")]
const AGENT: &str = "TASKREEL_TEST_AGENT";

#[cfg(feature = "client")]
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_at_wss_is_asked_by_a_client_that_trusts_its_certificate_and_by_no_other() {
    if let Ok(url) = std::env::var(AGENT) {
        // What is trusted is read from the environment once in a process: this is the process of a client.
        println!("{}", said_over_a_socket(&url).await);
        return;
    }
    let config = server_config(&file("one.pem"), &file("one.key.pem")).unwrap();
    let system = support::builder().start().await.unwrap();
    let handler = taskreel_http::Protolink::new(system.clone());
    let server = Server::new().workers(1).grace(Duration::from_millis(200)).tls(config);
    let serving = server.mount("/", Arc::new(handler)).start("127.0.0.1:0").await.unwrap();
    let url = format!("wss://localhost:{}", serving.address().port());
    let asked = |trusted: &'static str| {
        let url = url.clone();
        let test = "an_agent_at_wss_is_asked_by_a_client_that_trusts_its_certificate_and_by_no_other";
        tokio::task::spawn_blocking(move || {
            let mut client = std::process::Command::new(std::env::current_exe().unwrap());
            client.args(["--exact", test, "--nocapture"]).env(AGENT, url);
            let output =
                client.env("SSL_CERT_FILE", file(trusted)).env_remove("SSL_CERT_DIR").output().unwrap();
            String::from_utf8_lossy(&output.stdout).into_owned()
        })
    };
    let said = asked("one.pem").await.unwrap();
    assert!(said.contains("the agent answered \"by TLS\""), "{said}");
    let said = asked("two.pem").await.unwrap();
    assert!(said.contains("the client says") && said.contains("certificate"), "{said}");
    serving.stop().await.unwrap();
    system.shutdown().await.unwrap();
}

#[cfg(feature = "client")]
async fn said_over_a_socket(url: &str) -> String {
    use proto_events::json;
    use proto_events::model::{Message, PostedTask};
    use taskreel::{Part, Ports};

    let mint = &mut Ports::default();
    let part = Part::tool_call("echo", json!({"text": "by TLS"})).unwrap().hydrated(mint).unwrap();
    let posted = PostedTask::new(Message::new("user", vec![part], mint), mint);
    let client = taskreel_http::protolink::Client::new().unwrap().timeout(support::PATIENCE);
    match client.send_task(url, &posted).await {
        Ok(task) => format!("the agent answered {}", task.output().unwrap().as_str()),
        Err(error) => {
            let causes = std::iter::successors(std::error::Error::source(&error), |error| error.source());
            let causes: Vec<String> = causes.map(ToString::to_string).collect();
            format!("the client says {error}: {}", causes.join(": "))
        }
    }
}
