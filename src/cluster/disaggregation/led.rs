//! Requests that somebody outside leads from one instance to the other, as a router in front of separate servers
//! does.

use super::{Disaggregation, Order};
use crate::cluster::Router;
use crate::ids::{InstanceId, RequestId};
use crate::request::{Request, RequestView};

/// What whoever leads requests has said.
#[derive(Debug, Default)]
pub(super) struct Led {
    /// The instance that is going to decode the next request, and to compute its prompt.
    alone: Option<InstanceId>,
}

impl Disaggregation {
    /// The same, where this router chooses the instances that decode, and requests that go to the source first
    /// wait there until they are sent on.
    #[must_use]
    pub fn led_by(self, decode_router: Router) -> Self {
        Self { decode_router, led: Some(Led::default()), ..self }
    }

    /// Whether a request waits, when its prompt is computed, until it is sent on.
    pub fn waits_to_be_sent_on(&self) -> bool {
        self.led.is_some() && self.order == Order::SourceFirst
    }

    /// The next request is computed from its first token by an instance that decodes.
    ///
    /// # Panics
    /// When nobody leads requests.
    pub fn decode_alone(&mut self, decode: InstanceId) {
        self.led.as_mut().expect("somebody leads requests").alone = Some(decode);
    }

    /// The instance that is going to do so, and counts the request.
    pub fn take_alone(&mut self, request: RequestView<'_>) -> Option<InstanceId> {
        let decode = self.led.as_mut()?.alone.take()?;
        self.gateway.send_to(request, InstanceId(decode.0 - self.roles.entrances()));
        Some(decode)
    }

    /// A request whose prompt is computed is going to be sent on, as this.
    pub fn resume(&mut self, id: RequestId, request: Request) {
        self.prefilling.insert(id, request);
    }
}
