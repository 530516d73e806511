//! A room for real packets: two hosts and a router, network namespaces of this machine, and one bottleneck.
//!
//! ```text
//!  sender ────────── router ──TBF──> receiver
//! 10.91.1.1   10.91.1.2 10.91.2.2   10.91.2.1
//! ```
//!
//! It is gone when it is dropped. It needs root, and `ip` and `tc` of iproute2.

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::process::{Command, Stdio};
use std::thread;

/// One per process: tests that share a machine do not share names.
pub(crate) struct Room {
    /// What the names of its namespaces begin with.
    name: String,
}

/// Where a thread can go.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    Sender,
    Router,
    Receiver,
}

/// The receiver's address.
pub(crate) const RECEIVER: &str = "10.91.2.1";

impl Room {
    /// With so many Mbit/s towards the receiver and a queue for so many bytes.
    pub(crate) fn new(mbps: u32, queue_bytes: u32) -> Self {
        let room = Self { name: format!("poseidon-{}", std::process::id()) };
        let [sender, router, receiver] = Place::ALL.map(|place| room.netns(place));
        let mut lines = vec![
            format!("netns add {sender}"),
            format!("netns add {router}"),
            format!("netns add {receiver}"),
            format!("link add e0 netns {sender} type veth peer name e0 netns {router}"),
            format!("link add e0 netns {receiver} type veth peer name e1 netns {router}"),
        ];
        // A batch stays in the namespace that it began in.
        run("ip", &["-batch", "-"], &lines.join("\n"));
        for (place, links) in Place::ALL.into_iter().zip(LINKS) {
            lines = vec!["link set lo up".to_owned()];
            for (link, address) in *links {
                lines.push(format!("addr add {address}/24 dev {link}"));
                lines.push(format!("link set {link} up"));
            }
            if let Some(gateway) = place.gateway() {
                lines.push(format!("route add default via {gateway}"));
            }
            run("ip", &["-n", &room.netns(place), "-batch", "-"], &lines.join("\n"));
        }
        room.enter(Place::Router, || {
            std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").expect("root may");
        });
        // A bucket of 0.8 ms at 100 Mbit/s: with less, a late processor costs rate.
        let shaper = format!("rate {mbps}mbit burst 10000 limit {queue_bytes}");
        let mut arguments = vec!["-n", &router, "qdisc", "replace", "dev", "e1", "root", "tbf"];
        arguments.extend(shaper.split(' '));
        run("tc", &arguments, "");
        room
    }

    /// Runs `work` in a thread that stands in `place`; sockets that it makes belong there for ever.
    pub(crate) fn enter<T: Send>(&self, place: Place, work: impl FnOnce() -> T + Send) -> T {
        let path = format!("/run/netns/{}", self.netns(place));
        thread::scope(|scope| {
            let inside = scope.spawn(move || {
                let namespace = File::open(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
                move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                    .unwrap_or_else(|error| panic!("{path}: {error}"));
                work()
            });
            inside.join().expect("what it did not do is told above")
        })
    }

    fn netns(&self, place: Place) -> String {
        format!("{}-{place:?}", self.name).to_lowercase()
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        for place in Place::ALL {
            // The links go with it.
            let _ = Command::new("ip").args(["netns", "del", &self.netns(place)]).status();
        }
    }
}

type Links = &'static [(&'static str, &'static str)];

const LINKS: [&Links; 3] = [
    &(&[("e0", "10.91.1.1")] as Links),
    &(&[("e0", "10.91.1.2"), ("e1", "10.91.2.2")] as Links),
    &(&[("e0", "10.91.2.1")] as Links),
];

impl Place {
    const ALL: [Self; 3] = [Self::Sender, Self::Router, Self::Receiver];

    fn gateway(self) -> Option<&'static str> {
        match self {
            Self::Sender => Some("10.91.1.2"),
            Self::Router => None,
            Self::Receiver => Some("10.91.2.2"),
        }
    }
}

fn run(program: &str, arguments: &[&str], input: &str) {
    let child = Command::new(program).args(arguments).stdin(Stdio::piped()).spawn();
    let mut child = child.unwrap_or_else(|error| panic!("{program}: {error}"));
    let mut stdin = child.stdin.take().expect("it was asked for");
    stdin.write_all(input.as_bytes()).expect("it reads");
    drop(stdin);
    let status = child.wait().expect("it was started");
    assert!(status.success(), "{program} {arguments:?}: {status}\n{input}");
}
