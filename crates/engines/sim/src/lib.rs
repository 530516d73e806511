//! A deterministic packet-level simulator: a [`Backend`](poseidon_plan::Backend) that runs a
//! [`Plan`](poseidon_plan::Plan).
//!
//! Inside one window of time, shorter than the smallest delay into any switch, no switch can influence another. So there is
//! no global event queue: in each window every node takes its batch of arrivals, sorts it by time and port, handles it, and
//! emits into later windows. The result does not depend on the order in which nodes are visited.
//!
//! Follow a packet:
//!
//! | what happens | where |
//! |---|---|
//! | a host decides to send it | `host::Rack::send_next` |
//! | it goes onto a wire, and arrives in a later window | `world::World::transmit`, `calendar::Calendar::arrive` |
//! | it chooses its way | `network::Network::route` |
//! | it waits at a switch, or is dropped | `switch::Switches::enqueue` |
//! | it leaves, marked and stamped | `switch::Switches::depart` |
//! | how much may wait, whether it is marked | the policies of `poseidon_policies`: one file, one line each |
//! | the node before is told to stop | `pause::Pauses` |
//! | a mark goes back onto an ACK | `reverse::Reverse` |
//! | telemetry is written and read | `stamp::Telemetry` |
//! | it is acknowledged | `reply::Receiver::receive`, `host::Rack::on_data` |
//! | its ACK reaches the law | `host::Rack::on_reply` |

#[cfg(any(feature = "mpi", test))]
mod bytes;
mod calendar;
mod chance;
mod circuit;
mod connection;
mod exchange;
mod host;
mod memory;
mod network;
mod packet;
mod pause;
#[cfg(feature = "mpi")]
mod ranks;
mod reply;
mod reverse;
mod rows;
mod run;
mod schedule;
mod side;
mod stamp;
mod switch;
mod wire;
mod world;

#[cfg(feature = "mpi")]
pub use mpi;
#[cfg(feature = "mpi")]
pub use ranks::MpiSimulator;
pub use run::Simulator;
