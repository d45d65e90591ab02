//! A target with its storage, and up to four initiators that the input controls. They connect, log
//! in, send PDUs of any type or raw bytes, and disconnect. Meanwhile, the storage answers late,
//! fails or never answers, the kernel accepts bytes in pieces, and time passes.
//!
//! If the length of the input is odd, the target has an access list. One initiator name may log in
//! without CHAP and sees one LU, read-only. All others need CHAP.
//!
//! Checks, in addition to the absence of panics: every access lies within its LU and covers whole
//! blocks, the memory that the target holds for its peers is bounded, and the target sends valid
//! PDUs.
#![no_main]
use std::time::Duration;

use hakaru_iscsi_target::{
    Access, ConnectionId, Extent, Io, IoFailure, IoOp, IoResult, Limits, LuAccess, LuDescription,
    Rule, Segment, Target, TargetConfig, Thin,
};
use hakaru_units::Time;
use hakaru_wire::iscsi::chap::{Algorithm, Credentials};
use hakaru_wire::iscsi::frame::{Frame, Framer};
use hakaru_wire::iscsi::text::emit_pair;
use hakaru_wire::iscsi::{BHS_LENGTH, DATA_SEGMENT_LENGTH_MAX, LoginRequest, Opcode, Stage};
use libfuzzer_sys::fuzz_target;

const LU_BYTES: u64 = 64 << 10;
const WRITE_BUFFER_BYTES_MAX: u64 = 256 << 10;
const TARGET_NAME: &str = "iqn.2020-01.org.example:t";

/// Remaining bytes of the input, followed by zeros.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    fn take(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

/// One initiator's end of a connection.
struct Peer {
    connection: ConnectionId,
    framer: Framer,
    /// Whether a digest may have been negotiated. Received bytes are then not parsed.
    unreadable: bool,
    cmd_sn: u32,
}

struct Scene {
    target: Target,
    time: Time,
    peers: [Option<Peer>; 4],
    held: Vec<Io>,
}

fn config() -> TargetConfig {
    let mut thin = LuDescription::new(0, LU_BYTES);
    thin.thin = Some(Thin { page_bytes: 4096 });
    (thin.sanitize, thin.removable, thin.atomic_bytes) = (true, true, 16 << 10);
    let mut four_k = LuDescription::new(1, LU_BYTES);
    (four_k.block_bytes, four_k.write_cache) = (4096, true);
    let mut read_only = LuDescription::new(2, LU_BYTES);
    read_only.read_only = true;
    let mut limits = Limits {
        sessions_max: 3,
        logins_max: 3,
        logins_per_address_max: 3,
        commands_max: 8,
        transfer_bytes_max: 32 << 10,
        write_buffer_bytes_max: WRITE_BUFFER_BYTES_MAX,
        session_write_buffer_bytes_max: 64 << 10,
        transmit_bytes_max: 64 << 10,
        ..Limits::default()
    };
    limits.keys.max_recv_data_segment_length = 8 << 10;
    limits.keys.max_burst_length = 16 << 10;
    limits.keys.first_burst_length = 4 << 10;
    let portals = vec!["10.0.0.1:3260".parse().expect("an address")];
    TargetConfig {
        target_name: TARGET_NAME.to_owned(),
        portals,
        port_groups: Vec::new(),
        lus: vec![thin, four_k, read_only],
        access: Access::default(),
        limits,
    }
}

/// Returns the access list described at the top of the file.
fn access() -> Access {
    let user = Credentials::new("vm", "a secret of fuzz").expect("credentials");
    let target = Credentials::new("array", "the array's secret").expect("credentials");
    let open = Rule {
        initiator_name: Some("iqn.2020-01.org.example:a".to_owned()),
        lus: Some(vec![LuAccess {
            lun: 0,
            read_only: true,
        }]),
        ..Rule::default()
    };
    let authenticated = Rule {
        user: Some("vm".to_owned()),
        ..Rule::default()
    };
    Access {
        users: vec![user],
        target: Some(target),
        algorithms: Algorithm::ALL.to_vec(),
        rules: Some(vec![open, authenticated]),
    }
}

impl Scene {
    fn new(restricted: bool) -> Scene {
        let mut config = config();
        if restricted {
            config.access = access();
        }
        Scene {
            target: Target::with_entropy(config, Box::new(|out| out.fill(7))),
            time: Time(1_000_000_000),
            peers: [None, None, None, None],
            held: Vec::new(),
        }
    }

    fn connect(&mut self, slot: usize) {
        self.disconnect(slot);
        let (local, peer) = (
            "10.0.0.1:3260".parse().expect("an address"),
            "10.0.0.2:9".parse().expect("an address"),
        );
        self.peers[slot] =
            self.target
                .handle_connected(self.time, 0, local, peer)
                .map(|connection| Peer {
                    connection,
                    framer: Framer::new(DATA_SEGMENT_LENGTH_MAX),
                    unreadable: false,
                    cmd_sn: 1,
                });
    }

    fn disconnect(&mut self, slot: usize) {
        if let Some(peer) = self.peers[slot].take() {
            self.target.handle_closed(self.time, peer.connection);
        }
    }

    fn send(&mut self, slot: usize, bytes: &[u8]) {
        let Some(peer) = &mut self.peers[slot] else {
            return;
        };
        peer.unreadable |= bytes.windows(6).any(|window| window == b"Digest");
        if self.target.wants_received(peer.connection) {
            self.target
                .handle_received(self.time, peer.connection, bytes);
        }
    }

    /// Logs in correctly, with one PDU.
    fn log_in(&mut self, slot: usize, variant: u8) {
        let mut text = Vec::new();
        let name = if variant & 1 == 0 {
            "iqn.2020-01.org.example:a".to_owned()
        } else {
            format!("iqn.2020-01.org.example:{slot}")
        };
        emit_pair(&mut text, "InitiatorName", &name);
        if variant & 2 == 0 {
            emit_pair(&mut text, "TargetName", TARGET_NAME);
        } else {
            emit_pair(&mut text, "SessionType", "Discovery");
        }
        if variant & 4 != 0 {
            emit_pair(&mut text, "InitialR2T", "No");
            emit_pair(&mut text, "MaxOutstandingR2T", "4");
        }
        if variant & 8 != 0 {
            emit_pair(&mut text, "MaxRecvDataSegmentLength", "512");
        }
        let request = LoginRequest {
            current_stage: Stage::OperationalNegotiation,
            next_stage: Some(Stage::FullFeaturePhase),
            data_segment_length: text.len() as u32,
            ..LoginRequest::default()
        };
        let mut bytes = [0; BHS_LENGTH];
        request.emit(&mut bytes);
        text.resize(text.len().next_multiple_of(4), 0);
        self.send(slot, &bytes);
        self.send(slot, &text);
        if let Some(peer) = &mut self.peers[slot] {
            peer.cmd_sn = 0;
        }
    }

    /// Sends a PDU. The most significant fields are taken from the input, and the sequence numbers
    /// are mostly in order.
    fn send_pdu(&mut self, slot: usize, input: &mut Input<'_>) {
        let Some(peer) = &mut self.peers[slot] else {
            return;
        };
        let mut bytes = [0; BHS_LENGTH];
        let opcodes = [1, 1, 1, 5, 5, 0, 2, 3, 4, 6, 0x10, 0x3f];
        let kind = input.byte();
        bytes[0] = opcodes[usize::from(kind & 0x0f) % opcodes.len()] | (kind & 0x40);
        bytes[1] = input.byte();
        bytes[9] = input.byte() & 3;
        bytes[19] = input.byte() & 7; // ITT
        let numbers = input.byte();
        bytes[20..24].copy_from_slice(&if numbers & 1 == 0 {
            [0xff; 4]
        } else {
            [0, 0, 0, numbers >> 4]
        });
        match Opcode::from_code(bytes[0] & 0x3f) {
            Some(Opcode::ScsiCommand) => {
                bytes[20..24].copy_from_slice(&[0, 0, input.byte() & 0x7f, input.byte() & 0xfe]);
                let cdb = input.take(16);
                bytes[32..32 + cdb.len()].copy_from_slice(cdb);
            }
            Some(Opcode::DataOut) => {
                bytes[39] = input.byte() & 3; // DataSN
                bytes[42..44].copy_from_slice(&[input.byte() & 0x7f, 0]); // Buffer Offset
            }
            _ => {}
        }
        let cmd_sn = if numbers & 6 == 6 {
            peer.cmd_sn.wrapping_add(u32::from(numbers))
        } else {
            peer.cmd_sn
        };
        if bytes[0] & 0x3f != 5 {
            bytes[24..28].copy_from_slice(&cmd_sn.to_be_bytes());
            if bytes[0] & 0x40 == 0 && numbers & 6 != 6 {
                peer.cmd_sn = peer.cmd_sn.wrapping_add(1);
            }
        }
        let length = usize::from(input.byte()) * if numbers & 8 == 0 { 1 } else { 32 };
        bytes[5..8].copy_from_slice(&(length as u32).to_be_bytes()[1..]);
        let mut data = input.take(length).to_vec();
        data.resize(length.next_multiple_of(4), 0x5a);
        self.send(slot, &bytes);
        self.send(slot, &data);
    }

    /// Completes one access with the result that `control` selects.
    fn answer(&mut self, control: u8) {
        if self.held.is_empty() {
            return;
        }
        let Io { id, op, .. } = self
            .held
            .swap_remove(usize::from(control >> 3) % self.held.len());
        let failed = control & 7 == 7;
        let result = match op {
            IoOp::Read { .. } if failed => IoResult::Failed(IoFailure::Read),
            IoOp::Read { in_place: true, .. } if control & 1 == 0 => IoResult::ReadInPlace,
            IoOp::Read { length_bytes, .. } => {
                let mut buffer = self.target.take_buffer(length_bytes as usize);
                buffer.resize(length_bytes as usize, 0xa5);
                IoResult::ReadData(buffer)
            }
            IoOp::Write { .. } if failed => IoResult::Failed(IoFailure::Space),
            IoOp::Write { data, .. } => IoResult::Written(data),
            _ if failed => IoResult::Failed(IoFailure::Internal),
            IoOp::Flush | IoOp::FlushPart { .. } => IoResult::Flushed,
            IoOp::Status { range, .. } => IoResult::Provisioned(vec![(range, control & 1 == 0)]),
            IoOp::Unmap { .. } | IoOp::WriteSame { .. } | IoOp::Keep { .. } | IoOp::Tape { .. } => {
                IoResult::Done
            }
        };
        self.target.handle_io_done(self.time, id, result);
    }

    /// Transmits up to `limit` queued bytes of a connection, which the peer then parses.
    fn transmit(&mut self, slot: usize, limit: usize) {
        let Some(peer) = &mut self.peers[slot] else {
            return;
        };
        let mut bytes = Vec::new();
        for segment in self.target.transmit(peer.connection).segments() {
            match segment {
                Segment::Bytes(part) => bytes.extend_from_slice(part),
                Segment::Lu {
                    lun,
                    offset_bytes,
                    length_bytes,
                } => {
                    assert!(
                        lun <= 2
                            && length_bytes > 0
                            && offset_bytes + u64::from(length_bytes) <= LU_BYTES
                    );
                    bytes.resize(bytes.len() + length_bytes as usize, 0xa5);
                }
            }
        }
        assert_eq!(
            bytes.len() as u64,
            self.target.transmit(peer.connection).pending_bytes()
        );
        bytes.truncate(limit);
        let mut read_lu = |_: u8, _: u64, out: &mut [u8]| out.fill(0xa5);
        self.target
            .handle_transmitted(self.time, peer.connection, bytes.len(), &mut read_lu);
        let mut rest = &bytes[..];
        while !peer.unreadable {
            match peer
                .framer
                .next(&mut rest)
                .expect("the target's PDUs are within limits")
            {
                Some(Frame::Header { bhs, .. }) => {
                    let opcode = bhs.opcode().expect("the target sends known opcodes");
                    assert!(!opcode.from_initiator(), "{opcode:?} from a target");
                }
                Some(_) => {}
                None => break,
            }
        }
    }

    /// Takes over the accesses that the target requests, and checks that they are valid.
    fn settle(&mut self) {
        while let Some(io) = self.target.poll_io() {
            let extent = |offset_bytes, length_bytes| Extent {
                offset_bytes,
                length_bytes,
            };
            let (extents, writes) = match &io.op {
                IoOp::Read {
                    offset_bytes,
                    length_bytes,
                    ..
                } => (vec![extent(*offset_bytes, u64::from(*length_bytes))], false),
                IoOp::Write {
                    offset_bytes, data, ..
                } => (vec![extent(*offset_bytes, data.len() as u64)], true),
                IoOp::Unmap { ranges } => (ranges.clone(), true),
                IoOp::WriteSame { range, .. } => (vec![*range], true),
                IoOp::Status { range, .. } => (vec![*range], false),
                IoOp::Flush | IoOp::Keep { .. } => (Vec::new(), false),
                // Of tape libraries, which this target does not have.
                IoOp::FlushPart { .. } | IoOp::Tape { .. } => panic!("{:?} of a disk", io.op),
            };
            let block = if io.lun == 1 { 4096 } else { 512 };
            assert!(io.lun <= 2);
            assert!(!writes || io.lun != 2, "a write to the write-protected LU");
            for Extent {
                offset_bytes: offset,
                length_bytes: length,
            } in extents
            {
                assert!(offset.is_multiple_of(block) && length.is_multiple_of(block));
                assert!(length > 0 && offset + length <= LU_BYTES);
            }
            self.held.push(io);
        }
        while self.target.poll_transmit().is_some() {}
        while let Some(closed) = self.target.poll_close() {
            for peer in &mut self.peers {
                peer.take_if(|peer| peer.connection == closed);
            }
        }
        self.target.visit_counters(&mut |_, name, value| {
            if name == "write_buffer_bytes_now" {
                assert!(
                    value <= WRITE_BUFFER_BYTES_MAX as f64,
                    "{value} bytes of write data are held"
                );
            }
        });
        assert!(self.target.sessions_now() <= 3);
    }
}

fuzz_target!(|input: &[u8]| {
    let mut scene = Scene::new(input.len() % 2 == 1);
    let mut input = Input(input);
    while !input.0.is_empty() {
        let step = input.byte();
        let slot = usize::from(step & 3);
        match step >> 2 & 15 {
            0 => scene.connect(slot),
            1 => {
                scene.connect(slot);
                scene.log_in(slot, input.byte());
            }
            2 => scene.log_in(slot, input.byte()),
            3 => {
                let length = usize::from(input.byte());
                scene.send(slot, input.take(length));
            }
            4 => {
                scene.time = scene.time + Duration::from_millis(u64::from(input.byte()) * 100);
                scene.target.handle_timeout(scene.time);
            }
            5 => scene.disconnect(slot),
            6 | 7 => scene.answer(input.byte()),
            8 => scene.transmit(slot, usize::from(input.byte()) * 7),
            9 => scene.transmit(slot, usize::MAX),
            _ => scene.send_pdu(slot, &mut input),
        }
        scene.settle();
    }
    // Once all initiators have disconnected, the target holds nothing for them.
    (0..4).for_each(|slot| scene.disconnect(slot));
    while !scene.held.is_empty() {
        scene.answer(0);
        scene.settle();
    }
    assert_eq!(scene.target.sessions_now(), 0);
    scene.target.visit_counters(&mut |_, name, value| {
        if name == "write_buffer_bytes_now" || name == "connections_now" {
            assert_eq!(value, 0.0, "{name} after all initiators have disconnected");
        }
    });
});
