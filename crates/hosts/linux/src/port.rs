//! A port of a Linux router: the device, the rate of its queue, and programs that are attached to it and outlive us.
//!
//! ```text
//!                     ┌ pinned: /sys/fs/bpf/poseidon/KIND/NETNS-IFINDEX/{config, stats, …}
//!   this process ──> maps <──> program ── clsact, priority of KIND ── device
//! ```
//!
//! A filter of clsact stays when the process ends, so what a port does is what `tc filter show` says, and the maps are found again
//! under a name that no other port of the machine has: the inode of the network namespace and the device's number in it. `ip` and
//! `tc` tell what the device is; the same questions through netlink would need code that is not safe.
//!
//! When clsact comes to a device or goes from it, the kernel stops the device for a moment (`dev_deactivate`) and throws away what is
//! queued there, without counting it. A filter comes and goes without that. So who wants to attach and detach under traffic adds clsact first, and
//! it stays: only a clsact that we brought is taken away with the last of us.

use crate::in_kernel::{KernelError, may_load, refused};
use crate::pin_folder;
use core::fmt;
use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::{Link, MapCore as _, MapHandle, Object, ObjectBuilder, Program, ProgramInput, ProgramMut};
use libbpf_rs::{TC_EGRESS, TC_INGRESS, TcHookBuilder};
use poseidon_types::{BitRate, Bytes, Nanos};
use serde_json::Value;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

/// Where pinned maps live; the usual place.
const BPF_FILES: &str = "/sys/fs/bpf";
/// Beside the kinds: ports whose clsact is not ours.
const OTHERS_CLSACT: &str = "clsact";
/// Queues whose count of bytes is not in the place that is read: they count per CPU, or their children do.
const UNREADABLE: [&str; 3] = ["mq", "mqprio", "pfifo_fast"];

/// Which side of a port a program sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// What comes in.
    Ingress,
    /// What goes out, before it is queued.
    Egress,
}

/// What can be attached to a port. Two kinds have two priorities, so both can be on one port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    /// As in paths and messages.
    pub(crate) name: &'static str,
    /// Of its filters; what is smaller runs first. Rarely anybody else's.
    pub(crate) priority: u32,
    /// The names of its programs.
    pub(crate) programs: &'static [(&'static str, Side)],
    /// The maps that a later process asks for.
    pub(crate) maps: &'static [&'static str],
}

/// A network device of this network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// Its number.
    pub index: i32,
    /// The largest packet, link header included.
    pub largest: Bytes,
    /// The kind of its root queue.
    pub queue: String,
    /// The rate of that queue, where it says so.
    pub shaped: Option<BitRate>,
}

/// Why a port could not be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum PortError {
    /// The kernel would not.
    Kernel(KernelError),
    /// `ip` or `tc` could not be started, or refused.
    Tool {
        /// What was run.
        command: String,
        /// What it said.
        why: String,
    },
    /// A file or folder.
    File {
        /// Which.
        path: PathBuf,
        /// What the system says.
        why: io::Error,
    },
    /// Packets of the device do not begin with an Ethernet header.
    NotEthernet {
        /// Which.
        device: String,
        /// What it is instead.
        link: String,
    },
    /// Its queue counts its bytes where nobody can read them.
    UnreadableQueue {
        /// Which.
        device: String,
        /// The kind of its queue.
        queue: String,
    },
    /// It has no queue, so nothing waits in it.
    NoQueue {
        /// Which.
        device: String,
    },
    /// No rate was given and its queue has none.
    NoRate {
        /// Which.
        device: String,
        /// The kind of its queue.
        queue: String,
    },
    /// A rate that delays cannot be computed with.
    BadRate {
        /// The rate.
        rate: BitRate,
    },
    /// It is there already.
    Attached {
        /// Which.
        device: String,
        /// What.
        kind: &'static str,
    },
    /// It is not there.
    NotAttached {
        /// Which.
        device: String,
        /// What.
        kind: &'static str,
    },
}

impl Device {
    /// The device called `name`.
    pub fn find(name: &str) -> Result<Self, PortError> {
        let link = tell("ip", &["-j", "link", "show", "dev", name])?;
        let queues = tell("tc", &["-j", "qdisc", "show", "dev", name])?;
        let other = || PortError::Tool {
            command: format!("ip -j link show dev {name}"),
            why: format!("an answer in another form: {link}"),
        };
        let first = &link[0];
        let kind = first["link_type"].as_str().ok_or_else(other)?;
        if kind != "ether" && kind != "loopback" {
            return Err(PortError::NotEthernet { device: name.to_owned(), link: kind.to_owned() });
        }
        let index = first["ifindex"].as_i64().and_then(|index| i32::try_from(index).ok());
        let root = queues.as_array().and_then(|all| all.iter().find(|queue| queue["root"] == true));
        let root = root.unwrap_or(&Value::Null);
        Ok(Self {
            name: name.to_owned(),
            index: index.ok_or_else(other)?,
            // With an Ethernet header.
            largest: Bytes::new(first["mtu"].as_u64().ok_or_else(other)? + 14),
            queue: root["kind"].as_str().unwrap_or("unknown").to_owned(),
            // TBF's rate is bytes per second. HTB has a rate per class, so somebody must choose.
            shaped: root["options"]["rate"]
                .as_u64()
                .filter(|_| root["kind"] == "tbf")
                .map(|bytes| BitRate::from_bps(bytes.saturating_mul(8))),
        })
    }

    /// Refuses a device without a queue, whose delays are always zero: veth, bridges and loopback as they come.
    pub fn check_queue(&self) -> Result<(), PortError> {
        if self.queue == "noqueue" { Err(PortError::NoQueue { device: self.name.clone() }) } else { Ok(()) }
    }

    /// The rate at which its queue is sent: the one that is given, or the queue's own. Refused where the queue's bytes cannot be
    /// read, because every delay would be zero.
    pub fn rate(&self, given: Option<BitRate>) -> Result<BitRate, PortError> {
        if UNREADABLE.contains(&self.queue.as_str()) {
            return Err(PortError::UnreadableQueue { device: self.name.clone(), queue: self.queue.clone() });
        }
        let none = || PortError::NoRate { device: self.name.clone(), queue: self.queue.clone() };
        given.or(self.shaped).ok_or_else(none)
    }
}

/// What the programs multiply bytes with: ns per 2^20 bytes, to the nearest. Between 2 Mbit/s, below which it has no room, and
/// 400 Gbit/s it is right to 2.5e-5.
pub(crate) fn ns_per_mib(rate: BitRate) -> Result<u32, PortError> {
    let bad = || PortError::BadRate { rate };
    let bits_per_second = rate.get();
    let product = (8_000_000_000_u64 << 20) + bits_per_second / 2;
    let ns = product.checked_div(bits_per_second).ok_or_else(bad)?;
    u32::try_from(ns).ok().filter(|ns| *ns > 0).ok_or_else(bad)
}

/// The programs and maps of an object, loaded.
#[derive(Debug)]
pub(crate) struct Loaded {
    object: Object,
}

impl Loaded {
    /// Loads an object; the verifier has then passed it. With `pretended` bytes it reads no queue.
    pub(crate) fn load(bytes: &[u8], pretended: Option<u32>) -> Result<Self, KernelError> {
        may_load()?;
        let mut open = ObjectBuilder::default().open_memory(bytes).map_err(refused("opening the object"))?;
        if let Some(pretended) = pretended {
            let mut maps = open.maps_mut();
            let mut map = maps
                .find(|map| map.name().to_string_lossy().ends_with(".rodata.test"))
                .ok_or(KernelError::OtherObject { lacks: "a place to pretend a queue" })?;
            map.set_initial_value(&pretended.to_ne_bytes()).map_err(refused("pretending a queue"))?;
        }
        Ok(Self { object: open.load().map_err(refused("loading the programs"))? })
    }

    /// A handle of one map, which lives as long as it.
    pub(crate) fn map(&self, name: &'static str) -> Result<MapHandle, KernelError> {
        let map = self.object.maps().find(|map| map.name() == name);
        let map = map.ok_or(KernelError::OtherObject { lacks: name })?;
        MapHandle::try_from(&map).map_err(refused("keeping a map"))
    }

    /// Attaches a program to the tracepoint that it names; it is there as long as the link.
    pub(crate) fn trace(&self, name: &'static str) -> Result<Link, KernelError> {
        self.program(name)?.attach().map_err(refused("attaching to a tracepoint"))
    }

    fn program(&self, name: &'static str) -> Result<ProgramMut<'_>, KernelError> {
        let found = self.object.progs_mut().find(|program| program.name() == name);
        found.ok_or(KernelError::OtherObject { lacks: name })
    }

    /// Hands a packet to a program that is attached nowhere, `repeat` times, and gives how long it is then and what one time took.
    pub(crate) fn run(
        &self,
        name: &'static str,
        packet: &[u8],
        into: &mut [u8],
        repeat: u32,
    ) -> Result<(usize, Nanos), KernelError> {
        // A program that takes no packet must not be offered one.
        let input = ProgramInput {
            data_in: Some(packet).filter(|packet| !packet.is_empty()),
            data_out: Some(into).filter(|into| !into.is_empty()),
            repeat,
            ..ProgramInput::default()
        };
        let run = self.program(name)?.test_run(input).map_err(refused("running the program"))?;
        let took = u64::try_from(run.duration.as_nanos()).unwrap_or(u64::MAX);
        Ok((run.data.map_or(0, |data| data.len()), Nanos::new(took)))
    }

    /// How many instructions the verifier has walked through to pass a program; it gives up at a million.
    pub(crate) fn verified_instructions(&self, name: &'static str) -> Result<u32, KernelError> {
        let id =
            Program::id_from_fd(self.program(name)?.as_fd()).map_err(refused("asking for the program"))?;
        let loaded = ProgInfoIter::default().find(|info| info.id == id);
        loaded
            .map(|info| info.verified_insns)
            .ok_or(KernelError::OtherObject { lacks: "its program, loaded" })
    }
}

impl Kind {
    /// Attaches the loaded programs to a device, and pins their maps. What fails half-way is undone.
    pub(crate) fn attach(&self, loaded: &Loaded, device: &Device) -> Result<(), PortError> {
        if self.is_attached(&device.name)? {
            return Err(PortError::Attached { device: device.name.clone(), kind: self.name });
        }
        mount()?;
        let done = self.pin(loaded, device).and_then(|()| self.hook(loaded, device));
        if done.is_err() {
            // The first error is the one to tell.
            let _ = self.remove(device);
        }
        done
    }

    /// The maps of an attached kind, in its order.
    pub(crate) fn open(&self, device: &Device) -> Result<Vec<MapHandle>, PortError> {
        if !self.is_attached(&device.name)? {
            return Err(PortError::NotAttached { device: device.name.clone(), kind: self.name });
        }
        let folder = self.folder(device)?;
        let open = |name: &&str| {
            let opened = MapHandle::from_pinned_path(folder.join(name));
            opened.map_err(|why| KernelError::Refused { doing: "opening a pinned map", why }.into())
        };
        self.maps.iter().map(open).collect()
    }

    /// Takes it from the device, with everything that it pinned.
    pub(crate) fn detach(&self, device: &Device) -> Result<(), PortError> {
        if !self.is_attached(&device.name)? {
            return Err(PortError::NotAttached { device: device.name.clone(), kind: self.name });
        }
        self.remove(device)
    }

    fn pin(&self, loaded: &Loaded, device: &Device) -> Result<(), PortError> {
        let folder = self.folder(device)?;
        // Of a device that is gone and had the same number.
        forget(&folder)?;
        pin_folder::make(&folder).map_err(file(&folder))?;
        for name in self.maps {
            loaded.map(name)?.pin(folder.join(name)).map_err(refused("pinning a map"))?;
        }
        Ok(())
    }

    fn hook(&self, loaded: &Loaded, device: &Device) -> Result<(), PortError> {
        let has_clsact = tell("tc", &["-j", "qdisc", "show", "dev", &device.name])?
            .as_array()
            .is_some_and(|all| all.iter().any(|queue| queue["kind"] == "clsact"));
        let others = others_clsact(device)?;
        if !has_clsact {
            // Of a device that is gone and had the same number.
            forget(&others)?;
            tool("tc", &["qdisc", "add", "dev", &device.name, "clsact"])?;
        } else if !self.has_company(device)? {
            pin_folder::make(&others).map_err(file(&others))?;
        }
        for (name, side) in self.programs {
            let program = loaded.program(name)?;
            let mut builder = TcHookBuilder::new(program.as_fd());
            let builder = builder.ifindex(device.index).handle(1).priority(self.priority);
            let side = if *side == Side::Egress { TC_EGRESS } else { TC_INGRESS };
            builder.hook(side).attach().map_err(refused("attaching the program"))?;
        }
        Ok(())
    }

    /// Removes filters and pins, and with the last filter the clsact that we brought.
    fn remove(&self, device: &Device) -> Result<(), PortError> {
        let (name, priority) = (&device.name, self.priority.to_string());
        for (_, side) in self.programs {
            if self.is_at(name, *side)? {
                tool("tc", &["filter", "del", "dev", name, side.name(), "pref", &priority])?;
            }
        }
        let (others, is_last) = (others_clsact(device)?, !self.has_company(device)?);
        let is_empty = |side| Ok::<_, PortError>(filters(name, side)?.is_empty());
        if !others.exists() && is_empty(Side::Ingress)? && is_empty(Side::Egress)? {
            tool("tc", &["qdisc", "del", "dev", name, "clsact"])?;
        }
        for folder in [self.folder(device)?].into_iter().chain(is_last.then_some(others)) {
            forget(&folder)?;
            // Other ports may have theirs beside it: then these stay.
            for empty in folder.ancestors().skip(1).take(2) {
                let _ = fs::remove_dir(empty);
            }
        }
        Ok(())
    }

    /// Whether another kind is attached to the device.
    fn has_company(&self, device: &Device) -> Result<bool, PortError> {
        let name = port_name(device)?;
        let kinds = fs::read_dir(Path::new(BPF_FILES).join("poseidon")).into_iter().flatten().flatten();
        Ok(kinds
            .filter(|kind| kind.file_name() != self.name && kind.file_name() != OTHERS_CLSACT)
            .any(|kind| kind.path().join(&name).exists()))
    }

    fn is_attached(&self, device: &str) -> Result<bool, PortError> {
        self.programs.iter().try_fold(false, |found, (_, side)| Ok(found || self.is_at(device, *side)?))
    }

    fn is_at(&self, device: &str, side: Side) -> Result<bool, PortError> {
        Ok(filters(device, side)?.iter().any(|filter| filter["pref"] == self.priority))
    }

    fn folder(&self, device: &Device) -> Result<PathBuf, PortError> {
        Ok([BPF_FILES, "poseidon", self.name, &port_name(device)?].iter().collect())
    }
}

impl Side {
    const fn name(self) -> &'static str {
        match self {
            Self::Ingress => "ingress",
            Self::Egress => "egress",
        }
    }
}

/// What no other port of the machine is called.
fn port_name(device: &Device) -> Result<String, PortError> {
    Ok(format!("{}-{}", namespace()?, device.index))
}

/// A folder that is there where the device's clsact was there before us.
fn others_clsact(device: &Device) -> Result<PathBuf, PortError> {
    Ok([BPF_FILES, "poseidon", OTHERS_CLSACT, &port_name(device)?].iter().collect())
}

/// The network namespace of the calling thread, by the number of its inode.
pub(crate) fn namespace() -> Result<u32, PortError> {
    let path = Path::new("/proc/thread-self/ns/net");
    let link = fs::read_link(path).map_err(file(path))?;
    // "net:[4026531840]"
    let inode: String = link.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
    inode.parse().map_err(|_| PortError::File {
        path: path.to_owned(),
        why: io::Error::new(io::ErrorKind::InvalidData, "not the name of a namespace"),
    })
}

fn filters(device: &str, side: Side) -> Result<Vec<Value>, PortError> {
    let all = tell("tc", &["-j", "filter", "show", "dev", device, side.name()])?;
    Ok(all.as_array().cloned().unwrap_or_default())
}

/// Mounts the file system of pinned maps, where nobody has yet.
fn mount() -> Result<(), PortError> {
    let mounts = Path::new("/proc/thread-self/mounts");
    let mounted = fs::read_to_string(mounts).map_err(file(mounts))?;
    let is_there = mounted.lines().any(|line| {
        let mut words = line.split(' ').skip(1);
        words.next() == Some(BPF_FILES) && words.next() == Some("bpf")
    });
    if is_there { Ok(()) } else { tool("mount", &["-t", "bpf", "bpf", BPF_FILES]).map(|_| ()) }
}

/// Unpins everything in a folder and removes it; nothing is there to remove is no error.
fn forget(folder: &Path) -> Result<(), PortError> {
    match fs::remove_dir_all(folder) {
        Err(why) if why.kind() != io::ErrorKind::NotFound => {
            Err(PortError::File { path: folder.to_owned(), why })
        }
        _ => Ok(()),
    }
}

/// What `ip -j` or `tc -j` says; nothing at all is an empty list.
fn tell(name: &str, arguments: &[&str]) -> Result<Value, PortError> {
    let text = tool(name, arguments)?;
    if text.trim().is_empty() {
        return Ok(Value::Array(Vec::new()));
    }
    serde_json::from_str(&text).map_err(|why| PortError::Tool {
        command: format!("{name} {}", arguments.join(" ")),
        why: format!("an answer that is not JSON: {why}"),
    })
}

fn tool(name: &str, arguments: &[&str]) -> Result<String, PortError> {
    let failed = |why| PortError::Tool { command: format!("{name} {}", arguments.join(" ")), why };
    let output = Command::new(name).args(arguments).output();
    let output = output.map_err(|why| failed(format!("{why}; apt-get install iproute2")))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn file(path: &Path) -> impl FnOnce(io::Error) -> PortError {
    move |why| PortError::File { path: path.to_owned(), why }
}

impl From<KernelError> for PortError {
    fn from(error: KernelError) -> Self {
        Self::Kernel(error)
    }
}

impl fmt::Display for PortError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel(error) => error.fmt(f),
            Self::Tool { command, why } => write!(f, "`{command}` failed: {why}"),
            Self::File { path, why } => write!(f, "{}: {why}", path.display()),
            Self::NotEthernet { device, link } => {
                write!(f, "packets of {device} have no Ethernet header ({link}); choose another device")
            }
            Self::UnreadableQueue { device, queue } => {
                write!(f, "the bytes in queue \"{queue}\" of {device} cannot be read; give it one queue: ")?;
                write!(f, "tc qdisc replace dev {device} root tbf rate 1gbit burst 30000 limit 1000000")
            }
            Self::NoQueue { device } => {
                write!(f, "{device} has no queue, so every delay would be zero; give it one: ")?;
                write!(f, "tc qdisc replace dev {device} root tbf rate 1gbit burst 30000 limit 1000000")
            }
            Self::NoRate { device, queue } => write!(
                f,
                "queue \"{queue}\" of {device} does not say its rate; give one, or shape it: \
                 tc qdisc replace dev {device} root tbf rate 1gbit burst 30000 limit 1000000"
            ),
            Self::BadRate { rate } => {
                write!(f, "delays at {rate} cannot be computed; give a rate between 2 Mbps and 8 Pbps")
            }
            Self::Attached { device, kind } => write!(f, "{kind} is attached to {device}; detach it first"),
            Self::NotAttached { device, kind } => {
                write!(f, "{kind} is not attached to {device}; attach it first")
            }
        }
    }
}

impl core::error::Error for PortError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_become_a_factor_or_are_refused() {
        // 80 ns per byte.
        assert_eq!(ns_per_mib(BitRate::from_mbps(100)).ok(), Some(80 << 20));
        assert_eq!(ns_per_mib(BitRate::from_gbps(1)).ok(), Some(8 << 20));
        // 20 ps per byte are 20,971.52 ns.
        assert_eq!(ns_per_mib(BitRate::from_gbps(400)).ok(), Some(20_972));
        assert_eq!(ns_per_mib(BitRate::from_mbps(2)).ok(), Some(4_194_304_000));
        for bps in [0, 1_000_000, u64::MAX] {
            assert!(ns_per_mib(BitRate::from_bps(bps)).is_err(), "{bps}");
        }
    }

    #[test]
    fn a_rate_is_given_or_read_or_asked_for() {
        let device = |queue: &str, shaped| Device {
            name: "e0".to_owned(),
            index: 2,
            largest: Bytes::new(1_514),
            queue: queue.to_owned(),
            shaped,
        };
        let slow = BitRate::from_mbps(100);
        let fast = BitRate::from_gbps(1);
        assert_eq!(device("tbf", Some(slow)).rate(None).ok(), Some(slow));
        assert_eq!(device("tbf", Some(slow)).rate(Some(fast)).ok(), Some(fast));
        let said = device("htb", None).rate(None).expect_err("HTB has a rate per class").to_string();
        assert!(said.contains("give one, or shape it: tc qdisc replace dev e0 root tbf"), "{said}");
        let said = device("noqueue", None).check_queue().expect_err("nothing waits there").to_string();
        assert!(said.starts_with("e0 has no queue, so every delay would be zero; give it one: tc"), "{said}");
        let said = device("mq", None).rate(Some(fast)).expect_err("its queues are below it").to_string();
        assert!(said.starts_with("the bytes in queue \"mq\" of e0 cannot be read"), "{said}");
    }
}
