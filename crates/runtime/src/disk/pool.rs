//! Transfers through threads that block: one for each transfer in flight, up to a limit, which is what makes the depth real.
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use super::{Direction, Finished, Transfer};
use crate::reactor::{Reactor, Token, Waker};

/// Threads at most. Deeper queues wait in the pool.
const THREADS_MAX: usize = 64;

pub(super) struct Pool {
    /// Dropping it ends the threads, each after the transfer it is at.
    orders: Option<Sender<Transfer>>,
    results: Receiver<Finished>,
    waker: Waker,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Pool {
    pub(super) fn new(reactor: &Reactor, token: Token, depth: usize) -> io::Result<Pool> {
        let waker = Waker::new(reactor, token)?;
        let (orders, waiting) = channel::<Transfer>();
        let (finished, results) = channel();
        let waiting = Arc::new(Mutex::new(waiting));
        let work = || {
            let (waiting, finished, waker) = (Arc::clone(&waiting), finished.clone(), waker.clone());
            thread::Builder::new().name("disk".into()).spawn(move || serve(&waiting, &finished, &waker))
        };
        let threads = (0..depth.clamp(1, THREADS_MAX)).map(|_| work()).collect::<io::Result<_>>()?;
        Ok(Pool { orders: Some(orders), results, waker, threads })
    }

    pub(super) fn start(&mut self, transfer: Transfer) {
        let orders = self.orders.as_ref().expect("open until dropped");
        orders.send(transfer).expect("threads live as long as the pool");
    }

    pub(super) fn poll_finished(&mut self) -> Option<Finished> {
        self.results.try_recv().ok().or_else(|| {
            // First take the wakes back, then look again: a result between the two would go unheard otherwise.
            self.waker.acknowledge();
            self.results.try_recv().ok()
        })
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.orders = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn serve(waiting: &Mutex<Receiver<Transfer>>, finished: &Sender<Finished>, waker: &Waker) {
    loop {
        // Poisoned only if another of these threads panicked while it waited, which it has no reason to.
        let Ok(Ok(mut transfer)) = waiting.lock().map(|waiting| waiting.recv()) else { return };
        let result = carry_out(&mut transfer);
        if finished.send(Finished { id: transfer.id, result, buffer: transfer.buffer }).is_err() {
            return;
        }
        waker.wake();
    }
}

fn carry_out(transfer: &mut Transfer) -> io::Result<usize> {
    let file = File::from(transfer.volume.fd.try_clone()?);
    let bytes = &mut transfer.buffer.bytes_mut()[..transfer.length];
    let mut moved = 0;
    while moved < bytes.len() {
        let (rest, offset) = (&mut bytes[moved..], transfer.offset_bytes + moved as u64);
        let done = match transfer.direction {
            Direction::Read => file.read_at(rest, offset),
            Direction::Write => file.write_at(rest, offset),
        };
        match done {
            Ok(0) => break,
            Ok(n) => moved += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(moved)
}
