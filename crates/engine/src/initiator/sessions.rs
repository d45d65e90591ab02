//! VMs on iSCSI, over the engine's sockets. Session `leg` of VM `vm` has socket
//! `vm * sessions + leg`, where `sessions` is the number of sessions per VM.
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

/// Maximum number of sessions that log in at the same time: enough to hide the round trips, few
/// enough for the backlog of any target.
const LOGINS_MAX: usize = 64;
/// Maximum number of VMs for which TCP counters are reported per VM.
const TCP_VMS_MAX: usize = 16;
/// Maximum number of sessions for which TCP counters are reported.
const TCP_SESSIONS_MAX: usize = 1024;

/// All iSCSI VMs of the engine.
pub struct Sessions<'r> {
    sockets: Sockets<'r>,
    settings: Arc<Settings>,
    vm_set: VmSet,
    /// Number of VMs that have begun to log in.
    opened: usize,
    /// Last TCP counters of each socket.
    tcp: TcpLog,
}

/// The VMs and their state.
#[derive(Default)]
struct VmSet {
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
struct VmMachines<'a> {
    vm_set: &'a mut VmSet,
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
            vm_set: VmSet {
                legs: settings.commands.sessions as usize,
                ..VmSet::default()
            },
            settings,
            opened: 0,
            tcp: TcpLog::default(),
        }
    }

    /// Adds a VM, which is the `index`th of the configuration.
    pub fn add(&mut self, vm: Arc<Vm>, index: usize) -> Result<(), Failure> {
        let Destination::Iscsi { portal, .. } = &vm.destination else {
            unreachable!("the caller checked the destination")
        };
        let address = portal.parse().map_err(|_| {
            Failure::usage(
                format_args!("vms[{index}].destination.portal: {portal:?} is not `address:port`"),
                "use a numeric address and port, such as 10.0.0.1:3260 or [fd00::1]:3260",
            )
        })?;
        for leg in 0..self.vm_set.legs {
            self.sockets.add(address);
            self.vm_set.places.push((self.count(), leg));
        }
        let vm = IscsiVm::new(vm, Arc::clone(&self.settings), index);
        self.vm_set.vms.push(vm);
        Ok(())
    }

    /// Returns the number of VMs.
    pub fn count(&self) -> usize {
        self.vm_set.vms.len()
    }

    /// Returns the number of sessions of all VMs.
    pub fn sessions(&self) -> usize {
        self.sockets.count()
    }

    pub fn all_ready(&self) -> bool {
        self.vm_set.ready == self.count()
    }

    pub fn all_ended(&self) -> bool {
        self.vm_set.ended == self.count()
    }

    /// Starts the login of more VMs, up to the limit of concurrent logins.
    pub fn open_more(&mut self, ledger: &mut Ledger) {
        let legs = self.vm_set.legs;
        while self.opened < self.count()
            && (self.opened - self.vm_set.ready) * legs < LOGINS_MAX.max(legs)
        {
            let first = self.opened * legs;
            self.opened += 1;
            for index in first..first + legs {
                let vm_set = &mut self.vm_set;
                self.sockets
                    .connect(index, &mut VmMachines { vm_set, ledger });
            }
        }
    }

    /// Begins the load of every VM.
    pub fn begin(&mut self, ledger: &mut Ledger) {
        for vm in 0..self.count() {
            self.vm_set.vms[vm].begin(clock::now());
            self.flush(vm, ledger);
        }
    }

    /// Stops issuing requests.
    pub fn end(&mut self) {
        self.vm_set.vms.iter_mut().for_each(IscsiVm::end);
    }

    /// Returns the number of requests in flight of all VMs.
    pub fn in_flight(&self) -> usize {
        self.vm_set.vms.iter().map(IscsiVm::in_flight).sum()
    }

    /// Logs out every session.
    pub fn log_out(&mut self, ledger: &mut Ledger) {
        for vm in 0..self.count() {
            self.vm_set.vms[vm].log_out(clock::now(), &mut ledger.latencies);
            self.flush(vm, ledger);
        }
    }

    pub fn visit_counters(&mut self, now: Time, visit: &mut dyn FnMut(&str, Counters)) {
        for vm in &mut self.vm_set.vms {
            let counters = vm.counters(now);
            visit(&vm.config().name, counters);
        }
    }

    /// Visits the TCP counters of the VMs' connections, as entity and counters. Up to
    /// [`TCP_VMS_MAX`] VMs they are per VM, otherwise summed over all VMs. Above
    /// [`TCP_SESSIONS_MAX`] sessions none are visited, because reading takes a microsecond per
    /// session, during which no session is served.
    pub fn visit_tcp(&mut self, visit: &mut dyn FnMut(String, BTreeMap<String, f64>)) {
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
            return visit("tcp/vms".to_owned(), all);
        }
        let legs = self.vm_set.legs;
        for (index, vm) in self.vm_set.vms.iter().enumerate() {
            let first = index * legs;
            let counters = tcp::counters(self.tcp.of(first..first + legs));
            visit(format!("tcp/{}", vm.config().name), counters);
        }
    }

    /// Returns the facts for `ready`: the number of sessions, and LU, keys and socket of the first
    /// session.
    pub fn facts(&self) -> BTreeMap<String, Value> {
        let mut facts = self.vm_set.facts.clone();
        facts.insert("sessions".to_owned(), json!(self.sessions()));
        let socket = (self.sessions() > 0)
            .then(|| self.sockets.socket(0))
            .flatten();
        if let Some(Ok(socket)) = socket.map(SocketFacts::of) {
            facts.insert("socket".to_owned(), describe_socket(&socket));
        }
        facts
    }

    /// Returns the instant at which [`Sessions::handle_timeouts`] is due.
    pub fn poll_timeout(&self) -> Time {
        self.sockets.poll_timeout()
    }

    /// Handles the timers that expired by `now`.
    pub fn handle_timeouts(&mut self, now: Time, ledger: &mut Ledger) {
        let vm_set = &mut self.vm_set;
        self.sockets
            .handle_timeouts(now, &mut VmMachines { vm_set, ledger });
    }

    /// Serves the socket of the event. Returns whether any data was received.
    pub fn handle_event(&mut self, event: Event, ledger: &mut Ledger) -> bool {
        let vm_set = &mut self.vm_set;
        self.sockets
            .handle_event(event, &mut VmMachines { vm_set, ledger })
    }

    /// Sends a VM's queued bytes over all of its sessions.
    fn flush(&mut self, vm: usize, ledger: &mut Ledger) {
        let vm_set = &mut self.vm_set;
        let first = vm * vm_set.legs;
        self.sockets
            .flush(first, &mut VmMachines { vm_set, ledger });
    }
}

impl VmSet {
    /// Returns VM and leg of a socket.
    fn place(&self, index: usize) -> (usize, usize) {
        self.places[index]
    }
}

impl Machines for VmMachines<'_> {
    fn handle_connected(&mut self, now: Time, index: usize) {
        let (vm, leg) = self.vm_set.place(index);
        self.vm_set.vms[vm].handle_connected(now, leg);
    }

    fn handle_unreachable(&mut self, index: usize, error: &io::Error) {
        let (vm, _) = self.vm_set.place(index);
        self.ledger
            .fail(of_connect(self.vm_set.vms[vm].config(), error));
    }

    fn handle_received(&mut self, now: Time, index: usize, bytes: &[u8]) {
        let (vm, leg) = self.vm_set.place(index);
        let latencies = &mut self.ledger.latencies;
        self.vm_set.vms[vm].handle_received(now, leg, bytes, latencies);
    }

    fn handle_closed(&mut self, now: Time, index: usize, why: &'static str) {
        let (vm, leg) = self.vm_set.place(index);
        let latencies = &mut self.ledger.latencies;
        self.vm_set.vms[vm].handle_closed(now, leg, why, latencies);
    }

    fn handle_timeout(&mut self, now: Time, index: usize) {
        let (vm, leg) = self.vm_set.place(index);
        let latencies = &mut self.ledger.latencies;
        self.vm_set.vms[vm].handle_timeout(now, leg, latencies);
    }

    fn poll_timeout(&self, index: usize) -> Option<Time> {
        let (vm, leg) = self.vm_set.place(index);
        self.vm_set.vms[vm].poll_timeout(leg)
    }

    fn transmit(&mut self, index: usize) -> &mut Transmit {
        let (vm, leg) = self.vm_set.place(index);
        self.vm_set.vms[vm].transmit(leg)
    }

    fn session(&self, index: usize) -> &Session {
        let (vm, leg) = self.vm_set.place(index);
        self.vm_set.vms[vm].session(leg)
    }

    fn poll_transmit(&mut self, index: usize) -> Option<usize> {
        let (vm, leg) = self.vm_set.place(index);
        let other = self.vm_set.vms[vm].poll_transmit(leg)?;
        Some(vm * self.vm_set.legs + other)
    }

    fn settle(&mut self, index: usize) -> Option<SocketAddr> {
        let (vm, leg) = self.vm_set.place(index);
        let VmMachines { vm_set, ledger } = self;
        let vm = &mut vm_set.vms[vm];
        while let Some(event) = vm.poll_event() {
            match event {
                VmEvent::Ready(facts) => {
                    vm_set.ready += 1;
                    if vm_set.facts.is_empty() {
                        let keys = describe_keys(vm.session(0).agreed());
                        vm_set.facts.insert("lu".into(), describe_lu(&facts));
                        vm_set.facts.insert("negotiated".into(), keys);
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
                    ledger.add_failed_request(of_request(vm.config(), op, &error));
                }
                VmEvent::Corrupt(corruption) => {
                    ledger.fail(of_corruption(vm.config(), &corruption));
                }
                VmEvent::Failed(error) => {
                    vm_set.ended += 1;
                    ledger.fail(of_vm(vm.config(), &error));
                }
                VmEvent::LoggedOut => vm_set.ended += 1,
            }
        }
        None
    }
}
