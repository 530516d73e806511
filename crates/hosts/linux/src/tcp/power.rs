//! On, off, and whether.

use super::cgroup::{Cgroup, own_path};
use super::error::TcpError;
use super::flows::flows;
use super::pins;
use super::settings::Settings;
use crate::in_kernel::{KernelError, may_load};
use core::fmt;
use core::time::Duration;
use libbpf_rs::query::{LinkTypeInfo, ProgInfoIter};
use libbpf_rs::{
    ErrorKind, Link, Map, MapCore as _, MapFlags, MapHandle, MapMut, Object, ObjectBuilder, ProgramMut,
};
use poseidon_types::BitRate;
use std::fs::{self, File};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use zerocopy::{FromBytes, Immutable, IntoBytes as _, KnownLayout};

/// libelf reads structs of eight bytes out of it.
#[repr(C, align(8))]
struct Aligned<Bytes: ?Sized>(Bytes);

static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/tcp.bpf.o")));

/// `POSEIDON_ABOUT_BYTES` of `bpf/tcp.h`.
const ABOUT_BYTES: usize = 2048;

/// Loads the congestion control and the option and leaves them in the kernel, for all processes that are or will be in the cgroup.
/// Gives the cgroup. Connections that stand already are not touched.
///
/// It needs root and Linux 6.10. Either all of it is on afterwards, or nothing.
pub fn enable(settings: &Settings) -> Result<PathBuf, TcpError> {
    let in_c = settings.in_c()?;
    may_load()?;
    if pins::any()? {
        return Err(TcpError::AlreadyOn);
    }
    let object = load(in_c.as_bytes())?;
    write_about(&object, &settings.to_string())?;
    let cgroup = Cgroup::ready(settings.cgroup.as_deref())?;
    let attached = pins::make_folder().and_then(|()| attach(object, &cgroup));
    if let Err(why) = attached {
        let _ = (pins::remove_all(), settings.cgroup.is_none().then(Cgroup::remove_own));
        return Err(why);
    }
    Ok(cgroup.path)
}

/// Takes everything out of the kernel. Connections that run the law keep it until they end; without echoes, they run on the delay
/// of their round trip. Our own cgroup is removed, and its processes go back to its parent.
pub fn disable() -> Result<(), TcpError> {
    if !pins::any()? {
        return Err(TcpError::Off);
    }
    // One that was named is its owner's; what cannot be read was never whole, and then ours is empty.
    let is_own = about().map_or(true, |settings| named_cgroup(&settings).is_none());
    pins::remove_all()?;
    if is_own { Cgroup::remove_own() } else { Ok(()) }
}

/// Whether the kernel takes the programs; they are unloaded again.
pub(crate) fn try_loading() -> Result<(), TcpError> {
    may_load()?;
    load(Settings::for_rate(BitRate::from_gbps(1)).in_c()?.as_bytes()).map(drop)
}

/// What is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpStatus {
    /// For how long.
    pub since: Duration,
    /// The cgroup whose sockets speak the option.
    pub cgroup: PathBuf,
    /// Whether the option is attached to it. It is not if the cgroup was removed or recreated, as when a service restarts.
    pub is_attached: bool,
    /// How many sockets run the law.
    pub flows: usize,
    /// Connections over all the time whose ends both speak the option.
    pub agreed: u64,
    /// Connections whose other end does not.
    pub refused: u64,
    /// Connections that should have got the law and could not.
    pub unchosen: u64,
    /// What was set: one `name=value` per line.
    pub settings: String,
    /// What the programs have cost, where the kernel counts it (`sysctl kernel.bpf_stats_enabled=1`).
    pub costs: Vec<Cost>,
}

/// What one program has cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    /// The program.
    pub program: String,
    /// How often it ran.
    pub runs: u64,
    /// How long that took in all.
    pub took: Duration,
}

/// What is on, or `None`.
pub fn status() -> Result<Option<TcpStatus>, TcpError> {
    if !pins::any()? {
        return Ok(None);
    }
    let totals: Totals = read_map(pins::TOTALS)?;
    let settings = about()?;
    let cgroup = named_cgroup(&settings).map_or_else(own_path, |path| Ok(PathBuf::from(path)))?;
    let option =
        Link::open(pins::at(pins::OPTION)).map_err(TcpError::refused("opening the pinned option"))?;
    let info = option.info().map_err(TcpError::refused("asking for the option's program"))?;
    let attached = info.prog_id;
    let is_attached = match info.info {
        LinkTypeInfo::Cgroup(at) => fs::metadata(&cgroup).is_ok_and(|folder| folder.ino() == at.cgroup_id),
        _ => false,
    };
    let programs: Vec<_> = ProgInfoIter::default().collect();
    let option = programs.iter().find(|program| program.id == attached);
    let loaded = option.map(|program| program.load_time);
    let costs = programs.iter().filter_map(|program| {
        let name = program.name.to_string_lossy();
        let is_ours = name.starts_with("poseidon_") && loaded_with(program.load_time, loaded);
        let took = Duration::from_nanos(program.run_time_ns);
        (is_ours && program.run_cnt > 0).then(|| Cost {
            program: name.into_owned(),
            runs: program.run_cnt,
            took,
        })
    });
    Ok(Some(TcpStatus {
        since: uptime()?.saturating_sub(loaded.unwrap_or_default()),
        cgroup,
        is_attached,
        flows: flows()?.len(),
        agreed: totals.agreed,
        refused: totals.refused,
        unchosen: totals.unchosen,
        settings,
        costs: costs.collect(),
    }))
}

impl fmt::Display for TcpStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "on for {} s in the cgroup {}", self.since.as_secs(), self.cgroup.display())?;
        if !self.is_attached {
            writeln!(
                f,
                "NOT ATTACHED: the cgroup was removed or recreated, so its new sockets do not get poseidon; \
                 run `poseidon tcp disable` and `poseidon tcp enable`"
            )?;
        }
        writeln!(f, "{} sockets run the law", self.flows)?;
        writeln!(
            f,
            "{} connections agreed on the option, {} other ends do not speak it, {} could not get the law",
            self.agreed, self.refused, self.unchosen
        )?;
        for Cost { program, runs, took } in &self.costs {
            writeln!(f, "{program}: {runs} runs, {} ns each", took.as_nanos() / u128::from(*runs).max(1))?;
        }
        f.write_str(&self.settings)
    }
}

/// Programs of one object are loaded within this time of each other: the verifier takes milliseconds for the largest.
const LOADING: Duration = Duration::from_secs(2);

/// The kernel does not say which programs came together; ours have our name and its time.
fn loaded_with(time: Duration, option: Option<Duration>) -> bool {
    option.is_some_and(|option| time.abs_diff(option) < LOADING)
}

/// What was set.
fn about() -> Result<String, TcpError> {
    let about: [u8; ABOUT_BYTES] = read_map(pins::ABOUT)?;
    let text: Vec<_> = about.into_iter().take_while(|byte| *byte != 0).collect();
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn named_cgroup(settings: &str) -> Option<&str> {
    settings.lines().find_map(|line| line.strip_prefix("cgroup="))
}

fn uptime() -> Result<Duration, TcpError> {
    let path = "/proc/uptime";
    let text = fs::read_to_string(path).map_err(TcpError::file("reading", path))?;
    let seconds = text.split('.').next().and_then(|whole| whole.parse().ok()).unwrap_or(0);
    Ok(Duration::from_secs(seconds))
}

/// `struct poseidon_totals`.
#[derive(FromBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Totals {
    agreed: u64,
    refused: u64,
    unchosen: u64,
}

/// The one value of a pinned array.
fn read_map<T: FromBytes>(name: &'static str) -> Result<T, TcpError> {
    let map =
        MapHandle::from_pinned_path(pins::at(name)).map_err(TcpError::refused("opening a pinned map"))?;
    let value = map.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY);
    let value = value.map_err(TcpError::refused("reading a pinned map"))?;
    value.and_then(|bytes| T::read_from_bytes(&bytes).ok()).ok_or(TcpError::OtherVersion { what: name })
}

/// The object with its settings, passed by the verifier.
fn load(settings: &[u8]) -> Result<Object, TcpError> {
    let mut builder = ObjectBuilder::default();
    let mut open = builder.open_memory(&OBJECT.0).map_err(TcpError::refused("opening the object"))?;
    let mut map = open.maps_mut().find(|map| map.name().to_string_lossy().ends_with("settings"));
    let place = map.as_mut().and_then(|map| map.initial_value_mut());
    let place = place.filter(|place| place.len() == settings.len());
    place
        .ok_or(KernelError::OtherObject { lacks: "settings of the expected size" })?
        .copy_from_slice(settings);
    open.load().map_err(TcpError::refused("loading the programs"))
}

fn write_about(object: &Object, text: &str) -> Result<(), TcpError> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize(ABOUT_BYTES, 0);
    let map = map(object, "about")?;
    map.update(&0_u32.to_ne_bytes(), &bytes, MapFlags::ANY).map_err(TcpError::refused("writing the settings"))
}

/// Attaches everything and pins it. What is not pinned when this ends goes with the process.
fn attach(mut object: Object, cgroup: &Cgroup) -> Result<(), TcpError> {
    for name in [pins::TOTALS, pins::ABOUT] {
        map_mut(&mut object, name)?.pin(pins::at(name)).map_err(TcpError::refused("pinning a map"))?;
    }
    let flows = program(&object, "poseidon_flows")?.attach_iter(map(&object, "telemetry")?.as_fd());
    let mut flows = flows.map_err(TcpError::refused("attaching the table of flows"))?;
    flows.pin(pins::at(pins::FLOWS)).map_err(TcpError::refused("pinning the table of flows"))?;

    let law = map_mut(&mut object, "poseidon")?.attach_struct_ops();
    let mut law = law.map_err(|why| match why.kind() {
        ErrorKind::AlreadyExists => TcpError::NameTaken,
        _ => TcpError::refused("registering the congestion control")(why),
    })?;
    law.pin(pins::at(pins::LAW)).map_err(TcpError::refused("pinning the congestion control"))?;

    let folder = File::open(&cgroup.path).map_err(TcpError::file("opening the cgroup", &cgroup.path))?;
    let option = program(&object, "poseidon_option")?.attach_cgroup(folder.as_raw_fd());
    let mut option = option.map_err(TcpError::refused("attaching to the cgroup"))?;
    option.pin(pins::at(pins::OPTION)).map_err(TcpError::refused("pinning the option"))
}

fn map<'a>(object: &'a Object, name: &'static str) -> Result<Map<'a>, KernelError> {
    object.maps().find(|map| map.name() == name).ok_or(KernelError::OtherObject { lacks: name })
}

fn map_mut<'a>(object: &'a mut Object, name: &'static str) -> Result<MapMut<'a>, KernelError> {
    object.maps_mut().find(|map| map.name() == name).ok_or(KernelError::OtherObject { lacks: name })
}

fn program<'a>(object: &'a Object, name: &'static str) -> Result<ProgramMut<'a>, KernelError> {
    object.progs_mut().find(|program| program.name() == name).ok_or(KernelError::OtherObject { lacks: name })
}
