//! Every law gives the same decisions through the C functions as through `AnyLaw`, on random operations.
//!
//! A list has up to 40 operations on one law with random parameters, which the C side gets as text. After every operation,
//! the decision and all other answers are compared bit for bit. The ordinary test runs 10^3 lists per law; the ignored
//! test runs 10^5.

#![allow(unsafe_code, reason = "the tests call the C functions")]

use core::mem::MaybeUninit;
use poseidon_capi::flow::{
    poseidon_flow, poseidon_flow_decision, poseidon_flow_init, poseidon_flow_is_congested,
    poseidon_flow_on_ack, poseidon_flow_on_loss, poseidon_flow_on_timeout, poseidon_flow_params,
    poseidon_flow_params_default, poseidon_flow_target,
};
use poseidon_capi::law::{
    poseidon_law, poseidon_law_decision, poseidon_law_delay_signal, poseidon_law_destroy, poseidon_law_init,
    poseidon_law_is_congested, poseidon_law_on_ack, poseidon_law_on_loss, poseidon_law_on_timeout,
    poseidon_law_on_timeout_event, poseidon_law_on_trim, poseidon_law_target,
};
use poseidon_capi::structs::{
    POSEIDON_ACK_APP_LIMITED, POSEIDON_ACK_CIRCUIT_UP, POSEIDON_ACK_MAX_HOP_DELAY,
    POSEIDON_ACK_REVERSE_MAX_HOP_DELAY, POSEIDON_ACK_RTT_AMBIGUOUS, POSEIDON_PACING_GAP, POSEIDON_PACING_OFF,
    POSEIDON_PACING_RATE, POSEIDON_TRIM_LAST_HOP, POSEIDON_TRIM_RTT, poseidon_ack, poseidon_decision,
    poseidon_delay_signal, poseidon_hop, poseidon_loss, poseidon_path, poseidon_timeout, poseidon_trim,
};
use poseidon_laws::law::DelaySignal;
use poseidon_laws::laws::poseidon::PoseidonParams;
use poseidon_laws::params::Params;
use poseidon_laws::registry::{self, Poseidon};
use poseidon_laws::{Ack, AnyLaw, AnyParams, Decision, LAWS, Law, LawDefinition, Pacing, Path, Trim};
use poseidon_testkit::operations::{Operation, apply, random_operations, random_params};
use poseidon_testkit::rng::SplitMix64;
use poseidon_types::{BitRate, Bytes, CounterWrap, HopPath, HopRecord, Nanos, Packets, Signals};
use std::ffi::CString;

const ALL_SIGNALS: u32 = 255;

/// A flow that C code would run. The state lies in memory that was not initialised.
struct CLaw(Box<MaybeUninit<poseidon_law>>);

impl CLaw {
    fn new(name: &str, params: &str, path: &Path) -> Self {
        let mut law = Box::new(MaybeUninit::uninit());
        let name = CString::new(name).expect("the name has no zero byte");
        let params = CString::new(params).expect("the text has no zero byte");
        let path = c_path(path);
        // SAFETY: all pointers are valid.
        let status = unsafe {
            poseidon_law_init(
                law.as_mut_ptr(),
                size_of::<poseidon_law>(),
                name.as_ptr(),
                params.as_ptr(),
                &raw const path,
                ALL_SIGNALS,
                core::ptr::null_mut(),
            )
        };
        assert_eq!(status, 0, "{name:?} {params:?}");
        Self(law)
    }

    fn apply(&mut self, operation: &Operation) {
        let law = self.0.as_mut_ptr();
        let status = match operation {
            Operation::Ack(event) => {
                let (ack, stack, wrap) = &**event;
                let hops = c_hops(stack.as_slice());
                let ack = c_ack(ack, &hops, *wrap);
                // SAFETY: all pointers are valid.
                unsafe { poseidon_law_on_ack(law, &raw const ack) }
            }
            Operation::Loss(loss) => {
                let loss = poseidon_loss {
                    struct_size: size_u32::<poseidon_loss>(),
                    reserved: 0,
                    now_ns: loss.now.get(),
                };
                // SAFETY: all pointers are valid.
                unsafe { poseidon_law_on_loss(law, &raw const loss) }
            }
            // SAFETY: the pointer is valid.
            Operation::Timeout(timeout) if timeout.bytes.is_zero() => unsafe {
                poseidon_law_on_timeout(law, timeout.now.get())
            },
            Operation::Timeout(timeout) => {
                let timeout = poseidon_timeout {
                    struct_size: size_u32::<poseidon_timeout>(),
                    reserved: 0,
                    now_ns: timeout.now.get(),
                    bytes: timeout.bytes.get(),
                };
                // SAFETY: all pointers are valid.
                unsafe { poseidon_law_on_timeout_event(law, &raw const timeout) }
            }
            Operation::Trim(trim) => {
                let trim = c_trim(trim);
                // SAFETY: all pointers are valid.
                unsafe { poseidon_law_on_trim(law, &raw const trim) }
            }
        };
        assert_eq!(status, 0);
    }

    fn decision(&self) -> Decision {
        let mut decision = empty_decision();
        // SAFETY: all pointers are valid.
        assert_eq!(unsafe { poseidon_law_decision(self.0.as_ptr(), &raw mut decision) }, 0);
        to_decision(&decision)
    }

    fn is_congested(&self, ack: &poseidon_ack) -> bool {
        // SAFETY: all pointers are valid.
        to_bool(unsafe { poseidon_law_is_congested(self.0.as_ptr(), ack) })
    }

    fn delay_signal(&self, ack: &poseidon_ack) -> Option<DelaySignal> {
        let mut signal = poseidon_delay_signal {
            struct_size: size_u32::<poseidon_delay_signal>(),
            within_target: 7,
            delay_ns: 7,
            limit_ns: 7,
        };
        // SAFETY: all pointers are valid.
        let found = unsafe { poseidon_law_delay_signal(self.0.as_ptr(), ack, &raw mut signal) };
        to_bool(found).then(|| DelaySignal {
            delay: Nanos::new(signal.delay_ns),
            within_target: to_bool(i32::try_from(signal.within_target).expect("the flag is small")),
            limit: Nanos::new(signal.limit_ns),
        })
    }

    fn target(&self, hop_count: u8) -> Option<Nanos> {
        let mut target = 0;
        // SAFETY: all pointers are valid.
        let found = unsafe { poseidon_law_target(self.0.as_ptr(), hop_count, &raw mut target) };
        to_bool(found).then(|| Nanos::new(target))
    }
}

impl Drop for CLaw {
    fn drop(&mut self) {
        // SAFETY: the pointer is valid.
        assert_eq!(unsafe { poseidon_law_destroy(self.0.as_mut_ptr()) }, 0);
        // SAFETY: as above.
        assert!(unsafe { poseidon_law_on_timeout(self.0.as_mut_ptr(), 0) } < 0, "the flow has ended");
    }
}

fn size_u32<T>() -> u32 {
    u32::try_from(size_of::<T>()).expect("the struct is small")
}

fn to_bool(status: i32) -> bool {
    assert!(status == 0 || status == 1, "status {status}");
    status == 1
}

fn c_path(path: &Path) -> poseidon_path {
    poseidon_path {
        struct_size: size_u32::<poseidon_path>(),
        reserved: 0,
        mtu_bytes: path.mtu.get(),
        line_rate_bps: path.line_rate.get(),
        base_rtt_ns: path.base_rtt.get(),
    }
}

fn c_hops(records: &[HopRecord]) -> Vec<poseidon_hop> {
    let hop = |record: &HopRecord| poseidon_hop {
        timestamp_ns: record.timestamp.get(),
        sent_bytes: record.sent.get(),
        queue_bytes: record.queue.get(),
        rate_bps: record.rate.get(),
    };
    records.iter().map(hop).collect()
}

/// Converts an ACK. Takes every field, so that a new field cannot be forgotten.
fn c_ack(ack: &Ack<'_>, hops: &[poseidon_hop], wrap: CounterWrap) -> poseidon_ack {
    let Ack {
        now,
        rtt,
        packets,
        bytes,
        marked,
        in_flight,
        rtt_ambiguous,
        acked_seq,
        next_seq,
        max_hop_delay,
        reverse_max_hop_delay,
        hops: _,
        endpoint_delay,
        hop_count,
        circuit_up,
        app_limited,
        random,
    } = *ack;
    let flag = |set: bool, bit: u16| if set { bit } else { 0 };
    poseidon_ack {
        struct_size: size_u32::<poseidon_ack>(),
        flags: flag(max_hop_delay.is_some(), POSEIDON_ACK_MAX_HOP_DELAY)
            | flag(reverse_max_hop_delay.is_some(), POSEIDON_ACK_REVERSE_MAX_HOP_DELAY)
            | flag(circuit_up, POSEIDON_ACK_CIRCUIT_UP)
            | flag(app_limited, POSEIDON_ACK_APP_LIMITED)
            | flag(rtt_ambiguous, POSEIDON_ACK_RTT_AMBIGUOUS),
        hop_count,
        reserved: 0,
        now_ns: now.get(),
        rtt_ns: rtt.get(),
        bytes: bytes.get(),
        marked_bytes: marked.get(),
        acked_seq,
        next_seq,
        // Without the flag, the value must not matter.
        max_hop_delay_ns: max_hop_delay.map_or(12_345, Nanos::get),
        reverse_max_hop_delay_ns: reverse_max_hop_delay.map_or(12_345, Nanos::get),
        endpoint_delay_ns: endpoint_delay.get(),
        hops: hops.as_ptr(),
        hop_record_count: hops.len(),
        hop_wrap_timestamp_ns: wrap.timestamp.get(),
        hop_wrap_sent_bytes: wrap.sent.get(),
        packets,
        random,
        in_flight_bytes: in_flight.get(),
    }
}

fn c_trim(trim: &Trim) -> poseidon_trim {
    let Trim { now, bytes, in_flight, last_hop, rtt } = *trim;
    let flag = |set: bool, bit: u32| if set { bit } else { 0 };
    poseidon_trim {
        struct_size: size_u32::<poseidon_trim>(),
        flags: flag(last_hop, POSEIDON_TRIM_LAST_HOP) | flag(rtt.is_some(), POSEIDON_TRIM_RTT),
        now_ns: now.get(),
        bytes: bytes.get(),
        in_flight_bytes: in_flight.get(),
        // Without the flag, the value must not matter.
        rtt_ns: rtt.map_or(12_345, Nanos::get),
    }
}

fn empty_decision() -> poseidon_decision {
    poseidon_decision {
        struct_size: size_u32::<poseidon_decision>(),
        pacing: 7,
        window_q24: 7,
        gap_ns: 7,
        rate_bps: 7,
    }
}

fn to_decision(decision: &poseidon_decision) -> Decision {
    assert_eq!(decision.struct_size, size_u32::<poseidon_decision>());
    let pacing = match (decision.pacing, decision.gap_ns, decision.rate_bps) {
        (POSEIDON_PACING_OFF, 0, 0) => Pacing::Off,
        (POSEIDON_PACING_GAP, gap, 0) => Pacing::Gap(Nanos::new(gap)),
        (POSEIDON_PACING_RATE, 0, rate) => Pacing::Rate(BitRate::from_bps(rate)),
        other => panic!("pacing {other:?}"),
    };
    Decision { window: Packets::from_q24(decision.window_q24), pacing }
}

fn random_path(rng: &mut SplitMix64) -> Path {
    Path {
        mtu: Bytes::new(*rng.pick(&[64, 1_448, 4_096, 65_535])),
        line_rate: BitRate::from_bps(*rng.pick(&[1_000_000, 25_000_000_000, 400_000_000_000])),
        base_rtt: Nanos::new(*rng.pick(&[1, 9_900, 40_000_000, u64::from(u32::MAX)])),
    }
}

/// Writes parameters as text, in the form that `poseidon_law_init` parses.
fn to_text<P: Params>(params: &P) -> String {
    let mut items = Vec::new();
    params.for_each(&mut |info, value| items.push(format!("{}={value}", info.name)));
    items.join(", ")
}

fn compare_answers(c: &CLaw, law: &AnyLaw, operation: &Operation, seed: u64) {
    assert_eq!(c.decision(), law.decision(), "{} seed {seed} {operation:?}", law.name());
    assert_eq!(c.target(5), law.target(5), "{} seed {seed} {operation:?}", law.name());
    if let Operation::Ack(event) = operation {
        let (ack, stack, wrap) = &**event;
        let hops = c_hops(stack.as_slice());
        let c_ack = c_ack(ack, &hops, *wrap);
        let ack = Ack { hops: HopPath { records: stack.as_slice(), wrap: *wrap }, ..*ack };
        assert_eq!(c.is_congested(&c_ack), law.is_congested(&ack), "{} seed {seed}", law.name());
        assert_eq!(c.delay_signal(&c_ack), law.delay_signal(&ack), "{} seed {seed}", law.name());
    }
}

/// Runs random lists of operations on one law.
fn assert_equal<L: LawDefinition>(lists: u64) {
    for seed in 0..lists {
        let mut rng = SplitMix64::new(seed);
        let params = random_params::<L::Params>(|below| rng.index(below));
        let path = random_path(&mut rng);
        let text = to_text(&params);
        let mut c = CLaw::new(L::NAME, &text, &path);
        let mut any = AnyParams::for_law(L::NAME).expect("the law is registered");
        params.for_each(&mut |info, value| {
            any.set(info.name, &value.to_string()).expect("a printed value is valid");
        });
        let mut law = any.build(&path, Signals::ALL).expect("the parameters are valid");
        for operation in random_operations(&mut rng, 40) {
            c.apply(&operation);
            apply(&mut law, &operation);
            compare_answers(&c, &law, &operation, seed);
        }
    }
}

fn assert_all_laws_equal(lists: u64) {
    let mut tested = 0;
    macro_rules! run_all {
        ($($module:ident :: $law:ident,)*) => {$(
            assert_equal::<poseidon_laws::laws::$module::$law>(lists);
            tested += 1;
        )*};
    }
    poseidon_laws::law_list!(run_all);
    assert_eq!(tested, LAWS.len());
}

#[test]
fn every_law_decides_the_same_through_c() {
    assert_all_laws_equal(1_000);
}

#[test]
#[ignore = "long: 10^5 lists per law"]
fn every_law_decides_the_same_through_c_on_100_000_lists() {
    assert_all_laws_equal(100_000);
    println!("{{\"test\":\"capi_equality\",\"laws\":{},\"lists\":100000}}", LAWS.len());
}

/// Runs one list on Poseidon alone, with numeric parameters.
fn assert_flow_equal(seed: u64) {
    let mut rng = SplitMix64::new(seed);
    let params = random_params::<PoseidonParams>(|below| rng.index(below));
    let path = random_path(&mut rng);
    let mut law: Poseidon = registry::build(&params, &path, Signals::ALL).expect("the parameters are valid");
    let mut flow = MaybeUninit::<poseidon_flow>::uninit();
    let (c_params, c_path) = (numeric(&params), c_path(&path));
    // SAFETY: all pointers are valid.
    let status = unsafe {
        poseidon_flow_init(
            flow.as_mut_ptr(),
            size_of::<poseidon_flow>(),
            &raw const c_params,
            &raw const c_path,
            ALL_SIGNALS,
            core::ptr::null_mut(),
        )
    };
    assert_eq!(status, 0, "seed {seed}");
    let flow = flow.as_mut_ptr();
    for operation in random_operations(&mut rng, 40) {
        apply(&mut law, &operation);
        // SAFETY: all pointers are valid.
        unsafe { apply_to_flow(flow, &law, &operation) };
        let (mut decision, mut target) = (empty_decision(), 0);
        // SAFETY: all pointers are valid.
        assert_eq!(unsafe { poseidon_flow_decision(flow, &raw mut decision) }, 0);
        assert_eq!(to_decision(&decision), law.decision(), "seed {seed} {operation:?}");
        // SAFETY: all pointers are valid.
        assert_eq!(unsafe { poseidon_flow_target(flow, &raw mut target) }, 0);
        assert_eq!(Some(Nanos::new(target)), law.target(0), "seed {seed} {operation:?}");
    }
}

/// Applies an operation through the C functions. `law` has processed the operation already.
///
/// # Safety
///
/// `flow` must be initialised.
unsafe fn apply_to_flow(flow: *mut poseidon_flow, law: &Poseidon, operation: &Operation) {
    let status = match operation {
        Operation::Ack(event) => {
            let (ack, _, wrap) = &**event;
            let c_ack = c_ack(ack, &[], *wrap);
            // SAFETY: all pointers are valid.
            let status = unsafe { poseidon_flow_on_ack(flow, &raw const c_ack) };
            // SAFETY: all pointers are valid.
            let congested = unsafe { poseidon_flow_is_congested(flow, &raw const c_ack) };
            assert_eq!(to_bool(congested), law.is_congested(ack));
            status
        }
        Operation::Loss(loss) => {
            let loss = poseidon_loss {
                struct_size: size_u32::<poseidon_loss>(),
                reserved: 0,
                now_ns: loss.now.get(),
            };
            // SAFETY: all pointers are valid.
            unsafe { poseidon_flow_on_loss(flow, &raw const loss) }
        }
        // SAFETY: the pointer is valid.
        Operation::Timeout(timeout) => unsafe { poseidon_flow_on_timeout(flow, timeout.now.get()) },
        // Poseidon ignores this event.
        Operation::Trim(_) => 0,
    };
    assert_eq!(status, 0);
}

/// Writes parameters as numbers, starting from the defaults that C gets.
fn numeric(params: &PoseidonParams) -> poseidon_flow_params {
    let mut numbers = MaybeUninit::<poseidon_flow_params>::zeroed();
    // SAFETY: the pointer is valid, and the size is the first field.
    unsafe { numbers.as_mut_ptr().cast::<u32>().write(size_u32::<poseidon_flow_params>()) };
    // SAFETY: the pointer is valid.
    assert_eq!(unsafe { poseidon_flow_params_default(numbers.as_mut_ptr()) }, 0);
    // SAFETY: all bit patterns are valid.
    let mut numbers = unsafe { numbers.assume_init() };
    numbers.reset_after = params.reset_after;
    numbers.target_range_ns = params.target_range.get();
    numbers.target_floor_ns = params.target_floor.get();
    numbers.step_q32 = params.step.q32();
    numbers.min_rate_bps = params.min_rate.get();
    numbers.max_rate_bps = params.max_rate.get();
    numbers.min_decrease_q32 = params.min_decrease.q32();
    numbers.max_increase_q32 = params.max_increase.q32();
    numbers.initial_window_q24 = params.initial_window.q24();
    numbers.min_window_q24 = params.min_window.q24();
    numbers.max_window_q24 = params.max_window.q24();
    numbers.fixed_target_ns = params.fixed_target.get();
    numbers.window_rtt_ns = params.window_rtt.get();
    numbers.ratio_delay_ns = params.ratio_delay.get();
    let position = |words: &[&str], word: String| {
        let index = words.iter().position(|w| *w == word).expect("the word is known");
        u8::try_from(index).expect("the index is small")
    };
    numbers.target = position(&["log", "inv-sqrt-rate", "inv-sqrt-cwnd", "fixed"], params.target.to_string());
    numbers.update = position(&["distance", "ratio", "aimd", "steady"], params.update.to_string());
    numbers.delay = position(&["max-hop-delay", "rtt", "brownfield"], params.signal.to_string());
    numbers.strict_paper = u8::from(params.strict_paper);
    numbers
}

#[test]
fn poseidon_alone_decides_the_same() {
    for seed in 0..10_000 {
        assert_flow_equal(seed);
    }
}
