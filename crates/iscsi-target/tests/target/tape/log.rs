//! Log pages: counts of real events, and TapeAlert flags.

use std::collections::BTreeMap;

use hakaru_iscsi_target::{IoFailure, IoResult};
use hakaru_wire::scsi::LogPage;

use super::*;

impl Scene {
    fn log(&mut self, page: u8) -> Vec<u8> {
        self.log_from(page, 0)
    }

    /// Reads a log page from a parameter on.
    fn log_from(&mut self, page: u8, first: u8) -> Vec<u8> {
        let data = self
            .run_in(&[0x4d, 0, 0x40 | page, 0, 0, 0, first, 0x10, 0, 0])
            .good();
        assert_eq!(data[0], page);
        assert_eq!(
            usize::from(u16::from_be_bytes([data[2], data[3]])),
            data.len() - 4
        );
        data
    }

    /// Returns the values of a log page by code.
    fn parameters(&mut self, page: u8) -> BTreeMap<u16, Vec<u8>> {
        let LogPage::Parameters { parameters, .. } = LogPage::parse(&self.log(page)).unwrap()
        else {
            panic!("page {page:02x} has parameters");
        };
        assert!(parameters.is_sorted_by_key(|parameter| parameter.code));
        let values = parameters.into_iter();
        values
            .map(|parameter| (parameter.code, parameter.value))
            .collect()
    }

    /// Returns the numbers of the TapeAlert flags that are set.
    fn alerts(&mut self) -> Vec<u8> {
        set(&self.log(0x2e))
    }

    /// Executes READ or WRITE of one block of 4 bytes whose access fails.
    fn failing(&mut self, opcode: u8, failure: IoFailure) -> Answer {
        self.pair.stalled = true;
        let (initiator, write) = (&mut self.initiator, opcode == 0x0a);
        let cdb = [opcode, 0, 0, 0, 4, 0];
        let mut command = initiator.command(DRIVES[0], &cdb, !write, write, 4);
        command.is_final = true;
        let data = &b"lost"[..if write { 4 } else { 0 }];
        initiator.send_command(&mut self.pair, &command, data);
        let io = self.pair.held.remove(0);
        self.pair.stalled = false;
        let now = self.pair.time;
        let failed = IoResult::Failed(failure);
        self.pair.target.handle_io_done(now, io.id, failed);
        self.pair.run();
        Answer::of(self.initiator.receive(&mut self.pair), command.itt)
    }
}

/// Returns the numbers of the flags that are set in a TapeAlert page.
fn set(page: &[u8]) -> Vec<u8> {
    let (flags, rest) = page[4..].as_chunks::<5>();
    assert_eq!((flags.len(), rest.len()), (64, 0));
    for (flag, number) in flags.iter().zip(1..) {
        assert_eq!(flag[..4], [0, number, 3, 1]);
    }
    let on = flags.iter().filter(|flag| flag[4] == 1);
    on.map(|flag| flag[1]).collect()
}

#[test]
fn errors_of_the_store_are_counted_and_set_flags() {
    let mut scene = Scene::new(&[]);
    scene.write(false, 1000, &[1; 1000]).good();
    let lost = scene.failing(0x0a, IoFailure::Write);
    assert_eq!(lost.sense(), Sense::WRITE_ERROR);
    // Errors corrected: none. Bytes, and errors that were not corrected.
    let corrected = [0_u8, 3, 0, 4, 0, 0, 0, 0];
    let bytes = [0, 5, 0, 8, 0, 0, 0, 0, 0, 0, 3, 0xe8];
    let uncorrected = [0, 6, 0, 4, 0, 0, 0, 1];
    let counters = [&corrected[..], &bytes, &uncorrected].concat();
    let page = |code| [&[code, 0, 0, 28][..], &counters].concat();
    assert_eq!(scene.log(0x02), page(0x02));
    assert_eq!(scene.parameters(0x03)[&5], [0; 8]);
    assert_eq!(scene.alerts(), [0x03, 0x06]);
    scene.rewind();
    let failed = scene.failing(0x08, IoFailure::Read);
    assert_eq!(failed.sense().key, hakaru_wire::scsi::SenseKey::MediumError);
    scene.rewind();
    scene.read(false, 1000, 1000).good();
    assert_eq!(scene.log(0x03), page(0x03));
    assert_eq!(scene.alerts(), [0x03, 0x05]);
    // Page 14h: loads, cleanings, write errors and read errors.
    let statistics = scene.parameters(0x14);
    for (code, count) in [(0x00, 1), (0x01, 0), (0x0e, 1), (0x0f, 1)] {
        assert_eq!(statistics[&code], [0, 0, 0, count], "{code:04x}");
    }
    // A full store is a write error, too.
    scene.failing(0x0a, IoFailure::Space);
    assert_eq!(scene.parameters(0x02)[&6], [0, 0, 0, 2]);
    let usage = [0, 1, 0, 4, 0, 0, 0, 1, 0, 4, 0, 2, 0, 2, 0, 9, 0, 2, 0, 1];
    assert_eq!(scene.log(0x30), [&[0x30, 0, 0, 20][..], &usage].concat());
}

#[test]
fn a_flag_is_shown_once_to_each_initiator() {
    let mut scene = Scene::new(&[]);
    let mut other = scene.log_in(2);
    assert!(scene.alerts().is_empty());
    scene.failing(0x0a, IoFailure::Write);
    // The very high frequency data: compression, MAM, DINIT; a loaded cartridge; new flags.
    assert_eq!(scene.log(0x11)[4..], [0, 0, 3, 4, 0x31, 0x17, 0, 1]);
    let response = [0, 0, 3, 8, 0x24, 0, 0, 0, 0, 0, 0, 0];
    for _ in 0..2 {
        assert_eq!(scene.log(0x12)[4..], response);
        assert_eq!(scene.log(0x11)[11], 0);
    }
    // From a parameter on: the flags before it end, too.
    let rest = scene.log_from(0x2e, 0x06);
    assert_eq!(
        (rest.len(), &rest[4..9]),
        (4 + 59 * 5, &[0, 6, 3, 1, 1][..])
    );
    assert!(scene.alerts().is_empty());
    assert_eq!(scene.log(0x12)[4..], response);
    let cdb = [0x4d, 0, 0x6e, 0, 0, 0, 0, 0x10, 0, 0];
    let pair = &mut scene.pair;
    let page = other.run(pair, DRIVES[0], &cdb, 4096).good();
    assert_eq!(set(&page), [0x03, 0x06]);
    // The event happens again.
    scene.failing(0x0a, IoFailure::Write);
    assert_eq!(scene.alerts(), [0x03, 0x06]);
    // The flags belong to the cartridge.
    scene.move_medium(DRIVE, SLOT).good();
    let pair = &mut scene.pair;
    let page = other.run(pair, DRIVES[0], &cdb, 4096).good();
    assert!(set(&page).is_empty());
    assert_eq!(scene.log(0x12)[8..], [0; 8]);
    // Without a cartridge: robotic access is allowed.
    assert_eq!(scene.log(0x11)[8..], [0x11, 0x20, 0, 0]);
    assert_eq!(scene.log(0x17), [0x17, 0, 0, 5, 0, 0, 3, 1, 0]);
    assert_eq!(scene.log(0x30), [0x30, 0, 0, 0]);
}

#[test]
fn protected_cartridge_and_prevented_removal_set_flags() {
    let mut scene = Scene::empty(with_library(true), &[]);
    scene.move_medium(SLOT, DRIVE).good();
    scene.run(DRIVES[0], Cdb::TestUnitReady, 0);
    assert!(scene.alerts().is_empty());
    scene.write(false, 4, b"data");
    assert_eq!(scene.alerts(), [0x09]);
    scene.marks(1);
    assert_eq!(scene.alerts(), [0x09]);
    // WRTP of the very high frequency data; WRITE PROTECT of the volume statistics.
    assert_eq!(scene.log(0x11)[8] & 0x88, 0x08);
    assert_eq!(scene.parameters(0x17)[&0x80], [1]);
    let prevent = |prevent| Cdb::PreventAllowMediumRemoval { prevent };
    scene.run(DRIVES[0], prevent(1), 0).good();
    assert_eq!(
        scene.run_in(&[0x1b, 0, 0, 0, 0, 0]).sense(),
        Sense::MEDIUM_REMOVAL_PREVENTED
    );
    assert_eq!(scene.alerts(), [0x0a]);
    assert_eq!(scene.log(0x11)[8] & 0x80, 0x80);
    assert_eq!(scene.parameters(0x14)[&0x80], [1]);
    scene.run(DRIVES[0], prevent(0), 0).good();
    // Unloaded by an initiator, and still in the drive: HUI, RAA, MPRSNT, MSTD.
    scene.run_in(&[0x1b, 0, 0, 0, 0, 0]).good();
    assert_eq!(scene.log(0x11)[8..11], [0x59, 0x34, 0]);
    assert_eq!(scene.parameters(0x14)[&0x80], [0]);
    let serial = scene.run_in(&[0x12, 1, 0x80, 0, 255, 0]).good();
    assert_eq!(scene.parameters(0x14)[&0x41], serial[4..]);
}

/// Writes three megabytes and reads the first one.
fn used() -> Scene {
    let mut scene = Scene::loaded(with_capacity(with_library(false), 8 << 20), &[]);
    for block in 0..3 {
        let data = pattern(1_000_100, block);
        scene.write(false, 1_000_100, &data).good();
    }
    scene.rewind();
    let block = scene.read(false, 1_000_100, 1_000_100).good();
    assert_eq!(block, pattern(1_000_100, 0));
    scene
}

#[test]
fn sequential_access_page_has_bytes_and_places() {
    let mut scene = used();
    let page = scene.parameters(0x0c);
    let bytes = |code| u64::from_be_bytes(page[&code].clone().try_into().unwrap());
    let (written, read) = (3_000_300, 1_000_100);
    let totals: Vec<u64> = (0..4).map(bytes).collect();
    assert_eq!(totals, [written, written, read, read]);
    // To the end of data, to early warning, from there to the end, to the position; megabytes.
    let places: Vec<u8> = (4..8).map(|code| page[&code][3]).collect();
    assert_eq!(places, [3, 8, 0, 1]);
    assert_eq!(page.len(), 8);
    let rest = scene.log_from(0x0c, 3);
    assert_eq!(rest[..8], [0x0c, 0, 0, 44, 0, 3, 0, 8]);
    let beyond = scene.run_in(&[0x4d, 0, 0x4c, 0, 0, 0, 8, 0x10, 0, 0]);
    assert_eq!(beyond.sense(), Sense::INVALID_FIELD_IN_CDB);
    scene.move_medium(DRIVE, SLOT).good();
    let page = scene.parameters(0x0c);
    let codes: Vec<u16> = page.keys().copied().collect();
    assert_eq!(codes, [0, 1, 2, 3]);
}

#[test]
fn temperature_is_not_available_with_and_without_a_cartridge() {
    let mut scene = Scene::new(&[]);
    let pages = scene.log(0x00);
    assert!(pages[4..].is_sorted() && pages[4..].contains(&0x0d));
    // FFh in both parameters, each a binary list.
    let page = [0x0d, 0, 0, 12, 0, 0, 3, 2, 0, 0xff, 0, 1, 3, 2, 0, 0xff];
    assert_eq!(scene.log(0x0d), page);
    assert_eq!(
        scene.log_from(0x0d, 1),
        [&[0x0d, 0, 0, 6], &page[10..]].concat()
    );
    let beyond = scene.run_in(&[0x4d, 0, 0x4d, 0, 0, 0, 2, 0x10, 0, 0]);
    assert_eq!(beyond.sense(), Sense::INVALID_FIELD_IN_CDB);
    scene.move_medium(DRIVE, SLOT).good();
    assert_eq!(scene.log(0x0d), page);
}

#[test]
fn volume_statistics_follow_the_cartridge_into_another_drive() {
    let mut scene = used();
    let text = |text: &str, length| format!("{text:length$}").into_bytes();
    let first: BTreeMap<u16, Vec<u8>> = [
        (0x0000, vec![1]),
        (0x0001, vec![0, 0, 0, 1]),
        (0x0004, vec![0, 0]),
        (0x0009, vec![0, 0]),
        (0x000c, vec![0, 0]),
        (0x000d, vec![0, 0]),
        (0x000e, vec![0, 0, 0, 3]),
        (0x000f, vec![0, 0, 0, 1]),
        (0x0010, vec![0, 0, 0, 0, 0, 0, 0, 3]),
        (0x0011, vec![0, 0, 0, 0, 0, 0, 0, 1]),
        (0x0012, vec![0, 100]),
        (0x0013, vec![0, 100]),
        (0x0016, vec![0, 0, 0, 8]),
        (0x0017, vec![0, 0, 0, 3]),
        (0x0040, text("HAK001L5", 32)),
        (0x0042, text("HAK001L5", 32)),
        (0x0043, text("HAKARU", 8)),
        (0x0045, text("Ultrium-5", 9)),
        (0x0080, vec![0]),
        (0x0081, vec![0]),
        // Capacity, used and left, of partition 0: one record of 8 bytes.
        (0x0202, vec![7, 0, 0, 0, 0, 0, 0, 8]),
        (0x0203, vec![7, 0, 0, 0, 0, 0, 0, 3]),
        (0x0204, vec![7, 0, 0, 0, 0, 0, 0, 5]),
    ]
    .into();
    assert_eq!(scene.parameters(0x17), first);
    // Kinds: a counter, and a text.
    let page = scene.log(0x17);
    assert_eq!(page[9..13], [0, 1, 0, 4]);
    assert!(page.windows(4).any(|head| head == [0, 0x42, 1, 32]));
    scene.move_medium(DRIVE + 1, SLOT + 2).good();
    scene.move_medium(DRIVE, DRIVE + 1).good();
    scene.run(DRIVES[1], Cdb::TestUnitReady, 0);
    let cdb = [0x4d, 0, 0x57, 0, 0, 0, 0, 0x10, 0, 0];
    let data = scene
        .initiator
        .run(&mut scene.pair, DRIVES[1], &cdb, 4096)
        .good();
    let LogPage::Parameters { parameters, .. } = LogPage::parse(&data).unwrap() else {
        panic!("a page of parameters");
    };
    let second: BTreeMap<u16, Vec<u8>> = parameters
        .into_iter()
        .map(|parameter| (parameter.code, parameter.value))
        .collect();
    let changed: Vec<u16> = first
        .iter()
        .filter(|(code, value)| second[*code] != **value)
        .map(|(code, _)| *code)
        .collect();
    // Loads, and what belongs to the mount; the personality is that of the other drive.
    assert_eq!(changed, [0x01, 0x0e, 0x0f, 0x12, 0x13, 0x45]);
    assert_eq!(
        (second[&0x01][3], second[&0x0e][3], second[&0x12][1]),
        (2, 0, 0)
    );
}

#[test]
fn compression_pages_count_since_the_load() {
    let mut scene = used();
    let counts: Vec<Vec<u8>> = [100, 100]
        .map(|ratio: u16| ratio.to_be_bytes().to_vec())
        .into_iter()
        .chain([1, 100, 1, 100, 3, 300, 3, 300].map(|count: u32| count.to_be_bytes().to_vec()))
        .collect();
    let lto: BTreeMap<u16, Vec<u8>> = (0..).zip(counts).collect();
    assert_eq!(scene.parameters(0x32), lto);
    let mut standard = lto.clone();
    standard.insert(0x0100, vec![1]);
    assert_eq!(scene.parameters(0x1b), standard);
    scene.move_medium(DRIVE, SLOT).good();
    scene.move_medium(SLOT, DRIVE).good();
    scene.run(DRIVES[0], Cdb::TestUnitReady, 0);
    let values = scene.parameters(0x32).into_values();
    assert!(values.flatten().all(|byte| byte == 0));
}
