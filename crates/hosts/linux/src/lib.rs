//! Poseidon for Linux: a C port of the law for BPF, tested bit for bit against the Rust law.
//!
//! Linux loads congestion controls at run time through struct_ops, which cannot be written in Rust today. This crate
//! therefore contains a C port of the law, in a header that uses no kernel types. Tests compare the port with the Rust
//! law after every step:
//!
//! ```text
//!  parameters ──Poseidon::new──> Poseidon ──────────────── on_ack … ──> Poseidon
//!   (text)                          │ Flow::try_from                       │  must be
//!                                   v                                      v   equal
//!                              Flow, 64 bytes ──> bpf/law.h: on_ack … ──> Flow
//! ```
//!
//! | item | contents |
//! |---|---|
//! | `bpf/law.h`, `bpf/tables.h` | the C port of the law, for BPF programs, kernels and NICs |
//! | `bpf/replay.c`, `bpf/replay.bpf.c` | a native program and a BPF program that run the law on a trace |
//! | `examples/vectors.rs` | golden vectors for other ports of the law |
//! | [`flow`] | [`Flow`], a flow's initial state in the C layout |
//! | [`replay`] | [`Step`] and [`Outcome`], the byte format of flow traces |
//! | [`kernel_replay`] | [`KernelReplay`], which replays a trace in the kernel |
//! | [`object`] | loads BPF objects |
//! | `bpf/tcp.bpf.c`, [`tcp`] | the law in Linux TCP, and the option that carries telemetry: enable, disable, status, flows |
//! | `bpf/swift.h`, `bpf/dctcp.bpf.c`, [`peers`] | Swift and DCTCP in Linux TCP, for comparison |
//! | [`switch`] | a Linux router that stamps queueing delays: `bpf/switch.bpf.c` |
//! | [`rpm`] | a Linux router with reverse path marking on ACKs: `bpf/rpm.bpf.c` |
//! | [`codel`] | RPM's marking policy, tested against the Rust policies: `bpf/codel.h` |
//! | [`sojourn`] | queueing delays, measured with kernel tracepoints: `bpf/sojourn.bpf.c` |
//! | [`port`], [`metrics`] | a router port, and its metrics for monitoring |
//! | [`kernel_features`] | the features that older kernels lack |
//! | [`doctor`] | checks which features this machine supports |
//! | `examples/cost`, `bpf/feed.bpf.c` | measures the cost: packets per second, CPU per byte, ns per call |
//!
//! ```
//! use poseidon_laws::laws::poseidon::{Poseidon, PoseidonParams, Target};
//! use poseidon_laws::{LawDefinition, Path};
//! use poseidon_linux::Flow;
//! use poseidon_types::{BitRate, Bytes, Nanos};
//!
//! let line_rate = BitRate::from_gbps(100);
//! let path = Path { mtu: Bytes::new(1_448), line_rate, base_rtt: Nanos::from_micros(20) };
//! let flow = Flow::try_from(&Poseidon::new(&PoseidonParams::default(), &path))?;
//! assert_eq!(size_of_val(&flow), 64);
//!
//! let ablation = PoseidonParams { target: Target::InvSqrtRate, ..PoseidonParams::default() };
//! assert_eq!(
//!     Flow::try_from(&Poseidon::new(&ablation, &path)).expect_err("the C law lacks this target").to_string(),
//!     "target \"inv-sqrt-rate\" is not in bpf/law.h; set target to \"log\" or \"fixed\", or use the simulator"
//! );
//! # Ok::<(), poseidon_linux::UnsupportedLaw>(())
//! ```

pub mod codel;
pub mod doctor;
pub mod flow;
pub mod kernel_features;
pub mod kernel_replay;
mod maps;
pub mod metrics;
mod mount_namespace;
pub mod object;
pub mod peers;
mod pin_folder;
pub mod port;
pub mod replay;
pub mod rpm;
pub mod sojourn;
pub mod switch;
pub mod tcp;

pub use flow::{Flow, UnsupportedLaw};
pub use kernel_replay::KernelReplay;
pub use replay::{Outcome, Start, Step};
