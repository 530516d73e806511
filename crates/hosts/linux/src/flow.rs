//! A flow as `bpf/law.h` has it: 64 bytes that C is handed when the flow starts.
//!
//! Parameters are text with units, and logarithms of rates are computed bit by bit: both happen in Rust, once per flow. C
//! copies the outcome and never sees a parameter.

use core::fmt;
use poseidon_laws::laws::poseidon::{Numbers, Poseidon, Signal, Target, Update};
use poseidon_laws::parts::fixed_math::{Q, log2};
use poseidon_types::{Nanos, Packets};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `struct poseidon_flow`, field by field; what they mean is written there.
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

/// Why a law has no form in C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unsupported {
    /// Neither Eq. 3 nor a fixed target.
    Target(Target),
    /// Neither Eq. 4 nor `steady`.
    Update(Update),
}

impl TryFrom<&Poseidon> for Flow {
    type Error = Unsupported;

    fn try_from(law: &Poseidon) -> Result<Self, Unsupported> {
        let numbers = law.numbers();
        match numbers.target {
            // A fixed target is Eq. 3 with a weight of zero, which the law has set.
            Target::Log | Target::Fixed => {}
            other => return Err(Unsupported::Target(other)),
        }
        let update = match numbers.update {
            Update::Distance => 0,
            Update::Steady => 1,
            other => return Err(Unsupported::Update(other)),
        };
        Ok(Self::with(&numbers, update))
    }
}

impl Flow {
    /// The window, which may be below one packet.
    pub const fn window(&self) -> Packets {
        Packets::from_q24(self.window)
    }

    /// The last raw round-trip time.
    pub fn rtt(&self) -> Nanos {
        Nanos::new(u64::from(self.rtt))
    }

    /// The round-trip time of the unloaded path.
    pub fn base_rtt(&self) -> Nanos {
        Nanos::new(u64::from(self.base_rtt))
    }

    /// The delay that is held against the target now; a host may change it while the flow lives.
    pub const fn signal(&self) -> Signal {
        match self.signal {
            0 => Signal::MaxHopDelay,
            1 => Signal::Rtt,
            _ => Signal::Brownfield,
        }
    }

    /// What depends on the size of packets, and nothing else does: log2(max rate) - log2(one raw window unit per nanosecond).
    pub const fn rate_offset(&self) -> i32 {
        self.rate_offset
    }

    /// T(rate) at the present window and RTT, rounded down, as [`Poseidon::target_delay`] has it.
    pub fn target_delay(&self) -> Nanos {
        let behind = i64::from(self.rate_offset) - log2(self.window) + log2(u64::from(self.rtt));
        let behind = behind.clamp(0, i64::from(self.span)).cast_unsigned();
        let above = ((behind * u64::from(self.weight)) >> Q << self.gain_shift) / u64::from(self.gain.max(1));
        Nanos::new(above + u64::from(self.floor))
    }

    const fn with(numbers: &Numbers, update: u8) -> Self {
        Self {
            window: numbers.window_q24,
            last_cut: numbers.last_cut_ns,
            rtt: numbers.rtt_ns,
            rate_offset: numbers.rate_offset_q24,
            span: numbers.span_q24,
            weight: numbers.weight_q24,
            floor: numbers.floor_ns,
            gain: numbers.gain,
            min_window: numbers.min_window_q24,
            base_rtt: numbers.base_rtt_ns,
            min_step: numbers.min_step_q12,
            max_step: numbers.max_step_q12,
            max_window: numbers.max_window,
            gain_shift: numbers.gain_shift,
            timeouts: numbers.timeouts,
            reset_after: numbers.reset_after,
            update,
            signal: match numbers.signal {
                Signal::MaxHopDelay => 0,
                Signal::Rtt => 1,
                Signal::Brownfield => 2,
            },
            strict_paper: numbers.strict_paper as u8,
            run: numbers.run,
            jitter: numbers.jitter_q8,
            unused: [0; 2],
        }
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, value, instead): (_, &dyn fmt::Display, _) = match self {
            Self::Target(target) => ("target", target, "\"log\" or \"fixed\""),
            Self::Update(update) => ("update", update, "\"distance\" or \"steady\""),
        };
        write!(f, "{name} \"{value}\" is not in bpf/law.h; set {name} to {instead}, or use the simulator")
    }
}

impl core::error::Error for Unsupported {}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_laws::laws::poseidon::PoseidonParams;
    use poseidon_laws::{Ack, Law, Path};
    use poseidon_types::{BitRate, Bytes};

    #[test]
    fn a_flow_that_is_read_back_has_the_target_of_the_law() {
        let line_rate = BitRate::from_gbps(100);
        let path = Path { mtu: Bytes::new(1_448), line_rate, base_rtt: Nanos::from_micros(20) };
        for target in [Target::Log, Target::Fixed] {
            let params = PoseidonParams { target, ..PoseidonParams::default() };
            let mut law = Poseidon::new(&params, &path);
            for round in 0..2_000 {
                // From far below the target to far above it, so that windows of all sizes come by.
                let delay = Nanos::new(round % 100 * 1_000);
                let rtt = Nanos::new(20_000 + round * 997);
                let max_hop_delay = Some(delay);
                law.on_ack(&Ack { now: rtt * round, rtt, packets: 1, max_hop_delay, ..Ack::EMPTY });
                let flow = Flow::try_from(&law).expect("in C");
                assert_eq!(flow.target_delay(), law.target_delay(), "{target} after {round} rounds");
                assert_eq!((flow.rtt(), flow.window()), (rtt, law.decision().window));
            }
        }
    }

    #[test]
    fn what_is_not_in_c_is_refused_with_what_to_set_instead() {
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
            let said = refusal(target, Update::Distance).expect("refused");
            let expected = "is not in bpf/law.h; set target to \"log\" or \"fixed\", or use the simulator";
            assert_eq!(said, format!("target \"{target}\" {expected}"));
        }
        for update in [Update::Ratio, Update::Aimd] {
            let said = refusal(Target::Log, update).expect("refused");
            let expected =
                "is not in bpf/law.h; set update to \"distance\" or \"steady\", or use the simulator";
            assert_eq!(said, format!("update \"{update}\" {expected}"));
        }
    }
}
