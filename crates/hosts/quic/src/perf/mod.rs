//! An iperf-like pair over this transport: to see it work in a minute. `poseidon perf` is its command line.
//!
//! ```text
//!   client                                            server
//!   bytes of each stream, as fast as the law lets ──>  counts them
//!   reports                                       <──  says every interval how many have come
//! ```
//!
//! Goodput is what the server has counted, in the server's own intervals. The pair encrypts. Unless it is given certificates, the client
//! trusts whoever answers.

mod args;
mod client;
mod endpoint;
mod log;
mod report;
mod server;
mod stop;

pub use args::{ClientArgs, DEFAULT_PORT, Identity, PerfError, ServerArgs, Steering};
pub use client::run;
pub use report::{Flow, Interval, Summary, jain};
pub use server::serve;
pub use stop::Stop;

/// Runs one end to its end, for programs that have no runtime of their own.
pub fn block_on<T>(end: impl Future<Output = Result<T, PerfError>>) -> Result<T, PerfError> {
    let runtime = tokio::runtime::Runtime::new().map_err(PerfError::io("starting the runtime"))?;
    runtime.block_on(end)
}
