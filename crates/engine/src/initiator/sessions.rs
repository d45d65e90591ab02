//! Hosts and their VMs on iSCSI, over the engine's sockets. Session `leg` of host `host` has socket
//! `host * sessions + leg`, where `sessions` is the number of sessions per host. A VM with its own
//! sessions is the only VM of its host.
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hakaru_contract::SocketOptions;
use hakaru_contract::initiator::{Multipath, Vm};
use hakaru_iscsi_session::{Arrival, Session, SessionError, Transmit};
use hakaru_load::{Counters, HostEvent, IscsiHost, MultipathHost, Settings, VmError, hosts_of};
use hakaru_runtime::net::socket_options::SocketFacts;
use hakaru_runtime::{Event, Reactor, clock};
use hakaru_units::Time;
use serde_json::{Value, json};

use super::failures::{of_connect, of_corruption, of_path, of_request, of_vm};
use super::host::Host;
use super::ledger::Ledger;
use crate::description::{describe_keys, describe_lu, describe_socket};
use crate::failure::Failure;
use crate::sockets::{Machines, Sockets};
use crate::tcp::{self, TcpLog};

/// Maximum number of sessions that log in at the same time: enough to hide the round trips, few
/// enough for the backlog of any target.
const LOGINS_MAX: usize = 64;
/// Maximum number of hosts for which TCP counters are reported per host.
const TCP_HOSTS_MAX: usize = 16;
/// Maximum number of sessions for which TCP counters are reported.
const TCP_SESSIONS_MAX: usize = 1024;

/// All iSCSI VMs of the engine.
pub struct Sessions<'r> {
    sockets: Sockets<'r>,
    host_set: HostSet,
    /// Number of hosts that have begun to log in.
    opened: usize,
    /// Last TCP counters of each socket.
    tcp: TcpLog,
}

/// The hosts and their state.
struct HostSet {
    hosts: Vec<Host>,
    /// Addresses of the portals of each host with several paths.
    portals: Vec<Vec<SocketAddr>>,
    /// Sessions per host.
    legs: usize,
    /// Whether the VMs of a host share its session.
    share_sessions: bool,
    /// Host and leg of each socket.
    places: Vec<(usize, usize)>,
    ready: usize,
    ended: usize,
    /// Facts of the first session, for `ready`.
    facts: BTreeMap<String, Value>,
}

/// The hosts and the ledger of their requests.
struct HostMachines<'a> {
    host_set: &'a mut HostSet,
    ledger: &'a mut Ledger,
}

impl<'r> Sessions<'r> {
    /// Creates the hosts of those VMs whose destination is iSCSI.
    pub fn new(
        reactor: &'r Reactor,
        settings: &Arc<Settings>,
        options: SocketOptions,
        vms: &[Vm],
        multipath: Option<&Multipath>,
    ) -> Result<Sessions<'r>, Failure> {
        let legs = settings.commands.sessions as usize;
        let share_sessions = settings.commands.share_sessions;
        let of_login = |paths: &Multipath| Duration::from_secs_f64(paths.login_timeout_s);
        let timeout = multipath.map_or(settings.timeout, of_login);
        let mut sockets = Sockets::new(reactor, timeout, options);
        let (mut hosts, mut places) = (Vec::new(), Vec::new());
        let mut portals = Vec::new();
        for mut vms in hosts_of(vms, share_sessions) {
            let (index, first) = &vms[0];
            let addresses = addresses_of(first, *index)?;
            for leg in 0..legs {
                // Sessions beyond the number of portals are further ones over the same portal.
                sockets.add(addresses[leg.min(addresses.len() - 1)]);
                places.push((hosts.len(), leg));
            }
            let settings = Arc::clone(settings);
            hosts.push(match multipath {
                None => Host::Single(IscsiHost::new(vms, settings)),
                Some(paths) => {
                    let (index, vm) = vms.swap_remove(0);
                    portals.push(addresses);
                    let host = MultipathHost::new(index, vm, paths, settings);
                    Host::Multipath(Box::new(host))
                }
            });
        }
        let host_set = HostSet {
            hosts,
            portals,
            legs,
            share_sessions,
            places,
            ready: 0,
            ended: 0,
            facts: BTreeMap::new(),
        };
        Ok(Sessions {
            sockets,
            host_set,
            opened: 0,
            tcp: TcpLog::default(),
        })
    }

    /// Returns the number of VMs.
    pub fn vms(&self) -> usize {
        self.host_set.hosts.iter().map(Host::vms).sum()
    }

    /// Returns the number of hosts.
    fn count(&self) -> usize {
        self.host_set.hosts.len()
    }

    /// Returns the number of sessions of all VMs.
    pub fn sessions(&self) -> usize {
        self.sockets.count()
    }

    pub fn all_ready(&self) -> bool {
        self.host_set.ready == self.count()
    }

    pub fn all_ended(&self) -> bool {
        self.host_set.ended == self.count()
    }

    /// Starts the login of more hosts, up to the limit of concurrent logins.
    pub fn open_more(&mut self, ledger: &mut Ledger) {
        let legs = self.host_set.legs;
        while self.opened < self.count()
            && (self.opened - self.host_set.ready) * legs < LOGINS_MAX.max(legs)
        {
            let first = self.opened * legs;
            self.opened += 1;
            for index in first..first + legs {
                let host_set = &mut self.host_set;
                self.sockets
                    .connect(index, &mut HostMachines { host_set, ledger });
            }
        }
    }

    /// Begins the load of every VM.
    pub fn begin(&mut self, ledger: &mut Ledger) {
        for host in 0..self.count() {
            self.host_set.hosts[host].begin(clock::now());
            self.flush(host, ledger);
        }
    }

    /// Begins the measuring phase.
    pub fn measure(&mut self, now: Time) {
        for host in &mut self.host_set.hosts {
            host.measure(now);
        }
    }

    /// Stops issuing requests.
    pub fn end(&mut self, now: Time, ledger: &mut Ledger) {
        for host in &mut self.host_set.hosts {
            host.end(now, &mut ledger.latencies);
        }
    }

    /// Returns the number of requests in flight of all VMs.
    pub fn in_flight(&self) -> usize {
        self.host_set.hosts.iter().map(Host::in_flight).sum()
    }

    /// Logs out every session.
    pub fn log_out(&mut self, ledger: &mut Ledger) {
        for host in 0..self.count() {
            self.host_set.hosts[host].log_out(clock::now(), &mut ledger.latencies);
            self.flush(host, ledger);
        }
    }

    pub fn visit_counters(&mut self, now: Time, visit: &mut dyn FnMut(&str, Counters)) {
        for host in &mut self.host_set.hosts {
            for vm in 0..host.vms() {
                let counters = host.counters(now, vm);
                visit(&host.config(vm).name, counters);
            }
        }
    }

    /// Visits the TCP counters of the connections, as entity and counters. Up to [`TCP_HOSTS_MAX`]
    /// hosts they are per host, named after its VM, or `sessionN` if VMs share it. With more
    /// hosts, they are summed over all VMs. Above [`TCP_SESSIONS_MAX`] sessions none are visited,
    /// because reading takes a microsecond per session, during which no session is served. None are
    /// visited for hosts with several paths, whose connections come and go.
    pub fn visit_tcp(&mut self, visit: &mut dyn FnMut(String, BTreeMap<String, f64>)) {
        let has_paths = !self.host_set.portals.is_empty();
        if has_paths || !(1..=TCP_SESSIONS_MAX).contains(&self.sessions()) {
            return;
        }
        for index in 0..self.sessions() {
            if let Some(socket) = self.sockets.socket(index) {
                self.tcp.read(index, socket);
            }
        }
        if self.count() > TCP_HOSTS_MAX {
            let all = tcp::counters(self.tcp.of(0..self.sessions()));
            return visit("tcp/vms".to_owned(), all);
        }
        let legs = self.host_set.legs;
        for (index, host) in self.host_set.hosts.iter().enumerate() {
            let first = index * legs;
            let counters = tcp::counters(self.tcp.of(first..first + legs));
            let entity = if self.host_set.share_sessions {
                format!("tcp/session{}", index + 1)
            } else {
                format!("tcp/{}", host.config(0).name)
            };
            visit(entity, counters);
        }
    }

    /// Visits the counters of hosts with several paths, as entity and counters, for a sample.
    pub fn visit_paths(&mut self, now: Time, visit: &mut dyn FnMut(String, BTreeMap<String, f64>)) {
        for host in &mut self.host_set.hosts {
            if let Some(counters) = host.take_path_counters(now) {
                visit(format!("paths/{}", host.config(0).name), counters);
            }
        }
    }

    /// Returns the facts for `ready`: the number of sessions, and LU, keys and socket of the first
    /// session.
    pub fn facts(&self) -> BTreeMap<String, Value> {
        let mut facts = self.host_set.facts.clone();
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
        let host_set = &mut self.host_set;
        self.sockets
            .handle_timeouts(now, &mut HostMachines { host_set, ledger });
    }

    /// Serves the socket of the event. Returns whether any data was received.
    pub fn handle_event(&mut self, event: Event, ledger: &mut Ledger) -> bool {
        let host_set = &mut self.host_set;
        self.sockets
            .handle_event(event, &mut HostMachines { host_set, ledger })
    }

    /// Sends a host's queued bytes over all of its sessions.
    fn flush(&mut self, host: usize, ledger: &mut Ledger) {
        let host_set = &mut self.host_set;
        let first = host * host_set.legs;
        self.sockets
            .flush(first, &mut HostMachines { host_set, ledger });
    }
}

/// Returns the addresses of a VM's portals, at least one.
fn addresses_of(vm: &Vm, index: usize) -> Result<Vec<SocketAddr>, Failure> {
    let address = |portal: &str| {
        portal.parse().map_err(|_| {
            Failure::usage(
                format_args!("vms[{index}].destination: {portal:?} is not `address:port`"),
                "use a numeric address and port, such as 10.0.0.1:3260 or [fd00::1]:3260",
            )
        })
    };
    vm.destination.portals().map(address).collect()
}

impl HostSet {
    /// Returns host and leg of a socket.
    fn place(&self, index: usize) -> (usize, usize) {
        self.places[index]
    }
}

impl Machines for HostMachines<'_> {
    fn handle_connected(&mut self, now: Time, index: usize) {
        let (host, leg) = self.host_set.place(index);
        self.host_set.hosts[host].handle_connected(now, leg);
    }

    fn handle_unreachable(&mut self, index: usize, error: &io::Error) {
        let (host, leg) = self.host_set.place(index);
        let host = &mut self.host_set.hosts[host];
        if host.handle_unreachable(clock::now(), leg, &mut self.ledger.latencies) {
            self.ledger.fail(of_connect(host.config(0), leg, error));
        }
    }

    fn handle_received(&mut self, arrival: Arrival, index: usize, bytes: &[u8]) {
        let (host, leg) = self.host_set.place(index);
        let latencies = &mut self.ledger.latencies;
        self.host_set.hosts[host].handle_received(arrival, leg, bytes, latencies);
    }

    fn handle_closed(&mut self, now: Time, index: usize, why: &'static str) {
        let (host, leg) = self.host_set.place(index);
        let latencies = &mut self.ledger.latencies;
        self.host_set.hosts[host].handle_closed(now, leg, why, latencies);
    }

    fn handle_timeout(&mut self, now: Time, index: usize) {
        let (host, leg) = self.host_set.place(index);
        let latencies = &mut self.ledger.latencies;
        self.host_set.hosts[host].handle_timeout(now, leg, latencies);
    }

    fn poll_timeout(&self, index: usize) -> Option<Time> {
        let (host, leg) = self.host_set.place(index);
        self.host_set.hosts[host].poll_timeout(leg)
    }

    fn issue(&mut self, now: Time, index: usize) {
        let (host, _) = self.host_set.place(index);
        self.host_set.hosts[host].issue(now);
    }

    fn transmit(&mut self, index: usize) -> &mut Transmit {
        let (host, leg) = self.host_set.place(index);
        self.host_set.hosts[host].transmit(leg)
    }

    fn session(&self, index: usize) -> &Session {
        let (host, leg) = self.host_set.place(index);
        self.host_set.hosts[host].session(leg)
    }

    fn poll_transmit(&mut self, index: usize) -> Option<usize> {
        let (host, leg) = self.host_set.place(index);
        let other = self.host_set.hosts[host].poll_transmit(leg)?;
        Some(host * self.host_set.legs + other)
    }

    fn settle(&mut self, index: usize) -> Option<SocketAddr> {
        let (host, leg) = self.host_set.place(index);
        let HostMachines { host_set, ledger } = self;
        let portals = host_set.portals.get(host);
        let host = &mut host_set.hosts[host];
        while let Some(event) = host.poll_event() {
            match event {
                HostEvent::Ready(facts) => {
                    host_set.ready += 1;
                    if host_set.facts.is_empty() {
                        let keys = describe_keys(host.session(0).agreed());
                        host_set.facts.insert("lu".into(), describe_lu(&facts));
                        host_set.facts.insert("negotiated".into(), keys);
                    }
                }
                // The event comes from the leg that is being served, because only that leg received
                // data.
                HostEvent::Redirected {
                    leg: redirected,
                    address,
                } => match address.parse() {
                    Ok(portal) => {
                        debug_assert_eq!(redirected, leg);
                        return Some(portal);
                    }
                    Err(_) => {
                        let error = VmError::Session(SessionError::RedirectAddress(address));
                        ledger.fail(of_vm(host.config(0), &error));
                    }
                },
                HostEvent::RequestFailed { vm, op, error } => {
                    ledger.add_failed_request(of_request(host.config(vm), op, &error));
                }
                HostEvent::Corrupt { vm, corruption } => {
                    ledger.fail(of_corruption(host.config(vm), &corruption));
                }
                HostEvent::Failed { vm, error } => ledger.fail(of_vm(host.config(vm), &error)),
                HostEvent::LoggedOut => host_set.ended += 1,
            }
        }
        let portals = portals?;
        if let Host::Multipath(host) = host {
            while let Some((change, error)) = host.poll_change() {
                let error = error.cloned();
                let portal = portals[change.path];
                ledger.add_path_change(of_path(host.config(), &change, portal, error.as_ref()));
            }
        }
        Some(portals[host.poll_connect(leg)?])
    }

    fn is_persistent(&self, index: usize) -> bool {
        let (host, _) = self.host_set.place(index);
        self.host_set.hosts[host].is_persistent()
    }
}
