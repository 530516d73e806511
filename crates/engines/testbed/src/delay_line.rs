//! The delay line, which delays packets in user space because the kernel may lack netem.
//!
//! ```text
//!   host ── e0 (TAP) ──read──> [ queue: due in 10 ms, … ] ──write──> p3 (TAP) ── switch
//! ```
//!
//! One thread serves all links. A link's delay is constant, so each direction is a FIFO queue. The thread has
//! real-time priority (`SCHED_FIFO`). With an ordinary thread, a delay of 50 us measured 1.2 ± 3 ms.

use crate::namespace::{netns_error, run_tool};
use crate::{Result, machine_error};
use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::gettid;
use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd as _;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Instant;
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

/// A link with a delay. Packets travel between the two TAP devices in both directions.
pub struct DelayedLink {
    a: SyncDevice,
    b: SyncDevice,
    delay: Duration,
}

impl DelayedLink {
    /// Creates the two TAP devices. Each end is a namespace and a device name.
    pub fn create(a: (&str, &str), b: (&str, &str), delay: Duration) -> Result<Self> {
        let device = |(netns, name): (&str, &str)| {
            let builder = DeviceBuilder::new().name(name).layer(Layer::L2);
            poseidon_netns::run_in(netns, || builder.build_sync())
                .map_err(netns_error)?
                .map_err(|error| machine_error("creating a TAP device (/dev/net/tun)", error))
        };
        Ok(Self { a: device(a)?, b: device(b)?, delay })
    }
}

impl fmt::Debug for DelayedLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelayedLink").field("delay", &self.delay).finish_non_exhaustive()
    }
}

/// A running delay line. Dropping it stops the thread and removes the devices.
#[derive(Debug)]
pub struct DelayLine {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// The maximum frame size: 1500 bytes plus the Ethernet header and space for VLAN tags.
const MAX_FRAME: usize = 2_048;
/// The maximum number of packets to read from one direction before serving the next direction.
const BATCH: usize = 64;
/// How often the thread checks whether it must stop.
const MAX_WAIT: Duration = Duration::from_millis(50);

impl DelayLine {
    /// Starts the thread for these links.
    pub fn start(links: Vec<DelayedLink>) -> Result<Self> {
        for device in links.iter().flat_map(|link| [&link.a, &link.b]) {
            device.set_nonblocking(true).map_err(|error| machine_error("the delay line", error))?;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (id_sender, id_receiver) = mpsc::channel();
        let stop_flag = Arc::clone(&stop);
        let serve = move || {
            // The receiver below waits for the thread id.
            let _ = id_sender.send(gettid());
            serve(links, &stop_flag);
        };
        let thread = thread::Builder::new().name("delay-line".into()).spawn(serve);
        let line =
            Self { stop, thread: Some(thread.map_err(|error| machine_error("the delay line", error))?) };
        let id = id_receiver
            .recv()
            .map_err(|error| machine_error("the delay line", error))?
            .as_raw_nonzero()
            .to_string();
        run_tool("chrt", &["--fifo", "--pid", "20", &id], "")?;
        Ok(line)
    }
}

impl Drop for DelayLine {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // If the thread panicked, the run has already failed.
            let _ = thread.join();
        }
    }
}

/// One direction of a link.
struct Direction<'a> {
    from: &'a SyncDevice,
    to: &'a SyncDevice,
    delay: Duration,
    queue: VecDeque<(Instant, Vec<u8>)>,
}

fn serve(links: Vec<DelayedLink>, stop: &AtomicBool) {
    let mut directions: Vec<Direction<'_>> = links
        .iter()
        .flat_map(|link| {
            [(&link.a, &link.b), (&link.b, &link.a)].map(|(from, to)| Direction {
                from,
                to,
                delay: link.delay,
                queue: VecDeque::new(),
            })
        })
        .collect();
    // Reuse buffers so that no memory is allocated per packet.
    let mut spare: Vec<Vec<u8>> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let next =
            directions.iter().filter_map(|direction| direction.queue.front()).map(|(due, _)| *due).min();
        let wait = next.map_or(MAX_WAIT, |due| due.saturating_duration_since(now()).min(MAX_WAIT));
        let wait = Timespec { tv_sec: 0, tv_nsec: wait.subsec_nanos().into() };
        let mut ready: Vec<PollFd<'_>> = directions
            .iter()
            .map(|direction| PollFd::from_borrowed_fd(direction.from.as_fd(), PollFlags::IN))
            .collect();
        if poll(&mut ready, Some(&wait)).is_err() {
            // A signal interrupted the call.
            continue;
        }
        let ready: Vec<bool> = ready.iter().map(|fd| fd.revents().contains(PollFlags::IN)).collect();
        for (direction, ready) in directions.iter_mut().zip(ready) {
            direction.send_due(&mut spare);
            if ready {
                direction.receive(&mut spare);
            }
        }
    }
}

impl Direction<'_> {
    /// Reads packets from the device into the queue.
    fn receive(&mut self, spare: &mut Vec<Vec<u8>>) {
        for _ in 0..BATCH {
            let mut packet = spare.pop().unwrap_or_default();
            packet.resize(MAX_FRAME, 0);
            match self.from.recv(&mut packet) {
                Ok(length) => {
                    packet.truncate(length);
                    self.queue.push_back((now() + self.delay, packet));
                }
                Err(error) => {
                    spare.push(packet);
                    debug_assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{error}");
                    return;
                }
            }
        }
    }

    /// Sends the packets that are due.
    fn send_due(&mut self, spare: &mut Vec<Vec<u8>>) {
        while let Some((due, _)) = self.queue.front() {
            if *due > now() {
                return;
            }
            if let Some((_, packet)) = self.queue.pop_front() {
                // A device that is down drops the packet, like an unplugged cable.
                let _ = self.to.send(&packet);
                spare.push(packet);
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "real packets take real time")]
fn now() -> Instant {
    Instant::now()
}
