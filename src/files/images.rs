//! The images that a tool attached to its task, on their way to a model that takes images.

use proto_events::model::{Artifact, Part};
use taskreel_log::artifacts::{A2aFileContent, KeptFile};
use taskreel_log::ports::Clock;
use taskreel_log::shown::ImageRef;
use taskreel_log::views::file_in;

use crate::files::base64::{decoded, encoded};
use crate::files::beside::FilesBeside;
use crate::files::digest::digest_of_bytes;

/// Names the images of an artifact in its metadata, before its files leave it for the store.
pub(crate) fn name_images(artifact: &mut Artifact, call_id: &str) {
    let id = artifact.id.clone().unwrap_or_default();
    let numbered = (0_u32..).zip(&artifact.parts);
    let images = numbered.filter_map(|(number, part)| {
        let file = file_in(part)?;
        let kind = file.mime_type.filter(|kind| kind.starts_with("image/"))?;
        let A2aFileContent::Bytes(text) = &file.content else { return None };
        let content = decoded(text).ok()?;
        ImageRef::new((call_id, &id, number), &kind, &content, digest_of_bytes(&content))
    });
    let images: Vec<ImageRef> = images.collect();
    ImageRef::name_in(&images, &mut artifact.metadata);
}

/// Returns the content of an image in base64: from its part, or from the store if it stands beside the log.
///
/// # Errors
/// A description of the fault, if the content is not there or is another one.
pub(crate) async fn read_image(
    files: &FilesBeside,
    clock: &dyn Clock,
    task_id: &str,
    (image, part): (&ImageRef, &Part),
) -> Result<String, String> {
    let content = match (KeptFile::from_part(part), file_in(part).map(|file| file.content)) {
        (Some(kept), _) => files.read(clock, task_id, &image.artifact_id, kept).await?,
        (None, Some(A2aFileContent::Bytes(text))) => decoded(&text).map_err(|error| error.to_string())?,
        (None, _) => return Err(format!("the part {} holds no file", image.part)),
    };
    if digest_of_bytes(&content) != image.sha256 {
        return Err(format!("it is not the content that was attached, whose SHA-256 is {}", image.sha256));
    }
    Ok(encoded(&content).map(char::from).collect())
}
