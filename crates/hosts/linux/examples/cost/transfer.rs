//! What a byte of a TCP transfer costs in CPU, with option and law against plain cubic.
//!
//! ```text
//!   left: a thread that sends ──veth── this process, which routes ──veth── right: a thread that receives
//! ```
//!
//! Nothing is shaped and no timer is in the way, so all that packets cause happens in the context of these two threads, or in the
//! kernel's own thread for it where it is too much: the CPU of the three is the whole cost, both ends and the router. What else the
//! machine does is not in it, but for what it does to caches.

use crate::place::{cpu_of_softirqs, cpu_of_this_thread, go_to, hosts, sh};
use crate::{median, quantile};
use core::error::Error;
use poseidon_linux::tcp::{self, Settings};
use poseidon_types::BitRate;
use rustix::net::sockopt::set_tcp_congestion;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

type Anything<T> = Result<T, Box<dyn Error>>;
type FromThread<T> = Result<T, String>;

const PAIRS: usize = 15;
const PORT: u16 = 5_054;
const ADDRESS: &str = "10.9.2.2";

pub(crate) fn measure(json: bool) -> Anything<()> {
    hosts()?;
    if !json {
        println!(
            "transfer: CPU per byte of both ends and the router, {PAIRS} pairs each, cubic first and last by turns"
        );
    }
    for (packets, bytes) in [(Packets::Merged, 1_u64 << 30), (Packets::Single, 1 << 28)] {
        packets.set()?;
        for (name, settings) in [
            ("its defaults for 10 Gbps", &[] as &[&str]),
            // A window as large as cubic's.
            ("large targets", &["target-floor=2 ms", "target-range=10 ms"]),
            (
                "large targets, ACKs delayed",
                &["target-floor=2 ms", "target-range=10 ms", "ack-every-packet=false"],
            ),
        ] {
            compare(&format!("{}, {name}", packets.name()), json, settings, bytes)?;
        }
    }
    Ok(())
}

fn compare(name: &str, json: bool, settings: &[&str], bytes: u64) -> Anything<()> {
    let on = On::new(settings)?;
    let (mut ratios, mut cost, mut speed) = (Vec::new(), [Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for pair in 0..PAIRS {
        // 0 is cubic.
        let order = if pair % 2 == 0 { [0, 1] } else { [1, 0] };
        for which in order {
            let sent = transfer((which == 1).then_some(&on.cgroup), bytes)?;
            cost[which].push(sent.cpu_ns / bytes as f64);
            speed[which].push(bytes as f64 * 8.0 / sent.wall_ns);
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
        "  {name:48} {:.3} of cubic's (quarters {:.3} to {:.3}); {:.2} against {:.2} ns per byte; {:.1} against {:.1} Gbit/s",
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
pub(crate) enum Packets {
    /// Up to 64 kB at once, as hosts do by default: what is sent is what a NIC would cut.
    Merged,
    /// One by one, as on a wire: each has a stamp of its own.
    Single,
}

impl Packets {
    pub(crate) fn set(self) -> Anything<()> {
        let word = if matches!(self, Self::Merged) { "on" } else { "off" };
        let common = format!("tso {word} gso {word} gro off");
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

/// Poseidon for a cgroup of our own; off and gone when it is dropped.
pub(crate) struct On {
    pub(crate) cgroup: PathBuf,
}

impl On {
    #[expect(clippy::disallowed_methods, reason = "others end when they end")]
    pub(crate) fn new(changed: &[&str]) -> Anything<Self> {
        let cgroup = tcp::own_cgroup()?.with_file_name(format!("poseidon-cost-{}", std::process::id()));
        if !cgroup.is_dir() {
            fs::create_dir(&cgroup)?;
        }
        let mut settings = Settings::for_rate(BitRate::from_gbps(10));
        for change in changed {
            let (name, value) = change.split_once('=').ok_or("a name and a value")?;
            settings.set(name, value)?;
        }
        settings.cgroup = Some(cgroup.clone());
        // The name is the machine's: somebody else may have it for a while.
        let mut last = None;
        for _ in 0..120 {
            match tcp::enable(&settings) {
                Ok(_) => return Ok(Self { cgroup }),
                Err(why) => last = Some(why),
            }
            thread::sleep(core::time::Duration::from_millis(500));
        }
        Err(last.map_or_else(|| "never tried".into(), Into::into))
    }
}

impl Drop for On {
    fn drop(&mut self) {
        let _ = (tcp::disable(), fs::remove_dir(&self.cgroup));
    }
}

/// What a transfer took.
pub(crate) struct Sent {
    pub(crate) cpu_ns: f64,
    pub(crate) wall_ns: f64,
}

/// Sends so many bytes from the left to the right, in a cgroup or outside.
pub(crate) fn transfer(cgroup: Option<&PathBuf>, bytes: u64) -> Anything<Sent> {
    let join = |folder: &Path| fs::write(folder.join("cgroup.procs"), "0");
    if let Some(cgroup) = cgroup {
        join(cgroup)?;
    }
    let done = both_ends(bytes, cgroup.is_none());
    if let Some(parent) = cgroup.and_then(|cgroup| cgroup.parent()) {
        join(parent)?;
    }
    done
}

#[expect(clippy::disallowed_methods, reason = "real packets take real time")]
fn both_ends(bytes: u64, is_cubic: bool) -> Anything<Sent> {
    let listen = || {
        go_to("right").map_err(text)?;
        TcpListener::bind((ADDRESS, PORT)).map_err(text)
    };
    let listener = thread::scope(|scope| scope.spawn(listen).join().map_err(|_| "it failed".to_owned()))??;
    let softirqs = cpu_of_softirqs()?;
    let began = Instant::now();
    let [sent, received] = thread::scope(|scope| {
        let receiver = scope.spawn(|| receive(&listener));
        let sender = scope.spawn(|| send(bytes, is_cubic));
        [sender, receiver].map(|end| end.join().unwrap_or_else(|_| Err("it failed".to_owned())))
    });
    let wall_ns = began.elapsed().as_nanos() as f64;
    let cpu_ns = (sent? + received? + cpu_of_softirqs()? - softirqs) as f64;
    Ok(Sent { cpu_ns, wall_ns })
}

/// Gives the CPU of this thread.
fn send(bytes: u64, is_cubic: bool) -> FromThread<u64> {
    go_to("left").map_err(text)?;
    let before = cpu_of_this_thread();
    let mut stream = TcpStream::connect((ADDRESS, PORT)).map_err(text)?;
    if is_cubic {
        set_tcp_congestion(&stream, "cubic").map_err(text)?;
    }
    let data = vec![7; 64 << 10];
    for _ in 0..bytes / data.len() as u64 {
        stream.write_all(&data).map_err(text)?;
    }
    stream.shutdown(std::net::Shutdown::Write).map_err(text)?;
    // Until the other end has all.
    let _ = stream.read(&mut [0]);
    Ok(cpu_of_this_thread() - before)
}

fn receive(listener: &TcpListener) -> FromThread<u64> {
    let before = cpu_of_this_thread();
    let (mut stream, _) = listener.accept().map_err(text)?;
    let mut room = vec![0; 256 << 10];
    while stream.read(&mut room).map_err(text)? > 0 {}
    Ok(cpu_of_this_thread() - before)
}

fn text(why: impl core::fmt::Display) -> String {
    why.to_string()
}
