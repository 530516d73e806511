//! The flow state that `bpf/law.h` uses: 64 bytes, which Rust computes when the flow starts.
//!
//! Rust parses the parameters and computes the rate logarithms once per flow. The C code copies the result and never
//! reads a parameter.

use core::fmt;
use poseidon_laws::fixed_math::{Q, log2};
use poseidon_laws::laws::poseidon::{Poseidon, Signal, Snapshot, Target, Update};
use poseidon_types::{Nanos, Packets};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The Rust counterpart of `struct poseidon_flow`, which documents the fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Flow {
    window: u64,
    last_cut: u64,
    rtt: u32,
    rate_offset: i32,
    span: u32,
    weight: u32,
    floor: u32,
    gain: u32,
    min_window: u32,
    base_rtt: u32,
    min_step: i16,
    max_step: i16,
    max_window: u16,
    gain_shift: u8,
    timeouts: u8,
    reset_after: u8,
    update: u8,
    signal: u8,
    strict_paper: u8,
    run: u8,
    jitter: i8,
    unused: [u8; 2],
}

/// Why the C port does not support a law.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnsupportedLaw {
    /// The target is neither Eq. 3 nor fixed.
    Target(Target),
    /// The update is neither Eq. 4 nor `steady`.
    Update(Update),
}

impl TryFrom<&Poseidon> for Flow {
    type Error = UnsupportedLaw;

    fn try_from(law: &Poseidon) -> Result<Self, UnsupportedLaw> {
        let snapshot = law.snapshot();
        match snapshot.target {
            // The law represents a fixed target as Eq. 3 with a weight of zero.
            Target::Log | Target::Fixed => {}
            other => return Err(UnsupportedLaw::Target(other)),
        }
        let update = match snapshot.update {
            Update::Distance => 0,
            Update::Steady => 1,
            other => return Err(UnsupportedLaw::Update(other)),
        };
        Ok(Self::from_snapshot(&snapshot, update))
    }
}

impl Flow {
    /// Returns the window, which may be below one packet.
    pub const fn window(&self) -> Packets {
        Packets::from_q24(self.window)
    }

    /// Returns the last raw round-trip time.
    pub fn rtt(&self) -> Nanos {
        Nanos::new(u64::from(self.rtt))
    }

    /// Returns the round-trip time of the unloaded path.
    pub fn base_rtt(&self) -> Nanos {
        Nanos::new(u64::from(self.base_rtt))
    }

    /// Returns the signal that is compared with the target. A host may change the signal during a flow.
    pub const fn signal(&self) -> Signal {
        match self.signal {
            0 => Signal::MaxHopDelay,
            1 => Signal::Rtt,
            _ => Signal::Brownfield,
        }
    }

    /// Returns log2(max rate) - log2(one raw window unit per ns). No other field depends on the packet size.
    pub const fn rate_offset(&self) -> i32 {
        self.rate_offset
    }

    /// Returns T(rate) at the current window and RTT, rounded down like [`Poseidon::target_delay`].
    pub fn target_delay(&self) -> Nanos {
        let log_ratio = i64::from(self.rate_offset) - log2(self.window) + log2(u64::from(self.rtt));
        let log_ratio = log_ratio.clamp(0, i64::from(self.span)).cast_unsigned();
        let above_floor =
            ((log_ratio * u64::from(self.weight)) >> Q << self.gain_shift) / u64::from(self.gain.max(1));
        Nanos::new(above_floor + u64::from(self.floor))
    }

    const fn from_snapshot(snapshot: &Snapshot, update: u8) -> Self {
        Self {
            window: snapshot.window_q24,
            last_cut: snapshot.last_cut_ns,
            rtt: snapshot.rtt_ns,
            rate_offset: snapshot.rate_offset_q24,
            span: snapshot.span_q24,
            weight: snapshot.weight_q24,
            floor: snapshot.floor_ns,
            gain: snapshot.gain,
            min_window: snapshot.min_window_q24,
            base_rtt: snapshot.base_rtt_ns,
            min_step: snapshot.min_step_q12,
            max_step: snapshot.max_step_q12,
            max_window: snapshot.max_window,
            gain_shift: snapshot.gain_shift,
            timeouts: snapshot.timeouts,
            reset_after: snapshot.reset_after,
            update,
            signal: match snapshot.signal {
                Signal::MaxHopDelay => 0,
                Signal::Rtt => 1,
                Signal::Brownfield => 2,
            },
            strict_paper: snapshot.strict_paper as u8,
            run: snapshot.run,
            jitter: snapshot.jitter_q8,
            unused: [0; 2],
        }
    }
}

impl fmt::Display for UnsupportedLaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, value, alternatives): (_, &dyn fmt::Display, _) = match self {
            Self::Target(target) => ("target", target, "\"log\" or \"fixed\""),
            Self::Update(update) => ("update", update, "\"distance\" or \"steady\""),
        };
        write!(
            f,
            "{name} \"{value}\" is not in bpf/law.h; set {name} to {alternatives}, or use the simulator"
        )
    }
}

impl core::error::Error for UnsupportedLaw {}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_laws::laws::poseidon::PoseidonParams;
    use poseidon_laws::{Ack, Law, LawDefinition, Path};
    use poseidon_types::{BitRate, Bytes};

    #[test]
    fn flow_has_the_target_delay_of_the_law() {
        let line_rate = BitRate::from_gbps(100);
        let path = Path { mtu: Bytes::new(1_448), line_rate, base_rtt: Nanos::from_micros(20) };
        for target in [Target::Log, Target::Fixed] {
            let params = PoseidonParams { target, ..PoseidonParams::default() };
            let mut law = Poseidon::new(&params, &path);
            for round in 0..2_000 {
                // Delays from far below to far above the target produce windows of all sizes.
                let delay = Nanos::new(round % 100 * 1_000);
                let rtt = Nanos::new(20_000 + round * 997);
                let max_hop_delay = Some(delay);
                law.on_ack(&Ack { now: rtt * round, rtt, packets: 1, max_hop_delay, ..Ack::EMPTY });
                let flow = Flow::try_from(&law).expect("the C port supports the law");
                assert_eq!(flow.target_delay(), law.target_delay(), "{target} after {round} rounds");
                assert_eq!((flow.rtt(), flow.window()), (rtt, law.decision().window));
            }
        }
    }

    #[test]
    fn unsupported_laws_are_refused_with_an_alternative() {
        let line_rate = BitRate::from_gbps(100);
        let path = Path { mtu: Bytes::new(1_448), line_rate, base_rtt: Nanos::from_micros(20) };
        let refusal = |target, update| {
            let params = PoseidonParams { target, update, ..PoseidonParams::default() };
            Flow::try_from(&Poseidon::new(&params, &path)).err().map(|error| error.to_string())
        };
        assert_eq!(refusal(Target::Log, Update::Distance), None);
        assert_eq!(refusal(Target::Fixed, Update::Distance), None);
        assert_eq!(refusal(Target::Log, Update::Steady), None);
        for target in [Target::InvSqrtRate, Target::InvSqrtWindow] {
            let error = refusal(target, Update::Distance).expect("the C port does not support the law");
            let expected = "is not in bpf/law.h; set target to \"log\" or \"fixed\", or use the simulator";
            assert_eq!(error, format!("target \"{target}\" {expected}"));
        }
        for update in [Update::Ratio, Update::Aimd] {
            let error = refusal(Target::Log, update).expect("the C port does not support the law");
            let expected =
                "is not in bpf/law.h; set update to \"distance\" or \"steady\", or use the simulator";
            assert_eq!(error, format!("update \"{update}\" {expected}"));
        }
    }
}
