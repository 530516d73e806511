//! The functions that run a law of the registry.

#![allow(unsafe_code, reason = "these functions take pointers from C")]
#![allow(non_camel_case_types, reason = "the names are the same in C")]

use crate::ack::{self, with_event};
use crate::border::{self, Output, status, yes_or_no};
use crate::error::{Failure, Report, poseidon_status, status_text};
use crate::parameters;
use crate::state;
use crate::structs::{
    POSEIDON_ABI_VERSION, poseidon_ack, poseidon_decision, poseidon_delay_signal, poseidon_error,
    poseidon_loss, poseidon_path, poseidon_text, poseidon_timeout, poseidon_trim, signals_from_bits,
};
use core::ffi::c_char;
use poseidon_laws::{AnyLaw, Law, Loss, Timeout};
use poseidon_types::{Bytes, Nanos};

/// Memory for the state of one flow that any law of the registry controls. Declare a variable of this type, or
/// allocate poseidon_law_size() bytes that are aligned to poseidon_law_align().
#[repr(C)]
pub struct poseidon_law {
    /// Only the library reads and writes this.
    opaque: [u64; 64],
}

// The header's constant is the size of the type.
const _: () = assert!(size_of::<poseidon_law>() == crate::structs::POSEIDON_LAW_SIZE);

/// Returns the version of the interface that this library implements: POSEIDON_ABI_VERSION of its header.
#[unsafe(no_mangle)]
pub extern "C" fn poseidon_abi_version() -> u32 {
    POSEIDON_ABI_VERSION
}

/// Returns a description of a status: one line that is terminated by zero and valid forever. Never null.
#[unsafe(no_mangle)]
pub extern "C" fn poseidon_error_text(code: poseidon_status) -> *const c_char {
    status_text(code).as_ptr()
}

/// Returns the size of the state of any law, in bytes. At most POSEIDON_LAW_SIZE of the library's own header.
#[unsafe(no_mangle)]
pub extern "C" fn poseidon_law_size() -> usize {
    size_of::<state::State<AnyLaw>>()
}

/// Returns the alignment of the state of any law, in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn poseidon_law_align() -> usize {
    align_of::<state::State<AnyLaw>>()
}

/// Starts a flow: chooses a law by name, sets its parameters and stores its state in the caller's memory.
///
/// law: the memory; it may hold anything. size: its size, sizeof(poseidon_law). name: for example "poseidon". params:
/// name=value, separated by commas, for example "max-rate=100 Gbps, target-floor=2 us"; "preset=NAME" may come first;
/// null for the defaults, which are the papers' values. signals: the POSEIDON_SIGNAL_... bits that the host supplies; a
/// law that needs another signal is refused. error: null, or where to write what is wrong.
///
/// # Safety
///
/// The pointers must be null or valid. The texts must end with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_law_init(
    law: *mut poseidon_law,
    size: usize,
    name: *const c_char,
    params: *const c_char,
    path: *const poseidon_path,
    signals: u32,
    error: *mut poseidon_error,
) -> poseidon_status {
    // SAFETY: the caller guarantees the pointer.
    if let Err(failure) = unsafe { border::check_error(error) } {
        return failure.code();
    }
    let memory = law.cast::<u8>();
    let built = state::check_memory::<AnyLaw>(memory, size).map_err(Report::from).and_then(|()| {
        // SAFETY: the caller guarantees the pointers.
        unsafe { build(name, params, path, signals) }
    });
    // SAFETY: the caller guarantees `size` bytes.
    let stored = built.and_then(|law| unsafe { state::store(memory, size, law) }.map_err(Report::from));
    match stored {
        Ok(()) => 0,
        // SAFETY: the caller guarantees the pointer.
        Err(report) => unsafe { border::fail(&report, error) },
    }
}

/// Builds a law from the arguments of [`poseidon_law_init`].
///
/// # Safety
///
/// As for [`poseidon_law_init`].
unsafe fn build(
    name: *const c_char,
    params: *const c_char,
    path: *const poseidon_path,
    signals: u32,
) -> Result<AnyLaw, Report> {
    // SAFETY: the caller guarantees the text.
    let name = unsafe { border::text(name) }?;
    // SAFETY: the caller guarantees the text.
    let params = unsafe { border::optional_text(params) }?;
    // SAFETY: the caller guarantees the struct.
    let path = unsafe { border::read(path) }?;
    if path.reserved != 0 {
        return Err(Failure::UnknownFlags.into());
    }
    parameters::build(name, params, &path.to_path(), signals_from_bits(signals)?)
}

/// Ends a flow: marks its state as not initialised, so that later calls are refused. The memory belongs to the caller.
///
/// # Safety
///
/// law must be null or point to a poseidon_law.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_law_destroy(law: *mut poseidon_law) -> poseidon_status {
    // SAFETY: the caller guarantees the pointer.
    status(unsafe { state::destroy::<AnyLaw>(law.cast()) })
}

/// Writes the name of the law that controls the flow.
///
/// # Safety
///
/// The pointers must be null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_law_name(
    law: *const poseidon_law,
    name: *mut poseidon_text,
) -> poseidon_status {
    // SAFETY: the caller guarantees the pointer.
    let law = unsafe { state::law::<AnyLaw>(law.cast()) };
    // SAFETY: the caller guarantees the pointer.
    status(law.and_then(|law| unsafe { border::write_plain(name, poseidon_text::new(law.name())) }))
}

/// Processes an ACK. Ask for the decision afterwards.
///
/// # Safety
///
/// law must be null or point to a poseidon_law, ack must be null or point to a poseidon_ack that is as large as its
/// struct_size says, and its hops must point to hop_record_count records.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_law_on_ack(
    law: *mut poseidon_law,
    ack: *const poseidon_ack,
) -> poseidon_status {
    // SAFETY: the caller guarantees the pointers.
    unsafe { ack::process::<AnyLaw>(law.cast(), ack) }
}

/// Reacts to packet loss. Call it once when the flow enters fast recovery, not once per lost packet.
///
/// # Safety
///
/// law must be null or point to a poseidon_law; loss must be null or point to a poseidon_loss.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_law_on_loss(
    law: *mut poseidon_law,
    loss: *const poseidon_loss,
) -> poseidon_status {
    // SAFETY: the caller guarantees the pointer.
    let state = unsafe { state::law_mut::<AnyLaw>(law.cast()) };
    // SAFETY: the caller guarantees the struct.
    status(state.and_then(|law| unsafe { read_loss(loss) }.map(|loss| law.on_loss(&loss))))
}

/// Reads a loss.
///
/// # Safety
///
/// `loss` must be null or point to a struct that is as large as its struct_size says.
pub(crate) unsafe fn read_loss(loss: *const poseidon_loss) -> Result<Loss, Failure> {
    // SAFETY: the caller guarantees the struct.
    let loss = unsafe { border::read(loss) }?;
    if loss.reserved != 0 {
        return Err(Failure::UnknownFlags);
    }
    Ok(Loss { now: Nanos::new(loss.now_ns) })
}

/// Reacts to a retransmission timeout at the time now_ns. poseidon_law_on_timeout_event also takes the lost bytes.
///
/// # Safety
///
/// law must be null or point to a poseidon_law.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_law_on_timeout(law: *mut poseidon_law, now_ns: u64) -> poseidon_status {
    // SAFETY: the caller guarantees the pointer.
    let state = unsafe { state::law_mut::<AnyLaw>(law.cast()) };
    status(state.map(|law| law.on_timeout(&Timeout { now: Nanos::new(now_ns), bytes: Bytes::ZERO })))
}

/// Reacts to a retransmission timeout, as poseidon_law_on_timeout, and tells the law how much was lost.
///
/// # Safety
///
/// law must be null or point to a poseidon_law; timeout must be null or point to a poseidon_timeout.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_law_on_timeout_event(
    law: *mut poseidon_law,
    timeout: *const poseidon_timeout,
) -> poseidon_status {
    // SAFETY: the caller guarantees the pointer.
    let state = unsafe { state::law_mut::<AnyLaw>(law.cast()) };
    // SAFETY: the caller guarantees the struct.
    let timeout = unsafe { border::read(timeout) }.and_then(poseidon_timeout::to_event);
    status(state.and_then(|law| timeout.map(|timeout| law.on_timeout(&timeout))))
}

/// Reacts to a packet that a switch trimmed. Call it for each trimmed packet. Most laws ignore it, so report the packet
/// as a loss too: poseidon_law_on_loss, once when the flow enters fast recovery.
///
/// # Safety
///
/// law must be null or point to a poseidon_law; trim must be null or point to a poseidon_trim.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_law_on_trim(
    law: *mut poseidon_law,
    trim: *const poseidon_trim,
) -> poseidon_status {
    // SAFETY: the caller guarantees the pointer.
    let state = unsafe { state::law_mut::<AnyLaw>(law.cast()) };
    // SAFETY: the caller guarantees the struct.
    let trim = unsafe { border::read(trim) }.and_then(poseidon_trim::to_event);
    status(state.and_then(|law| trim.map(|trim| law.on_trim(&trim))))
}

/// Writes how much the flow may send now, and how fast.
///
/// # Safety
///
/// law must be null or point to a poseidon_law; decision must be null or point to a poseidon_decision.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_law_decision(
    law: *const poseidon_law,
    decision: *mut poseidon_decision,
) -> poseidon_status {
    // SAFETY: the caller guarantees the pointer.
    let law = unsafe { state::law::<AnyLaw>(law.cast()) };
    status(law.and_then(|law| {
        // SAFETY: the caller guarantees the struct.
        let output = unsafe { Output::new(decision) }?;
        output.write(&poseidon_decision::new(&law.decision()));
        Ok(())
    }))
}

/// Returns 1 if the ACK indicates congestion, 0 if not, or an error. A host that changes paths (PLB) counts such ACKs.
/// Call it after poseidon_law_on_ack with the same ACK.
///
/// # Safety
///
/// As for poseidon_law_on_ack.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_law_is_congested(
    law: *const poseidon_law,
    ack: *const poseidon_ack,
) -> poseidon_status {
    // SAFETY: the caller guarantees the pointer.
    let law = unsafe { state::law::<AnyLaw>(law.cast()) };
    // SAFETY: the caller guarantees the struct.
    yes_or_no(law.and_then(|law| unsafe { with_event(ack, true, |ack| law.is_congested(ack)) }))
}

/// Writes the delay that the law compares with its target and returns 1. Returns 0 and writes nothing if the law has no
/// target delay or the ACK carries no delay. Call it after poseidon_law_on_ack with the same ACK.
///
/// # Safety
///
/// As for poseidon_law_on_ack; signal must be null or point to a poseidon_delay_signal.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_law_delay_signal(
    law: *const poseidon_law,
    ack: *const poseidon_ack,
    signal: *mut poseidon_delay_signal,
) -> poseidon_status {
    // SAFETY: the caller guarantees the pointer.
    let law = unsafe { state::law::<AnyLaw>(law.cast()) };
    yes_or_no(law.and_then(|law| {
        // SAFETY: the caller guarantees the struct.
        let output = unsafe { Output::new(signal) }?;
        // SAFETY: the caller guarantees the struct.
        let found = unsafe { with_event(ack, true, |ack| law.delay_signal(ack)) }?;
        if let Some(found) = &found {
            output.write(&poseidon_delay_signal::new(found));
        }
        Ok(found.is_some())
    }))
}

/// Writes the target delay at the current window and returns 1. Returns 0 and writes nothing if the law has no target
/// delay. hop_count: the number of switches on the path.
///
/// # Safety
///
/// law must be null or point to a poseidon_law; target_ns must be null or point to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_law_target(
    law: *const poseidon_law,
    hop_count: u8,
    target_ns: *mut u64,
) -> poseidon_status {
    // SAFETY: the caller guarantees the pointer.
    let law = unsafe { state::law::<AnyLaw>(law.cast()) };
    yes_or_no(law.and_then(|law| {
        border::check_pointer(target_ns)?;
        let Some(target) = law.target(hop_count) else { return Ok(false) };
        // SAFETY: the caller guarantees the pointer.
        unsafe { border::write_plain(target_ns, target.get()) }?;
        Ok(true)
    }))
}
