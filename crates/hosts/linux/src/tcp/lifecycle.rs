//! Enables and disables Poseidon in TCP, and reports its status.

use super::cgroup::{Cgroup, default_path};
use super::error::TcpError;
use super::flows::read_flows;
use super::pins;
use super::settings::{ControlName, RawSettings, Settings};
use crate::kernel_features;
use crate::mount_namespace::with_bpf_file_system;
use crate::object::{
    AlignedBytes, KernelError, check_permission, load_object, require_features, set_initial_value,
};
use core::fmt;
use core::time::Duration;
use libbpf_rs::query::{LinkTypeInfo, ProgInfoIter, ProgramInfo};
use libbpf_rs::{
    ErrorKind, Link, Map, MapCore as _, MapFlags, MapHandle, MapMut, Object, OpenObject, ProgramMut,
};
use poseidon_types::BitRate;
use std::fs::{self, File};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use zerocopy::{FromBytes, Immutable, IntoBytes as _, KnownLayout};

static OBJECT: &AlignedBytes<[u8]> = &AlignedBytes(*include_bytes!(concat!(env!("OUT_DIR"), "/tcp.bpf.o")));

/// The value of `POSEIDON_ABOUT_BYTES` in `bpf/tcp.h`.
const ABOUT_BYTES: usize = 2048;

/// Loads the congestion control and the TCP option for all current and future processes in the cgroup.
///
/// Both stay in the kernel after this process exits. Established connections are not affected. Requires root and Linux
/// 6.10. If a step fails, the earlier steps are undone. Returns the cgroup.
pub fn enable(settings: &Settings) -> Result<PathBuf, TcpError> {
    let raw = settings.to_raw()?;
    check_permission()?;
    with_bpf_file_system(|| {
        if pins::any_exists()? {
            return Err(TcpError::AlreadyEnabled);
        }
        let object = load(&raw, &settings.control_name)?;
        write_about(&object, &settings.to_string())?;
        let cgroup = Cgroup::open(settings.cgroup.as_deref())?;
        let attached = pins::create_folder().and_then(|()| attach(object, &settings.control_name, &cgroup));
        if let Err(error) = attached {
            let _ = (pins::remove_all(), settings.cgroup.is_none().then(Cgroup::remove_default));
            return Err(error);
        }
        Ok(cgroup.path)
    })
}

/// Removes everything from the kernel.
///
/// Connections that use the law keep it until they end. They no longer receive echoes, so they fall back to the
/// queueing delay of their round trip. The default cgroup is removed, and its processes move to the parent cgroup.
pub fn disable() -> Result<(), TcpError> {
    with_bpf_file_system(|| {
        if !pins::any_exists()? {
            return Err(TcpError::NotEnabled);
        }
        // A cgroup specified by the user must not be removed. If the settings cannot be read, enabling failed halfway,
        // and the default cgroup is empty.
        let has_default_cgroup = read_about().map_or(true, |settings| named_cgroup(&settings).is_none());
        pins::remove_all()?;
        if has_default_cgroup { Cgroup::remove_default() } else { Ok(()) }
    })
}

/// Checks that the kernel accepts the programs, then unloads them.
pub(crate) fn try_loading() -> Result<(), TcpError> {
    let settings = Settings::for_rate(BitRate::from_gbps(1));
    Ok(load(&settings.to_raw()?, &settings.control_name).map(drop)?)
}

/// The state of Poseidon in TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpStatus {
    /// The time since Poseidon was enabled.
    pub uptime: Duration,
    /// The cgroup whose sockets use the option.
    pub cgroup: PathBuf,
    /// Whether the option is attached to the cgroup. Removing or recreating the cgroup detaches it.
    pub is_attached: bool,
    /// The number of sockets that use the law.
    pub flows: usize,
    /// Connections that have negotiated the option since Poseidon was enabled.
    pub negotiated: u64,
    /// Connections whose peer does not support the option.
    pub not_negotiated: u64,
    /// Connections to which the kernel could not assign the law.
    pub not_assigned: u64,
    /// The settings: one `name=value` per line.
    pub settings: String,
    /// The CPU cost of the programs, if the kernel measures it (`sysctl kernel.bpf_stats_enabled=1`).
    pub costs: Vec<ProgramCost>,
}

/// The CPU cost of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramCost {
    /// The program name.
    pub program: String,
    /// The number of runs.
    pub runs: u64,
    /// The total time of all runs.
    pub total_time: Duration,
}

/// Returns the status, or `None` if Poseidon is not enabled.
pub fn status() -> Result<Option<TcpStatus>, TcpError> {
    with_bpf_file_system(|| if pins::any_exists()? { read_status().map(Some) } else { Ok(None) })
}

fn read_status() -> Result<TcpStatus, TcpError> {
    let totals: Totals = read_map(pins::TOTALS)?;
    let settings = read_about()?;
    let cgroup = named_cgroup(&settings).map_or_else(default_path, |path| Ok(PathBuf::from(path)))?;
    let option =
        Link::open(pins::path(pins::OPTION)).map_err(TcpError::refused("opening the pinned option"))?;
    let info = option.info().map_err(TcpError::refused("reading the program of the option"))?;
    let is_attached = match info.info {
        LinkTypeInfo::Cgroup(link) => {
            fs::metadata(&cgroup).is_ok_and(|folder| folder.ino() == link.cgroup_id)
        }
        _ => false,
    };
    let programs: Vec<_> = ProgInfoIter::default().collect();
    let option = programs.iter().find(|program| program.id == info.prog_id);
    // Without CAP_SYS_ADMIN, the kernel lists no programs.
    let load_time = option.map(|program| program.load_time);
    Ok(TcpStatus {
        uptime: match load_time {
            Some(load_time) => machine_uptime()?.saturating_sub(load_time),
            None => pin_age(pins::OPTION)?,
        },
        cgroup,
        is_attached,
        flows: read_flows()?.len(),
        negotiated: totals.agreed,
        not_negotiated: totals.refused,
        not_assigned: totals.unchosen,
        settings,
        costs: program_costs(&programs, load_time),
    })
}

/// Returns the costs of the programs that were loaded together with the option.
///
/// The kernel does not record which programs belong to the same object. Our programs share a name prefix and were
/// loaded at about the same time.
fn program_costs(programs: &[ProgramInfo], option_load_time: Option<Duration>) -> Vec<ProgramCost> {
    let is_ours = |program: &&ProgramInfo| {
        let is_loaded_with_option =
            option_load_time.is_some_and(|option| program.load_time.abs_diff(option) < MAX_LOAD_SPREAD);
        program.name.to_string_lossy().starts_with("poseidon_") && is_loaded_with_option
    };
    programs
        .iter()
        .filter(is_ours)
        .filter(|program| program.run_cnt > 0)
        .map(|program| ProgramCost {
            program: program.name.to_string_lossy().into_owned(),
            runs: program.run_cnt,
            total_time: Duration::from_nanos(program.run_time_ns),
        })
        .collect()
}

impl fmt::Display for TcpStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "on for {} s in the cgroup {}", self.uptime.as_secs(), self.cgroup.display())?;
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
            "{} connections negotiated the option, {} peers do not support it, {} connections could not get the law",
            self.negotiated, self.not_negotiated, self.not_assigned
        )?;
        for ProgramCost { program, runs, total_time } in &self.costs {
            let mean = total_time.as_nanos() / u128::from(*runs).max(1);
            writeln!(f, "{program}: {runs} runs, {mean} ns each")?;
        }
        f.write_str(&self.settings)
    }
}

/// The maximum difference between load times within one object. The verifier takes milliseconds per program.
const MAX_LOAD_SPREAD: Duration = Duration::from_secs(2);

/// Returns the settings as text.
fn read_about() -> Result<String, TcpError> {
    let about: [u8; ABOUT_BYTES] = read_map(pins::ABOUT)?;
    let text: Vec<_> = about.into_iter().take_while(|byte| *byte != 0).collect();
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn named_cgroup(settings: &str) -> Option<&str> {
    settings.lines().find_map(|line| line.strip_prefix("cgroup="))
}

fn machine_uptime() -> Result<Duration, TcpError> {
    let path = "/proc/uptime";
    let text = fs::read_to_string(path).map_err(TcpError::file("reading", path))?;
    let seconds = text.split('.').next().and_then(|whole| whole.parse().ok()).unwrap_or(0);
    Ok(Duration::from_secs(seconds))
}

/// Returns the time since an object was pinned. A change of the clock of the machine changes it too.
fn pin_age(name: &str) -> Result<Duration, TcpError> {
    let path = pins::path(name);
    let pinned = fs::metadata(&path).and_then(|file| file.modified());
    let pinned = pinned.map_err(TcpError::file("reading the time of", &path))?;
    Ok(pinned.elapsed().unwrap_or_default())
}

/// The Rust counterpart of `struct poseidon_totals`.
#[derive(FromBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Totals {
    agreed: u64,
    refused: u64,
    unchosen: u64,
}

/// Reads the only element of a pinned array.
fn read_map<T: FromBytes>(name: &'static str) -> Result<T, TcpError> {
    let map =
        MapHandle::from_pinned_path(pins::path(name)).map_err(TcpError::refused("opening a pinned map"))?;
    let value = map.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY);
    let value = value.map_err(TcpError::refused("reading a pinned map"))?;
    value.and_then(|bytes| T::read_from_bytes(&bytes).ok()).ok_or(TcpError::VersionMismatch { object: name })
}

/// Loads the object with the given settings and congestion control name.
fn load(settings: &RawSettings, name: &ControlName) -> Result<Object, KernelError> {
    require_features(kernel_features::TCP)?;
    load_object(&OBJECT.0, |object| {
        set_initial_value(object, "settings", settings.as_bytes())?;
        set_control_name(object, name)
    })
}

/// Replaces the default name in `struct tcp_congestion_ops poseidon`.
fn set_control_name(object: &mut OpenObject, name: &ControlName) -> Result<(), KernelError> {
    if *name == ControlName::default() {
        return Ok(());
    }
    let default = ControlName::default().to_bytes();
    let mut map = object.maps_mut().find(|map| map.name() == "poseidon");
    let operations = map.as_mut().and_then(|map| map.initial_value_mut());
    let field = operations.and_then(|operations| {
        let start = operations.windows(default.len()).position(|bytes| bytes == default)?;
        operations.get_mut(start..start + default.len())
    });
    field
        .ok_or(KernelError::ObjectMismatch { missing: "the name of its congestion control" })?
        .copy_from_slice(&name.to_bytes());
    Ok(())
}

fn write_about(object: &Object, text: &str) -> Result<(), TcpError> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize(ABOUT_BYTES, 0);
    let map = map(object, "about")?;
    map.update(&0_u32.to_ne_bytes(), &bytes, MapFlags::ANY).map_err(TcpError::refused("writing the settings"))
}

/// Attaches the programs, and pins them and their maps. The kernel frees unpinned objects when the process exits.
fn attach(mut object: Object, name: &ControlName, cgroup: &Cgroup) -> Result<(), TcpError> {
    for map in [pins::TOTALS, pins::ABOUT] {
        map_mut(&mut object, map)?.pin(pins::path(map)).map_err(TcpError::refused("pinning a map"))?;
    }
    let flows = program(&object, "poseidon_flows")?.attach_iter(map(&object, "telemetry")?.as_fd());
    let mut flows = flows.map_err(TcpError::refused("attaching the table of flows"))?;
    flows.pin(pins::path(pins::FLOWS)).map_err(TcpError::refused("pinning the table of flows"))?;

    let law = map_mut(&mut object, "poseidon")?.attach_struct_ops();
    let mut law = law.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => TcpError::NameTaken { name: name.to_string() },
        _ => TcpError::refused("registering the congestion control")(error),
    })?;
    law.pin(pins::path(pins::LAW)).map_err(TcpError::refused("pinning the congestion control"))?;

    let folder = File::open(&cgroup.path).map_err(TcpError::file("opening the cgroup", &cgroup.path))?;
    let option = program(&object, "poseidon_option")?.attach_cgroup(folder.as_raw_fd());
    let mut option = option.map_err(TcpError::refused("attaching to the cgroup"))?;
    option.pin(pins::path(pins::OPTION)).map_err(TcpError::refused("pinning the option"))
}

fn map<'a>(object: &'a Object, name: &'static str) -> Result<Map<'a>, KernelError> {
    object.maps().find(|map| map.name() == name).ok_or(KernelError::ObjectMismatch { missing: name })
}

fn map_mut<'a>(object: &'a mut Object, name: &'static str) -> Result<MapMut<'a>, KernelError> {
    object.maps_mut().find(|map| map.name() == name).ok_or(KernelError::ObjectMismatch { missing: name })
}

fn program<'a>(object: &'a Object, name: &'static str) -> Result<ProgramMut<'a>, KernelError> {
    object
        .progs_mut()
        .find(|program| program.name() == name)
        .ok_or(KernelError::ObjectMismatch { missing: name })
}
