//! M-01 to M-05, D-03: bytes that are not a PDU, or only part of one.

use hakaru_wire::iscsi::Opcode;
use hakaru_wire::scsi::Cdb;

use super::scene::{Scene, header, opcodes, pdu_length};
use crate::pair::{INITIATOR, Initiator, LU_BYTES, names, pattern};

const CLIENT_HELLO: &[u8] = b"\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03\x5a\x5a\x5a\x5a\x5a\x5a\x5a\x5a\x5a\x5a\x5a\x5a\x5a\x5a\x5a\x5a\x5a\x5a\x5a\x5a\x5a\x5a\x5a\x5a\x5a\x5a\x5a\x5a\x5a\x5a\x5a\x5a\x00\x00\x02\xc0\x2f\x01";
const HTTP_GET: &[u8] =
    b"GET / HTTP/1.1\r\nHost: array.example:3260\r\nUser-Agent: scanner\r\n\r\n";
const SMB_NEGOTIATE: &[u8] = b"\x00\x00\x00\x45\xffSMB\x72\x00\x00\x00\x00\x18\x01\x28\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xfe\x00\x00\x00\x00\x00\x22\x00\x02NT LM 0.12\x00";

pub fn first_pdu_is_no_login() -> u64 {
    let mut scene = Scene::new();
    let mut inputs: Vec<Vec<u8>> = vec![CLIENT_HELLO.into(), HTTP_GET.into(), SMB_NEGOTIATE.into()];
    let login = Opcode::LoginRequest.code();
    for opcode in (0..64).filter(|opcode| *opcode != login) {
        for immediate in [0, 0x40] {
            inputs.push(header(opcode | immediate).into());
            let mut with_data = header(opcode | immediate).to_vec();
            with_data[7] = 4;
            inputs.push([with_data, vec![0xff; 4]].concat());
        }
    }
    for input in &inputs {
        let (answer, closed) = scene.send_first(input);
        assert!(answer.is_empty(), "{input:02x?} was answered");
        assert!(closed, "{input:02x?} did not close the connection");
        scene.assert_bystander_served();
    }
    // 48 zero bytes are a NOP-Out.
    let (answer, closed) = scene.send_first(&[0; 48]);
    assert!(answer.is_empty() && closed);
    scene.assert_nothing_held();
    inputs.len() as u64 + 1
}

pub fn cut_inside_a_pdu() -> u64 {
    let mut scene = Scene::new();
    let mut tried = 0;
    let text = names(INITIATOR);
    let login = {
        let connection = scene.connect();
        let initiator = Initiator::new(connection, 1);
        let mut request = [0; 48];
        let mut pdu = initiator.login_request(
            hakaru_wire::iscsi::Stage::OperationalNegotiation,
            Some(hakaru_wire::iscsi::Stage::FullFeaturePhase),
        );
        pdu.data_segment_length = text.len() as u32;
        pdu.emit(&mut request);
        scene.hang_up(connection);
        initiator.pdu(&request, &text)
    };
    assert_eq!(login.len(), pdu_length(&login));
    for cut in 1..login.len() {
        let connection = scene.connect();
        scene.pair.send(connection, &login[..cut]);
        assert!(
            scene.pair.received(connection).is_empty(),
            "{cut} bytes were answered"
        );
        scene.hang_up(connection);
        scene.assert_nothing_held();
        tried += 1;
    }
    // The same in full feature phase, within a write command and its data.
    for cut in (1..48 + 512).step_by(7) {
        let mut initiator = scene.log_in(&[]);
        let mut command = initiator.command(0, &[0x2a, 0, 0, 0, 0, 0, 0, 0, 1], false, true, 512);
        command.data_segment_length = 512;
        let mut bytes = [0; 48];
        command.emit(&mut bytes);
        let pdu = initiator.pdu(&bytes, &pattern(512, 9));
        scene.pair.send(initiator.connection, &pdu[..cut]);
        scene.hang_up(initiator.connection);
        scene.assert_nothing_held();
        scene.assert_lu_unchanged();
        tried += 1;
    }
    scene.assert_bystander_served();
    tried
}

pub fn long_login() -> u64 {
    let mut scene = Scene::new();
    let lengths = [
        8193_u32, 8196, 65_536, 0x7f_ffff, 0x80_0000, 0xff_fffe, 0xff_ffff,
    ];
    for length in lengths {
        let connection = scene.connect();
        let mut bytes = header(Opcode::LoginRequest.code() | 0x40);
        bytes[5..8].copy_from_slice(&length.to_be_bytes()[1..]);
        scene.pair.send(connection, &bytes);
        assert!(
            scene.pair.is_closed(connection),
            "the connection with {length} bytes was not closed"
        );
        assert_eq!(
            scene.pair.counter("sessions", "write_buffer_bytes_now"),
            0.0
        );
        scene.assert_bystander_served();
    }
    lengths.len() as u64
}

pub fn longer_than_declared() -> u64 {
    let mut scene = Scene::new();
    let mut tried = 0;
    // The target declares 262 144.
    for length in [262_145_u32, 262_148, 0x80_0000, 0xff_ffff] {
        for opcode in [
            Opcode::ScsiCommand,
            Opcode::DataOut,
            Opcode::TextRequest,
            Opcode::NopOut,
        ] {
            let initiator = scene.log_in(&[]);
            let mut bytes = header(opcode.code());
            bytes[5..8].copy_from_slice(&length.to_be_bytes()[1..]);
            scene.pair.send(initiator.connection, &bytes);
            assert!(
                scene.pair.is_closed(initiator.connection),
                "{opcode:?} {length}"
            );
            scene.assert_nothing_held();
            scene.assert_bystander_served();
            tried += 1;
        }
    }
    tried
}

pub fn additional_headers() -> u64 {
    let mut scene = Scene::new();
    let mut tried = 0;
    for words in 0..=255_u8 {
        for kind in [0_u8, 1, 2, 3, 0xff] {
            for ahs_length in [
                0_u16,
                1,
                2,
                u16::from(words) * 4,
                u16::from(words).saturating_mul(4).saturating_sub(3),
                0xffff,
            ] {
                let mut initiator = scene.log_in(&[]);
                let command = initiator.command(0, &Cdb::TestUnitReady.emit(), false, false, 0);
                let mut bytes = [0; 48];
                command.emit(&mut bytes);
                bytes[4] = words;
                let mut ahs = vec![0; usize::from(words) * 4];
                if words > 0 {
                    ahs[..2].copy_from_slice(&ahs_length.to_be_bytes());
                    ahs[2] = kind;
                }
                scene
                    .pair
                    .send(initiator.connection, &[&bytes[..], &ahs].concat());
                let ended = scene.pair.is_closed(initiator.connection);
                let pdus = initiator.receive(&mut scene.pair);
                let answered = opcodes(&pdus);
                assert!(
                    ended || answered.len() == 1,
                    "{words} words of type {kind} with length {ahs_length}: {answered:?}"
                );
                for opcode in answered {
                    assert!(
                        matches!(opcode, Some(Opcode::ScsiResponse | Opcode::Reject)),
                        "{words} words of type {kind} with length {ahs_length}: {opcode:?}"
                    );
                }
                scene.hang_up(initiator.connection);
                tried += 1;
            }
        }
        scene.assert_bystander_served();
    }
    scene.assert_nothing_held();
    tried
}

pub fn cut_digests() -> u64 {
    let mut scene = Scene::new();
    let mut tried = 0;
    for (header_digest, data_digest) in [(true, false), (false, true), (true, true)] {
        let word = |on: bool| if on { "CRC32C" } else { "None" };
        let keys = [
            ("HeaderDigest", word(header_digest)),
            ("DataDigest", word(data_digest)),
        ];
        let pdu_bytes = 48 + 4 * usize::from(header_digest) + 512 + 4 * usize::from(data_digest);
        for cut in [48, 49, 51, 52, pdu_bytes - 4, pdu_bytes - 3, pdu_bytes - 1] {
            let mut initiator = scene.log_in(&keys);
            let mut command =
                initiator.command(0, &[0x2a, 0, 0, 0, 0, 0, 0, 0, 1], false, true, 512);
            command.data_segment_length = 512;
            let mut bytes = [0; 48];
            command.emit(&mut bytes);
            let pdu = initiator.pdu(&bytes, &pattern(512, 9));
            assert_eq!(pdu.len(), pdu_bytes);
            scene.pair.send(initiator.connection, &pdu[..cut]);
            scene.hang_up(initiator.connection);
            scene.assert_nothing_held();
            assert_eq!(scene.pair.lus[&0].len(), LU_BYTES);
            scene.assert_lu_unchanged();
            tried += 1;
        }
    }
    scene.assert_bystander_served();
    tried
}
