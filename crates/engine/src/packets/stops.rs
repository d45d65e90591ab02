//! Stops of processors: times in which a processor of this machine ran no program.
//!
//! A hypervisor that runs other machines, too, stops the processors of this one, and its kernel does
//! not always learn of it: stops of some milliseconds were seen while `steal` of proc_stat(5) stood
//! still. A device loses frames then that it forwards otherwise. So one thread per processor wakes
//! regularly, with a priority above all programs and above the kernel's threads of a device. The
//! kernel also keeps real-time threads from a processor of which they used too much (sched(7)).
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use hakaru_runtime::clock;
use hakaru_runtime::process::{allowed_processors, request_real_time, run_on};
use hakaru_units::Time;

/// Time between two wake-ups.
const EVERY: Duration = Duration::from_millis(1);
/// Lateness of a wake-up from which on the processor was stopped. The handling of an interrupt takes
/// less.
const LATE: Duration = Duration::from_micros(500);
/// Stops per second of one processor above which they are its work: its software interrupts, which
/// the kernel handles before any thread, for some milliseconds at a time.
const STOPS_PER_S_MAX: f64 = 50.0;
/// Above the kernel's threads of a device, which have 1.
const PRIORITY: u8 = 2;

/// One thread per processor that this process may use.
pub(super) struct StopWatch {
    threads: Vec<Watcher>,
    is_over: Arc<AtomicBool>,
}

struct Watcher {
    /// `None` ends the thread.
    begin: Option<Sender<()>>,
    stops: Receiver<Vec<Range<Time>>>,
    thread: Option<JoinHandle<()>>,
}

impl StopWatch {
    /// Starts the threads. `None` without permission for real-time threads: others wake late on
    /// every busy processor.
    pub(super) fn new() -> Option<StopWatch> {
        let is_over = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for processor in allowed_processors().ok()? {
            threads.push(Watcher::spawn(processor, &is_over)?);
        }
        Some(StopWatch { threads, is_over })
    }

    /// Begins to watch.
    pub(super) fn begin(&self) {
        self.is_over.store(false, Ordering::Relaxed);
        for begin in self.threads.iter().filter_map(|t| t.begin.as_ref()) {
            // A thread that has ended reports nothing.
            let _ = begin.send(());
        }
    }

    /// Returns the stops of all processors since `begin`. Waits for the next wake-up of each.
    pub(super) fn finish(&self) -> Vec<Range<Time>> {
        self.is_over.store(true, Ordering::Relaxed);
        let found = self.threads.iter().filter_map(|t| t.stops.recv().ok());
        found.flatten().collect()
    }
}

impl Drop for StopWatch {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for watcher in &mut self.threads {
            drop(watcher.begin.take());
            if let Some(thread) = watcher.thread.take() {
                let _ = thread.join();
            }
        }
    }
}

impl Watcher {
    /// Returns `None` if the thread cannot be started, moved to the processor or given priority.
    fn spawn(processor: u32, is_over: &Arc<AtomicBool>) -> Option<Watcher> {
        let (begin, begins) = mpsc::channel();
        let (report, stops) = mpsc::channel();
        let (tell, told) = mpsc::channel();
        let is_over = Arc::clone(is_over);
        let thread = std::thread::Builder::new().name("stops".to_owned());
        let thread = thread.spawn(move || {
            let is_ready = run_on(processor).is_ok() && request_real_time(PRIORITY);
            let _ = tell.send(is_ready);
            if !is_ready {
                return;
            }
            for () in begins {
                if report.send(watch(&is_over)).is_err() {
                    return;
                }
            }
        });
        let thread = thread.ok()?;
        if !told.recv().unwrap_or(false) {
            let _ = thread.join();
            return None;
        }
        Some(Watcher {
            begin: Some(begin),
            stops,
            thread: Some(thread),
        })
    }
}

/// Wakes until `is_over`, and returns the stops: from the wake-up before each to the late one.
fn watch(is_over: &AtomicBool) -> Vec<Range<Time>> {
    let begun = clock::now();
    let mut before = begun;
    let mut stops = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        std::thread::sleep(EVERY);
        let now = clock::now();
        if is_stop(now - before) {
            stops.push(before..now);
        }
        before = now;
    }
    if is_work(stops.len(), before - begun) {
        stops.clear();
    }
    stops
}

/// Returns whether the time between two wake-ups shows a stop.
fn is_stop(between: Duration) -> bool {
    between > EVERY + LATE
}

/// Returns whether so many stops in this time are the processor's own work.
fn is_work(stops: usize, watched: Duration) -> bool {
    stops as f64 > (STOPS_PER_S_MAX * watched.as_secs_f64()).max(5.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_wake_ups_are_stops_unless_they_are_many() {
        let late = [1_000, 1_500, 1_501].map(|us| is_stop(Duration::from_micros(us)));
        assert_eq!(late, [false, false, true]);
        let many = [(50, 1_000), (51, 1_000), (5, 10), (6, 10)];
        let many = many.map(|(stops, ms)| is_work(stops, Duration::from_millis(ms)));
        assert_eq!(many, [false, true, false, true]);
    }

    #[test]
    fn a_watch_ends_when_it_is_over_and_when_it_is_dropped() {
        let Some(watch) = StopWatch::new() else {
            let is_permitted = std::thread::spawn(|| request_real_time(PRIORITY)).join();
            assert_eq!(is_permitted.ok(), Some(false));
            return;
        };
        for _ in 0..2 {
            let begun = clock::now();
            watch.begin();
            let stops = watch.finish();
            assert!(
                stops
                    .iter()
                    .all(|stop| begun <= stop.start && stop.start < stop.end)
            );
        }
        watch.begin();
        drop(watch);
    }
}
