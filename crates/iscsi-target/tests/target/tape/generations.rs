//! Cartridges of other generations than that of the drive: those that it writes, only reads, and
//! does not read. The drives are of LTO-5 and LTO-6.

use super::*;

/// A library with cartridges of a generation, all in slots.
fn cartridges_of(generation: Generation) -> Scene {
    Scene::empty(with_generation(with_library(false), generation), &[])
}

impl Scene {
    /// Moves a cartridge into a drive. Returns the answer to the first command after the unit
    /// attention condition.
    fn insert(&mut self, source: u16, number: u8) -> Answer {
        self.move_medium(source, DRIVE + u16::from(number)).good();
        let lun = DRIVES[usize::from(number)];
        let attention = self.run(lun, Cdb::TestUnitReady, 0);
        assert_eq!(attention.sense(), Sense::MEDIUM_MAY_HAVE_CHANGED);
        self.run(lun, Cdb::TestUnitReady, 0)
    }

    fn on(&mut self, number: u8, cdb: &[u8]) -> Answer {
        let lun = DRIVES[usize::from(number)];
        self.initiator.run(&mut self.pair, lun, cdb, 4096)
    }

    /// Returns WP and the density code of MODE SENSE.
    fn mode_header(&mut self, number: u8) -> (bool, u8) {
        let mode = self.on(number, &[0x1a, 0, 0, 0, 12, 0]).good();
        (mode[2] & 0x80 != 0, mode[4])
    }

    /// Returns the codes and flags of REPORT DENSITY SUPPORT: of the medium, or of the drive.
    fn densities(&mut self, number: u8, medium: bool) -> Vec<(u8, u8)> {
        let cdb = [0x44, medium.into(), 0, 0, 0, 0, 0, 1, 0, 0];
        let data = self.on(number, &cdb).good();
        let length = usize::from(u16::from_be_bytes([data[0], data[1]]));
        assert_eq!(length, data.len() - 2);
        let (descriptors, rest) = data[4..].as_chunks::<52>();
        assert!(rest.is_empty());
        let codes = descriptors.iter();
        codes
            .map(|descriptor| {
                assert_eq!(descriptor[0], descriptor[1]);
                (descriptor[0], descriptor[2])
            })
            .collect()
    }

    /// Returns the numbers of the TapeAlert flags of a drive that are set.
    fn flags(&mut self, number: u8) -> Vec<u8> {
        let page = self.on(number, &[0x4d, 0, 0x6e, 0, 0, 0, 0, 0x10, 0, 0]);
        let page = page.good();
        let (flags, _) = page[4..].as_chunks::<5>();
        let set = flags.iter().filter(|flag| flag[4] == 1);
        set.map(|flag| flag[1]).collect()
    }
}

#[test]
fn drive_writes_the_generation_before_in_its_format() {
    let mut scene = cartridges_of(Generation::Lto4);
    assert_eq!(scene.insert(SLOT, 0).status, 0);
    assert_eq!(scene.mode_header(0), (false, 0x46));
    // WRT without DEFLT.
    assert_eq!(scene.densities(0, true), [(0x46, 0x80)]);
    assert!(scene.flags(0).is_empty());
    scene.write(false, 1000, &[7; 1000]).good();
    scene.marks(1).good();
    scene.rewind();
    assert_eq!(scene.read(false, 1000, 1000).good(), [7; 1000]);
    // MODE SELECT takes the density of the cartridge, and not that of the drive.
    for (code, good) in [(0x46, true), (0x00, true), (0x7f, true), (0x58, false)] {
        let list = [0, 0, 0x10, 8, code, 0, 0, 0, 0, 0, 2, 0];
        let answer = scene.run_list(&[0x15, 0x10, 0, 0, 12, 0], &list);
        assert_eq!(answer.status == 0, good, "{code:02x}");
    }
    // The density in the memory of the cartridge, and the name of its format in page 17h.
    let memory = scene.on(
        0,
        &[0x8c, 0, 0, 0, 0, 0, 0, 0, 0x04, 0x05, 0, 0, 0, 10, 0, 0],
    );
    assert_eq!(memory.good()[4..], [0x04, 0x05, 0x80, 0, 1, 0x46]);
    let page = scene.on(0, &[0x4d, 0, 0x57, 0, 0, 0, 0, 0x10, 0, 0]).good();
    assert!(page.windows(9).any(|text| text == b"Ultrium-4"));
}

#[test]
fn drive_only_reads_the_generation_before_the_last_one() {
    let mut scene = cartridges_of(Generation::Lto4);
    scene.insert(SLOT, 0).good();
    scene.write(false, 1000, &[7; 1000]).good();
    scene.marks(1).good();
    assert_eq!(scene.insert(DRIVE, 1).status, 0);
    assert_eq!(scene.mode_header(1), (true, 0x46));
    assert_eq!(scene.densities(1, true), [(0x46, 0x00)]);
    // Read-only format; WRTP of the very high frequency data.
    assert_eq!(scene.flags(1), [0x11]);
    let status = scene.on(1, &[0x4d, 0, 0x51, 0, 0, 0, 0, 0x10, 0, 0]).good();
    assert_eq!(status[8] & 0x08, 0x08);
    assert_eq!(scene.on(1, &[0x08, 0, 0, 3, 0xe8, 0]).good(), [7; 1000]);
    let write = [0x0a, 0, 0, 0, 4, 0];
    let refused = scene
        .initiator
        .run_out(&mut scene.pair, DRIVES[1], &write, b"data");
    let read_only = Sense::CANNOT_WRITE_MEDIUM_INCOMPATIBLE_FORMAT;
    assert_eq!(refused.sense(), read_only);
    // WRITE FILEMARKS, ERASE. Zero filemarks synchronise.
    for cdb in [[0x10, 0, 0, 0, 1, 0], [0x19, 0, 0, 0, 0, 0]] {
        assert_eq!(scene.on(1, &cdb).sense(), read_only);
    }
    assert!(scene.on(1, &[0x10, 0, 0, 0, 0, 0]).good().is_empty());
    // The drive that writes this generation continues after the last filemark.
    scene.insert(DRIVE + 1, 0).good();
    assert_eq!(scene.mode_header(0), (false, 0x46));
    scene.space(SpaceCode::EndOfData, 0).good();
    assert_eq!(scene.position(), 2);
    scene.write(false, 4, b"more").good();
}

#[test]
fn cartridge_that_the_drive_does_not_read_is_not_mounted() {
    // Newer than the drive, and three generations older.
    for (generation, number, density) in [(Generation::Lto6, 0, 0x58), (Generation::Lto3, 1, 0x5a)]
    {
        let mut scene = cartridges_of(generation);
        let unreadable = Sense::CANNOT_READ_MEDIUM_UNKNOWN_FORMAT;
        assert_eq!(scene.insert(SLOT, number).sense(), unreadable);
        for cdb in [
            &[0x08, 0, 0, 2, 0, 0][..],
            &[0x10, 0, 0, 0, 1, 0],
            &[0x01, 0, 0, 0, 0, 0],
            &[0x11, 0x03, 0, 0, 0, 0],
            &[0x34, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            &[0x44, 0x01, 0, 0, 0, 0, 0, 0, 255, 0],
            &[0x8c, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0],
            // LOAD.
            &[0x1b, 0, 0, 0, 1, 0],
        ] {
            assert_eq!(scene.on(number, cdb).sense(), unreadable, "{cdb:02x?}");
        }
        let write = [0x0a, 0, 0, 0, 4, 0];
        let lun = DRIVES[usize::from(number)];
        let refused = scene
            .initiator
            .run_out(&mut scene.pair, lun, &write, b"data");
        assert_eq!(refused.sense(), unreadable);
        assert_eq!(scene.mode_header(number), (false, density));
        // Unsupported format; no load counts. It is seated, and no initiator has unloaded it.
        assert_eq!(scene.flags(number), [0x0c]);
        let page = scene.on(number, &[0x4d, 0, 0x54, 0, 0, 0, 0, 0x10, 0, 0]);
        assert_eq!(page.good()[8..12], [0; 4]);
        let status = scene.on(number, &[0x4d, 0, 0x51, 0, 0, 0, 0, 0x10, 0, 0]);
        assert_eq!(status.good()[8..10], [0x11, 0x34]);
        // It can be unloaded and moved to a drive that reads it.
        scene.on(number, &[0x1b, 0, 0, 0, 0, 0]).good();
        let unloaded = scene.run(lun, Cdb::TestUnitReady, 0);
        assert_eq!(unloaded.sense(), Sense::MEDIUM_NOT_PRESENT);
        let other = scene.insert(DRIVE + u16::from(number), 1 - number);
        assert_eq!(other.status, 0);
        assert!(scene.flags(number).is_empty());
    }
}

#[test]
fn drive_reports_the_densities_that_it_reads_with_and_without_a_cartridge() {
    let mut scene = cartridges_of(Generation::Lto5);
    let expected = [
        [(0x44, 0x00), (0x46, 0x80), (0x58, 0xa0)],
        [(0x46, 0x00), (0x58, 0x80), (0x5a, 0xa0)],
    ];
    for number in [0, 1] {
        let of_drive = expected[usize::from(number)];
        assert_eq!(scene.densities(number, false), of_drive);
        scene.insert(SLOT + u16::from(number), number).good();
        assert_eq!(scene.densities(number, false), of_drive);
        // The density of the medium is one of them.
        let of_medium = scene.densities(number, true);
        assert!(of_medium.len() == 1 && of_drive.contains(&of_medium[0]));
    }
}
