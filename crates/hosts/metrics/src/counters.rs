//! Adds the counters of flows. A flow takes its counters with it when it ends, but the sum must only grow.

use std::collections::BTreeMap;

/// The sums of `N` counters over all flows that were ever seen. Call [`Self::update`] with all open flows.
#[derive(Clone, Debug)]
pub struct FlowCounters<K, const N: usize> {
    last: BTreeMap<K, [u64; N]>,
    totals: [u64; N],
}

impl<K: Ord, const N: usize> Default for FlowCounters<K, N> {
    fn default() -> Self {
        Self { last: BTreeMap::new(), totals: [0; N] }
    }
}

impl<K: Ord, const N: usize> FlowCounters<K, N> {
    /// Adds what the counters of the open flows have grown by since the last update, and returns the sums. A flow whose
    /// counter has become smaller is a new one with the same name.
    pub fn update(&mut self, flows: impl IntoIterator<Item = (K, [u64; N])>) -> [u64; N] {
        let mut current = BTreeMap::new();
        for (flow, counters) in flows {
            let last = self.last.get(&flow).copied().unwrap_or([0; N]);
            let is_new = core::iter::zip(&counters, &last).any(|(counter, last)| counter < last);
            for (index, counter) in counters.into_iter().enumerate() {
                let growth = if is_new { counter } else { counter - last[index] };
                self.totals[index] = self.totals[index].saturating_add(growth);
            }
            current.insert(flow, counters);
        }
        self.last = current;
        self.totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_grow_when_flows_end_and_when_names_return() {
        let mut counters = FlowCounters::default();
        assert_eq!(counters.update([("a", [5, 1]), ("b", [2, 0])]), [7, 1]);
        assert_eq!(counters.update([("a", [9, 1])]), [11, 1]);
        assert_eq!(counters.update([]), [11, 1]);
        assert_eq!(counters.update([("a", [3, 4])]), [14, 5], "a new flow");
        assert_eq!(counters.update([("a", [2, 5])]), [16, 10], "another new flow with the same name");
    }
}
