//! What a run is given ([`Plan`]) and what it gives back ([`records`]): where scenarios and backends meet.
//!
//! A plan is complete: no default is left to a backend, so two backends that run the same plan were told the same thing.
//! A backend that cannot do what a plan asks refuses it with a [`PlanError`] before it starts.
//!
//! | module | what it holds |
//! |---|---|
//! | [`plan`] | [`Plan`]: everything together |
//! | [`topology`] | hosts, switches and links: [`Topology`] |
//! | [`switch`] | what switches do: buffer, pause, mark, stamp |
//! | [`changes`] | links that fail, come back and change their rate |
//! | [`transport`] | what hosts do around a law |
//! | [`traffic`] | connections and the messages they carry |
//! | [`patterns`] | what people send: incasts, workloads, collectives, a file's flows |
//! | [`chance`] | random numbers that do not depend on each other |
//! | [`records`] | what happened: rows, and the [`records::Sink`] they go to |
//! | [`backend`] | the trait [`Backend`] and its report |

pub mod backend;
pub mod chance;
pub mod changes;
pub mod patterns;
pub mod plan;
pub mod records;
pub mod switch;
pub mod topology;
pub mod traffic;
pub mod transport;

pub use backend::{Backend, Report};
pub use plan::{PAUSE_FRAME, Plan, PlanError};
pub use topology::{Link, Topology};
