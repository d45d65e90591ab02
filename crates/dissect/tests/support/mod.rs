//! A conversation written down by hand, and the packets it makes.
use hakaru_dissect::{Dissector, Link, Report};
use hakaru_units::Time;
use hakaru_wire::iscsi::digest::{emit_data_trailer, header_digest};
use hakaru_wire::iscsi::{
    BHS_LENGTH, Bhs, CmdSn, DataIn, DataInStatus, DataOut, Itt, LoginRequest, LoginResponse, R2t,
    ScsiCommand, ScsiResponse, Stage, StatSn, TargetNumbers, TaskAttribute, Ttt,
};

pub const MILLISECOND: u64 = 1_000_000;
const INITIATOR: ([u8; 4], u16) = ([10, 0, 0, 1], 40_001);

/// A packet as captured.
#[derive(Clone, Debug)]
pub struct Packet {
    pub at: Time,
    pub bytes: Vec<u8>,
    pub original_length: u32,
}

/// Who sends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum From {
    Initiator = 0,
    Target = 1,
}

/// What is said, when, by whom, cut into segments.
pub struct Talk {
    pub packets: Vec<Packet>,
    pub segment_bytes: usize,
    /// Header and data digests.
    pub digests: (bool, bool),
    port: u16,
    now: Time,
    sequence: [u32; 2],
}

impl Talk {
    /// Begins with TCP's handshake, 2 ms long.
    pub fn new(port: u16) -> Talk {
        let mut talk = Talk {
            packets: Vec::new(),
            segment_bytes: 1448,
            digests: (false, false),
            port,
            now: Time(1_700_000_000_000_000_000),
            // Near the wrap of both kinds.
            sequence: [u32::MAX - 500, (1 << 31) - 300],
        };
        talk.packet(From::Initiator, 0x02, &[]);
        talk.sequence[0] = talk.sequence[0].wrapping_add(1);
        talk.pass(2);
        talk.packet(From::Target, 0x12, &[]);
        talk.sequence[1] = talk.sequence[1].wrapping_add(1);
        talk.packet(From::Initiator, 0x10, &[]);
        talk
    }

    /// Time passes.
    pub fn pass(&mut self, ms: u64) {
        self.now.0 += ms * MILLISECOND;
    }

    /// Bytes of one side's stream.
    pub fn send(&mut self, from: From, bytes: &[u8]) {
        for segment in bytes.chunks(self.segment_bytes) {
            self.packet(from, 0x10, segment);
            let sequence = &mut self.sequence[from as usize];
            *sequence = sequence.wrapping_add(segment.len() as u32);
        }
    }

    /// An empty segment, with what was received.
    pub fn acknowledge(&mut self, from: From) {
        self.packet(from, 0x10, &[]);
    }

    fn packet(&mut self, from: From, flags: u8, payload: &[u8]) {
        let ends = [INITIATOR, ([10, 0, 0, 2], self.port)];
        let (own, peer) = (ends[from as usize], ends[1 - from as usize]);
        let mut ip = vec![0x45, 0];
        ip.extend_from_slice(&(40 + payload.len() as u16).to_be_bytes());
        ip.extend_from_slice(&[0, 0, 0x40, 0, 64, 6, 0, 0]);
        ip.extend_from_slice(&own.0);
        ip.extend_from_slice(&peer.0);
        ip.extend_from_slice(&own.1.to_be_bytes());
        ip.extend_from_slice(&peer.1.to_be_bytes());
        ip.extend_from_slice(&self.sequence[from as usize].to_be_bytes());
        let acknowledged = if flags == 0x02 {
            0
        } else {
            self.sequence[1 - from as usize]
        };
        ip.extend_from_slice(&acknowledged.to_be_bytes());
        ip.extend_from_slice(&[0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
        ip.extend_from_slice(payload);
        self.packets.push(Packet {
            at: self.now,
            original_length: ip.len() as u32,
            bytes: ip,
        });
    }

    /// A PDU of one side.
    pub fn pdu(&mut self, from: From, header: [u8; BHS_LENGTH], data: &[u8]) {
        let bytes = self.assemble(header, data);
        self.send(from, &bytes);
    }

    /// Its bytes, with digests if there are any.
    pub fn assemble(&self, header: [u8; BHS_LENGTH], data: &[u8]) -> Vec<u8> {
        assert_eq!(Bhs::new(header).data_segment_length() as usize, data.len());
        let mut bytes = header.to_vec();
        if self.digests.0 {
            bytes.extend_from_slice(&header_digest(&header));
        }
        bytes.extend_from_slice(data);
        if !data.is_empty() {
            emit_data_trailer(data, self.digests.1, &mut bytes);
        }
        bytes
    }

    /// A login of one exchange that takes 1 ms; `digests` are agreed on with it.
    pub fn log_in(&mut self, keys: &str, digests: (bool, bool)) {
        let crc = |on| if on { "CRC32C" } else { "None" };
        let names =
            "InitiatorName=iqn.2026-01.test:i\0TargetName=iqn.2026-01.test:t\0SessionType=Normal\0";
        let offers = format!(
            "{names}HeaderDigest=CRC32C,None\0DataDigest=CRC32C,None\0MaxRecvDataSegmentLength=262144\0{keys}"
        );
        let answer = format!(
            "TargetPortalGroupTag=1\0HeaderDigest={}\0DataDigest={}\0MaxRecvDataSegmentLength=8192\0{keys}",
            crc(digests.0),
            crc(digests.1)
        );
        let stages = (Stage::OperationalNegotiation, Some(Stage::FullFeaturePhase));
        let mut header = [0; BHS_LENGTH];
        LoginRequest {
            current_stage: stages.0,
            next_stage: stages.1,
            cmd_sn: CmdSn(1),
            data_segment_length: offers.len() as u32,
            ..LoginRequest::default()
        }
        .emit(&mut header);
        self.pdu(From::Initiator, header, offers.as_bytes());
        self.pass(1);
        LoginResponse {
            current_stage: stages.0,
            next_stage: stages.1,
            tsih: 1,
            numbers: numbers(),
            data_segment_length: answer.len() as u32,
            ..LoginResponse::default()
        }
        .emit(&mut header);
        self.pdu(From::Target, header, answer.as_bytes());
        self.digests = digests;
    }

    /// A write with an R2T for each `burst`: R2T 5 ms after the last data, data 1 ms after the R2T and for 2 ms, the response 3 ms after it.
    pub fn write(&mut self, itt: u32, length: u32, immediate: u32, burst: u32) {
        let data: Vec<u8> = (0..length).map(|at| (at * 7 + itt) as u8).collect();
        self.command(itt, length, immediate, true, &data[..immediate as usize]);
        let mut offset = immediate;
        let mut r2t_sn = 0;
        while offset < length {
            let end = length.min(offset + burst);
            self.pass(5);
            let mut header = [0; BHS_LENGTH];
            R2t {
                itt: Itt(itt),
                ttt: Ttt(itt << 8 | r2t_sn),
                numbers: numbers(),
                r2t_sn,
                buffer_offset: offset,
                desired_data_transfer_length: end - offset,
                ..R2t::default()
            }
            .emit(&mut header);
            self.pdu(From::Target, header, &[]);
            self.pass(1);
            self.data_out(itt, Ttt(itt << 8 | r2t_sn), &data, offset, end);
            (offset, r2t_sn) = (end, r2t_sn + 1);
        }
        self.pass(3);
        self.response(itt);
    }

    fn data_out(&mut self, itt: u32, ttt: Ttt, data: &[u8], mut offset: u32, end: u32) {
        // Handed over at once, so that segments do not end where PDUs do; two thirds of it 2 ms after the first.
        let mut bytes = Vec::new();
        let mut data_sn = 0;
        while offset < end {
            let length = (end - offset).min(8192);
            let mut header = [0; BHS_LENGTH];
            DataOut {
                is_final: offset + length == end,
                itt: Itt(itt),
                ttt,
                data_sn,
                exp_stat_sn: StatSn(100),
                buffer_offset: offset,
                data_segment_length: length,
                ..DataOut::default()
            }
            .emit(&mut header);
            bytes.extend(self.assemble(header, &data[offset as usize..(offset + length) as usize]));
            (offset, data_sn) = (offset + length, data_sn + 1);
        }
        let (first, rest) = bytes.split_at(bytes.len() / 3);
        self.send(From::Initiator, first);
        self.pass(2);
        self.send(From::Initiator, rest);
        self.acknowledge(From::Target);
    }

    fn command(&mut self, itt: u32, length: u32, immediate: u32, write: bool, data: &[u8]) {
        let mut cdb = [0; 16];
        cdb[0] = if write { 0x2a } else { 0x28 };
        let mut header = [0; BHS_LENGTH];
        ScsiCommand {
            immediate: false,
            is_final: true,
            read: !write,
            write,
            attribute: TaskAttribute::Simple,
            lun: Default::default(),
            itt: Itt(itt),
            expected_data_transfer_length: length,
            cmd_sn: CmdSn(itt),
            exp_stat_sn: StatSn(100),
            cdb,
            data_segment_length: immediate,
        }
        .emit(&mut header);
        self.pdu(From::Initiator, header, data);
    }

    /// A read whose data begins 4 ms after the command and takes 2 ms; the status is in the last Data-In, or in a response 1 ms later.
    pub fn read(&mut self, itt: u32, length: u32, status_in_data: bool) {
        self.command(itt, length, 0, false, &[]);
        self.pass(4);
        let mut bytes = Vec::new();
        let mut offset = 0;
        while offset < length {
            let part = (length - offset).min(8192);
            let last = offset + part == length;
            let mut header = [0; BHS_LENGTH];
            DataIn {
                is_final: last,
                status: (last && status_in_data).then(DataInStatus::default),
                itt: Itt(itt),
                ttt: Ttt::RESERVED,
                numbers: numbers(),
                buffer_offset: offset,
                data_segment_length: part,
                ..DataIn::default()
            }
            .emit(&mut header);
            // Zeros, as data mostly is: no header must be found in them.
            bytes.extend(self.assemble(header, &vec![0; part as usize]));
            offset += part;
        }
        let (first, rest) = bytes.split_at(bytes.len() / 2);
        self.send(From::Target, first);
        self.pass(2);
        self.send(From::Target, rest);
        self.acknowledge(From::Initiator);
        if !status_in_data {
            self.pass(1);
            self.response(itt);
        }
    }

    fn response(&mut self, itt: u32) {
        let mut header = [0; BHS_LENGTH];
        ScsiResponse {
            itt: Itt(itt),
            numbers: numbers(),
            ..ScsiResponse::default()
        }
        .emit(&mut header);
        self.pdu(From::Target, header, &[]);
    }

    /// The packets as a snap length leaves them, bytes of IP.
    pub fn snapped(&self, bytes: usize) -> Vec<Packet> {
        let mut packets = self.packets.clone();
        for packet in &mut packets {
            packet.bytes.truncate(bytes);
        }
        packets
    }
}

fn numbers() -> TargetNumbers {
    TargetNumbers {
        stat_sn: StatSn(100),
        exp_cmd_sn: CmdSn(7),
        max_cmd_sn: CmdSn(70),
    }
}

/// What is made of packets.
pub fn dissect(packets: &[Packet]) -> Report {
    let mut dissector = Dissector::new(&[3260]);
    for packet in packets {
        dissector.handle_packet(packet.at, Link::Ip, &packet.bytes, packet.original_length);
    }
    dissector.finish()
}
