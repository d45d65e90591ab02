//! A scripted initiator: its end of one connection, and the answers to its commands.

use super::{Pair, Pdu};

use hakaru_iscsi_target::ConnectionId;
use hakaru_wire::iscsi::digest::{emit_data_trailer, header_digest};
use hakaru_wire::iscsi::frame::{Frame, Framer};
use hakaru_wire::iscsi::text::parse_pairs;
use hakaru_wire::iscsi::{
    CmdSn, DataIn, DataOut, Isid, Itt, LoginRequest, LoginResponse, Lun, Opcode, R2t, Residual,
    ScsiCommand, ScsiResponse, Stage, StatSn, TaskAttribute, Ttt,
};
use hakaru_wire::scsi::{Cdb, Sense};

pub type Keys = Vec<(String, String)>;

/// The initiator's end of one connection. It keeps sequence numbers and digests and decides
/// nothing.
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

    /// Returns a complete PDU with padding and digests.
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

    /// Returns every PDU that was completely received since the last call.
    pub fn receive(&mut self, pair: &mut Pair) -> Vec<Pdu> {
        let bytes = pair.received(self.connection);
        let mut input = &bytes[..];
        let mut pdus: Vec<Pdu> = Vec::new();
        while let Some(frame) = self
            .framer
            .next(&mut input)
            .expect("the target's stream is well-formed")
        {
            match frame {
                Frame::Header { bhs, ahs } => {
                    assert!(ahs.is_empty());
                    pdus.push(Pdu {
                        bhs: *bhs,
                        data: Vec::new(),
                    });
                }
                Frame::Data { bytes, .. } => pdus
                    .last_mut()
                    .expect("a header precedes its data")
                    .data
                    .extend_from_slice(bytes),
                Frame::End { data_digest_ok } => {
                    assert!(data_digest_ok, "the target's data digest is wrong")
                }
            }
        }
        for pdu in &pdus {
            self.check_stat_sn(pdu);
        }
        pdus
    }

    /// Checks that StatSN advances by one with every status, and only then.
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

    /// Sends a Login Request. Returns the response and its keys.
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

    /// Returns the header of the next command. `bytes` is its expected data transfer length.
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

    /// Executes a command without data to the target.
    pub fn run(&mut self, pair: &mut Pair, lun: u8, cdb: &[u8], expected: u32) -> Answer {
        let command = self.command(lun, cdb, expected > 0, false, expected);
        self.send_command(pair, &command, &[]);
        Answer::of(self.receive(pair), command.itt)
    }

    /// Executes a command with data to the target. Sends as much immediate data as permitted, and
    /// the rest as R2Ts request it.
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

/// The answer to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u8,
    pub sense: Option<Sense>,
    pub residual: Residual,
    pub data: Vec<u8>,
    pub data_in_pdus: usize,
}

impl Answer {
    /// Combines Data-In PDUs and status, after checking their numbers and offsets.
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
            assert_eq!(answer.status, 0xff, "a PDU follows the status");
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
                    if let Some(sense) = answer.sense {
                        // Every byte is in one of the parsed fields.
                        let fixed = sense.emit_response_data().to_vec();
                        let descriptor = sense.emit_descriptor_response_data();
                        assert!([fixed, descriptor].contains(&pdu.data), "{sense:?} {pdu:?}");
                    }
                }
                other => panic!("{other:?} is not an answer to a command: {pdu:?}"),
            }
        }
        assert_ne!(answer.status, 0xff, "the command has no status");
        answer
    }

    /// Returns the sense data of CHECK CONDITION without INFORMATION and field pointer.
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

/// Returns a single Data-Out PDU that answers the entire R2T.
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

/// Returns a Data-Out PDU for unsolicited data.
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
