#![no_main]
//! Fuzzes the C functions: random bytes as structs and texts, operations in any order, on valid memory.
//!
//! The state comes only from the library, because nobody can check a forged one: the fuzzer initialises, copies, destroys
//! and clears it. Everything else is what the input says.
use core::ffi::c_char;
use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use poseidon_capi::error::poseidon_status;
use poseidon_capi::flow::*;
use poseidon_capi::law::*;
use poseidon_capi::records::*;
use poseidon_capi::registry::*;
use poseidon_capi::structs::*;
use poseidon_capi::telemetry::*;

/// Structs are inside of a block that is this large, so that a wrong size stays within valid memory.
const BLOCK: usize = 4096 + 64;

/// Memory for one struct, aligned, followed by zeros up to the largest size that the library believes.
#[repr(C, align(8))]
struct Block([u8; BLOCK]);

impl Block {
    /// Fills the start of a block from the input. In most cases the first field is the struct's true size.
    fn random<T>(input: &mut Unstructured<'_>) -> Result<Box<Self>> {
        let mut block = Box::new(Self([0; BLOCK]));
        let length = input.int_in_range(0..=size_of::<T>() + 16)?;
        input.fill_buffer(&mut block.0[..length])?;
        if input.ratio(7, 8)? {
            let size = u32::try_from(size_of::<T>()).expect("structs are small");
            block.0[..4].copy_from_slice(&size.to_ne_bytes());
        }
        Ok(block)
    }

    fn pointer<T>(&mut self) -> *mut T {
        self.0.as_mut_ptr().cast()
    }
}

/// Returns a text from the input: often a law's name, else any bytes.
fn text(input: &mut Unstructured<'_>, words: &[&[u8]]) -> Result<Vec<c_char>> {
    let bytes = if input.ratio(3, 4)? {
        input.choose(words)?.to_vec()
    } else {
        let length = input.int_in_range(0..=200)?;
        input.bytes(length)?.to_vec()
    };
    // A zero byte may end the text earlier.
    Ok(bytes.into_iter().chain([0]).map(|byte| byte.cast_signed() as c_char).collect())
}

const NAMES: &[&[u8]] = &[
    b"poseidon",
    b"swift",
    b"hpcc",
    b"powertcp",
    b"theta-powertcp",
    b"timely",
    b"dcqcn",
    b"dctcp",
    b"cubic",
    b"bbr",
    b"retcp",
    b"nscc",
    b"fixed",
];
const PARAMS: &[&[u8]] = &[
    b"",
    b"preset=paper",
    b"preset=vai-sf",
    b"step=0.5, max-rate=100 Gbps",
    b"target=fixed,update=ratio",
    b"update=steady",
    b"signal=brownfield",
    b"strict-paper=true",
    b"min-window=0.001 packets",
    b"step=9",
];

/// Returns an ACK with a valid pointer to its records. The number of records may be too large.
fn ack(input: &mut Unstructured<'_>, hops: &mut [poseidon_hop; 8]) -> Result<Box<Block>> {
    let mut block = Block::random::<poseidon_ack>(input)?;
    for hop in hops.iter_mut() {
        *hop = poseidon_hop {
            timestamp_ns: input.arbitrary()?,
            sent_bytes: input.arbitrary()?,
            queue_bytes: input.arbitrary()?,
            rate_bps: input.arbitrary()?,
        };
    }
    let count = if input.ratio(7, 8)? { input.int_in_range(0..=8)? } else { input.arbitrary()? };
    let pointer = if input.ratio(15, 16)? { hops.as_ptr() } else { core::ptr::null() };
    let ack: *mut poseidon_ack = block.pointer();
    // SAFETY: the block holds an ACK.
    unsafe {
        (*ack).hops = pointer;
        (*ack).hop_record_count = count;
        if input.ratio(7, 8)? {
            (*ack).flags &= 31;
            (*ack).reserved = 0;
        }
    }
    Ok(block)
}

fn assert_status(status: poseidon_status) {
    assert!(status <= 1 && status >= -25, "{status}");
}

fn assert_decision(decision: &poseidon_decision) {
    assert!((1..=32_768 * POSEIDON_ONE_PACKET).contains(&decision.window_q24), "{decision:?}");
}

/// Runs one operation on a law, then asks for its decision.
fn run_law(input: &mut Unstructured<'_>, law: *mut poseidon_law) -> Result<()> {
    let mut hops = [poseidon_hop::default(); 8];
    // SAFETY: all memory is valid.
    let status = unsafe {
        match input.int_in_range(0..=13u8)? {
            0 => {
                let (name, params) = (text(input, NAMES)?, text(input, PARAMS)?);
                let mut path = Block::random::<poseidon_path>(input)?;
                let mut error = Block::random::<poseidon_error>(input)?;
                let size =
                    if input.ratio(7, 8)? { POSEIDON_LAW_SIZE } else { input.int_in_range(0..=512)? };
                let (name, params) = (name.as_ptr(), params.as_ptr());
                poseidon_law_init(
                    law,
                    size,
                    name,
                    params,
                    path.pointer(),
                    input.arbitrary()?,
                    error.pointer(),
                )
            }
            1 => init_valid(law, input.choose(NAMES)?),
            2 => poseidon_law_destroy(law),
            3 => {
                let mut copy = Box::new(core::ptr::read(law));
                core::ptr::write_bytes(law, 0, 1);
                assert!(poseidon_law_on_timeout(law, 0) < 0);
                core::ptr::copy_nonoverlapping(&raw const *copy, law, 1);
                poseidon_law_destroy(&raw mut *copy)
            }
            4 => poseidon_law_on_loss(law, Block::random::<poseidon_loss>(input)?.pointer()),
            5 => poseidon_law_on_timeout(law, input.arbitrary()?),
            6 => {
                let mut signal = Block::random::<poseidon_delay_signal>(input)?;
                poseidon_law_delay_signal(law, ack(input, &mut hops)?.pointer(), signal.pointer())
            }
            7 => poseidon_law_is_congested(law, ack(input, &mut hops)?.pointer()),
            8 => poseidon_law_target(law, input.arbitrary()?, &raw mut hops[0].sent_bytes),
            9 => poseidon_law_on_trim(law, Block::random::<poseidon_trim>(input)?.pointer()),
            10 => poseidon_law_on_timeout_event(law, Block::random::<poseidon_timeout>(input)?.pointer()),
            _ => poseidon_law_on_ack(law, ack(input, &mut hops)?.pointer()),
        }
    };
    assert_status(status);
    let struct_size = u32::try_from(size_of::<poseidon_decision>()).expect("structs are small");
    let mut decision = poseidon_decision { struct_size, pacing: 9, window_q24: 0, gap_ns: 0, rate_bps: 0 };
    // SAFETY: all memory is valid.
    if unsafe { poseidon_law_decision(law, &raw mut decision) } == 0 {
        assert_decision(&decision);
    }
    Ok(())
}

/// Initialises a law with valid arguments.
///
/// # Safety
///
/// The memory must be valid.
unsafe fn init_valid(law: *mut poseidon_law, name: &[u8]) -> poseidon_status {
    let name: Vec<c_char> = name.iter().chain(&[0]).map(|byte| byte.cast_signed() as c_char).collect();
    let path = poseidon_path {
        struct_size: u32::try_from(size_of::<poseidon_path>()).expect("structs are small"),
        reserved: 0,
        mtu_bytes: 1_448,
        line_rate_bps: 25_000_000_000,
        base_rtt_ns: 20_000,
    };
    let (path, error) = (&raw const path, core::ptr::null_mut());
    // SAFETY: all memory is valid.
    unsafe { poseidon_law_init(law, POSEIDON_LAW_SIZE, name.as_ptr(), core::ptr::null(), path, 255, error) }
}

/// Runs one operation on Poseidon alone.
fn run_flow(input: &mut Unstructured<'_>, flow: *mut poseidon_flow) -> Result<()> {
    let mut hops = [poseidon_hop::default(); 8];
    // SAFETY: all memory is valid.
    let status = unsafe {
        match input.int_in_range(0..=7u8)? {
            0 => {
                let mut params = Block::random::<poseidon_flow_params>(input)?;
                if input.ratio(3, 4)? {
                    let params: *mut poseidon_flow_params = params.pointer();
                    assert_status(poseidon_flow_params_default(params));
                    (*params).step_q32 = input.arbitrary()?;
                    (*params).update = input.arbitrary()?;
                    (*params).target = input.arbitrary()?;
                }
                let mut path = Block::random::<poseidon_path>(input)?;
                let mut error = Block::random::<poseidon_error>(input)?;
                let (params, path, error) = (params.pointer(), path.pointer(), error.pointer());
                poseidon_flow_init(flow, size_of::<poseidon_flow>(), params, path, input.arbitrary()?, error)
            }
            1 => {
                let mut path = Block::random::<poseidon_path>(input)?;
                let path: *mut poseidon_path = path.pointer();
                (*path).mtu_bytes = 4_096;
                (*path).line_rate_bps |= 1 << 30;
                (*path).base_rtt_ns = 9_900;
                (*path).reserved = 0;
                let (params, error) = (core::ptr::null(), core::ptr::null_mut());
                poseidon_flow_init(flow, size_of::<poseidon_flow>(), params, path, 255, error)
            }
            2 => poseidon_flow_destroy(flow),
            3 => poseidon_flow_on_loss(flow, Block::random::<poseidon_loss>(input)?.pointer()),
            4 => poseidon_flow_on_timeout(flow, input.arbitrary()?),
            5 => poseidon_flow_target(flow, &raw mut hops[0].sent_bytes),
            _ => poseidon_flow_on_ack(flow, ack(input, &mut hops)?.pointer()),
        }
    };
    assert_status(status);
    let mut decision = Block::random::<poseidon_decision>(input)?;
    let decision: *mut poseidon_decision = decision.pointer();
    // SAFETY: all memory is valid.
    if unsafe { poseidon_flow_decision(flow, decision) } == 0 {
        // SAFETY: the function has filled the struct.
        assert_decision(unsafe { &*decision });
    }
    Ok(())
}

/// Runs all telemetry functions on a buffer.
fn run_telemetry(input: &mut Unstructured<'_>) -> Result<()> {
    let length = input.int_in_range(0..=300usize)?;
    let mut bytes = input.bytes(length.min(input.len()))?.to_vec();
    let (data, size) = (bytes.as_mut_ptr(), bytes.len());
    let mut checksum: [u8; 2] = input.arbitrary()?;
    let (delay, step, hops, kind) =
        (input.arbitrary()?, input.arbitrary()?, input.arbitrary()?, input.arbitrary()?);
    let hop = poseidon_hop {
        timestamp_ns: input.arbitrary()?,
        sent_bytes: input.arbitrary()?,
        queue_bytes: input.arbitrary()?,
        rate_bps: *input.choose(&[100_000_000_000, 25_000_000_000, 3])?,
    };
    let units = poseidon_int_units {
        latency_tick_ns: input.arbitrary()?,
        timestamp_tick_ns: input.arbitrary()?,
        queue_unit_bytes: input.arbitrary()?,
        transmitted_unit_bytes: input.arbitrary()?,
    };
    let rates = [poseidon_node_rate { node_id: input.arbitrary()?, reserved: 0, rate_bps: 25_000_000_000 }];
    let sum = checksum.as_mut_ptr();
    let mut signal = poseidon_max_hop_delay::default();
    let (mut shim, mut block) = (poseidon_shim::default(), poseidon_reflection::default());
    let mut option = poseidon_tcp_option::default();
    let mut stack = poseidon_hop_stack::default();
    let mut offset = 0;
    let signal = &raw mut signal;
    // SAFETY: all memory is valid.
    unsafe {
        assert_status(poseidon_shim_stamp(data, size, delay, step, sum));
        assert_status(poseidon_shim_mark_incomplete(data, size, sum));
        assert_status(poseidon_shim_freeze(data, size, sum));
        assert_status(poseidon_shim_parse(data, size, &raw mut shim));
        assert_status(poseidon_shim_signal(&raw const shim, step, signal));
        assert_status(poseidon_shim_from_signal(signal, step, &raw mut shim));
        assert_status(poseidon_reflection_of_shim(&raw const shim, hops, 64, &raw mut block));
        assert_status(poseidon_reflection_parse(data, size, &raw mut block));
        assert_status(poseidon_reflection_signal(&raw const block, step, signal));
        assert!(poseidon_reflection_coverage(&raw const block) <= POSEIDON_COVERAGE_UNKNOWN);
        assert_status(poseidon_tcp_option_find(data, size, 253, 0x5053, &raw mut offset));
        assert_status(poseidon_tcp_option_stamp(data, size, 253, 0x5053, delay, step, sum));
        assert_status(poseidon_tcp_option_parse(data, size, 253, 0x5053, &raw mut option));
        assert_status(poseidon_tcp_option_signal(&raw const option, step, hops, signal));
        assert_status(poseidon_tcp_option_echo_signal(&raw const option, step, hops, signal));
        assert_status(poseidon_bare16_stamp(data, size, delay, step, sum, kind));
        assert_status(poseidon_bare16_signal(data, size, step, hops, signal));
        assert_status(poseidon_hpcc_parse(data, size, &raw mut stack));
        assert!(stack.count <= 8);
        assert_status(poseidon_hpcc_stamp(data, size, &raw const hop, 3, sum, kind));
        let rate = rates.as_ptr();
        assert_status(poseidon_int_md_parse(data, size, &raw const units, rate, 1, &raw mut stack));
        assert_status(poseidon_int_md_signal(data, size, &raw const units, signal));
        assert!(
            poseidon_int_md_stamp(data, size, 9, delay, &raw const hop, &raw const units, sum, kind) <= 124
        );
        assert_status(poseidon_reflection_emit(&raw const block, data, size));
        assert_status(poseidon_shim_emit(&raw const shim, data, size));
        assert_status(poseidon_tcp_option_emit(&raw const option, data, size));
        assert_status(poseidon_checksum_update(data, data, size, hops.into(), sum, kind));
    }
    Ok(())
}

/// Asks for descriptions.
fn run_registry(input: &mut Unstructured<'_>) -> Result<()> {
    let (name, params) = (text(input, NAMES)?, text(input, PARAMS)?);
    let (name, index) = (name.as_ptr(), input.int_in_range(0..=40)?);
    let mut signals = 0;
    // SAFETY: all memory is valid.
    unsafe {
        assert_status(poseidon_law_info_get(index, Block::random::<poseidon_law_info>(input)?.pointer()));
        let mut info = Block::random::<poseidon_param_info>(input)?;
        assert_status(poseidon_param_info_get(name, index, info.pointer()));
        let mut info = Block::random::<poseidon_preset_info>(input)?;
        assert_status(poseidon_preset_info_get(name, index, info.pointer()));
        let mut error = Block::random::<poseidon_error>(input)?;
        assert_status(poseidon_law_needs(name, params.as_ptr(), &raw mut signals, error.pointer()));
    }
    Ok(())
}

fn run(input: &mut Unstructured<'_>) -> Result<()> {
    let (mut law, mut flow) = (Box::new(Block([0; BLOCK])), Box::new(Block([0; BLOCK])));
    for _ in 0..256 {
        if input.is_empty() {
            break;
        }
        match input.int_in_range(0..=9u8)? {
            0 => run_telemetry(input)?,
            1 => run_registry(input)?,
            2..=4 => run_flow(input, flow.pointer())?,
            _ => run_law(input, law.pointer())?,
        }
    }
    Ok(())
}

fuzz_target!(|data: &[u8]| {
    // An input that ends early is no error.
    let _ = run(&mut Unstructured::new(data));
});
