//! Poseidon in Linux: the law in C for BPF, proven equal to the law in Rust.
//!
//! struct_ops, through which Linux takes a congestion control at run time, cannot be written in Rust today. So the law
//! is there a second time, in a C header without kernel types, and is held to the first after every step:
//!
//! ```text
//!  parameters ──Poseidon::new──> Poseidon ──────────────── on_ack … ──> Poseidon
//!   (text)                          │ Flow::try_from                       │  must be
//!                                   v                                      v   equal
//!                              Flow, 64 bytes ──> bpf/law.h: on_ack … ──> Flow
//! ```
//!
//! | here | what it holds |
//! |---|---|
//! | `bpf/law.h`, `bpf/tables.h` | the law, for BPF programs, kernels and NICs |
//! | `bpf/replay.c`, `bpf/replay.bpf.c` | a native program and a BPF program that run it on a list of events |
//! | `examples/vectors.rs` | golden vectors for whoever writes the law once more |
//! | [`flow`] | [`Flow`], what C is handed when a flow starts |
//! | [`replay`] | [`Step`] and [`Outcome`], a life of a flow in bytes |
//! | [`in_kernel`] | [`InKernel`], which replays a life in the kernel |
//! | `bpf/tcp.bpf.c`, [`tcp`] | the law in Linux TCP, with the option that brings it telemetry: on, off, status, flows |
//! | `bpf/swift.h`, `bpf/dctcp.bpf.c`, [`peers`] | Swift and DCTCP in Linux TCP, to compare with |
//! | [`switch`] | a Linux router that stamps how long packets wait: `bpf/switch.bpf.c` |
//! | [`rpm`] | a Linux router that marks ACKs, reverse path marking: `bpf/rpm.bpf.c` |
//! | [`codel`] | when it marks: `bpf/codel.h`, held to the policies in Rust |
//! | [`sojourn`] | how long packets really waited, from the kernel's tracepoints: `bpf/sojourn.bpf.c` |
//! | [`port`], [`metrics`] | a port of a router, and its numbers for monitoring |
//! | [`doctor`] | what this machine can do of all that, tried |
//! | `examples/cost`, `bpf/feed.bpf.c` | what it costs: packets per second, CPU per byte, ns per call |
//!
//! ```
//! use poseidon_laws::laws::poseidon::{Poseidon, PoseidonParams, Target};
//! use poseidon_laws::{Law, Path};
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
//!     Flow::try_from(&Poseidon::new(&ablation, &path)).expect_err("not in C").to_string(),
//!     "target \"inv-sqrt-rate\" is not in bpf/law.h; set target to \"log\" or \"fixed\", or use the simulator"
//! );
//! # Ok::<(), poseidon_linux::Unsupported>(())
//! ```

pub mod codel;
pub mod doctor;
pub mod flow;
pub mod in_kernel;
mod maps;
pub mod metrics;
pub mod peers;
mod pin_folder;
pub mod port;
pub mod replay;
pub mod rpm;
pub mod sojourn;
pub mod switch;
pub mod tcp;

pub use flow::{Flow, Unsupported};
pub use in_kernel::InKernel;
pub use replay::{Outcome, Start, Step};
