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
    /// Longest time for which the interface may refuse a frame.
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
        while !self.counters.is_ended.load(Ordering::Relaxed) {
            let now = clock::now();
            let step = self.queue(&mut sender, now);
            if !self.pending.is_empty() {
                let accepted = self.flush(&mut sender, now)?;
                if accepted > 0 {
                    stuck_since = None;
                    continue;
                }
                self.counters.refused.fetch_add(1, Ordering::Relaxed);
                let since = *stuck_since.get_or_insert(now);
                if now - since > late_limit {
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
