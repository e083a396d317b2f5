//! Files that are sent: addresses as they are, and files from the folders that the host allowed.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use taskreel::files::{FileError, RemoteUri, UriSchemes, read_within};

use crate::a2a::model::{Content, Part};
use crate::a2a::toolkit::error::SessionError;

/// The most bytes of a file that is sent.
const UPLOAD_MAX: u64 = 1_048_576;

/// The media types of files by their endings, in lower case.
const MEDIA_TYPES: [(&str, &str); 33] = [
    ("txt", "text/plain"),
    ("html", "text/html"),
    ("htm", "text/html"),
    ("css", "text/css"),
    ("js", "application/javascript"),
    ("json", "application/json"),
    ("xml", "application/xml"),
    ("csv", "text/csv"),
    ("md", "text/markdown"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("svg", "image/svg+xml"),
    ("webp", "image/webp"),
    ("ico", "image/x-icon"),
    ("mp3", "audio/mpeg"),
    ("wav", "audio/wav"),
    ("mp4", "video/mp4"),
    ("webm", "video/webm"),
    ("zip", "application/zip"),
    ("gz", "application/gzip"),
    ("tar", "application/x-tar"),
    ("doc", "application/msword"),
    ("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    ("xls", "application/vnd.ms-excel"),
    ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    ("ppt", "application/vnd.ms-powerpoint"),
    ("pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
    ("yaml", "application/x-yaml"),
    ("yml", "application/x-yaml"),
    ("wasm", "application/wasm"),
];

/// Returns the part that sends a file: an address by itself, a file of one of these folders by its content. It blocks.
///
/// # Errors
/// [`SessionError`] if the address or the file may not be sent, or the file cannot be read.
pub(crate) fn part(file: &str, folders: &[PathBuf]) -> Result<Part, SessionError> {
    if file.starts_with("http://") || file.starts_with("https://") {
        let schemes = UriSchemes::new(["https:"]).map_err(|error| SessionError::of_uri(&error))?;
        return match RemoteUri::parse(file, &schemes) {
            // The agent fetches it, from where it is: a host that is not public may be one for it.
            Ok(_) | Err(FileError::BlockedHost(_)) => Ok(Part::from_content(Content::Url(file.to_owned()))),
            Err(error) => Err(SessionError::of_uri(&error)),
        };
    }
    let (bytes, path) = read(file, folders)?;
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let media_type = Some(media_type(&path).to_owned());
    Ok(Part { filename: name, media_type, ..Part::from_content(Content::Raw(STANDARD.encode(bytes))) })
}

/// Reads a file from the first folder that has it. A path without a root is one below a folder.
fn read(file: &str, folders: &[PathBuf]) -> Result<(Vec<u8>, PathBuf), SessionError> {
    let mut failed = None;
    for folder in folders {
        let path = folder.join(file);
        match read_within(folder, &path, UPLOAD_MAX) {
            Ok(bytes) => return Ok((bytes, path)),
            Err(FileError::TooLarge { bytes, .. }) => {
                return Err(SessionError::UploadTooLarge { file: file.to_owned(), bytes });
            }
            // What is outside answers alike whether it is there or not.
            Err(FileError::Escapes { .. }) => {}
            Err(error) if is_below(folder, &path) => {
                let why = if let FileError::Io { source, .. } = &error {
                    source.to_string()
                } else {
                    error.to_string()
                };
                failed = Some(SessionError::UploadUnreadable { file: file.to_owned(), why });
            }
            Err(_) => {}
        }
    }
    Err(failed.unwrap_or_else(|| SessionError::UploadNotAllowed(file.to_owned())))
}

/// Whether a path stays below a folder by its text.
fn is_below(folder: &Path, path: &Path) -> bool {
    use std::path::Component;
    let up = path.components().any(|component| component == Component::ParentDir);
    !up && path.starts_with(folder)
}

fn media_type(path: &Path) -> &'static str {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
    let known = MEDIA_TYPES.iter().find(|(known, _)| ending.as_deref() == Some(*known));
    known.map_or("application/octet-stream", |(_, media_type)| media_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_from_an_allowed_folder_and_from_nowhere_else() {
        let root = tempfile::tempdir().unwrap();
        let (own, other) = (root.path().join("own"), root.path().join("other"));
        for folder in [&own, &other] {
            std::fs::create_dir(folder).unwrap();
            std::fs::write(folder.join("a.CSV"), "a,b").unwrap();
        }
        std::fs::write(own.join("large"), vec![0; 1_572_865]).unwrap();
        std::fs::create_dir(own.join("below")).unwrap();
        std::fs::write(own.join("below/x.unknown"), "x").unwrap();
        let folders = [own.clone()];
        let given = |file: &str| part(file, &folders);
        let sent = given("a.CSV").unwrap();
        assert_eq!(sent.content, Content::Raw("YSxi".to_owned()));
        assert_eq!((sent.filename.as_deref(), sent.media_type.as_deref()), (Some("a.CSV"), Some("text/csv")));
        assert!(given(own.join("a.CSV").to_str().unwrap()).is_ok());
        assert_eq!(given("below/x.unknown").unwrap().media_type.as_deref(), Some("application/octet-stream"));
        let large = given("large").unwrap_err().to_string();
        assert_eq!(large, "File 'large' is 1.5MB. Maximum size for file uploads is 1MB.");
        let outside = other.join("a.CSV");
        for file in [outside.to_str().unwrap(), "../other/a.CSV", "../other/none", "/etc/passwd", "/none", ""]
        {
            assert!(
                matches!(
                    given(file),
                    Err(SessionError::UploadNotAllowed(_) | SessionError::UploadUnreadable { .. })
                ),
                "{file}"
            );
        }
        assert!(matches!(given("../other/a.CSV"), Err(SessionError::UploadNotAllowed(_))));
        assert!(matches!(given("missing"), Err(SessionError::UploadUnreadable { .. })));
        assert!(part("a.CSV", &[]).is_err());
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(&outside, own.join("link")).unwrap();
            std::os::unix::fs::symlink(&other, own.join("folder")).unwrap();
            std::os::unix::fs::symlink("a.CSV", own.join("inside")).unwrap();
            std::os::unix::fs::symlink("/none", own.join("nowhere")).unwrap();
            for link in ["link", "folder/a.CSV", "nowhere"] {
                assert!(matches!(given(link), Err(SessionError::UploadNotAllowed(_))), "{link}");
            }
            assert!(given("inside").is_ok());
        }
    }

    #[test]
    fn an_address_over_tls_is_sent_by_itself() {
        let refused = |file: &str| part(file, &[]).unwrap_err().to_string();
        assert_eq!(
            part("https://e.com/f.pdf", &[]).unwrap(),
            Part::from_content(Content::Url("https://e.com/f.pdf".to_owned()))
        );
        assert_eq!(refused("http://e.com/x"), "Disallowed remote file URI scheme: 'http:'");
        assert_eq!(refused("https://u:p@e.com/x"), "Remote file URIs must not include credentials");
        assert!(refused("https://").starts_with("Invalid remote file URI:"));
    }
}
