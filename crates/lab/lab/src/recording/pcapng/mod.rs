//! Writes captured packets as pcapng, which Wireshark opens.
//!
//! Every captured port is an interface. Frames have real Ethernet, IPv4 and TCP headers, and the bytes of the plan's
//! telemetry format from `poseidon_wire`; `tools/wireshark/poseidon.lua` decodes them. Drops and marks are packet
//! comments. The payload is zero, and only the first [`SNAP_LENGTH`] bytes of a frame are stored.
//!
//! | simulated | in the capture |
//! |---|---|
//! | host 3 | 10.0.0.3 |
//! | flow 12 | TCP from port 1036 to port 65053 |
//! | packet number | sequence number in bytes, from 1 |
//! | cumulative ACK, ACK of one packet | acknowledgement number, SACK block |
//! | mark, echo of a mark, reduced window | CE in the IP header, ECE, CWR |
//! | maximum hop delay | TCP option 253, in steps of 256 ns; with exact telemetry, a comment has the exact value |
//! | HPCC's hop records | the 42-byte header of its ns-3 artifact, before the payload and counted as payload |
//! | exact hop records, which have no wire format | a comment |
//! | PFC frame | IEEE 802.1Qbb frame |

mod blocks;
mod frame;
mod sink;
mod stream;

pub use frame::SNAP_LENGTH;
pub use sink::{CaptureSummary, PcapngSink};
