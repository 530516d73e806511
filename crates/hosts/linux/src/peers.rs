//! Congestion controls to compare with, which Linux does not have: Swift, and DCTCP where the kernel was built without it.
//!
//! Each is registered while its [`Peer`] lives, under its name: a socket chooses it with `setsockopt`, a network namespace with
//! `net.ipv4.tcp_congestion_control`. Sockets that have chosen it keep it until they end. What they do is written in
//! `bpf/swift.h` and `bpf/dctcp.bpf.c`.

use crate::in_kernel::{KernelError, may_load};
use core::fmt;
use libbpf_rs::{Link, Object, ObjectBuilder};
use poseidon_laws::laws::swift::SwiftParams;
use poseidon_laws::params::{ParamError, Params as _};
use poseidon_types::{Nanos, Packets};
use zerocopy::{Immutable, IntoBytes};

/// A congestion control in the kernel.
#[derive(Debug)]
pub struct Peer {
    name: &'static str,
    _registered: Link,
}

/// Why a peer cannot be had.
#[derive(Debug)]
#[non_exhaustive]
pub enum PeerError {
    /// A parameter is outside its domain.
    Params(ParamError),
    /// A parameter asks for what the law in C does not have.
    NotInC {
        /// Its name.
        name: &'static str,
        /// What it must be.
        must: &'static str,
    },
    /// The kernel refused.
    Kernel(KernelError),
}

/// libelf reads structs of eight bytes out of it.
#[repr(C, align(8))]
struct Aligned<Bytes: ?Sized>(Bytes);

static SWIFT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/swift.bpf.o")));
static DCTCP: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/dctcp.bpf.o")));

impl Peer {
    /// Swift on paths of so many switches. The defaults of `params` are for 200 Gbps.
    pub fn swift(params: &SwiftParams, hops: u8) -> Result<Self, PeerError> {
        let flow = SwiftFlow::new(params, hops)?;
        Ok(Self { name: "swift", _registered: register("swift", &SWIFT.0, flow.as_bytes())? })
    }

    /// DCTCP, RFC 8257. Both ends must have it before they connect and listen: it asks for ECN.
    pub fn dctcp() -> Result<Self, PeerError> {
        Ok(Self { name: "dctcp", _registered: register("dctcp", &DCTCP.0, &[])? })
    }

    /// What a socket calls it.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

/// `struct swift_flow`: a flow before its first ACK.
#[derive(Clone, Copy, Debug, IntoBytes, Immutable)]
#[repr(C)]
pub struct SwiftFlow {
    window: u64,
    last_cut: u64,
    scaling_a: u64,
    scaling_b: u64,
    rtt: u32,
    fixed_target: u32,
    scaling_range: u32,
    increase: u32,
    beta: u32,
    strongest_cut: u32,
    min_window: u32,
    max_window: u16,
    reset_after: u8,
    timeouts: u8,
}

impl SwiftFlow {
    /// A flow on a path of so many switches; refuses the mechanisms that are not in C.
    pub fn new(params: &SwiftParams, hops: u8) -> Result<Self, PeerError> {
        params.check().map_err(PeerError::Params)?;
        let absent = [
            ("additive-increase-rate", "0 bps", params.additive_increase_rate.is_zero()),
            ("line-rate-start", "false", !params.line_rate_start),
            ("endpoint-target", "0 ns", params.endpoint_target.is_zero()),
            ("reference", "false", !params.reference),
            ("vai", "false", !params.vai),
            ("sampling", "0", params.sampling == 0),
            ("probabilistic", "false", !params.probabilistic),
            ("strict-paper", "false", !params.strict_paper),
            ("additive-increase", "at most 16 packets", params.additive_increase <= Packets::whole(16)),
        ];
        if let Some((name, must, _)) = absent.into_iter().find(|(.., holds)| !holds) {
            return Err(PeerError::NotInC { name, must });
        }
        let root = |window: Packets| 1.0 / real(window).sqrt();
        let [largest, smallest] = [root(params.scaling_min_window), root(params.scaling_max_window)];
        let a = time(params.scaling_range) / (largest - smallest);
        if a >= 4_294_967_296.0 {
            return Err(PeerError::NotInC { name: "scaling-range", must: "smaller" });
        }
        let target = params.base_target.get() + u64::from(hops) * params.per_hop.get();
        Ok(Self {
            window: params.initial_window.q24(),
            last_cut: u64::MAX,
            scaling_a: rounded(a),
            scaling_b: rounded(a * smallest),
            rtt: low_32(target),
            fixed_target: low_32(target),
            scaling_range: low_32(params.scaling_range.get()),
            increase: low_32(params.additive_increase.q24()),
            beta: low_32(rounded(params.beta * ONE)),
            strongest_cut: low_32(rounded((1.0 - params.max_decrease) * ONE)),
            min_window: low_32(params.min_window.q24()),
            max_window: u16::try_from(params.max_window.floor()).unwrap_or(u16::MAX),
            reset_after: u8::try_from(params.reset_after).unwrap_or(u8::MAX),
            timeouts: 0,
        })
    }
}

/// One, with 24 fractional bits.
const ONE: f64 = 16_777_216.0;

fn real(window: Packets) -> f64 {
    window.q24() as f64 / ONE
}

fn time(time: Nanos) -> f64 {
    time.get() as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and saturates")]
fn rounded(x: f64) -> u64 {
    x.round() as u64
}

fn low_32(x: u64) -> u32 {
    u32::try_from(x).unwrap_or(u32::MAX)
}

/// Whether the kernel takes DCTCP; it is unloaded again.
pub(crate) fn try_dctcp() -> Result<(), PeerError> {
    load(&DCTCP.0, &[]).map(drop)
}

/// Loads an object with its settings, if it has any, and registers the congestion control in it.
fn register(name: &'static str, object: &[u8], settings: &[u8]) -> Result<Link, PeerError> {
    let mut object = load(object, settings)?;
    let mut map = object.maps_mut().find(|map| libbpf_rs::MapCore::name(map) == name);
    let map = map.as_mut().ok_or(PeerError::Kernel(KernelError::OtherObject { lacks: name }))?;
    map.attach_struct_ops().map_err(refused("registering the congestion control"))
}

fn load(object: &[u8], settings: &[u8]) -> Result<Object, PeerError> {
    may_load().map_err(PeerError::Kernel)?;
    let mut builder = ObjectBuilder::default();
    let mut open = builder.open_memory(object).map_err(refused("opening the object"))?;
    if !settings.is_empty() {
        let mut map = open.maps_mut().find(|map| map.name().to_string_lossy().ends_with("settings"));
        let place = map.as_mut().and_then(|map| map.initial_value_mut());
        let place = place.filter(|place| place.len() == settings.len());
        let lacks = "settings of the expected size";
        place.ok_or(PeerError::Kernel(KernelError::OtherObject { lacks }))?.copy_from_slice(settings);
    }
    open.load().map_err(refused("loading the programs"))
}

fn refused(doing: &'static str) -> impl FnOnce(libbpf_rs::Error) -> PeerError {
    move |why| PeerError::Kernel(KernelError::Refused { doing, why })
}

impl fmt::Display for PeerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Params(why) => why.fmt(f),
            Self::NotInC { name, must } => write!(f, "{name} must be {must} in Linux, or use the simulator"),
            Self::Kernel(why) => why.fmt(f),
        }
    }
}

impl core::error::Error for PeerError {}
