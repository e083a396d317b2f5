//! The secret values of a system's tasks: in memory, and in files beside the log where the log is in a directory.
//! A value is kept before the event that names it is appended.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::{fmt, io};

use proto_events::call::{CallKind, CallRequested};
use proto_events::id::StreamId;
use proto_events::json::{JsonObject, JsonText};
use proto_events::secret::{KeptSecret, SecretRef, references};
use taskreel_log::secrets::{KeptValue, SecretFiles};

use crate::run::new_webhook::OF_WEBHOOK;
use crate::run::secrets::ReplacedSecret;
use crate::tools::panics::caught_in;
use crate::tools::secret::{Mask, SecretProvider, SecretRequest};

/// The values in memory, by stream.
#[derive(Default)]
struct Values {
    of_streams: HashMap<StreamId, HashMap<KeptSecret, (u64, KeptValue)>>,
    /// The number of values that were kept.
    count: u64,
}

/// A value that was kept, and how many had been kept before it. A value that is kept again has another number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeptOnce {
    pub(crate) reference: KeptSecret,
    number: u64,
}

/// The secret values of a system.
pub(crate) struct TaskSecrets {
    kept: Arc<Mutex<Values>>,
    /// Held while files change: for reading by what keeps values, for writing by what removes some.
    changing: Arc<RwLock<()>>,
    files: Option<SecretFiles>,
    provider: Option<Arc<dyn SecretProvider>>,
    /// Held for reading by each removal that goes on.
    removing: Arc<tokio::sync::RwLock<()>>,
}

impl fmt::Debug for TaskSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskSecrets").field("files", &self.files).finish_non_exhaustive()
    }
}

/// The values of one call, found before it is sent.
pub(crate) struct CallSecrets {
    /// The references whose values are kept, with the value if it is still there.
    kept: Vec<(String, KeptSecret, Option<JsonText>)>,
    /// The arguments whose values the host looks up.
    named: Vec<(String, String)>,
    /// The values of the task, for a handler: it sees all of the task.
    pub(crate) of_task: Mask,
    provider: Option<Arc<dyn SecretProvider>>,
}

impl TaskSecrets {
    /// Opens the values beside the log in this directory; without one, values live in memory only.
    pub(crate) fn open(dir: Option<&Path>, provider: Option<Arc<dyn SecretProvider>>) -> io::Result<Self> {
        let files = dir.map(SecretFiles::of_log);
        let mut kept = Values::default();
        if let Some(files) = &files {
            files.remove_unfinished()?;
            let found = files.all()?;
            for path in found.unreadable {
                tracing::warn!(path = %path.display(), "a file of a secret value cannot be read");
            }
            found.kept.into_iter().for_each(|value| kept.add(value));
        }
        let kept = Arc::new(Mutex::new(kept));
        Ok(Self { kept, changing: Arc::default(), files, provider, removing: Arc::default() })
    }

    /// Returns the streams that have values.
    pub(crate) fn streams(&self) -> Vec<StreamId> {
        let mut all: Vec<_> = self.lock().of_streams.keys().cloned().collect();
        all.sort();
        all
    }

    /// Returns the values that are kept for this stream.
    pub(crate) fn of_stream(&self, stream: &StreamId) -> Vec<KeptOnce> {
        let kept = self.lock();
        let own = kept.of_streams.get(stream).into_iter().flatten();
        own.map(|(reference, (number, _))| KeptOnce { reference: *reference, number: *number }).collect()
    }

    /// Returns a value that is kept for a webhook of this stream.
    pub(crate) fn of_webhook(&self, stream: &StreamId, reference: &KeptSecret) -> Option<JsonText> {
        let all = self.lock();
        let (_, kept) = all.of_streams.get(stream)?.get(reference)?;
        Some(kept.value.clone()).filter(|_| kept.tool == OF_WEBHOOK)
    }

    /// Returns the mask of the values that are kept for the calls of this stream. The values of webhooks no code of the task is
    /// given, and a short one may be any word.
    pub(crate) fn mask_of(&self, stream: &StreamId) -> Mask {
        let mut mask = Mask::default();
        let all = self.lock();
        let own = all.of_streams.get(stream).into_iter().flat_map(HashMap::values);
        for (_, kept) in own.filter(|(_, kept)| kept.tool != OF_WEBHOOK) {
            mask.add(&kept.value, &kept.reference.to_string());
        }
        mask
    }

    /// Keeps values, durably where the log is in a directory.
    pub(crate) async fn store_values(
        self: &Arc<Self>,
        stream: &StreamId,
        replaced: Vec<ReplacedSecret>,
    ) -> io::Result<()> {
        let of = |ReplacedSecret { tool, argument, reference, value }: ReplacedSecret| KeptValue {
            stream: stream.clone(),
            tool,
            argument,
            reference,
            value,
        };
        let values: Vec<_> = replaced.into_iter().map(of).collect();
        let (files, memory, changing) =
            (self.files.clone(), Arc::clone(&self.kept), Arc::clone(&self.changing));
        on_disk(files, move |files| {
            let _changing = changing.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(files) = files {
                values.iter().try_for_each(|kept| files.store(kept))?;
            }
            let mut memory = lock(&memory);
            for kept in values {
                memory.add(kept);
            }
            Ok(())
        })
        .await
    }

    /// Removes values of a stream that no call needs any more: from memory at once, from the disk by the work that is
    /// returned. A value that was kept again meanwhile stays. While a stop waits for the others, nothing is begun: the
    /// next start removes these.
    pub(crate) fn forget(&self, stream: StreamId, kept: &[KeptOnce]) -> impl Future<Output = ()> + use<> {
        let mut memory = self.lock();
        let references: Vec<_> = kept.iter().filter(|kept| memory.remove(&stream, **kept)).collect();
        let references: Vec<KeptSecret> = references.into_iter().map(|kept| kept.reference).collect();
        drop(memory);
        let (files, memory, changing) =
            (self.files.clone(), Arc::clone(&self.kept), Arc::clone(&self.changing));
        let removing = Arc::clone(&self.removing).try_read_owned();
        async move {
            let Ok(_removing) = removing else { return };
            let done = on_disk(files, move |files| {
                let Some(files) = files else { return Ok(()) };
                let _changing = changing.write().unwrap_or_else(PoisonError::into_inner);
                let is_gone = |reference: &&KeptSecret| !lock(&memory).has(&stream, reference);
                references.iter().filter(is_gone).try_for_each(|reference| files.remove(reference))
            });
            if let Err(error) = done.await {
                tracing::error!(%error, "the file of a secret value cannot be removed");
            }
        }
    }

    /// Waits until the removals that have begun are done.
    pub(crate) async fn settle(&self) {
        drop(self.removing.write().await);
    }

    /// Returns what is known of the secret arguments of a call, before it is sent.
    pub(crate) fn of_call(&self, stream: &StreamId, request: &CallRequested) -> CallSecrets {
        let (mut kept, mut named) = (Vec::new(), Vec::new());
        let all = self.lock();
        let own = all.of_streams.get(stream);
        for (argument, reference) in references(&request.args, &request.secrets) {
            match reference {
                SecretRef::Named(name) => named.push((argument, name)),
                SecretRef::Kept(secret) => {
                    let fits =
                        |value: &&KeptValue| value.tool == request.target && value.argument == argument;
                    let found = own.and_then(|own| own.get(&secret)).map(|(_, kept)| kept);
                    let value = found.filter(fits).map(|kept| kept.value.clone());
                    kept.push((argument, secret, value));
                }
            }
        }
        drop(all);
        let is_handler = request.kind == CallKind::Handler;
        let of_task = if is_handler { self.mask_of(stream) } else { Mask::default() };
        CallSecrets { kept, named, of_task, provider: self.provider.clone() }
    }

    fn lock(&self) -> MutexGuard<'_, Values> {
        lock(&self.kept)
    }
}

fn lock(values: &Mutex<Values>) -> MutexGuard<'_, Values> {
    values.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Values {
    fn add(&mut self, value: KeptValue) {
        self.count += 1;
        let own = self.of_streams.entry(value.stream.clone()).or_default();
        own.insert(value.reference, (self.count, value));
    }

    fn has(&self, stream: &StreamId, reference: &KeptSecret) -> bool {
        self.of_streams.get(stream).is_some_and(|own| own.contains_key(reference))
    }

    /// Removes the value, unless it was kept again. Returns whether it was removed.
    fn remove(&mut self, stream: &StreamId, kept: KeptOnce) -> bool {
        let Some(own) = self.of_streams.get_mut(stream) else { return false };
        if own.get(&kept.reference).is_none_or(|(number, _)| *number != kept.number) {
            return false;
        }
        own.remove(&kept.reference);
        if own.is_empty() {
            self.of_streams.remove(stream);
        }
        true
    }
}

/// Does work on the files, off the actors' thread where there are files.
async fn on_disk<T: Send + 'static>(
    files: Option<SecretFiles>,
    work: impl FnOnce(Option<SecretFiles>) -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    if files.is_none() {
        return work(None);
    }
    tokio::task::spawn_blocking(move || work(files)).await.map_err(io::Error::other)?
}

impl CallSecrets {
    /// Returns the arguments with the values in place, and the mask of these values.
    ///
    /// # Errors
    /// A text that says which value is missing and what to do.
    pub(crate) async fn resolve(
        self,
        request: &CallRequested,
        task_id: &str,
        attempt: u32,
    ) -> Result<(JsonText, Mask), String> {
        let mut mask = Mask::default();
        if self.kept.is_empty() && self.named.is_empty() {
            return Ok((request.args.clone(), mask));
        }
        let mut args: JsonObject = request.args.read().unwrap_or_default();
        for (argument, reference, value) in self.kept {
            let Some(value) = value else {
                return Err(format!(
                    "the secret value of `{argument}` is not kept any more for this call of {}; post the task \
                     again with the value, or give it by name",
                    request.target
                ));
            };
            mask.add(&value, &reference.to_string());
            args.set(argument, value);
        }
        for (argument, name) in self.named {
            let value =
                look_up(self.provider.as_deref(), request, task_id, attempt, (&argument, &name)).await?;
            let value = JsonText::string(&value);
            mask.add(&value, &SecretRef::Named(name).to_string());
            args.set(argument, value);
        }
        Ok((args.to_text(), mask))
    }
}

async fn look_up(
    provider: Option<&dyn SecretProvider>,
    request: &CallRequested,
    task_id: &str,
    attempt: u32,
    (argument, name): (&str, &str),
) -> Result<String, String> {
    let tool = &request.target;
    let Some(provider) = provider else {
        return Err(format!(
            "the argument `{argument}` of {tool} names the secret `{name}`, but this system looks up no secrets: set \
             a provider with `Builder::secrets`"
        ));
    };
    let asked = SecretRequest {
        name: name.to_owned(),
        tool: tool.clone(),
        argument: argument.to_owned(),
        task_id: task_id.to_owned(),
        call_id: request.call_id.clone(),
        attempt,
    };
    // A panic of the host's lookup comes before the tool runs, as its error does.
    let found = caught_in(async { provider.secret(asked).await }).await;
    match found.unwrap_or_else(|panic| Err(format!("its lookup panicked: {panic}"))) {
        Ok(Some(value)) => Ok(value),
        Ok(None) => Err(format!("there is no secret `{name}` for the argument `{argument}` of {tool}")),
        Err(error) => Err(format!("the secret `{name}` for the argument `{argument}` of {tool}: {error}")),
    }
}
