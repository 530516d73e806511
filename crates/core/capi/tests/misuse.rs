//! Misuse that the library can recognise is refused with a typed error.

#![allow(unsafe_code, reason = "the tests call the C functions")]
#![allow(
    clippy::multiple_unsafe_ops_per_block,
    reason = "a block calls several functions with the same arguments"
)]

use core::ffi::{CStr, c_char};
use core::mem::{MaybeUninit, offset_of};
use core::ptr::{null, null_mut};
use poseidon_capi::error::*;
use poseidon_capi::law::*;
use poseidon_capi::registry::*;
use poseidon_capi::structs::*;

fn size<T>() -> u32 {
    u32::try_from(size_of::<T>()).expect("the struct is small")
}

const fn path() -> poseidon_path {
    poseidon_path {
        struct_size: 32,
        reserved: 0,
        mtu_bytes: 4_096,
        line_rate_bps: 200_000_000_000,
        base_rtt_ns: 9_900,
    }
}

fn zeroed<T>() -> T {
    // SAFETY: all structs of the interface are valid if all bytes are zero.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

fn ack() -> poseidon_ack {
    poseidon_ack { struct_size: size::<poseidon_ack>(), rtt_ns: 12_000, packets: 1, ..zeroed() }
}

/// Memory for a flow, filled with one byte.
fn memory(byte: u8) -> Box<MaybeUninit<poseidon_law>> {
    let mut law = Box::new(MaybeUninit::<poseidon_law>::uninit());
    // SAFETY: the memory has this size.
    unsafe { core::ptr::write_bytes(law.as_mut_ptr().cast::<u8>(), byte, size_of::<poseidon_law>()) };
    law
}

/// Initialises a flow and returns the status and the error.
fn init(
    law: *mut poseidon_law,
    name: &CStr,
    params: &CStr,
    path: &poseidon_path,
    signals: u32,
) -> (i32, String) {
    let mut error = poseidon_error { struct_size: size::<poseidon_error>(), ..zeroed() };
    // SAFETY: all pointers are valid or null.
    let status = unsafe {
        poseidon_law_init(
            law,
            size_of::<poseidon_law>(),
            name.as_ptr(),
            params.as_ptr(),
            path,
            signals,
            &raw mut error,
        )
    };
    if status != 0 {
        assert_eq!(error.code, status);
    }
    // SAFETY: the message ends with a zero byte.
    let message = unsafe { CStr::from_ptr(error.message.as_ptr()) };
    (status, format!("{}:{} {}", error.position, error.length, message.to_str().expect("the text is UTF-8")))
}

fn valid_law() -> Box<MaybeUninit<poseidon_law>> {
    let mut law = memory(0xa5);
    assert_eq!(init(law.as_mut_ptr(), c"poseidon", c"", &path(), 255).0, POSEIDON_OK);
    law
}

#[test]
fn null_and_misaligned_pointers_are_refused() {
    let mut law = valid_law();
    let law = law.as_mut_ptr();
    let ack = ack();
    let misaligned = law.cast::<u8>().wrapping_add(4).cast::<poseidon_law>();
    // SAFETY: the functions check the pointers before they use them.
    unsafe {
        assert_eq!(poseidon_law_on_ack(null_mut(), &raw const ack), POSEIDON_ERROR_NULL_POINTER);
        assert_eq!(poseidon_law_on_ack(law, null()), POSEIDON_ERROR_NULL_POINTER);
        assert_eq!(poseidon_law_on_ack(misaligned, &raw const ack), POSEIDON_ERROR_MISALIGNED);
        let misaligned_ack = (&raw const ack).cast::<u8>().wrapping_add(1).cast::<poseidon_ack>();
        assert_eq!(poseidon_law_on_ack(law, misaligned_ack), POSEIDON_ERROR_MISALIGNED);
        assert_eq!(poseidon_law_on_loss(law, null()), POSEIDON_ERROR_NULL_POINTER);
        assert_eq!(poseidon_law_decision(law, null_mut()), POSEIDON_ERROR_NULL_POINTER);
        assert_eq!(poseidon_law_target(law, 5, null_mut()), POSEIDON_ERROR_NULL_POINTER);
        assert_eq!(poseidon_law_delay_signal(law, &raw const ack, null_mut()), POSEIDON_ERROR_NULL_POINTER);
        assert_eq!(poseidon_law_name(law, null_mut()), POSEIDON_ERROR_NULL_POINTER);
        let status = poseidon_law_init(law, 512, null(), null(), &raw const PATH, 255, null_mut());
        assert_eq!(status, POSEIDON_ERROR_NULL_POINTER);
        let name = c"poseidon".as_ptr();
        let status = poseidon_law_init(law, 512, name, null(), null(), 255, null_mut());
        assert_eq!(status, POSEIDON_ERROR_NULL_POINTER);
        assert_eq!(poseidon_law_info_get(0, null_mut()), POSEIDON_ERROR_NULL_POINTER);
        assert_eq!(poseidon_law_needs(name, null(), null_mut(), null_mut()), POSEIDON_ERROR_NULL_POINTER);
    }
}

static PATH: poseidon_path = path();

#[test]
fn memory_without_a_state_is_refused() {
    let ack = ack();
    for byte in [0, 0xa5, 0xff] {
        let mut law = memory(byte);
        // SAFETY: the memory is valid.
        let status = unsafe { poseidon_law_on_ack(law.as_mut_ptr(), &raw const ack) };
        assert_eq!(status, POSEIDON_ERROR_NOT_INITIALISED);
        // SAFETY: the memory is valid.
        assert_eq!(unsafe { poseidon_law_destroy(law.as_mut_ptr()) }, POSEIDON_ERROR_NOT_INITIALISED);
    }
    let mut law = valid_law();
    // SAFETY: the memory is valid.
    assert_eq!(unsafe { poseidon_law_destroy(law.as_mut_ptr()) }, POSEIDON_OK);
    // SAFETY: the memory is valid.
    assert_eq!(unsafe { poseidon_law_destroy(law.as_mut_ptr()) }, POSEIDON_ERROR_NOT_INITIALISED);
}

#[test]
fn small_memory_is_refused_and_stays_unchanged() {
    let mut law = memory(0xa5);
    let enough = poseidon_law_size();
    assert!(enough <= POSEIDON_LAW_SIZE && poseidon_law_align() <= POSEIDON_LAW_ALIGN);
    let name = c"poseidon".as_ptr();
    for (size, expected) in
        [(0, POSEIDON_ERROR_STATE_TOO_SMALL), (enough - 1, POSEIDON_ERROR_STATE_TOO_SMALL), (enough, 0)]
    {
        // SAFETY: all pointers are valid or null.
        let status = unsafe {
            poseidon_law_init(law.as_mut_ptr(), size, name, null(), &raw const PATH, 255, null_mut())
        };
        assert_eq!(status, expected);
        // SAFETY: every bit pattern is valid for a byte, and the memory was filled.
        let first = unsafe { law.as_ptr().cast::<u8>().read() };
        assert_eq!(first == 0xa5, expected != 0);
    }
}

#[test]
fn texts_are_refused_with_position_and_remedy() {
    let mut law = memory(0xa5);
    let law = law.as_mut_ptr();
    let (status, message) = init(law, c"poseidn", c"", &path(), 255);
    assert_eq!(status, POSEIDON_ERROR_UNKNOWN_NAME);
    assert!(
        message.starts_with("0:0 there is no law \"poseidn\"; the laws are poseidon, swift"),
        "{message}"
    );
    let (status, message) = init(law, c"poseidon", c"step=0.5,max-rate=fast", &path(), 255);
    assert_eq!(status, POSEIDON_ERROR_VALUE);
    assert!(message.starts_with("9:13 max_rate: not a rate: write a number and one of bps"), "{message}");
    let (status, message) = init(law, c"poseidon", c"step=0.5, step=5", &path(), 255);
    let expected = "10:6 law \"poseidon\": step must be at least 0.001 and below 2 (Eq. 2)";
    assert_eq!((status, message.as_str()), (POSEIDON_ERROR_RANGE, expected));
    assert_eq!(init(law, c"poseidon", c"step", &path(), 255).0, POSEIDON_ERROR_SYNTAX);
    assert_eq!(init(law, c"poseidon", c"step=\xff", &path(), 255).0, POSEIDON_ERROR_TEXT);
    let long = std::ffi::CString::new("x".repeat(POSEIDON_MAX_TEXT + 1)).expect("there is no zero byte");
    assert_eq!(init(law, c"poseidon", &long, &path(), 255).0, POSEIDON_ERROR_TEXT);
    assert_eq!(init(law, &long, c"", &path(), 255).0, POSEIDON_ERROR_TEXT);
    let (status, message) = init(law, c"poseidon", c"", &path(), POSEIDON_SIGNAL_RTT);
    let expected = "0:0 law \"poseidon\" needs max-hop-delay; the host supplies rtt";
    assert_eq!((status, message.as_str()), (POSEIDON_ERROR_MISSING_SIGNALS, expected));
    assert_eq!(init(law, c"poseidon", c"", &path(), 256).0, POSEIDON_ERROR_UNKNOWN_FLAGS);
    let (status, message) = init(law, c"poseidon", c"", &poseidon_path { mtu_bytes: 0, ..path() }, 255);
    assert_eq!(status, POSEIDON_ERROR_PATH);
    assert!(message.starts_with("0:0 packet size is 0 B; set it"), "{message}");
}

/// A struct of a later version: the current one and eight more bytes.
#[repr(C)]
struct Later<T> {
    known: T,
    added: u64,
}

#[test]
fn structs_of_other_versions_follow_the_rule() {
    let mut law = valid_law();
    let law = law.as_mut_ptr();
    let on_ack = |ack: *const poseidon_ack| {
        // SAFETY: all pointers are valid.
        unsafe { poseidon_law_on_ack(law, ack) }
    };
    // The first version of the interface ended before in_flight_bytes.
    let first = u32::try_from(offset_of!(poseidon_ack, in_flight_bytes)).expect("a struct is small");
    for small in [0, 4, first - 1] {
        let ack = poseidon_ack { struct_size: small, ..ack() };
        assert_eq!(on_ack(&raw const ack), POSEIDON_ERROR_STRUCT_TOO_SMALL);
    }
    let of_first_version = poseidon_ack { struct_size: first, ..ack() };
    assert_eq!(on_ack(&raw const of_first_version), POSEIDON_OK);
    let huge = poseidon_ack { struct_size: u32::MAX, ..ack() };
    assert_eq!(on_ack(&raw const huge), POSEIDON_ERROR_STRUCT_TOO_NEW);
    let struct_size = size::<Later<poseidon_ack>>();
    let mut later = Later { known: poseidon_ack { struct_size, ..ack() }, added: 0 };
    assert_eq!(on_ack((&raw const later).cast()), POSEIDON_OK);
    later.added = 1 << 63;
    assert_eq!(on_ack((&raw const later).cast()), POSEIDON_ERROR_STRUCT_TOO_NEW);

    // An output of a later version: the unknown field becomes zero.
    let struct_size = size::<Later<poseidon_decision>>();
    let mut later = Later { known: poseidon_decision { struct_size, ..zeroed() }, added: 7 };
    // SAFETY: all pointers are valid.
    assert_eq!(unsafe { poseidon_law_decision(law, (&raw mut later).cast()) }, POSEIDON_OK);
    assert_eq!((later.known.struct_size, later.added), (struct_size, 0));
    assert_eq!(later.known.window_q24, 32 * POSEIDON_ONE_PACKET);
    let mut small = poseidon_decision { struct_size: 31, ..zeroed() };
    // SAFETY: all pointers are valid.
    let status = unsafe { poseidon_law_decision(law, &raw mut small) };
    assert_eq!(status, POSEIDON_ERROR_STRUCT_TOO_SMALL);
}

#[test]
fn acks_with_unknown_flags_or_too_many_hops_are_refused() {
    let mut law = valid_law();
    let law = law.as_mut_ptr();
    let hops = [poseidon_hop::default(); 9];
    let on_ack = |ack: poseidon_ack| {
        // SAFETY: all pointers are valid.
        unsafe { poseidon_law_on_ack(law, &raw const ack) }
    };
    assert_eq!(on_ack(poseidon_ack { flags: 32, ..ack() }), POSEIDON_ERROR_UNKNOWN_FLAGS);
    assert_eq!(on_ack(poseidon_ack { reserved: 1, ..ack() }), POSEIDON_ERROR_UNKNOWN_FLAGS);
    let records = poseidon_ack { hops: hops.as_ptr(), hop_record_count: 9, ..ack() };
    assert_eq!(on_ack(records), POSEIDON_ERROR_TOO_MANY_HOPS);
    assert_eq!(on_ack(poseidon_ack { hop_record_count: 8, ..records }), POSEIDON_OK);
    assert_eq!(
        on_ack(poseidon_ack { hops: null(), hop_record_count: 1, ..ack() }),
        POSEIDON_ERROR_NULL_POINTER
    );
}

/// Returns the text that the library returned.
fn text(text: poseidon_text) -> String {
    // SAFETY: the library returns valid text.
    let bytes = unsafe { core::slice::from_raw_parts(text.data.cast::<u8>(), text.size) };
    String::from_utf8(bytes.to_vec()).expect("the text is UTF-8")
}

/// Everything that the library lists can be used: every default value and every preset of every law.
#[test]
fn listed_defaults_and_presets_are_valid() {
    let mut presets = 0;
    for index in 0..poseidon_law_count() {
        let mut info = poseidon_law_info { struct_size: size::<poseidon_law_info>(), ..zeroed() };
        // SAFETY: the pointer is valid.
        assert_eq!(unsafe { poseidon_law_info_get(index, &raw mut info) }, POSEIDON_OK);
        let name = std::ffi::CString::new(text(info.name)).expect("there is no zero byte");
        let mut settings = Vec::new();
        for index in 0..=info.param_count {
            let mut param = poseidon_param_info { struct_size: size::<poseidon_param_info>(), ..zeroed() };
            // SAFETY: all pointers are valid.
            let status = unsafe { poseidon_param_info_get(name.as_ptr(), index, &raw mut param) };
            if index == info.param_count {
                assert_eq!(status, POSEIDON_ERROR_UNKNOWN_NAME);
                break;
            }
            assert_eq!(status, POSEIDON_OK);
            assert!(!text(param.description).is_empty());
            // SAFETY: the text ends with a zero byte.
            let value = unsafe { CStr::from_ptr(param.default_value.as_ptr()) };
            settings.push(format!("{}={}", text(param.name), value.to_str().expect("the text is UTF-8")));
        }
        let mut needs = 0;
        let all = std::ffi::CString::new(settings.join(",")).expect("there is no zero byte");
        // SAFETY: all pointers are valid.
        let status = unsafe { poseidon_law_needs(name.as_ptr(), all.as_ptr(), &raw mut needs, null_mut()) };
        assert_eq!((status, needs), (POSEIDON_OK, info.needs));
        assert_eq!(init(memory(0).as_mut_ptr(), &name, &all, &path(), needs).0, POSEIDON_OK);
        for index in 0..info.preset_count {
            let mut preset = poseidon_preset_info { struct_size: size::<poseidon_preset_info>(), ..zeroed() };
            // SAFETY: all pointers are valid.
            let status = unsafe { poseidon_preset_info_get(name.as_ptr(), index, &raw mut preset) };
            assert_eq!(status, POSEIDON_OK);
            let params =
                std::ffi::CString::new(format!("preset={}", text(preset.name))).expect("no zero byte");
            assert_eq!(init(memory(0).as_mut_ptr(), &name, &params, &path(), 255).0, POSEIDON_OK);
            presets += 1;
        }
    }
    assert!(presets > poseidon_law_count(), "at least one law has a preset besides paper");
}

#[test]
fn state_can_be_copied_as_bytes() {
    let mut law = valid_law();
    let mut copy = memory(0);
    // SAFETY: both are valid.
    unsafe { core::ptr::copy_nonoverlapping(law.as_ptr(), copy.as_mut_ptr(), 1) };
    let ack = poseidon_ack { flags: POSEIDON_ACK_MAX_HOP_DELAY, max_hop_delay_ns: 60_000, ..ack() };
    let mut windows = Vec::new();
    for law in [law.as_mut_ptr(), copy.as_mut_ptr()] {
        // SAFETY: all pointers are valid.
        assert_eq!(unsafe { poseidon_law_on_ack(law, &raw const ack) }, POSEIDON_OK);
        let mut decision = poseidon_decision { struct_size: size::<poseidon_decision>(), ..zeroed() };
        // SAFETY: all pointers are valid.
        assert_eq!(unsafe { poseidon_law_decision(law, &raw mut decision) }, POSEIDON_OK);
        windows.push(decision.window_q24);
    }
    assert_eq!(windows[0], windows[1]);
    assert!(windows[0] < 32 * POSEIDON_ONE_PACKET);
}

#[test]
fn every_code_has_a_text() {
    for code in -30..5 {
        let text: *const c_char = poseidon_error_text(code);
        // SAFETY: the text ends with a zero byte.
        assert!(!unsafe { CStr::from_ptr(text) }.is_empty());
    }
}
