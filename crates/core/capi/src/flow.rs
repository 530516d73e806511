//! The law Poseidon alone, with numeric parameters, for NIC firmware and kernels.
//!
//! These functions use neither the registry nor text, so a linker that removes unused sections leaves only this law.

#![allow(unsafe_code, reason = "these functions take pointers from C")]
#![allow(non_camel_case_types, reason = "the names are the same in C")]

use crate::ack::{self, with_event};
use crate::border::{self, Output, status, yes_or_no};
use crate::error::{Failure, Place, Report, poseidon_status};
use crate::law::read_loss;
use crate::state;
use crate::structs::{
    poseidon_ack, poseidon_decision, poseidon_error, poseidon_loss, poseidon_path, signals_from_bits,
};
use poseidon_laws::laws::poseidon::{PoseidonParams, Signal, Target, Update};
use poseidon_laws::params::ParamError;
use poseidon_laws::registry::{self, Poseidon};
use poseidon_laws::{BuildError, Law, Path, Timeout};
use poseidon_types::{BitRate, Bytes, Fraction, Nanos, Packets, Signals};

/// Memory for the state of one flow that Poseidon controls.
#[repr(C)]
pub struct poseidon_flow {
    /// Only the library reads and writes this.
    opaque: [u64; 10],
}

// The header's constant is the size of the type.
const _: () = assert!(size_of::<poseidon_flow>() == crate::structs::POSEIDON_FLOW_SIZE);

/// Target: falls by the same amount for each doubling of the rate (Eq. 3 of the paper). The default.
pub const POSEIDON_TARGET_LOG: u8 = 0;
/// Target: falls as 1/sqrt(rate) (Eq. 18).
pub const POSEIDON_TARGET_INV_SQRT_RATE: u8 = 1;
/// Target: falls as 1/sqrt(window) (the counterexample of Fig. 23).
pub const POSEIDON_TARGET_INV_SQRT_WINDOW: u8 = 2;
/// Target: the same for every rate (the ablation of Fig. 21a).
pub const POSEIDON_TARGET_FIXED: u8 = 3;
/// Update: exponential in the distance between target and delay (Eq. 4). The default.
pub const POSEIDON_UPDATE_DISTANCE: u8 = 0;
/// Update: the window is multiplied by (T + m)/(delay + m) (Eq. 13).
pub const POSEIDON_UPDATE_RATIO: u8 = 1;
/// Update: one packet per round trip up, Eq. 4 down (the ablation of Fig. 21a).
pub const POSEIDON_UPDATE_AIMD: u8 = 2;
/// Update: Eq. 4 with smaller steps below two packets per round trip. Not in the paper.
pub const POSEIDON_UPDATE_STEADY: u8 = 3;
/// Delay: the largest at any hop on the data path. The default.
pub const POSEIDON_DELAY_MAX_HOP: u8 = 0;
/// Delay: the queueing delay of the whole round trip.
pub const POSEIDON_DELAY_RTT: u8 = 1;
/// Delay: the larger of the worst reported hop delay and the delay that no hop reported (section 4.1).
pub const POSEIDON_DELAY_BROWNFIELD: u8 = 2;

/// Poseidon's parameters as numbers. Start with poseidon_flow_params_default and change what differs.
///
/// Factors and gains have 32 fractional bits: POSEIDON_ONE is 1. Windows have 24: POSEIDON_ONE_PACKET is one packet.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct poseidon_flow_params {
    /// sizeof(poseidon_flow_params).
    pub struct_size: u32,
    /// The number of consecutive timeouts after which the window resets to the smallest: 1 to 255.
    pub reset_after: u32,
    /// p: the range of the target between max_rate and min_rate: 2 us to 1 s.
    pub target_range_ns: u64,
    /// k: the smallest target, used at max_rate and above: 1 ns to 1 s.
    pub target_floor_ns: u64,
    /// m: the share of the logarithmic distance to the fair rate that a round trip covers: 0.001 to 2.
    pub step_q32: u64,
    /// The rate at which the target is largest: above zero, at most a quarter of max_rate.
    pub min_rate_bps: u64,
    /// The rate at which the target is smallest: the line rate of the fabric's fastest NIC. The same for all flows.
    pub max_rate_bps: u64,
    /// The strongest cut: 0.01 to 0.99.
    pub min_decrease_q32: u64,
    /// The largest growth per window: 1.01 to 16.
    pub max_increase_q32: u64,
    /// The initial window: between the smallest and the largest window.
    pub initial_window_q24: u64,
    /// The smallest window: 0.001 to 1 packets.
    pub min_window_q24: u64,
    /// The largest window: 1 to 32768 packets, whole.
    pub max_window_q24: u64,
    /// The target of POSEIDON_TARGET_FIXED: 1 ns to 1 s.
    pub fixed_target_ns: u64,
    /// The network-wide round-trip time of POSEIDON_TARGET_INV_SQRT_WINDOW: 1 ns to 4.29 s.
    pub window_rtt_ns: u64,
    /// The m of POSEIDON_UPDATE_RATIO: at most 1 s.
    pub ratio_delay_ns: u64,
    /// One of the POSEIDON_TARGET_... constants.
    pub target: u8,
    /// One of the POSEIDON_UPDATE_... constants.
    pub update: u8,
    /// One of the POSEIDON_DELAY_... constants.
    pub delay: u8,
    /// 1 to follow Alg. 1 of the paper literally, else 0.
    pub strict_paper: u8,
    /// Zero.
    pub reserved: u32,
}
border::first_version!(poseidon_flow_params);

impl poseidon_flow_params {
    pub(crate) const ZERO: Self = Self {
        struct_size: 0,
        reset_after: 0,
        target_range_ns: 0,
        target_floor_ns: 0,
        step_q32: 0,
        min_rate_bps: 0,
        max_rate_bps: 0,
        min_decrease_q32: 0,
        max_increase_q32: 0,
        initial_window_q24: 0,
        min_window_q24: 0,
        max_window_q24: 0,
        fixed_target_ns: 0,
        window_rtt_ns: 0,
        ratio_delay_ns: 0,
        target: 0,
        update: 0,
        delay: 0,
        strict_paper: 0,
        reserved: 0,
    };

    /// Converts the law's parameters. Takes every field, so that a new parameter cannot be forgotten.
    fn from_params(params: &PoseidonParams) -> Self {
        let PoseidonParams {
            target_range,
            target_floor,
            step,
            min_rate,
            max_rate,
            min_decrease,
            max_increase,
            initial_window,
            min_window,
            max_window,
            reset_after,
            target,
            update,
            signal,
            fixed_target,
            window_rtt,
            ratio_delay,
            strict_paper,
        } = *params;
        Self {
            struct_size: 0,
            reset_after,
            target_range_ns: target_range.get(),
            target_floor_ns: target_floor.get(),
            step_q32: step.q32(),
            min_rate_bps: min_rate.get(),
            max_rate_bps: max_rate.get(),
            min_decrease_q32: min_decrease.q32(),
            max_increase_q32: max_increase.q32(),
            initial_window_q24: initial_window.q24(),
            min_window_q24: min_window.q24(),
            max_window_q24: max_window.q24(),
            fixed_target_ns: fixed_target.get(),
            window_rtt_ns: window_rtt.get(),
            ratio_delay_ns: ratio_delay.get(),
            target: match target {
                Target::Log => POSEIDON_TARGET_LOG,
                Target::InvSqrtRate => POSEIDON_TARGET_INV_SQRT_RATE,
                Target::InvSqrtWindow => POSEIDON_TARGET_INV_SQRT_WINDOW,
                Target::Fixed => POSEIDON_TARGET_FIXED,
            },
            update: match update {
                Update::Distance => POSEIDON_UPDATE_DISTANCE,
                Update::Ratio => POSEIDON_UPDATE_RATIO,
                Update::Aimd => POSEIDON_UPDATE_AIMD,
                Update::Steady => POSEIDON_UPDATE_STEADY,
            },
            delay: match signal {
                Signal::MaxHopDelay => POSEIDON_DELAY_MAX_HOP,
                Signal::Rtt => POSEIDON_DELAY_RTT,
                Signal::Brownfield => POSEIDON_DELAY_BROWNFIELD,
            },
            strict_paper: u8::from(strict_paper),
            reserved: 0,
        }
    }

    /// Converts to the law's parameters, which the law checks.
    fn to_params(self) -> Result<PoseidonParams, Failure> {
        if self.reserved != 0 || self.strict_paper > 1 {
            return Err(Failure::UnknownFlags);
        }
        Ok(PoseidonParams {
            target_range: Nanos::new(self.target_range_ns),
            target_floor: Nanos::new(self.target_floor_ns),
            step: Fraction::from_q32(self.step_q32),
            min_rate: BitRate::from_bps(self.min_rate_bps),
            max_rate: BitRate::from_bps(self.max_rate_bps),
            min_decrease: Fraction::from_q32(self.min_decrease_q32),
            max_increase: Fraction::from_q32(self.max_increase_q32),
            initial_window: Packets::from_q24(self.initial_window_q24),
            min_window: Packets::from_q24(self.min_window_q24),
            max_window: Packets::from_q24(self.max_window_q24),
            reset_after: self.reset_after,
            target: match self.target {
                POSEIDON_TARGET_LOG => Target::Log,
                POSEIDON_TARGET_INV_SQRT_RATE => Target::InvSqrtRate,
                POSEIDON_TARGET_INV_SQRT_WINDOW => Target::InvSqrtWindow,
                POSEIDON_TARGET_FIXED => Target::Fixed,
                _ => return Err(Failure::Value),
            },
            update: match self.update {
                POSEIDON_UPDATE_DISTANCE => Update::Distance,
                POSEIDON_UPDATE_RATIO => Update::Ratio,
                POSEIDON_UPDATE_AIMD => Update::Aimd,
                POSEIDON_UPDATE_STEADY => Update::Steady,
                _ => return Err(Failure::Value),
            },
            signal: match self.delay {
                POSEIDON_DELAY_MAX_HOP => Signal::MaxHopDelay,
                POSEIDON_DELAY_RTT => Signal::Rtt,
                POSEIDON_DELAY_BROWNFIELD => Signal::Brownfield,
                _ => return Err(Failure::Value),
            },
            fixed_target: Nanos::new(self.fixed_target_ns),
            window_rtt: Nanos::new(self.window_rtt_ns),
            ratio_delay: Nanos::new(self.ratio_delay_ns),
            strict_paper: self.strict_paper != 0,
        })
    }
}

/// Writes the parameters of the paper's evaluation on 200 Gbps links. params.struct_size must be set.
///
/// # Safety
///
/// params must be null or point to a poseidon_flow_params.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_flow_params_default(params: *mut poseidon_flow_params) -> poseidon_status {
    // SAFETY: the caller guarantees the struct.
    let output = unsafe { Output::new(params) };
    status(output.map(|output| {
        output.write(&poseidon_flow_params::from_params(&PoseidonParams::default()));
    }))
}

/// Starts a flow that Poseidon controls.
///
/// flow: the memory; it may hold anything. size: its size, sizeof(poseidon_flow). params: null for the defaults.
/// signals: the POSEIDON_SIGNAL_... bits that the host supplies. error: null, or where to write what is wrong.
///
/// # Safety
///
/// The pointers must be null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_flow_init(
    flow: *mut poseidon_flow,
    size: usize,
    params: *const poseidon_flow_params,
    path: *const poseidon_path,
    signals: u32,
    error: *mut poseidon_error,
) -> poseidon_status {
    // SAFETY: the caller guarantees the pointer.
    if let Err(failure) = unsafe { border::check_error(error) } {
        return failure.code();
    }
    let memory = flow.cast::<u8>();
    let built = state::check_memory::<Poseidon>(memory, size).map_err(Report::from).and_then(|()| {
        // SAFETY: the caller guarantees the pointers.
        unsafe { build(params, path, signals) }
    });
    // SAFETY: the caller guarantees `size` bytes.
    let stored = built.and_then(|law| unsafe { state::store(memory, size, law) }.map_err(Report::from));
    match stored {
        Ok(()) => 0,
        // SAFETY: the caller guarantees the pointer.
        Err(report) => unsafe { border::fail(&report, error) },
    }
}

/// Builds the law from the arguments of [`poseidon_flow_init`].
///
/// # Safety
///
/// As for [`poseidon_flow_init`].
unsafe fn build(
    params: *const poseidon_flow_params,
    path: *const poseidon_path,
    signals: u32,
) -> Result<Poseidon, Report> {
    let params = if params.is_null() {
        PoseidonParams::default()
    } else {
        // SAFETY: the caller guarantees the struct.
        unsafe { border::read(params) }?.to_params()?
    };
    // SAFETY: the caller guarantees the struct.
    let path = unsafe { border::read(path) }?;
    if path.reserved != 0 {
        return Err(Failure::UnknownFlags.into());
    }
    build_law(&params, &path.to_path(), signals_from_bits(signals)?)
}

/// Builds the law. Describes an error without `core::fmt`, which would be larger than the law.
fn build_law(params: &PoseidonParams, path: &Path, supplied: Signals) -> Result<Poseidon, Report> {
    registry::build::<Poseidon>(params, path, supplied).map_err(|error| match error {
        BuildError::Param { error: ParamError::OutOfRange { name, requirement }, .. } => {
            let mut report = Report::empty(Failure::Range, Place::default());
            for part in [name, " must be ", requirement] {
                report.message.push(part.as_bytes());
            }
            report
        }
        BuildError::Param { .. } => Failure::Range.into(),
        BuildError::Path(_) => Failure::Path.into(),
        BuildError::MissingSignals { .. } => Failure::MissingSignals.into(),
        _ => Failure::Value.into(),
    })
}

/// Ends a flow: marks its state as not initialised, so that later calls are refused. The memory belongs to the caller.
///
/// # Safety
///
/// flow must be null or point to a poseidon_flow.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_flow_destroy(flow: *mut poseidon_flow) -> poseidon_status {
    // SAFETY: the caller guarantees the pointer.
    status(unsafe { state::destroy::<Poseidon>(flow.cast()) })
}

/// Processes an ACK. Poseidon reads no hop records: set hops to null. Ask for the decision afterwards.
///
/// # Safety
///
/// flow must be null or point to a poseidon_flow; ack must be null or point to a poseidon_ack that is as large as its
/// struct_size says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_flow_on_ack(
    flow: *mut poseidon_flow,
    ack: *const poseidon_ack,
) -> poseidon_status {
    // SAFETY: the caller guarantees the pointers.
    unsafe { ack::process::<Poseidon>(flow.cast(), ack) }
}

/// Reacts to packet loss. Call it once when the flow enters fast recovery, not once per lost packet.
///
/// # Safety
///
/// flow must be null or point to a poseidon_flow; loss must be null or point to a poseidon_loss.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_flow_on_loss(
    flow: *mut poseidon_flow,
    loss: *const poseidon_loss,
) -> poseidon_status {
    // SAFETY: the caller guarantees the pointer.
    let law = unsafe { state::law_mut::<Poseidon>(flow.cast()) };
    // SAFETY: the caller guarantees the struct.
    status(law.and_then(|law| unsafe { read_loss(loss) }.map(|loss| law.on_loss(&loss))))
}

/// Reacts to a retransmission timeout at the time now_ns.
///
/// # Safety
///
/// flow must be null or point to a poseidon_flow.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_flow_on_timeout(flow: *mut poseidon_flow, now_ns: u64) -> poseidon_status {
    // SAFETY: the caller guarantees the pointer.
    let law = unsafe { state::law_mut::<Poseidon>(flow.cast()) };
    status(law.map(|law| law.on_timeout(&Timeout { now: Nanos::new(now_ns), bytes: Bytes::ZERO })))
}

/// Writes how much the flow may send now, and how fast.
///
/// # Safety
///
/// flow must be null or point to a poseidon_flow; decision must be null or point to a poseidon_decision.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_flow_decision(
    flow: *const poseidon_flow,
    decision: *mut poseidon_decision,
) -> poseidon_status {
    // SAFETY: the caller guarantees the pointer.
    let law = unsafe { state::law::<Poseidon>(flow.cast()) };
    status(law.and_then(|law| {
        // SAFETY: the caller guarantees the struct.
        let output = unsafe { Output::new(decision) }?;
        output.write(&poseidon_decision::new(&law.decision()));
        Ok(())
    }))
}

/// Returns 1 if the ACK's delay is above the target, 0 if not, or an error. Call it after poseidon_flow_on_ack with the
/// same ACK.
///
/// # Safety
///
/// As for poseidon_flow_on_ack; hops must point to hop_record_count records.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_flow_is_congested(
    flow: *const poseidon_flow,
    ack: *const poseidon_ack,
) -> poseidon_status {
    // SAFETY: the caller guarantees the pointer.
    let law = unsafe { state::law::<Poseidon>(flow.cast()) };
    // SAFETY: the caller guarantees the struct.
    yes_or_no(law.and_then(|law| unsafe { with_event(ack, true, |ack| law.is_congested(ack)) }))
}

/// Writes the target delay at the current window.
///
/// # Safety
///
/// flow must be null or point to a poseidon_flow; target_ns must be null or point to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_flow_target(
    flow: *const poseidon_flow,
    target_ns: *mut u64,
) -> poseidon_status {
    // SAFETY: the caller guarantees the pointer.
    let law = unsafe { state::law::<Poseidon>(flow.cast()) };
    // SAFETY: the caller guarantees the pointer.
    status(law.and_then(|law| unsafe { border::write_plain(target_ns, law.target_delay().get()) }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_laws::params::Params;
    use poseidon_testkit::operations::random_params;
    use poseidon_testkit::rng::SplitMix64;

    #[test]
    fn numeric_parameters_convert_both_ways() {
        let mut rng = SplitMix64::new(1);
        for _ in 0..2_000 {
            let params: PoseidonParams = random_params(|below| rng.index(below));
            assert_eq!(poseidon_flow_params::from_params(&params).to_params(), Ok(params));
        }
    }

    #[test]
    fn unknown_choices_are_refused() {
        let valid = poseidon_flow_params::from_params(&PoseidonParams::default());
        let value = Err(Failure::Value);
        assert_eq!(poseidon_flow_params { target: 4, ..valid }.to_params(), value);
        assert_eq!(poseidon_flow_params { update: 4, ..valid }.to_params(), value);
        assert_eq!(poseidon_flow_params { delay: 3, ..valid }.to_params(), value);
        assert_eq!(poseidon_flow_params { strict_paper: 2, ..valid }.to_params(), Err(Failure::UnknownFlags));
        assert_eq!(poseidon_flow_params { reserved: 1, ..valid }.to_params(), Err(Failure::UnknownFlags));
    }

    #[test]
    fn message_names_the_parameter_and_its_range() {
        let params = PoseidonParams { step: Fraction::ratio(3, 1), ..PoseidonParams::default() };
        let path = Path::new(Bytes::new(4_096), BitRate::from_gbps(200), Nanos::new(9_900));
        let report = build_law(&params, &path, Signals::ALL).expect_err("the step is out of range");
        let expected = b"step must be at least 0.001 and below 2 (Eq. 2)";
        assert_eq!((report.failure, report.message.as_bytes()), (Failure::Range, &expected[..]));
        assert!(params.check().is_err());
    }
}
