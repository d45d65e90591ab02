//! The thread that counts the frames of one port.
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, TryRecvError};
use std::thread::JoinHandle;
use std::time::Duration;

use hakaru_packets::{Excluded, Receiver, Trial};
use hakaru_runtime::clock;
use hakaru_runtime::packet::frames::FrameReceiver;
use hakaru_runtime::process::{ThreadCpuClock, thread_cpu_ns};
use hakaru_units::Time;

use super::report::{Progress, Reporter};
use crate::failure::{Failure, OrEnvironment};

/// Longest wait for frames, after which the thread looks for an order.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Longest wait for frames under way. No queue between two ports is as long.
const SETTLE_MAX: Duration = Duration::from_secs(10);
const HINT: &str = "see whether the interface is still there and up (ip link)";

/// Cumulative counts of a receiving port, shared with the main thread.
#[derive(Debug, Default)]
pub(super) struct ReceiveCounters {
    pub(super) frames: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) duplicated: AtomicU64,
    pub(super) corrupted: AtomicU64,
    pub(super) foreign: AtomicU64,
    pub(super) late: AtomicU64,
    pub(super) ring_dropped: AtomicU64,
}

/// An order to the thread.
pub(super) enum ReceiveOrder {
    /// Begin a trial.
    Begin(Trial),
    /// End the trial as soon as no frame of it has arrived for a time.
    Finish {
        quiet: Duration,
        /// Times of the trial that are not judged.
        excluded: Excluded,
    },
}

/// Handle of the thread.
pub(super) struct Reception {
    orders: Option<mpsc::Sender<ReceiveOrder>>,
    thread: Option<JoinHandle<()>>,
    pub(super) cpu: Option<ThreadCpuClock>,
    pub(super) counters: Arc<ReceiveCounters>,
}

impl Reception {
    /// Starts the thread of port `port`.
    pub(super) fn spawn(
        port: usize,
        frames: Box<dyn FrameReceiver>,
        receiver: Receiver,
        reporter: Reporter,
    ) -> Result<Reception, Failure> {
        let (orders, ordered) = mpsc::channel();
        let counters = Arc::new(ReceiveCounters::default());
        let mut reading = Reading {
            port,
            frames,
            receiver,
            reporter,
            counters: Arc::clone(&counters),
            ring_dropped: 0,
            arrived: 0,
            last_arrival: Time::ZERO,
            before: Before::default(),
        };
        let work = move || {
            if let Err(failure) = reading.run(&ordered) {
                reading.reporter.send(Err(failure));
            }
        };
        let thread = std::thread::Builder::new().name("receive".to_owned());
        let thread = thread
            .spawn(work)
            .or_environment("start a thread", "raise the limit of processes")?;
        Ok(Reception {
            orders: Some(orders),
            cpu: ThreadCpuClock::of(&thread),
            thread: Some(thread),
            counters,
        })
    }

    /// Sends an order to the thread.
    pub(super) fn order(&self, order: ReceiveOrder) {
        // A thread that has ended has reported its failure.
        let _ = self.orders.as_ref().map(|orders| orders.send(order));
    }
}

impl Drop for Reception {
    fn drop(&mut self) {
        drop(self.orders.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// State of the thread.
struct Reading {
    port: usize,
    frames: Box<dyn FrameReceiver>,
    receiver: Receiver,
    reporter: Reporter,
    counters: Arc<ReceiveCounters>,
    ring_dropped: u64,
    /// Number of frames of trials so far, and the instant of the newest.
    arrived: u64,
    last_arrival: Time,
    before: Before,
}

/// Condition for the end of a trial.
struct Ending {
    quiet: Duration,
    /// Instant of the order.
    since: Time,
    excluded: Excluded,
}

/// Figures at the start of a trial.
#[derive(Clone, Copy, Default)]
struct Before {
    cpu_ns: u64,
    ring_dropped: u64,
}

impl Reading {
    /// Reads frames until the engine ends.
    fn run(&mut self, orders: &mpsc::Receiver<ReceiveOrder>) -> Result<(), Failure> {
        let mut ending: Option<Ending> = None;
        loop {
            self.frames
                .wait(LOOK_EVERY)
                .or_environment("receive frames", HINT)?;
            self.take()?;
            if let Some(over) = ending.take_if(|ending| self.is_over(ending)) {
                self.finish(&over.excluded)?;
            }
            match orders.try_recv() {
                Ok(ReceiveOrder::Begin(trial)) => self.begin(&trial)?,
                Ok(ReceiveOrder::Finish { quiet, excluded }) => {
                    let since = clock::now();
                    ending = Some(Ending {
                        quiet,
                        since,
                        excluded,
                    });
                }
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => return Ok(()),
            }
        }
    }

    /// Returns whether no frame has arrived for long enough.
    fn is_over(&self, ending: &Ending) -> bool {
        let quiet_at = self.last_arrival.max(ending.since) + ending.quiet;
        let at = quiet_at.min(ending.since + SETTLE_MAX.max(ending.quiet));
        clock::now() >= at + self.frames.settle_time()
    }

    /// Counts the frames that are ready.
    fn take(&mut self) -> Result<(), Failure> {
        let receiver = &mut self.receiver;
        self.frames
            .take(&mut |at, bytes| receiver.handle_frame(at, bytes))
            .or_environment("receive frames", "use `receive: auto`")?;
        let dropped = self
            .frames
            .dropped()
            .or_environment("read the counts of the receive ring", HINT)?;
        self.ring_dropped = dropped;
        let totals = self.receiver.totals();
        let arrived = totals.frames + totals.duplicated + totals.corrupted;
        if arrived != self.arrived {
            (self.arrived, self.last_arrival) = (arrived, clock::now());
        }
        let counters = &self.counters;
        for (counter, value) in [
            (&counters.frames, totals.frames),
            (&counters.bytes, totals.bytes),
            (&counters.duplicated, totals.duplicated),
            (&counters.corrupted, totals.corrupted),
            (&counters.foreign, totals.foreign),
            (&counters.late, totals.late),
            (&counters.ring_dropped, dropped),
        ] {
            counter.store(value, Ordering::Relaxed);
        }
        Ok(())
    }

    fn begin(&mut self, trial: &Trial) -> Result<(), Failure> {
        // Frames that arrived before belong to an earlier trial.
        self.take()?;
        self.receiver.begin(trial);
        self.before = Before {
            cpu_ns: thread_cpu_ns(),
            ring_dropped: self.ring_dropped,
        };
        self.reporter.send(Ok(Progress::Begun));
        Ok(())
    }

    fn finish(&mut self, excluded: &Excluded) -> Result<(), Failure> {
        self.take()?;
        let progress = Progress::Received {
            port: self.port,
            counts: self.receiver.finish(excluded),
            ring_dropped: self.ring_dropped - self.before.ring_dropped,
            cpu_ns: thread_cpu_ns() - self.before.cpu_ns,
        };
        self.reporter.send(Ok(progress));
        Ok(())
    }
}
