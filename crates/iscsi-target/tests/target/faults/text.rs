//! M-06 to M-09: keys and values.

use hakaru_wire::iscsi::text::emit_pair;
use hakaru_wire::iscsi::{CmdSn, Itt, LoginRequest, LoginStatus, Opcode, Stage, TextRequest, Ttt};

use super::scene::Scene;
use crate::pair::{INITIATOR, Initiator, names, value};

const OPERATIONAL: Stage = Stage::OperationalNegotiation;
const FULL: Stage = Stage::FullFeaturePhase;

/// Begins a login with `texts` PDUs that are joined by the C bit. Returns the number of PDUs sent
/// before the target closed the connection.
fn send_joined(scene: &mut Scene, texts: usize, text: &[u8], is_final: bool) -> usize {
    let connection = scene.connect();
    let mut initiator = Initiator::new(connection, 1);
    for sent in 0..texts {
        let request = LoginRequest {
            more: true,
            next_stage: is_final.then_some(FULL),
            data_segment_length: text.len() as u32,
            ..initiator.login_request(OPERATIONAL, None)
        };
        let mut header = [0; 48];
        request.emit(&mut header);
        initiator.send(&mut scene.pair, &header, text);
        let answers = initiator.receive(&mut scene.pair);
        assert!(answers.len() <= 1, "more than one answer");
        if scene.pair.is_closed(connection) {
            return sent;
        }
    }
    scene.hang_up(connection);
    texts
}

pub fn continued() -> u64 {
    let mut scene = Scene::new();
    // At most 16 PDUs and 64 KiB are collected.
    assert_eq!(send_joined(&mut scene, 40, b"A=b\0", false), 16);
    // A continuation without a request to continue is refused.
    assert_eq!(send_joined(&mut scene, 40, b"", false), 0);
    assert_eq!(send_joined(&mut scene, 40, &[b'A'; 8192], false), 8);
    // The C bit and the T bit contradict each other.
    assert_eq!(send_joined(&mut scene, 1, &names(INITIATOR), true), 0);
    scene.assert_nothing_held();
    // The same with Text Requests: the session continues or ends, and its text is freed.
    let mut tried = 4;
    for (more, is_final, text) in [
        (true, false, &b""[..]),
        (true, true, b"A=b\0"),
        (true, false, &[b'A'; 8192]),
    ] {
        let mut initiator = scene.log_in(&[]);
        let mut ttt = Ttt::RESERVED;
        let mut rejected = false;
        for sent in 0..40 {
            let mut header = [0; 48];
            initiator.cmd_sn = initiator.cmd_sn.wrapping_add(u32::from(sent > 0));
            TextRequest {
                more,
                is_final,
                itt: Itt(5),
                ttt,
                cmd_sn: CmdSn(initiator.cmd_sn),
                data_segment_length: text.len() as u32,
                ..TextRequest::default()
            }
            .emit(&mut header);
            if is_final {
                header[1] |= 0x80;
            }
            initiator.send(&mut scene.pair, &header, text);
            let answers = initiator.receive(&mut scene.pair);
            rejected |= answers.iter().any(|pdu| pdu.opcode() == Opcode::Reject);
            if rejected || scene.pair.is_closed(initiator.connection) {
                break;
            }
            ttt = answers.last().map_or(Ttt::RESERVED, |pdu| pdu.bhs.ttt());
        }
        assert!(
            rejected || scene.pair.is_closed(initiator.connection),
            "{more} {is_final} {}",
            text.len()
        );
        scene.hang_up(initiator.connection);
        scene.assert_nothing_held();
        tried += 1;
    }
    scene.assert_bystander_served();
    tried
}

pub fn malformed_keys() -> u64 {
    let mut scene = Scene::new();
    let long = |length: usize| [vec![b'K'; length], b"=v\0".to_vec()].concat();
    let value = |length: usize| [b"InitiatorAlias=".to_vec(), vec![b'v'; length], vec![0]].concat();
    let refused: Vec<Vec<u8>> = vec![
        b"Key\0".to_vec(),
        b"=value\0".to_vec(),
        b"=\0".to_vec(),
        b"InitiatorAlias=vm".to_vec(),
        b"InitiatorAlias=\0".to_vec(),
        b"InitiatorAlias=v\0m\0".to_vec(),
        b"InitiatorAlias=\xff\xfe\0".to_vec(),
        b"InitiatorAlias=v\nm\0".to_vec(),
        b"InitiatorAlias=%n%n\x1b[2J\0".to_vec(),
        b"K\xffy=v\0".to_vec(),
        b"9Key=v\0".to_vec(),
        b"K y=v\0".to_vec(),
        b"A=b\0\0\0C=d\0".to_vec(),
        long(64),
        long(4000),
        value(256),
        value(8000),
    ];
    for text in &refused {
        let (status, keys, closed) = scene.log_in_with(text);
        let shown = String::from_utf8_lossy(&text[..text.len().min(40)]).into_owned();
        assert_eq!(status, LoginStatus::INITIATOR_ERROR, "{shown:?}");
        assert!(keys.is_empty() && closed, "{shown:?}");
    }
    let accepted: Vec<Vec<u8>> = vec![
        long(63),
        value(255),
        b"X-a.b+c@d_e=\0".to_vec(),
        b"A=b\0\0\0\0".to_vec(),
    ];
    for text in &accepted {
        let (status, ..) = scene.log_in_with(text);
        assert_eq!(
            status,
            LoginStatus::SUCCESS,
            "{:?}",
            &text[..text.len().min(40)]
        );
    }
    scene.assert_bystander_served();
    scene.assert_nothing_held();
    (refused.len() + accepted.len()) as u64
}

pub fn values() -> u64 {
    let mut scene = Scene::new();
    let mut tried = 0;
    let text = |pairs: &[(&str, &str)]| {
        let mut out = Vec::new();
        pairs
            .iter()
            .for_each(|(key, value)| emit_pair(&mut out, key, value));
        out
    };
    // The same key twice, with any second value.
    for (key, first, second) in [
        ("MaxBurstLength", "65536", "65536"),
        ("MaxBurstLength", "65536", "512"),
        ("HeaderDigest", "None", "CRC32C"),
        ("InitiatorName", INITIATOR, "iqn.2026-01.net.example:vm2"),
        ("MaxRecvDataSegmentLength", "65536", "512"),
        ("SessionType", "Normal", "Discovery"),
    ] {
        let (status, ..) = scene.log_in_with(&text(&[(key, first), (key, second)]));
        assert_eq!(status, LoginStatus::INITIATOR_ERROR, "{key} twice");
        tried += 1;
    }
    // Malformed numbers are answered with Reject if the key is negotiated, and end the login if it
    // is declared.
    for number in [
        "-1",
        "0x",
        "",
        "0xg",
        "18446744073709551616",
        "1,2,3",
        "007",
        "1e3",
        "+512",
        " 512",
        "512 ",
        "４",
    ] {
        let (status, keys, _) = scene.log_in_with(&text(&[("MaxBurstLength", number)]));
        assert_eq!(status, LoginStatus::SUCCESS, "{number:?}");
        assert_eq!(value(&keys, "MaxBurstLength"), Some("Reject"), "{number:?}");
        let (status, ..) = scene.log_in_with(&text(&[("MaxRecvDataSegmentLength", number)]));
        assert_eq!(status, LoginStatus::INITIATOR_ERROR, "{number:?}");
        tried += 2;
    }
    // FirstBurstLength never exceeds MaxBurstLength, for any values and in either order.
    let lengths = ["512", "4096", "65535", "65536", "262144", "16777215"];
    for max in lengths {
        for first in lengths {
            for swapped in [false, true] {
                let mut pairs = [("MaxBurstLength", max), ("FirstBurstLength", first)];
                if swapped {
                    pairs.reverse();
                }
                let (status, keys, _) = scene.log_in_with(&text(&pairs));
                assert_eq!(status, LoginStatus::SUCCESS);
                let number = |key| {
                    value(&keys, key)
                        .and_then(|v| v.parse::<u32>().ok())
                        .expect("a number")
                };
                assert!(
                    number("FirstBurstLength") <= number("MaxBurstLength"),
                    "{max} {first}: {keys:?}"
                );
                tried += 1;
            }
        }
    }
    scene.assert_bystander_served();
    tried
}

pub fn unknown_keys() -> u64 {
    let mut scene = Scene::new();
    let mut tried = 0;
    for count in [1, 16, 17, 100, 120] {
        let mut text = Vec::new();
        for number in 0..count {
            let key = format!("X{number:0>62}");
            emit_pair(&mut text, &key, "v");
        }
        let sent_bytes = text.len();
        let (status, keys, _) = scene.log_in_with(&text);
        assert_eq!(status == LoginStatus::SUCCESS, count <= 16, "{count} keys");
        let answered: usize = keys
            .iter()
            .map(|(key, value)| key.len() + value.len() + 2)
            .sum();
        assert!(
            keys.len() <= 16 + 4 && answered <= 8192,
            "{count} keys of {sent_bytes} bytes: {answered} bytes in the answer"
        );
        tried += count;
    }
    // A thousand keys in several PDUs end the login.
    let connection = scene.connect();
    let mut initiator = Initiator::new(connection, 1);
    let mut rest: Vec<u8> = names(INITIATOR);
    for number in 0..1000 {
        emit_pair(&mut rest, &format!("Y{number:0>62}"), "v");
    }
    let mut answered_bytes = 0;
    for part in rest.chunks(8192) {
        let last = part.len() < 8192;
        let request = LoginRequest {
            more: !last,
            data_segment_length: part.len() as u32,
            ..initiator.login_request(OPERATIONAL, last.then_some(FULL))
        };
        let mut header = [0; 48];
        request.emit(&mut header);
        let bytes = initiator.pdu(&header, part);
        scene.pair.send(connection, &bytes);
        answered_bytes += scene.pair.received(connection).len();
    }
    assert!(scene.pair.is_closed(connection));
    assert!(
        answered_bytes <= 8192 && answered_bytes <= rest.len(),
        "{answered_bytes} bytes in the answers"
    );
    initiator.tsih = 0;
    scene.assert_nothing_held();
    scene.assert_bystander_served();
    tried + 1000
}
