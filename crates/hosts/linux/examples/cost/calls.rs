//! What one call of each program costs: under traffic, as the kernel counts it (`kernel.bpf_stats_enabled`, which itself adds some 20 ns to
//! each), and alone, repeated with everything in the cache.

use crate::place::{hosts, sh};
use crate::transfer::{On, Packets, transfer};
use core::error::Error;
use libbpf_rs::query::ProgInfoIter;
use poseidon_laws::laws::poseidon::Poseidon;
use poseidon_laws::{Ack, Law as _, Path};
use poseidon_linux::switch::{Offline, Options, Switch};
use poseidon_linux::tcp::{self, Settings};
use poseidon_linux::{Flow, InKernel, Step};
use poseidon_types::{BitRate, Bytes, Nanos};
use std::fs;

type Anything<T> = Result<T, Box<dyn Error>>;

const COUNTS: &str = "/proc/sys/kernel/bpf_stats_enabled";

pub(crate) fn measure(json: bool) -> Anything<()> {
    if fs::metadata("/run/netns/left").is_err() {
        hosts()?;
    }
    sh("tc qdisc replace dev rb root tbf rate 100gbit burst 1000000 limit 10000000")?;
    let counts = Counts::on()?;
    for (packets, bytes) in [(Packets::Merged, 1_u64 << 30), (Packets::Single, 1 << 28)] {
        packets.set()?;
        let on = On::new(&["target-floor=2 ms", "target-range=10 ms"])?;
        let port = Switch::attach("rb", Options::default())?;
        transfer(Some(&on.cgroup), bytes)?;
        if !json {
            println!("calls, {}: {} kB", packets.name(), bytes >> 10);
        }
        let report = |program: &str, runs: u64, ns: u128| {
            if json {
                let under = packets.name();
                println!("{{\"part\":\"calls\",\"row\":\"{program}, {under}\",\"runs\":{runs},\"ns\":{ns}}}");
            } else {
                println!("  {program:24} {runs:8} runs, {ns:4} ns each");
            }
        };
        for cost in tcp::status()?.map(|status| status.costs).unwrap_or_default() {
            let ns = cost.took.as_nanos() / u128::from(cost.runs).max(1);
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
    drop(counts);
    alone(json)
}

/// The kernel counts while this lives; then as before.
struct Counts(String);

impl Counts {
    fn on() -> Anything<Self> {
        let before = fs::read_to_string(COUNTS)?;
        fs::write(COUNTS, "1")?;
        Ok(Self(before))
    }
}

impl Drop for Counts {
    fn drop(&mut self) {
        let _ = fs::write(COUNTS, self.0.trim());
    }
}

fn alone(json: bool) -> Anything<()> {
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
    let mut room = [0; 2_048];
    for (name, delay, frame) in [
        ("switch, TCP, written", 1_000_000, crate::router::tcp(0, true)),
        ("switch, TCP, measured", 0, crate::router::tcp(0, true)),
        ("switch, TCP without", 0, crate::router::tcp(0, false)),
        ("switch, UDP, written", 1_000_000, crate::router::udp(0, poseidon_wire::shim::DEFAULT_UDP_PORT)),
    ] {
        router.set_delay(delay, true)?;
        // A frame that was written once is not written again but for its hops.
        let (_, took) = router.run(&frame, &mut room, 1_000_000)?;
        report(name, took.get());
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
    let replayed = InKernel::load()?.replay(flow, &steps)?;
    report("the law, one ACK", replayed.took.get() / steps.len() as u64);
    Ok(())
}
