//! TLS of a server: its certificate and key from files, which are read anew when they change.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime};

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// The time between two looks at the files.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// Files that cannot be used for TLS.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read, or holds no certificate or key.
    #[error("{}: {why}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// The reason; it never holds a part of the key.
        why: String,
    },
    /// The key is not the certificate's, or of a kind that is not known.
    #[error("the certificate and the key do not go together: {0}")]
    Pair(String),
}

/// Returns the settings of a server with this certificate chain and key, both PEM. The files are looked at again every ten
/// seconds while clients connect: a renewed certificate is taken without a restart. While the new files cannot be used, the
/// old certificate stays.
///
/// # Errors
/// [`TlsError`] if a file cannot be used now.
pub fn server_config(certificate: &Path, key: &Path) -> Result<ServerConfig, TlsError> {
    let resolver = Arc::new(FromFiles::open(certificate, key)?);
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError::Pair(error.to_string()))?
        .with_no_client_auth()
        .with_cert_resolver(resolver);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// The certificate of two files.
#[derive(Debug)]
struct FromFiles {
    files: [PathBuf; 2],
    now: RwLock<Arc<CertifiedKey>>,
    seen: Mutex<(Instant, [Option<SystemTime>; 2])>,
}

impl FromFiles {
    fn open(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        // Whole: they are read again later, when the program may have another working directory.
        let files =
            [certificate, key].map(|file| std::path::absolute(file).unwrap_or_else(|_| file.to_owned()));
        let changed = times(&files);
        let now = read(&files)?;
        Ok(Self { files, now: RwLock::new(Arc::new(now)), seen: Mutex::new((Instant::now(), changed)) })
    }

    /// Reads the files anew if they have changed and it is time to look.
    fn reload_if_due(&self, now: Instant) {
        // A connection that comes while another one looks is served with what there is.
        let Ok(mut seen) = self.seen.try_lock() else { return };
        if now.saturating_duration_since(seen.0) < LOOK_EVERY {
            return;
        }
        let changed = times(&self.files);
        seen.0 = now;
        if changed == seen.1 {
            return;
        }
        match read(&self.files) {
            Ok(read) => {
                *self.now.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(read);
                seen.1 = changed;
                tracing::info!(certificate = %self.files[0].display(), "a changed certificate was taken");
            }
            // Both files are not replaced at once: the next look may find them whole.
            Err(error) => tracing::warn!(%error, "a changed certificate cannot be used; the old one stays"),
        }
    }
}

impl ResolvesServerCert for FromFiles {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.reload_if_due(Instant::now());
        Some(Arc::clone(&self.now.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

fn times(files: &[PathBuf; 2]) -> [Option<SystemTime>; 2] {
    files.each_ref().map(|file| std::fs::metadata(file).and_then(|about| about.modified()).ok())
}

fn read([certificate, key]: &[PathBuf; 2]) -> Result<CertifiedKey, TlsError> {
    let of = |file: &Path, why: String| TlsError::File { file: file.to_owned(), why };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect)
        .map_err(|error| of(certificate, error.to_string()))?;
    if chain.is_empty() {
        return Err(of(certificate, "it holds no certificate in PEM".to_owned()));
    }
    // The error of a key may show a part of it.
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| match error {
        rustls::pki_types::pem::Error::Io(error) => of(key, error.to_string()),
        _ => of(key, "it holds no private key in PEM".to_owned()),
    })?;
    let signing =
        ring::sign::any_supported_type(&secret).map_err(|error| TlsError::Pair(error.to_string()))?;
    let pair = CertifiedKey::new(chain, signing);
    pair.keys_match().map_err(|error| TlsError::Pair(error.to_string()))?;
    Ok(pair)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls_files").join(name)
    }

    fn end_of(resolver: &FromFiles) -> Vec<u8> {
        resolver.now.read().unwrap().cert[0].to_vec()
    }

    #[test]
    fn a_renewed_certificate_is_taken_and_one_that_cannot_be_used_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let [certificate, key] = ["chain.pem", "key.pem"].map(|name| dir.path().join(name));
        let put = |pair: &str| {
            std::fs::copy(file(&format!("{pair}.pem")), &certificate).unwrap();
            std::fs::copy(file(&format!("{pair}.key.pem")), &key).unwrap();
        };
        put("one");
        let resolver = FromFiles::open(&certificate, &key).unwrap();
        let (first, began) = (end_of(&resolver), Instant::now());
        put("two");
        resolver.reload_if_due(began);
        assert_eq!(end_of(&resolver), first, "it is not looked at before its time");
        // The certificate of one, the key of the other, in the middle of a renewal.
        std::fs::copy(file("one.key.pem"), &key).unwrap();
        resolver.reload_if_due(began + 2 * LOOK_EVERY);
        assert_eq!(end_of(&resolver), first, "the old one stays");
        std::fs::copy(file("two.key.pem"), &key).unwrap();
        resolver.reload_if_due(began + 4 * LOOK_EVERY);
        assert_ne!(end_of(&resolver), first);
        std::fs::remove_file(&certificate).unwrap();
        resolver.reload_if_due(began + 6 * LOOK_EVERY);
        assert_ne!(end_of(&resolver), first, "the new one stays");
    }

    #[test]
    fn files_that_are_no_pair_are_refused_without_a_part_of_the_key() {
        let told = |certificate: &str, key: &str| {
            server_config(&file(certificate), &file(key)).unwrap_err().to_string()
        };
        assert!(told("none.pem", "one.key.pem").contains("none.pem: "));
        assert!(told("one.key.pem", "one.key.pem").contains("holds no certificate"));
        assert!(told("one.pem", "one.pem").contains("it holds no private key in PEM"));
        assert!(told("one.pem", "two.key.pem").contains("do not go together"));
        assert!(server_config(&file("one.pem"), &file("one.key.pem")).is_ok());
    }
}
