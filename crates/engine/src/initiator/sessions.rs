//! VMs on iSCSI, over the engine's sockets: session `leg` of VM `vm` has socket
//! `vm * sessions + leg`.
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use hakaru_contract::SocketOptions;
use hakaru_contract::initiator::{Destination, Vm};
use hakaru_iscsi_session::{Session, SessionError, Transmit};
use hakaru_load::{Counters, IscsiVm, Settings, VmError, VmEvent};
use hakaru_runtime::net::socket_options::SocketFacts;
use hakaru_runtime::{Event, Reactor, clock};
use hakaru_units::Time;
use serde_json::{Value, json};

use super::failures::{of_connect, of_corruption, of_request, of_vm};
use super::ledger::Ledger;
use crate::description::{describe_keys, describe_lu, describe_socket};
use crate::failure::Failure;
use crate::sockets::{Machines, Sockets};
use crate::tcp::{self, TcpLog};

/// Sessions that log in at the same time: enough to hide the round trips, few enough for any
/// target's backlog.
const LOGINS_MAX: usize = 64;
/// Up to this number of VMs, TCP counters are reported per VM.
const TCP_VMS_MAX: usize = 16;
/// Up to this number of sessions, TCP counters are reported.
const TCP_SESSIONS_MAX: usize = 1024;

/// All iSCSI VMs of the engine.
pub struct Sessions<'r> {
    sockets: Sockets<'r>,
    settings: Arc<Settings>,
    crowd: Crowd,
    /// Number of VMs that have begun to log in.
    opened: usize,
    /// Last TCP counters of each socket.
    tcp: TcpLog,
}

/// The VMs.
#[derive(Default)]
struct Crowd {
    vms: Vec<IscsiVm>,
    /// Sessions per VM.
    legs: usize,
    /// VM and leg of each socket.
    places: Vec<(usize, usize)>,
    ready: usize,
    ended: usize,
    /// Facts of the first session, for `ready`.
    facts: BTreeMap<String, Value>,
}

/// The VMs and the ledger of their requests.
struct Served<'a> {
    crowd: &'a mut Crowd,
    ledger: &'a mut Ledger,
}

impl<'r> Sessions<'r> {
    pub fn new(
        reactor: &'r Reactor,
        settings: Arc<Settings>,
        options: SocketOptions,
    ) -> Sessions<'r> {
        Sessions {
            sockets: Sockets::new(reactor, settings.timeout, options),
            crowd: Crowd {
                legs: settings.commands.sessions as usize,
                ..Crowd::default()
            },
            settings,
            opened: 0,
            tcp: TcpLog::default(),
        }
    }

    /// Adds a VM, the `index`th of the configuration.
    pub fn add(&mut self, vm: Arc<Vm>, index: usize) -> Result<(), Failure> {
        let Destination::Iscsi { portal, .. } = &vm.destination else {
            unreachable!("the caller checked the destination")
        };
        let address = portal.parse().map_err(|_| {
            Failure::usage(
                format_args!("vms[{index}].destination.portal: `{portal}`"),
                "address:port",
            )
        })?;
        for leg in 0..self.crowd.legs {
            self.sockets.add(address);
            self.crowd.places.push((self.count(), leg));
        }
        let vm = IscsiVm::new(vm, Arc::clone(&self.settings), index);
        self.crowd.vms.push(vm);
        Ok(())
    }

    /// Returns the number of VMs.
    pub fn count(&self) -> usize {
        self.crowd.vms.len()
    }

    /// Returns the number of sessions of all VMs.
    pub fn sessions(&self) -> usize {
        self.sockets.count()
    }

    pub fn all_ready(&self) -> bool {
        self.crowd.ready == self.count()
    }

    pub fn all_ended(&self) -> bool {
        self.crowd.ended == self.count()
    }

    /// Starts the login of more VMs, up to the limit of concurrent logins.
    pub fn open_more(&mut self, ledger: &mut Ledger) {
        let legs = self.crowd.legs;
        while self.opened < self.count()
            && (self.opened - self.crowd.ready) * legs < LOGINS_MAX.max(legs)
        {
            let first = self.opened * legs;
            self.opened += 1;
            for index in first..first + legs {
                let crowd = &mut self.crowd;
                self.sockets.connect(index, &mut Served { crowd, ledger });
            }
        }
    }

    /// Begins every VM's load.
    pub fn begin(&mut self, ledger: &mut Ledger) {
        for vm in 0..self.count() {
            self.crowd.vms[vm].begin(clock::now());
            self.flush(vm, ledger);
        }
    }

    /// Stops issuing requests.
    pub fn end(&mut self) {
        self.crowd.vms.iter_mut().for_each(IscsiVm::end);
    }

    /// Returns the number of requests in flight of all VMs.
    pub fn in_flight(&self) -> usize {
        self.crowd.vms.iter().map(IscsiVm::in_flight).sum()
    }

    /// Logs out every session.
    pub fn log_out(&mut self, ledger: &mut Ledger) {
        for vm in 0..self.count() {
            self.crowd.vms[vm].log_out(clock::now(), &mut ledger.latencies);
            self.flush(vm, ledger);
        }
    }

    pub fn visit_counters(&mut self, now: Time, see: &mut dyn FnMut(&str, Counters)) {
        for vm in &mut self.crowd.vms {
            let counters = vm.counters(now);
            see(&vm.config().name, counters);
        }
    }

    /// Visits the TCP counters of the VMs' connections, as entity and counters: per VM up to
    /// [`TCP_VMS_MAX`] VMs, otherwise summed over all. Above [`TCP_SESSIONS_MAX`] sessions there
    /// are none: reading takes a microsecond per session, during which no session is served.
    pub fn visit_tcp(&mut self, see: &mut dyn FnMut(String, BTreeMap<String, f64>)) {
        if !(1..=TCP_SESSIONS_MAX).contains(&self.sessions()) {
            return;
        }
        for index in 0..self.sessions() {
            if let Some(socket) = self.sockets.socket(index) {
                self.tcp.read(index, socket);
            }
        }
        if self.count() > TCP_VMS_MAX {
            let all = tcp::counters(self.tcp.of(0..self.sessions()));
            return see("tcp/vms".to_owned(), all);
        }
        let legs = self.crowd.legs;
        for (index, vm) in self.crowd.vms.iter().enumerate() {
            let first = index * legs;
            let counters = tcp::counters(self.tcp.of(first..first + legs));
            see(format!("tcp/{}", vm.config().name), counters);
        }
    }

    /// Facts for `ready`: the number of sessions, and LU, keys and socket of the first session.
    pub fn facts(&self) -> BTreeMap<String, Value> {
        let mut facts = self.crowd.facts.clone();
        facts.insert("sessions".to_owned(), json!(self.sessions()));
        let socket = (self.sessions() > 0)
            .then(|| self.sockets.socket(0))
            .flatten();
        if let Some(Ok(socket)) = socket.map(SocketFacts::of) {
            facts.insert("socket".to_owned(), describe_socket(&socket));
        }
        facts
    }

    /// Instant at which [`Sessions::handle_timeouts`] is due.
    pub fn poll_timeout(&self) -> Time {
        self.sockets.poll_timeout()
    }

    /// Handles the timers that expired by `now`.
    pub fn handle_timeouts(&mut self, now: Time, ledger: &mut Ledger) {
        let crowd = &mut self.crowd;
        self.sockets
            .handle_timeouts(now, &mut Served { crowd, ledger });
    }

    /// Serves the socket of the event. Returns whether any data were received.
    pub fn handle_event(&mut self, event: Event, ledger: &mut Ledger) -> bool {
        let crowd = &mut self.crowd;
        self.sockets
            .handle_event(event, &mut Served { crowd, ledger })
    }

    /// Sends a VM's queued bytes over all of its sessions.
    fn flush(&mut self, vm: usize, ledger: &mut Ledger) {
        let crowd = &mut self.crowd;
        let first = vm * crowd.legs;
        self.sockets.flush(first, &mut Served { crowd, ledger });
    }
}

impl Crowd {
    /// Returns VM and leg of a socket.
    fn place(&self, index: usize) -> (usize, usize) {
        self.places[index]
    }
}

impl Machines for Served<'_> {
    fn handle_connected(&mut self, now: Time, index: usize) {
        let (vm, leg) = self.crowd.place(index);
        self.crowd.vms[vm].handle_connected(now, leg);
    }

    fn handle_unreachable(&mut self, index: usize, error: &io::Error) {
        let (vm, _) = self.crowd.place(index);
        self.ledger
            .fail(of_connect(self.crowd.vms[vm].config(), error));
    }

    fn handle_received(&mut self, now: Time, index: usize, bytes: &[u8]) {
        let (vm, leg) = self.crowd.place(index);
        let latencies = &mut self.ledger.latencies;
        self.crowd.vms[vm].handle_received(now, leg, bytes, latencies);
    }

    fn handle_closed(&mut self, now: Time, index: usize, why: &'static str) {
        let (vm, leg) = self.crowd.place(index);
        let latencies = &mut self.ledger.latencies;
        self.crowd.vms[vm].handle_closed(now, leg, why, latencies);
    }

    fn handle_timeout(&mut self, now: Time, index: usize) {
        let (vm, leg) = self.crowd.place(index);
        let latencies = &mut self.ledger.latencies;
        self.crowd.vms[vm].handle_timeout(now, leg, latencies);
    }

    fn poll_timeout(&self, index: usize) -> Option<Time> {
        let (vm, leg) = self.crowd.place(index);
        self.crowd.vms[vm].poll_timeout(leg)
    }

    fn transmit(&mut self, index: usize) -> &mut Transmit {
        let (vm, leg) = self.crowd.place(index);
        self.crowd.vms[vm].transmit(leg)
    }

    fn session(&self, index: usize) -> &Session {
        let (vm, leg) = self.crowd.place(index);
        self.crowd.vms[vm].session(leg)
    }

    fn poll_transmit(&mut self, index: usize) -> Option<usize> {
        let (vm, leg) = self.crowd.place(index);
        let other = self.crowd.vms[vm].poll_transmit(leg)?;
        Some(vm * self.crowd.legs + other)
    }

    fn settle(&mut self, index: usize) -> Option<SocketAddr> {
        let (vm, leg) = self.crowd.place(index);
        let Served { crowd, ledger } = self;
        let vm = &mut crowd.vms[vm];
        while let Some(event) = vm.poll_event() {
            match event {
                VmEvent::Ready(facts) => {
                    crowd.ready += 1;
                    if crowd.facts.is_empty() {
                        let keys = describe_keys(vm.session(0).agreed());
                        crowd.facts.insert("lu".into(), describe_lu(&facts));
                        crowd.facts.insert("negotiated".into(), keys);
                    }
                }
                // The event comes from the leg that is being served, because only that leg received
                // data.
                VmEvent::Redirected {
                    leg: redirected,
                    address,
                } => match address.parse() {
                    Ok(portal) => {
                        debug_assert_eq!(redirected, leg);
                        return Some(portal);
                    }
                    Err(_) => {
                        let error = VmError::Session(SessionError::RedirectAddress(address));
                        ledger.fail(of_vm(vm.config(), &error));
                    }
                },
                VmEvent::RequestFailed { op, error } => {
                    ledger.complain(of_request(vm.config(), op, &error));
                }
                VmEvent::Corrupt(corruption) => {
                    ledger.fail(of_corruption(vm.config(), &corruption));
                }
                VmEvent::Failed(error) => {
                    crowd.ended += 1;
                    ledger.fail(of_vm(vm.config(), &error));
                }
                VmEvent::LoggedOut => crowd.ended += 1,
            }
        }
        None
    }
}
