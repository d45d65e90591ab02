//! A scripted conversation, its packets, and the right times of its commands.
#![allow(dead_code, reason = "each test crate uses a part of it")]

pub mod truth;

use hakaru_dissect::{Dissector, Link, Report};
use hakaru_units::Time;
use hakaru_wire::iscsi::digest::{emit_data_trailer, header_digest};
use hakaru_wire::iscsi::{
    BHS_LENGTH, Bhs, CmdSn, DataIn, DataInStatus, DataOut, Itt, LoginRequest, LoginResponse, R2t,
    ScsiCommand, ScsiResponse, Stage, StatSn, TargetNumbers, TaskAttribute, Ttt,
};
use truth::{Known, Place};

pub const MILLISECOND: u64 = 1_000_000;
/// Maximum length of a data segment of either side, bytes.
const DATA_SEGMENT: u32 = 8192;

/// A packet as captured.
#[derive(Clone, Debug)]
pub struct Packet {
    pub at: Time,
    pub bytes: Vec<u8>,
    pub original_length: u32,
    pub from: From,
    /// Offset of the payload in the sender's stream, bytes.
    pub place: u64,
    /// Length of the payload, bytes.
    pub payload: u64,
}

/// The sender of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    Initiator = 0,
    Target = 1,
}

/// A conversation, divided into segments.
pub struct Talk {
    pub packets: Vec<Packet>,
    /// Commands of the conversation.
    pub known: Vec<Known>,
    pub segment_bytes: usize,
    /// Use of header and data digests.
    pub digests: (bool, bool),
    /// Time between packets sent back to back, ns.
    pub gap_ns: u64,
    /// TCP options of every packet.
    pub options: Vec<u8>,
    ports: [u16; 2],
    now: Time,
    /// Sequence number of the first byte of each stream.
    first: [u32; 2],
    /// Bytes sent in each stream.
    sent: [u64; 2],
    stat_sn: u32,
    cmd_sn: u32,
    identification: u16,
}

impl Talk {
    /// Creates a conversation that begins with a TCP handshake of 2 ms.
    pub fn new(port: u16) -> Talk {
        Talk::between([40_001, port], 0)
    }

    /// Like [`Talk::new`], between these ports and with `gap_ns` between packets.
    pub fn between(ports: [u16; 2], gap_ns: u64) -> Talk {
        // Sequence numbers shortly before the wrap and before the sign changes.
        let first = [u32::MAX - 500, (1 << 31) - 300];
        Talk::begin(ports, gap_ns, Time(1_700_000_000_000_000_000), first)
    }

    /// Begins another connection of the same ports a second later, whose sequence numbers begin
    /// `ahead` behind the last ones of this.
    pub fn reconnected(&self, ahead: u32) -> Talk {
        let next = |end: usize| self.first[end].wrapping_add(self.sent[end] as u32);
        let first = [next(0).wrapping_add(ahead), next(1).wrapping_add(ahead)];
        let now = Time(self.now.0 + 1000 * MILLISECOND);
        Talk::begin(self.ports, self.gap_ns, now, first)
    }

    fn begin(ports: [u16; 2], gap_ns: u64, now: Time, first: [u32; 2]) -> Talk {
        let mut talk = Talk {
            packets: Vec::new(),
            known: Vec::new(),
            segment_bytes: 1448,
            digests: (false, false),
            gap_ns,
            options: Vec::new(),
            ports,
            now,
            first,
            sent: [0; 2],
            stat_sn: 100,
            cmd_sn: 7,
            identification: 0,
        };
        talk.packet(From::Initiator, 0x02, &[]);
        talk.pass(2);
        talk.packet(From::Target, 0x12, &[]);
        talk.packet(From::Initiator, 0x10, &[]);
        talk
    }

    /// Advances the time.
    pub fn pass(&mut self, ms: u64) {
        self.now.0 += ms * MILLISECOND;
    }

    /// Sends bytes of one side's stream, in segments.
    pub fn send(&mut self, from: From, bytes: &[u8]) {
        for segment in bytes.chunks(self.segment_bytes) {
            self.packet(from, 0x18, segment);
            self.sent[from as usize] += segment.len() as u64;
        }
    }

    /// Sends an empty segment that acknowledges all received bytes.
    pub fn acknowledge(&mut self, from: From) {
        self.packet(from, 0x10, &[]);
    }

    fn packet(&mut self, from: From, flags: u8, payload: &[u8]) {
        let (own, peer) = (from as usize, 1 - from as usize);
        let syn = flags & 0x02 != 0;
        let header = 20 + self.options.len();
        self.identification = self.identification.wrapping_add(1);
        let mut ip = vec![0x45, 0];
        ip.extend_from_slice(&((20 + header + payload.len()) as u16).to_be_bytes());
        ip.extend_from_slice(&self.identification.to_be_bytes());
        ip.extend_from_slice(&[0x40, 0, 64, 6, 0, 0]);
        for end in [own, peer] {
            ip.extend_from_slice(&[10, 0, 0, 1 + end as u8]);
        }
        for end in [own, peer] {
            ip.extend_from_slice(&self.ports[end].to_be_bytes());
        }
        let number = |end: usize| self.first[end].wrapping_add(self.sent[end] as u32);
        let sequence = number(own).wrapping_sub(u32::from(syn));
        ip.extend_from_slice(&sequence.to_be_bytes());
        let acknowledged = if flags == 0x02 { 0 } else { number(peer) };
        ip.extend_from_slice(&acknowledged.to_be_bytes());
        ip.extend_from_slice(&[(header << 2) as u8, flags, 0xff, 0xff, 0, 0, 0, 0]);
        ip.extend_from_slice(&self.options);
        ip.extend_from_slice(payload);
        self.packets.push(Packet {
            at: self.now,
            original_length: ip.len() as u32,
            bytes: ip,
            from,
            place: self.sent[own],
            payload: payload.len() as u64,
        });
        self.now.0 += self.gap_ns;
    }

    /// Retransmits the segment of `from` that lies `back` segments before its newest one. The
    /// retransmission arrives.
    pub fn retransmit(&mut self, from: From, back: usize) {
        let mine = self.packets.iter().rev();
        let mut packet = mine
            .filter(|packet| packet.from == from && packet.payload > 0)
            .nth(back)
            .unwrap()
            .clone();
        self.identification = self.identification.wrapping_add(1);
        packet.bytes[4..6].copy_from_slice(&self.identification.to_be_bytes());
        packet.at = self.now;
        self.packets.push(packet);
        self.now.0 += self.gap_ns;
    }

    /// Removes the segment of `from` that lies `back` segments before its newest one, as if it was
    /// lost before the place of capture.
    pub fn lose(&mut self, from: From, back: usize) {
        let mine = (0..self.packets.len()).rev();
        let lost = mine
            .filter(|&at| self.packets[at].from == from && self.packets[at].payload > 0)
            .nth(back);
        self.packets.remove(lost.unwrap());
    }

    /// Sends a PDU of one side. Returns the ends of its header and of the PDU.
    pub fn pdu(&mut self, from: From, header: [u8; BHS_LENGTH], data: &[u8]) -> [Place; 2] {
        let places = self.places(from, 0, data.len());
        let bytes = self.assemble(header, data);
        self.send(from, &bytes);
        places
    }

    /// Returns the ends of header and PDU, for a PDU that begins `offset` bytes after the bytes
    /// sent so far.
    fn places(&self, from: From, offset: usize, data: usize) -> [Place; 2] {
        let digest = |in_use: bool| if in_use { 4 } else { 0 };
        let header = BHS_LENGTH + digest(self.digests.0);
        let trailer = if data > 0 { digest(self.digests.1) } else { 0 };
        let begin = self.sent[from as usize] + offset as u64;
        let header = begin + header as u64;
        let end = header + (data.next_multiple_of(4) + trailer) as u64;
        [header, end].map(|end| Place { from, end })
    }

    /// Returns the bytes of a PDU, with digests if they are in use.
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

    /// Performs a login of one exchange, which takes 1 ms and negotiates `digests`.
    pub fn log_in(&mut self, keys: &str, digests: (bool, bool)) {
        let crc = |in_use| if in_use { "CRC32C" } else { "None" };
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
            cmd_sn: CmdSn(self.cmd_sn),
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
            numbers: self.status_numbers(),
            data_segment_length: answer.len() as u32,
            ..LoginResponse::default()
        }
        .emit(&mut header);
        self.pdu(From::Target, header, answer.as_bytes());
        self.digests = digests;
    }

    /// Performs a write with an R2T for each `burst` bytes. An R2T follows the previous data after
    /// 5 ms, its data begins after 1 ms and takes 2 ms, and the response follows the last data
    /// after 3 ms.
    pub fn write(&mut self, itt: u32, length: u32, immediate: u32, burst: u32) {
        self.write_unsolicited(itt, length, immediate, 0, burst);
    }

    /// Like [`Talk::write`], with `unsolicited` bytes in Data-Out PDUs after the immediate data.
    pub fn write_unsolicited(
        &mut self,
        itt: u32,
        length: u32,
        immediate: u32,
        unsolicited: u32,
        burst: u32,
    ) {
        let data: Vec<u8> = (0..length).map(|at| (at * 7 + itt) as u8).collect();
        let [begin, end] = self.command(
            itt,
            length,
            unsolicited == 0,
            true,
            &data[..immediate as usize],
        );
        let mut phases = Vec::new();
        let mut offset = immediate + unsolicited;
        if unsolicited > 0 {
            let [_, end] = self.data_out(itt, Ttt::RESERVED, &data, immediate, offset);
            phases.push(("data_transfer", end));
        } else if immediate > 0 {
            phases.push(("data_transfer", end));
        }
        let mut r2t_sn = 0;
        while offset < length {
            let end = length.min(offset + burst);
            self.pass(5);
            let ttt = Ttt(itt << 8 | r2t_sn);
            let [_, r2t_end] = self.r2t(itt, ttt, r2t_sn, offset, end - offset);
            phases.push(("wait_r2t", r2t_end));
            self.pass(1);
            let [first, last] = self.data_out(itt, ttt, &data, offset, end);
            phases.extend([("r2t_to_data", first), ("data_transfer", last)]);
            (offset, r2t_sn) = (end, r2t_sn + 1);
        }
        self.pass(3);
        let [_, end] = self.response(itt);
        phases.push(("data_to_response", end));
        self.record(itt, begin, phases);
    }

    fn record(&mut self, itt: u32, begin: Place, phases: Vec<(&'static str, Place)>) {
        self.known.push(Known { itt, begin, phases });
    }

    fn r2t(&mut self, itt: u32, ttt: Ttt, r2t_sn: u32, offset: u32, length: u32) -> [Place; 2] {
        let mut header = [0; BHS_LENGTH];
        R2t {
            itt: Itt(itt),
            ttt,
            numbers: self.numbers(),
            r2t_sn,
            buffer_offset: offset,
            desired_data_transfer_length: length,
            ..R2t::default()
        }
        .emit(&mut header);
        self.pdu(From::Target, header, &[])
    }

    /// Sends the Data-Out PDUs of a burst as one byte string, so that segments do not end where
    /// PDUs do. Two thirds of it follow 2 ms after the first. Returns the ends of the first header
    /// and of the last PDU.
    fn data_out(
        &mut self,
        itt: u32,
        ttt: Ttt,
        data: &[u8],
        mut offset: u32,
        end: u32,
    ) -> [Place; 2] {
        let (mut bytes, mut places) = (Vec::new(), Vec::new());
        let mut data_sn = 0;
        while offset < end {
            let length = (end - offset).min(DATA_SEGMENT);
            let mut header = [0; BHS_LENGTH];
            DataOut {
                is_final: offset + length == end,
                itt: Itt(itt),
                ttt,
                data_sn,
                exp_stat_sn: StatSn(self.stat_sn),
                buffer_offset: offset,
                data_segment_length: length,
                ..DataOut::default()
            }
            .emit(&mut header);
            places.push(self.places(From::Initiator, bytes.len(), length as usize));
            bytes.extend(self.assemble(header, &data[offset as usize..(offset + length) as usize]));
            (offset, data_sn) = (offset + length, data_sn + 1);
        }
        let (first, rest) = bytes.split_at(bytes.len() / 3);
        self.send(From::Initiator, first);
        self.pass(2);
        self.send(From::Initiator, rest);
        self.acknowledge(From::Target);
        [places[0][0], places[places.len() - 1][1]]
    }

    fn command(
        &mut self,
        itt: u32,
        length: u32,
        is_final: bool,
        write: bool,
        data: &[u8],
    ) -> [Place; 2] {
        let header = self.command_header(itt, length, is_final, write, data.len());
        self.pdu(From::Initiator, header, data)
    }

    fn command_header(
        &mut self,
        itt: u32,
        length: u32,
        is_final: bool,
        write: bool,
        immediate: usize,
    ) -> [u8; BHS_LENGTH] {
        let mut cdb = [0; 16];
        cdb[0] = if write { 0x2a } else { 0x28 };
        let mut header = [0; BHS_LENGTH];
        ScsiCommand {
            immediate: false,
            is_final,
            read: !write,
            write,
            attribute: TaskAttribute::Simple,
            lun: Default::default(),
            itt: Itt(itt),
            expected_data_transfer_length: length,
            cmd_sn: CmdSn(self.cmd_sn),
            exp_stat_sn: StatSn(self.stat_sn),
            cdb,
            data_segment_length: immediate as u32,
        }
        .emit(&mut header);
        self.cmd_sn += 1;
        header
    }

    /// Performs a read. Its data begins 4 ms after the command and takes 2 ms. The status is in the
    /// last Data-In, or in a response 1 ms later.
    pub fn read(&mut self, itt: u32, length: u32, status_in_data: bool) {
        let [begin, _] = self.command(itt, length, true, false, &[]);
        self.pass(4);
        let mut bytes = Vec::new();
        let [first, last] = self.data_in(itt, length, status_in_data, &mut bytes);
        let (front, rest) = bytes.split_at(bytes.len() / 2);
        self.send(From::Target, front);
        self.pass(2);
        self.send(From::Target, rest);
        self.acknowledge(From::Initiator);
        let mut phases = vec![("command_to_data", first), ("data_transfer", last)];
        if !status_in_data {
            self.pass(1);
            let [_, end] = self.response(itt);
            phases.push(("data_to_response", end));
        }
        self.record(itt, begin, phases);
    }

    /// Performs reads whose commands are sent in one segment, and whose data and statuses are
    /// returned together in reverse order.
    pub fn reads_at_once(&mut self, itts: &[u32], length: u32, status_in_data: bool) {
        let mut commands = Vec::new();
        let mut begins = Vec::new();
        for &itt in itts {
            begins.push(self.places(From::Initiator, commands.len(), 0)[0]);
            let header = self.command_header(itt, length, true, false, 0);
            commands.extend(self.assemble(header, &[]));
        }
        self.send(From::Initiator, &commands);
        self.pass(3);
        let mut bytes = Vec::new();
        for (&itt, &begin) in itts.iter().zip(&begins).rev() {
            let [first, last] = self.data_in(itt, length, status_in_data, &mut bytes);
            let mut phases = vec![("command_to_data", first), ("data_transfer", last)];
            if !status_in_data {
                let [_, end] = self.places(From::Target, bytes.len(), 0);
                phases.push(("data_to_response", end));
                let header = self.response_header(itt);
                bytes.extend(self.assemble(header, &[]));
            }
            self.record(itt, begin, phases);
        }
        self.send(From::Target, &bytes);
        self.acknowledge(From::Initiator);
        self.pass(1);
    }

    /// Appends the Data-In PDUs of an entire read to `bytes`. Returns the ends of the first header
    /// and of the last PDU.
    fn data_in(
        &mut self,
        itt: u32,
        length: u32,
        status_in_data: bool,
        bytes: &mut Vec<u8>,
    ) -> [Place; 2] {
        let mut places = Vec::new();
        let mut offset = 0;
        while offset < length {
            let part = (length - offset).min(DATA_SEGMENT);
            let last = offset + part == length;
            let with_status = last && status_in_data;
            let mut header = [0; BHS_LENGTH];
            DataIn {
                is_final: last,
                status: with_status.then(DataInStatus::default),
                itt: Itt(itt),
                ttt: Ttt::RESERVED,
                numbers: if with_status {
                    self.status_numbers()
                } else {
                    self.numbers()
                },
                data_sn: places.len() as u32,
                buffer_offset: offset,
                data_segment_length: part,
                ..DataIn::default()
            }
            .emit(&mut header);
            places.push(self.places(From::Target, bytes.len(), part as usize));
            // Zeros are the most frequent data. No header may be recognised in them.
            bytes.extend(self.assemble(header, &vec![0; part as usize]));
            offset += part;
        }
        [places[0][0], places[places.len() - 1][1]]
    }

    /// Performs a read that ends with CHECK CONDITION and sense data. The response is sent in two
    /// segments, the first one of `front` bytes. Between them, the initiator sends the command of
    /// another read.
    pub fn failed_read(&mut self, itt: u32, sense: &[u8], front: usize) {
        self.command(itt, 4096, true, false, &[]);
        let mut data = (sense.len() as u16).to_be_bytes().to_vec();
        data.extend_from_slice(sense);
        let mut header = [0; BHS_LENGTH];
        ScsiResponse {
            status: 2,
            itt: Itt(itt),
            numbers: self.status_numbers(),
            data_segment_length: data.len() as u32,
            ..ScsiResponse::default()
        }
        .emit(&mut header);
        let bytes = self.assemble(header, &data);
        let (front, rest) = bytes.split_at(front);
        self.send(From::Target, front);
        self.command(itt + 1, 4096, true, false, &[]);
        self.send(From::Target, rest);
    }

    fn response(&mut self, itt: u32) -> [Place; 2] {
        let header = self.response_header(itt);
        self.pdu(From::Target, header, &[])
    }

    fn response_header(&mut self, itt: u32) -> [u8; BHS_LENGTH] {
        let mut header = [0; BHS_LENGTH];
        ScsiResponse {
            itt: Itt(itt),
            numbers: self.status_numbers(),
            ..ScsiResponse::default()
        }
        .emit(&mut header);
        header
    }

    fn numbers(&self) -> TargetNumbers {
        TargetNumbers {
            stat_sn: StatSn(self.stat_sn),
            exp_cmd_sn: CmdSn(self.cmd_sn),
            max_cmd_sn: CmdSn(self.cmd_sn + 63),
        }
    }

    /// Returns the numbers of a PDU with a status, which consumes a StatSN.
    fn status_numbers(&mut self) -> TargetNumbers {
        self.stat_sn += 1;
        TargetNumbers {
            stat_sn: StatSn(self.stat_sn - 1),
            ..self.numbers()
        }
    }

    /// Returns the packets truncated to `bytes` bytes, from the IP header on.
    pub fn snapped(&self, bytes: usize) -> Vec<Packet> {
        let mut packets = self.packets.clone();
        for packet in &mut packets {
            packet.bytes.truncate(bytes);
        }
        packets
    }
}

/// Returns the report on packets.
pub fn dissect(packets: &[Packet]) -> Report {
    dissect_with(Dissector::new(&[3260]), packets)
}

/// Returns the report of a dissector on packets.
pub fn dissect_with(mut dissector: Dissector, packets: &[Packet]) -> Report {
    for packet in packets {
        dissector.handle_packet(packet.at, Link::Ip, &packet.bytes, packet.original_length);
    }
    dissector.finish()
}
