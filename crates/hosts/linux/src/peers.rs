//! Congestion controls for comparison: Swift, which Linux lacks, and DCTCP for kernels that were built without it.
//!
//! A congestion control stays registered until its [`Peer`] is dropped. A socket selects it with `setsockopt`, and a
//! network namespace with `net.ipv4.tcp_congestion_control`. Sockets keep it until they close. `bpf/swift.h` and
//! `bpf/dctcp.bpf.c` describe the algorithms.

use crate::kernel_features::{self, KernelFeature};
use crate::object::{AlignedBytes, KernelError, load_object, require_features, set_initial_value};
use core::fmt;
use libbpf_rs::{ErrorKind, Link, MapCore as _, Object};
use poseidon_laws::laws::swift::SwiftParams;
use poseidon_laws::params::{ParamError, Params as _};
use poseidon_types::{Nanos, Packets};
use zerocopy::{Immutable, IntoBytes};

/// A congestion control that is registered in the kernel.
#[derive(Debug)]
pub struct Peer {
    name: &'static str,
    _registration: Link,
}

/// Why a congestion control cannot be registered.
#[derive(Debug)]
#[non_exhaustive]
pub enum PeerError {
    /// A parameter is out of range.
    Params(ParamError),
    /// The C port does not support this parameter value.
    NotInC {
        /// The parameter name.
        name: &'static str,
        /// The supported values.
        supported: &'static str,
    },
    /// Another congestion control with this name is registered.
    NameTaken {
        /// The congestion control's name.
        name: &'static str,
    },
    /// The kernel refused an operation.
    Kernel(KernelError),
}

static SWIFT: &AlignedBytes<[u8]> = &AlignedBytes(*include_bytes!(concat!(env!("OUT_DIR"), "/swift.bpf.o")));
static DCTCP: &AlignedBytes<[u8]> = &AlignedBytes(*include_bytes!(concat!(env!("OUT_DIR"), "/dctcp.bpf.o")));

impl Peer {
    /// Registers Swift for paths with `hops` switches. The default `params` are meant for 200 Gbps.
    pub fn swift(params: &SwiftParams, hops: u8) -> Result<Self, PeerError> {
        let flow = SwiftFlow::new(params, hops)?;
        Ok(Self {
            name: "swift",
            _registration: register("swift", &SWIFT.0, kernel_features::TCP, flow.as_bytes())?,
        })
    }

    /// Registers DCTCP (RFC 8257). Both ends must select it before they connect or listen, because DCTCP negotiates
    /// ECN.
    pub fn dctcp() -> Result<Self, PeerError> {
        Ok(Self {
            name: "dctcp",
            _registration: register("dctcp", &DCTCP.0, kernel_features::WINDOW_CONTROL, &[])?,
        })
    }

    /// Returns the name for `setsockopt`.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

/// The Rust counterpart of `struct swift_flow`: a flow before its first ACK.
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
    /// Returns a new flow on a path with `hops` switches. Fails if `params` enables a mechanism that the C port lacks.
    pub fn new(params: &SwiftParams, hops: u8) -> Result<Self, PeerError> {
        params.check().map_err(PeerError::Params)?;
        let requirements = [
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
        if let Some((name, supported, _)) = requirements.into_iter().find(|(.., is_met)| !is_met) {
            return Err(PeerError::NotInC { name, supported });
        }
        let inverse_sqrt = |window: Packets| 1.0 / to_f64(window).sqrt();
        let [largest, smallest] =
            [inverse_sqrt(params.scaling_min_window), inverse_sqrt(params.scaling_max_window)];
        let a = nanos_to_f64(params.scaling_range) / (largest - smallest);
        if a >= 4_294_967_296.0 {
            return Err(PeerError::NotInC { name: "scaling-range", supported: "smaller" });
        }
        let target = params.base_target.get() + u64::from(hops) * params.per_hop.get();
        Ok(Self {
            window: params.initial_window.q24(),
            last_cut: u64::MAX,
            scaling_a: round_to_u64(a),
            scaling_b: round_to_u64(a * smallest),
            rtt: saturate_to_u32(target),
            fixed_target: saturate_to_u32(target),
            scaling_range: saturate_to_u32(params.scaling_range.get()),
            increase: saturate_to_u32(params.additive_increase.q24()),
            beta: saturate_to_u32(round_to_u64(params.beta * ONE)),
            strongest_cut: saturate_to_u32(round_to_u64((1.0 - params.max_decrease) * ONE)),
            min_window: saturate_to_u32(params.min_window.q24()),
            max_window: u16::try_from(params.max_window.floor()).unwrap_or(u16::MAX),
            reset_after: u8::try_from(params.reset_after).unwrap_or(u8::MAX),
            timeouts: 0,
        })
    }
}

/// 1.0 with 24 fractional bits.
const ONE: f64 = 16_777_216.0;

fn to_f64(window: Packets) -> f64 {
    window.q24() as f64 / ONE
}

fn nanos_to_f64(time: Nanos) -> f64 {
    time.get() as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the value is positive, and the cast saturates"
)]
fn round_to_u64(x: f64) -> u64 {
    x.round() as u64
}

fn saturate_to_u32(x: u64) -> u32 {
    u32::try_from(x).unwrap_or(u32::MAX)
}

/// Checks that the kernel accepts DCTCP, then unloads it.
pub(crate) fn try_loading_dctcp() -> Result<(), PeerError> {
    load(&DCTCP.0, kernel_features::WINDOW_CONTROL, &[]).map(drop)
}

/// Loads an object with the given settings and registers its congestion control.
fn register(
    name: &'static str,
    object: &[u8],
    needed: &[KernelFeature],
    settings: &[u8],
) -> Result<Link, PeerError> {
    let mut object = load(object, needed, settings)?;
    let mut map = object.maps_mut().find(|map| map.name() == name);
    let map = map.as_mut().ok_or(PeerError::Kernel(KernelError::ObjectMismatch { missing: name }))?;
    map.attach_struct_ops().map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => PeerError::NameTaken { name },
        _ => {
            PeerError::Kernel(KernelError::Refused { operation: "registering the congestion control", error })
        }
    })
}

fn load(object: &[u8], needed: &[KernelFeature], settings: &[u8]) -> Result<Object, PeerError> {
    require_features(needed).map_err(PeerError::Kernel)?;
    let configure = |object: &mut _| {
        if settings.is_empty() { Ok(()) } else { set_initial_value(object, "settings", settings) }
    };
    load_object(object, configure).map_err(PeerError::Kernel)
}

impl fmt::Display for PeerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Params(error) => error.fmt(f),
            Self::NotInC { name, supported } => {
                write!(f, "{name} must be {supported} in Linux, or use the simulator")
            }
            Self::NameTaken { name } => write!(
                f,
                "a congestion control `{name}` is already registered; end the other run, and wait until its connections \
                 have ended"
            ),
            Self::Kernel(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for PeerError {}
