//! The loop over windows.

use poseidon_plan::records::Sink;
use poseidon_plan::{Backend, Plan, PlanError, Report};
use poseidon_types::{Picos, Signals};

use crate::calendar::MOST_PORTS;
use crate::connection::Receiver;
use crate::host::{Ends, Rack, supplies};
use crate::switch::Switches;
use crate::world::World;

/// The simulator.
#[derive(Clone, Copy, Debug, Default)]
pub struct Simulator;

impl Backend for Simulator {
    fn supplies(&self, plan: &Plan) -> Signals {
        supplies(plan.switch.stamp)
    }

    fn run(&self, plan: &Plan, sink: &mut dyn Sink) -> Result<Report, PlanError> {
        plan.check(self.supplies(plan))?;
        let mut world = World::new(plan, sink);
        refuse_what_does_not_fit(&world)?;
        let mut switches = Switches::new(&world);
        let mut racks: Vec<Rack> = (0..world.network.racks).map(|rack| Rack::new(&world, rack)).collect();
        let mut ends = Ends {
            senders: plan.connections.iter().map(|_| None).collect(),
            receivers: vec![Receiver::default(); plan.connections.len()],
        };
        hand_out_messages(&mut world, &mut racks);
        let every = plan.sample_every.get();
        let mut next_sample = every;
        loop {
            // Samples lie on the window's edge: what happened before is done, what comes after is not begun.
            while every > 0 && next_sample <= world.calendar.begins().min(plan.stop.get()) {
                switches.sample(&mut world, next_sample);
                next_sample += every;
            }
            if world.calendar.begins() >= plan.stop.get() {
                break;
            }
            let list = world.calendar.take_list(false);
            for switch in &list {
                switches.visit(&mut world, *switch);
            }
            world.calendar.give_back_list(false, list);
            let list = world.calendar.take_list(true);
            let first = world.network.switches();
            for node in &list {
                racks[(*node - first) as usize].visit(&mut world, &mut ends);
            }
            world.calendar.give_back_list(true, list);
            if !world.calendar.advance() {
                break;
            }
        }
        world.report.ended = Picos::new(world.calendar.begins()).min(plan.stop);
        world.report.in_flight = world.arena.live();
        check_conservation(&world.report);
        Ok(world.report)
    }
}

/// Every packet sent was delivered, dropped, or is on the way; an ACK is the packet it acknowledges, turned round.
fn check_conservation(report: &Report) {
    let gone = report.decisions + report.dropped;
    assert_eq!(report.sent, gone + report.in_flight, "packets appeared or vanished: {report:?}");
}

/// Sixteen bits hold a place in a rack and a pod, twelve a port.
fn refuse_what_does_not_fit(world: &World<'_>) -> Result<(), PlanError> {
    let widest = (0..world.network.switches()).map(|switch| world.network.ports(switch).len()).max();
    if widest.is_some_and(|ports| ports > MOST_PORTS as usize) || world.network.hosts_per_rack > MOST_PORTS {
        return Err(PlanError::Unsupported("a switch with more than 4096 ports"));
    }
    Ok(())
}

fn hand_out_messages(world: &mut World<'_>, racks: &mut [Rack]) {
    let mut of_rack: Vec<Vec<u32>> = vec![Vec::new(); racks.len()];
    for (index, message) in world.plan.messages.iter().enumerate() {
        let from = world.plan.connections[message.connection as usize].from;
        let rack = (from / world.network.hosts_per_rack) as usize;
        of_rack[rack].push(u32::try_from(index).expect("fewer than 2^32 messages"));
    }
    for (rack, messages) in racks.iter_mut().zip(of_rack) {
        rack.start(world, messages);
    }
}
