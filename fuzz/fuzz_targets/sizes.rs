#![no_main]
//! Fuzzes the parser of flow size distributions.
use libfuzzer_sys::fuzz_target;
use poseidon_traces::parse_sizes;

fuzz_target!(|text: &str| {
    let Ok(sizes) = parse_sizes(text) else { return };
    let (first, last) = (sizes.quantile(0.0), sizes.quantile(1.0));
    assert!(first.get() >= 1 && first <= last);
    let median = sizes.quantile(0.5);
    assert!(first <= median && median <= last);
    assert!(sizes.mean().is_finite());
});
