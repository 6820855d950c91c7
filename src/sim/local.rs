//! Prompts that the decode side computes itself.

use super::event::Event;
use super::observe::{Observer, Occurrence};
use super::run::Simulation;
use super::source::Source;
use crate::cluster::Routed;
use crate::ids::InstanceId;
use crate::request::Segment;
use crate::units::SimTime;

impl<W: Source> Simulation<W> {
    /// Sends a request to an instance that decodes, to be computed there from its first token, if the
    /// conditions for that hold; to which, or whether it waits for one.
    pub(super) fn send_past_prefill(
        &mut self,
        now: SimTime,
        transit: u32,
        observer: &mut impl Observer,
    ) -> Option<Routed> {
        let (id, request) = self.transit.get(transit);
        let parts = self.cluster.disaggregation.as_mut()?;
        if let Some(decode) = parts.take_alone(request.view(id)) {
            self.send_to_decode(now, transit, decode, observer);
            return Some(Routed::To(decode));
        }
        if let Some(offer) = self.send_conditionally(now, transit, observer) {
            return Some(offer);
        }
        let entrances = self.cluster.entrances();
        let local = self.cluster.disaggregation.as_ref()?.local_prefill()?;
        if local.max_new_tokens.is_some() {
            let count = self.cluster.instances.len() as u32;
            let (_, request) = self.transit.get(transit);
            let segments = request.content.segments.clone();
            self.see_caches(
                now,
                entrances..count,
                Some(segments.as_deref().unwrap_or(&[])),
                observer,
            );
        }
        let seen = self.seen(now);
        // Who is next does not wait behind itself.
        let at_gateway = self.gate.as_ref().map_or(0, |gate| gate.room.len() as u32 - 1);
        let (id, request) = self.transit.get(transit);
        let instances = &self.cluster.instances;
        let parts = self.cluster.disaggregation.as_mut().expect("instances have roles");
        let decode = parts.prefill_locally(request.view(id), at_gateway, instances, seen)?;
        self.send_to_decode(now, transit, decode, observer);
        Some(Routed::To(decode))
    }

    pub(super) fn send_to_decode(
        &mut self,
        now: SimTime,
        transit: u32,
        decode: InstanceId,
        observer: &mut impl Observer,
    ) {
        let (id, _) = self.transit.get(transit);
        observer.on(now, Occurrence::Sent(id, decode));
        if let Some(faults) = &mut self.faults {
            faults.moved(id, decode);
        }
        self.pass_front_end(now, decode, Event::Enqueue { instance: decode, transit });
    }

    /// What instances have planned ahead ends before now: their caches are what they are at this moment, for a
    /// prompt of these runs, or for every prompt.
    pub(super) fn see_caches(
        &mut self,
        now: SimTime,
        instances: std::ops::Range<u32>,
        quoted: Option<&[Segment]>,
        observer: &mut impl Observer,
    ) {
        for instance in instances.map(InstanceId) {
            self.see_steps(now, instance, observer);
            let place = (instance, &mut self.cluster.instances[instance.index()]);
            if let Some(at) = super::drive::interrupt(place, now, observer) {
                self.awaken(at, instance);
            }
            self.cluster.instances[instance.index()].show_cache(quoted);
        }
    }
}
