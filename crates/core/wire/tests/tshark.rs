//! Checks that Wireshark decodes the formats in the same way as this crate.
//!
//! The tests build and update frames, write them to a classic pcap file, and decode the file with `tshark`. They use
//! the built-in IOAM and TCP dissectors, the VLAN dissector for CSIG's compact tag, and `tools/wireshark/poseidon.lua`
//! for this project's formats. `tshark` also verifies the updated checksums.

use poseidon_types::{BitRate, Nanos};
use poseidon_wire::checksum::{internet, internet_udp};
use poseidon_wire::ioam_node::{Node, TraceType};
use poseidon_wire::{csig, ioam, reflection, shim, tcp_option};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn tshark_decodes_the_compact_csig_tag() {
    let mut frames = Vec::new();
    for code in [0, 9, 31] {
        let mut tag = [0; 4];
        let initial = csig::Repr::new(csig::Layout::CompactDraft, csig::DEFAULT_TPID, csig::Signal::HopDelay);
        initial.emit(&mut tag).expect("the buffer is large enough");
        let mut packet =
            csig::Packet::new_checked(&mut tag[..], csig::Layout::CompactDraft, csig::DEFAULT_TPID)
                .expect("the header is valid");
        packet.update(code, 0x42);
        let udp = udp_segment(9, b"");
        // Like a VLAN tag, the CSIG tag sits between the MAC addresses and the EtherType.
        let mut frame = ethernet(0x0800, &ipv4(17, &udp));
        frame.splice(12..12, tag);
        frames.push(frame);
    }
    // The VLAN dissector shows T as the PCP, R as the DEI, and S and LM together as the VLAN ID.
    let fields = ["vlan.priority", "vlan.dei", "vlan.id", "ip.proto"];
    let rows = tshark("csig", &frames, &["-o", "vlan.qinq_ethertype:0x9900"], &fields);
    let locator = |code: u32| if code == 0 { 0 } else { 0x42 };
    let expected: Vec<_> =
        [0_u32, 9, 31].iter().map(|code| format!("2,0,{},17", (code << 7) + locator(*code))).collect();
    assert_eq!(rows, expected);
}

#[test]
fn tshark_decodes_the_ioam_trace() {
    let repr = ioam::Repr::new(123, TraceType::new(0xca_1000), 2).expect("the option is large enough");
    let mut frames = Vec::new();
    for updates in 0..=3_u16 {
        let mut option = vec![0; repr.buffer_len()];
        repr.emit(&mut option).expect("the buffer is large enough");
        let mut packet = ioam::Packet::new_checked(&mut option[..]).expect("the header is valid");
        for hop in 1..=updates {
            packet.update(&Node {
                hop_limit: 63,
                node_id: Some(u32::from(hop)),
                ports: Some((10, 10 + hop)),
                transit_delay: Some(700 * u32::from(hop)),
                queue_depth: Some(1_118),
                ..Node::default()
            });
        }
        let signal = packet.queue_telemetry(|_| Some(BitRate::from_mbps(1)));
        assert_eq!(signal.hops, u8::try_from(updates.min(2)).expect("the count is small"));
        frames.push(ethernet(0x86dd, &ipv6_with_option(&option)));
    }
    let fields = [
        "trace.ns",
        "trace.nodelen",
        "trace.flag.o",
        "trace.remlen",
        "trace.node.id",
        "trace.node.trdelay",
        "trace.node.qdepth",
    ]
    .map(|field| format!("ipv6.opt.ioam.{field}"));
    let fields: Vec<_> = fields.iter().map(String::as_str).chain(["udp.checksum.status"]).collect();
    let rows = tshark("ioam", &frames, &["-o", "udp.check_checksum:TRUE"], &fields);
    let expected = [
        "123,5,0,10,,,,1",
        "123,5,0,5,0x000001,700,1118,1",
        "123,5,0,0,0x000002;0x000001,1400;700,1118;1118,1",
        "123,5,1,0,0x000002;0x000001,1400;700,1118;1118,1",
    ];
    assert_eq!(rows.iter().map(|row| hex_to_decimal(row)).collect::<Vec<_>>(), expected.map(hex_to_decimal));
}

#[test]
fn tshark_decodes_the_tcp_option() {
    let mut frames = Vec::new();
    for (delay, echo) in [(0, None), (25_600, Some(7)), (u64::MAX, Some(0xffff))] {
        let mut option = [0; 8];
        let repr = tcp_option::Repr { echo, ..Default::default() };
        repr.emit(&mut option).expect("the buffer is large enough");
        let mut segment = tcp_segment(&option);
        // The switch finds the option, updates it, and fixes up the checksum.
        let ids = tcp_option::Ids::default();
        let offset = 20 + tcp_option::find(&segment[20..], ids).expect("the list has the option");
        let delta = tcp_option::Packet::new_checked(&mut segment[offset..], ids)
            .expect("the header is valid")
            .update(Nanos::new(delay), &tcp_option::SCALE);
        let check = u16::from_be_bytes([segment[16], segment[17]]);
        segment[16..18].copy_from_slice(&delta.apply(check).to_be_bytes());
        frames.push(ethernet(0x0800, &ipv4(6, &segment)));
    }
    let fields = [
        "tcp.options.experimental.exid",
        "tcp.checksum.status",
        "poseidon.tcp.max_hop_delay",
        "poseidon.tcp.max_hop_delay_ns",
        "poseidon.tcp.echo",
        "poseidon.tcp.echo_ns",
    ];
    let rows = tshark("tcp", &frames, &["-o", "tcp.check_checksum:TRUE"], &fields);
    let expected = ["0x5053,1,0,0,,", "0x5053,1,100,25600,7,1792", "0x5053,1,65535,16776960,65534,16776704"];
    assert_eq!(rows.iter().map(|row| hex_to_decimal(row)).collect::<Vec<_>>(), expected.map(hex_to_decimal));
}

#[test]
fn tshark_decodes_the_shim_and_the_reflection_block() {
    let mut frames = Vec::new();
    for delays in [&[][..], &[300, 25_700, 9_000], &[u64::MAX]] {
        let sent = shim::Repr::default();
        let received = shim::Repr { int_hops: 4, max_hop_delay: 77, ..sent };
        let mut payload = [0; 12];
        sent.emit(&mut payload).expect("the buffer is large enough");
        reflection::Repr::reflect(&received, 59, reflection::INITIAL_TTL)
            .emit(&mut payload[4..])
            .expect("the buffer is large enough");
        let mut segment = udp_segment(shim::DEFAULT_UDP_PORT, &payload);
        for delay in delays {
            let delta = shim::Packet::new_checked(&mut segment[8..])
                .expect("the buffer is large enough")
                .update(Nanos::new(*delay), &shim::SCALE);
            let check = u16::from_be_bytes([segment[6], segment[7]]);
            segment[6..8].copy_from_slice(&delta.apply_udp(check).to_be_bytes());
        }
        frames.push(ethernet(0x0800, &ipv4(17, &segment)));
    }
    let fields = [
        "udp.checksum.status",
        "poseidon.int_hops",
        "poseidon.max_hop_delay",
        "poseidon.max_hop_delay_ns",
        "poseidon.reflection.hops_seen",
        "poseidon.reflection.int_hops",
        "poseidon.reflection.max_hop_delay",
    ];
    let options = ["-o", "udp.check_checksum:TRUE", "-o", "poseidon.reflection:TRUE"];
    let rows = tshark("shim", &frames, &options, &fields);
    let expected = ["1,0,0,0,5,4,77", "1,3,100,25600,5,4,77", "1,1,65535,16776960,5,4,77"];
    assert_eq!(rows, expected);
    // If the preferences specify a different port, the shim is not dissected.
    let rows = tshark("port", &frames, &["-o", "poseidon.udp_port:4000"], &["poseidon.int_hops"]);
    assert_eq!(rows, ["", "", ""]);
}

/// Runs tshark and returns one row per frame. Commas separate fields, and semicolons separate repeated values.
fn tshark(name: &str, frames: &[Vec<u8>], options: &[&str], fields: &[&str]) -> Vec<String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).expect("the target directory is writable");
    let capture = folder.join("frames.pcap");
    fs::write(&capture, pcap(frames)).expect("the target directory is writable");
    let script: PathBuf =
        [env!("CARGO_MANIFEST_DIR"), "../../../tools/wireshark/poseidon.lua"].iter().collect();
    let mut command = Command::new("tshark");
    // Ignore the user's Wireshark settings and plug-ins.
    command.env("WIRESHARK_CONFIG_DIR", &folder).env("HOME", &folder);
    command.args(["-n", "-r"]).arg(&capture);
    command.arg("-X").arg(format!("lua_script:{}", script.display()));
    command.args(options).args(["-T", "fields", "-E", "separator=,", "-E", "aggregator=;"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => panic!("cannot start tshark ({error}): install the Debian package `tshark`"),
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "tshark failed; if it does not recognise the poseidon fields, Lua is disabled (if you run the tests as root, \
         set run_user_scripts_when_superuser = true in init.lua, or run them as another user):\n{errors}"
    );
    assert!(!errors.contains("Lua"), "the dissector failed:\n{errors}");
    let text = String::from_utf8(output.stdout).expect("tshark prints UTF-8");
    text.lines().map(str::to_owned).collect()
}

/// Converts hex numbers to decimal, because tshark versions format identifiers differently.
fn hex_to_decimal(row: &str) -> String {
    let convert_value = |value: &str| match value.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).expect("the digits are hexadecimal").to_string(),
        None => value.to_owned(),
    };
    let convert_list = |values: &str| values.split(';').map(convert_value).collect::<Vec<_>>().join(";");
    row.split(',').map(convert_list).collect::<Vec<_>>().join(",")
}

/// Returns a classic little-endian pcap file that contains Ethernet frames.
fn pcap(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    let words = |file: &mut Vec<u8>, words: &[u32]| {
        words.iter().for_each(|word| file.extend(word.to_le_bytes()));
    };
    // Magic number, version 2.4, time zone, timestamp accuracy, snapshot length, and Ethernet link type.
    words(&mut file, &[0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1]);
    for frame in frames {
        let len = u32::try_from(frame.len()).expect("the length is small");
        words(&mut file, &[0, 0, len, len]);
        file.extend(frame);
    }
    file
}

fn ethernet(ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    frame.extend(ethertype.to_be_bytes());
    frame.extend(payload);
    frame
}

const SOURCE: [u8; 4] = [10, 0, 0, 1];
const DESTINATION: [u8; 4] = [10, 0, 0, 2];

fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let total = len16(20 + payload.len());
    let mut packet = vec![0x45, 0, total[0], total[1], 0, 0, 0, 0, 59, protocol, 0, 0];
    packet.extend(SOURCE);
    packet.extend(DESTINATION);
    let check = internet(&packet).to_be_bytes();
    packet[10..12].copy_from_slice(&check);
    packet.extend(payload);
    packet
}

/// Returns the bytes that the checksum covers: the IPv4 pseudo-header followed by `segment`.
fn with_pseudo_header(protocol: u8, segment: &[u8]) -> Vec<u8> {
    let mut bytes = [SOURCE, DESTINATION].concat();
    bytes.extend([0, protocol]);
    bytes.extend(len16(segment.len()));
    bytes.extend(segment);
    bytes
}

fn udp_segment(port: u16, payload: &[u8]) -> Vec<u8> {
    let mut segment = udp_header(port, payload);
    let check = internet_udp(&with_pseudo_header(17, &segment)).to_be_bytes();
    segment[6..8].copy_from_slice(&check);
    segment
}

fn udp_header(port: u16, payload: &[u8]) -> Vec<u8> {
    let mut segment = 40_000_u16.to_be_bytes().to_vec();
    segment.extend(port.to_be_bytes());
    segment.extend(len16(8 + payload.len()));
    segment.extend([0, 0]);
    segment.extend(payload);
    segment
}

/// Returns an ACK with Linux's timestamp option (NOP, NOP, kind 8) before `option`.
fn tcp_segment(option: &[u8]) -> Vec<u8> {
    let mut segment = vec![0x9c, 0x40, 0x1f, 0x90, 0, 0, 0, 1, 0, 0, 0, 2, 0xa0, 0x10, 1, 0, 0, 0, 0, 0];
    segment.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
    segment.extend(option);
    let check = internet(&with_pseudo_header(6, &segment)).to_be_bytes();
    segment[16..18].copy_from_slice(&check);
    segment
}

/// Returns an IPv6 packet that carries `option` in a hop-by-hop header, followed by an empty UDP datagram.
fn ipv6_with_option(option: &[u8]) -> Vec<u8> {
    let mut udp = udp_header(9, &[]);
    let addresses = [[0xfd; 16], [0xfe; 16]].concat();
    let pseudo = [&addresses[..], &[0, 0, 0, 8, 0, 0, 0, 17], &udp].concat();
    let check = internet_udp(&pseudo).to_be_bytes();
    udp[6..8].copy_from_slice(&check);

    let size = (4 + option.len()).next_multiple_of(8);
    let units = u8::try_from(size / 8 - 1).expect("the length is small");
    // The next header is UDP. Two bytes of PadN align the option to offset four.
    let mut header = vec![17, units, 1, 0];
    header.extend(option);
    // If necessary, four bytes of PadN fill the last 8-byte unit.
    header.extend(&[1, 2, 0, 0][..size - header.len()]);

    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend(len16(header.len() + udp.len()));
    packet.extend([0, 64]);
    packet.extend(addresses);
    packet.extend(header);
    packet.extend(udp);
    packet
}

fn len16(len: usize) -> [u8; 2] {
    u16::try_from(len).expect("the length is small").to_be_bytes()
}
