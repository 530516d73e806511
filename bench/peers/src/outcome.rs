//! What a run gives back, on either side.

use std::time::Instant;

/// How much work and how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Speed {
    /// Packets that crossed a link, ACKs included.
    pub(crate) packet_hops: u64,
    pub(crate) wall_seconds: f64,
}

impl Speed {
    pub(crate) fn hops_per_second(&self) -> f64 {
        self.packet_hops as f64 / self.wall_seconds
    }
}

/// A dumbbell's flows and queue, over the second half of the run; drops over all of it.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    /// By slice and flow.
    pub(crate) goodput_bps: Vec<Vec<f64>>,
    pub(crate) mean_queue_bytes: f64,
    pub(crate) drops: u64,
}

impl Shared {
    pub(crate) fn total_bps(&self) -> f64 {
        self.goodput_bps.iter().flatten().sum::<f64>() / self.goodput_bps.len() as f64
    }

    /// Each flow's goodput as a part of the fair share.
    pub(crate) fn shares(&self) -> Vec<f64> {
        let flows = self.goodput_bps[0].len();
        let sums: Vec<f64> =
            (0..flows).map(|flow| self.goodput_bps.iter().map(|slice| slice[flow]).sum()).collect();
        of_fair(&sums)
    }

    /// How far a flow is from its fair share within a slice: root of the mean square.
    pub(crate) fn swing(&self) -> f64 {
        let off: Vec<f64> = self.goodput_bps.iter().flat_map(|slice| of_fair(slice)).collect();
        (off.iter().map(|share| (share - 1.0) * (share - 1.0)).sum::<f64>() / off.len() as f64).sqrt()
    }
}

fn of_fair(goodput: &[f64]) -> Vec<f64> {
    let fair = goodput.iter().sum::<f64>() / goodput.len() as f64;
    goodput.iter().map(|bps| bps / fair).collect()
}

/// The middle one, or the mean of the middle two.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { f64::midpoint(values[middle - 1], values[middle]) }
}

/// What `work` gave and the seconds it took.
#[expect(clippy::disallowed_methods, reason = "measuring is what this program is for")]
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let began = Instant::now();
    let result = work();
    (result, began.elapsed().as_secs_f64())
}
