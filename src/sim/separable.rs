//! Observers that can hear each instance on its own.

use super::observe::Observer;
use crate::ids::{InstanceId, RequestId};
use crate::request::Request;
use crate::units::SimTime;

/// Which requests and instances an observer hears of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lane {
    /// Its instance, which gets the request of this id first.
    pub first: u32,
    /// Of this many lanes: it gets every so many-th request.
    pub count: u32,
    /// When the first request of all lanes was sent.
    pub first_sent: SimTime,
}

impl Lane {
    /// All requests and instances.
    pub const WHOLE: Self = Self { first: 0, count: 1, first_sent: SimTime::ZERO };

    /// The place of a request among those of the lane.
    #[inline]
    pub fn place(self, id: RequestId) -> usize {
        if self.count == 1 {
            return id.index();
        }
        ((id.0 - self.first) / self.count) as usize
    }

    /// The place of an instance among those of the lane.
    #[inline]
    pub fn seat(self, instance: InstanceId) -> usize {
        (instance.0 - self.first) as usize
    }
}

impl Default for Lane {
    fn default() -> Self {
        Self::WHOLE
    }
}

/// An observer that lanes can hear for: what it knows after all of them were joined is what it
/// would know had it heard everything.
pub trait Separable: Observer + Send {
    /// Hears what happens in one lane.
    type Lane: Observer + Send;

    /// What the observer of a lane sets aside, to be counted by whoever has time while the lane goes on; `()`
    /// where it counts all as it hears it.
    type Aside: Default + Send;

    /// The observer of a lane, before anything happened.
    fn lane(&mut self, lane: Lane) -> Self::Lane;

    /// The observer of a lane sets aside what it has noted; what was set aside before has been counted.
    fn set_aside(_lane: &mut Self::Lane, _aside: &mut Self::Aside) {}

    /// Counts what was set aside.
    fn count(_aside: &mut Self::Aside) {}

    /// The observer of a lane, which sets nothing more aside, takes back what was counted of it.
    fn take_back(_lane: &mut Self::Lane, _aside: Self::Aside) {}

    /// A request arrives; told in order over all lanes, besides what each lane hears.
    fn arrives(&mut self, _request: &Request) {}

    /// Takes in what the lanes heard, in the order of their instances.
    fn join(&mut self, lanes: Vec<Self::Lane>);
}

impl<A: Separable, B: Separable> Separable for (A, B) {
    type Lane = (A::Lane, B::Lane);
    type Aside = (A::Aside, B::Aside);

    fn lane(&mut self, lane: Lane) -> Self::Lane {
        (self.0.lane(lane), self.1.lane(lane))
    }

    fn set_aside(lane: &mut Self::Lane, aside: &mut Self::Aside) {
        A::set_aside(&mut lane.0, &mut aside.0);
        B::set_aside(&mut lane.1, &mut aside.1);
    }

    fn count(aside: &mut Self::Aside) {
        A::count(&mut aside.0);
        B::count(&mut aside.1);
    }

    fn take_back(lane: &mut Self::Lane, aside: Self::Aside) {
        A::take_back(&mut lane.0, aside.0);
        B::take_back(&mut lane.1, aside.1);
    }

    #[inline]
    fn arrives(&mut self, request: &Request) {
        self.0.arrives(request);
        self.1.arrives(request);
    }

    fn join(&mut self, lanes: Vec<Self::Lane>) {
        let (first, second) = lanes.into_iter().unzip();
        self.0.join(first);
        self.1.join(second);
    }
}

impl<O: Separable> Separable for Option<O> {
    type Lane = Option<O::Lane>;
    type Aside = O::Aside;

    fn lane(&mut self, lane: Lane) -> Self::Lane {
        self.as_mut().map(|observer| observer.lane(lane))
    }

    fn set_aside(lane: &mut Self::Lane, aside: &mut Self::Aside) {
        if let Some(lane) = lane {
            O::set_aside(lane, aside);
        }
    }

    fn count(aside: &mut Self::Aside) {
        O::count(aside);
    }

    fn take_back(lane: &mut Self::Lane, aside: Self::Aside) {
        if let Some(lane) = lane {
            O::take_back(lane, aside);
        }
    }

    #[inline]
    fn arrives(&mut self, request: &Request) {
        if let Some(observer) = self {
            observer.arrives(request);
        }
    }

    fn join(&mut self, lanes: Vec<Self::Lane>) {
        if let Some(observer) = self {
            observer.join(lanes.into_iter().flatten().collect());
        }
    }
}

impl<O: Separable> Separable for &mut O {
    type Lane = O::Lane;
    type Aside = O::Aside;

    fn lane(&mut self, lane: Lane) -> Self::Lane {
        (**self).lane(lane)
    }

    fn set_aside(lane: &mut Self::Lane, aside: &mut Self::Aside) {
        O::set_aside(lane, aside);
    }

    fn count(aside: &mut Self::Aside) {
        O::count(aside);
    }

    fn take_back(lane: &mut Self::Lane, aside: Self::Aside) {
        O::take_back(lane, aside);
    }

    #[inline]
    fn arrives(&mut self, request: &Request) {
        (**self).arrives(request);
    }

    fn join(&mut self, lanes: Vec<Self::Lane>) {
        (**self).join(lanes);
    }
}

/// Hears nothing.
impl Separable for () {
    type Lane = ();
    type Aside = ();

    fn lane(&mut self, _: Lane) {}

    fn join(&mut self, _: Vec<()>) {}
}
