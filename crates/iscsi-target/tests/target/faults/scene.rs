//! A target with a bystander's session, next to which other initiators misbehave.

use hakaru_iscsi_target::{ConnectionId, TargetConfig};
use hakaru_wire::iscsi::{Bhs, LoginStatus, Opcode, Stage};
use hakaru_wire::scsi::{Cdb, Transfer};

use crate::pair::{INITIATOR, Initiator, Keys, LU_BYTES, Pair, Pdu, config, names, pattern};

/// Seed of the contents of LU 0, which no test may change.
const MARK: u8 = 0x5c;

/// A target and the session of a bystander.
pub struct Scene {
    pub pair: Pair,
    bystander: Initiator,
}

impl Scene {
    pub fn new() -> Scene {
        Scene::with(config())
    }

    pub fn with(config: TargetConfig) -> Scene {
        let mut pair = Pair::with(config);
        if let Some(lu) = pair.lus.get_mut(&0) {
            *lu = pattern(LU_BYTES, MARK);
        }
        let bystander = pair.log_in_as("iqn.2026-01.net.example:bystander", 77, &[]);
        Scene { pair, bystander }
    }

    pub fn log_in(&mut self, keys: &[(&str, &str)]) -> Initiator {
        self.pair.log_in(keys)
    }

    /// Checks that the bystander's session continues and that a read returns the expected data.
    pub fn assert_bystander_served(&mut self) {
        let read = Cdb::Read(Transfer {
            lba: 0,
            blocks: 1,
            ..Transfer::default()
        });
        let data = self.bystander.run_cdb(&mut self.pair, 0, read, 512).good();
        assert_eq!(data, pattern(LU_BYTES, MARK)[..512]);
    }

    /// Checks that no block of LU 0 was changed.
    pub fn assert_lu_unchanged(&self) {
        assert!(
            self.pair.lus[&0] == pattern(LU_BYTES, MARK),
            "LU 0 was changed"
        );
    }

    /// Opens a connection that has sent nothing yet.
    pub fn connect(&mut self) -> ConnectionId {
        self.pair.connect()
    }

    /// Sends these bytes on a new connection. Returns the answer, and whether the target closed the
    /// connection.
    pub fn send_first(&mut self, bytes: &[u8]) -> (Vec<u8>, bool) {
        let connection = self.pair.connect();
        self.pair.send(connection, bytes);
        let answer = self.pair.received(connection);
        let closed = self.pair.is_closed(connection);
        self.pair.target.handle_closed(self.pair.time, connection);
        (answer, closed)
    }

    /// Logs in with one PDU of the operational stage that has these bytes after the names. Returns
    /// the status, the keys, and whether the connection was closed.
    pub fn log_in_with(&mut self, text: &[u8]) -> (LoginStatus, Keys, bool) {
        let connection = self.pair.connect();
        let mut initiator = Initiator::new(connection, 1);
        let text = [names(INITIATOR), text.to_vec()].concat();
        let (response, keys) = initiator.login(
            &mut self.pair,
            Stage::OperationalNegotiation,
            Some(Stage::FullFeaturePhase),
            &text,
        );
        let closed = self.pair.is_closed(connection);
        self.pair.target.handle_closed(self.pair.time, connection);
        (response.status, keys, closed)
    }

    /// Ends a connection from its far end.
    pub fn hang_up(&mut self, connection: ConnectionId) {
        self.pair.target.handle_closed(self.pair.time, connection);
        self.pair.run();
    }

    /// Checks that the target holds resources only for the bystander.
    pub fn assert_nothing_held(&self) {
        for (name, expected) in [
            ("sessions_now", 1.0),
            ("connections_now", 1.0),
            ("write_buffer_bytes_now", 0.0),
        ] {
            assert_eq!(self.pair.counter("sessions", name), expected, "{name}");
        }
    }
}

/// Returns a header of 48 bytes with an opcode, the F bit and a tag.
pub fn header(opcode: u8) -> [u8; 48] {
    let mut header = [0; 48];
    (header[0], header[1], header[19]) = (opcode, 0x80, 9);
    header
}

/// Returns the opcodes of PDUs; `None` for unknown ones.
pub fn opcodes(pdus: &[Pdu]) -> Vec<Option<Opcode>> {
    pdus.iter().map(|pdu| pdu.bhs.opcode()).collect()
}

/// Returns the total length, without digests, of the PDU whose header begins these bytes.
pub fn pdu_length(bytes: &[u8]) -> usize {
    let mut header = [0; 48];
    header.copy_from_slice(&bytes[..48]);
    let bhs = Bhs::new(header);
    48 + bhs.ahs_length() + (bhs.data_segment_length() as usize).next_multiple_of(4)
}
