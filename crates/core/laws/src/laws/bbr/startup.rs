//! STARTUP and DRAIN: find the bandwidth, then drain the queue that the search built.

use super::{AckSample, Bbr, Mode};

/// 2/ln 2: the smallest gain that doubles the sending rate per round (bbr_high_gain; draft section 4.3.2.1).
pub(super) const HIGH_GAIN: f64 = 2.885;
/// A round counts as growth if the bandwidth exceeds the last maximum by this factor (bbr_full_bw_thresh).
const FULL_BANDWIDTH_THRESHOLD: f64 = 1.25;
/// The pipe is full after this many rounds without growth (bbr_full_bw_cnt).
const FULL_BANDWIDTH_COUNT: u8 = 3;

impl Bbr {
    /// Counts the rounds in which STARTUP found no more bandwidth (bbr_check_full_bw_reached, draft section 4.3.2.2).
    pub(super) fn check_full_bandwidth_reached(&mut self) {
        if self.full_bandwidth_reached() {
            return;
        }
        if self.bandwidth.max >= FULL_BANDWIDTH_THRESHOLD * self.full_bandwidth {
            (self.full_bandwidth, self.full_bandwidth_count) = (self.bandwidth.max, 0);
        } else {
            self.full_bandwidth_count += 1;
        }
    }

    pub(super) const fn full_bandwidth_reached(&self) -> bool {
        self.full_bandwidth_count >= FULL_BANDWIDTH_COUNT
    }

    /// Enters DRAIN when the pipe is full and leaves it when the queue is empty (bbr_check_drain, draft section 4.3.3).
    pub(super) fn check_drain(&mut self, sample: &AckSample, random: u32) {
        if self.mode == Mode::Startup && self.full_bandwidth_reached() {
            self.mode = Mode::Drain;
        }
        if self.mode == Mode::Drain && f64::from(sample.in_flight) <= self.target_in_flight(1.0) {
            self.mode = Self::start_probe_bw(sample.now, random);
        }
    }
}
