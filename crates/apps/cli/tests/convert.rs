//! Tests the exchange with other simulators: files are imported, run, exported and compared.

mod common;

use common::{TempFolder, exit_code, json, stderr, stdout};

/// Three hosts (nodes 0, 1 and 4) on two switches (nodes 2 and 3). Hosts are not numbered switch by switch.
const HPCC_TOPOLOGY: &str = "5 2 4
2 3
0 3 100Gbps 0.001ms 0
1 2 100Gbps 0.001ms 0
4 2 100Gbps 0.001ms 0
2 3 100Gbps 0.001ms 0
";

const HPCC_FLOWS: &str = "3
0 4 3 100 100000 2
1 4 3 100 200000 2.00001
4 0 3 100 5000 2.00002
";

/// A chain: the second flow starts when the first flow has been acknowledged.
const MATRIX: &str = "Nodes 4
Connections 3
Triggers 1
0->1 id 1 start 0 size 100000 send_done_trigger 1
0->2 id 2 trigger 1 size 50000
3->2 id 3 start 1000000 size 4096
trigger id 1 oneshot
";

/// Runs a scenario and returns its result hash and the number of finished messages.
fn run(folder: &TempFolder, scenario: &str) -> (String, f64) {
    let output = json(&folder.run_ok(&["run", scenario, "--json", "--records", "none", "-o", "results"]));
    let values = &output["runs"][0]["phases"][0]["values"];
    assert_eq!(values["flows.unfinished"], 0.0, "{values}");
    (output["result_hash"].to_string(), values["flows.messages"].as_f64().expect("a number"))
}

#[test]
fn hpcc_files_are_imported_and_run() {
    let folder = TempFolder::new("hpcc").with_file("t.txt", HPCC_TOPOLOGY).with_file("f.txt", HPCC_FLOWS);
    folder.run_ok(&["import", "t.txt", "f.txt", "-o", "my.toml"]);
    assert_eq!(run(&folder, "my.toml").1, 3.0);
    // The scenario uses the node numbers of the file.
    let text = folder.read("my.toml");
    let more = format!(
        "{text}\n[[traffic]]\nname = \"more\"\nkind = \"incast\"\nfrom = [\"node0\", \"node1\"]\nto = \"node4\"\n\
         size = \"10 kB\"\nstart = \"2 s\"\n"
    );
    let folder = folder.with_file("more.toml", &more);
    run(&folder, "more.toml");
    let wrong = more.replace("\"node4\"", "\"node3\"");
    let output = folder.with_file("wrong.toml", &wrong).run(&["run", "wrong.toml"]);
    assert_eq!(exit_code(&output), 3);
    assert!(stderr(&output).contains("node 3 of the topology file is not a host"), "{}", stderr(&output));
}

#[test]
fn exported_flows_give_the_same_result_when_imported_again() {
    let folder = TempFolder::new("round").with_file("t.txt", HPCC_TOPOLOGY).with_file("f.txt", HPCC_FLOWS);
    folder.run_ok(&["import", "t.txt", "f.txt", "-o", "first.toml"]);
    let first = run(&folder, "first.toml");
    for (format, file) in [("hpcc", "again.txt"), ("csv", "again.csv"), ("htsim", "again.cm")] {
        folder.run_ok(&["export", "first.toml", "--format", format, "-o", file]);
        folder.run_ok(&["import", "t.txt", file, "--start-unit", "ps", "-o", "second.toml"]);
        assert_eq!(run(&folder, "second.toml"), first, "{format}");
    }
}

#[test]
fn connection_matrix_with_triggers_is_imported_run_and_exported() {
    let folder = TempFolder::new("matrix").with_file("a.cm", MATRIX);
    let output = folder.run(&["import", "a.cm", "-o", "my.toml"]);
    assert_eq!(exit_code(&output), 3);
    assert!(stderr(&output).contains("start-unit"), "{}", stderr(&output));
    folder.run_ok(&["import", "a.cm", "--start-unit", "ps", "-o", "my.toml"]);
    let first = run(&folder, "my.toml");
    assert_eq!(first.1, 3.0);
    folder.run_ok(&["export", "my.toml", "--format", "htsim", "-o", "b.cm"]);
    folder.run_ok(&["import", "b.cm", "--start-unit", "ps", "-o", "again.toml"]);
    assert_eq!(run(&folder, "again.toml"), first);
    // HPCC's format has no triggers.
    let output = folder.run(&["export", "my.toml", "--format", "hpcc", "-o", "c.txt"]);
    assert_eq!(exit_code(&output), 1);
    assert!(stderr(&output).contains("htsim"), "{}", stderr(&output));
}

#[test]
fn collective_is_exported_only_if_triggers_express_it() {
    let scenario = "title = \"c\"\nsource = \"none\"\nstop = \"10 ms\"\n[topology]\nkind = \"star\"\nhosts = 4\n\
                    link = { rate = \"100 Gbps\", delay = \"1 us\" }\n[[traffic]]\nname = \"c\"\n\
                    kind = \"collective\"\nalgorithm = \"ring-all-reduce\"\nsize = \"1 MB\"\n";
    let repeated = format!("{scenario}repetitions = 2\ncompute = \"10 us\"\n");
    let folder = TempFolder::new("joins").with_file("once.toml", scenario).with_file("twice.toml", &repeated);
    let output = folder.run_ok(&["export", "once.toml", "--format", "htsim", "-o", "-"]);
    assert!(stdout(&output).contains("recv_done_trigger"), "{}", stdout(&output));
    let output = folder.run(&["export", "twice.toml", "--format", "htsim", "-o", "-"]);
    assert_eq!(exit_code(&output), 1, "{}", stdout(&output));
}

#[test]
fn own_sizes_are_used() {
    let sizes = "size_bytes,cdf\n5000,0\n5000,1\n";
    let folder = TempFolder::new("sizes").with_file("mine.csv", sizes);
    folder.run_ok(&["import", "mine.csv", "-o", "my.toml"]);
    let output = folder.run_ok(&["export", "my.toml", "--format", "csv", "-o", "-"]);
    let text = stdout(&output);
    let column = text.lines().next().expect("a header").split(',').position(|name| name == "size_bytes");
    let column = column.expect("a column of sizes");
    assert!(text.lines().count() > 100, "{}", text.lines().count());
    assert!(text.lines().skip(1).all(|line| line.split(',').nth(column) == Some("5000")), "{text}");
}

#[test]
fn invalid_files_are_refused_with_line_and_remedy() {
    let folder = TempFolder::new("invalid")
        .with_file("flows.csv", "from,to,size_bytes,start_us\nh0,h1,100,1\nh0,h0,100,1\n")
        .with_file("unknown.txt", "hello world\n");
    let output = folder.run(&["import", "flows.csv", "-o", "my.toml"]);
    assert_eq!(exit_code(&output), 3);
    assert!(stderr(&output).contains("flows.csv: line 3"), "{}", stderr(&output));
    let output = folder.run(&["import", "unknown.txt", "-o", "my.toml"]);
    assert!(stderr(&output).contains("no known format"), "{}", stderr(&output));
    assert!(!folder.0.join("my.toml").exists(), "nothing is written");
}

#[test]
fn mistakes_in_links_and_flows_are_named_with_line_and_remedy() {
    let links = "h0 s0 100 Gbps 1 us\nh1 s0 100 Gbps 1 us\n";
    let flows = "from,to,size_bytes,start_us\n# the first\nh0,h1,100,1\nh0,h9,100,1\n";
    let folder = TempFolder::new("mistakes")
        .with_file("no-delay.txt", "h0 s0 100 Gbps\n")
        .with_file("no-space.txt", "h0 s0 100Gbps 1us\n")
        .with_file("islands.txt", &format!("{links}h2 s1 100 Gbps 1 us\n"))
        .with_file("links.txt", links)
        .with_file("flows.csv", flows)
        .with_file("t.txt", HPCC_TOPOLOGY)
        .with_file("f.txt", &HPCC_FLOWS.replace("4 0 3", "4 3 3"));
    for (files, expected) in [
        (&["no-delay.txt"][..], "no-delay.txt: line 1: write two ends, a rate and a delay"),
        (&["no-space.txt"], "no-space.txt: line 1: write two ends, a rate and a delay"),
        (&["islands.txt"], "islands.txt: line 3: s1 cannot be reached from s0; add links"),
        (
            &["links.txt", "flows.csv"],
            "flows.csv: line 4: flow 2 (0->9): there is no host h9: the network has 2",
        ),
        (&["t.txt", "f.txt"], "f.txt: line 4: flow 3 (4->3): node 3 is not a host in the topology file"),
    ] {
        let output = folder.run(&[&["import"], files, &["-o", "my.toml"]].concat());
        assert_eq!(exit_code(&output), 3, "{files:?}");
        assert!(stderr(&output).contains(expected), "{files:?}: {}", stderr(&output));
    }
    // `run` gives the same message.
    let text = "title = \"t\"\nsource = \"s\"\nstop = \"1 ms\"\n[topology]\nkind = \"file\"\nfile = \"links.txt\"\n\
                format = \"links\"\n[[traffic]]\nname = \"f\"\nkind = \"flow-list\"\nfile = \"flows.csv\"\n";
    let output = folder.with_file("own.toml", text).run(&["run", "own.toml"]);
    assert!(stderr(&output).contains("flows.csv: line 4: flow 2 (0->9)"), "{}", stderr(&output));
}

#[test]
fn imported_scenario_has_queues_for_its_priorities_and_the_rate_of_its_hosts() {
    let links = "h0 s0 25 Gbps 1 us\nh1 s0 40 Gbps 1 us\nh2 s1 25 Gbps 1 us\ns0 s1 400 Gbps 1 us\n";
    let flows = "from,to,size_bytes,start_us,priority\nh0,h1,100,1,\nh2,h1,100,1,2\n";
    let folder = TempFolder::new("priorities").with_file("links.txt", links).with_file("flows.csv", flows);
    folder.run_ok(&["import", "links.txt", "flows.csv", "-o", "my.toml"]);
    let text = folder.read("my.toml");
    assert!(text.contains("priorities = 3\n"), "{text}");
    // The link between switches is faster, but no host can send at its rate.
    assert!(text.contains("[laws.poseidon]\nbase     = \"poseidon\"\nmax-rate = \"40 Gbps\"\n"), "{text}");
    assert_eq!(run(&folder, "my.toml").1, 2.0);
    let folder = folder
        .with_file("few.toml", &text.replace("priorities = 3", "priorities = 2"))
        .with_file("high.csv", &flows.replace(",2\n", ",8\n"));
    let output = folder.run(&["run", "few.toml"]);
    assert_eq!(exit_code(&output), 3);
    assert!(stderr(&output).contains("set switch.priorities = 3"), "{}", stderr(&output));
    let output = folder.run(&["import", "links.txt", "high.csv", "-o", "high.toml"]);
    let expected = "high.csv: line 3: flow 2 (2->1): priority 8 is too high; use 0 to 7";
    assert!(stderr(&output).contains(expected), "{}", stderr(&output));
}

#[test]
fn results_are_compared_with_completion_times_of_hpcc() {
    let folder = TempFolder::new("fct").with_file("t.txt", HPCC_TOPOLOGY).with_file("f.txt", HPCC_FLOWS);
    folder.run_ok(&["import", "t.txt", "f.txt", "-o", "my.toml"]);
    run(&folder, "my.toml");
    let fct = "0b000001 0b000401 10000 100 100000 2000000000 20000 10000
0b000101 0b000401 10000 100 200000 2000010000 40000 20000
0b000401 0b000001 10001 100 5000 2000020000 6000 3000
";
    let folder = folder.with_file("fct.txt", fct);
    let output = folder.run_ok(&["compare", "results", "fct.txt", "--json"]);
    let rows = json(&output);
    let row =
        rows.as_array().expect("rows").iter().find(|row| row["metric"] == "latency_mean_us").expect("a row");
    assert_eq!(row["second"], 22.0);
    assert!(row["first"].as_f64().expect("a number") > 5.0, "{row}");
}
