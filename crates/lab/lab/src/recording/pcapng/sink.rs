//! Turns captured packets into a pcapng file.

use super::blocks::{BlockWriter, CapturedFrame, Direction, Interface};
use super::frame::{FrameBuilder, SNAP_LENGTH};
use crate::recording::drop_reason;
use crate::resolve::ResolvedRun;
use core::ops::ControlFlow;
use poseidon_plan::Plan;
use poseidon_plan::recording::NodePort;
use poseidon_plan::records::{PacketEvent, PacketRow, Progress, Sink};
use poseidon_plan::topology::Node;
use poseidon_types::BitRate;
use std::io::{self, Write};

/// What a capture contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CaptureSummary {
    /// The size of the file.
    pub bytes: u64,
    /// The number of packets.
    pub packets: u64,
    /// The number of packets that exceed the size limit and are not in the file.
    pub omitted: u64,
}

/// Writes the captured packets of a recording.
#[derive(Debug)]
pub struct PcapngSink<'a, W: Write> {
    writer: BlockWriter<W>,
    frames: FrameBuilder<'a>,
    /// The captured ports, sorted. A port's index is its interface.
    ports: Vec<NodePort>,
    max_bytes: u64,
    summary: CaptureSummary,
    error: Option<io::Error>,
}

impl<'a, W: Write> PcapngSink<'a, W> {
    /// Creates a sink for these sorted ports that writes at most about `max_bytes`.
    pub fn new(output: W, resolved: &'a ResolvedRun, ports: &[NodePort], max_bytes: u64) -> io::Result<Self> {
        let plan = &resolved.plan;
        let mut writer = BlockWriter::new(output, concat!("poseidon ", env!("CARGO_PKG_VERSION")))?;
        for port in ports {
            writer.add_interface(&describe_port(plan, *port))?;
        }
        Ok(Self {
            writer,
            frames: FrameBuilder::new(plan),
            ports: ports.to_vec(),
            max_bytes,
            summary: CaptureSummary::default(),
            error: None,
        })
    }

    /// Completes the file.
    pub fn finish(self) -> io::Result<CaptureSummary> {
        if let Some(error) = self.error {
            return Err(error);
        }
        Ok(CaptureSummary { bytes: self.writer.finish()?, ..self.summary })
    }

    fn write(&mut self, row: &PacketRow) -> io::Result<()> {
        let Ok(interface) = self.ports.binary_search(&row.port) else { return Ok(()) };
        let frame = self.frames.build(&row.packet);
        let (direction, drop) = match row.event {
            PacketEvent::Received => (Direction::Inbound, None),
            PacketEvent::Sent => (Direction::Outbound, None),
            PacketEvent::Dropped(cause) => {
                (Direction::Outbound, Some(format!("dropped: {}", drop_reason(cause))))
            }
        };
        let comment: Vec<String> =
            drop.into_iter().chain(Some(frame.comment).filter(|text| !text.is_empty())).collect();
        self.writer.add_frame(&CapturedFrame {
            interface: u32::try_from(interface).unwrap_or(u32::MAX),
            time: row.time.to_nanos_floor(),
            direction,
            bytes: &frame.bytes,
            original_length: u32::try_from(frame.length).unwrap_or(u32::MAX),
            comment: &comment.join("; "),
        })
    }
}

/// Returns the interface of a port, with its peer and its rate.
fn describe_port(plan: &Plan, port: NodePort) -> Interface {
    let (peer, speed) = match port.node {
        Node::Host(host) => (String::from("its switch"), plan.topology.host_link(host).rate),
        Node::Switch(switch) => match plan.topology.ports(switch).get(port.port.index()) {
            Some((Node::Host(host), link)) => (format!("host{}", host.get()), link.rate),
            Some((Node::Switch(peer), link)) => (format!("switch{}", peer.get()), link.rate),
            None => (String::from("a circuit"), BitRate::ZERO),
        },
    };
    Interface {
        name: port.to_string(),
        description: format!("link to {peer}"),
        speed,
        snap_length: u32::try_from(SNAP_LENGTH).unwrap_or(u32::MAX),
    }
}

impl<W: Write> Sink for PcapngSink<'_, W> {
    fn record_packet(&mut self, row: PacketRow) {
        if self.error.is_some() {
            return;
        }
        if self.writer.bytes >= self.max_bytes {
            self.summary.omitted += 1;
            return;
        }
        match self.write(&row) {
            Ok(()) => self.summary.packets += 1,
            Err(error) => self.error = Some(error),
        }
    }

    fn on_progress(&mut self, _: Progress) -> ControlFlow<()> {
        if self.error.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
