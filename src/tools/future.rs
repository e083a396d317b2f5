//! The boxed future that the traits of embedders return.

use std::future::Future;
use std::pin::Pin;

/// A boxed future, as methods of object-safe traits must return it.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
