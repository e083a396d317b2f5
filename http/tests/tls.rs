//! A server by TLS, and a client that trusts its certificate alone.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]
#![cfg(feature = "tls")]

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
use taskreel_http::{Face, Request, Response, ResponseBody, Server, server_config};

struct SaysHello;

impl Face for SaysHello {
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
async fn a_face_answers_by_tls_and_whoever_does_not_trust_its_certificate_leaves() {
    let config = server_config(&file("one.pem"), &file("one.key.pem")).unwrap();
    let server = Server::new().workers(1).grace(Duration::from_millis(200)).tls(config);
    let serving = server.face("/", Arc::new(SaysHello)).start("127.0.0.1:0").await.unwrap();
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
