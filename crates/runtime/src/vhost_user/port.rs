//! A port at which one guest at a time connects: its socket, the thread that answers requests, and
//! the calls of a shell that moves frames.
use std::io;
use std::net::Shutdown;
use std::os::fd::AsFd as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use vhost::vhost_user::{BackendReqHandler, Error, VhostUserBackendReqHandlerMut as _};

use self::early::EnableRing;
use super::device::{Accepts, Device, PortCounters};
use crate::packet::{Inbox, LossCause, Outgoing, Received};
use crate::wait::{Reactor, Token};

/// Pause after an error of `accept`.
const RETRY: Duration = Duration::from_millis(10);

/// A port in the memory of a guest.
pub struct VhostUserPort {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// The socket's file, removed at the end. `None` for an abstract socket.
    file: Option<PathBuf>,
}

/// State of the port that both threads use.
struct Shared {
    device: Arc<Mutex<Device>>,
    listener: UnixListener,
    /// The connection, so that the other thread can end it.
    connection: Mutex<Option<UnixStream>>,
    is_closing: AtomicBool,
}

impl VhostUserPort {
    /// Listens on a Unix socket. `socket`: a path of at most 107 bytes, or `@` and a name in the
    /// network namespace of this thread (an abstract socket, which leaves no file behind). A
    /// socket's file on which nothing listens is replaced. Frames of the guest are reported under
    /// `token`.
    ///
    /// # Errors
    /// The socket cannot be created, or no thread can be started.
    pub fn listen(socket: &str, reactor: &Reactor, token: Token) -> io::Result<VhostUserPort> {
        let (listener, file) = match socket.strip_prefix('@') {
            Some(name) => {
                let address = SocketAddr::from_abstract_name(name)?;
                (UnixListener::bind_addr(&address)?, None)
            }
            None => (bind_file(socket)?, Some(PathBuf::from(socket))),
        };
        let shared = Arc::new(Shared {
            device: Arc::new(Mutex::new(Device::new(reactor.registrar(), token))),
            listener,
            connection: Mutex::new(None),
            is_closing: AtomicBool::new(false),
        });
        let mut port = VhostUserPort {
            shared: Arc::clone(&shared),
            thread: None,
            file,
        };
        let thread = std::thread::Builder::new().name("vhost-user".to_owned());
        port.thread = Some(thread.spawn(move || serve(&shared))?);
        Ok(port)
    }

    fn device(&self) -> MutexGuard<'_, Device> {
        lock(&self.shared.device)
    }

    /// Returns the next frame from the guest, if there is one, or the reason why it was lost.
    /// Without a frame, an event reports the next one.
    pub fn receive(&self, inbox: &mut Inbox) -> Option<Result<Received, LossCause>> {
        self.device().receive(inbox)
    }

    /// Writes frames into the guest's memory, in order. Frames for which there is no room are
    /// dropped and counted. They must not need more work than [`VhostUserPort::accepts`] says.
    pub fn send(&self, packets: &[Outgoing<'_>]) {
        let mut device = self.device();
        device.send(packets);
        device.notify();
    }

    /// Notifies the guest of the frames that were received. To be called after a batch.
    pub fn finish_receiving(&self) {
        self.device().notify();
    }

    /// Returns the work that may be left to the guest.
    #[must_use]
    pub fn accepts(&self) -> Accepts {
        self.device().accepts()
    }

    /// Returns the counters of the port.
    #[must_use]
    pub fn counters(&self) -> PortCounters {
        let device = self.device();
        PortCounters {
            is_up: device.is_up(),
            ..device.counters
        }
    }
}

impl Drop for VhostUserPort {
    /// Ends the connection and the thread, and removes the socket's file.
    fn drop(&mut self) {
        self.shared.is_closing.store(true, Ordering::SeqCst);
        // Ends `accept`, and the wait for a request. An error means that it has ended already.
        let _ = rustix::net::shutdown(self.shared.listener.as_fd(), rustix::net::Shutdown::Both);
        if let Some(connection) = lock(&self.shared.connection).take() {
            let _ = connection.shutdown(Shutdown::Both);
        }
        if let Some(thread) = self.thread.take() {
            // The thread has reported its own panic.
            let _ = thread.join();
        }
        if let Some(file) = &self.file {
            let _ = std::fs::remove_file(file);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Binds a socket's file. Replaces one on which nothing listens, which a killed engine leaves.
fn bind_file(path: &str) -> io::Result<UnixListener> {
    match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let is_dead = UnixStream::connect(path)
                .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
            if !is_dead {
                return Err(error);
            }
            std::fs::remove_file(path)?;
            UnixListener::bind(path)
        }
        bound => bound,
    }
}

/// Answers the requests of one guest after the other, until the port closes.
fn serve(shared: &Shared) {
    loop {
        let accepted = shared.listener.accept();
        if shared.is_closing.load(Ordering::SeqCst) {
            return;
        }
        let Ok((connection, _)) = accepted else {
            // A connection was reset, or no descriptors are left, whose return nothing reports.
            std::thread::sleep(RETRY);
            continue;
        };
        let (Ok(kept), Ok(peeked)) = (connection.try_clone(), connection.try_clone()) else {
            continue;
        };
        *lock(&shared.connection) = Some(kept);
        // `drop` may have looked for a connection before this one was stored.
        if shared.is_closing.load(Ordering::SeqCst) {
            continue;
        }
        lock(&shared.device).counters.connections += 1;
        let mut requests = BackendReqHandler::from_stream(connection, Arc::clone(&shared.device));
        let error = loop {
            let early = EnableRing::peek(&peeked);
            let handled = match (requests.handle_request(), early) {
                (Err(Error::InactiveFeature(_)), Some(early)) => enable(shared, early, &peeked),
                // It arrived in parts. The ring stays as it is.
                (Err(Error::InactiveFeature(_)), None) => Ok(()),
                (handled, _) => handled,
            };
            if let Err(error) = handled {
                break error;
            }
        };
        *lock(&shared.connection) = None;
        let mut device = lock(&shared.device);
        let is_end = matches!(
            error,
            Error::Disconnected | Error::SocketBroken(_) | Error::PartialMessage
        );
        device.counters.refused_requests += u64::from(!is_end);
        device.disconnect();
    }
}

/// Carries out a request that the library refused because the features are not acknowledged yet.
fn enable(shared: &Shared, early: EnableRing, connection: &UnixStream) -> Result<(), Error> {
    let enable = early.enable.ok_or(Error::InvalidParam)?;
    lock(&shared.device).set_vring_enable(early.index, enable)?;
    early.answer(connection).map_err(Error::SocketBroken)
}

mod early;
#[cfg(test)]
mod tests;
