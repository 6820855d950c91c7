//! Which of several answers that keep all SLOs is the best.

use std::cmp::Ordering;

/// What speaks for an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Merit {
    /// What it costs, of answers at different rates for the same number of requests. Infinite of what is no
    /// answer.
    pub price: f64,
    /// Its GPUs.
    pub gpus: u32,
    /// How much of each SLO's limit it takes, up to 1.
    pub used: Vec<f64>,
}

impl Merit {
    /// The better one first: the cheaper; of equal prices that on fewer GPUs; of those that whose tightest SLO has
    /// more room, then that with more room in all. What [dominates](Self::dominates) another comes before it.
    pub fn order(&self, other: &Self) -> Ordering {
        let all = |merit: &Self| merit.used.iter().sum::<f64>();
        coarse(self.price)
            .total_cmp(&coarse(other.price))
            .then(self.gpus.cmp(&other.gpus))
            .then(self.tightest().total_cmp(&other.tightest()))
            .then(all(self).total_cmp(&all(other)))
    }

    /// How much of its limit the SLO takes that takes most.
    pub fn tightest(&self) -> f64 {
        self.used.iter().copied().fold(0.0, f64::max)
    }

    /// Whether both cost the same.
    pub fn costs_as(&self, other: &Self) -> bool {
        coarse(self.price).total_cmp(&coarse(other.price)).is_eq()
    }

    /// Whether it is nowhere worse than another, and somewhere better.
    pub fn dominates(&self, other: &Self) -> bool {
        let price = coarse(self.price).total_cmp(&coarse(other.price));
        let slos = self.used.iter().zip(&other.used).map(|(own, others)| own.total_cmp(others));
        let each: Vec<Ordering> = slos.chain([price, self.gpus.cmp(&other.gpus)]).collect();
        each.iter().all(|order| order.is_le()) && each.iter().any(|order| order.is_lt())
    }
}

/// A price to nine digits: sums of the same prices in another order are equal.
fn coarse(price: f64) -> f64 {
    if !price.is_finite() || price <= 0.0 {
        return price;
    }
    let unit = 10_f64.powf(price.log10().floor() - 8.0);
    (price / unit).round() * unit
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn merit() -> impl Strategy<Value = Merit> {
        // Few values, so that many are equal.
        let used =
            proptest::collection::vec((0_u8..5).prop_map(|fifths| f64::from(fifths) / 5.0), 3);
        (1_u32..4, 1_u32..4, used).prop_map(|(price, gpus, used)| Merit {
            price: f64::from(price) * 0.1,
            gpus,
            used,
        })
    }

    proptest! {
        #[test]
        fn no_answer_dominates_the_one_that_comes_first(
            mut answers in proptest::collection::vec(merit(), 1..12),
        ) {
            answers.sort_by(Merit::order);
            for other in &answers {
                prop_assert!(!other.dominates(&answers[0]), "{other:?} before {:?}", answers[0]);
            }
        }
    }

    #[test]
    fn equal_prices_added_in_another_order_are_equal() {
        let of = |price, used| Merit { price, gpus: 5, used: vec![used] };
        let (first, second) = (of(0.1 + 0.2 + 0.3, 0.9), of(0.3 + 0.2 + 0.1, 0.8));
        assert_eq!(second.order(&first), Ordering::Less, "the one with more room");
        assert!(second.dominates(&first) && !first.dominates(&second));
    }
}
