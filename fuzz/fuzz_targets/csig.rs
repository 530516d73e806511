#![no_main]
//! Fuzzes the four CSIG tags with any identifier.
use libfuzzer_sys::fuzz_target;
use poseidon_fuzz::tail;
use poseidon_wire::csig::{Layout, Packet, Repr};

fuzz_target!(|data: &[u8]| {
    let tpid = data.first_chunk().map_or(0, |bytes| u16::from_be_bytes(*bytes));
    for layout in Layout::ALL {
        let Ok(before) = Repr::parse(data, layout, tpid) else {
            assert!(data.len() < layout.header_bytes());
            continue;
        };
        let mut out = vec![0; before.buffer_len()];
        before.emit(&mut out).expect("the buffer is large enough");
        assert_eq!(Repr::parse(&out, layout, tpid), Ok(before));
        let mut bytes = data.to_vec();
        let mut packet = Packet::new_checked(&mut bytes[..], layout, tpid).expect("the header is valid");
        let code = u32::try_from(tail(data) & 0xffff_ffff).expect("the value is masked to 32 bits");
        let replaced = packet.update(code, 3);
        let after = Repr::parse(&bytes, layout, tpid).expect("the header is still valid");
        assert_eq!((after.signal, after.trimmed), (before.signal, before.trimmed));
        if replaced {
            assert!(!before.trimmed && before.signal.replaces(after.code, before.code));
            assert_eq!(after.locator, 3);
        } else {
            assert_eq!(bytes, data);
        }
    }
});
