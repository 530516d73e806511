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
//! | it waits, is marked and stamped, and leaves a port | `switch::Switches::enqueue`, `switch::Switches::depart` |
//! | whether it is marked | `mark::Marker::marks`: one line per policy |
//! | it chooses its way | `network::Network::route` |
//! | it arrives in a later window | `calendar::Calendar::arrive` |
//! | it is acknowledged | `host::Rack::on_data` |
//! | its ACK reaches the law | `host::Rack::on_ack` |

mod calendar;
mod connection;
mod exchange;
mod host;
mod mark;
mod network;
mod packet;
mod run;
mod switch;
mod world;

pub use run::Simulator;
