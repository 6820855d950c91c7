//! What the driver does for publishers: asks caches, and tells blocks with their tokens.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::Publisher;
use super::batch::{Batch, Blocks, Event, Group};
use crate::ids::{AdapterId, InstanceId, RequestId};
use crate::kv::{BlockHash, CacheEvent, Order};
use crate::serve::app::unix_time;
use crate::serve::words::Words;
use crate::sim::Live;

/// A request whose blocks may be told of.
#[derive(Debug)]
struct Asked {
    prompt: Arc<[u32]>,
    adapter: Option<AdapterId>,
}

/// A replica that is told of.
#[derive(Debug)]
pub(in crate::serve) struct Told {
    pub(in crate::serve) publisher: Publisher,
    /// Tokens of a block.
    pub(in crate::serve) block_size: u32,
    /// What blocks are of; SGLang does not say.
    pub(in crate::serve) group: Option<Group>,
}

/// The publishers of all replicas.
#[derive(Debug)]
pub(in crate::serve) struct Telling {
    words: Arc<Words>,
    /// Names of adapters.
    names: Vec<String>,
    replicas: Vec<Told>,
    requests: FxHashMap<RequestId, Asked>,
    /// Requests that are over, of which the last events have not been told.
    over: Vec<RequestId>,
}

impl Telling {
    pub(in crate::serve) fn new(
        words: Arc<Words>,
        names: Vec<String>,
        replicas: Vec<Told>,
    ) -> Self {
        Self { words, names, replicas, requests: FxHashMap::default(), over: Vec::new() }
    }

    /// A request comes.
    pub(in crate::serve) fn begin(
        &mut self,
        id: RequestId,
        prompt: Arc<[u32]>,
        adapter: Option<AdapterId>,
    ) {
        self.requests.insert(id, Asked { prompt, adapter });
    }

    /// A request is over.
    pub(in crate::serve) fn end(&mut self, id: RequestId) {
        self.over.push(id);
    }

    /// Tells what has become of all caches.
    pub(in crate::serve) fn tell(&mut self, live: &mut Live) {
        for place in 0..self.replicas.len() {
            let events = live.take_cache_events(InstanceId(place as u32));
            if events.is_empty() {
                continue;
            }
            let Told { block_size, group, .. } = self.replicas[place];
            let events = events.into_iter().map(|event| self.event(event, block_size, group));
            let told: Vec<Event<'_>> = events.collect();
            // A replica has one data-parallel rank: more cannot tell of themselves.
            let batch = Batch(unix_time(), &told, 0).bytes();
            self.replicas[place].publisher.publish(batch);
        }
        for id in self.over.drain(..) {
            self.requests.remove(&id);
        }
    }

    fn event(&self, event: CacheEvent, block_size: u32, group: Option<Group>) -> Event<'_> {
        match event {
            CacheEvent::Stored { request, start, parent, names } => {
                let told = self.requests.get(&request);
                let len = names.len() as u32 * block_size;
                let tokens = told.map(|told| self.tokens(request, told, start, len));
                let adapter = told.and_then(|told| told.adapter);
                let adapter = adapter.and_then(|id| Some((1 + id.0, self.names.get(id.index())?)));
                Event::from(Blocks {
                    names: names.all().iter().collect(),
                    parent: parent.map(BlockHash::number),
                    tokens: tokens.unwrap_or_default(),
                    block_size,
                    adapter: adapter.map(|(id, name)| (id, name.as_str())),
                    group,
                })
            }
            CacheEvent::Removed { names, order: Order::Forward } => {
                Event::removed(names.all().iter().collect(), group)
            }
            CacheEvent::Removed { names, order: Order::Backward } => {
                Event::removed(names.all().iter().rev().collect(), group)
            }
            CacheEvent::Cleared => Event::AllBlocksCleared {},
        }
    }

    /// Tokens of prompt and answer.
    fn tokens(&self, request: RequestId, told: &Asked, start: u32, len: u32) -> Vec<u32> {
        let prompt = told.prompt.len() as u32;
        let token = |place: u32| match place.checked_sub(prompt) {
            None => told.prompt[place as usize],
            Some(place) => self.words.token(request.0, place),
        };
        (start..start + len).map(token).collect()
    }
}
