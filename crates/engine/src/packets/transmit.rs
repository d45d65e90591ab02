//! The thread that sends the frames of one port.
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use hakaru_packets::{Due, Frames, Sender, Step};
use hakaru_runtime::clock;
use hakaru_runtime::packet::frames::FrameSender;
use hakaru_runtime::process::{ThreadCpuClock, request_time_slices, thread_cpu_ns};
use hakaru_runtime::wait::Pacer;
use hakaru_units::Time;

use super::report::{Progress, Reporter};
use crate::failure::{Failure, OrEnvironment};

/// Longest wait after which the thread looks whether the engine has ended.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Time after which frames that the interface refuses are given up. Linux before 6.17 does not show
/// how many of them AF_XDP took before the queue of the interface was full, until it has taken all. So
/// frames that are given up may have left, although they count as not sent.
const REFUSED_LIMIT: Duration = Duration::from_secs(1);
/// Time slice of the thread, the shortest that Linux grants.
const TURN: Duration = Duration::from_micros(100);

/// Cumulative counts of a sending port, shared with the main thread.
#[derive(Debug, Default)]
pub(super) struct TransmitCounters {
    pub(super) frames: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) refused: AtomicU64,
    is_ended: AtomicBool,
}

/// The frames of one trial.
pub(super) struct TransmitOrder {
    pub(super) sender: Sender,
    pub(super) trial: u16,
    /// Time after which the next frame counts as not sent, if all memory for frames is in use.
    pub(super) late_limit: Duration,
}

/// Handle of the thread.
pub(super) struct Transmitter {
    orders: Option<mpsc::Sender<TransmitOrder>>,
    thread: Option<JoinHandle<()>>,
    pub(super) cpu: Option<ThreadCpuClock>,
    pub(super) counters: Arc<TransmitCounters>,
}

impl Transmitter {
    /// Starts the thread of port `port`. `frames` has the frames of each stream that leaves it, by
    /// the index of the stream.
    pub(super) fn spawn(
        port: usize,
        out: Box<dyn FrameSender>,
        frames: Vec<(usize, Frames)>,
        reporter: Reporter,
    ) -> Result<Transmitter, Failure> {
        let (orders, ordered) = mpsc::channel::<TransmitOrder>();
        let counters = Arc::new(TransmitCounters::default());
        let mut transmission = Transmission {
            out,
            frames,
            pending: VecDeque::new(),
            counters: Arc::clone(&counters),
        };
        let work = move || {
            request_time_slices(TURN);
            let mut pacer = Pacer::new();
            for order in ordered {
                let (before, refused) = (thread_cpu_ns(), transmission.refused());
                let done = transmission.send(order, &mut pacer);
                let progress = done.map(|sender| Progress::Sent {
                    port,
                    streams: sender.finish(),
                    refused: transmission.refused() - refused,
                    cpu_ns: thread_cpu_ns() - before,
                });
                if !reporter.send(progress) {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("transmit".to_owned());
        let thread = thread
            .spawn(work)
            .or_environment("start a thread", "raise the limit of processes")?;
        Ok(Transmitter {
            orders: Some(orders),
            cpu: ThreadCpuClock::of(&thread),
            thread: Some(thread),
            counters,
        })
    }

    /// Sends the frames of a trial.
    pub(super) fn send(&self, order: TransmitOrder) {
        // A thread that has ended has reported its failure.
        let _ = self.orders.as_ref().map(|orders| orders.send(order));
    }
}

impl Drop for Transmitter {
    fn drop(&mut self) {
        self.counters.is_ended.store(true, Ordering::Relaxed);
        drop(self.orders.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// State of the thread.
struct Transmission {
    out: Box<dyn FrameSender>,
    frames: Vec<(usize, Frames)>,
    /// Frames queued in `out`, with their sizes.
    pending: VecDeque<(Due, u16)>,
    counters: Arc<TransmitCounters>,
}

impl Transmission {
    fn refused(&self) -> u64 {
        self.counters.refused.load(Ordering::Relaxed)
    }

    /// Sends frames until the trial or the engine ends.
    ///
    /// A frame that is due is sent at once, alone or with the others that are due: a batch has more
    /// than one frame only if the thread is behind. All frames of a batch have the same time stamp,
    /// taken before they are written.
    fn send(&mut self, order: TransmitOrder, pacer: &mut Pacer) -> Result<Sender, Failure> {
        let TransmitOrder {
            mut sender,
            trial,
            late_limit,
        } = order;
        for (_, frames) in &mut self.frames {
            frames.set_trial(trial);
        }
        // Instant since which the interface has refused every frame.
        let mut stuck_since: Option<Time> = None;
        // Instant since which frames that were given up fill its queue.
        let mut full_since: Option<Time> = None;
        while !self.counters.is_ended.load(Ordering::Relaxed) {
            let now = clock::now();
            let mut step = self.queue(&mut sender, now);
            if step.is_none() && self.pending.is_empty() {
                // They leave the queue before any other.
                self.flush(&mut sender, now)?;
                let is_full = self.out.room() == 0;
                if is_full && now - *full_since.get_or_insert(now) > late_limit {
                    let next = sender.poll(now);
                    if let Step::Send(due) = &next {
                        sender.abandoned(due);
                    }
                    step = Some(next);
                }
            } else {
                full_since = None;
            }
            if !self.pending.is_empty() {
                let accepted = self.flush(&mut sender, now)?;
                if accepted > 0 {
                    stuck_since = None;
                    continue;
                }
                self.counters.refused.fetch_add(1, Ordering::Relaxed);
                let since = *stuck_since.get_or_insert(now);
                if now - since > REFUSED_LIMIT {
                    self.abandon(&mut sender);
                    stuck_since = None;
                }
                continue;
            }
            match step {
                Some(Step::Wait(until)) => pacer.wait_until(until.min(now + LOOK_EVERY)),
                Some(Step::Finished) => return Ok(sender),
                Some(Step::Send(_)) | None => {}
            }
        }
        self.abandon(&mut sender);
        Ok(sender)
    }

    /// Queues the frames that are due, as far as there is room. Returns the step that follows them,
    /// if there was room for all.
    fn queue(&mut self, sender: &mut Sender, now: Time) -> Option<Step> {
        for _ in 0..self.out.room() {
            let step = sender.poll(now);
            let Step::Send(due) = step else {
                return Some(step);
            };
            let frames = self.frames.iter().find(|(stream, _)| *stream == due.stream);
            // The sender was created for the streams of this port.
            let (_, frames) = frames.expect("a stream that leaves this port");
            self.out
                .push(&mut |memory| frames.emit(due.number, now, memory));
            self.pending.push_back((due, frames.bytes_of(due.number)));
        }
        None
    }

    /// Hands queued frames to the kernel. Returns the number that it accepted.
    fn flush(&mut self, sender: &mut Sender, now: Time) -> Result<usize, Failure> {
        let accepted = self.out.flush().or_environment(
            "send frames",
            "see whether the interface is still there and up (ip link)",
        )?;
        let mut bytes_sent = 0;
        for (due, bytes) in self.pending.drain(..accepted) {
            sender.handed_over(&due, now, bytes);
            bytes_sent += u64::from(bytes);
        }
        let counters = &self.counters;
        counters
            .frames
            .fetch_add(accepted as u64, Ordering::Relaxed);
        counters.bytes.fetch_add(bytes_sent, Ordering::Relaxed);
        Ok(accepted)
    }

    /// Gives up all queued frames.
    fn abandon(&mut self, sender: &mut Sender) {
        self.out.discard();
        for (due, _) in self.pending.drain(..) {
            sender.abandoned(&due);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::net::Ipv4Addr;

    use hakaru_contract::packets::{FrameSize, PacketPort, PacketStream, PacketsConfig};
    use hakaru_contract::{ReceiveMethod, TransmitMethod, TrialOrder};
    use hakaru_packets::{Mac, Plan};
    use hakaru_runtime::packet::frames::FRAMES_MAX;

    use super::*;

    const FRAMES: u64 = 2_000;

    /// An interface that accepts nothing until an instant. As in a ring of AF_XDP, frames that were
    /// given up stay in its queue until then.
    struct Shut {
        queued: usize,
        orphaned: usize,
        opens: Time,
    }

    impl FrameSender for Shut {
        fn room(&mut self) -> usize {
            FRAMES_MAX - self.queued - self.orphaned
        }

        fn push(&mut self, _emit: &mut dyn FnMut(&mut [u8]) -> usize) {
            self.queued += 1;
        }

        fn flush(&mut self) -> io::Result<usize> {
            if clock::now() < self.opens {
                return Ok(0);
            }
            self.orphaned = 0;
            Ok(std::mem::take(&mut self.queued))
        }

        fn discard(&mut self) {
            self.orphaned += std::mem::take(&mut self.queued);
        }
    }

    fn plan() -> Plan {
        let port = |name: &str| PacketPort {
            name: name.to_owned(),
            interface: name.to_owned(),
        };
        let stream = PacketStream {
            name: "a".to_owned(),
            from: "left".to_owned(),
            to: "right".to_owned(),
            source_mac: None,
            destination_mac: None,
            source_address: Ipv4Addr::new(198, 18, 0, 2),
            destination_address: Ipv4Addr::new(198, 19, 0, 2),
            source_port: 1000,
            destination_port: 9,
            flows: 1,
            sizes: vec![FrameSize {
                bytes: 64,
                weight: 1,
            }],
        };
        let config = PacketsConfig {
            ports: vec![port("left"), port("right")],
            streams: vec![stream],
            transmit: TransmitMethod::Auto,
            receive: ReceiveMethod::Auto,
            sample_interval_ms: 1000,
            avoid_processors: Vec::new(),
        };
        Plan::new(&config).expect("a valid configuration")
    }

    /// Sends a trial of 20 ms to an interface that opens after a time. Returns the frames sent and
    /// not sent, and whether the trial has ended by itself.
    fn send_to(opens_after: Option<Duration>) -> (u64, u64, bool) {
        let (plan, begin) = (plan(), clock::now());
        let order = TrialOrder {
            id: 0,
            duration_ns: 20_000_000,
            rates: vec![Some(100_000.0)],
            settle_ns: 0,
            late_limit_ns: 1_000_000,
        };
        let trial = plan.trial(&order, 0).expect("a valid order");
        let counters = Arc::new(TransmitCounters::default());
        let mut transmission = Transmission {
            out: Box::new(Shut {
                queued: 0,
                orphaned: 0,
                opens: opens_after.map_or(Time::MAX, |after| begin + after),
            }),
            frames: vec![(0, plan.frames(0, &[Mac([2; 6]), Mac([4; 6])], 1))],
            pending: VecDeque::new(),
            counters: Arc::clone(&counters),
        };
        let (done, waits) = mpsc::channel::<()>();
        let guard = std::thread::spawn(move || {
            let in_time = waits.recv_timeout(Duration::from_secs(20)).is_ok();
            counters.is_ended.store(true, Ordering::Relaxed);
            in_time
        });
        let order = TransmitOrder {
            sender: Sender::new(&trial, &[0], begin),
            trial: 0,
            late_limit: Duration::from_millis(1),
        };
        let sender = transmission.send(order, &mut Pacer::new());
        // A guard whose time is over has ended the trial.
        let _ = done.send(());
        let in_time = guard.join().expect("the guard does not panic");
        let Ok(sender) = sender else {
            panic!("the interface reports no error");
        };
        let sent = sender.finish().remove(0);
        (sent.frames, sent.unsent, in_time)
    }

    #[test]
    fn a_trial_ends_although_the_interface_refuses_frames_for_longer_than_the_limit() {
        let (frames, unsent, in_time) = send_to(Some(Duration::from_millis(5)));
        assert!(in_time && frames > 0, "{frames} sent");
        assert_eq!(frames + unsent, FRAMES);
        assert_eq!(send_to(None), (0, FRAMES, true));
    }
}
