#![no_main]
//! Fuzzes the parser and the writer of HPCC's flow files.
use libfuzzer_sys::fuzz_target;
use poseidon_fuzz::assert_traffic;
use poseidon_traces::{parse_hpcc, write_hpcc};

fuzz_target!(|data: &[u8]| {
    let Ok(file) = parse_hpcc(data, 64) else { return };
    let mut text = Vec::new();
    // The writer refuses flows that are too large or out of order.
    if write_hpcc(&file, &mut text).is_ok() {
        assert_eq!(parse_hpcc(&text[..], 64).as_ref(), Ok(&file));
    }
    assert_traffic(&file);
});
