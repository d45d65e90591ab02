//! The order of a stream's frame sizes.
use hakaru_contract::FrameSize;

/// Sizes in a fixed order with a period. In each period every size occurs as often as its weight,
/// spread evenly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizeOrder {
    sizes: Vec<u16>,
    /// Index into `sizes` for each frame of a period.
    period: Vec<u8>,
    /// Common multiple of the period and the number of flows.
    common: u64,
}

impl SizeOrder {
    /// Returns the order for a list of sizes that was checked (1 to 256 sizes, weights above 0), in
    /// a stream with `flows` flows.
    ///
    /// The order advances by one frame after each common multiple of its period and the number of
    /// flows. Otherwise a flow would have the same few sizes all the time.
    #[must_use]
    pub fn new(sizes: &[FrameSize], flows: u16) -> SizeOrder {
        let weights = sizes.iter().map(|size| i64::from(size.weight));
        let divisor = weights.clone().fold(0, gcd).max(1);
        let weights: Vec<i64> = weights.map(|weight| weight / divisor).collect();
        let total: i64 = weights.iter().sum();
        // Smooth weighted round-robin: every size earns its weight per frame, the richest one is
        // next and pays the total.
        let mut credits = vec![0; weights.len()];
        let period = (0..total).map(|_| {
            for (credit, weight) in credits.iter_mut().zip(&weights) {
                *credit += weight;
            }
            let richest = (0..credits.len()).rev().max_by_key(|size| credits[*size]);
            let next = richest.unwrap_or(0);
            credits[next] -= total;
            next as u8
        });
        SizeOrder {
            period: period.collect(),
            common: (total / gcd(total, flows.into()).max(1)) as u64 * u64::from(flows),
            sizes: sizes.iter().map(|size| size.bytes).collect(),
        }
    }

    /// Returns the sizes, bytes with FCS.
    #[must_use]
    pub fn sizes(&self) -> &[u16] {
        &self.sizes
    }

    /// Returns the index into [`SizeOrder::sizes`] of frame `number`.
    #[must_use]
    pub fn index_of(&self, number: u32) -> usize {
        let period = self.period.len() as u64;
        if period == 1 {
            return usize::from(self.period[0]);
        }
        let number = u64::from(number);
        usize::from(self.period[((number + number / self.common) % period) as usize])
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imix(flows: u16) -> SizeOrder {
        let size = |bytes, weight| FrameSize { bytes, weight };
        SizeOrder::new(&[size(64, 70), size(594, 40), size(1518, 10)], flows)
    }

    fn counts(order: &SizeOrder, numbers: impl Iterator<Item = u32>) -> [u64; 3] {
        let mut counts = [0; 3];
        numbers.for_each(|number| counts[order.index_of(number)] += 1);
        counts
    }

    #[test]
    fn a_period_has_each_size_as_often_as_its_weight() {
        for flows in [1, 5, 7] {
            let order = imix(flows);
            assert_eq!(order.period.len(), 12, "weights are reduced");
            assert_eq!(counts(&order, 0..12), [7, 4, 1]);
            assert_eq!(counts(&order, 0..12 * 1000), [7000, 4000, 1000]);
        }
        let period = imix(1).period;
        let runs = period.chunk_by(|a, b| a == b).map(<[u8]>::len);
        assert_eq!(runs.max(), Some(2), "sizes are spread evenly: {period:?}");
    }

    #[test]
    fn each_flow_has_each_size_even_if_the_period_is_a_multiple_of_the_flows() {
        let order = imix(12);
        for flow in 0..12 {
            let of_flow = (0..144 * 5).filter(|number| number % 12 == flow);
            assert_eq!(counts(&order, of_flow), [35, 20, 5]);
        }
        assert_eq!(counts(&order, 0..144), [84, 48, 12]);
    }
}
