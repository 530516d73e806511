//! A port of a Linux router: its device, its queue rate, and the attached programs.
//!
//! ```text
//!                     ┌ pinned: /sys/fs/bpf/poseidon/KIND/NETNS-IFINDEX/{config, stats, …}
//!   this process ──> maps <──> program ── clsact, priority of KIND ── device
//! ```
//!
//! A clsact filter stays attached after the process exits, and `tc filter show` lists it. The maps are pinned under a
//! name that is unique on this machine: the network namespace inode and the interface index. If the current mount
//! namespace has no BPF file system, pins go to the outer mount namespace (see `mount_namespace`).
//!
//! Devices are queried through `ip` and `tc`, because the same queries through netlink would need unsafe code.
//!
//! Adding or deleting clsact stops the device for a moment (`dev_deactivate`), and the kernel drops the queued packets
//! without counting them. Adding or deleting a filter drops no packets. To attach and detach programs under traffic,
//! add clsact beforehand. Removing our last filter deletes clsact only if we added it.

use crate::kernel_features::KernelFeature;
use crate::mount_namespace::{MountNamespaceError, with_bpf_file_system};
use crate::object::{KernelError, load_object, refused, require_features, set_initial_value};
use crate::pin_folder;
use core::fmt;
use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::{Link, MapCore as _, MapHandle, Object, Program, ProgramInput, ProgramMut};
use libbpf_rs::{TC_EGRESS, TC_INGRESS, TcHookBuilder};
use poseidon_types::{BitRate, Bytes, Nanos};
use serde_json::Value;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

/// The folder with markers for ports whose clsact is not ours. It has the same parent as the pin folders.
const FOREIGN_CLSACT: &str = "clsact";
/// Queueing disciplines without a byte count at the root, because they count per CPU or in their children.
const UNREADABLE_QUEUES: [&str; 3] = ["mq", "mqprio", "pfifo_fast"];
/// The size of an Ethernet header, in bytes.
const ETHERNET_HEADER: u64 = 14;

/// The side of a port to which a program is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hook {
    /// Incoming packets.
    Ingress,
    /// Outgoing packets, before they are queued.
    Egress,
}

/// A set of programs for a port. Each kind has its own priority, so one port can have several kinds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttachmentKind {
    /// The name used in paths and messages.
    pub(crate) name: &'static str,
    /// The filter priority. Filters with smaller numbers run first.
    pub(crate) priority: u32,
    /// The program names and their hooks.
    pub(crate) programs: &'static [(&'static str, Hook)],
    /// The maps to pin for later processes.
    pub(crate) maps: &'static [&'static str],
}

/// A network device in the current network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// The device name.
    pub name: String,
    /// The interface index.
    pub index: i32,
    /// The size of the largest frame, including the link header.
    pub max_frame: Bytes,
    /// The kind of the root queueing discipline.
    pub queue_kind: String,
    /// The rate of the root queueing discipline, if it reports one.
    pub queue_rate: Option<BitRate>,
}

/// The pins of a port whose device or network namespace no longer exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StalePin {
    /// The network namespace inode.
    pub netns: u32,
    /// The interface index of the deleted device.
    pub index: i32,
    /// The pin folder.
    pub path: PathBuf,
}

/// Why a port could not be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum PortError {
    /// The kernel refused an operation.
    Kernel(KernelError),
    /// `ip` or `tc` could not be started, or it failed.
    Command {
        /// The command line.
        command: String,
        /// The command's error output.
        reason: String,
    },
    /// A file or folder could not be used.
    File {
        /// The file or folder.
        path: PathBuf,
        /// The underlying OS error.
        error: io::Error,
    },
    /// No BPF file system is mounted here, and the outer mount namespace cannot be entered.
    MountNamespace {
        /// The underlying OS error.
        error: io::Error,
    },
    /// The device's frames have no Ethernet header.
    NotEthernet {
        /// The device name.
        device: String,
        /// The link type.
        link: String,
    },
    /// The device's queue does not expose its byte count.
    UnreadableQueue {
        /// The device name.
        device: String,
        /// The queue kind.
        queue: String,
    },
    /// The device has no queue.
    NoQueue {
        /// The device name.
        device: String,
    },
    /// No rate was given, and the queue reports none.
    NoRate {
        /// The device name.
        device: String,
        /// The queue kind.
        queue: String,
    },
    /// Delays cannot be computed for this rate.
    BadRate {
        /// The rate.
        rate: BitRate,
    },
    /// The programs are already attached.
    AlreadyAttached {
        /// The device name.
        device: String,
        /// The kind of programs.
        kind: &'static str,
    },
    /// The programs are not attached.
    NotAttached {
        /// The device name.
        device: String,
        /// The kind of programs.
        kind: &'static str,
    },
}

impl Device {
    /// Finds the device called `name`.
    pub fn find(name: &str) -> Result<Self, PortError> {
        let link = query_json("ip", &["-j", "link", "show", "dev", name])?;
        let queues = query_json("tc", &["-j", "qdisc", "show", "dev", name])?;
        let unexpected = || PortError::Command {
            command: format!("ip -j link show dev {name}"),
            reason: format!("unexpected output: {link}"),
        };
        let first = &link[0];
        let kind = first["link_type"].as_str().ok_or_else(unexpected)?;
        if kind != "ether" && kind != "loopback" {
            return Err(PortError::NotEthernet { device: name.to_owned(), link: kind.to_owned() });
        }
        let index = first["ifindex"].as_i64().and_then(|index| i32::try_from(index).ok());
        let mtu = first["mtu"].as_u64().ok_or_else(unexpected)?;
        let root = queues.as_array().and_then(|all| all.iter().find(|queue| queue["root"] == true));
        let root = root.unwrap_or(&Value::Null);
        Ok(Self {
            name: name.to_owned(),
            index: index.ok_or_else(unexpected)?,
            max_frame: Bytes::new(mtu + ETHERNET_HEADER),
            queue_kind: root["kind"].as_str().unwrap_or("unknown").to_owned(),
            // TBF reports bytes per second. HTB has one rate per class, so the user must specify the rate.
            queue_rate: root["options"]["rate"]
                .as_u64()
                .filter(|_| root["kind"] == "tbf")
                .map(|bytes| BitRate::from_bps(bytes.saturating_mul(8))),
        })
    }

    /// Refuses a device without a queue, because its delays would always be zero. By default, veth, bridge and loopback
    /// devices have no queue.
    pub fn check_queue(&self) -> Result<(), PortError> {
        if self.queue_kind == "noqueue" {
            return Err(PortError::NoQueue { device: self.name.clone() });
        }
        Ok(())
    }

    /// Returns the queue's drain rate: the configured rate, or else the rate that the queue reports.
    ///
    /// Refuses a queue without a readable byte count, because every delay would then be zero.
    pub fn rate(&self, configured: Option<BitRate>) -> Result<BitRate, PortError> {
        let (device, queue) = (self.name.clone(), self.queue_kind.clone());
        if UNREADABLE_QUEUES.contains(&self.queue_kind.as_str()) {
            return Err(PortError::UnreadableQueue { device, queue });
        }
        configured.or(self.queue_rate).ok_or(PortError::NoRate { device, queue })
    }
}

/// Returns the factor by which the programs multiply bytes: ns per 2^20 bytes, rounded to the nearest integer.
///
/// Below 2 Mbit/s, the factor does not fit in 32 bits. Between 2 Mbit/s and 400 Gbit/s, its relative error is at most
/// 2.5e-5.
pub(crate) fn ns_per_mib(rate: BitRate) -> Result<u32, PortError> {
    let bad_rate = || PortError::BadRate { rate };
    let bits_per_second = rate.get();
    let product = (8_000_000_000_u64 << 20) + bits_per_second / 2;
    let ns = product.checked_div(bits_per_second).ok_or_else(bad_rate)?;
    u32::try_from(ns).ok().filter(|ns| *ns > 0).ok_or_else(bad_rate)
}

/// An object's loaded programs and maps.
#[derive(Debug)]
pub(crate) struct LoadedObject {
    object: Object,
}

impl LoadedObject {
    /// Loads an object that needs the kernel features `needed`. If `test_backlog` is given, the programs use it as the queue length in bytes, instead of
    /// reading the real queue.
    pub(crate) fn load(
        bytes: &[u8],
        needed: &[KernelFeature],
        test_backlog: Option<u32>,
    ) -> Result<Self, KernelError> {
        require_features(needed)?;
        let object = load_object(bytes, |object| match test_backlog {
            Some(backlog) => set_initial_value(object, ".rodata.test", &backlog.to_ne_bytes()),
            None => Ok(()),
        })?;
        Ok(Self { object })
    }

    /// Returns a handle to a map. The kernel keeps the map as long as a handle exists.
    pub(crate) fn map(&self, name: &'static str) -> Result<MapHandle, KernelError> {
        let map = self.object.maps().find(|map| map.name() == name);
        let map = map.ok_or(KernelError::ObjectMismatch { missing: name })?;
        MapHandle::try_from(&map).map_err(refused("duplicating a map handle"))
    }

    /// Attaches a program to its tracepoint. Dropping the link detaches the program.
    pub(crate) fn attach_tracepoint(&self, name: &'static str) -> Result<Link, KernelError> {
        self.program(name)?.attach().map_err(refused("attaching to a tracepoint"))
    }

    fn program(&self, name: &'static str) -> Result<ProgramMut<'_>, KernelError> {
        let program = self.object.progs_mut().find(|program| program.name() == name);
        program.ok_or(KernelError::ObjectMismatch { missing: name })
    }

    /// Runs a program `repeat` times on a packet. Returns the output length and the mean time per run.
    pub(crate) fn run(
        &self,
        name: &'static str,
        packet: &[u8],
        output: &mut [u8],
        repeat: u32,
    ) -> Result<(usize, Nanos), KernelError> {
        // The kernel rejects input data for a program that takes no packet.
        let input = ProgramInput {
            data_in: Some(packet).filter(|packet| !packet.is_empty()),
            data_out: Some(output).filter(|output| !output.is_empty()),
            repeat,
            ..ProgramInput::default()
        };
        let run = self.program(name)?.test_run(input).map_err(refused("running the program"))?;
        let time = u64::try_from(run.duration.as_nanos()).unwrap_or(u64::MAX);
        Ok((run.data.map_or(0, |data| data.len()), Nanos::new(time)))
    }

    /// Returns how many instructions the verifier processed for a program. The verifier's limit is one million.
    pub(crate) fn verified_instructions(&self, name: &'static str) -> Result<u32, KernelError> {
        let id =
            Program::id_from_fd(self.program(name)?.as_fd()).map_err(refused("reading the program id"))?;
        let loaded = ProgInfoIter::default().find(|info| info.id == id);
        loaded
            .map(|info| info.verified_insns)
            .ok_or(KernelError::ObjectMismatch { missing: "its loaded program" })
    }
}

impl AttachmentKind {
    /// Attaches loaded programs to a device and pins their maps. If a step fails, undoes the earlier steps.
    pub(crate) fn attach(&self, object: &LoadedObject, device: &Device) -> Result<(), PortError> {
        if self.is_attached(&device.name)? {
            return Err(PortError::AlreadyAttached { device: device.name.clone(), kind: self.name });
        }
        with_bpf_file_system(|| {
            let root = Path::new(pin_folder::ROOT);
            pin_folder::mount_bpf_file_system().map_err(file_error(root))?;
            let result = self.pin(object, device).and_then(|()| self.attach_filters(object, device));
            if result.is_err() {
                // Report only the first error.
                let _ = self.remove(device);
            }
            result
        })
    }

    /// Opens an attached kind's pinned maps, in the same order as `maps`.
    pub(crate) fn open(&self, device: &Device) -> Result<Vec<MapHandle>, PortError> {
        if !self.is_attached(&device.name)? {
            return Err(PortError::NotAttached { device: device.name.clone(), kind: self.name });
        }
        with_bpf_file_system(|| {
            let folder = self.folder(&port_name(device)?);
            let open = |name: &&str| {
                let map = MapHandle::from_pinned_path(folder.join(name));
                map.map_err(|error| KernelError::Refused { operation: "opening a pinned map", error }.into())
            };
            self.maps.iter().map(open).collect()
        })
    }

    /// Detaches the programs from the device, and removes their pins.
    pub(crate) fn detach(&self, device: &Device) -> Result<(), PortError> {
        if !self.is_attached(&device.name)? {
            return Err(PortError::NotAttached { device: device.name.clone(), kind: self.name });
        }
        with_bpf_file_system(|| self.remove(device))
    }

    /// Returns the names of the attached ports of this network namespace, in the order of their index.
    pub(crate) fn attached_devices(&self) -> Result<Vec<String>, PortError> {
        let current = current_netns()?;
        let devices = device_names()?;
        let pinned = with_bpf_file_system(|| {
            let folder = Path::new(pin_folder::ROOT).join(self.name);
            match fs::read_dir(&folder) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
                entries => {
                    let entries = entries.map_err(file_error(&folder))?.flatten();
                    let pins = entries.filter_map(|entry| StalePin::parse(entry.path()));
                    let mut pins: Vec<i32> =
                        pins.filter(|pin| pin.netns == current).map(|pin| pin.index).collect();
                    pins.sort_unstable();
                    Ok::<_, PortError>(pins)
                }
            }
        })?;
        let name_of =
            |index: &i32| devices.iter().find(|(known, _)| known == index).map(|(_, name)| name.clone());
        let mut names: Vec<String> = pinned.iter().filter_map(name_of).collect();
        // A pin can outlive its filter, for example if somebody deletes the qdisc.
        let mut error = None;
        names.retain(|name| {
            self.is_attached(name).unwrap_or_else(|failure| {
                error.get_or_insert(failure);
                false
            })
        });
        error.map_or(Ok(names), Err)
    }

    /// Lists the pins of ports that no longer exist, either because their network namespace is gone or because their
    /// device is gone from this namespace.
    pub(crate) fn stale_pins(&self) -> Result<Vec<StalePin>, PortError> {
        let namespaces = live_netns()?;
        let current = current_netns()?;
        let devices = device_indices()?;
        let is_stale = |pin: &StalePin| {
            !namespaces.contains(&pin.netns) || (pin.netns == current && !devices.contains(&pin.index))
        };
        with_bpf_file_system(|| {
            let folder = Path::new(pin_folder::ROOT).join(self.name);
            let entries = match fs::read_dir(&folder) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
                entries => entries.map_err(file_error(&folder))?,
            };
            let pins = entries.flatten().filter_map(|entry| StalePin::parse(entry.path()));
            let mut stale: Vec<_> = pins.filter(is_stale).collect();
            stale.sort_by_key(|pin| (pin.netns, pin.index));
            Ok(stale)
        })
    }

    /// Removes the pins of ports that no longer exist. Returns the removed pins.
    pub(crate) fn remove_stale_pins(&self) -> Result<Vec<StalePin>, PortError> {
        let stale = self.stale_pins()?;
        with_bpf_file_system(|| {
            for pin in &stale {
                self.remove_pins(&format!("{}-{}", pin.netns, pin.index))?;
            }
            Ok::<_, PortError>(())
        })?;
        Ok(stale)
    }

    fn pin(&self, object: &LoadedObject, device: &Device) -> Result<(), PortError> {
        let folder = self.folder(&port_name(device)?);
        // Remove the pins of a deleted device that had the same index.
        remove_folder(&folder)?;
        pin_folder::create(&folder).map_err(file_error(&folder))?;
        for name in self.maps {
            object.map(name)?.pin(folder.join(name)).map_err(refused("pinning a map"))?;
        }
        Ok(())
    }

    fn attach_filters(&self, object: &LoadedObject, device: &Device) -> Result<(), PortError> {
        let has_clsact = query_json("tc", &["-j", "qdisc", "show", "dev", &device.name])?
            .as_array()
            .is_some_and(|all| all.iter().any(|queue| queue["kind"] == "clsact"));
        let port = port_name(device)?;
        let marker = foreign_clsact_marker(&port);
        if !has_clsact {
            // Remove the marker of a deleted device that had the same index.
            remove_folder(&marker)?;
            run_tool("tc", &["qdisc", "add", "dev", &device.name, "clsact"])?;
        } else if !self.other_kind_is_pinned(&port) {
            pin_folder::create(&marker).map_err(file_error(&marker))?;
        }
        for (name, hook) in self.programs {
            let program = object.program(name)?;
            let mut builder = TcHookBuilder::new(program.as_fd());
            let builder = builder.ifindex(device.index).handle(1).priority(self.priority);
            let hook = if *hook == Hook::Egress { TC_EGRESS } else { TC_INGRESS };
            builder.hook(hook).attach().map_err(refused("attaching the program"))?;
        }
        Ok(())
    }

    /// Removes the filters and the pins. Also deletes clsact if we added it and no filter remains.
    fn remove(&self, device: &Device) -> Result<(), PortError> {
        let (name, priority) = (&device.name, self.priority.to_string());
        for (_, hook) in self.programs {
            if self.has_filter(name, *hook)? {
                run_tool("tc", &["filter", "del", "dev", name, hook.name(), "pref", &priority])?;
            }
        }
        let port = port_name(device)?;
        let is_empty = |hook| Ok::<_, PortError>(filters(name, hook)?.is_empty());
        if !foreign_clsact_marker(&port).exists() && is_empty(Hook::Ingress)? && is_empty(Hook::Egress)? {
            run_tool("tc", &["qdisc", "del", "dev", name, "clsact"])?;
        }
        self.remove_pins(&port)
    }

    /// Removes a port's pins. If no other kind is pinned, also removes the foreign clsact marker.
    fn remove_pins(&self, port: &str) -> Result<(), PortError> {
        let marker = (!self.other_kind_is_pinned(port)).then(|| foreign_clsact_marker(port));
        for folder in [self.folder(port)].into_iter().chain(marker) {
            remove_folder(&folder)?;
            // A parent folder stays if it contains other ports' pins.
            for parent in folder.ancestors().skip(1).take(2) {
                let _ = fs::remove_dir(parent);
            }
        }
        Ok(())
    }

    fn other_kind_is_pinned(&self, port: &str) -> bool {
        let kinds = fs::read_dir(pin_folder::ROOT).into_iter().flatten().flatten();
        kinds
            .filter(|kind| kind.file_name() != self.name && kind.file_name() != FOREIGN_CLSACT)
            .any(|kind| kind.path().join(port).exists())
    }

    fn is_attached(&self, device: &str) -> Result<bool, PortError> {
        self.programs.iter().try_fold(false, |found, (_, hook)| Ok(found || self.has_filter(device, *hook)?))
    }

    fn has_filter(&self, device: &str, hook: Hook) -> Result<bool, PortError> {
        Ok(filters(device, hook)?.iter().any(|filter| filter["pref"] == self.priority))
    }

    fn folder(&self, port: &str) -> PathBuf {
        [pin_folder::ROOT, self.name, port].iter().collect()
    }
}

impl StalePin {
    /// Parses the namespace and the device from a pin folder's name.
    fn parse(path: PathBuf) -> Option<Self> {
        let (netns, index) = path.file_name()?.to_str()?.split_once('-')?;
        Some(Self { netns: netns.parse().ok()?, index: index.parse().ok()?, path })
    }
}

impl fmt::Display for StalePin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { netns, index, path } = self;
        write!(f, "{}: device {index} of network namespace {netns} no longer exists", path.display())
    }
}

impl Hook {
    const fn name(self) -> &'static str {
        match self {
            Self::Ingress => "ingress",
            Self::Egress => "egress",
        }
    }
}

/// Returns a port's name, which is unique on this machine.
fn port_name(device: &Device) -> Result<String, PortError> {
    Ok(format!("{}-{}", current_netns()?, device.index))
}

/// Returns the path to the marker folder, which exists if the device had a clsact before we attached our programs.
fn foreign_clsact_marker(port: &str) -> PathBuf {
    [pin_folder::ROOT, FOREIGN_CLSACT, port].iter().collect()
}

/// Returns the inode of the calling thread's network namespace.
pub(crate) fn current_netns() -> Result<u32, PortError> {
    let path = Path::new("/proc/thread-self/ns/net");
    let inode = fs::metadata(path).map_err(file_error(path))?.ino();
    u32::try_from(inode).map_err(|_| PortError::File {
        path: path.to_owned(),
        error: io::Error::new(io::ErrorKind::InvalidData, "the inode of the namespace exceeds 32 bits"),
    })
}

/// Returns the inodes of all network namespaces that a process uses or that are mounted somewhere.
fn live_netns() -> Result<Vec<u32>, PortError> {
    let proc = Path::new("/proc");
    let mut inodes = vec![current_netns()?];
    for process in fs::read_dir(proc).map_err(file_error(proc))?.flatten() {
        // A process may exit in the meantime, and some entries are not processes.
        let used = fs::metadata(process.path().join("ns/net")).ok();
        inodes.extend(used.and_then(|file| u32::try_from(file.ino()).ok()));
        inodes
            .extend(mounted_netns(&fs::read_to_string(process.path().join("mountinfo")).unwrap_or_default()));
    }
    inodes.sort_unstable();
    inodes.dedup();
    Ok(inodes)
}

/// Returns the network namespaces in a mount table. The root of such a mount is `net:[INODE]`.
fn mounted_netns(mountinfo: &str) -> impl Iterator<Item = u32> {
    let roots = mountinfo.lines().filter_map(|line| line.split(' ').nth(3));
    roots.filter_map(|root| root.strip_prefix("net:[")?.strip_suffix(']')?.parse().ok())
}

/// Returns the interface indices in this network namespace.
fn device_indices() -> Result<Vec<i32>, PortError> {
    Ok(device_names()?.into_iter().map(|(index, _)| index).collect())
}

/// Returns the interface indices and names in this network namespace.
fn device_names() -> Result<Vec<(i32, String)>, PortError> {
    let links = query_json("ip", &["-j", "link", "show"])?;
    let device = |link: &Value| {
        let index = i32::try_from(link["ifindex"].as_i64()?).ok()?;
        Some((index, link["ifname"].as_str()?.to_owned()))
    };
    Ok(links.as_array().into_iter().flatten().filter_map(device).collect())
}

fn filters(device: &str, hook: Hook) -> Result<Vec<Value>, PortError> {
    let filters = query_json("tc", &["-j", "filter", "show", "dev", device, hook.name()])?;
    Ok(filters.as_array().cloned().unwrap_or_default())
}

/// Removes a folder and the pins in it. A missing folder is not an error.
fn remove_folder(folder: &Path) -> Result<(), PortError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(PortError::File { path: folder.to_owned(), error })
        }
        _ => Ok(()),
    }
}

/// Runs `ip -j` or `tc -j` and parses the output. Empty output counts as an empty list.
fn query_json(name: &str, arguments: &[&str]) -> Result<Value, PortError> {
    let text = run_tool(name, arguments)?;
    if text.trim().is_empty() {
        return Ok(Value::Array(Vec::new()));
    }
    serde_json::from_str(&text).map_err(|error| PortError::Command {
        command: format!("{name} {}", arguments.join(" ")),
        reason: format!("the output is not JSON: {error}"),
    })
}

fn run_tool(name: &str, arguments: &[&str]) -> Result<String, PortError> {
    let failed = |reason| PortError::Command { command: format!("{name} {}", arguments.join(" ")), reason };
    let output = Command::new(name).args(arguments).output();
    let output = output.map_err(|error| failed(format!("{error}; apt-get install iproute2")))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn file_error(path: &Path) -> impl FnOnce(io::Error) -> PortError {
    move |error| PortError::File { path: path.to_owned(), error }
}

impl From<KernelError> for PortError {
    fn from(error: KernelError) -> Self {
        Self::Kernel(error)
    }
}

impl From<MountNamespaceError> for PortError {
    fn from(error: MountNamespaceError) -> Self {
        Self::MountNamespace { error: error.source }
    }
}

impl fmt::Display for PortError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shaper_command = |device: &str| {
            format!("tc qdisc replace dev {device} root tbf rate 1gbit burst 30000 limit 1000000")
        };
        match self {
            Self::Kernel(error) => error.fmt(f),
            Self::Command { command, reason } => write!(f, "`{command}` failed: {reason}"),
            Self::File { path, error } => write!(f, "{}: {error}", path.display()),
            Self::MountNamespace { error } => f.write_str(&mount_namespace_text(error)),
            Self::NotEthernet { device, link } => {
                write!(f, "packets of {device} have no Ethernet header ({link}); choose another device")
            }
            Self::UnreadableQueue { device, queue } => write!(
                f,
                "the bytes in queue \"{queue}\" of {device} cannot be read; replace it with a single queue: {}",
                shaper_command(device)
            ),
            Self::NoQueue { device } => write!(
                f,
                "{device} has no queue, so every delay would be zero; add one: {}",
                shaper_command(device)
            ),
            Self::NoRate { device, queue } => write!(
                f,
                "queue \"{queue}\" of {device} does not report its rate; pass a rate, or shape the port: {}",
                shaper_command(device)
            ),
            Self::BadRate { rate } => {
                write!(f, "delays at {rate} cannot be computed; use a rate between 2 Mbps and 8 Pbps")
            }
            Self::AlreadyAttached { device, kind } => {
                write!(f, "{kind} is already attached to {device}; detach it first")
            }
            Self::NotAttached { device, kind } => {
                write!(f, "{kind} is not attached to {device}; attach it first")
            }
        }
    }
}

/// Returns the message for a process that has no BPF file system and cannot enter the outer mount namespace.
pub(crate) fn mount_namespace_text(error: &io::Error) -> String {
    format!(
        "this mount namespace has no BPF file system at /sys/fs/bpf (as under `ip netns exec`), and the outer \
         one cannot be entered: {error}; run as root outside of a container, use `nsenter --net=/run/netns/NAME` \
         instead of `ip netns exec NAME`, or mount one: mount -t bpf bpf /sys/fs/bpf"
    )
}

impl core::error::Error for PortError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_convert_to_a_factor_or_are_refused() {
        // 80 ns per byte.
        assert_eq!(ns_per_mib(BitRate::from_mbps(100)).ok(), Some(80 << 20));
        assert_eq!(ns_per_mib(BitRate::from_gbps(1)).ok(), Some(8 << 20));
        // 20 ps per byte is 20,971.52 ns per 2^20 bytes.
        assert_eq!(ns_per_mib(BitRate::from_gbps(400)).ok(), Some(20_972));
        assert_eq!(ns_per_mib(BitRate::from_mbps(2)).ok(), Some(4_194_304_000));
        for bps in [0, 1_000_000, u64::MAX] {
            assert!(ns_per_mib(BitRate::from_bps(bps)).is_err(), "{bps}");
        }
    }

    #[test]
    fn a_configured_rate_overrides_that_of_the_queue() {
        let device = |queue_kind: &str, queue_rate| Device {
            name: "e0".to_owned(),
            index: 2,
            max_frame: Bytes::new(1_514),
            queue_kind: queue_kind.to_owned(),
            queue_rate,
        };
        let slow = BitRate::from_mbps(100);
        let fast = BitRate::from_gbps(1);
        assert_eq!(device("tbf", Some(slow)).rate(None).ok(), Some(slow));
        assert_eq!(device("tbf", Some(slow)).rate(Some(fast)).ok(), Some(fast));
        let error = device("htb", None).rate(None).expect_err("HTB has a rate per class").to_string();
        assert!(
            error.contains("pass a rate, or shape the port: tc qdisc replace dev e0 root tbf"),
            "{error}"
        );
        let error = device("noqueue", None).check_queue().expect_err("the device has no queue").to_string();
        assert!(error.starts_with("e0 has no queue, so every delay would be zero; add one: tc"), "{error}");
        let error = device("mq", None).rate(Some(fast)).expect_err("mq has no byte count").to_string();
        assert!(error.starts_with("the bytes in queue \"mq\" of e0 cannot be read"), "{error}");
    }

    #[test]
    fn pin_folders_name_the_namespace_and_the_device() {
        let path = PathBuf::from("/sys/fs/bpf/poseidon/switch/4026532000-7");
        let pin = StalePin::parse(path.clone()).expect("the path names a port");
        assert_eq!((pin.netns, pin.index), (4_026_532_000, 7));
        assert!(pin.to_string().ends_with("device 7 of network namespace 4026532000 no longer exists"));
        assert_eq!(StalePin::parse(PathBuf::from("/sys/fs/bpf/poseidon/switch/other")), None);
        let mountinfo =
            "36 35 0:4 net:[4026532000] /run/netns/a rw - nsfs nsfs rw\n22 1 8:1 / / rw - ext4 /dev/sda rw";
        assert_eq!(mounted_netns(mountinfo).collect::<Vec<_>>(), [4_026_532_000]);
        let namespaces = live_netns().expect("/proc is readable");
        assert!(namespaces.contains(&current_netns().expect("/proc is readable")));
    }

    #[test]
    fn an_inaccessible_mount_namespace_is_explained() {
        let source = io::Error::from(io::ErrorKind::PermissionDenied);
        let error = PortError::from(MountNamespaceError { source }).to_string();
        assert!(error.contains("ip netns exec") && error.contains("mount -t bpf bpf /sys/fs/bpf"), "{error}");
    }
}
