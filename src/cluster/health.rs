//! Which replicas serve, and which of those that do not the gateway has noticed; how they reply.

use crate::ids::InstanceId;

/// Whether a replica serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Health {
    /// It does.
    #[default]
    Up,
    /// It does not, and still gets requests.
    Unnoticed,
    /// It does not, and gets none.
    Down,
}

/// How a replica replies to a request that is sent there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// It begins to answer.
    Taken,
    /// Its engine rejects the request (400).
    Rejected,
    /// It does not: there is nobody.
    Dead,
}

/// The health of every replica.
#[derive(Debug, Clone)]
pub struct Healths(Vec<Health>);

impl Healths {
    /// So many replicas that serve.
    pub fn new(instances: usize) -> Self {
        Self(vec![Health::Up; instances])
    }

    /// Whether a replica serves.
    pub fn of(&self, instance: InstanceId) -> Health {
        self.0[instance.index()]
    }

    /// It does so from now on, or not.
    pub fn set(&mut self, instance: InstanceId, health: Health) {
        self.0[instance.index()] = health;
    }
}
