//! Identifying information of drives, changers and disks.

use std::collections::BTreeMap;

use hakaru_wire::scsi::{CdbError, FieldPointer, IdentifyingKind, ReserveOut, parse_identifying};
use proptest::prelude::*;

use super::*;
use crate::pair::control::{attentions, order_on, with_list};

const DISK: u8 = 0;
const DEVICE: u8 = IdentifyingKind::Device as u8;
const TEXT: u8 = IdentifyingKind::Text as u8;

fn report(information_type: u8) -> Cdb {
    Cdb::ReportIdentifyingInformation {
        information_type,
        allocation_length: 4096,
    }
}

fn set(information_type: u8, parameter_list_length: usize) -> Cdb {
    Cdb::SetIdentifyingInformation {
        information_type,
        parameter_list_length: parameter_list_length as u32,
    }
}

impl Scene {
    fn reported(&mut self, lun: u8, information_type: u8) -> Vec<u8> {
        let answer = self.run(lun, report(information_type), 4096).good();
        parse_identifying(&answer).to_vec()
    }

    fn set(&mut self, lun: u8, information_type: u8, list: &[u8]) -> Answer {
        let cdb = set(information_type, list.len());
        if list.is_empty() {
            return self.run(lun, cdb, 0);
        }
        with_list(&mut self.initiator, &mut self.pair, lun, cdb, list)
    }
}

fn with_disk() -> Scene {
    let mut scene = Scene::new(&[]);
    clear(&mut scene.pair, &mut scene.initiator, DISK);
    scene
}

#[test]
fn information_belongs_to_its_lu_and_survives_resets_and_moves() {
    let mut scene = with_disk();
    let lus = [DISK, CHANGER, DRIVES[0], DRIVES[1]];
    for lun in lus {
        assert_eq!(scene.run(lun, report(DEVICE), 255).good(), [0; 4]);
        let supported = scene.run(lun, report(IdentifyingKind::SUPPORTED), 255);
        assert_eq!(supported.good(), [0, 0, 0, 8, 0, 0, 2, 0, 4, 0, 1, 0]);
        scene.set(lun, DEVICE, &[lun; 512]).good();
        scene
            .set(lun, TEXT, format!("LU {lun}\0").as_bytes())
            .good();
    }
    scene.move_medium(DRIVE, SLOT).good();
    reset(&mut scene, TaskManagementFunction::LogicalUnitReset);
    clear(&mut scene.pair, &mut scene.initiator, DRIVES[0]);
    for lun in lus {
        assert_eq!(scene.reported(lun, DEVICE), [lun; 512]);
        assert_eq!(scene.reported(lun, TEXT), format!("LU {lun}\0").as_bytes());
    }
    // Without a list, and truncated: the length is that of the whole information.
    scene.set(DRIVES[0], DEVICE, &[]).good();
    assert!(scene.reported(DRIVES[0], DEVICE).is_empty());
    assert_eq!(scene.reported(DRIVES[0], TEXT), b"LU 10\0");
    let cdb = Cdb::ReportIdentifyingInformation {
        information_type: TEXT,
        allocation_length: 6,
    };
    let truncated = scene.run(DRIVES[0], cdb, 255).good();
    assert_eq!(truncated, [0, 0, 0, 6, b'L', b'U']);
}

#[test]
fn change_is_reported_to_the_other_initiators_of_the_lu() {
    for lun in [DISK, CHANGER, DRIVES[0]] {
        let mut scene = with_disk();
        let mut other = scene.log_in(2);
        clear(&mut scene.pair, &mut other, DISK);
        let mut seen = |scene: &mut Scene| {
            let Scene { pair, initiator } = scene;
            (
                attentions(initiator, pair, lun),
                attentions(&mut other, pair, lun),
            )
        };
        let changed = || (vec![], vec![Sense::DEVICE_IDENTIFIER_CHANGED]);
        scene.set(lun, DEVICE, b"one").good();
        assert_eq!(seen(&mut scene), changed());
        // The same information, and none where there was none.
        scene.set(lun, DEVICE, b"one").good();
        scene.set(lun, TEXT, &[]).good();
        assert_eq!(seen(&mut scene), (vec![], vec![]));
        scene.set(lun, DEVICE, &[]).good();
        assert_eq!(seen(&mut scene), changed());
    }
}

#[test]
fn what_does_not_fit_is_refused_and_changes_nothing() {
    let mut scene = with_disk();
    let in_cdb = |byte, bit| CdbError::InvalidField { byte, bit }.sense();
    let in_list = Sense::INVALID_FIELD_IN_PARAMETER_LIST.with_field(FieldPointer {
        in_cdb: false,
        byte: 0,
        bit: None,
    });
    for lun in [DISK, CHANGER, DRIVES[0]] {
        scene.set(lun, DEVICE, b"one").good();
        scene.set(lun, TEXT, b"two\0").good();
        for (kind, list) in [(DEVICE, &[1; 513][..]), (TEXT, &[b'a'; 257])] {
            let refused = scene.set(lun, kind, list);
            assert_eq!(refused.sense, Some(in_cdb(6, None)));
        }
        for text in [&b"no null byte"[..], b"a\0b\0", b"a\0\0", b"\xff\0"] {
            let refused = scene.set(lun, TEXT, text);
            assert_eq!(refused.sense, Some(in_list), "{text:02x?}");
        }
        // 7Fh can be reported alone; odd types are those of storage arrays (SCC-2).
        for other in [0x01, 0x03, 0x04, 0x7e, 0x7f] {
            let refused = scene.set(lun, other, b"one");
            assert_eq!(refused.sense, Some(in_cdb(10, Some(7))), "{other:02x}");
            if other != IdentifyingKind::SUPPORTED {
                let refused = scene.run(lun, report(other), 255);
                assert_eq!(refused.sense, Some(in_cdb(10, Some(7))), "{other:02x}");
            }
        }
        // The initiator sends less than it has announced.
        let cdb = set(DEVICE, 64);
        let short = with_list(&mut scene.initiator, &mut scene.pair, lun, cdb, b"short");
        assert_eq!(short.sense(), Sense::PARAMETER_LIST_LENGTH_ERROR);
        assert_eq!(scene.reported(lun, DEVICE), b"one");
        assert_eq!(scene.reported(lun, TEXT), b"two\0");
    }
}

#[test]
fn reservation_of_another_initiator_admits_reports_alone() {
    for lun in [DISK, CHANGER, DRIVES[0]] {
        let mut scene = with_disk();
        let mut other = scene.log_in(2);
        clear(&mut scene.pair, &mut other, DISK);
        scene.set(lun, DEVICE, b"one").good();
        let pair = &mut scene.pair;
        clear(pair, &mut other, lun);
        let keys = (0, 7);
        order_on(lun, &mut other, pair, ReserveOut::Register, 0, keys).good();
        // Write exclusive.
        order_on(lun, &mut other, pair, ReserveOut::Reserve, 1, (7, 0)).good();
        for list in [&b"two"[..], b""] {
            let refused = scene.set(lun, DEVICE, list);
            assert_eq!(refused.status, Status::RESERVATION_CONFLICT.0);
        }
        assert_eq!(scene.reported(lun, DEVICE), b"one");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn each_kind_of_each_lu_has_what_was_set_last(
        orders in proptest::collection::vec(
            (
                proptest::sample::select(vec![DISK, CHANGER, DRIVES[0], DRIVES[1]]),
                proptest::sample::select(IdentifyingKind::ALL.to_vec()),
                proptest::collection::vec(any::<u8>(), 0..600),
                any::<bool>(),
            ),
            1..20,
        )
    ) {
        let mut scene = with_disk();
        let mut model: BTreeMap<(u8, u8), Vec<u8>> = BTreeMap::new();
        for (lun, kind, mut bytes, is_text) in orders {
            if is_text {
                bytes.iter_mut().for_each(|byte| *byte = 0x20 | (*byte % 64));
                bytes.push(0);
            }
            let answer = scene.set(lun, kind as u8, &bytes);
            let fits = bytes.len() <= usize::from(kind.bytes_max()) && kind.admits(&bytes);
            prop_assert_eq!(answer.status == 0, fits);
            if fits {
                model.insert((lun, kind as u8), bytes);
            }
            for ((lun, kind), information) in &model {
                prop_assert_eq!(&scene.reported(*lun, *kind), information);
            }
        }
    }
}
