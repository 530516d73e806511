//! Measures the CPU time per byte of a TCP transfer, with Poseidon and with plain CUBIC.
//!
//! ```text
//!   left: a thread that sends ──veth── this process, which routes ──veth── right: a thread that receives
//! ```
//!
//! There is no shaper and no timer, so all packet processing happens in the context of these two threads, or in the
//! kernel's softirq threads. Together, their CPU time is the whole cost of both ends and the router. Other work on the
//! machine affects this cost only through the caches.

use crate::testnet::{cpu_of_softirqs, cpu_of_this_thread, create_hosts, sh};
use crate::{median, quantile};
use core::error::Error;
use poseidon_linux::tcp::{self, Settings};
use poseidon_netns::setns;
use poseidon_types::BitRate;
use rustix::net::sockopt::set_tcp_congestion;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

type AnyResult<T> = Result<T, Box<dyn Error>>;
type ThreadResult<T> = Result<T, Box<dyn Error + Send + Sync>>;

const PAIRS: usize = 15;
const PORT: u16 = 5_054;
const ADDRESS: &str = "10.9.2.2";

pub(crate) fn measure(json: bool) -> AnyResult<()> {
    create_hosts()?;
    if !json {
        println!(
            "transfer: CPU time per byte of both ends and the router, {PAIRS} pairs each, in alternating order"
        );
    }
    for (offload, bytes) in [(Offload::Merged, 1_u64 << 30), (Offload::Single, 1 << 28)] {
        offload.apply()?;
        for (name, settings) in [
            ("its defaults for 10 Gbps", &[] as &[&str]),
            // The window is as large as CUBIC's.
            ("large targets", &["target-floor=2 ms", "target-range=10 ms"]),
            (
                "large targets, ACKs delayed",
                &["target-floor=2 ms", "target-range=10 ms", "ack-every-packet=false"],
            ),
        ] {
            compare(&format!("{}, {name}", offload.name()), json, settings, bytes)?;
        }
    }
    Ok(())
}

fn compare(name: &str, json: bool, settings: &[&str], bytes: u64) -> AnyResult<()> {
    let poseidon = EnabledPoseidon::new(settings)?;
    let (mut ratios, mut cost, mut speed) = (Vec::new(), [Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for pair in 0..PAIRS {
        // 0 is CUBIC, and 1 is Poseidon.
        let order = if pair % 2 == 0 { [0, 1] } else { [1, 0] };
        for control in order {
            let transfer_cost = transfer((control == 1).then_some(&poseidon.cgroup), bytes)?;
            cost[control].push(transfer_cost.cpu_ns / bytes as f64);
            speed[control].push(bytes as f64 * 8.0 / transfer_cost.wall_ns);
        }
        ratios.push(cost[1][pair] / cost[0][pair]);
    }
    if json {
        println!(
            "{{\"part\":\"transfer\",\"row\":\"{name}\",\"ratio\":{:.4},\"ns_per_byte\":{:.4},\"cubic_ns_per_byte\":{:.4}}}",
            median(ratios),
            median(cost[1].clone()),
            median(cost[0].clone())
        );
        return Ok(());
    }
    println!(
        "  {name:48} ratio to cubic {:.3} (quartiles {:.3} to {:.3}); {:.2} against {:.2} ns per byte; {:.1} against {:.1} Gbit/s",
        median(ratios.clone()),
        quantile(&ratios, 0.25),
        quantile(&ratios, 0.75),
        median(cost[1].clone()),
        median(cost[0].clone()),
        median(speed[1].clone()),
        median(speed[0].clone())
    );
    Ok(())
}

/// How packets cross a veth.
#[derive(Clone, Copy)]
pub(crate) enum Offload {
    /// Segments of up to 64 kB, which hosts send by default and a NIC would split.
    Merged,
    /// Single packets, as on a wire, each with its own stamp.
    Single,
}

impl Offload {
    pub(crate) fn apply(self) -> AnyResult<()> {
        let state = if matches!(self, Self::Merged) { "on" } else { "off" };
        let common = format!("tso {state} gso {state} gro off");
        sh(&format!(
            "nsenter --net=/run/netns/left ethtool -K a0 {common}; nsenter --net=/run/netns/right ethtool -K b0 {common}
             ethtool -K ra {common}; ethtool -K rb {common}"
        ))
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Merged => "packets merged",
            Self::Single => "packets one by one",
        }
    }
}

/// Poseidon, enabled for a temporary cgroup. Dropping this value disables it.
pub(crate) struct EnabledPoseidon {
    pub(crate) cgroup: PathBuf,
}

impl EnabledPoseidon {
    #[expect(clippy::disallowed_methods, reason = "another process needs time to end")]
    pub(crate) fn new(changes: &[&str]) -> AnyResult<Self> {
        let cgroup = tcp::default_cgroup()?.with_file_name(format!("poseidon-cost-{}", std::process::id()));
        if !cgroup.is_dir() {
            fs::create_dir(&cgroup)?;
        }
        let mut settings = Settings::for_rate(BitRate::from_gbps(10));
        for change in changes {
            let (name, value) = change.split_once('=').ok_or("write a setting as NAME=VALUE")?;
            settings.set(name, value)?;
        }
        settings.cgroup = Some(cgroup.clone());
        // Congestion control names are unique on the machine, so another process may still be using this name.
        let mut last_error = None;
        for _ in 0..120 {
            match tcp::enable(&settings) {
                Ok(_) => return Ok(Self { cgroup }),
                Err(error) => last_error = Some(error),
            }
            thread::sleep(core::time::Duration::from_millis(500));
        }
        Err(last_error.map_or_else(|| "no attempt was made".into(), Into::into))
    }
}

impl Drop for EnabledPoseidon {
    fn drop(&mut self) {
        let _ = (tcp::disable(), fs::remove_dir(&self.cgroup));
    }
}

/// The cost of a transfer.
pub(crate) struct TransferCost {
    pub(crate) cpu_ns: f64,
    pub(crate) wall_ns: f64,
}

/// Sends `bytes` from left to right, inside `cgroup` if one is given.
pub(crate) fn transfer(cgroup: Option<&PathBuf>, bytes: u64) -> AnyResult<TransferCost> {
    let join = |folder: &Path| fs::write(folder.join("cgroup.procs"), "0");
    if let Some(cgroup) = cgroup {
        join(cgroup)?;
    }
    let result = run_both_ends(bytes, cgroup.is_none());
    if let Some(parent) = cgroup.and_then(|cgroup| cgroup.parent()) {
        join(parent)?;
    }
    result
}

#[expect(clippy::disallowed_methods, reason = "real packets take real time")]
fn run_both_ends(bytes: u64, is_cubic: bool) -> AnyResult<TransferCost> {
    let listener = poseidon_netns::run_in("right", || TcpListener::bind((ADDRESS, PORT)))??;
    let softirqs = cpu_of_softirqs()?;
    let start = Instant::now();
    let [sender, receiver] = thread::scope(|scope| {
        let receiver = scope.spawn(|| receive(&listener));
        let sender = scope.spawn(|| send(bytes, is_cubic));
        [sender, receiver].map(|end| end.join().unwrap_or_else(|_| Err("a thread panicked".into())))
    });
    let wall_ns = start.elapsed().as_nanos() as f64;
    let cpu_of = |end: ThreadResult<u64>| end.map_err(|error| -> Box<dyn Error> { error });
    let cpu_ns = (cpu_of(sender)? + cpu_of(receiver)? + cpu_of_softirqs()? - softirqs) as f64;
    Ok(TransferCost { cpu_ns, wall_ns })
}

/// Sends `bytes`. Returns this thread's CPU time.
fn send(bytes: u64, is_cubic: bool) -> ThreadResult<u64> {
    setns("left")?;
    let before = cpu_of_this_thread();
    let mut stream = TcpStream::connect((ADDRESS, PORT))?;
    if is_cubic {
        set_tcp_congestion(&stream, "cubic")?;
    }
    let data = vec![7; 64 << 10];
    for _ in 0..bytes / data.len() as u64 {
        stream.write_all(&data)?;
    }
    stream.shutdown(std::net::Shutdown::Write)?;
    // Wait until the receiver has received everything.
    let _ = stream.read(&mut [0]);
    Ok(cpu_of_this_thread() - before)
}

/// Receives everything. Returns this thread's CPU time.
fn receive(listener: &TcpListener) -> ThreadResult<u64> {
    let before = cpu_of_this_thread();
    let (mut stream, _) = listener.accept()?;
    let mut buffer = vec![0; 256 << 10];
    while stream.read(&mut buffer)? > 0 {}
    Ok(cpu_of_this_thread() - before)
}
