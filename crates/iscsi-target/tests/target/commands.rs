//! SCSI commands without write data.

use crate::pair::{Answer, LU_BYTES, Pair, config, logged_in, read};
use hakaru_iscsi_target::{IoFailure, IoResult, Limits};
use hakaru_wire::iscsi::{Lun, Residual, ScsiCommand};
use hakaru_wire::scsi::{
    Capacity10, Capacity16, Cdb, DesignatorKind, Inquiry, ModeData, ModePage, PeripheralQualifier,
    Sense, Transfer, Vpd, opcode, parse_luns,
};

#[test]
fn reads_of_every_size_of_cdb_give_the_same_bytes() {
    let (mut pair, mut initiator) = logged_in(&[]);
    let expected = pair.lus[&0][8 * 512..12 * 512].to_vec();
    for cdb in [
        vec![opcode::READ_6, 0, 0, 8, 4, 0],
        vec![opcode::READ_10, 0, 0, 0, 0, 8, 0, 0, 4, 0],
        vec![opcode::READ_12, 0, 0, 0, 0, 8, 0, 0, 0, 4, 0, 0],
        vec![opcode::READ_16, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 4, 0, 0],
    ] {
        let answer = initiator.run(&mut pair, 0, &cdb, 2048);
        assert_eq!(answer.residual, Residual::None);
        assert_eq!(answer.good(), expected);
    }
    assert_eq!(
        (
            pair.counter("lu/0", "reads"),
            pair.counter("lu/0", "read_bytes")
        ),
        (4.0, 8192.0)
    );
}

#[test]
fn data_in_keeps_to_the_segment_and_burst_lengths_agreed() {
    let (mut pair, mut initiator) = logged_in(&[
        ("MaxRecvDataSegmentLength", "1000"),
        ("MaxBurstLength", "2500"),
        ("FirstBurstLength", "512"),
    ]);
    let command = initiator.command(0, &read(3, 16).emit(), true, false, 8192);
    initiator.send_command(&mut pair, &command, &[]);
    let pdus = initiator.receive(&mut pair);
    assert!(pdus.iter().all(|pdu| pdu.data.len() <= 1000));
    let mut burst = 0;
    for pdu in &pdus {
        burst += pdu.data.len();
        assert!(burst <= 2500, "a burst of {burst} bytes");
        if pdu.bhs.is_final() {
            burst = 0;
        }
    }
    assert_eq!(
        Answer::of(pdus, command.itt).good(),
        pair.lus[&0][3 * 512..19 * 512]
    );
}

#[test]
fn residuals_report_the_difference_between_expected_and_available_data() {
    let cases = [
        (1024, Residual::None, 1024),
        (1500, Residual::Underflow(476), 1024),
        (600, Residual::Overflow(424), 600),
        (0, Residual::Overflow(1024), 0),
    ];
    for in_place in [true, false] {
        for (expected, residual, length) in cases {
            let (mut pair, mut initiator) = logged_in(&[]);
            pair.copy = !in_place;
            let command = initiator.command(0, &read(1, 2).emit(), true, false, expected);
            initiator.send_command(&mut pair, &command, &[]);
            let answer = Answer::of(initiator.receive(&mut pair), command.itt);
            assert_eq!(
                (answer.status, answer.residual),
                (0, residual),
                "{expected}"
            );
            assert_eq!(answer.data, pair.lus[&0][512..512 + length]);
        }
    }
}

#[test]
fn ranges_beyond_the_end_are_refused_whatever_overflows() {
    let (mut pair, mut initiator) = logged_in(&[]);
    let blocks = (LU_BYTES / 512) as u64;
    for (lba, length) in [
        (blocks, 1),
        (blocks - 1, 2),
        (blocks + 1, 0),
        (1 << 31, 1),
        (u64::from(u32::MAX), 1),
        (1 << 63, u32::MAX),
        (u64::MAX, 1),
        (u64::MAX, u32::MAX),
    ] {
        let cdb = Cdb::Read(Transfer {
            lba,
            blocks: length,
            ..Transfer::default()
        });
        let answer = initiator.run_cdb(&mut pair, 0, cdb, 512);
        assert_eq!(answer.sense(), Sense::LBA_OUT_OF_RANGE, "{length} at {lba}");
        assert_eq!(answer.residual, Residual::Underflow(512));
        let flush = Cdb::SynchronizeCache {
            lba,
            blocks: length,
            immediate: false,
        };
        assert_eq!(
            initiator.run_cdb(&mut pair, 0, flush, 0).sense(),
            Sense::LBA_OUT_OF_RANGE
        );
    }
    for (lba, length) in [(blocks - 1, 1), (blocks, 0), (0, 0)] {
        let cdb = Cdb::Read(Transfer {
            lba,
            blocks: length,
            ..Transfer::default()
        });
        assert_eq!(
            initiator
                .run_cdb(&mut pair, 0, cdb, length * 512)
                .good()
                .len(),
            length as usize * 512
        );
    }
}

#[test]
fn a_transfer_beyond_the_greatest_length_and_protection_are_invalid_fields() {
    let mut config = config();
    config.limits = Limits {
        transfer_bytes_max: 65_536,
        ..Limits::default()
    };
    let mut pair = Pair::with(config);
    let mut initiator = pair.log_in(&[]);
    assert_eq!(
        initiator
            .run_cdb(&mut pair, 0, read(0, 128), 65_536)
            .good()
            .len(),
        65_536
    );
    assert_eq!(
        initiator
            .run_cdb(&mut pair, 0, read(0, 129), 66_048)
            .sense(),
        Sense::INVALID_FIELD_IN_CDB
    );
    let protect = Cdb::Read(Transfer {
        blocks: 1,
        protect: 1,
        ..Transfer::default()
    });
    let answer = initiator.run_cdb(&mut pair, 0, protect, 512);
    assert_eq!(answer.sense.unwrap().field.unwrap().byte, 1);
    assert_eq!(answer.sense(), Sense::INVALID_FIELD_IN_CDB);
}

#[test]
fn inquiry_names_a_disk_and_no_disk() {
    let (mut pair, mut initiator) = logged_in(&[]);
    let request = |page, length| Cdb::Inquiry {
        page,
        allocation_length: length,
    };
    let present = Inquiry::parse(
        &initiator
            .run_cdb(&mut pair, 0, request(None, 255), 255)
            .good(),
    )
    .unwrap();
    assert_eq!(
        (
            present.qualifier,
            present.device_type,
            present.vendor.as_str()
        ),
        (PeripheralQualifier::Connected, 0, "HAKARU")
    );
    assert!(present.third_party_copy, "EXTENDED COPY");
    assert!(present.multiple_ports, "two portals");
    let absent = Inquiry::parse(
        &initiator
            .run_cdb(&mut pair, 9, request(None, 255), 255)
            .good(),
    )
    .unwrap();
    assert_eq!(
        (absent.qualifier, absent.device_type),
        (PeripheralQualifier::NotSupported, 0x1f)
    );
}

#[test]
fn exactly_the_listed_vpd_pages_exist() {
    let (mut pair, mut initiator) = logged_in(&[]);
    let mut listed = Vec::new();
    for code in 0..=255u8 {
        let cdb = Cdb::Inquiry {
            page: Some(code),
            allocation_length: 1024,
        };
        let answer = initiator.run_cdb(&mut pair, 0, cdb, 1024);
        if code == 0 {
            listed = match Vpd::parse(&answer.clone().good()).unwrap() {
                Vpd::SupportedPages(pages) => pages,
                other => panic!("{other:?}"),
            };
            assert_eq!(listed, [0, 0x80, 0x83, 0x8f, 0xb0, 0xb1, 0xb2]);
        }
        if listed.contains(&code) {
            assert_eq!(answer.good()[1], code);
        } else {
            assert_eq!(answer.sense(), Sense::INVALID_FIELD_IN_CDB, "{code:#x}");
        }
    }
}

#[test]
fn lus_have_distinct_names_and_block_limits_in_their_own_blocks() {
    let (mut pair, mut initiator) = logged_in(&[]);
    let mut page = |lun, code| {
        let cdb = Cdb::Inquiry {
            page: Some(code),
            allocation_length: 1024,
        };
        Vpd::parse(&initiator.run_cdb(&mut pair, lun, cdb, 1024).good()).unwrap()
    };
    let (Vpd::DeviceIdentification(a), Vpd::DeviceIdentification(b)) =
        (page(0, 0x83), page(5, 0x83))
    else {
        panic!()
    };
    let naa = |all: &[hakaru_wire::scsi::Designator]| {
        all.iter()
            .find(|d| d.kind == DesignatorKind::Naa)
            .unwrap()
            .bytes
            .clone()
    };
    assert_ne!(naa(&a), naa(&b));
    assert_eq!(naa(&a)[0] >> 4, 3, "locally assigned");
    let (Vpd::BlockLimits(small), Vpd::BlockLimits(large)) = (page(0, 0xb0), page(5, 0xb0)) else {
        panic!()
    };
    assert_eq!(
        small.maximum_transfer_length,
        8 * large.maximum_transfer_length
    );
}

#[test]
fn capacity_is_that_of_the_lu() {
    let (mut pair, mut initiator) = logged_in(&[]);
    for (lun, block) in [(0, 512), (5, 4096)] {
        let last = LU_BYTES as u64 / block - 1;
        let ten = Capacity10::parse(
            &initiator
                .run_cdb(&mut pair, lun, Cdb::ReadCapacity10, 8)
                .good(),
        )
        .unwrap();
        assert_eq!(
            (u64::from(ten.last_lba), u64::from(ten.block_length)),
            (last, block)
        );
        let cdb = Cdb::ReadCapacity16 {
            allocation_length: 32,
        };
        let sixteen =
            Capacity16::parse(&initiator.run_cdb(&mut pair, lun, cdb, 32).good()).unwrap();
        assert_eq!(
            (sixteen.last_lba, u64::from(sixteen.block_length)),
            (last, block)
        );
    }
}

#[test]
fn luns_are_reported_from_any_lun() {
    let (mut pair, mut initiator) = logged_in(&[]);
    for lun in [0, 9] {
        let cdb = Cdb::ReportLuns {
            select_report: 0,
            allocation_length: 256,
        };
        let (luns, count) =
            parse_luns(&initiator.run_cdb(&mut pair, lun, cdb, 256).good()).unwrap();
        assert_eq!(
            (luns, count),
            (vec![Lun::new(0), Lun::new(5), Lun::new(7)], 3)
        );
    }
    let cdb = Cdb::ReportLuns {
        select_report: 1,
        allocation_length: 256,
    };
    assert_eq!(
        parse_luns(&initiator.run_cdb(&mut pair, 0, cdb, 256).good())
            .unwrap()
            .1,
        0
    );
}

#[test]
fn mode_sense_reports_cache_and_write_protection() {
    let (mut pair, mut initiator) = logged_in(&[]);
    for (lun, write_protected, cached) in [(0, false, false), (5, false, true), (7, true, false)] {
        for ten in [false, true] {
            let mut cdb = [0u8; 16];
            cdb[..5].copy_from_slice(&[0x1a, 0, 0x3f, 0, 255]);
            if ten {
                cdb = [0x5a, 0, 0x3f, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
            }
            let mode =
                ModeData::parse(&initiator.run(&mut pair, lun, &cdb, 256).good(), ten).unwrap();
            assert_eq!(
                (mode.write_protected, mode.dpo_fua, mode.pages.len()),
                (write_protected, true, 4)
            );
            assert!(mode.pages.contains(&ModePage::Caching {
                write_cache: cached,
                read_cache_disabled: false
            }));
            assert_eq!(
                mode.block_descriptor.unwrap().block_length,
                if lun == 5 { 4096 } else { 512 }
            );
        }
    }
    for (name, cdb, sense) in [
        (
            "unknown page",
            [0x1a, 0, 0x02, 0, 255, 0],
            Sense::INVALID_FIELD_IN_CDB,
        ),
        (
            "unknown subpage",
            [0x1a, 0, 0x08, 1, 255, 0],
            Sense::INVALID_FIELD_IN_CDB,
        ),
        (
            "saved values",
            [0x1a, 0, 0xff, 0, 255, 0],
            Sense::SAVING_PARAMETERS_NOT_SUPPORTED,
        ),
    ] {
        assert_eq!(
            initiator.run(&mut pair, 0, &cdb, 255).sense(),
            sense,
            "{name}"
        );
    }
}

#[test]
fn parameter_data_is_truncated_to_the_allocation_length() {
    let (mut pair, mut initiator) = logged_in(&[]);
    type Emit = fn(u16) -> Vec<u8>;
    let commands: &[(&str, Emit)] = &[
        ("INQUIRY", |n| vec![0x12, 0, 0, (n >> 8) as u8, n as u8, 0]),
        ("VPD 83h", |n| {
            vec![0x12, 1, 0x83, (n >> 8) as u8, n as u8, 0]
        }),
        ("MODE SENSE(10)", |n| {
            vec![0x5a, 0, 0x3f, 0, 0, 0, 0, (n >> 8) as u8, n as u8, 0]
        }),
        ("MODE SENSE(6)", |n| {
            vec![0x1a, 0, 0x3f, 0, n.min(255) as u8, 0]
        }),
        ("REPORT LUNS", |n| {
            vec![0xa0, 0, 0, 0, 0, 0, 0, 0, (n >> 8) as u8, n as u8, 0, 0]
        }),
        ("READ CAPACITY(16)", |n| {
            vec![
                0x9e,
                0x10,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                (n >> 8) as u8,
                n as u8,
                0,
                0,
            ]
        }),
        ("REQUEST SENSE", |n| {
            vec![0x03, 0, 0, 0, n.min(255) as u8, 0]
        }),
    ];
    for (name, cdb) in commands {
        let all = initiator.run(&mut pair, 0, &cdb(u16::MAX), 65_535).good();
        for length in [0u16, 1, 3, 4, 7, 8, 17, 255] {
            let cut = initiator.run(&mut pair, 0, &cdb(length), 65_535);
            assert_eq!(
                cut.data,
                all[..all.len().min(length.into())],
                "{name} {length}"
            );
            assert_eq!(
                cut.residual,
                Residual::Underflow(65_535 - cut.data.len() as u32),
                "{name} {length}"
            );
        }
    }
}

#[test]
fn commands_to_a_lun_without_an_lu_are_refused() {
    let (mut pair, mut initiator) = logged_in(&[]);
    for cdb in [Cdb::TestUnitReady, read(0, 1), Cdb::ReadCapacity10] {
        assert_eq!(
            initiator.run_cdb(&mut pair, 9, cdb, 0).sense(),
            Sense::LOGICAL_UNIT_NOT_SUPPORTED
        );
    }
    let cdb = Cdb::RequestSense {
        descriptor_format: false,
        allocation_length: 18,
    };
    let sense = Sense::parse(&initiator.run_cdb(&mut pair, 9, cdb, 18).good()).unwrap();
    assert_eq!(sense, Sense::LOGICAL_UNIT_NOT_SUPPORTED);
    // Forms of LUN other than a single-level number.
    for raw in [1u64, 0x0100_0000_0000_0000, u64::MAX] {
        let command = ScsiCommand {
            lun: Lun(raw),
            ..initiator.command(0, &[0], false, false, 0)
        };
        initiator.send_command(&mut pair, &command, &[]);
        let answer = Answer::of(initiator.receive(&mut pair), command.itt);
        assert_eq!(answer.sense(), Sense::LOGICAL_UNIT_NOT_SUPPORTED);
    }
}

#[test]
fn a_stopped_unit_is_not_ready_for_any_initiator_until_it_is_started() {
    let (mut pair, mut initiator) = logged_in(&[]);
    let mut other = pair.log_in_as("iqn.2026-01.net.example:other", 2, &[]);
    let stop = [0x1b, 0, 0, 0, 0, 0];
    let start = [0x1b, 0, 0, 0, 1, 0];
    initiator.run(&mut pair, 5, &stop, 0).good();
    for cdb in [Cdb::TestUnitReady, read(0, 1), Cdb::ReadCapacity10] {
        assert_eq!(
            other.run_cdb(&mut pair, 5, cdb, 0).sense(),
            Sense::INITIALIZING_COMMAND_REQUIRED
        );
    }
    let request = Cdb::RequestSense {
        descriptor_format: true,
        allocation_length: 64,
    };
    assert_eq!(
        Sense::parse(&other.run_cdb(&mut pair, 5, request, 64).good()),
        Some(Sense::INITIALIZING_COMMAND_REQUIRED)
    );
    other.run_cdb(&mut pair, 0, read(0, 1), 512).good();
    other.run(&mut pair, 5, &start, 0).good();
    initiator.run_cdb(&mut pair, 5, read(0, 1), 4096).good();
    let eject = [0x1b, 0, 0, 0, 2, 0];
    assert_eq!(
        initiator.run(&mut pair, 5, &eject, 0).sense(),
        Sense::INVALID_FIELD_IN_CDB
    );
}

#[test]
fn every_opcode_with_any_cdb_gets_an_answer() {
    let (mut pair, mut initiator) = logged_in(&[]);
    for code in 0..=255u8 {
        for fill in [0, 0xff, 0xa5] {
            let mut cdb = [fill; 16];
            cdb[0] = code;
            if code & 0xfe == opcode::START_STOP_UNIT & 0xfe {
                continue; // It would stop the unit.
            }
            let command = initiator.command(0, &cdb, true, false, 65_536);
            initiator.send_command(&mut pair, &command, &[]);
            let answer = Answer::of(initiator.receive(&mut pair), command.itt);
            assert!(matches!(answer.status, 0 | 2), "{code:#x} {answer:?}");
        }
    }
    initiator
        .run_cdb(&mut pair, 0, Cdb::TestUnitReady, 0)
        .good();
}

#[test]
fn failures_of_the_storage_become_sense_data() {
    let failures = [
        (IoFailure::Read, Sense::UNRECOVERED_READ_ERROR),
        (IoFailure::Write, Sense::WRITE_ERROR),
        (
            IoFailure::Space,
            Sense::SPACE_ALLOCATION_FAILED_WRITE_PROTECT,
        ),
        (IoFailure::Internal, Sense::INTERNAL_TARGET_FAILURE),
    ];
    for (failure, sense) in failures {
        let (mut pair, mut initiator) = logged_in(&[]);
        pair.stalled = true;
        let command = initiator.command(0, &read(0, 1).emit(), true, false, 512);
        initiator.send_command(&mut pair, &command, &[]);
        let io = pair.held.pop().unwrap();
        pair.target
            .handle_io_done(pair.time, io.id, IoResult::Failed(failure));
        pair.run();
        let answer = Answer::of(initiator.receive(&mut pair), command.itt);
        assert_eq!(
            (answer.sense(), answer.residual),
            (sense, Residual::Underflow(512))
        );
    }
}

#[test]
fn a_read_answered_with_too_few_bytes_is_an_internal_failure() {
    let (mut pair, mut initiator) = logged_in(&[]);
    pair.stalled = true;
    let command = initiator.command(0, &read(0, 2).emit(), true, false, 1024);
    initiator.send_command(&mut pair, &command, &[]);
    let io = pair.held.pop().unwrap();
    pair.target
        .handle_io_done(pair.time, io.id, IoResult::ReadData(vec![0; 512]));
    pair.run();
    assert_eq!(
        Answer::of(initiator.receive(&mut pair), command.itt).sense(),
        Sense::INTERNAL_TARGET_FAILURE
    );
}

#[test]
fn synchronize_cache_reaches_the_storage_only_where_there_is_a_cache() {
    let (mut pair, mut initiator) = logged_in(&[]);
    pair.stalled = true;
    let flush = Cdb::SynchronizeCache {
        lba: 0,
        blocks: 0,
        immediate: false,
    };
    initiator.run_cdb(&mut pair, 0, flush, 0).good();
    let command = initiator.command(5, &flush.emit(), false, false, 0);
    initiator.send_command(&mut pair, &command, &[]);
    assert!(initiator.receive(&mut pair).is_empty());
    pair.release();
    Answer::of(initiator.receive(&mut pair), command.itt).good();
}
