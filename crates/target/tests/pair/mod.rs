//! A target and scripted initiators in one thread: real PDU bytes, literal time, LUs in plain vectors.
#![allow(dead_code)] // Each test binary uses a part of it.

pub mod control;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use hakaru_target::{
    ConnectionId, Extent, Io, IoOp, IoResult, LuDescription, Segment, Target, TargetConfig, Thin,
};
use hakaru_units::Time;
use hakaru_wire::iscsi::digest::{emit_data_trailer, header_digest};
use hakaru_wire::iscsi::frame::{Frame, Framer};
use hakaru_wire::iscsi::text::{emit_pair, parse_pairs};
use hakaru_wire::iscsi::{
    Bhs, CmdSn, DataIn, DataOut, Isid, Itt, LoginRequest, LoginResponse, LoginStatus, Lun, Opcode,
    R2t, Residual, ScsiCommand, ScsiResponse, Stage, StatSn, TaskAttribute, Ttt,
};
use hakaru_wire::scsi::{Cdb, Sense};

pub const TARGET: &str = "iqn.2026-01.net.example:array";
pub const INITIATOR: &str = "iqn.2026-01.net.example:vm1";
/// Size of LU 0 and LU 5 (4096-byte blocks).
pub const LU_BYTES: usize = 1 << 20;

/// LUs larger than this have no bytes: a test that has one answers its accesses itself.
const SIZE_BYTES_MAX: u64 = 1 << 30;

/// A PDU that came from the target.
#[derive(Clone, Debug)]
pub struct Pdu {
    pub bhs: Bhs,
    pub data: Vec<u8>,
}

impl Pdu {
    pub fn opcode(&self) -> Opcode {
        self.bhs.opcode().expect("a known opcode")
    }
}

pub fn config() -> TargetConfig {
    let mut four_k = LuDescription::new(5, LU_BYTES as u64);
    four_k.block_bytes = 4096;
    four_k.write_cache = true;
    let mut read_only = LuDescription::new(7, LU_BYTES as u64);
    read_only.read_only = true;
    TargetConfig {
        target_name: TARGET.to_owned(),
        portals: vec![
            "10.0.0.1:3260".parse().unwrap(),
            "0.0.0.0:3261".parse().unwrap(),
        ],
        lus: vec![LuDescription::new(0, LU_BYTES as u64), four_k, read_only],
        access: hakaru_target::Access::default(),
        limits: hakaru_target::Limits::default(),
    }
}

/// The same with LU 3: thin, open to SANITIZE and to WRITE ATOMIC of 64 KiB, and removable.
pub fn config_with_thin_lu() -> TargetConfig {
    let mut config = config();
    let mut thin = LuDescription::new(3, LU_BYTES as u64);
    thin.thin = Some(Thin { page_bytes: 4096 });
    thin.sanitize = true;
    thin.removable = true;
    thin.atomic_bytes = 64 << 10;
    config.lus.push(thin);
    config
}

/// The target with its storage and the far ends of its connections.
pub struct Pair {
    pub target: Target,
    pub time: Time,
    pub lus: HashMap<u8, Vec<u8>>,
    /// The storage keeps what it is asked until `release`.
    pub stalled: bool,
    pub held: Vec<Io>,
    /// Reads are answered with a copy even where they could be in place.
    pub copy: bool,
    /// Blocks of 512 bytes that were given back.
    pub unmapped: Unmapped,
    /// Reservations that were to be kept.
    pub kept: HashMap<u8, Vec<u8>>,
    /// Most bytes the "kernel" takes at once.
    pub write_max: usize,
    /// The kernel takes nothing from these.
    pub blocked: HashSet<ConnectionId>,
    sent: HashMap<ConnectionId, Vec<u8>>,
    closed: HashSet<ConnectionId>,
}

impl Pair {
    pub fn new() -> Pair {
        Pair::with(config())
    }

    pub fn with(config: TargetConfig) -> Pair {
        let lus = config
            .lus
            .iter()
            .filter(|lu| lu.size_bytes <= SIZE_BYTES_MAX)
            .map(|lu| (lu.lun, vec![0; lu.size_bytes as usize]))
            .collect();
        Pair {
            target: Target::with_entropy(config, counting()),
            time: Time(1_000_000_000),
            lus,
            stalled: false,
            held: Vec::new(),
            copy: false,
            unmapped: Unmapped::default(),
            kept: HashMap::new(),
            write_max: usize::MAX,
            blocked: HashSet::new(),
            sent: HashMap::new(),
            closed: HashSet::new(),
        }
    }

    pub fn connect(&mut self) -> ConnectionId {
        self.try_connect().expect("a connection is accepted")
    }

    pub fn try_connect(&mut self) -> Option<ConnectionId> {
        self.try_connect_from("10.0.0.9:40000")
    }

    pub fn try_connect_from(&mut self, peer: &str) -> Option<ConnectionId> {
        let local = "10.0.0.1:3260".parse().unwrap();
        self.target
            .handle_connected(self.time, 0, local, peer.parse().unwrap())
    }

    /// Bytes of an initiator reach the target, and everything that follows happens.
    pub fn send(&mut self, connection: ConnectionId, bytes: &[u8]) {
        self.target.handle_received(self.time, connection, bytes);
        self.run();
    }

    pub fn advance(&mut self, seconds: f64) {
        // In steps, as a shell that keeps the deadlines does.
        let end = self.time + Duration::from_secs_f64(seconds);
        while let Some(at) = self.target.poll_timeout().filter(|at| *at <= end) {
            self.time = at.max(self.time);
            self.target.handle_timeout(self.time);
            self.run();
        }
        self.time = end;
    }

    pub fn run(&mut self) {
        loop {
            let mut worked = false;
            while let Some(io) = self.target.poll_io() {
                worked = true;
                if self.stalled {
                    self.held.push(io);
                } else {
                    self.serve(io);
                }
            }
            while let Some(connection) = self.target.poll_transmit() {
                worked = true;
                self.take(connection);
            }
            if !worked {
                break;
            }
        }
        while let Some(connection) = self.target.poll_close() {
            self.closed.insert(connection);
        }
    }

    /// The storage goes on.
    pub fn release(&mut self) {
        self.stalled = false;
        for io in std::mem::take(&mut self.held) {
            self.serve(io);
        }
        self.run();
    }

    /// The storage does the first access that it keeps.
    pub fn release_one(&mut self) {
        let io = self.held.remove(0);
        self.serve(io);
        self.run();
    }

    /// Nothing came from the target since `received`.
    pub fn received_nothing(&self, connection: ConnectionId) -> bool {
        self.sent.get(&connection).is_none_or(Vec::is_empty)
    }

    fn serve(&mut self, io: Io) {
        let lu = self.lus.get_mut(&io.lun).expect("an LU there is");
        let result = match io.op {
            IoOp::Read { in_place: true, .. } if !self.copy => IoResult::ReadInPlace,
            IoOp::Read {
                offset_bytes,
                length_bytes,
                ..
            } => {
                let mut data = self.target.take_buffer(length_bytes as usize);
                data.extend_from_slice(&lu[offset_bytes as usize..][..length_bytes as usize]);
                IoResult::ReadData(data)
            }
            IoOp::Write {
                offset_bytes, data, ..
            } => {
                let range = Extent {
                    offset_bytes,
                    length_bytes: data.len() as u64,
                };
                self.unmapped.set(io.lun, range, false);
                lu[span(range)].copy_from_slice(&data);
                IoResult::Written(data)
            }
            IoOp::Flush => IoResult::Flushed,
            IoOp::Unmap { ranges } => {
                for range in ranges {
                    self.unmapped.set(io.lun, range, true);
                    lu[span(range)].fill(0);
                }
                IoResult::Done
            }
            IoOp::WriteSame {
                range,
                block,
                unmap,
                ..
            } => {
                assert!(!unmap || block.iter().all(|byte| *byte == 0));
                self.unmapped.set(io.lun, range, unmap);
                for part in lu[span(range)].chunks_mut(block.len()) {
                    part.copy_from_slice(&block);
                }
                IoResult::Done
            }
            IoOp::Status { range, extents_max } => {
                IoResult::Provisioned(self.unmapped.status(io.lun, range, extents_max))
            }
            IoOp::Keep { record } => {
                self.kept.insert(io.lun, record);
                IoResult::Done
            }
        };
        self.target.handle_io_done(self.time, io.id, result);
    }

    /// The kernel takes what is queued.
    fn take(&mut self, connection: ConnectionId) {
        while !self.blocked.contains(&connection) && !self.target.transmit(connection).is_empty() {
            let mut bytes = Vec::new();
            for segment in self.target.transmit(connection).segments() {
                match segment {
                    Segment::Bytes(part) => bytes.extend_from_slice(part),
                    Segment::Lu {
                        lun,
                        offset_bytes,
                        length_bytes,
                    } => {
                        bytes.extend_from_slice(
                            &self.lus[&lun][offset_bytes as usize..][..length_bytes as usize],
                        );
                    }
                }
            }
            bytes.truncate(self.write_max);
            let lus = &self.lus;
            let mut read_lu = |lun: u8, offset: u64, out: &mut [u8]| {
                out.copy_from_slice(&lus[&lun][offset as usize..][..out.len()]);
            };
            self.target
                .handle_transmitted(self.time, connection, bytes.len(), &mut read_lu);
            self.sent
                .entry(connection)
                .or_default()
                .extend_from_slice(&bytes);
        }
    }

    pub fn unblock(&mut self, connection: ConnectionId) {
        self.blocked.remove(&connection);
        self.take(connection);
        self.run();
    }

    /// Raw bytes that came from the target since the last call.
    pub fn received(&mut self, connection: ConnectionId) -> Vec<u8> {
        self.sent.remove(&connection).unwrap_or_default()
    }

    pub fn is_closed(&self, connection: ConnectionId) -> bool {
        self.closed.contains(&connection)
    }

    pub fn counter(&self, entity: &str, name: &str) -> f64 {
        let mut found = None;
        self.target.visit_counters(&mut |e, n, value| {
            if (e, n) == (entity, name) {
                found = Some(value);
            }
        });
        found.unwrap_or_else(|| panic!("no counter {entity} {name}"))
    }

    /// Logs in a normal session with these operational keys besides its names.
    pub fn log_in(&mut self, keys: &[(&str, &str)]) -> Initiator {
        self.log_in_as(INITIATOR, 1, keys)
    }

    pub fn log_in_as(&mut self, name: &str, isid: u32, keys: &[(&str, &str)]) -> Initiator {
        let connection = self.connect();
        let mut initiator = Initiator::new(connection, isid);
        let mut text = names(name);
        keys.iter()
            .for_each(|(key, value)| emit_pair(&mut text, key, value));
        let answer = initiator.login(
            self,
            Stage::OperationalNegotiation,
            Some(Stage::FullFeaturePhase),
            &text,
        );
        assert_eq!(answer.0.status, LoginStatus::SUCCESS, "{:?}", answer.1);
        let agreed = |key: &str| answer.1.iter().any(|(k, v)| k == key && v == "CRC32C");
        initiator.set_digests(agreed("HeaderDigest"), agreed("DataDigest"));
        initiator.tsih = answer.0.tsih;
        initiator
    }
}

fn span(range: Extent) -> std::ops::Range<usize> {
    range.offset_bytes as usize..(range.offset_bytes + range.length_bytes) as usize
}

/// What was given back and not written since, by LU and block of 512 bytes.
#[derive(Debug, Default)]
pub struct Unmapped(HashSet<(u8, u64)>);

impl Unmapped {
    fn set(&mut self, lun: u8, range: Extent, unmapped: bool) {
        let first = range.offset_bytes / 512;
        for block in first..first + range.length_bytes / 512 {
            if unmapped {
                self.0.insert((lun, block));
            } else {
                self.0.remove(&(lun, block));
            }
        }
    }

    fn status(&self, lun: u8, range: Extent, extents_max: usize) -> Vec<(Extent, bool)> {
        let mut extents: Vec<(Extent, bool)> = Vec::new();
        let first = range.offset_bytes / 512;
        for block in first..first + range.length_bytes / 512 {
            let mapped = !self.0.contains(&(lun, block));
            let full = extents.len() == extents_max;
            match extents.last_mut() {
                Some((extent, last)) if *last == mapped => extent.length_bytes += 512,
                _ if full => break,
                _ => {
                    let extent = Extent {
                        offset_bytes: block * 512,
                        length_bytes: 512,
                    };
                    extents.push((extent, mapped));
                }
            }
        }
        extents
    }
}

/// Bytes that never come twice in a test, and are the same each time it runs.
fn counting() -> hakaru_target::Entropy {
    let mut drawn = 0u64;
    Box::new(move |out| {
        drawn += 1;
        for (at, byte) in out.iter_mut().enumerate() {
            *byte = drawn.to_be_bytes()[at % 8] ^ at as u8;
        }
    })
}

pub fn names(initiator: &str) -> Vec<u8> {
    let mut text = Vec::new();
    emit_pair(&mut text, "InitiatorName", initiator);
    emit_pair(&mut text, "SessionType", "Normal");
    emit_pair(&mut text, "TargetName", TARGET);
    text
}

pub type Keys = Vec<(String, String)>;

/// The initiator's end of one connection: its numbers and digests, and nothing clever.
pub struct Initiator {
    pub connection: ConnectionId,
    pub isid: Isid,
    pub tsih: u16,
    pub cmd_sn: u32,
    pub itt: u32,
    pub exp_stat_sn: StatSn,
    pub header_digest: bool,
    pub data_digest: bool,
    framer: Framer,
}

impl Initiator {
    pub fn new(connection: ConnectionId, isid: u32) -> Initiator {
        Initiator {
            connection,
            isid: Isid::random(isid, 0),
            tsih: 0,
            cmd_sn: 1,
            itt: 100,
            exp_stat_sn: StatSn(0),
            header_digest: false,
            data_digest: false,
            framer: Framer::new((1 << 24) - 1),
        }
    }

    pub fn set_digests(&mut self, header: bool, data: bool) {
        (self.header_digest, self.data_digest) = (header, data);
        self.framer.set_digests(header, data);
    }

    /// A whole PDU with padding and digests.
    pub fn pdu(&self, header: &[u8; 48], data: &[u8]) -> Vec<u8> {
        let mut out = header.to_vec();
        if self.header_digest {
            out.extend_from_slice(&header_digest(header));
        }
        if !data.is_empty() {
            out.extend_from_slice(data);
            emit_data_trailer(data, self.data_digest, &mut out);
        }
        out
    }

    pub fn send(&mut self, pair: &mut Pair, header: &[u8; 48], data: &[u8]) {
        let bytes = self.pdu(header, data);
        pair.send(self.connection, &bytes);
    }

    /// Every PDU that came whole since the last call.
    pub fn receive(&mut self, pair: &mut Pair) -> Vec<Pdu> {
        let bytes = pair.received(self.connection);
        let mut input = &bytes[..];
        let mut pdus: Vec<Pdu> = Vec::new();
        while let Some(frame) = self
            .framer
            .next(&mut input)
            .expect("the target's stream is in order")
        {
            match frame {
                Frame::Header { bhs, ahs } => {
                    assert!(ahs.is_empty());
                    pdus.push(Pdu {
                        bhs,
                        data: Vec::new(),
                    });
                }
                Frame::Data { bytes, .. } => pdus
                    .last_mut()
                    .expect("a header came")
                    .data
                    .extend_from_slice(bytes),
                Frame::End { data_digest_ok } => {
                    assert!(data_digest_ok, "the target's digest is right")
                }
            }
        }
        for pdu in &pdus {
            self.check_stat_sn(pdu);
        }
        pdus
    }

    /// StatSN advances by one with every status, and only then.
    fn check_stat_sn(&mut self, pdu: &Pdu) {
        let b = pdu.bhs.as_bytes();
        let stat_sn = StatSn(u32::from_be_bytes([b[24], b[25], b[26], b[27]]));
        let status = match pdu.opcode() {
            Opcode::DataIn => b[1] & 1 != 0,
            Opcode::R2t => false,
            Opcode::NopIn => pdu.bhs.itt() != Itt::RESERVED,
            _ => true,
        };
        if status {
            if self.exp_stat_sn != StatSn(0) {
                assert_eq!(stat_sn, self.exp_stat_sn, "{pdu:?}");
            }
            self.exp_stat_sn = stat_sn.plus(1);
        }
    }

    pub fn receive_one(&mut self, pair: &mut Pair) -> Pdu {
        let mut pdus = self.receive(pair);
        assert_eq!(pdus.len(), 1, "{pdus:#?}");
        pdus.remove(0)
    }

    pub fn login_request(&self, stage: Stage, next: Option<Stage>) -> LoginRequest {
        LoginRequest {
            current_stage: stage,
            next_stage: next,
            isid: self.isid,
            tsih: self.tsih,
            itt: Itt(1),
            cid: 1,
            cmd_sn: CmdSn(self.cmd_sn),
            ..LoginRequest::default()
        }
    }

    /// One login exchange: the response and its keys.
    pub fn login(
        &mut self,
        pair: &mut Pair,
        stage: Stage,
        next: Option<Stage>,
        text: &[u8],
    ) -> (LoginResponse, Keys) {
        let request = LoginRequest {
            data_segment_length: text.len() as u32,
            ..self.login_request(stage, next)
        };
        self.login_with(pair, request, text)
    }

    pub fn login_with(
        &mut self,
        pair: &mut Pair,
        request: LoginRequest,
        text: &[u8],
    ) -> (LoginResponse, Keys) {
        let mut header = [0; 48];
        request.emit(&mut header);
        self.send(pair, &header, text);
        let pdu = self.receive_one(pair);
        (
            LoginResponse::parse(&pdu.bhs).expect("a login response"),
            keys_of(&pdu.data),
        )
    }

    /// The next command's header; `bytes`: expected data transfer length.
    pub fn command(
        &mut self,
        lun: u8,
        cdb: &[u8],
        read: bool,
        write: bool,
        bytes: u32,
    ) -> ScsiCommand {
        let mut padded = [0; 16];
        padded[..cdb.len()].copy_from_slice(cdb);
        self.itt += 1;
        self.cmd_sn = self.cmd_sn.wrapping_add(1);
        ScsiCommand {
            immediate: false,
            is_final: true,
            read,
            write,
            attribute: TaskAttribute::Simple,
            lun: Lun::new(lun.into()),
            itt: Itt(self.itt),
            expected_data_transfer_length: bytes,
            cmd_sn: CmdSn(self.cmd_sn.wrapping_sub(1)),
            exp_stat_sn: self.exp_stat_sn,
            cdb: padded,
            data_segment_length: 0,
        }
    }

    pub fn send_command(&mut self, pair: &mut Pair, command: &ScsiCommand, data: &[u8]) {
        let mut header = [0; 48];
        ScsiCommand {
            data_segment_length: data.len() as u32,
            ..*command
        }
        .emit(&mut header);
        self.send(pair, &header, data);
    }

    pub fn send_data_out(&mut self, pair: &mut Pair, pdu: DataOut, data: &[u8]) {
        let mut header = [0; 48];
        DataOut {
            data_segment_length: data.len() as u32,
            exp_stat_sn: self.exp_stat_sn,
            ..pdu
        }
        .emit(&mut header);
        self.send(pair, &header, data);
    }

    /// A command without data to the target, to its end.
    pub fn run(&mut self, pair: &mut Pair, lun: u8, cdb: &[u8], expected: u32) -> Answer {
        let command = self.command(lun, cdb, expected > 0, false, expected);
        self.send_command(pair, &command, &[]);
        Answer::of(self.receive(pair), command.itt)
    }

    /// A command with data to the target, to its end: as much of it as may be at once, the rest as it is asked for.
    pub fn run_out(&mut self, pair: &mut Pair, lun: u8, cdb: &[u8], data: &[u8]) -> Answer {
        let command = self.begin_out(pair, lun, cdb, data);
        self.finish_out(pair, &command, data)
    }

    /// Sends a command with its immediate data.
    pub fn begin_out(&mut self, pair: &mut Pair, lun: u8, cdb: &[u8], data: &[u8]) -> ScsiCommand {
        const FIRST_BURST_BYTES: usize = 65_536;
        let command = self.command(lun, cdb, false, !data.is_empty(), data.len() as u32);
        let immediate = &data[..data.len().min(FIRST_BURST_BYTES)];
        self.send_command(pair, &command, immediate);
        command
    }

    /// Answers R2Ts until the command is answered.
    pub fn finish_out(&mut self, pair: &mut Pair, command: &ScsiCommand, data: &[u8]) -> Answer {
        loop {
            let pdus = self.receive(pair);
            if pdus.first().is_none_or(|pdu| pdu.opcode() != Opcode::R2t) {
                return Answer::of(pdus, command.itt);
            }
            for r2t in pdus.iter().map(r2t_of) {
                let start = r2t.buffer_offset as usize;
                let part = &data[start..][..r2t.desired_data_transfer_length as usize];
                for (number, piece) in part.chunks(65_536).enumerate() {
                    let offset = number * 65_536;
                    let pdu = DataOut {
                        is_final: offset + piece.len() == part.len(),
                        data_sn: number as u32,
                        buffer_offset: r2t.buffer_offset + offset as u32,
                        ..answer_to(&r2t)
                    };
                    self.send_data_out(pair, pdu, piece);
                }
            }
        }
    }

    pub fn run_cdb(&mut self, pair: &mut Pair, lun: u8, cdb: Cdb, expected: u32) -> Answer {
        self.run(pair, lun, &cdb.emit(), expected)
    }
}

pub fn keys_of(text: &[u8]) -> Keys {
    parse_pairs(text)
        .map(|pair| {
            pair.map(|(k, v)| (k.to_owned(), v.to_owned()))
                .expect("well-formed text")
        })
        .collect()
}

pub fn value<'a>(keys: &'a Keys, key: &str) -> Option<&'a str> {
    keys.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u8,
    pub sense: Option<Sense>,
    pub residual: Residual,
    pub data: Vec<u8>,
    pub data_in_pdus: usize,
}

impl Answer {
    /// Puts Data-In PDUs and status together, checking their numbers and offsets.
    pub fn of(pdus: Vec<Pdu>, itt: Itt) -> Answer {
        let mut answer = Answer {
            status: 0xff,
            sense: None,
            residual: Residual::None,
            data: Vec::new(),
            data_in_pdus: 0,
        };
        for pdu in pdus {
            assert_eq!(pdu.bhs.itt(), itt, "{pdu:?}");
            assert_eq!(answer.status, 0xff, "nothing comes after the status");
            match pdu.opcode() {
                Opcode::DataIn => {
                    let data_in = DataIn::parse(&pdu.bhs).unwrap();
                    assert_eq!(data_in.data_sn as usize, answer.data_in_pdus);
                    assert_eq!(data_in.buffer_offset as usize, answer.data.len());
                    answer.data_in_pdus += 1;
                    answer.data.extend_from_slice(&pdu.data);
                    if let Some(status) = data_in.status {
                        (answer.status, answer.residual) = (status.status, status.residual);
                    }
                }
                Opcode::ScsiResponse => {
                    let response = ScsiResponse::parse(&pdu.bhs).unwrap();
                    (answer.status, answer.residual) = (response.status, response.residual);
                    answer.sense = Sense::parse_response_data(&pdu.data);
                }
                other => panic!("{other:?} is no answer to a command: {pdu:?}"),
            }
        }
        assert_ne!(answer.status, 0xff, "the command was answered");
        answer
    }

    /// The sense data without what points at a field.
    pub fn sense(&self) -> Sense {
        assert_eq!(self.status, 2, "{self:?}");
        let sense = self.sense.expect("CHECK CONDITION has sense data");
        Sense {
            information: None,
            field: None,
            ..sense
        }
    }

    pub fn good(self) -> Vec<u8> {
        assert_eq!(self.status, 0, "{self:?}");
        self.data
    }
}

pub fn r2t_of(pdu: &Pdu) -> R2t {
    R2t::parse(&pdu.bhs).unwrap_or_else(|error| panic!("{error}: {pdu:?}"))
}

/// The Data-Out PDU that answers an R2T whole.
pub fn answer_to(r2t: &R2t) -> DataOut {
    DataOut {
        is_final: true,
        lun: r2t.lun,
        itt: r2t.itt,
        ttt: r2t.ttt,
        buffer_offset: r2t.buffer_offset,
        ..DataOut::default()
    }
}

/// Unsolicited data.
pub fn unsolicited(command: &ScsiCommand, offset: u32, data_sn: u32, is_final: bool) -> DataOut {
    DataOut {
        is_final,
        itt: command.itt,
        ttt: Ttt::RESERVED,
        buffer_offset: offset,
        data_sn,
        ..DataOut::default()
    }
}

/// Bytes that differ from place to place.
pub fn pattern(length: usize, seed: u8) -> Vec<u8> {
    (0..length)
        .map(|i| (i as u32).wrapping_mul(2_654_435_761).to_be_bytes()[0] ^ seed)
        .collect()
}
