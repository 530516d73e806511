//! A program of `bpf/liar.bpf.c` at one of the router's ports, in the place of an earlier one.

use crate::room::{Place, Room};
use libbpf_rs::{ObjectBuilder, TC_EGRESS, TcHookBuilder};
use rustix::net::netdevice::name_to_index;
use std::net::UdpSocket;
use std::os::fd::AsFd as _;
use zerocopy::IntoBytes as _;

/// libelf reads structs of eight bytes out of it.
#[repr(C, align(8))]
struct Aligned<Bytes: ?Sized>(Bytes);

static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/liar.bpf.o")));

/// `link` is the router's; `lie` is `struct lie`: which port, and what it is told.
pub(crate) fn put(room: &Room, link: &str, program: &str, lie: [u32; 2]) {
    room.enter(Place::Router, || {
        let mut open = ObjectBuilder::default().open_memory(&OBJECT.0).expect("it was compiled");
        let mut map = open.maps_mut().find(|map| map.name().to_string_lossy().ends_with("lie"));
        let place = map.as_mut().and_then(|map| map.initial_value_mut()).expect("it has one");
        place.copy_from_slice(lie.as_bytes());
        let object = open.load().expect("it passes");
        let program = object.progs_mut().find(|found| found.name() == program).expect("it is there");
        let any = UdpSocket::bind("0.0.0.0:0").expect("a socket of this namespace");
        let index = name_to_index(&any, link).expect("the router has it").cast_signed();
        let mut builder = TcHookBuilder::new(program.as_fd());
        let mut hook = builder.ifindex(index).replace(true).handle(1).priority(1).hook(TC_EGRESS);
        hook.create().expect("root may");
        hook.attach().expect("root may");
    });
}
