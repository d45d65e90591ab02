//! VMs that share a session: every response counts for the VM that sent the command, whatever the
//! target answers and when, and also if the session is lost. Limits of LU and session hold.
#[path = "../../iscsi-session/tests/peer/mod.rs"]
mod peer;

use std::sync::Arc;

use hakaru_contract::LoginKeys;
use hakaru_contract::initiator::{GuestQueue, Vm};
use hakaru_iscsi_session::SessionError;
use hakaru_load::{CommandLimits, HostEvent, IscsiHost, Payload, Settings, VmError};
use hakaru_stats::Latencies;
use hakaru_units::Time;
use hakaru_wire::iscsi::{DataIn, DataInStatus, Itt, LoginResponse, Lun, ScsiResponse, Stage};
use hakaru_wire::scsi::{Capacity16, Cdb, Inquiry, Status, Transfer, emit_luns};
use peer::Peer;
use proptest::prelude::*;

const VMS: usize = 5;
const LU_MAX: usize = 3;
const SESSION_MAX: usize = 5;
/// Requests that each VM keeps outstanding, and those of them that the ring of its disk holds.
const DEPTH: usize = 4;
const IN_RING: usize = 2;
/// Blocks of a request, and of the region of a VM.
const BLOCKS: u64 = 8;
const REGION_BLOCKS: u64 = 2048;

/// A command that the host sent and that is not answered yet.
#[derive(Clone, Copy, Debug)]
struct Sent {
    itt: Itt,
    vm: usize,
    lun: u16,
}

/// A host whose target is the test.
struct Target {
    host: IscsiHost,
    /// Position of the session that the target uses.
    leg: usize,
    peers: Vec<Peer>,
    latencies: Latencies,
    time: Time,
    sent: Vec<Sent>,
}

/// Returns VM `i`, whose region begins at block `i * REGION_BLOCKS`, so that an address identifies
/// the VM.
fn vm(i: usize) -> Arc<Vm> {
    vm_with(
        i,
        serde_json::json!({"kind": "closed", "queue_depth": DEPTH}),
    )
}

fn vm_with(i: usize, load: serde_json::Value) -> Arc<Vm> {
    let vm = serde_json::from_value(serde_json::json!({
        "name": format!("vm{i}"),
        "destination": {"kind": "iscsi", "portal": "127.0.0.1:3260", "target_name": "iqn.2026-01.lab:t",
            "lun": i % 2, "initiator_name": "iqn.2026-01.lab:host"},
        "region": {"offset_bytes": i as u64 * REGION_BLOCKS * 512, "length_bytes": REGION_BLOCKS * 512},
        "pattern": {"sizes": [{"bytes": BLOCKS * 512}], "read_percent": 100, "random_percent": 100},
        "load": load,
        "seed": i,
    }));
    Arc::new(vm.expect("the configuration is valid"))
}

impl Target {
    /// Creates a host of five VMs on two LUs, which have begun their load.
    fn new() -> Target {
        let commands = CommandLimits {
            guest_queue: Some(GuestQueue {
                ring_descriptors: 128,
                segments_max: 126,
                indirect: false,
                in_flight_max: Some(IN_RING as u32),
            }),
            share_sessions: true,
            lu_outstanding_max: LU_MAX as u32,
            session_outstanding_max: SESSION_MAX as u32,
            ..CommandLimits::default()
        };
        Target::of((0..VMS).map(vm).collect(), commands)
    }

    /// Creates a host of these VMs, which have begun their load.
    fn of(vms: Vec<Arc<Vm>>, commands: CommandLimits) -> Target {
        let settings = Settings {
            chap: None,
            keys: LoginKeys::default(),
            timeout: peer::TIMEOUT,
            payload: Payload::new(4096, 1),
            verify_run: None,
            commands,
        };
        let host = IscsiHost::new(vms.into_iter().enumerate().collect(), Arc::new(settings));
        let peer = |_| Peer::connected(peer::config(LoginKeys::default()));
        let mut target = Target {
            peers: (0..host.legs()).map(peer).collect(),
            host,
            leg: 0,
            latencies: Latencies::default(),
            time: Time(1_000),
            sent: Vec::new(),
        };
        for leg in 0..target.host.legs() {
            target.leg = leg;
            target.host.handle_connected(target.time, leg);
            target.log_in();
            target.answer_survey();
        }
        target.leg = 0;
        assert!(matches!(
            target.host.poll_event(),
            Some(HostEvent::Ready(_))
        ));
        target.host.begin(target.time);
        target.take_commands();
        target
    }

    fn log_in(&mut self) {
        let stages = [
            Stage::SecurityNegotiation,
            Stage::OperationalNegotiation,
            Stage::FullFeaturePhase,
        ];
        for pair in stages.windows(2) {
            let text: &[u8] = if pair[0] == Stage::SecurityNegotiation {
                b"AuthMethod=None\0"
            } else {
                b""
            };
            let response = LoginResponse {
                current_stage: pair[0],
                next_stage: Some(pair[1]),
                tsih: 1,
                itt: Itt(0xff00),
                numbers: self.peers[self.leg].next_numbers(),
                data_segment_length: text.len() as u32,
                ..Default::default()
            };
            self.take_sent();
            let bytes = self.peers[self.leg].bytes_of(|out| response.emit(out), text);
            self.receive(&bytes);
        }
    }

    /// Answers the survey of both LUs.
    fn answer_survey(&mut self) {
        loop {
            let bytes = self.take_sent();
            let Some(header) = bytes.len().checked_sub(48).map(|at| &bytes[at..]) else {
                return;
            };
            self.peers[self.leg].exp_cmd_sn += 1;
            let itt = Itt(u32::from_be_bytes(header[16..20].try_into().unwrap()));
            let data = match Cdb::parse(&header[32..48]) {
                Ok(Cdb::ReportLuns { .. }) => emit_luns([Lun::new(0), Lun::new(1)]),
                Ok(Cdb::Inquiry { .. }) => Inquiry::default().emit().to_vec(),
                Ok(Cdb::ReadCapacity16 { .. }) => Capacity16 {
                    last_lba: VMS as u64 * REGION_BLOCKS - 1,
                    block_length: 512,
                    ..Capacity16::default()
                }
                .emit()
                .to_vec(),
                _ => Vec::new(),
            };
            self.answer(itt, &data, Status::GOOD);
        }
    }

    fn take_sent(&mut self) -> Vec<u8> {
        let transmit = self.host.transmit(self.leg);
        let bytes: Vec<u8> = transmit.slices().flatten().copied().collect();
        transmit.advance(self.time, bytes.len());
        bytes
    }

    /// Reads the commands that the host has sent. All of them are reads, without data.
    fn take_commands(&mut self) {
        for header in self.take_sent().chunks_exact(48) {
            assert_eq!(header[0] & 0x3f, 0x01, "a SCSI Command");
            self.peers[self.leg].exp_cmd_sn += 1;
            let Ok(Cdb::Read(Transfer { lba, blocks, .. })) = Cdb::parse(&header[32..48]) else {
                panic!("not a read")
            };
            assert_eq!(u64::from(blocks), BLOCKS);
            self.sent.push(Sent {
                itt: Itt(u32::from_be_bytes(header[16..20].try_into().unwrap())),
                vm: (lba / REGION_BLOCKS) as usize,
                lun: u16::from(header[9]),
            });
        }
    }

    fn receive(&mut self, bytes: &[u8]) {
        self.host
            .handle_received(self.time, self.leg, bytes, &mut self.latencies);
        self.host.issue(self.time);
    }

    fn answer(&mut self, itt: Itt, data: &[u8], status: Status) {
        let peer = &mut self.peers[self.leg];
        let numbers = peer.next_numbers();
        let bytes = if data.is_empty() {
            let response = ScsiResponse {
                status: status.0,
                itt,
                numbers,
                ..Default::default()
            };
            peer.bytes_of(|out| response.emit(out), &[])
        } else {
            let pdu = DataIn {
                is_final: true,
                status: Some(DataInStatus {
                    status: status.0,
                    ..Default::default()
                }),
                itt,
                numbers,
                data_segment_length: data.len() as u32,
                ..Default::default()
            };
            peer.bytes_of(|out| pdu.emit(out), data)
        };
        self.receive(&bytes);
    }

    /// Checks that the host keeps its limits, and uses them while commands wait.
    fn check_limits(&self) {
        let of_lu = |lun| self.sent.iter().filter(|sent| sent.lun == lun).count();
        assert!(of_lu(0) <= LU_MAX && of_lu(1) <= LU_MAX, "{:?}", self.sent);
        assert_eq!(self.sent.len(), SESSION_MAX, "{:?}", self.sent);
        for vm in 0..VMS {
            assert!(self.sent.iter().filter(|sent| sent.vm == vm).count() <= IN_RING);
        }
    }
}

/// The status with which the target answers a command.
fn status() -> impl Strategy<Value = Status> {
    let aborted = Status::TASK_ABORTED;
    prop::sample::select(vec![Status::GOOD, Status::GOOD, Status::GOOD, aborted])
}

proptest! {
    #[test]
    fn every_response_counts_for_the_vm_that_sent_the_command(
        answers in prop::collection::vec((0usize..SESSION_MAX, status()), 0..60),
    ) {
        let mut target = Target::new();
        let (mut reads, mut errors) = ([0; VMS], [0; VMS]);
        for (index, status) in answers {
            target.check_limits();
            target.time = Time(target.time.0 + 1_000);
            let sent = target.sent.remove(index);
            if status == Status::GOOD {
                reads[sent.vm] += 1;
                target.answer(sent.itt, &[0; 4096], status);
            } else {
                errors[sent.vm] += 1;
                target.answer(sent.itt, &[], status);
                let event = target.host.poll_event();
                let is_of_vm = matches!(event, Some(HostEvent::RequestFailed { vm, .. }) if vm == sent.vm);
                prop_assert!(is_of_vm, "{event:?}");
            }
            target.take_commands();
            prop_assert_eq!(target.host.in_flight(), VMS * DEPTH);
        }
        // The session is lost: every request in flight of every VM fails once.
        let now = Time(target.time.0 + 1_000);
        target.host.handle_closed(now, 0, "(closed by the target)", &mut target.latencies);
        for lost in 0..VMS {
            let event = target.host.poll_event();
            let expected = matches!(
                event,
                Some(HostEvent::Failed { vm, error: VmError::Session(SessionError::Closed(_)) }) if vm == lost
            );
            prop_assert!(expected, "{event:?}");
        }
        prop_assert_eq!(target.host.poll_event(), None);
        prop_assert_eq!(target.host.in_flight(), 0);
        prop_assert!(target.take_sent().is_empty());
        for vm in 0..VMS {
            let counters = target.host.counters(now, vm);
            prop_assert_eq!((counters.reads, counters.errors), (reads[vm], errors[vm] + DEPTH as u64));
            // Two of four requests are in the ring, so two wait in the guest all the time.
            prop_assert_eq!(counters.guest_queued_ns, 2 * (now.0 - 1_000));
            prop_assert_eq!(counters.outstanding_ns, 4 * (now.0 - 1_000));
        }
        // The rings hold ten commands: five are outstanding and five wait in the host.
        let queued: u64 = (0..VMS).map(|vm| target.host.counters(now, vm).host_queued_ns).sum();
        prop_assert_eq!(queued, 5 * (now.0 - 1_000));
    }
}

#[test]
fn due_time_of_an_open_load_is_kept_when_another_session_frees_its_only_request() {
    let load = serde_json::json!({
        "kind": "open", "rate_per_s": 100, "arrivals": "uniform", "in_flight_max": 1,
    });
    let commands = CommandLimits {
        sessions: 2,
        ..CommandLimits::default()
    };
    let mut target = Target::of(vec![vm_with(0, load)], commands);
    // The sessions take turns: the first command is that of leg 0, the second that of leg 1.
    for leg in [0, 1] {
        if target.sent.is_empty() {
            target.time = target.host.poll_timeout(0).expect("a due time");
            target
                .host
                .handle_timeout(target.time, 0, &mut target.latencies);
            target.host.issue(target.time);
        }
        target.leg = leg;
        target.take_commands();
        // The caller has served leg 0. While no request is free, its timer has nothing of the load.
        target.host.poll_transmit(0);
        let sent = target.sent.remove(0);
        target.time = Time(target.time.0 + 1_000_000);
        target.answer(sent.itt, &[0; 4096], Status::GOOD);
    }
    assert_eq!(target.host.poll_transmit(1), Some(0));
    let due = target.host.poll_timeout(0).expect("a due time");
    assert_eq!(due.0 - target.time.0, 9_000_000);
}
