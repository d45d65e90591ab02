//! Threads beside the main thread, which report their end to it.
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use hakaru_runtime::{Reactor, Token, Waiter, Waker, clock};
use hakaru_units::Time;

use crate::control::{Control, Order};
use crate::failure::{Failure, OrEnvironment};
use crate::sampling::Schedule;

const REPORTS: Token = Token(0);
/// Time that threads have to end after the order to end.
const STOP_TIME: Duration = Duration::from_secs(20);

/// State that threads share with the main thread.
#[derive(Clone)]
pub struct Shared {
    stop: Arc<AtomicBool>,
    /// Wakes threads that wait for an instant.
    stopped: Arc<(Mutex<()>, Condvar)>,
    running: Arc<AtomicU32>,
    reports: Sender<Report>,
    waker: Waker,
}

/// A message to the main thread.
pub enum Report {
    /// A failure that does not end the work.
    Complaint(Failure),
    /// A thread found no more work. The others may still have some.
    OutOfWork,
    /// A thread has ended; a failure ends the engine.
    Ended(Result<(), Failure>),
}

impl Shared {
    /// Returns whether the threads must end.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Orders the threads to end.
    pub fn stop(&self) {
        let (lock, stopped) = &*self.stopped;
        // A thread between its check and its wait holds the lock, so it does not miss the order.
        let _lock = lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.stop.store(true, Ordering::Relaxed);
        stopped.notify_all();
    }

    /// Waits until an instant, or until the threads must end.
    pub fn wait_until(&self, at: Time) {
        let (lock, stopped) = &*self.stopped;
        let mut lock = lock.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let left = at.since(clock::now());
            if left.is_zero() || self.is_stopped() {
                return;
            }
            let woken = stopped.wait_timeout(lock, left);
            lock = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Returns the number of threads whose end was not received.
    pub fn running(&self) -> u32 {
        self.running.load(Ordering::Relaxed)
    }

    /// Sends a report. The main thread may have ended, which needs no report.
    pub fn send(&self, report: Report) {
        let _ = self.reports.send(report);
        self.waker.wake();
    }
}

/// Returns the instant until which [`Crew::watch`] waits, or `None` to wait without a limit. It is
/// called in every turn, because orders may bring the instant forward.
pub type Until<'a> = &'a mut dyn FnMut(&mut Control) -> Option<Time>;

/// The threads' side of the main thread.
pub struct Crew {
    shared: Shared,
    reports: Receiver<Report>,
    waker: Waker,
    waiter: Waiter,
    out_of_work: bool,
    spawned: bool,
    /// Instant until which ordered threads have time to end.
    deadline: Option<Time>,
}

/// Reason why [`Crew::watch`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// All threads have ended.
    Ended,
    /// The instant is reached.
    Reached,
    /// The control plane ordered the start at this instant.
    Started(Time),
    /// The control plane ordered the end.
    Stopped,
    /// A thread found no more work.
    OutOfWork,
}

impl Crew {
    /// Creates a crew without threads.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn new(reactor: &Reactor) -> Result<Crew, Failure> {
        let waker = Waker::new(reactor, REPORTS).or_environment(
            "create an event descriptor",
            "raise the limit of open files",
        )?;
        let (send, reports) = mpsc::channel();
        Ok(Crew {
            shared: Shared {
                stop: Arc::default(),
                stopped: Arc::default(),
                running: Arc::default(),
                reports: send,
                waker: waker.clone(),
            },
            reports,
            waker,
            waiter: Waiter::sleeping(8),
            out_of_work: false,
            spawned: false,
            deadline: None,
        })
    }

    /// Returns what the threads share.
    pub fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Starts a thread.
    ///
    /// # Errors
    /// No threads are left.
    pub fn spawn(
        &mut self,
        name: String,
        work: impl FnOnce(&Shared) -> Result<(), Failure> + Send + 'static,
    ) -> Result<(), Failure> {
        let shared = self.shared.clone();
        // The main thread counts down as it receives the ends, so none is missed.
        shared.running.fetch_add(1, Ordering::Relaxed);
        self.spawned = true;
        let spawned = std::thread::Builder::new().name(name).spawn(move || {
            // The work's references are released before its end is reported.
            let result = work(&shared);
            shared.send(Report::Ended(result));
        });
        if spawned.is_err() {
            self.shared.running.fetch_sub(1, Ordering::Relaxed);
        }
        spawned
            .map(drop)
            .or_environment("start a thread", "raise the limit of processes (ulimit -u)")
    }

    /// Waits until something happens that the caller must know. Meanwhile it passes complaints on
    /// and calls `sample` at each instant of the schedule.
    ///
    /// # Errors
    /// A thread failed, or the control plane sent an invalid order.
    pub fn watch(
        &mut self,
        reactor: &Reactor,
        control: &mut Control,
        until: Until<'_>,
        samples: &mut Schedule,
        sample: &mut dyn FnMut(Time, &Control),
    ) -> Result<Watched, Failure> {
        loop {
            let now = clock::now();
            let until = until(control);
            if samples.due(now) {
                sample(now, control);
            }
            self.take_reports(control)?;
            if self.spawned && self.shared.running() == 0 {
                return Ok(Watched::Ended);
            }
            if std::mem::take(&mut self.out_of_work) {
                return Ok(Watched::OutOfWork);
            }
            if until.is_some_and(|until| until <= now) {
                return Ok(Watched::Reached);
            }
            if let Some(order) = control.poll_order() {
                return Ok(match order {
                    Order::Start(at) => Watched::Started(at.max(clock::now())),
                    Order::Stop => Watched::Stopped,
                });
            }
            let next = [until, samples.next()].into_iter().flatten().min();
            control.wait(reactor, &mut self.waiter, next)?;
            for event in self.waiter.events() {
                if !control.handle_event(event)? && event.token == REPORTS {
                    self.waker.acknowledge();
                }
            }
        }
    }

    /// Orders the threads to end and waits for them.
    ///
    /// # Errors
    /// A thread failed, or does not end in time.
    pub fn end(
        &mut self,
        reactor: &Reactor,
        control: &mut Control,
        samples: &mut Schedule,
        sample: &mut dyn FnMut(Time, &Control),
    ) -> Result<(), Failure> {
        let deadline = self.stop();
        while self.shared.running() > 0 {
            let until = &mut |_: &mut Control| Some(deadline);
            if self.watch(reactor, control, until, samples, sample)? == Watched::Reached {
                return Err(Failure::peer(
                    format_args!(
                        "{} threads still wait for the file system {} s after the end",
                        self.shared.running(),
                        STOP_TIME.as_secs()
                    ),
                    "check whether the file server still responds",
                ));
            }
        }
        self.take_reports(control)
    }

    /// After a failure: orders the threads to end and waits for them, without a report of further
    /// failures. A thread that hangs in the file system may still run after this.
    pub fn abandon(&mut self, control: &Control) {
        let deadline = self.stop();
        while self.shared.running() > 0 {
            let left = Duration::from_nanos(deadline.ns_since(clock::now()));
            match self.reports.recv_timeout(left) {
                Ok(Report::Ended(_)) => {
                    self.shared.running.fetch_sub(1, Ordering::Relaxed);
                }
                Ok(Report::Complaint(failure)) => control.error(&failure, false),
                Ok(Report::OutOfWork) => {}
                Err(_) => return,
            }
        }
    }

    fn stop(&mut self) -> Time {
        self.shared.stop();
        *self
            .deadline
            .get_or_insert_with(|| clock::now() + STOP_TIME)
    }

    fn take_reports(&mut self, control: &Control) -> Result<(), Failure> {
        while let Ok(report) = self.reports.try_recv() {
            match report {
                Report::Complaint(failure) => control.error(&failure, false),
                Report::OutOfWork => self.out_of_work = true,
                Report::Ended(result) => {
                    self.shared.running.fetch_sub(1, Ordering::Relaxed);
                    result?;
                }
            }
        }
        Ok(())
    }
}
