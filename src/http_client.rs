//! HTTP clients with TLS by rustls and `ring`, for models, MCP servers, OpenTelemetry and remote files. Each client is
//! given its TLS settings; the process's default cryptography provider is neither needed nor changed.

use std::sync::{Arc, OnceLock};

use reqwest::{Client, ClientBuilder};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ConfigBuilder, DigitallySignedStruct, RootCertStore, SignatureScheme, WantsVerifier,
};
use rustls_platform_verifier::BuilderVerifierExt;

/// Returns the builder of a client that verifies servers by the operating system's certificates.
pub fn client() -> ClientBuilder {
    Client::builder()
        .user_agent(concat!("taskreel/", env!("CARGO_PKG_VERSION")))
        .tls_backend_preconfigured(tls().clone())
}

/// Returns the builder of a client that verifies no server: any answer is believed. For development only.
pub fn client_without_verification() -> ClientBuilder {
    let settings = with_protocols().dangerous().with_custom_certificate_verifier(Arc::new(AnyCertificate));
    let mut settings = settings.with_no_client_auth();
    settings.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    client().tls_backend_preconfigured(settings)
}

/// Takes every certificate, whosever it is. What is signed with its key is checked, so that the handshake is one.
#[derive(Debug)]
struct AnyCertificate;

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = provider().signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, &known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = provider().signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, &known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}

/// Returns the builder of a client whose connections each become a WebSocket, which only HTTP/1.1 allows.
pub fn client_for_sockets() -> ClientBuilder {
    let mut settings = tls().clone();
    settings.alpn_protocols = vec![b"http/1.1".to_vec()];
    client().tls_backend_preconfigured(settings).http1_only()
}

/// Formats an error with its causes.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |text, cause| {
        let cause = cause.to_string();
        if text.ends_with(&cause) { text } else { format!("{text}: {cause}") }
    })
}

/// Returns the TLS settings of all clients. Reading the system's certificates takes milliseconds, so they are
/// read once.
fn tls() -> &'static ClientConfig {
    static TLS: OnceLock<ClientConfig> = OnceLock::new();
    TLS.get_or_init(|| {
        let verified = with_protocols().with_platform_verifier().unwrap_or_else(|error| {
            // Plain `http:` needs no certificate, so local models and collectors still work.
            tracing::warn!(%error, "no certificates of the system can be read, so no https server will be trusted");
            with_protocols().with_root_certificates(RootCertStore::empty())
        });
        let mut settings = verified.with_no_client_auth();
        settings.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        settings
    })
}

fn provider() -> &'static Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    PROVIDER.get_or_init(|| Arc::new(ring::default_provider()))
}

fn with_protocols() -> ConfigBuilder<ClientConfig, WantsVerifier> {
    ClientConfig::builder_with_provider(Arc::clone(provider()))
        .with_safe_default_protocol_versions()
        .expect("ring has cipher suites for TLS 1.2 and 1.3")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_made_without_a_default_provider_of_the_process() {
        assert!(client().build().is_ok());
        assert!(CryptoProvider::get_default().is_none(), "the host's choice is its own");
        assert_eq!(tls().alpn_protocols, [b"h2".to_vec(), b"http/1.1".to_vec()]);
    }
}
