#![no_main]
//! Fuzzes the parser and the writer of htsim's connection matrices.
use libfuzzer_sys::fuzz_target;
use poseidon_fuzz::assert_traffic;
use poseidon_traces::{StartUnit, parse_cm, write_cm};

fuzz_target!(|data: &[u8]| {
    let unit = StartUnit::Microseconds;
    let Ok(file) = parse_cm(data, unit, 64) else { return };
    let mut text = Vec::new();
    // The writer refuses numbers that are too large for htsim, and fractions of a microsecond.
    if write_cm(&file, unit, &mut text).is_ok() {
        assert_eq!(parse_cm(&text[..], unit, 64).as_ref(), Ok(&file));
    }
    assert_traffic(&file);
});
