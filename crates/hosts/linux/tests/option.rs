//! Tests that the TCP option in `bpf/tcp.h` matches the option in `poseidon-wire`.

use poseidon_types::Nanos;
use poseidon_wire::quantiser::Scale as _;
use poseidon_wire::tcp_option::{HEADER_BYTES, Ids, NO_ECHO, Repr, SCALE, echo_quantiser};

const HEADER: &str = include_str!("../bpf/tcp.h");

#[test]
fn bpf_and_rust_write_the_same_option() {
    let Ids { kind, exid } = Ids::default();
    assert_eq!(define_value("POSEIDON_OPTION_KIND"), u64::from(kind));
    assert_eq!(define_value("POSEIDON_OPTION_EXPERIMENT"), u64::from(exid));
    assert_eq!(define_value("POSEIDON_OPTION_BYTES"), HEADER_BYTES as u64);
    assert_eq!(define_value("POSEIDON_NO_ECHO"), u64::from(NO_ECHO));
    // C shifts a code to get the delay. Rust must decode every echoed code to the same delay.
    let shift = define_value("POSEIDON_OPTION_SHIFT");
    for code in 0..u32::from(NO_ECHO) {
        assert_eq!(SCALE.decode_delay(code), Nanos::new(u64::from(code) << shift));
    }
    assert_eq!(echo_quantiser(1).scale.max_code(), u32::from(NO_ECHO) - 1);
}

#[test]
fn zero_is_unknown_until_a_code_above_zero_proves_a_hop() {
    // read_echo() in bpf/tcp.bpf.c follows the format: until a hop is known to measure delays, zero means unknown.
    let echoed = |code| {
        Repr { echo: Some(code), ..Repr::default() }
            .echo_telemetry(&SCALE, 0)
            .expect("the option has an echo")
    };
    assert_eq!(echoed(0).delay(), None);
    assert_eq!(echoed(1).delay(), Some(Nanos::new(256)));
    assert_eq!(echoed(0xfffe).delay(), Some(Nanos::new(0xfffe << 8)));
}

/// Returns the value of a `#define`.
fn define_value(name: &str) -> u64 {
    let line =
        HEADER.lines().find_map(|line| line.strip_prefix("#define ")?.strip_prefix(name)?.strip_prefix(' '));
    let text = line.unwrap_or_else(|| panic!("{name} is not in bpf/tcp.h"));
    let number =
        text.strip_prefix("0x").map_or_else(|| text.parse(), |digits| u64::from_str_radix(digits, 16));
    number.unwrap_or_else(|error| panic!("{name} {text}: {error}"))
}
