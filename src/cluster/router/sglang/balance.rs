//! When the load is imbalanced: by an absolute and a relative difference, both exceeded.

/// The thresholds of a policy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Balance {
    /// By how much the most exceeds the least at most.
    pub(crate) absolute: u64,
    /// By which factor. 32 bits, as the product.
    pub(crate) relative: f32,
}

impl Balance {
    /// Whether the most and the least load are too far apart. Over a least load of nothing every factor is exceeded.
    pub(crate) fn is_lost(self, least: u64, most: u64) -> bool {
        most.saturating_sub(least) > self.absolute && most as f32 > least as f32 * self.relative
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_thresholds_have_to_be_exceeded() {
        let balance = Balance { absolute: 2, relative: 2.0 };
        assert!(!balance.is_lost(0, 2));
        assert!(balance.is_lost(0, 3));
        // 6 is not more than twice 3.
        assert!(!balance.is_lost(3, 6));
        assert!(balance.is_lost(3, 7));
    }
}
