//! A deterministic packet-level simulator: a [`Backend`](poseidon_plan::Backend) that runs a
//! [`Plan`](poseidon_plan::Plan).
//!
//! Time advances in windows that are no longer than the smallest delay into any switch. Within a window, no
//! switch can influence another switch, so the simulator needs no global event queue. In each window, every
//! node takes its batch of arrivals, sorts it by time and port, processes it, and sends packets into later
//! windows. The result does not depend on the order in which nodes are processed.
//!
//! A packet takes the following path through the code:
//!
//! | step | code |
//! |---|---|
//! | a host sends the packet | `host::Rack::send_next` |
//! | the packet crosses a wire | `context::ShardContext::transmit` |
//! | the packet arrives in a later window | `calendar::Calendar::schedule_arrival` |
//! | a switch chooses the egress port | `network::Network::route` |
//! | the switch queues or drops the packet | `switch::Switches::enqueue` |
//! | the packet departs with a mark and telemetry | `switch::Switches::depart` |
//! | buffer and marking policies | `poseidon_policies`: one file per policy |
//! | PFC pauses the upstream node | `pfc::Pfc` |
//! | an ACK carries a mark back | `reverse_marking::ReverseMarking` |
//! | telemetry is written and read | `telemetry::Telemetry` |
//! | the receiver acknowledges the packet | `receiver::Receiver::on_data`, `host::Rack::on_data` |
//! | a receiver grants credit | `host::Rack::on_pull_timer`, `credits::pacer::Pacer::next_pull` |
//! | the law processes the ACK | `host::Rack::on_reply` |
//! | a real transport stack sends or receives a datagram | `host::Rack::dequeue_datagram`, `host::Rack::on_datagram` |

#[cfg(any(feature = "mpi", test))]
mod byte_codec;
mod calendar;
mod circuit;
mod context;
mod credits;
mod datagrams;
mod exchange;
mod hash;
mod hop_records;
mod host;
mod impairments;
mod memory_estimate;
mod network;
mod node;
mod out_of_order;
mod packet;
mod path_filter;
mod pfc;
#[cfg(feature = "mpi")]
mod profile;
#[cfg(feature = "mpi")]
mod ranks;
mod receiver;
mod recorder;
mod reverse_marking;
mod rows;
mod run;
mod schedule;
mod sender;
mod switch;
mod telemetry;
mod wire;

#[cfg(feature = "mpi")]
pub use mpi;
#[cfg(feature = "mpi")]
pub use profile::WindowCost;
#[cfg(feature = "mpi")]
pub use ranks::MpiSimulator;
pub use run::Simulator;
