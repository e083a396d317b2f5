//! The runtime on which a system's tools and models are called.

use tokio::runtime::Handle;

use crate::error::Error;

/// The runtime of calls.
pub(crate) enum Calls {
    /// The runtime on which `start` is called.
    Current,
    /// The given runtime.
    On(tokio::runtime::Handle),
    /// A runtime of the system's own, with this number of threads.
    Own(usize),
}

/// Returns the runtime, and the system's own if it has one.
///
/// # Errors
/// [`Error::Builder`] outside a runtime, or if an own one cannot be created.
pub(crate) fn runtime(
    calls: Calls,
) -> Result<(tokio::runtime::Handle, Option<tokio::runtime::Runtime>), Error> {
    match calls {
        Calls::On(handle) => Ok((handle, None)),
        Calls::Current => tokio::runtime::Handle::try_current()
            .map(|handle| (handle, None))
            .map_err(|error| Error::Builder(format!("{error}; set a runtime with `calls_on`"))),
        Calls::Own(threads) => {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(threads)
                .thread_name("taskreel-calls")
                .enable_all()
                .build()
                .map_err(|error| {
                    Error::Builder(format!("the runtime for calls cannot be created: {error}"))
                })?;
            Ok((runtime.handle().clone(), Some(runtime)))
        }
    }
}

/// Carries out work of a system from any thread: within the caller's runtime if there is one, else within this one.
pub(crate) async fn entered<T>(calls: Handle, work: impl Future<Output = T>) -> T {
    if Handle::try_current().is_ok() {
        return work.await;
    }
    let mut work = std::pin::pin!(work);
    std::future::poll_fn(move |cx| {
        let _within = calls.enter();
        work.as_mut().poll(cx)
    })
    .await
}
