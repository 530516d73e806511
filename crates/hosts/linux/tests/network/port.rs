//! Attaches a program from `bpf/liar.bpf.c` to a router port. The new program replaces any previous program.

use crate::network::{Node, TestNetwork};
use libbpf_rs::{TC_EGRESS, TcHookBuilder};
use poseidon_linux::object::{AlignedBytes, load_object, set_initial_value};
use rustix::net::netdevice::name_to_index;
use std::net::UdpSocket;
use std::os::fd::AsFd as _;
use zerocopy::IntoBytes as _;

static OBJECT: &AlignedBytes<[u8]> = &AlignedBytes(*include_bytes!(concat!(env!("OUT_DIR"), "/liar.bpf.o")));

/// Attaches `program`. `settings` is `struct lie`: the TCP port, and the value to write.
pub(crate) fn attach(network: &TestNetwork, device: &str, program: &str, settings: [u32; 2]) {
    network.run_in(Node::Router, || {
        let object = load_object(&OBJECT.0, |object| set_initial_value(object, "lie", settings.as_bytes()))
            .unwrap_or_else(|error| panic!("{error}"));
        let program =
            object.progs_mut().find(|found| found.name() == program).expect("the object has the program");
        let socket = UdpSocket::bind("0.0.0.0:0").expect("the namespace has UDP");
        let index = name_to_index(&socket, device).expect("the router has the device").cast_signed();
        let mut builder = TcHookBuilder::new(program.as_fd());
        let mut hook = builder.ifindex(index).replace(true).handle(1).priority(1).hook(TC_EGRESS);
        hook.create().expect("root may create a hook");
        hook.attach().expect("root may attach a program");
    });
}
