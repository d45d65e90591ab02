//! The other end of a session under test. It reads the PDUs of the session and sends PDUs of the
//! test, valid or not.
#![allow(dead_code)] // Each test crate uses a part of the module.

use std::collections::VecDeque;
use std::time::Duration;

use hakaru_contract::LoginKeys;
use hakaru_iscsi_session::{
    Event, Purpose, Session, SessionConfig, SessionError, SessionTimers, Task, TaskData,
};
use hakaru_units::Time;
use hakaru_wire::iscsi::frame::{Frame, Framer};
use hakaru_wire::iscsi::text::parse_pairs;
use hakaru_wire::iscsi::{
    BHS_LENGTH, Bhs, CmdSn, DataIn, DataInStatus, Isid, Itt, LoginResponse, Lun, Opcode,
    ScsiCommand, ScsiResponse, Stage, StatSn, TargetNumbers, digest,
};
use hakaru_wire::scsi::{Cdb, Sense, Status, Transfer};

/// Time limit of every exchange, in all tests.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// A PDU as the session sent it.
#[derive(Debug)]
pub struct Pdu {
    pub bhs: Bhs,
    pub data: Vec<u8>,
}

impl Pdu {
    pub fn command(&self) -> ScsiCommand {
        ScsiCommand::parse(&self.bhs).expect("a SCSI Command")
    }

    pub fn pairs(&self) -> Vec<(String, String)> {
        parse_pairs(&self.data)
            .map(|pair| pair.map(|(k, v)| (k.to_owned(), v.to_owned())).unwrap())
            .collect()
    }
}

/// A session and the target that a test emulates.
pub struct Peer {
    pub session: Session,
    pub time: Time,
    pub stat_sn: u32,
    pub exp_cmd_sn: u32,
    /// Size of the command window, counted from `exp_cmd_sn`.
    pub window: u32,
    pub header_digest: bool,
    pub data_digest: bool,
    framer: Framer,
    sent: VecDeque<Pdu>,
}

pub fn config(keys: LoginKeys) -> SessionConfig {
    SessionConfig {
        chap: None,
        initiator_name: "iqn.2026-01.lab:vm1".into(),
        isid: Isid::random(0x12_3456, 7),
        purpose: Purpose::Normal {
            target_name: "iqn.2026-01.lab:t".into(),
        },
        keys,
        timers: SessionTimers::new(TIMEOUT),
    }
}

impl Peer {
    /// Creates a session whose connection is established at second 100.
    pub fn connected(config: SessionConfig) -> Peer {
        let mut session = Session::new(config);
        let time = Time(100_000_000_000);
        session.handle_connected(time);
        Peer {
            session,
            time,
            stat_sn: 4000,
            exp_cmd_sn: 1,
            window: 32,
            header_digest: false,
            data_digest: false,
            framer: Framer::new(1 << 20),
            sent: VecDeque::new(),
        }
    }

    /// Creates a session in full feature phase. The target answers the operational keys with
    /// `answers`.
    pub fn logged_in(keys: LoginKeys, answers: &[(&str, &str)]) -> Peer {
        let mut peer = Peer::connected(config(keys));
        peer.take();
        peer.answer_login(
            Stage::SecurityNegotiation,
            Some(Stage::OperationalNegotiation),
            &[("AuthMethod", "None")],
        );
        peer.take();
        peer.answer_login(
            Stage::OperationalNegotiation,
            Some(Stage::FullFeaturePhase),
            answers,
        );
        let digest = |key: &str| answers.contains(&(key, "CRC32C"));
        (peer.header_digest, peer.data_digest) = (digest("HeaderDigest"), digest("DataDigest"));
        peer.framer
            .set_digests(peer.header_digest, peer.data_digest);
        peer
    }

    /// Advances the time and notifies the session.
    pub fn pass(&mut self, time: Duration) {
        self.time += time;
        self.session.handle_timeout(self.time);
    }

    /// Returns the next PDU that the session has sent, if any.
    pub fn poll(&mut self) -> Option<Pdu> {
        let bytes: Vec<u8> = self
            .session
            .transmit()
            .slices()
            .flatten()
            .copied()
            .collect();
        self.session.transmit().advance(self.time, bytes.len());
        let mut rest = bytes.as_slice();
        while let Some(frame) = self
            .framer
            .next(&mut rest)
            .expect("the session sends whole PDUs")
        {
            match frame {
                Frame::Header { bhs, .. } => self.sent.push_back(Pdu {
                    bhs: *bhs,
                    data: Vec::new(),
                }),
                Frame::Data { bytes, .. } => {
                    self.sent.back_mut().unwrap().data.extend_from_slice(bytes)
                }
                Frame::End { data_digest_ok } => {
                    assert!(data_digest_ok, "the session's data digest holds")
                }
            }
        }
        self.sent.pop_front()
    }

    /// Returns the next PDU that the session has sent.
    ///
    /// # Panics
    /// Panics if the session has sent no PDU.
    pub fn take(&mut self) -> Pdu {
        self.poll().expect("the session has sent a PDU")
    }

    /// Sends a PDU with its padding and digests.
    pub fn send(&mut self, emit: impl FnOnce(&mut [u8; BHS_LENGTH]), data: &[u8]) {
        let mut bytes = self.bytes_of(emit, data);
        self.send_raw(&mut bytes);
    }

    pub fn bytes_of(&self, emit: impl FnOnce(&mut [u8; BHS_LENGTH]), data: &[u8]) -> Vec<u8> {
        let mut header = [0; BHS_LENGTH];
        emit(&mut header);
        let mut bytes = header.to_vec();
        if self.header_digest {
            bytes.extend_from_slice(&digest::header_digest(&header));
        }
        bytes.extend_from_slice(data);
        if !data.is_empty() {
            digest::emit_data_trailer(data, self.data_digest, &mut bytes);
        }
        bytes
    }

    pub fn send_raw(&mut self, bytes: &mut [u8]) {
        self.session.handle_received(self.time, bytes);
    }

    /// Returns the numbers of a PDU that carries a status.
    pub fn next_numbers(&mut self) -> TargetNumbers {
        self.stat_sn += 1;
        TargetNumbers {
            stat_sn: StatSn(self.stat_sn - 1),
            ..self.numbers()
        }
    }

    /// Returns the numbers of a PDU without a status.
    pub fn numbers(&self) -> TargetNumbers {
        TargetNumbers {
            stat_sn: StatSn(self.stat_sn),
            exp_cmd_sn: CmdSn(self.exp_cmd_sn),
            max_cmd_sn: CmdSn((self.exp_cmd_sn + self.window).wrapping_sub(1)),
        }
    }

    pub fn answer_login(&mut self, stage: Stage, next: Option<Stage>, pairs: &[(&str, &str)]) {
        let text: Vec<u8> = pairs
            .iter()
            .flat_map(|(k, v)| format!("{k}={v}\0").into_bytes())
            .collect();
        let numbers = self.next_numbers();
        let response = LoginResponse {
            current_stage: stage,
            next_stage: next,
            isid: Isid::random(0x12_3456, 7),
            tsih: 1,
            itt: Itt(0xff00),
            numbers,
            data_segment_length: text.len() as u32,
            ..LoginResponse::default()
        };
        self.send(|out| response.emit(out), &text);
    }

    /// Submits a read of `blocks` blocks of 512 bytes.
    pub fn submit_read(&mut self, tag: u32, blocks: u32, keep: bool) {
        let transfer = Transfer {
            lba: u64::from(tag),
            blocks,
            ..Transfer::default()
        };
        let data = TaskData::In {
            length: blocks * 512,
            keep,
        };
        self.session.submit(
            self.time,
            Task {
                tag,
                lun: Lun::new(0),
                cdb: Cdb::Read(transfer).emit(),
                data,
            },
        );
    }

    /// Submits a write of `bytes`.
    pub fn submit_write(&mut self, tag: u32, bytes: Vec<u8>) {
        let length = bytes.len() as u32;
        let transfer = Transfer {
            lba: 0,
            blocks: length / 512,
            ..Transfer::default()
        };
        let data = TaskData::Out {
            buffer: bytes.into(),
            begin: 0,
            length,
        };
        self.session.submit(
            self.time,
            Task {
                tag,
                lun: Lun::new(0),
                cdb: Cdb::Write(transfer).emit(),
                data,
            },
        );
    }

    /// Takes the next PDU, which must be a SCSI Command with the next CmdSN.
    pub fn take_command(&mut self) -> ScsiCommand {
        let command = self.take().command();
        assert_eq!(
            command.cmd_sn,
            CmdSn(self.exp_cmd_sn),
            "commands are numbered consecutively"
        );
        self.exp_cmd_sn += 1;
        command
    }

    /// Sends a Data-In, which ends the task if `status` is set.
    pub fn send_data_in(
        &mut self,
        itt: Itt,
        data_sn: u32,
        offset: u32,
        data: &[u8],
        status: Option<Status>,
    ) {
        let mut bytes = self.data_in(itt, data_sn, offset, data, status);
        self.send_raw(&mut bytes);
    }

    /// Returns the bytes of the Data-In that [`Peer::send_data_in`] sends.
    pub fn data_in(
        &mut self,
        itt: Itt,
        data_sn: u32,
        offset: u32,
        data: &[u8],
        status: Option<Status>,
    ) -> Vec<u8> {
        let numbers = if status.is_some() {
            self.next_numbers()
        } else {
            self.numbers()
        };
        let pdu = DataIn {
            is_final: status.is_some(),
            status: status.map(|status| DataInStatus {
                status: status.0,
                ..DataInStatus::default()
            }),
            itt,
            numbers,
            data_sn,
            buffer_offset: offset,
            data_segment_length: data.len() as u32,
            ..DataIn::default()
        };
        self.bytes_of(|out| pdu.emit(out), data)
    }

    /// Sends a SCSI Response, with sense data if given.
    pub fn send_response(&mut self, itt: Itt, status: Status, sense: Option<Sense>) {
        let data = sense
            .map(|sense| sense.emit_response_data().to_vec())
            .unwrap_or_default();
        let numbers = self.next_numbers();
        let data_segment_length = data.len() as u32;
        let pdu = ScsiResponse {
            status: status.0,
            itt,
            numbers,
            data_segment_length,
            ..ScsiResponse::default()
        };
        self.send(|out| pdu.emit(out), &data);
    }

    pub fn is_opcode(pdu: &Pdu, opcode: Opcode) -> bool {
        pdu.bhs.opcode() == Some(opcode)
    }
}

const MANY: &[(&str, &str)] = &[
    ("MaxRecvDataSegmentLength", "8192"),
    ("InitialR2T", "No"),
    ("ImmediateData", "Yes"),
];

/// A session that has logged in with these answers.
pub fn logged_in() -> Peer {
    let mut peer = Peer::logged_in(LoginKeys::default(), MANY);
    assert_eq!(peer.session.poll_event(), Some(Event::LoggedIn));
    peer
}

/// The error with which a session was lost.
pub fn lost(peer: &mut Peer) -> SessionError {
    match peer.session.poll_event() {
        Some(Event::Lost(error)) => error,
        other => panic!("the session is lost, not {other:?}"),
    }
}
