//! Code that does not depend on a particular QUIC stack.

pub(crate) mod address;
pub(crate) mod config;
pub(crate) mod datagram;
pub(crate) mod driver;
pub(crate) mod flow;
pub(crate) mod flows;
pub(crate) mod handshake;
pub mod metrics;
pub(crate) mod mode;
pub(crate) mod observer;
pub(crate) mod peers;
pub(crate) mod poseidon;
pub mod prefix;
pub(crate) mod send_context;
pub(crate) mod shared;
pub(crate) mod stamp;
