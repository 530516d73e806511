#![no_main]
//! Fuzzes the parser and the writer of flow lists in CSV form.
use libfuzzer_sys::fuzz_target;
use poseidon_fuzz::assert_traffic;
use poseidon_traces::{parse_csv, write_csv};

fuzz_target!(|data: &[u8]| {
    let Ok(file) = parse_csv(data, 64) else { return };
    let mut text = Vec::new();
    assert_eq!(write_csv(&file, &mut text), Ok(()), "the format can express what it was read from");
    assert_eq!(parse_csv(&text[..], 64).as_ref(), Ok(&file));
    assert_traffic(&file);
});
