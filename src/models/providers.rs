//! Clients of model providers: [`common`], [`key`] and [`secrets`] are shared code, `openai` and `genai` the backends
//! (features of the same names). The HTTP client is in `crate::http_client`.

#[cfg(any(feature = "genai", feature = "openai"))]
pub(crate) mod client;
#[cfg(any(feature = "genai", feature = "openai"))]
pub(crate) mod common;
#[cfg(feature = "genai")]
pub(crate) mod genai;
#[cfg(any(feature = "genai", feature = "openai"))]
pub(crate) mod key;
#[cfg(feature = "openai")]
pub(crate) mod openai;
#[cfg(any(feature = "genai", feature = "openai"))]
pub(crate) mod secrets;
