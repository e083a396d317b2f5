//! The port by TLS.
#![cfg(feature = "tls")]

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use a2a_pb::proto::a2a_service_client::A2aServiceClient;
use hyper_util::rt::TokioIo;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use taskreel::BoxFuture;
use taskreel_http::{A2a, Server, server_config};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::transport::{Endpoint, Uri};

use crate::agent::{Gate, agent};
use crate::peer::{message, said, sending, sent};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls_files").join(name)
}

/// A connection by TLS to one address, whatever is named.
#[derive(Clone)]
struct Connector(TlsConnector, SocketAddr);

impl tower_service::Service<Uri> for Connector {
    type Response = TokioIo<TlsStream<TcpStream>>;
    type Error = std::io::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let Self(connector, address) = self.clone();
        Box::pin(async move {
            let stream = TcpStream::connect(address).await?;
            let name = ServerName::try_from("localhost").unwrap();
            Ok(TokioIo::new(connector.connect(name, stream).await?))
        })
    }
}

/// Returns the settings of a client that trusts this certificate.
fn trusting(certificate: &str, protocols: &[&[u8]]) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(file(certificate)).unwrap()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    TlsConnector::from(Arc::new(config))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_with_tls_speaks_http2_there_and_answers_nothing_in_the_clear() {
    let system = agent(&Gate::shut()).await;
    let config = server_config(&file("one.pem"), &file("one.key.pem")).unwrap();
    let server = Server::new().grace(Duration::from_millis(200)).workers(1).tls(config);
    let handler = Arc::new(A2a::new(system.clone()).grpc());
    let serving = server.mount("/", handler).start_grpc("127.0.0.1:0").await.unwrap();
    let address = serving.address();
    let connector = |certificate, protocols| Connector(trusting(certificate, protocols), address);
    let endpoint = || Endpoint::from_static("http://localhost");

    let channel = endpoint().connect_with_connector(connector("one.pem", &[b"h2"])).await.unwrap();
    let client = A2aServiceClient::new(channel);
    assert_eq!(said(&sent(&client, sending(message("hello"))).await), "heard hello");
    let distrusted = endpoint().connect_with_connector(connector("two.pem", &[b"h2"])).await;
    assert!(distrusted.is_err(), "the certificate is another one");
    let other = endpoint().connect_with_connector(connector("one.pem", &[b"http/1.1"])).await;
    assert!(other.is_err(), "the port speaks HTTP/2 only");
    let is_refused = match Endpoint::new(format!("http://{address}")).unwrap().connect().await {
        Err(_) => true,
        Ok(channel) => A2aServiceClient::new(channel).send_message(sending(message("hello"))).await.is_err(),
    };
    assert!(is_refused, "in the clear");
    drop(client);
    serving.stop().await.unwrap();
    system.shutdown().await.unwrap();
}
