//! How often a request is tried, and how long the router waits between attempts.

/// The settings of retries.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Backoff {
    /// Attempts, the first one too.
    pub(crate) attempts: u32,
    /// The first wait, in ms.
    pub(crate) initial_ms: u64,
    /// The longest wait, in ms.
    pub(crate) max_ms: u64,
    /// By how much it grows with each attempt.
    pub(crate) multiplier: f32,
    /// By which share of itself it is longer or shorter at most.
    pub(crate) jitter: f32,
}

impl Backoff {
    /// The wait after attempt `index`, counted from 0, without what is drawn; in ms.
    pub(crate) fn wait_ms(&self, index: u32) -> u64 {
        let grown = self.initial_ms as f64 * f64::from(self.multiplier).powi(index.cast_signed());
        (grown as u64).min(self.max_ms)
    }

    /// The shortest and the longest wait there, in ms.
    pub(crate) fn bounds_ms(&self, index: u32) -> (u64, u64) {
        let wait = self.wait_ms(index);
        let most = (wait as f64 * f64::from(self.jitter.max(0.0))).round() as u64;
        (wait.saturating_sub(most), wait.saturating_add(most))
    }
}

/// Whether a request is tried again after such a status.
pub(crate) fn is_retried(status: u16) -> bool {
    matches!(status, 408 | 429 | 500 | 502 | 503 | 504)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_their_limit() {
        let backoff =
            Backoff { attempts: 5, initial_ms: 50, max_ms: 200, multiplier: 1.5, jitter: 0.2 };
        // 50, 75, 112.5, 168.75, 253.1
        let waits: Vec<_> = (0..5).map(|index| backoff.wait_ms(index)).collect();
        assert_eq!(waits, [50, 75, 112, 168, 200]);
        assert_eq!(backoff.bounds_ms(0), (40, 60));
    }
}
