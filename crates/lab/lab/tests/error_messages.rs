//! Checks the error messages for invalid scenarios.
//!
//! Each case changes one part of a valid scenario. The messages are compared with
//! `error_messages/expected.txt`. `UPDATE_EXPECTED=1 cargo test -p poseidon-lab --test error_messages` rewrites that
//! file.

use core::num::NonZeroU32;
use poseidon_lab::study::Study;
use poseidon_sim::Simulator;
use std::fs;
use std::path::Path;

/// A valid scenario.
const SCENARIO: &str = r#"title = "flows and a burst on one switch"
source = "none"
stop = "0.4 ms"
seeds = 2
law = "mine"

[laws.mine]
base = "swift"

[topology]
kind = "star"
hosts = 4
link = { rate = "100 Gbps", delay = "1 us" }

[switch]
stamp = "auto"
buffer = { policy = "shared", size = "1 MB", alpha = 8 }
mark = { policy = "off" }

[transport]
mtu = "1000 B"

[[traffic]]
name = "flows"
kind = "phased"
from = "host[0-1]"
to = "host2"

[[traffic]]
name = "burst"
kind = "incast"
from = "host[0-2]"
to = "host3"
size = "10 kB"

[[phase]]
name = "one"
at = "0 ms"
flows = { flows = 1 }

[[phase]]
name = "two"
at = "0.2 ms"
flows = { flows = 2 }

[observe]
sample = "10 us"
bin = "100 us"
decisions = ["flows"]
queues = { queue = "last hop of flows" }
buffers = { switch = "rack0" }
classes = { small = { of = "burst", below = "1 MB" } }

[sweep]
n = [1, 2]

[quick]
seeds = 1
sweep = { n = [1] }

[[claim]]
says = "they fill the link"
metric = "flows.total_gbps"
above = 90.0
paper = "none"

[[figure]]
title = "Rates"
kind = "bars"
metric = "flows.rate_gbps"
by = "n"
y = "Gbps"
"#;

const BURST: &str = r#"kind = "incast"
from = "host[0-2]"
to = "host3"
size = "10 kB"
"#;

const LAW_AND_SWITCH: &str = r#"base = "swift"

[topology]
kind = "star"
hosts = 4
link = { rate = "100 Gbps", delay = "1 us" }

[switch]
stamp = "auto"
"#;

const POSEIDON_WITHOUT_TELEMETRY: &str = r#"base = "poseidon"

[topology]
kind = "star"
hosts = 4
link = { rate = "100 Gbps", delay = "1 us" }

[switch]
stamp = "off"
"#;

const STAR: &str = r#"kind = "star"
hosts = 4
link = { rate = "100 Gbps", delay = "1 us" }"#;

/// Each mistake, with the scenario text to replace and its replacement.
const CASES: &[(&str, &str, &str)] = &[
    // Syntax.
    ("a bracket is not closed", "[sweep]", "[sweep"),
    ("a key appears twice", "seeds = 2", "seeds = 2\nseeds = 3"),
    ("a value is missing", "seeds = 2", "seeds ="),
    // Keys and values.
    ("unknown key of the scenario", "stop =", "sotp ="),
    ("unknown key of a table", "mtu =", "mut ="),
    ("unknown key of a topology", "hosts = 4", "hosts = 4\nracks = 2"),
    ("unknown key of an inline table", "delay = \"1 us\"", "dely = \"1 us\""),
    ("unknown key of a traffic pattern", "size = \"10 kB\"", "sizee = \"10 kB\""),
    ("unknown key without a similar name", "mtu = ", "colour = "),
    ("missing title", "title = \"flows and a burst on one switch\"\n", ""),
    ("missing key of a topology", "hosts = 4\n", ""),
    ("topology without a kind", "kind = \"star\"\n", ""),
    ("traffic without a name", "name = \"burst\"\n", ""),
    ("unknown kind of topology", "kind = \"star\"", "kind = \"sta\""),
    ("unknown kind of traffic", "kind = \"incast\"", "kind = \"in-cast\""),
    ("unknown kind of figure", "kind = \"bars\"", "kind = \"pie\""),
    ("unknown value", "stamp = \"auto\"", "stamp = \"always\""),
    ("string instead of a number", "seeds = 2", "seeds = \"two\""),
    ("number instead of a string", "title = \"flows and a burst on one switch\"", "title = 3"),
    ("number instead of a quantity", "mtu = \"1000 B\"", "mtu = 1000"),
    ("negative number", "seeds = 2", "seeds = -1"),
    ("list instead of a table", "mark = { policy = \"off\" }", "mark = [\"off\"]"),
    ("time without a unit", "stop = \"0.4 ms\"", "stop = \"0.4\""),
    ("time with the unit of a size", "stop = \"0.4 ms\"", "stop = \"0.4 kB\""),
    ("rate without a unit", "100 Gbps", "100"),
    ("size with an unknown unit", "mtu = \"1000 B\"", "mtu = \"1000 Bytes\""),
    ("parameter that is a table", "base = \"swift\"", "base = \"swift\"\nbeta = { x = 1 }"),
    // Sweeps and quick runs.
    ("sweep that is not a table", "[sweep]\nn = [1, 2]\n", "[[sweep]]\nn = [1, 2]\n"),
    ("sweep that is not a list", "n = [1, 2]", "n = 3"),
    ("sweep with a duplicate value", "n = [1, 2]", "n = [1, 2, 1]"),
    ("sweep without values", "n = [1, 2]", "n = []"),
    ("sweep of phases", "n = [1, 2]", "n = [1, 2]\nphase = [1]"),
    ("sweep of laws with a number", "n = [1, 2]", "n = [1, 2]\nlaw = [1]"),
    ("sweep of laws with an unknown law", "n = [1, 2]", "n = [1, 2]\nlaw = [\"mine\", \"swfit\"]"),
    ("sweep value without a name", "n = [1, 2]", "n = [1, 2]\nhow = [{ k = 1 }]"),
    ("set that is not a table", "n = [1, 2]", "n = [1, 2]\nhow = [{ name = \"x\", set = 1 }]"),
    (
        "set of a key inside a value that is not a table",
        "n = [1, 2]",
        "n = [1, 2]\nhow = [{ name = \"x\", set = { \"stop.x\" = 1 } }]",
    ),
    ("set of an unknown key", "n = [1, 2]", "n = [1, 2]\nhow = [{ name = \"x\", set = { seds = 1 } }]"),
    ("unknown variable", "mtu = \"1000 B\"", "mtu = \"$m B\""),
    ("quick run with an unknown sweep", "sweep = { n = [1] }", "sweep = { m = [1] }"),
    ("quick run with an unknown value", "sweep = { n = [1] }", "sweep = { n = [3] }"),
    ("zero seeds", "seeds = 2", "seeds = 0"),
    ("zero seeds in a quick run", "seeds = 1", "seeds = 0"),
    ("missing stop", "stop = \"0.4 ms\"\n", ""),
    ("too many runs", "seeds = 2", "seeds = 4_000_000_000"),
    // Laws.
    ("unknown law", "law = \"mine\"", "law = \"mime\""),
    ("unknown base of a law", "base = \"swift\"", "base = \"swfit\""),
    ("unknown preset of a law", "base = \"swift\"", "base = \"swift\"\npreset = \"papr\""),
    ("unknown parameter of a law", "base = \"swift\"", "base = \"swift\"\nbeeta = 0.5"),
    ("law parameter with an invalid value", "base = \"swift\"", "base = \"swift\"\nbase-target = \"1 kB\""),
    ("unknown law of a traffic pattern", "to = \"host3\"", "to = \"host3\"\nlaw = \"swfit\""),
    ("law that needs marks", "law = \"mine\"", "law = \"dctcp\""),
    ("law that needs telemetry", LAW_AND_SWITCH, POSEIDON_WITHOUT_TELEMETRY),
    (
        "laws that need different telemetry",
        "to = \"host2\"\n\n[[traffic]]\n",
        "to = \"host2\"\nlaw = \"hpcc\"\n\n[[traffic]]\nlaw = \"poseidon\"\n",
    ),
    // Topology, switches, transport.
    (
        "missing topology",
        "[topology]\nkind = \"star\"\nhosts = 4\nlink = { rate = \"100 Gbps\", delay = \"1 us\" }\n",
        "",
    ),
    ("fat tree with an odd number of ports", "kind = \"star\"\nhosts = 4", "kind = \"fat-tree\"\nports = 5"),
    ("topology without hosts", "hosts = 4", "hosts = 0"),
    ("link without a rate", "100 Gbps", "0 bps"),
    (
        "list of links with an invalid line",
        "kind = \"star\"\nhosts = 4\nlink = { rate = \"100 Gbps\", delay = \"1 us\" }",
        "kind = \"links\"\nlinks = \"h0 s0 fast\"",
    ),
    ("unknown buffer policy", "policy = \"shared\"", "policy = \"shard\""),
    ("unknown parameter of a policy", "alpha = 8", "alhpa = 8"),
    ("policy parameter with an invalid value", "size = \"1 MB\"", "size = \"1 ms\""),
    ("unknown mark policy", "policy = \"off\"", "policy = \"of\""),
    ("telemetry switches of an unknown rack", "stamp = \"auto\"", "stamp = \"auto\"\nstamping = \"rack7\""),
    (
        "switches without telemetry that are not racks",
        "stamp = \"auto\"",
        "stamp = \"auto\"\nsilence = { switches = \"host1\", from = \"1 us\" }",
    ),
    (
        "telemetry turned off for a switch that never writes it",
        "stamp = \"auto\"",
        "stamp = \"auto\"\nstamping = \"rack[1-0]\"\nsilence = { switches = \"rack0\", from = \"1 us\" }",
    ),
    ("telemetry switches of an unknown tier", "stamp = \"auto\"", "stamp = \"auto\"\nstamping = \"agg0\""),
    (
        "rails without a spine",
        STAR,
        "kind = \"rails\"\nservers = 4\ngpus = 1\nservers-per-leaf = 2\nspines = 0\n\
         local-link = { rate = \"1.8 Tbps\", delay = \"1 us\" }\nrail-link = { rate = \"400 Gbps\", delay = \"1 us\" }",
    ),
    // Generations and link changes.
    ("generation without switches", "[transport]", "[generation.old]\nstamp = false\n\n[transport]"),
    (
        "generation of switches that do not exist",
        "[transport]",
        "[generation.old]\nswitches = \"agg[0-1]\"\n\n[transport]",
    ),
    (
        "switch in two generations",
        "[transport]",
        "[generation.new]\nswitches = \"rack0\"\n[generation.old]\nswitches = \"all\"\n\n[transport]",
    ),
    (
        "generation with an unknown policy",
        "[transport]",
        "[generation.old]\nswitches = \"rack0\"\nmark = { policy = \"stpe\" }\n\n[transport]",
    ),
    (
        "generation with a policy parameter that is invalid",
        "[transport]",
        "[generation.old]\nswitches = \"rack0\"\nbuffer = { policy = \"shared\", size = \"1 ms\" }\n\n[transport]",
    ),
    (
        "generation with a buffer policy and PFC",
        "[transport]",
        "pfc = { memory = \"10 MB\", alpha = \"1\", resume = \"3 kB\" }\n\
         [generation.old]\nswitches = \"rack0\"\nbuffer = { policy = \"per-queue\" }\n\n[transport]",
    ),
    (
        "generation with a rate in a rail network",
        STAR,
        "kind = \"rails\"\nservers = 2\ngpus = 2\nservers-per-leaf = 2\nspines = 0\n\
         local-link = { rate = \"1.8 Tbps\", delay = \"1 us\" }\nrail-link = { rate = \"400 Gbps\", delay = \"1 us\" }\n\
         [generation.old]\nswitches = \"leaf0\"\nrate = \"100 Gbps\"",
    ),
    (
        "link change without an event",
        "[transport]",
        "[[link-change]]\nat = \"1 us\"\nswitch = \"rack0\"\nport = 0\n\n[transport]",
    ),
    (
        "link change without a port",
        "[transport]",
        "[[link-change]]\nat = \"1 us\"\nswitch = \"rack0\"\nevent = \"down\"\n\n[transport]",
    ),
    (
        "link change at a port that does not exist",
        "[transport]",
        "[[link-change]]\nat = \"1 us\"\nswitch = \"rack0\"\nport = 4\nevent = \"down\"\n\n[transport]",
    ),
    (
        "link change to an unknown switch",
        "[transport]",
        "[[link-change]]\nat = \"1 us\"\nswitch = \"rack0\"\nto = \"core1\"\nevent = \"up\"\n\n[transport]",
    ),
    (
        "link change to several hosts",
        "[transport]",
        "[[link-change]]\nat = \"1 us\"\nswitch = \"rack0\"\nto = \"host[0-1]\"\nevent = \"up\"\n\n[transport]",
    ),
    (
        "link change between switches without a link",
        "[transport]",
        "[[link-change]]\nat = \"1 us\"\nswitch = \"rack0\"\nto = \"s0\"\nevent = \"up\"\n\n[transport]",
    ),
    (
        "link change to a rate of zero",
        "[transport]",
        "[[link-change]]\nat = \"1 us\"\nswitch = \"rack0\"\nport = 0\nrate = \"0 bps\"\n\n[transport]",
    ),
    (
        "changed delay of a host link",
        "[transport]",
        "[[link-change]]\nat = \"1 us\"\nswitch = \"rack0\"\nport = 0\ndelay = \"2 us\"\n\n[transport]",
    ),
    (
        "unknown impairment",
        "[transport]",
        "[[impairment]]\nswitch = \"rack0\"\nport = 0\nimpair = { policy = \"random-los\" }\n\n[transport]",
    ),
    (
        "impairment with a probability above one",
        "[transport]",
        "[[impairment]]\nswitch = \"rack0\"\nport = 0\nimpair = { policy = \"random-loss\", probability = 2 }\n\n[transport]",
    ),
    (
        "two impairments of one link",
        "[transport]",
        "[[impairment]]\nswitch = \"rack0\"\nport = 0\nimpair = { policy = \"off\" }\n\
         [[impairment]]\nswitch = \"rack0\"\nto = \"host0\"\nimpair = { policy = \"off\" }\n\n[transport]",
    ),
    ("packet that is too large", "mtu = \"1000 B\"", "mtu = \"1 MB\""),
    ("buffer below one packet", "size = \"1 MB\"", "size = \"10 B\""),
    // Traffic.
    ("two traffic patterns with the same name", "name = \"burst\"", "name = \"flows\""),
    ("traffic without receivers", "to = \"host3\"\n", ""),
    (
        "traffic without a size",
        "kind = \"incast\"\nfrom = \"host[0-2]\"\nto = \"host3\"\nsize = \"10 kB\"",
        "kind = \"rotating-incast\"\nfrom = \"host[0-2]\"\nto = \"host3\"\nevery = \"1 us\"",
    ),
    ("key that the kind of traffic does not use", "size = \"10 kB\"", "size = \"10 kB\"\nrate = \"1 Gbps\""),
    ("hosts that do not exist", "host[0-2]", "host[0-9]"),
    ("hosts of a rack that does not exist", "host[0-2]", "rack3.host0"),
    ("hosts of a pod that does not exist", "host[0-2]", "pod1.host0"),
    ("hosts in a descending range", "host[0-2]", "host[2-0]"),
    ("hosts without a number", "host[0-2]", "hosts"),
    ("hosts with an unknown word", "host[0-2]", "server[0-2]"),
    ("count above the number of hosts", "size = \"10 kB\"", "size = \"10 kB\"\ncount = 9"),
    ("incast to several hosts", "to = \"host3\"", "to = \"host[2-3]\""),
    ("incast to one of its senders", "to = \"host3\"", "to = \"host1\""),
    ("every without together", "size = \"10 kB\"", "size = \"10 kB\"\nevery = \"1 us\""),
    (
        "more senders than receivers",
        BURST,
        "kind = \"long-flows\"\nfrom = \"host[0-2]\"\nto = \"host[2-3]\"\n",
    ),
    (
        "unknown distribution of sizes",
        BURST,
        "kind = \"poisson-flows\"\nsizes = \"websearch\"\nload = \"0.5\"\n",
    ),
    ("load above one", BURST, "kind = \"poisson-flows\"\nsizes = \"websearch-powertcp\"\nload = \"1.5\"\n"),
    ("load without sizes", BURST, "kind = \"poisson-flows\"\nload = \"0.5\"\n"),
    (
        "too many messages",
        BURST,
        "kind = \"closed-loop\"\nfrom = \"host0\"\nto = \"host3\"\nsize = \"1 kB\"\nmessages = 100_000_000\n",
    ),
    (
        "uplink of an unknown traffic pattern",
        "size = \"10 kB\"",
        "size = \"10 kB\"\nshare-uplink-of = \"flow\"",
    ),
    ("uplink that no path can share", "size = \"10 kB\"", "size = \"10 kB\"\nshare-uplink-of = \"flows\""),
    ("priority without a queue", "size = \"10 kB\"", "size = \"10 kB\"\npriority = 3"),
    // Phases and observations.
    ("two phases with the same name", "name = \"two\"", "name = \"one\""),
    ("phases that are not in order", "at = \"0 ms\"", "at = \"0.3 ms\""),
    ("phase with more flows than hosts", "flows = { flows = 2 }", "flows = { flows = 3 }"),
    ("phase with flows of an unknown traffic pattern", "flows = { flows = 2 }", "flows = { flow = 2 }"),
    ("phase with flows of traffic that is not phased", "flows = { flows = 2 }", "flows = { burst = 2 }"),
    ("settling fraction above one", "bin = \"100 us\"", "bin = \"100 us\"\nsettle = 1.5"),
    ("bin that is not a multiple of the sample interval", "bin = \"100 us\"", "bin = \"105 us\""),
    ("decisions of an unknown traffic pattern", "decisions = [\"flows\"]", "decisions = [\"flow\"]"),
    ("rates of an unknown traffic pattern", "bin = \"100 us\"", "bin = \"100 us\"\nrates = [\"folws\"]"),
    ("queue of an unknown traffic pattern", "last hop of flows", "last hop of folws"),
    ("queue without a hop", "last hop of flows", "the last one"),
    ("queue beyond the path", "last hop of flows", "hop 3 of flows"),
    ("circuit of a network without circuits", "last hop of flows", "circuit of flows"),
    ("buffers of an unknown rack", "switch = \"rack0\"", "switch = \"rack4\""),
    ("class of an unknown traffic pattern", "of = \"burst\"", "of = \"bursts\""),
    ("class with the name of a traffic pattern", "small = {", "burst = {"),
    // Claims and figures.
    ("claim without a condition", "above = 90.0\n", ""),
    ("claim with two conditions", "above = 90.0", "above = 90.0\nbelow = 1.0"),
    ("claim with an unknown metric", "flows.total_gbps", "flows.totl_gbps"),
    ("claim about an unknown traffic pattern", "flows.total_gbps", "flws.total_gbps"),
    ("claim about a metric that is not measured", "flows.total_gbps", "flows.latency_p50_us"),
    ("claim about decisions that are not logged", "flows.total_gbps", "burst.signal_us"),
    ("claim about rates that are not measured", "flows.total_gbps", "burst.total_gbps"),
    ("claim without a metric", "flows.total_gbps", "1 + 1"),
    ("claim with a metric without an owner", "flows.total_gbps", "total_gbps"),
    ("claim with an incomplete expression", "flows.total_gbps", "flows.total_gbps +"),
    ("claim with an unclosed parenthesis", "flows.total_gbps", "(flows.total_gbps"),
    ("claim with an invalid number", "flows.total_gbps", "flows.total_gbps / 1.2.3"),
    ("claim with an unknown operator", "flows.total_gbps", "flows.total_gbps % 2"),
    ("claim about an unknown sweep", "above = 90.0", "above = 90.0\nwhere = { m = 1 }"),
    ("claim about an unknown value", "above = 90.0", "above = 90.0\nwhere = { n = 3 }"),
    ("claim about an unknown phase", "above = 90.0", "above = 90.0\nwhere = { phase = \"three\" }"),
    ("claim that rises along an unknown sweep", "above = 90.0", "rising = \"m\""),
    ("comparison without a cell to compare with", "above = 90.0", "above = 90.0\nas = \"factor\""),
    ("figure along an unknown sweep", "by = \"n\"", "by = \"m\""),
    ("figure with an unknown metric", "flows.rate_gbps", "flows.rate_mbps"),
    ("figure of lines without an x axis", "kind = \"bars\"", "kind = \"lines\""),
    (
        "figure with an unknown series",
        "kind = \"bars\"\nmetric = \"flows.rate_gbps\"",
        "kind = \"series\"\nmetric = \"flows.rates\"",
    ),
    (
        "figure with an unknown distribution",
        "kind = \"bars\"\nmetric = \"flows.rate_gbps\"",
        "kind = \"distribution\"\nmetric = \"flows.rate\"",
    ),
    ("withdrawn scenario with a claim to judge", "seeds = 2", "seeds = 2\nwithdrawn = \"the authors\""),
];

/// Returns the error message for a scenario.
fn error_message(mistake: &str, text: &str) -> String {
    let simulator = Simulator::with_threads(NonZeroU32::MIN);
    // Only quick runs check their sweeps.
    let is_quick = mistake.starts_with("quick run");
    match Study::read("test.toml", text, is_quick).and_then(|study| study.check(&simulator)) {
        Ok(()) => format!("no error: {mistake}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn the_unchanged_scenario_is_valid() {
    assert_eq!(error_message("unchanged", SCENARIO), "no error: unchanged");
}

#[test]
fn error_messages_match_the_expected_file() {
    let mut found = String::new();
    for (mistake, original, replacement) in CASES {
        assert!(SCENARIO.contains(original), "{mistake}: the scenario does not contain {original:?}");
        let message = error_message(mistake, &SCENARIO.replacen(original, replacement, 1));
        assert_eq!(message.lines().count(), 1, "{mistake}: {message}");
        found.push_str(&format!("{mistake}\n    {message}\n"));
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/error_messages/expected.txt");
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        fs::write(&file, &found).expect("the expected file can be written");
    }
    let expected = fs::read_to_string(&file).unwrap_or_default();
    let changed: Vec<String> = found
        .lines()
        .zip(expected.lines().chain(core::iter::repeat("")))
        .filter(|(found, expected)| found != expected)
        .map(|(found, expected)| format!("- {}\n+ {}\n", expected.trim(), found.trim()))
        .collect();
    assert!(found == expected, "error messages have changed:\n{}", changed.concat());
}
