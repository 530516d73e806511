//! Run results, which have the same form for both simulators.

use std::time::Instant;

/// A run's packet-hop count and wall-clock time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Speed {
    /// The number of packet transmissions over links, including ACKs.
    pub(crate) packet_hops: u64,
    pub(crate) wall_seconds: f64,
}

impl Speed {
    pub(crate) fn hops_per_second(&self) -> f64 {
        self.packet_hops as f64 / self.wall_seconds
    }
}

/// Dumbbell results: goodput and queue length in the second half of the run, and drops over the whole run.
#[derive(Clone, Debug)]
pub(crate) struct DumbbellResult {
    /// The goodput in each time slice, for each flow.
    pub(crate) goodput_bps: Vec<Vec<f64>>,
    pub(crate) mean_queue_bytes: f64,
    pub(crate) drops: u64,
}

impl DumbbellResult {
    pub(crate) fn total_bps(&self) -> f64 {
        self.goodput_bps.iter().flatten().sum::<f64>() / self.goodput_bps.len() as f64
    }

    /// Returns each flow's goodput relative to the fair share.
    pub(crate) fn shares(&self) -> Vec<f64> {
        let flows = self.goodput_bps[0].len();
        let sums: Vec<f64> =
            (0..flows).map(|flow| self.goodput_bps.iter().map(|slice| slice[flow]).sum()).collect();
        relative_to_fair_share(&sums)
    }

    /// Returns the root-mean-square deviation from the fair share, over all flows and time slices.
    pub(crate) fn rms_deviation(&self) -> f64 {
        let shares: Vec<f64> =
            self.goodput_bps.iter().flat_map(|slice| relative_to_fair_share(slice)).collect();
        (shares.iter().map(|share| (share - 1.0) * (share - 1.0)).sum::<f64>() / shares.len() as f64).sqrt()
    }
}

fn relative_to_fair_share(goodput: &[f64]) -> Vec<f64> {
    let fair = goodput.iter().sum::<f64>() / goodput.len() as f64;
    goodput.iter().map(|bps| bps / fair).collect()
}

/// Returns the median. If the number of values is even, returns the mean of the two middle values.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { f64::midpoint(values[middle - 1], values[middle]) }
}

/// Runs `work` and returns its result and the elapsed time in seconds.
#[expect(clippy::disallowed_methods, reason = "this program measures wall time")]
pub(crate) fn measure_seconds<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed().as_secs_f64())
}
