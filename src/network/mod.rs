//! A network: flows that share directed links at max-min fair rates.
//!
//! A passive machine, driven by whoever owns the clock: [`Network::start`], [`Network::feed`] and
//! [`Network::cancel`] say what happens, [`Network::next_change`] when something happens by itself,
//! [`Network::advance`] lets it happen. Links are anything that bytes pass and that is shared: a NIC,
//! a PCIe port, NVLink, host memory, a disk, the ports of a switch ([`Topology`], [`Node`],
//! [`FatTree`]).
//!
//! A flow pays the latency of its route, then takes its share of every link until all its bytes
//! have passed. Bytes pass all links of a route at once; there are no packets, queues or losses,
//! which is the steady state that congestion control aims at. A flow can be fed: a KV cache is sent
//! layer by layer while it is computed, and a flow that has sent all there is takes no share.
//!
//! Time and bytes are whole numbers (`quantity`). A flow of B bytes alone on a route of R bytes
//! per second, R a multiple of 2⁻¹⁶, ends latency + ⌈B / R⌉ after its start, to the nanosecond. The
//! bytes left are the same however often they were worked out, and rates depend on what came before
//! by some units of 2⁻¹⁶ bytes per second at most (`fair`).
//!
//! Changes of one instant are taken in together: rates are worked out when
//! the time of the next change is asked for, or when time goes on.

mod clocks;
mod fabric;
mod fair;
mod flow;
mod node;
mod quantity;
mod topology;
mod usage;
mod wakes;

#[cfg(test)]
pub(crate) mod tests;

pub use fabric::FatTree;
pub use node::{Node, NodeRates, Staging};
pub use topology::{Link, Protocol, Route, Topology, TopologyError};
pub use usage::LinkUse;

use crate::ids::{FlowId, LinkId, RouteId};
use crate::units::{SimDuration, SimTime};
use clocks::Clocks;
use fair::Shares;
use flow::{Flow, Stage};
use quantity::Rate;
use topology::Path;
use usage::Usage;
use wakes::Wakes;

/// Flows on the links of a [`Topology`].
#[derive(Debug)]
pub struct Network {
    paths: Vec<Path>,
    shares: Shares,
    usage: Usage,
    flows: Vec<Flow>,
    free: Vec<u32>,
    clocks: Clocks,
    /// When latencies are over, by slot.
    latencies: Wakes,
    /// What happens at an instant, for the time of a call.
    due: Vec<u32>,
    now: u64,
}

impl Network {
    /// No flows on these links, at the start of the run.
    pub fn new(topology: &Topology) -> Self {
        let paths = topology.paths().to_vec();
        let hops_max = paths.iter().map(|path| path.links.len()).max().unwrap_or_default();
        let mut clocks = Clocks::default();
        topology.links().iter().for_each(|_| clocks.push_link());
        Self {
            shares: Shares::new(topology.links().iter().map(Link::capacity), hops_max),
            usage: Usage::new(topology.links()),
            paths,
            flows: Vec::new(),
            free: Vec::new(),
            clocks,
            latencies: Wakes::default(),
            due: Vec::new(),
            now: 0,
        }
    }

    /// Starts a flow of `bytes`, all there at once.
    ///
    /// # Panics
    /// When `now` is past, or later than the next change.
    pub fn start(&mut self, route: RouteId, bytes: u64, now: SimTime) -> FlowId {
        let id = self.start_fed(route, bytes, now);
        self.feed(id, bytes, now);
        id
    }

    /// Starts a flow that will be fed `bytes` in all. It ends when all of them have flown.
    ///
    /// # Panics
    /// When `now` is past, or later than the next change.
    pub fn start_fed(&mut self, route: RouteId, bytes: u64, now: SimTime) -> FlowId {
        self.go_on_to(now);
        let slot = self.free.pop().unwrap_or_else(|| self.add_slot());
        let path = &self.paths[route.index()];
        let is_at_once = path.latency == SimDuration::ZERO && bytes > 0;
        let stage = if is_at_once { Stage::Dry } else { Stage::Latent };
        self.flows[slot as usize] = Flow { stage, route, unfed_bytes: bytes, ..Flow::FREE };
        if is_at_once {
            self.usage.begin(&path.links);
        } else {
            self.latencies.set(slot as usize, (now + path.latency).as_nanos());
        }
        FlowId(slot)
    }

    /// Makes `bytes` more of a fed flow ready to be sent, as messages of their own.
    ///
    /// # Panics
    /// When there is no such flow, it is fed more than was said when it started, `now` is past, or
    /// later than the next change.
    pub fn feed(&mut self, flow: FlowId, bytes: u64, now: SimTime) {
        self.go_on_to(now);
        let now = self.now;
        let fed = &mut self.flows[flow.index()];
        assert!(fed.stage != Stage::Free, "flow {flow} has ended");
        assert!(bytes <= fed.unfed_bytes, "flow {flow} is fed more than it is to carry");
        fed.unfed_bytes -= bytes;
        let work = self.paths[fed.route.index()].work(bytes);
        match fed.stage {
            Stage::Flowing => {
                fed.fed += work;
                let link = self.shares.holder(flow.0);
                let left = self.clocks.remove(flow.0, link, now);
                self.clocks.add(flow.0, link, left + work, now);
                self.shares.mark_changed(link);
            }
            Stage::Dry if work > 0 => {
                fed.fed = work;
                self.join(flow.0);
            }
            _ => fed.fed += work,
        }
    }

    /// Ends a flow before its time; what it has carried stays counted.
    ///
    /// # Panics
    /// When there is no such flow, `now` is past, or later than the next change.
    pub fn cancel(&mut self, flow: FlowId, now: SimTime) {
        self.go_on_to(now);
        assert!(self.flows[flow.index()].stage != Stage::Free, "flow {flow} has ended");
        if self.flows[flow.index()].stage == Stage::Flowing {
            self.leave(flow.0);
        }
        self.release(flow.0);
    }

    /// Lets a link carry this share of its capacity from now on.
    ///
    /// # Panics
    /// When `now` is past, or later than the next change.
    pub fn set_share(&mut self, link: LinkId, share: f64, now: SimTime) {
        self.go_on_to(now);
        let whole = quantity::bytes_per_s(self.usage.capacity(link));
        let capacity = quantity::rate(whole * share).expect("a link carries 1 byte/s at least");
        self.shares.set_capacity(link, capacity);
    }

    /// When something happens next by itself: a latency is over, a fed flow runs dry, or a flow
    /// ends. `None` when nothing will.
    pub fn next_change(&mut self) -> Option<SimTime> {
        self.refresh();
        let next = [self.latencies.first(), self.clocks.first_end(&self.shares)];
        next.into_iter().flatten().min().map(SimTime::from_nanos)
    }

    /// Lets time go on to `now`; calls `ended` with every flow that ends until then and the instant
    /// it does, in the order of instants, those of one instant in the order of ids.
    ///
    /// # Panics
    /// When `now` is past.
    pub fn advance(&mut self, now: SimTime, mut ended: impl FnMut(FlowId, SimTime)) {
        let now = now.as_nanos();
        assert!(now >= self.now, "time goes back from {} to {now} ns", self.now);
        while let Some(at) = self.next_change().map(SimTime::as_nanos).filter(|at| *at <= now) {
            self.now = at;
            let due = self.take_due();
            for slot in &due {
                if self.wake(*slot) {
                    ended(FlowId(*slot), SimTime::from_nanos(at));
                }
            }
            self.due = due;
            if at == now {
                return; // rates are worked out when all changes of this instant are known
            }
        }
        self.now = now;
    }

    /// Bytes per second at which a flow runs; 0 before its latency is over and while it is dry.
    pub fn rate_bytes_per_s(&mut self, flow: FlowId) -> f64 {
        self.refresh();
        quantity::bytes_per_s(self.rate(flow.0))
    }

    /// Flows that have started and not ended.
    pub fn flows_inside(&self) -> usize {
        self.flows.len() - self.free.len()
    }

    /// What a link has carried until now.
    pub fn link_use(&self, link: LinkId) -> LinkUse {
        let carried = self.shares.on_link(link).map(|slot| {
            let left = self.clocks.left(slot, self.shares.holder(slot), self.now);
            self.flows[slot as usize].fed - left
        });
        self.usage.of(link, carried, self.now)
    }

    fn rate(&self, slot: u32) -> Rate {
        match self.flows[slot as usize].stage {
            Stage::Flowing => self.shares.rate(slot),
            _ => 0,
        }
    }

    /// The flows to which something happens now, in the order of ids.
    fn take_due(&mut self) -> Vec<u32> {
        let mut due = std::mem::take(&mut self.due);
        due.clear();
        self.clocks.ending(&self.shares, self.now, &mut due);
        self.latencies.for_each_at(self.now, |slot| due.push(slot as u32));
        due.sort_unstable();
        due
    }

    /// Whether the flow has ended at this instant, which is that of its wake.
    fn wake(&mut self, slot: u32) -> bool {
        let flow = &self.flows[slot as usize];
        match flow.stage {
            Stage::Latent if flow.fed > 0 => {
                self.latencies.clear(slot as usize);
                self.usage.begin(&self.paths[flow.route.index()].links);
                self.join(slot);
                return false;
            }
            Stage::Latent => {
                self.latencies.clear(slot as usize);
                self.usage.begin(&self.paths[flow.route.index()].links);
            }
            _ => self.leave(slot),
        }
        let flow = &mut self.flows[slot as usize];
        let is_over = flow.unfed_bytes == 0;
        if is_over {
            self.release(slot);
        } else {
            flow.stage = Stage::Dry;
        }
        is_over
    }

    fn join(&mut self, slot: u32) {
        let flow = &mut self.flows[slot as usize];
        flow.stage = Stage::Flowing;
        let path = &self.paths[flow.route.index()];
        self.usage.join(&path.links, &self.shares, self.now);
        self.shares.join(slot, &path.links, path.cap);
        self.clocks.add(slot, self.shares.holder(slot), flow.fed, self.now);
    }

    fn leave(&mut self, slot: u32) {
        let flow = &mut self.flows[slot as usize];
        let path = &self.paths[flow.route.index()];
        let left = self.clocks.remove(slot, self.shares.holder(slot), self.now);
        self.shares.leave(slot);
        self.usage.leave(&path.links, flow.fed - left, &self.shares, self.now);
        flow.fed = 0;
    }

    fn release(&mut self, slot: u32) {
        self.latencies.clear(slot as usize);
        self.flows[slot as usize] = Flow::FREE;
        self.free.push(slot);
    }

    fn add_slot(&mut self) -> u32 {
        self.flows.push(Flow::FREE);
        self.shares.push();
        self.clocks.push_link();
        self.clocks.push_slot();
        self.latencies.push();
        FlowId::from_index(self.flows.len() - 1).0
    }

    /// Works out the rates after the changes of this instant.
    fn refresh(&mut self) {
        self.shares.repair();
        self.clocks.refresh(&mut self.shares, self.now);
    }

    /// Takes in that it is `now`, before which nothing may have been left to happen.
    fn go_on_to(&mut self, now: SimTime) {
        let now = now.as_nanos();
        assert!(now >= self.now, "time goes back from {} to {now} ns", self.now);
        if now > self.now {
            let next = self.next_change().map_or(u64::MAX, SimTime::as_nanos);
            assert!(next >= now, "a change at {next} ns was passed over, it is {now} ns");
            self.now = now;
        }
    }
}
