//! Whether a worker is healthy, by its last checks.

/// How many checks in a row change what is thought of a worker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    /// Failures until it is unhealthy.
    pub(crate) failures: u32,
    /// Successes until it is healthy.
    pub(crate) successes: u32,
}

/// What is thought of a worker.
#[derive(Debug, Clone)]
pub(crate) struct Health {
    is_healthy: bool,
    /// Checks in a row that say otherwise.
    against: u32,
}

impl Default for Health {
    fn default() -> Self {
        Self { is_healthy: true, against: 0 }
    }
}

impl Health {
    /// Whether it gets requests.
    pub(crate) fn is_healthy(&self) -> bool {
        self.is_healthy
    }

    /// Whether it gets requests, and checks that succeed change nothing.
    pub(crate) fn is_calm(&self) -> bool {
        self.is_healthy && self.against == 0
    }

    /// A check succeeded or failed.
    pub(crate) fn check(&mut self, rules: Rules, is_success: bool) {
        if is_success == self.is_healthy {
            self.against = 0;
            return;
        }
        self.against += 1;
        let needed = if is_success { rules.successes } else { rules.failures };
        if self.against >= needed {
            *self = Self { is_healthy: is_success, against: 0 };
        }
    }
}
