//! Tracks the minimum RTT, and implements PROBE_RTT, which drains the queue to measure the minimum again.

use super::{AckSample, Bbr, Mode};
use crate::parts::round_trip::is_after;

impl Bbr {
    /// Updates the minimum RTT and probes for it when it expires (bbr_update_min_rtt, draft sections 4.1.2 and 4.3.5).
    pub(super) fn update_min_rtt(&mut self, sample: &AckSample, random: u32) {
        let is_first = self.min_rtt == u64::MAX;
        let is_expired = !is_first && sample.now.wrapping_sub(self.min_rtt_stamp) > self.min_rtt_window;
        if sample.rtt <= self.min_rtt || is_expired {
            (self.min_rtt, self.min_rtt_stamp) = (sample.rtt, sample.now);
        }
        // After an idle period, the flow has just measured the path without its own queue.
        let is_probing = matches!(self.mode, Mode::ProbeRtt { .. });
        if is_expired && !is_probing && !sample.after_idle && self.probe_rtt_time > 0 {
            self.save_window();
            self.mode = Mode::ProbeRtt { end: None, round_done: false };
        }
        let Mode::ProbeRtt { end, round_done } = self.mode else { return };
        // Four packets in flight do not reveal the path's bandwidth.
        self.mark_app_limited(sample.in_flight);
        match end {
            None if f64::from(sample.in_flight) <= self.min_window => {
                let end = Some(sample.now.wrapping_add(self.probe_rtt_time));
                self.mode = Mode::ProbeRtt { end, round_done: false };
                self.round_start = sample.now;
            }
            None => {}
            Some(end_time) => {
                let round_done = round_done || sample.round_start;
                self.mode = Mode::ProbeRtt { end, round_done };
                if round_done && is_after(sample.now, end_time) {
                    self.min_rtt_stamp = sample.now;
                    self.window = self.window.max(self.prior_window);
                    self.mode = if self.full_bandwidth_reached() {
                        Self::start_probe_bw(sample.now, random)
                    } else {
                        Mode::Startup
                    };
                }
            }
        }
    }
}
