//! An iperf-like pair over this transport: to see it work in a minute.
//!
//! ```text
//!   client                                            server
//!   bytes of each stream, as fast as the law lets ──>  counts them
//!   reports                                       <──  says every interval how many have come
//! ```
//!
//! Goodput is what the server has counted. It encrypts, and it trusts whoever answers: it is a measuring tool, not a way to carry
//! secrets.

mod args;
mod client;
mod endpoint;
mod log;
mod report;
mod server;

pub use args::{ClientArgs, PerfError, ServerArgs, Steering};
pub use client::run;
pub use report::{Flow, Interval, Summary, jain};
pub use server::serve;
