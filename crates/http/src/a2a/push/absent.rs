//! In the place of the deliveries, where this crate is built without a client: nobody has a handle on any.

use crate::a2a::push::format::Place;

/// The handle on deliveries, which do not exist here.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PushDeliveries {}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    clippy::unused_async,
    reason = "the signatures are those of the handle that a client has"
)]
impl PushDeliveries {
    pub(crate) async fn check(&self, _address: &str) -> Result<(), String> {
        match *self {}
    }

    pub(crate) fn set(&self, _place: Place) {
        match *self {}
    }

    pub(crate) fn removed(&self, _place: &Place) {
        match *self {}
    }

    pub(crate) fn per_task(&self) -> usize {
        match *self {}
    }
}
