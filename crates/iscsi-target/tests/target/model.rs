//! Model tests: data of LUs against vectors under all combinations of negotiated keys, and
//! arbitrary bytes on a connection next to another session.

use crate::pair::{Answer, Initiator, LU_BYTES, Pair, answer_to, pattern, r2t_of, unsolicited};
use hakaru_wire::iscsi::{DataOut, Opcode, R2t, ScsiCommand};
use hakaru_wire::scsi::{Cdb, Sense, Transfer};
use proptest::collection::vec;
use proptest::prelude::*;

/// Negotiated keys, and the behaviour of the shell.
#[derive(Clone, Debug)]
struct Terms {
    initial_r2t: bool,
    immediate_data: bool,
    header_digest: bool,
    data_digest: bool,
    max_burst: u32,
    first_burst: u32,
    segment: u32,
    outstanding: u32,
    copy: bool,
    write_max: usize,
    chunk: usize,
}

fn terms() -> impl Strategy<Value = Terms> {
    let flags = (
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
    );
    let sizes = (
        prop_oneof![Just(512u32), Just(4096), 512..70_000u32],
        // Up to what the target agrees to, so that the offer is the result.
        prop_oneof![Just(512u32), 512..=65_536u32],
        prop_oneof![Just(512u32), Just(8192), 512..70_000u32],
        1..9u32,
    );
    let shell = (
        prop_oneof![Just(usize::MAX), 1..5000usize],
        prop_oneof![Just(usize::MAX), 1..3000usize],
    );
    (flags, sizes, shell).prop_map(|(flags, sizes, shell)| Terms {
        initial_r2t: flags.0,
        immediate_data: flags.1,
        header_digest: flags.2,
        data_digest: flags.3,
        copy: flags.4,
        max_burst: sizes.0,
        first_burst: sizes.1.min(sizes.0),
        segment: sizes.2,
        outstanding: sizes.3,
        write_max: shell.0,
        chunk: shell.1,
    })
}

impl Terms {
    fn log_in(&self, pair: &mut Pair) -> Initiator {
        let yes = |on| if on { "Yes" } else { "No" };
        let digest = |on| if on { "CRC32C" } else { "None" };
        pair.log_in(&[
            ("InitialR2T", yes(self.initial_r2t)),
            ("ImmediateData", yes(self.immediate_data)),
            ("HeaderDigest", digest(self.header_digest)),
            ("DataDigest", digest(self.data_digest)),
            ("MaxBurstLength", &self.max_burst.to_string()),
            ("FirstBurstLength", &self.first_burst.to_string()),
            ("MaxRecvDataSegmentLength", &self.segment.to_string()),
            ("MaxOutstandingR2T", &self.outstanding.to_string()),
        ])
    }
}

/// One access. It goes to LUN 5 if `large_blocks` is set, otherwise to LUN 0. `write` is the seed
/// of the data; `None` reads.
#[derive(Clone, Debug)]
struct Access {
    large_blocks: bool,
    lba: u64,
    blocks: u32,
    write: Option<u8>,
}

fn access() -> impl Strategy<Value = Access> {
    (
        any::<bool>(),
        0..200u64,
        prop_oneof![1..4u32, 1..40u32],
        prop::option::of(any::<u8>()),
    )
        .prop_map(|(large_blocks, lba, blocks, write)| Access {
            large_blocks,
            lba,
            blocks,
            write,
        })
}

/// Sends a PDU in pieces of `chunk` bytes.
fn send(pair: &mut Pair, initiator: &Initiator, chunk: usize, header: &[u8; 48], data: &[u8]) {
    for piece in initiator.pdu(header, data).chunks(chunk) {
        pair.send(initiator.connection, piece);
    }
}

/// Sends one sequence of Data-Out PDUs from the offset of `first` to `to`, the last PDU with the F
/// bit.
fn send_sequence(
    pair: &mut Pair,
    initiator: &Initiator,
    terms: &Terms,
    first: DataOut,
    data: &[u8],
    to: usize,
) {
    let (mut offset, mut data_sn) = (first.buffer_offset as usize, 0);
    while offset < to {
        // The segments are shorter than the target declares, and the last one may have any length.
        let length = (to - offset).min(3000);
        let pdu = DataOut {
            is_final: offset + length == to,
            buffer_offset: offset as u32,
            data_sn,
            data_segment_length: length as u32,
            ..first
        };
        let mut header = [0; 48];
        pdu.emit(&mut header);
        send(
            pair,
            initiator,
            terms.chunk,
            &header,
            &data[offset..offset + length],
        );
        offset += length;
        data_sn += 1;
    }
}

fn write(
    pair: &mut Pair,
    initiator: &mut Initiator,
    terms: &Terms,
    lun: u8,
    cdb: [u8; 16],
    data: &[u8],
) {
    let first_burst = data.len().min(terms.first_burst as usize);
    let immediate = if terms.immediate_data {
        first_burst.min(700)
    } else {
        0
    };
    let has_unsolicited = !terms.initial_r2t && immediate < first_burst;
    let command = ScsiCommand {
        is_final: !has_unsolicited,
        data_segment_length: immediate as u32,
        ..initiator.command(lun, &cdb, false, true, data.len() as u32)
    };
    let mut header = [0; 48];
    command.emit(&mut header);
    send(pair, initiator, terms.chunk, &header, &data[..immediate]);
    if has_unsolicited {
        send_sequence(
            pair,
            initiator,
            terms,
            unsolicited(&command, immediate as u32, 0, false),
            data,
            first_burst,
        );
    }
    let mut open: Vec<R2t> = Vec::new();
    loop {
        let mut pdus = initiator.receive(pair);
        if pdus
            .last()
            .is_some_and(|pdu| pdu.opcode() == Opcode::ScsiResponse)
        {
            assert!(open.is_empty());
            Answer::of(vec![pdus.remove(0)], command.itt).good();
            return;
        }
        open.extend(pdus.iter().map(r2t_of));
        assert!(open.len() <= terms.outstanding as usize, "{open:?}");
        let r2t = open.remove(0);
        assert!(r2t.desired_data_transfer_length <= terms.max_burst);
        let to = r2t.buffer_offset + r2t.desired_data_transfer_length;
        send_sequence(pair, initiator, terms, answer_to(&r2t), data, to as usize);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases * 3 / 8))]

    #[test]
    fn reads_return_written_data_under_all_terms(terms in terms(), accesses in vec(access(), 1..24)) {
        let mut pair = Pair::new();
        pair.copy = terms.copy;
        pair.write_max = terms.write_max;
        let mut model = [vec![0u8; LU_BYTES], vec![0u8; LU_BYTES]];
        let mut initiator = terms.log_in(&mut pair);
        for access in &accesses {
            let (lun, block) = if access.large_blocks { (5, 4096) } else { (0, 512) };
            let transfer = Transfer { lba: access.lba, blocks: access.blocks, ..Transfer::default() };
            let range = access.lba as usize * block..(access.lba as usize + access.blocks as usize) * block;
            let model = &mut model[usize::from(access.large_blocks)];
            match access.write {
                Some(seed) => {
                    let data = pattern(range.len(), seed);
                    write(&mut pair, &mut initiator, &terms, lun, Cdb::Write(transfer).emit(), &data);
                    model[range].copy_from_slice(&data);
                }
                None => {
                    let answer = initiator.run_cdb(&mut pair, lun, Cdb::Read(transfer), range.len() as u32);
                    prop_assert_eq!(&answer.good()[..], &model[range]);
                }
            }
        }
        prop_assert_eq!(&pair.lus[&0], &model[0]);
        prop_assert_eq!(&pair.lus[&5], &model[1]);
        prop_assert_eq!(pair.counter("sessions", "write_buffer_bytes_now"), 0.0);
    }
}

/// Returns PDUs with nearly valid headers: those of a real PDU with some bytes changed, and a data
/// segment of the stated length or another one.
fn near_pdu() -> impl Strategy<Value = Vec<u8>> {
    let opcode = prop_oneof![
        Just(0u8),
        Just(1),
        Just(2),
        Just(3),
        Just(4),
        Just(5),
        Just(6),
        Just(0x10),
        0..64u8
    ];
    let numbers = (
        0..6u32,
        0..6u32,
        prop_oneof![Just(u32::MAX), 0..6u32, any::<u32>()],
        prop_oneof![0..3000u32, any::<u32>()],
    );
    let cdb = (
        prop_oneof![
            Just(0x28u8),
            Just(0x2a),
            Just(0x12),
            Just(0x8a),
            any::<u8>()
        ],
        vec(any::<u8>(), 15),
    );
    (
        opcode,
        any::<bool>(),
        any::<u8>(),
        0..5u8,
        0..1200u32,
        numbers,
        cdb,
        vec(any::<u8>(), 0..1200),
    )
        .prop_map(
            |(
                opcode,
                immediate,
                flags,
                ahs,
                length,
                (itt, cmd_sn, ttt, edtl),
                (command, cdb),
                data,
            )| {
                let mut header = vec![0u8; 48];
                header[0] = opcode | u8::from(immediate) << 6;
                header[1] = flags;
                header[4] = ahs & 1;
                header[5..8].copy_from_slice(&length.to_be_bytes()[1..]);
                header[16..20].copy_from_slice(&itt.to_be_bytes());
                header[20..24].copy_from_slice(&if opcode == 1 { edtl } else { ttt }.to_be_bytes());
                header[24..28].copy_from_slice(&(cmd_sn + 1).to_be_bytes());
                header[32] = command;
                // TARGET COLD RESET and START STOP UNIT may legally disturb the neighbour, so they
                // are replaced.
                if opcode == 2 && flags & 0x7f == 7 {
                    header[1] = 5;
                }
                if command == 0x1b {
                    header[32] = 0x5a;
                }
                header[33..48].copy_from_slice(&cdb);
                if command == 0x28 || command == 0x2a {
                    header[33..37].fill(0);
                    header[39] = 0;
                }
                header.extend(data);
                header
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases * 3 / 2))]

    #[test]
    fn no_bytes_disturb_another_session(
        logged_in in any::<bool>(),
        pdus in vec(prop_oneof![4 => near_pdu(), 1 => vec(any::<u8>(), 0..200)], 1..24),
        cut in 1..700usize,
        stalled in any::<bool>(),
    ) {
        let mut pair = Pair::new();
        let mut neighbour = pair.log_in_as("iqn.2026-01.net.example:neighbour", 2, &[]);
        let connection = if logged_in { pair.log_in(&[]).connection } else { pair.connect() };
        let bytes: Vec<u8> = pdus.concat();
        pair.stalled = stalled;
        for piece in bytes.chunks(cut) {
            pair.send(connection, piece);
            if pair.is_closed(connection) {
                break;
            }
        }
        let answered = pair.received(connection).len();
        if !logged_in {
            prop_assert!(answered <= bytes.len() + 48, "{} bytes in, {answered} out", bytes.len());
        }
        pair.release();
        pair.advance(1.0);
        // Resets are legal, and reported to the neighbour.
        let answer = neighbour.receive(&mut pair);
        prop_assert!(answer.is_empty());
        prop_assert!(!pair.is_closed(neighbour.connection));
        let request_sense = Cdb::RequestSense { descriptor_format: false, allocation_length: 18 };
        while Sense::parse(&neighbour.run_cdb(&mut pair, 0, request_sense, 18).good()) != Some(Sense::NO_SENSE) {}
        let read = Cdb::Read(Transfer { blocks: 4, ..Transfer::default() });
        prop_assert_eq!(neighbour.run_cdb(&mut pair, 0, read, 2048).good(), &pair.lus[&0][..2048]);
        pair.target.handle_closed(pair.time, connection);
        pair.target.handle_closed(pair.time, neighbour.connection);
        pair.run();
        prop_assert_eq!(pair.counter("sessions", "write_buffer_bytes_now"), 0.0);
        prop_assert_eq!(pair.counter("sessions", "connections_now"), 0.0);
        prop_assert_eq!(pair.target.poll_timeout(), None);
    }
}
