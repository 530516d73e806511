//! A flow's state as plain numbers, for hosts that run a port of the law in another language.
//!
//! Such a host initialises a flow from a snapshot. Tests compare the port's state with the snapshot.

use super::{Poseidon, Signal, Target, Update};

/// The complete state of one flow and the constants derived from its parameters. A suffix such as `_q24` gives the
/// number of fractional bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The window in packets.
    pub window_q24: u64,
    /// The time of the last cut in ns on the host's clock, or `u64::MAX` if there was none.
    pub last_cut_ns: u64,
    /// The last raw RTT.
    pub rtt_ns: u32,
    /// log2(max rate) - log2(one raw window unit per nanosecond).
    pub rate_offset_q24: i32,
    /// A = log2(max/min).
    pub span_q24: u32,
    /// The increase in log2 U per unit of log2(max/rate): m in Eq. 4. `ratio`: the increase in the target, in ns with 8
    /// fractional bits.
    pub weight_q24: u32,
    /// k, the smallest target, or the target itself if it is fixed.
    pub floor_ns: u32,
    /// The decrease in log2 U per ns of delay: m·A/p, with 24 + `gain_shift` fractional bits. `ratio`: the m of Eq. 13
    /// in ns.
    pub gain: u32,
    /// The number of fractional bits in `gain` beyond 24.
    pub gain_shift: u8,
    /// The smallest window in packets.
    pub min_window_q24: u32,
    /// The largest window in whole packets.
    pub max_window: u16,
    /// The unloaded RTT.
    pub base_rtt_ns: u32,
    /// log2 of the strongest cut.
    pub min_step_q12: i16,
    /// log2 of the largest growth.
    pub max_step_q12: i16,
    /// The number of consecutive timeouts.
    pub timeouts: u8,
    /// The number of consecutive timeouts after which the window resets to the smallest.
    pub reset_after: u8,
    /// How the target falls with the rate.
    pub target: Target,
    /// How the window moves towards the target.
    pub update: Update,
    /// Which delay the law compares with the target.
    pub signal: Signal,
    /// Whether the law follows Alg. 1 literally: unbounded steps, and growth even if the flow is application-limited.
    pub strict_paper: bool,
    /// `steady`: the number of consecutive ACKs far below the target.
    pub run: u8,
    /// `steady`: how early or late the next packet leaves, as a fraction of an RTT.
    pub jitter_q8: i8,
}

impl Poseidon {
    /// Returns the flow's current state.
    pub const fn snapshot(&self) -> Snapshot {
        // This pattern has no `..`, so the compiler reports any field that is missing here.
        let Self {
            window,
            last_cut,
            rtt,
            rate_offset,
            span,
            weight,
            floor,
            gain,
            min_window,
            base_rtt,
            min_step,
            max_step,
            max_window,
            gain_shift,
            timeouts,
            reset_after,
            target,
            update,
            signal,
            strict_paper,
            // This field is derived from `target`, `update`, `signal` and `strict_paper`.
            is_variant: _,
            run,
            jitter,
        } = *self;
        Snapshot {
            window_q24: window,
            last_cut_ns: last_cut.time(),
            rtt_ns: rtt,
            rate_offset_q24: rate_offset,
            span_q24: span,
            weight_q24: weight,
            floor_ns: floor,
            gain,
            gain_shift,
            min_window_q24: min_window,
            max_window,
            base_rtt_ns: base_rtt,
            min_step_q12: min_step,
            max_step_q12: max_step,
            timeouts,
            reset_after,
            target,
            update,
            signal,
            strict_paper,
            run,
            jitter_q8: jitter,
        }
    }
}
