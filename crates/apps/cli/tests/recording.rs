//! Checks recordings with other programs: the protobuf classes of the `perfetto` package decode the trace, and `tshark`
//! reads the capture. Both must contain the values of the run's rows.
//!
//! The first test needs Python with `perfetto`, which `.ci/install` installs. Without it, it prints that it is skipped.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

mod common;
use common::{TempFolder, exit_code, json, stderr, stdout};

/// Hosts of two racks send to one host, and a ring runs beside them. Buffers overflow and packets are marked.
const SCENARIO: &str = r#"
title = "incast and ring"
source = "a test"
stop = "400 us"
seeds = 1
law = "poseidon"

[topology]
kind = "clos"
pods = 1
racks = 2
hosts = 4
aggregation = 2
host-link = { rate = "100 Gbps", delay = "1 us" }
rack-link = { rate = "100 Gbps", delay = "1 us" }

[switch]
stamp = "wire"
buffer = { policy = "shared", size = "300 kB", alpha = 1 }
mark = { policy = "step", threshold = "100 kB" }

[transport]
mtu = "1000 B"
header = "48 B"

[[traffic]]
name = "incast"
kind = "incast"
from = "host[1-6]"
to = "host0"
size = "500 kB"

[[traffic]]
name = "ring"
kind = "collective"
algorithm = "ring-all-reduce"
from = "host[0-7]"
size = "800 kB"

[observe]
sample = "2 us"
decisions = ["incast", "ring"]

[observe.queues]
last = "last hop of incast"
"#;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// Returns a table of the study's only run as maps from column to value.
fn rows(folder: &TempFolder, table: &str) -> Vec<BTreeMap<String, String>> {
    let runs = folder.0.join("results/recorded/runs");
    let run =
        fs::read_dir(&runs).expect("the study has runs").flatten().next().expect("the study has one run");
    let text = fs::read_to_string(run.path().join(table)).expect("the rows are stored");
    let mut lines = text.lines();
    let columns: Vec<&str> = lines.next().expect("the table has a header").split(',').collect();
    let to_row = |line: &str| {
        columns
            .iter()
            .zip(line.split(','))
            .map(|(name, value)| ((*name).to_owned(), value.to_owned()))
            .collect()
    };
    lines.map(to_row).collect()
}

/// Decodes a trace, follows every counter, and compares it with the rows of the run.
const COMPARE: &str = r#"
import bisect, csv, glob, sys
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

trace = Trace()
trace.ParseFromString(open("results/recorded/recordings/seed1.pftrace", "rb").read())
tracks, counters, slices, ends, instants = {}, {}, {}, {}, {}
for packet in trace.packet:
    assert packet.trusted_packet_sequence_id == 1
    if packet.HasField("track_descriptor"):
        assert packet.track_descriptor.uuid not in tracks
        tracks[packet.track_descriptor.uuid] = packet.track_descriptor
        continue
    event, time = packet.track_event, packet.timestamp
    value = event.double_counter_value if event.HasField("double_counter_value") else event.counter_value
    if event.type == event.TYPE_COUNTER:
        counters.setdefault(event.track_uuid, []).append((time, value))
    elif event.type == event.TYPE_SLICE_BEGIN:
        slices.setdefault(event.track_uuid, []).append((time, event))
    elif event.type == event.TYPE_SLICE_END:
        ends.setdefault(event.track_uuid, []).append(time)
    else:
        instants.setdefault(event.track_uuid, []).append((time, event))

def name(uuid):
    track = tracks[uuid]
    own = track.process.process_name if track.HasField("process") else track.name
    return (name(track.parent_uuid) + "/" if track.parent_uuid else "") + own

by_name = {name(uuid): values for uuid, values in counters.items()}
for values in by_name.values():
    assert values == sorted(values, key=lambda item: item[0]), "values are in order of time"

def value_at(counter, time):
    values = by_name.get(counter, [])
    position = bisect.bisect_right(values, time, key=lambda item: item[0])
    return values[position - 1][1] if position else 0

def table(file):
    return csv.DictReader(open(glob.glob(f"results/recorded/runs/*/{file}")[0]))

compared = {}
def compare(kind, counter, time_ns, expected):
    found = value_at(counter, time_ns)
    assert found == expected, (kind, counter, time_ns, found, expected)
    compared[kind] = compared.get(kind, 0) + 1

flows = {}
for row in table("senders.csv"):
    flow = next(n for n in by_name if n.split("/")[1].startswith(f"flow {row['connection']} to ")).rsplit("/", 1)[0]
    flows[row["connection"]] = flow
    time = int(row["at_ps"]) // 1000
    compare("window", flow + "/window", time, float(row["window_packets"]))
    compare("in flight", flow + "/in flight", time, int(row["in_flight_packets"]))
    compare("RTT", flow + "/smoothed RTT", time, int(row["srtt_ns"]))
for row in table("queues.csv"):
    time = int(row["at_ps"]) // 1000
    port = f"switch{row['switch']} (rack)/port {row['port']} to host0 (last)"
    compare("queue", port + "/queue", time, int(row["waiting_bytes"]))
    compare("delay", port + "/queueing delay", time, int(row["delay_ns"]))
decisions = {}
for row in table("decisions.csv"):
    decisions.setdefault((row["connection"], int(row["at_ps"]) // 1000), row)
for connection, flow in flows.items():
    for time, value in by_name.get(flow + "/hop delay", []):
        row = decisions.get((connection, time))
        # The counter begins with zero at the start of the run.
        if time > 0:
            assert value == int(row["hop_delay_ns"]), (connection, time, value, row)
            compared["hop delay"] = compared.get("hop delay", 0) + 1
    assert by_name.get(flow + "/target"), flow

starts = {}
for uuid, begun in slices.items():
    assert len(begun) == len(ends[uuid]), name(uuid)
    for (start, event), end, following in zip(begun, ends[uuid], [*(s for s, _ in begun[1:]), 1 << 62]):
        assert start <= end <= following, "slices of a track do not overlap"
        notes = {note.name: note.uint_value for note in event.debug_annotations}
        starts[notes["message"]] = (start, end, event)
for row in table("messages.csv"):
    start, end, event = starts[int(row["message"])]
    assert (start, end) == (int(row["start_ps"]) // 1000, int(row["acknowledged_ps"]) // 1000)
    compared["message"] = compared.get("message", 0) + 2

# An arrow ends at every step of the ring but the first, and begins at an earlier slice.
origins = {flow: start for start, _, event in starts.values() for flow in event.flow_ids}
arrows = 0
for start, _, event in starts.values():
    for flow in event.terminating_flow_ids:
        assert origins[flow] < start
        arrows += 1
steps = [event.name for _, _, event in starts.values() if event.name.startswith("step ")]
assert arrows == sum(not step.startswith("step 1 ") for step in steps) > 50, (arrows, len(steps))

drops = sorted((time, note_of["flow"], note_of["packet"]) for uuid, found in instants.items() for time, event in found
               if event.name == "drop" for note_of in [{n.name: n.uint_value for n in event.debug_annotations}])
rows = sorted((int(r["at_ps"]) // 1000, int(r["connection"]), int(r["packet"])) for r in table("drops.csv"))
assert drops == rows and len(rows) > 50, (len(drops), len(rows))
marks = sum(n.uint_value for found in instants.values() for _, event in found for n in event.debug_annotations if n.name == "marks")
print("marks", marks)
for kind, count in compared.items():
    print(kind, count)
print("total", sum(compared.values()) + len(drops))
"#;

/// Returns a Python interpreter with the package `perfetto`, or prints that the test is skipped.
fn find_python(test: &str) -> Option<PathBuf> {
    let candidates = [repository().join("target/python/bin/python3"), PathBuf::from("python3")];
    let has_package = |python: &PathBuf| {
        let script = "import perfetto.protos.perfetto.trace.perfetto_trace_pb2";
        let output = Command::new(python).args(["-c", script]).output();
        output.is_ok_and(|output| output.status.success())
    };
    let python = candidates.into_iter().find(has_package);
    if python.is_none() {
        eprintln!("SKIPPED {test}: no Python with perfetto; .ci/install installs it in target/python");
    }
    python
}

#[test]
fn the_trace_holds_the_values_of_the_rows() {
    let Some(python) = find_python("the_trace_holds_the_values_of_the_rows") else { return };
    let folder = TempFolder::new("trace").with_file("recorded.toml", SCENARIO);
    let output =
        folder.run_ok(&["run", "recorded.toml", "--records", "csv", "--trace", "perfetto", "--json"]);
    let summary = stderr(&output);
    assert!(summary.contains("16 queues and 14 flows every 2 us, from 0 ps to 400 us"), "{summary}");
    let report = json(&output);
    let compared = Command::new(python).args(["-c", COMPARE]).current_dir(&folder.0).output();
    let compared = compared.expect("Python starts");
    assert!(compared.status.success(), "{}", String::from_utf8_lossy(&compared.stderr));
    let counts: BTreeMap<String, u64> = stdout(&compared)
        .lines()
        .filter_map(|line| {
            line.rsplit_once(' ').map(|(kind, count)| (kind.to_owned(), count.parse().unwrap_or(0)))
        })
        .collect();
    assert!(counts["total"] >= 1_000, "{counts:?}");
    for kind in ["window", "in flight", "RTT", "queue", "delay", "hop delay", "message"] {
        assert!(counts[kind] > 50, "{kind}: {counts:?}");
    }
    let text = report.to_string();
    assert!(
        text.contains(&format!("\"marks\":{}", counts["marks"])),
        "{} marks are not in {text}",
        counts["marks"]
    );
}

/// Runs tshark with the project's dissector and returns one list of fields per packet.
fn tshark(folder: &Path, capture: &Path, fields: &[&str]) -> Vec<Vec<String>> {
    let mut command = Command::new("tshark");
    // Ignore the user's Wireshark settings and plug-ins.
    command.env("WIRESHARK_CONFIG_DIR", folder).env("HOME", folder);
    command.args(["-n", "-r"]).arg(capture);
    command.arg("-X").arg(format!("lua_script:{}/tools/wireshark/poseidon.lua", repository().display()));
    command.args(["-T", "fields", "-E", "separator=|", "-E", "aggregator=;"]);
    fields.iter().for_each(|field| _ = command.args(["-e", field]));
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => panic!("cannot start tshark ({error}): install the Debian package `tshark`"),
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "tshark failed:\n{errors}");
    assert!(!errors.contains("Lua") && !errors.contains("rror"), "tshark reports an error:\n{errors}");
    let text = String::from_utf8(output.stdout).expect("tshark prints UTF-8");
    text.lines().map(|line| line.split('|').map(str::to_owned).collect()).collect()
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("{text:?} is not a number"))
}

#[test]
fn tshark_reads_the_sequence_numbers_and_telemetry_of_the_rows() {
    let folder = TempFolder::new("pcap").with_file("recorded.toml", SCENARIO);
    let output = folder.run_ok(&["run", "recorded.toml", "--records", "csv", "--pcap", "host1:0"]);
    assert!(stdout(&output).contains("packets of host1:0, from 0 ps to 400 us"), "{}", stdout(&output));
    let capture = folder.0.join("results/recorded/recordings/seed1.pcapng");
    let fields = [
        "frame.time_epoch",
        "ip.src",
        "tcp.srcport",
        "tcp.dstport",
        "tcp.seq_raw",
        "tcp.ack_raw",
        "tcp.len",
        "tcp.flags.ece",
        "poseidon.tcp.echo_ns",
        "tcp.options.sack_le",
        "frame.interface_name",
        "ip.dsfield.ecn",
        "frame.comment",
        "_ws.malformed",
    ];
    let packets = tshark(&folder.0, &capture, &fields);
    assert!(packets.len() > 2_000, "{} packets", packets.len());
    assert!(
        packets.iter().all(|packet| packet[10] == "host1:0" && packet[13].is_empty()),
        "no packet is malformed"
    );
    // The ACKs that reach host 1, by time and connection. Flow n uses port 1024 + n.
    let mut acks = BTreeMap::new();
    let mut data = BTreeMap::new();
    for packet in &packets {
        let nanoseconds = number(&packet[0].replace('.', ""));
        if packet[1] == "10.0.0.1" && packet[3] == "65053" {
            assert_eq!(packet[6], "1000", "every packet of these messages is full");
            let numbers = data.entry(number(&packet[2]) - 1_024).or_insert_with(Vec::new);
            numbers.push((number(&packet[4]) - 1) / 1_000);
        } else if packet[2] == "65053" && packet[1] != "10.0.0.1" {
            acks.insert((nanoseconds, number(&packet[3]) - 1_024), packet);
        }
    }
    // The law of each flow of host 1 read exactly these ACKs.
    let (mut compared, mut selective, mut marked) = (0, 0, 0);
    for row in rows(&folder, "decisions.csv") {
        let connection = number(&row["connection"]);
        if !data.contains_key(&connection) {
            continue;
        }
        let key = (number(&row["at_ps"]) / 1_000, connection);
        let ack = acks.get(&key).unwrap_or_else(|| panic!("no ACK at {key:?}"));
        assert_eq!(ack[8], row["hop_delay_ns"], "the echoed telemetry at {key:?}");
        assert_eq!(ack[7] == "1" || ack[7] == "True", row["marked"] == "true", "the echoed mark at {key:?}");
        marked += u32::from(row["marked"] == "true");
        let (next, packet) = (number(&ack[5]), number(&row["packet"]) * 1_000 + 1);
        if ack[9].is_empty() {
            assert!(next > packet, "a cumulative ACK covers its packet");
        } else {
            assert_eq!(number(&ack[9]), packet, "a selective ACK names its packet");
            selective += 1;
        }
        compared += 1;
    }
    assert!(compared > 500 && selective > 10 && marked > 10, "{compared} {selective} {marked}");
    // Every flow sends its packets in order, and only repeats lost ones.
    for (connection, numbers) in &data {
        let highest = numbers.iter().max().expect("the flow sends packets");
        let first_sent: std::collections::BTreeSet<u64> = numbers.iter().copied().collect();
        assert_eq!(first_sent.len() as u64, highest + 1, "flow {connection} sends every packet");
    }
}

#[test]
fn a_capture_of_a_switch_shows_drops_marks_and_hop_records() {
    let scenario = SCENARIO.replace("law = \"poseidon\"", "law = \"hpcc\"");
    let folder = TempFolder::new("switch").with_file("recorded.toml", &scenario);
    let window = ["--from", "20us", "--to", "60us"];
    let args = [&["run", "recorded.toml", "--records", "csv", "--pcap", "switch0:0"], &window[..]].concat();
    folder.run_ok(&args);
    let capture = folder.0.join("results/recorded/recordings/seed1.pcapng");
    let fields = [
        "frame.time_epoch",
        "tcp.srcport",
        "tcp.seq_raw",
        "tcp.len",
        "ip.dsfield.ecn",
        "frame.comment",
        "poseidon.hpcc.hops",
        "poseidon.hpcc.queue_bytes",
    ];
    let packets = tshark(&folder.0, &capture, &fields);
    assert!(packets.len() > 500, "{} packets", packets.len());
    let times: Vec<u64> = packets.iter().map(|packet| number(&packet[0].replace('.', ""))).collect();
    assert!(times.is_sorted() && times[0] >= 20_000 && times[times.len() - 1] < 60_000);
    let dropped: Vec<(u64, u64, u64)> = packets
        .iter()
        .filter(|packet| packet[5].starts_with("dropped: the buffer is full"))
        // HPCC's header takes 42 bytes of the stream in each packet.
        .map(|packet| {
            let sequence = (number(&packet[2]) - 1) / 1_042;
            (number(&packet[0].replace('.', "")), number(&packet[1]) - 1_024, sequence)
        })
        .collect();
    let in_window = |time: u64| (20_000..60_000).contains(&time);
    let drops: Vec<(u64, u64, u64)> = rows(&folder, "drops.csv")
        .iter()
        .filter(|row| row["switch"] == "0")
        .map(|row| (number(&row["at_ps"]) / 1_000, number(&row["connection"]), number(&row["packet"])))
        .filter(|(time, ..)| in_window(*time))
        .collect();
    assert_eq!(dropped, drops);
    assert!(!drops.is_empty());
    let marked = packets.iter().filter(|packet| packet[4] == "3").count();
    let commented = packets.iter().filter(|packet| packet[5].contains("marked (CE)")).count();
    assert!(marked > 10 && marked == commented, "{marked} marked, {commented} commented");
    let with_records = packets.iter().filter(|packet| !packet[6].is_empty()).count();
    assert!(with_records > 100, "{with_records} packets with hop records");
    let counts_match = |packet: &&Vec<String>| number(&packet[6]) == packet[7].split(';').count() as u64;
    assert!(packets.iter().filter(|packet| !packet[6].is_empty()).all(|packet| counts_match(&packet)));
}

#[test]
fn qlog_holds_the_decisions_of_the_rows() {
    let folder = TempFolder::new("qlog").with_file("recorded.toml", SCENARIO);
    folder.run_ok(&["run", "recorded.toml", "--records", "csv", "--qlog", "--flows", "0,7"]);
    let qlog = folder.0.join("results/recorded/recordings/seed1.qlog");
    let names: Vec<_> =
        fs::read_dir(&qlog).expect("the folder exists").flatten().map(|file| file.file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    let decisions = rows(&folder, "decisions.csv");
    for connection in ["0", "7"] {
        let text = folder.read(&format!("results/recorded/recordings/seed1.qlog/flow{connection}.sqlog"));
        let mut records = text
            .split('\u{1e}')
            .skip(1)
            .map(|record| serde_json::from_str::<serde_json::Value>(record).expect("every record is JSON"));
        let header = records.next().expect("the file has a header");
        assert_eq!(header["serialization_format"], "application/qlog+json-seq");
        let mut compared = 0;
        for event in records {
            assert_eq!(event["name"], "recovery:metrics_updated");
            let milliseconds = event["time"].as_f64().expect("an event has a time");
            let row = decisions.iter().find(|row| {
                let same_packet = event["data"]["packet"].as_u64() == row["packet"].parse().ok();
                let same_time = (milliseconds * 1e9 - row["at_ps"].parse::<f64>().unwrap_or(0.0)).abs() < 2e3;
                row["connection"] == connection && same_packet && same_time
            });
            let row = row.unwrap_or_else(|| panic!("no decision for {event}"));
            let window: f64 = row["window_packets"].parse().expect("a window is a number");
            let bytes = event["data"]["congestion_window"].as_f64().expect("a window is a number");
            assert!((bytes - window * 1_000.0).abs() <= 1.0, "{event}: {window} packets");
            assert_eq!(event["data"]["max_hop_delay_ns"].to_string(), row["hop_delay_ns"]);
            compared += 1;
        }
        assert!(compared > 20, "{compared} events");
    }
}

#[test]
fn wrong_requests_are_refused_before_the_study_runs() {
    let folder = TempFolder::new("errors").with_file("recorded.toml", SCENARIO);
    let refused = |args: &[&str], message: &str| {
        let output = folder.run(&[&["run", "recorded.toml"], args].concat());
        assert_eq!(exit_code(&output), 2, "{args:?}: {}", stderr(&output));
        assert_eq!(stderr(&output).trim(), format!("poseidon: {message}"));
    };
    refused(&["--pcap", "host9:0"], "\"host9:0\": the network has hosts 0 to 7");
    refused(&["--pcap", "switch0:9"], "\"switch0:9\": switch0 has ports 0 to 5");
    refused(&["--pcap", "h1"], "\"h1\" does not name a port; write host3:0 or switch5:2");
    refused(
        &["--trace", "perfetto", "--from", "1ms"],
        "the window begins at 1 ms, but the run ends at 400 us",
    );
    refused(&["--qlog", "--flows", "99"], "flow 99 does not exist; the run has flows 0 to 13");
    refused(&["--from", "10us"], "--from needs --trace, --pcap, --qlog or --map");
    refused(
        &["--trace", "perfetto", "--cell", "law swift"],
        "there is no cell \"law swift\"; there is only one, without a name",
    );
    refused(
        &["--trace", "perfetto", "--on", "linux"],
        "--trace, --pcap, --qlog and --map record simulated runs; leave out --on linux",
    );
    assert!(!folder.0.join("results").exists(), "nothing ran");
}
