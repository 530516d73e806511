//! PROBE_BW: cruise at the estimated bandwidth and probe for more once per cycle.

use super::{AckSample, Bbr, Mode};

/// The PROBE_BW gains: one phase probes, one drains the queue that the probe built, and six cruise (bbr_pacing_gain).
pub(super) const PACING_GAIN_CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// The number of phases in which a cycle may start: all except the drain phase, because there is no queue to drain yet
/// (bbr_cycle_rand).
const START_PHASES: u64 = 7;

impl Bbr {
    /// Moves to the next phase of the gain cycle when the current phase ends (bbr_is_next_cycle_phase, draft section
    /// 4.3.4.3).
    pub(super) fn advance_cycle_phase(&mut self, sample: &AckSample) {
        let Mode::ProbeBw { phase, phase_start } = self.mode else { return };
        let is_full_length = sample.now.wrapping_sub(phase_start) > self.min_rtt;
        let gain = self.pacing_gain();
        let is_over = if gain > 1.0 {
            let reached = || sample.prior_in_flight() + self.send_quantum() >= self.target_in_flight(gain);
            is_full_length && (self.loss_in_phase || reached())
        } else if gain < 1.0 {
            is_full_length || sample.prior_in_flight() <= self.target_in_flight(1.0)
        } else {
            is_full_length
        };
        if is_over {
            self.mode = Mode::ProbeBw { phase: (phase + 1) % 8, phase_start: sample.now };
            self.loss_in_phase = false;
        }
    }

    /// Returns PROBE_BW in a random phase, so that flows do not probe at the same time (draft section 4.3.4.2).
    pub(super) fn start_probe_bw(now: u64, random: u32) -> Mode {
        let draw = (u64::from(random) * START_PHASES) >> 32;
        // Start in phase 0 or in one of phases 2 to 7, but never in phase 1, which drains the queue.
        let phase = u8::try_from((2 + draw) % 8).unwrap_or(0);
        Mode::ProbeBw { phase, phase_start: now }
    }
}
