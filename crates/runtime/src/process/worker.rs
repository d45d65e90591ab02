//! A thread that does blocking work in order beside a reactor, such as the commits of a database.
use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;

use crate::wait::Token;
use crate::wait::{Reactor, Waker};

/// A job: a function of the thread's state.
type Work<S, R> = Box<dyn FnOnce(&mut S) -> R + Send>;

/// A thread that owns a state of type `S` and runs jobs on it in sequence. Each job returns an `R`.
pub struct Worker<S, R> {
    work: Option<Sender<Work<S, R>>>,
    done: Receiver<R>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl<S: Send + 'static, R: Send + 'static> Worker<S, R> {
    /// Starts the thread under the given name. The reactor reports `token` when a job is done.
    ///
    /// # Errors
    /// No descriptors or threads are left.
    pub fn new(
        reactor: &Reactor,
        token: Token,
        name: &str,
        mut state: S,
    ) -> io::Result<Worker<S, R>> {
        let waker = Waker::new(reactor, token)?;
        let (work, orders) = mpsc::channel::<Work<S, R>>();
        let (results, done) = mpsc::channel();
        let thread_waker = waker.clone();
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                for work in orders {
                    let result = work(&mut state);
                    if results.send(result).is_err() {
                        return;
                    }
                    thread_waker.wake();
                }
            })?;
        Ok(Worker {
            work: Some(work),
            done,
            waker,
            thread: Some(thread),
        })
    }

    /// Submits a job to be run after all earlier ones.
    ///
    /// # Panics
    /// If the thread has panicked. Its state and all further results are then lost.
    pub fn submit(&mut self, work: impl FnOnce(&mut S) -> R + Send + 'static) {
        let sent = self.work.as_ref().map(|to| to.send(Box::new(work)));
        assert!(
            matches!(sent, Some(Ok(()))),
            "the worker thread has panicked"
        );
    }

    /// Handles the reactor's event for the worker's token. Call it before [`Worker::poll_done`].
    pub fn handle_event(&mut self) {
        self.waker.acknowledge();
    }

    /// Returns the result of the oldest job that is done and has not been returned.
    pub fn poll_done(&mut self) -> Option<R> {
        self.done.try_recv().ok()
    }
}

impl<S, R> Drop for Worker<S, R> {
    /// Blocks until all jobs are done and the state is dropped.
    fn drop(&mut self) {
        drop(self.work.take());
        if let Some(thread) = self.thread.take() {
            // The thread has reported its own panic.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::Events;

    #[test]
    fn jobs_run_in_order_on_one_state_and_dropping_waits_for_them() {
        let reactor = Reactor::new().unwrap();
        let mut worker = Worker::new(&reactor, Token(9), "worker", Vec::new()).unwrap();
        for n in 0..100 {
            worker.submit(move |state: &mut Vec<u32>| {
                state.push(n);
                state.len()
            });
        }
        let mut events = Events::with_capacity(1);
        let mut done = Vec::new();
        while done.len() < 100 {
            reactor.wait(&mut events, None).unwrap();
            worker.handle_event();
            done.extend(std::iter::from_fn(|| worker.poll_done()));
        }
        assert_eq!(done, (1..=100).collect::<Vec<usize>>());
        let (report, reported) = mpsc::channel();
        worker.submit(move |state| {
            report.send(state.len()).unwrap();
            0
        });
        drop(worker);
        assert_eq!(reported.try_recv(), Ok(100));
    }
}
