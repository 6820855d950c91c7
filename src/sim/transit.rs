//! Requests on their way.

use crate::ids::RequestId;
use crate::request::Request;

/// Requests between their arrival and an engine's queue.
#[derive(Debug, Default)]
pub(super) struct Transit {
    places: Vec<Option<(RequestId, Request)>>,
    vacant: Vec<u32>,
}

impl Transit {
    pub(super) fn put(&mut self, id: RequestId, request: Request) -> u32 {
        if let Some(place) = self.vacant.pop() {
            self.places[place as usize] = Some((id, request));
            return place;
        }
        self.places.push(Some((id, request)));
        self.places.len() as u32 - 1
    }

    pub(super) fn get(&self, place: u32) -> (RequestId, &Request) {
        let (id, request) = self.places[place as usize].as_ref().expect("the place is taken");
        (*id, request)
    }

    pub(super) fn take(&mut self, place: u32) -> (RequestId, Request) {
        self.vacant.push(place);
        self.places[place as usize].take().expect("the place is taken")
    }

    pub(super) fn len(&self) -> u64 {
        (self.places.len() - self.vacant.len()) as u64
    }
}
