#![no_main]
//! Fuzzes the parser and the writer of HPCC's flow completion times.
use libfuzzer_sys::fuzz_target;
use poseidon_traces::{parse_fct, write_fct};

fuzz_target!(|data: &[u8]| {
    let Ok(rows) = parse_fct(data, 64) else { return };
    let mut text = Vec::new();
    assert_eq!(write_fct(&rows, &mut text), Ok(()), "the format can express what it was read from");
    assert_eq!(parse_fct(&text[..], 64), Ok(rows));
});
