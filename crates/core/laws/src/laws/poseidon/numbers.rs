//! A flow as plain numbers: what a host that does not run Rust is handed when the flow starts, and what its own copy
//! of the law is held against afterwards. The law never reads them back.

use super::{Poseidon, Signal, Target, Update};

/// Every number of one flow, its state and what `new` made of the parameters. Fractional bits are in the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// The window in packets.
    pub window_q24: u64,
    /// When the window was last cut, ns on the host's clock; all ones: never.
    pub last_cut_ns: u64,
    /// The last raw RTT.
    pub rtt_ns: u32,
    /// log2(max rate) - log2(one raw window unit per nanosecond).
    pub rate_offset_q24: i32,
    /// A = log2(max/min).
    pub span_q24: u32,
    /// What one unit of log2(max/rate) adds to log2 U: m in Eq. 4. `ratio`: what it adds to the target, ns with 8
    /// fractional bits.
    pub weight_q24: u32,
    /// k, the smallest target; the target itself where it is fixed.
    pub floor_ns: u32,
    /// What one ns of delay takes from log2 U, m·A/p, with 24 + `gain_shift` fractional bits. `ratio`: its m, ns.
    pub gain: u32,
    /// See `gain`.
    pub gain_shift: u8,
    /// The smallest window in packets.
    pub min_window_q24: u32,
    /// The largest window in whole packets.
    pub max_window: u16,
    /// The unloaded RTT.
    pub base_rtt_ns: u32,
    /// log2 of the strongest cut.
    pub min_step_q12: i16,
    /// log2 of the strongest growth.
    pub max_step_q12: i16,
    /// Timeouts in a row.
    pub timeouts: u8,
    /// Timeouts in a row after which the window is the smallest.
    pub reset_after: u8,
    /// How the target falls with the rate.
    pub target: Target,
    /// How the window moves towards the target.
    pub update: Update,
    /// Which delay is held against the target.
    pub signal: Signal,
    /// Alg. 1 to the letter: steps without bounds, and growth even when the flow does not use its window.
    pub strict_paper: bool,
    /// `steady`: ACKs in a row far below the target.
    pub run: u8,
    /// `steady`: by how much of an RTT the next packet is early or late.
    pub jitter_q8: i8,
}

impl Poseidon {
    /// The flow as it is now, in plain numbers.
    pub const fn numbers(&self) -> Numbers {
        // Named one by one, so that a new field of the law is not forgotten here.
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
            // Follows from the choices and `strict_paper`.
            is_variant: _,
            run,
            jitter,
        } = *self;
        Numbers {
            window_q24: window,
            last_cut_ns: last_cut.last(),
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
