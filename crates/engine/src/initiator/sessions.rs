//! The VMs that speak iSCSI, over the engine's sockets.
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use hakaru_contract::initiator::{Destination, Vm};
use hakaru_initiator::{Counters, IscsiVm, SessionError, Settings, Transmit, VmError, VmEvent};
use hakaru_runtime::{Event, Reactor, clock};
use hakaru_units::Time;
use serde_json::{Value, json};

use super::Ledger;
use super::failures::{of_connect, of_corruption, of_request, of_vm};
use crate::description::{describe_keys, describe_lu};
use crate::failure::Failure;
use crate::sockets::{Machines, Sockets};

/// Sessions that log in at the same time: enough to hide the round trips, few enough for any target's backlog.
const LOGINS_MAX: usize = 64;

/// All iSCSI VMs of the engine.
pub struct Sessions<'r> {
    sockets: Sockets<'r>,
    settings: Arc<Settings>,
    crowd: Crowd,
    /// VMs before this one have begun to log in.
    opened: usize,
}

/// The VMs, each by the number of its socket.
#[derive(Default)]
struct Crowd {
    vms: Vec<IscsiVm>,
    ready: usize,
    ended: usize,
    /// What the first session found, for `ready`.
    found: BTreeMap<String, Value>,
}

/// The VMs and where they leave what they have done.
struct Served<'a> {
    crowd: &'a mut Crowd,
    ledger: &'a mut Ledger,
}

impl<'r> Sessions<'r> {
    pub fn new(reactor: &'r Reactor, settings: Arc<Settings>) -> Sessions<'r> {
        Sessions {
            sockets: Sockets::new(reactor, settings.timeout),
            settings,
            crowd: Crowd::default(),
            opened: 0,
        }
    }

    /// Adds a VM, `index`th of the configuration.
    pub fn add(&mut self, vm: Arc<Vm>, index: usize) -> Result<(), Failure> {
        let Destination::Iscsi { portal, .. } = &vm.destination else {
            unreachable!("the caller looked")
        };
        let address = portal.parse().map_err(|_| {
            Failure::usage(
                format_args!("vms[{index}].destination.portal: `{portal}`"),
                "address:port",
            )
        })?;
        self.sockets.add(address);
        let vm = IscsiVm::new(vm, Arc::clone(&self.settings), index);
        self.crowd.vms.push(vm);
        Ok(())
    }

    pub fn count(&self) -> usize {
        self.crowd.vms.len()
    }

    pub fn all_ready(&self) -> bool {
        self.crowd.ready == self.count()
    }

    pub fn all_ended(&self) -> bool {
        self.crowd.ended == self.count()
    }

    /// Lets more VMs log in, as many as may at a time.
    pub fn open_more(&mut self, ledger: &mut Ledger) {
        while self.opened < self.count() && self.opened - self.crowd.ready < LOGINS_MAX {
            let index = self.opened;
            self.opened += 1;
            let crowd = &mut self.crowd;
            self.sockets.connect(index, &mut Served { crowd, ledger });
        }
    }

    /// Every VM's load begins.
    pub fn begin(&mut self, ledger: &mut Ledger) {
        for index in 0..self.count() {
            self.crowd.vms[index].begin(clock::now());
            self.flush(index, ledger);
        }
    }

    /// No VM makes another request.
    pub fn end(&mut self) {
        self.crowd.vms.iter_mut().for_each(IscsiVm::end);
    }

    /// Requests in flight, all VMs together.
    pub fn in_flight(&self) -> usize {
        self.crowd.vms.iter().map(IscsiVm::in_flight).sum()
    }

    /// Every session logs out.
    pub fn log_out(&mut self, ledger: &mut Ledger) {
        for index in 0..self.count() {
            self.crowd.vms[index].log_out(clock::now(), &mut ledger.latencies);
            self.flush(index, ledger);
        }
    }

    pub fn visit_counters(&mut self, now: Time, see: &mut dyn FnMut(&str, Counters)) {
        for vm in &mut self.crowd.vms {
            let counters = vm.counters(now);
            see(&vm.config().name, counters);
        }
    }

    /// What `ready` tells: sessions, and of the first of them the LU and the keys.
    pub fn found(&self) -> BTreeMap<String, Value> {
        let mut found = self.crowd.found.clone();
        found.insert("sessions".to_owned(), json!(self.count()));
        found
    }

    /// When [`Sessions::handle_timeouts`] is wanted next.
    pub fn poll_timeout(&self) -> Time {
        self.sockets.poll_timeout()
    }

    /// Timers that have come.
    pub fn handle_timeouts(&mut self, ledger: &mut Ledger) {
        let crowd = &mut self.crowd;
        self.sockets.handle_timeouts(&mut Served { crowd, ledger });
    }

    /// Serves the socket that the event is about.
    pub fn handle_event(&mut self, event: Event, ledger: &mut Ledger) {
        let crowd = &mut self.crowd;
        self.sockets
            .handle_event(event, &mut Served { crowd, ledger });
    }

    fn flush(&mut self, index: usize, ledger: &mut Ledger) {
        let crowd = &mut self.crowd;
        self.sockets.flush(index, &mut Served { crowd, ledger });
    }
}

impl Machines for Served<'_> {
    fn handle_connected(&mut self, now: Time, index: usize) {
        self.crowd.vms[index].handle_connected(now);
    }

    fn handle_unreachable(&mut self, index: usize, error: &io::Error) {
        self.ledger
            .fail(of_connect(self.crowd.vms[index].config(), error));
    }

    fn handle_received(&mut self, now: Time, index: usize, bytes: &[u8]) {
        self.crowd.vms[index].handle_received(now, bytes, &mut self.ledger.latencies);
    }

    fn handle_closed(&mut self, now: Time, index: usize, why: &'static str) {
        self.crowd.vms[index].handle_closed(now, why, &mut self.ledger.latencies);
    }

    fn handle_timeout(&mut self, now: Time, index: usize) {
        self.crowd.vms[index].handle_timeout(now, &mut self.ledger.latencies);
    }

    fn poll_timeout(&self, index: usize) -> Option<Time> {
        self.crowd.vms[index].poll_timeout()
    }

    fn transmit(&mut self, index: usize) -> &mut Transmit {
        self.crowd.vms[index].transmit()
    }

    fn is_ended(&self, index: usize) -> bool {
        self.crowd.vms[index].is_ended()
    }

    fn settle(&mut self, index: usize) -> Option<SocketAddr> {
        let Served { crowd, ledger } = self;
        let vm = &mut crowd.vms[index];
        while let Some(event) = vm.poll_event() {
            match event {
                VmEvent::Ready(facts) => {
                    crowd.ready += 1;
                    if crowd.found.is_empty() {
                        let keys = describe_keys(vm.negotiated());
                        crowd.found.insert("lu".into(), describe_lu(&facts));
                        crowd.found.insert("negotiated".into(), keys);
                    }
                }
                VmEvent::Redirected { address } => match address.parse() {
                    Ok(portal) => return Some(portal),
                    Err(_) => {
                        let error = VmError::Session(SessionError::RedirectAddress(address));
                        ledger.fail(of_vm(vm.config(), &error));
                    }
                },
                VmEvent::RequestFailed { op, error } => {
                    ledger.complaints.push(of_request(vm.config(), op, &error));
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
