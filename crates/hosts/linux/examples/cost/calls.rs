//! Measures the time per call of each program: under traffic, with the kernel's statistics (`kernel.bpf_stats_enabled`,
//! which adds about 20 ns), and in a loop with warm caches.

use crate::testnet::{create_hosts, sh};
use crate::transfer::{EnabledPoseidon, Offload, transfer};
use core::error::Error;
use libbpf_rs::query::ProgInfoIter;
use poseidon_laws::laws::poseidon::Poseidon;
use poseidon_laws::{Ack, LawDefinition, Path};
use poseidon_linux::switch::{Offline, Options, Switch};
use poseidon_linux::tcp::{self, Settings};
use poseidon_linux::{Flow, KernelReplay, Step};
use poseidon_types::{BitRate, Bytes, Nanos};
use std::fs;

type AnyResult<T> = Result<T, Box<dyn Error>>;

const BPF_STATS: &str = "/proc/sys/kernel/bpf_stats_enabled";

pub(crate) fn measure(json: bool) -> AnyResult<()> {
    if fs::metadata("/run/netns/left").is_err() {
        create_hosts()?;
    }
    sh("tc qdisc replace dev rb root tbf rate 100gbit burst 1000000 limit 10000000")?;
    let stats = StatsEnabled::new()?;
    for (offload, bytes) in [(Offload::Merged, 1_u64 << 30), (Offload::Single, 1 << 28)] {
        offload.apply()?;
        let poseidon = EnabledPoseidon::new(&["target-floor=2 ms", "target-range=10 ms"])?;
        let port = Switch::attach("rb", Options::default())?;
        transfer(Some(&poseidon.cgroup), bytes)?;
        if !json {
            println!("calls, {}: {} kB", offload.name(), bytes >> 10);
        }
        let report = |program: &str, runs: u64, ns: u128| {
            if json {
                let mode = offload.name();
                println!("{{\"part\":\"calls\",\"row\":\"{program}, {mode}\",\"runs\":{runs},\"ns\":{ns}}}");
            } else {
                println!("  {program:24} {runs:8} runs, {ns:4} ns each");
            }
        };
        for cost in tcp::status()?.map(|status| status.costs).unwrap_or_default() {
            let ns = cost.total_time.as_nanos() / u128::from(cost.runs).max(1);
            report(&cost.program, cost.runs, ns);
        }
        let switch =
            ProgInfoIter::default().filter(|program| program.name.to_string_lossy() == "switch_egress");
        for program in switch.filter(|program| program.run_cnt > 0) {
            let ns = program.run_time_ns / program.run_cnt;
            report("switch_egress", program.run_cnt, u128::from(ns));
        }
        port.detach()?;
    }
    drop(stats);
    measure_repeated(json)
}

/// Enables the kernel's BPF statistics. Restores the old setting when dropped.
struct StatsEnabled(String);

impl StatsEnabled {
    fn new() -> AnyResult<Self> {
        let old_setting = fs::read_to_string(BPF_STATS)?;
        fs::write(BPF_STATS, "1")?;
        Ok(Self(old_setting))
    }
}

impl Drop for StatsEnabled {
    fn drop(&mut self) {
        let _ = fs::write(BPF_STATS, self.0.trim());
    }
}

fn measure_repeated(json: bool) -> AnyResult<()> {
    if !json {
        println!("calls, repeated");
    }
    let report = |row: &str, ns: u64| {
        if json {
            println!("{{\"part\":\"calls\",\"row\":\"{row}, repeated\",\"ns\":{ns}}}");
        } else {
            println!("  {row:24} {ns:4} ns");
        }
    };
    let router = Offline::load()?;
    let mut output = [0; 2_048];
    for (name, delay, frame) in [
        ("switch, TCP, written", 1_000_000, crate::router::tcp(0, true)),
        ("switch, TCP, measured", 0, crate::router::tcp(0, true)),
        ("switch, TCP without", 0, crate::router::tcp(0, false)),
        ("switch, UDP, written", 1_000_000, crate::router::udp(0, poseidon_wire::shim::DEFAULT_UDP_PORT)),
    ] {
        router.set_delay(delay, true)?;
        // After the first run, only the hop count changes.
        let (_, time) = router.run(&frame, &mut output, 1_000_000)?;
        report(name, time.get());
    }
    let law = Settings::for_rate(BitRate::from_gbps(10)).law;
    let path = Path { mtu: Bytes::new(1_448), line_rate: law.max_rate, base_rtt: Nanos::from_micros(100) };
    let flow = Flow::try_from(&Poseidon::new(&law, &path))?;
    let ack = |number: u64| {
        let (now, rtt) = (Nanos::new(number * 1_200), Nanos::from_micros(100 + number % 40));
        let max_hop_delay = Some(Nanos::from_micros(number % 90));
        Step::ack(&Ack { now, rtt, max_hop_delay, packets: 1, ..Ack::EMPTY })
    };
    let steps: Vec<Step> = (0..100_000).map(ack).collect();
    let result = KernelReplay::load()?.replay(flow, &steps)?;
    report("the law, one ACK", result.elapsed.get() / steps.len() as u64);
    Ok(())
}
