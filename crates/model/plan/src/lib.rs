//! The interface between scenarios and backends: a run's input ([`Plan`]) and output ([`records`]).
//!
//! A plan specifies every input. Backends do not apply defaults, so two backends that run the same plan get the same
//! input. If a backend cannot run a plan, it returns a [`PlanError`] before the run starts.
//!
//! | module | contents |
//! |---|---|
//! | [`plan`] | [`Plan`]: the complete input for a run |
//! | [`topology`] | hosts, switches and links: [`Topology`] |
//! | [`stack`] | real transport stacks as hosts of a backend |
//! | [`stack_factory`] | [`stack_factory::StackFactory`], which creates the endpoints of real stacks |
//! | [`switch`] | switch configuration: buffers, PFC, ECN marking, telemetry |
//! | [`impairments`] | links that lose, delay or reorder packets |
//! | [`link_changes`] | link failures, recoveries, and changes of rate and delay |
//! | [`transport`] | host configuration: packet sizes, ACKs, loss recovery, load balancing |
//! | [`traffic`] | connections and their messages |
//! | [`joins`] | joins, which make messages wait for several events |
//! | [`rings`] | rings, whose messages are computed when they are due |
//! | [`patterns`] | traffic generators: incasts, workloads, collectives, flow lists |
//! | [`random`] | hash-based random numbers |
//! | [`deadlock`] | ports that PFC pauses in a cycle |
//! | [`recording`] | what a backend records in addition to a plan's rows |
//! | [`records`] | result rows, and the [`records::Sink`] that receives them |
//! | [`backend`] | the [`Backend`] trait and the [`Report`] it returns |

pub mod backend;
pub mod deadlock;
pub mod impairments;
pub mod joins;
pub mod link_changes;
pub mod patterns;
pub mod plan;
pub mod random;
pub mod recording;
pub mod records;
pub mod rings;
pub mod stack;
pub mod stack_factory;
pub mod switch;
pub mod topology;
pub mod traffic;
pub mod transport;

pub use backend::{Backend, Report};
pub use plan::{PAUSE_FRAME, Plan, PlanError};
pub use topology::{Link, SwitchPort, Topology};
