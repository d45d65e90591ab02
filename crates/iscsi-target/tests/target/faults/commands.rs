//! M-15 to M-19: CDBs and parameter lists.

use hakaru_iscsi_target::{Extent, IoOp, IoResult, LuDescription, Thin};
use hakaru_wire::iscsi::{Opcode, ScsiResponse};
use hakaru_wire::scsi::{Sense, SenseKey};

use super::scene::Scene;
use crate::pair::{Answer, Initiator, LU_BYTES, Pdu, config, pattern};

/// An xorshift generator. Its fixed seed makes a failure reproducible.
struct Noise(u64);

impl Noise {
    fn byte(&mut self) -> u8 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 32) as u8
    }
}

pub fn every_operation_code() -> u64 {
    let mut scene = Scene::new();
    let mut noise = Noise(0x6861_6b61_7275);
    let mut tried = 0;
    let mut initiator = scene.log_in(&[]);
    for opcode in 0..=255_u8 {
        for service_action in 0..32_u8 {
            for fill in 0..4 {
                let mut cdb: [u8; 16] = match fill {
                    0 => [0xff; 16],
                    1 => [0; 16],
                    _ => core::array::from_fn(|_| noise.byte()),
                };
                (cdb[0], cdb[1]) = (opcode, cdb[1] & 0xe0 | service_action);
                let write = fill == 3;
                let expected = 64;
                // LU 0 belongs to the bystander.
                let command = initiator.command(5 + 2 * (fill & 1), &cdb, !write, write, expected);
                let list = pattern(64, noise.byte());
                initiator.send_command(&mut scene.pair, &command, if write { &list } else { &[] });
                let pdus = initiator.receive(&mut scene.pair);
                check_one_answer(&cdb, &pdus, expected);
                tried += 1;
            }
        }
        scene.assert_bystander_served();
    }
    scene.hang_up(initiator.connection);
    scene.assert_lu_unchanged();
    scene.assert_nothing_held();
    tried
}

/// Checks that a CDB gets one status and no more data than it requested, and that CHECK CONDITION
/// carries sense data.
fn check_one_answer(cdb: &[u8], pdus: &[Pdu], expected: u32) {
    let data: usize = pdus
        .iter()
        .filter(|pdu| pdu.opcode() == Opcode::DataIn)
        .map(|pdu| pdu.data.len())
        .sum();
    assert!(data <= expected as usize, "{cdb:02x?} gave {data} bytes");
    let last = pdus
        .last()
        .unwrap_or_else(|| panic!("{cdb:02x?} was not answered"));
    assert!(
        matches!(last.opcode(), Opcode::ScsiResponse | Opcode::DataIn),
        "{cdb:02x?}: {pdus:?}"
    );
    if last.opcode() == Opcode::ScsiResponse
        && ScsiResponse::parse(&last.bhs).is_ok_and(|r| r.status == 2)
    {
        let sense = Sense::parse_response_data(&last.data);
        assert!(
            sense.is_some(),
            "{cdb:02x?}: CHECK CONDITION without sense data"
        );
    }
}

/// CDBs that return parameter data: name, CDB, and offset and size of its allocation length.
const REPORTS: &[(&str, &[u8], usize, usize)] = &[
    ("INQUIRY", &[0x12, 0, 0, 0, 0, 0], 3, 2),
    ("INQUIRY 00h", &[0x12, 1, 0x00, 0, 0, 0], 3, 2),
    ("INQUIRY 80h", &[0x12, 1, 0x80, 0, 0, 0], 3, 2),
    ("INQUIRY 83h", &[0x12, 1, 0x83, 0, 0, 0], 3, 2),
    ("INQUIRY B0h", &[0x12, 1, 0xb0, 0, 0, 0], 3, 2),
    ("INQUIRY B1h", &[0x12, 1, 0xb1, 0, 0, 0], 3, 2),
    ("INQUIRY B2h", &[0x12, 1, 0xb2, 0, 0, 0], 3, 2),
    ("REQUEST SENSE", &[0x03, 0, 0, 0, 0, 0], 4, 1),
    ("MODE SENSE (6)", &[0x1a, 0, 0x3f, 0, 0, 0], 4, 1),
    (
        "MODE SENSE (10)",
        &[0x5a, 0, 0x3f, 0, 0, 0, 0, 0, 0, 0],
        7,
        2,
    ),
    ("LOG SENSE 00h", &[0x4d, 0, 0x40, 0, 0, 0, 0, 0, 0, 0], 7, 2),
    ("LOG SENSE 0Ch", &[0x4d, 0, 0x4c, 0, 0, 0, 0, 0, 0, 0], 7, 2),
    (
        "REPORT LUNS",
        &[0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        6,
        4,
    ),
    (
        "REPORT SUPPORTED OPCODES",
        &[0xa3, 0x0c, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        6,
        4,
    ),
    (
        "REPORT SUPPORTED TMFS",
        &[0xa3, 0x0d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        6,
        4,
    ),
    (
        "REPORT TARGET PORT GROUPS",
        &[0xa3, 0x0a, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        6,
        4,
    ),
    (
        "READ CAPACITY (16)",
        &[0x9e, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        10,
        4,
    ),
    (
        "GET LBA STATUS",
        &[0x9e, 0x12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        10,
        4,
    ),
    (
        "PERSISTENT RESERVE IN keys",
        &[0x5e, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        7,
        2,
    ),
    (
        "PERSISTENT RESERVE IN reservation",
        &[0x5e, 1, 0, 0, 0, 0, 0, 0, 0, 0],
        7,
        2,
    ),
    (
        "PERSISTENT RESERVE IN capabilities",
        &[0x5e, 2, 0, 0, 0, 0, 0, 0, 0, 0],
        7,
        2,
    ),
    (
        "PERSISTENT RESERVE IN full status",
        &[0x5e, 3, 0, 0, 0, 0, 0, 0, 0, 0],
        7,
        2,
    ),
    (
        "RECEIVE COPY RESULTS",
        &[0x84, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        10,
        4,
    ),
    (
        "READ DEFECT DATA (10)",
        &[0x37, 0, 0x1d, 0, 0, 0, 0, 0, 0, 0],
        7,
        2,
    ),
];

pub fn allocation_lengths() -> u64 {
    let mut scene = Scene::with(with_thin(LU_BYTES as u64));
    let mut initiator = scene.log_in(&[]);
    let mut tried = 0;
    for (name, cdb, at, width) in REPORTS {
        let length_max = if *width == 4 {
            u32::MAX
        } else {
            (1 << (8 * width)) - 1
        };
        let mut request = |allocation_length: u32| {
            let mut cdb = cdb.to_vec();
            cdb[*at..at + width].copy_from_slice(&allocation_length.to_be_bytes()[4 - width..]);
            initiator.run(&mut scene.pair, 9, &cdb, 65_535)
        };
        let full = request(length_max.min(0xffff));
        assert_eq!(full.status, 0, "{name}: {full:?}");
        assert!(!full.data.is_empty(), "{name}");
        for length in [0, 1, 3, 4, 7, 8, 15, 16, 17, 36, 255, 256, 0xffff, u32::MAX]
            .map(|length: u32| length.min(length_max))
        {
            let answer = request(length);
            assert_eq!(answer.status, 0, "{name} of {length}: {answer:?}");
            let cut = full.data.len().min(length as usize);
            assert!(
                answer.data.len() <= cut,
                "{name} of {length}: {} bytes",
                answer.data.len()
            );
            // GET LBA STATUS returns as many extents as fit.
            if *name != "GET LBA STATUS" {
                assert_eq!(answer.data, full.data[..cut], "{name} of {length}");
            }
            tried += 1;
        }
    }
    scene.assert_bystander_served();
    tried
}

/// Returns the usual configuration with an additional thin LU 9 of this size.
fn with_thin(size_bytes: u64) -> hakaru_iscsi_target::TargetConfig {
    let mut config = config();
    let mut thin = LuDescription::new(9, size_bytes);
    thin.thin = Some(Thin { page_bytes: 65_536 });
    config.lus.push(thin);
    config
}

pub fn ranges() -> u64 {
    let mut scene = Scene::with(with_thin(LU_BYTES as u64));
    let mut initiator = scene.log_in(&[]);
    let before = scene.pair.lus.clone();
    let blocks = (LU_BYTES / 512) as u64;
    let mut tried = 0;
    let lbas = [
        blocks,
        blocks + 1,
        u64::from(u32::MAX),
        1 << 32,
        (1 << 63) - 1,
        1 << 63,
        u64::MAX - 1,
        u64::MAX,
        blocks - 1,
    ];
    // READ, WRITE, WRITE AND VERIFY, VERIFY, WRITE SAME, ORWRITE, WRITE ATOMIC (16). The LBA is in
    // bytes 2 to 9, the count in bytes 10 to 13.
    for opcode in [0x88_u8, 0x8a, 0x8e, 0x8f, 0x93, 0x8b, 0x9c] {
        for lba in lbas {
            for count in [2_u32, 0xffff, u32::MAX] {
                let mut cdb = [0; 16];
                cdb[0] = opcode;
                cdb[2..10].copy_from_slice(&lba.to_be_bytes());
                match opcode {
                    0x9c => cdb[12..14].copy_from_slice(&(count.min(0xffff) as u16).to_be_bytes()),
                    _ => cdb[10..14].copy_from_slice(&count.to_be_bytes()),
                }
                let write = ![0x88, 0x8f].contains(&opcode);
                check_refused(&mut scene, &mut initiator, &cdb, write, &[0x77; 512]);
                tried += 1;
            }
        }
    }
    // READ, WRITE, WRITE AND VERIFY, VERIFY, WRITE SAME (10).
    for opcode in [0x28_u8, 0x2a, 0x2e, 0x2f, 0x41] {
        for lba in [blocks as u32, u32::MAX, u32::MAX - 1, blocks as u32 - 1] {
            let mut cdb = [opcode, 0, 0, 0, 0, 0, 0, 0, 2, 0];
            cdb[2..6].copy_from_slice(&lba.to_be_bytes());
            let write = ![0x28, 0x2f].contains(&opcode);
            check_refused(&mut scene, &mut initiator, &cdb, write, &[0x77; 512]);
            tried += 1;
        }
    }
    for (name, list, good) in unmap_lists(blocks) {
        let cdb = [
            0x42,
            0,
            0,
            0,
            0,
            0,
            0,
            (list.len() >> 8) as u8,
            list.len() as u8,
            0,
        ];
        if good {
            let command = initiator.command(9, &cdb, false, true, list.len() as u32);
            initiator.send_command(&mut scene.pair, &command, &list);
            let answer = Answer::of(initiator.receive(&mut scene.pair), command.itt);
            assert_eq!(answer.status, 0, "{name}: {answer:?}");
        } else {
            check_refused(&mut scene, &mut initiator, &cdb, true, &list);
        }
        tried += 1;
    }
    assert!(scene.pair.lus == before, "something was changed");
    scene.assert_bystander_served();
    tried
}

/// Checks that the command ends in ILLEGAL REQUEST without an access to the storage.
fn check_refused(
    scene: &mut Scene,
    initiator: &mut Initiator,
    cdb: &[u8],
    write: bool,
    data: &[u8],
) {
    scene.pair.stalled = true;
    let expected = if write { data.len() as u32 } else { 512 };
    let command = initiator.command(9, cdb, !write, write, expected);
    initiator.send_command(&mut scene.pair, &command, if write { data } else { &[] });
    assert!(
        scene.pair.held.is_empty(),
        "{cdb:02x?} has reached the storage: {:?}",
        scene.pair.held
    );
    scene.pair.stalled = false;
    let answer = Answer::of(initiator.receive(&mut scene.pair), command.itt);
    assert_eq!(answer.status, 2, "{cdb:02x?}: {answer:?}");
    assert_eq!(answer.sense().key, SenseKey::IllegalRequest, "{cdb:02x?}");
}

/// Returns UNMAP parameter lists: name, bytes, and whether the list is valid. Valid lists address
/// no blocks, or blocks that contain zeros.
fn unmap_lists(blocks: u64) -> Vec<(&'static str, Vec<u8>, bool)> {
    let list = |data_length: u16, descriptor_bytes: u16, ranges: &[(u64, u32)]| {
        let mut list = data_length.to_be_bytes().to_vec();
        list.extend(descriptor_bytes.to_be_bytes());
        list.extend([0; 4]);
        for (lba, count) in ranges {
            list.extend(lba.to_be_bytes());
            list.extend(count.to_be_bytes());
            list.extend([0; 4]);
        }
        list
    };
    let consistent = |ranges: &[(u64, u32)]| {
        list(
            6 + 16 * ranges.len() as u16,
            16 * ranges.len() as u16,
            ranges,
        )
    };
    vec![
        ("no descriptor", consistent(&[]), true),
        ("overlapping", consistent(&[(0, 8), (4, 8), (0, 8)]), true),
        ("unaligned", consistent(&[(1, 1), (127, 3)]), true),
        ("of no block", consistent(&[(0, 0), (blocks, 0)]), true),
        ("the last block", consistent(&[(blocks - 1, 1)]), true),
        ("one beyond the end", consistent(&[(blocks - 1, 2)]), false),
        (
            "one valid, one beyond the end",
            consistent(&[(0, 1), (blocks, 1)]),
            false,
        ),
        ("an overflow", consistent(&[(u64::MAX, 1)]), false),
        (
            "an overflow of the count",
            consistent(&[(u64::MAX - 2, u32::MAX)]),
            false,
        ),
        ("4096 descriptors", consistent(&[(0, 1); 4000]), false),
        (
            "descriptors that are missing",
            list(6 + 64, 64, &[(0, 1)]),
            false,
        ),
    ]
}

pub fn whole_lu() -> u64 {
    const SIZE: u64 = 64 << 40;
    let mut scene = Scene::with(with_thin(SIZE));
    let mut initiator = scene.log_in(&[]);
    scene.pair.stalled = true;
    // A descriptor of UNMAP covers at most 2^32 - 1 blocks, so there are 32 of them and a rest.
    // WRITE SAME (16) of 0 blocks fills up to the end.
    let blocks = SIZE / 512;
    let mut list = vec![0; 8];
    let mut lba = 0;
    while lba < blocks {
        let count = (blocks - lba).min(u64::from(u32::MAX)) as u32;
        list.extend(lba.to_be_bytes());
        list.extend(count.to_be_bytes());
        list.extend([0; 4]);
        lba += u64::from(count);
    }
    let length = list.len() as u16;
    list[..2].copy_from_slice(&(length - 2).to_be_bytes());
    list[2..4].copy_from_slice(&(length - 8).to_be_bytes());
    let unmap = [0x42, 0, 0, 0, 0, 0, 0, (length >> 8) as u8, length as u8, 0].to_vec();
    let write_same = [&[0x93, 0x08][..], &[0; 14]].concat();
    let (mut tried, mut covered_by) = (0, Vec::new());
    for (name, cdb, data) in [
        ("UNMAP", unmap, list),
        ("WRITE SAME", write_same, vec![0; 512]),
    ] {
        let command = initiator.command(9, &cdb, false, true, data.len() as u32);
        initiator.send_command(&mut scene.pair, &command, &data);
        let mut covered = 0;
        let mut accesses = 0;
        while !scene.pair.held.is_empty() {
            assert_eq!(scene.pair.held.len(), 1, "{name}: one access at a time");
            let io = scene.pair.held.remove(0);
            let ranges: Vec<Extent> = match &io.op {
                IoOp::Unmap { ranges } => ranges.clone(),
                IoOp::WriteSame { range, .. } => vec![*range],
                other => panic!("{name} requests {other:?}"),
            };
            let bytes: u64 = ranges.iter().map(|range| range.length_bytes).sum();
            assert!(bytes <= 1 << 30, "{name}: {bytes} bytes in one access");
            covered += bytes;
            accesses += 1;
            if accesses % 8192 == 1 {
                // Other sessions are served at the same time.
                scene.pair.stalled = false;
                scene.assert_bystander_served();
                scene.pair.stalled = true;
            }
            scene
                .pair
                .target
                .handle_io_done(scene.pair.time, io.id, IoResult::Done);
            scene.pair.run();
        }
        let answer = Answer::of(initiator.receive(&mut scene.pair), command.itt);
        // VPD page B0h reports the limit of WRITE SAME. A longer command is refused without any
        // effect.
        if answer.status == 0 {
            assert_eq!(covered, SIZE, "{name}");
        } else {
            assert_eq!(
                (covered, answer.sense().key),
                (0, SenseKey::IllegalRequest),
                "{name}"
            );
        }
        covered_by.push((name, covered));
        tried += 1;
    }
    assert_eq!(covered_by[0], ("UNMAP", SIZE));
    tried
}

pub fn racing_compares() -> u64 {
    let mut tried = 0;
    for round in 0..32_u8 {
        let mut scene = Scene::new();
        let mut racers: Vec<Initiator> = (0..4)
            .map(|at| {
                scene
                    .pair
                    .log_in_as("iqn.2026-01.net.example:racer", 100 + at, &[])
            })
            .collect();
        let old = scene.pair.lus[&0][1024..1536].to_vec();
        scene.pair.stalled = true;
        let mut tags = Vec::new();
        for (at, racer) in racers.iter_mut().enumerate() {
            let new = pattern(512, at as u8 + 1);
            let cdb = [0x89, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0];
            let command = racer.command(0, &cdb, false, true, 1024);
            racer.send_command(&mut scene.pair, &command, &[old.clone(), new].concat());
            tags.push(command.itt);
        }
        // The storage answers in an order that depends on the round.
        let mut turn = usize::from(round);
        while !scene.pair.held.is_empty() {
            turn = turn.wrapping_mul(31) + 7;
            let at = turn % scene.pair.held.len();
            scene.pair.held.swap(0, at);
            scene.pair.release_one();
        }
        let answers: Vec<Answer> = racers
            .iter_mut()
            .zip(&tags)
            .map(|(racer, itt)| Answer::of(racer.receive(&mut scene.pair), *itt))
            .collect();
        let winners: Vec<usize> = (0..answers.len())
            .filter(|at| answers[*at].status == 0)
            .collect();
        assert_eq!(winners.len(), 1, "{answers:?}");
        let stored = pattern(512, winners[0] as u8 + 1);
        assert_eq!(scene.pair.lus[&0][1024..1536], stored);
        for (at, answer) in answers
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != winners[0])
        {
            assert_eq!(answer.sense().key, SenseKey::Miscompare, "{at}");
            let first = old
                .iter()
                .zip(&stored)
                .position(|(a, b)| a != b)
                .expect("they differ");
            let information = answer.sense.and_then(|sense| sense.information);
            assert_eq!(
                information,
                Some(first as u64),
                "the first byte that differs"
            );
        }
        tried += answers.len() as u64;
    }
    tried
}
