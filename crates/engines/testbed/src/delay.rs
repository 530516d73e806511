//! The delay line: links whose packets a program holds back, because this kernel may have no netem.
//!
//! ```text
//!   host ── e0 (TAP) ──read──> [ queue: due in 10 ms, … ] ──write──> p3 (TAP) ── switch
//! ```
//!
//! One thread serves all links. A link's delay is constant, so each direction is a queue in order of time. It runs before all others
//! of the machine (`SCHED_FIFO`): with an ordinary thread, a delay of 50 us became 1.2 ms, give or take 3.

use crate::network::run;
use crate::{Result, failed};
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
use tun_rs::SyncDevice;

/// A link that is to be delayed: what comes out of one device goes into the other, both ways.
pub(crate) struct Delayed {
    pub(crate) a: SyncDevice,
    pub(crate) b: SyncDevice,
    pub(crate) delay: Duration,
}

/// The line at work. It ends when this is dropped, and the devices with it.
pub(crate) struct Line {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// A packet is at most this long: Ethernet's 1500 bytes, its header and room for a tag.
const LARGEST: usize = 2_048;
/// Before packets of one direction are looked at, so many of another may be taken.
const BATCH: usize = 64;
/// How often the line looks whether it is to end.
const LONGEST_WAIT: Duration = Duration::from_millis(50);

impl Line {
    /// Starts to serve these links.
    pub(crate) fn start(links: Vec<Delayed>) -> Result<Self> {
        for device in links.iter().flat_map(|link| [&link.a, &link.b]) {
            device.set_nonblocking(true).map_err(|why| failed("the delay line", why))?;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (tell, told) = mpsc::channel();
        let until = Arc::clone(&stop);
        let serve = move || {
            // Nobody who waits for the number can have gone.
            let _ = tell.send(gettid());
            serve(links, &until);
        };
        let thread = thread::Builder::new().name("delay-line".into()).spawn(serve);
        let line = Self { stop, thread: Some(thread.map_err(|why| failed("the delay line", why))?) };
        let number = told.recv().map_err(|why| failed("the delay line", why))?.as_raw_nonzero().to_string();
        run("chrt", &["--fifo", "--pid", "20", &number], "")?;
        Ok(line)
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It does not panic; and if it did, the run has failed already.
            let _ = thread.join();
        }
    }
}

/// One direction of a link.
struct Direction<'a> {
    from: &'a SyncDevice,
    to: &'a SyncDevice,
    delay: Duration,
    waiting: VecDeque<(Instant, Vec<u8>)>,
}

fn serve(links: Vec<Delayed>, stop: &AtomicBool) {
    let both = |link: &'_ Delayed| [(true, link.delay), (false, link.delay)];
    let mut directions: Vec<Direction<'_>> = links
        .iter()
        .flat_map(|link| {
            both(link).map(|(forth, delay)| {
                let (from, to) = if forth { (&link.a, &link.b) } else { (&link.b, &link.a) };
                Direction { from, to, delay, waiting: VecDeque::new() }
            })
        })
        .collect();
    // Buffers go round: none is made while packets flow.
    let mut spare: Vec<Vec<u8>> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let next = directions.iter().filter_map(|line| line.waiting.front()).map(|(due, _)| *due).min();
        let wait = next.map_or(LONGEST_WAIT, |due| due.saturating_duration_since(now()).min(LONGEST_WAIT));
        let wait = Timespec { tv_sec: 0, tv_nsec: wait.subsec_nanos().into() };
        let mut ready: Vec<PollFd<'_>> = directions
            .iter()
            .map(|line| PollFd::from_borrowed_fd(line.from.as_fd(), PollFlags::IN))
            .collect();
        if poll(&mut ready, Some(&wait)).is_err() {
            // Interrupted by a signal: the next round will tell.
            continue;
        }
        let ready: Vec<bool> = ready.iter().map(|fd| fd.revents().contains(PollFlags::IN)).collect();
        for (line, ready) in directions.iter_mut().zip(ready) {
            line.give(&mut spare);
            if ready {
                line.take(&mut spare);
            }
        }
    }
}

impl Direction<'_> {
    /// Takes in what has come.
    fn take(&mut self, spare: &mut Vec<Vec<u8>>) {
        for _ in 0..BATCH {
            let mut packet = spare.pop().unwrap_or_default();
            packet.resize(LARGEST, 0);
            match self.from.recv(&mut packet) {
                Ok(length) => {
                    packet.truncate(length);
                    self.waiting.push_back((now() + self.delay, packet));
                }
                Err(why) => {
                    spare.push(packet);
                    debug_assert_eq!(why.kind(), io::ErrorKind::WouldBlock, "{why}");
                    return;
                }
            }
        }
    }

    /// Gives out what is due.
    fn give(&mut self, spare: &mut Vec<Vec<u8>>) {
        while let Some((due, _)) = self.waiting.front() {
            if *due > now() {
                return;
            }
            if let Some((_, packet)) = self.waiting.pop_front() {
                // A device that is down takes nothing, like a cable that is out.
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
