//! Vital product data, and the densities and media that a drive supports.

use super::*;

#[test]
fn vital_product_data_of_a_drive() {
    let mut scene = Scene::new(&[]);
    let page = |scene: &mut Scene, code| scene.run_in(&[0x12, 1, code, 0, 255, 0]).good();
    let pages = [0x00, 0x80, 0x83, 0x86, 0xb0, 0xb1, 0xb2];
    assert_eq!(page(&mut scene, 0x00), [&[1, 0, 0, 7][..], &pages].concat());
    // SIMPSUP and LUICLR.
    let mut extended = vec![1, 0x86, 0, 60, 0, 0x01, 0, 0x01];
    extended.resize(64, 0);
    assert_eq!(page(&mut scene, 0x86), extended);
    assert_eq!(page(&mut scene, 0xb0), [1, 0xb0, 0, 2, 0, 0]);
    let serial = page(&mut scene, 0x80)[4..].to_vec();
    assert_eq!(serial.len(), 16);
    assert_eq!(
        page(&mut scene, 0xb1),
        [&[1, 0xb1, 0, 16][..], &serial].concat()
    );
    // Flags 3, 5, 6, 9, 10, 12 and 17.
    let flags = [1, 0xb2, 0, 8, 0x2c, 0xd0, 0x80, 0, 0, 0, 0, 0];
    assert_eq!(page(&mut scene, 0xb2), flags);
    // A changer has none of these.
    for (code, expected) in [
        (0x00, Some(vec![8, 0, 0, 3, 0x00, 0x80, 0x83])),
        (0xb0, None),
    ] {
        let cdb = [0x12, 1, code, 0, 255, 0];
        let answer = scene.initiator.run(&mut scene.pair, CHANGER, &cdb, 255);
        match expected {
            Some(data) => assert_eq!(answer.good(), data),
            None => assert_eq!(answer.sense(), Sense::INVALID_FIELD_IN_CDB),
        }
    }
}

#[test]
fn densities_and_medium_types_are_those_of_the_generation() {
    let mut scene = Scene::new(&[]);
    let report = |flags| [0x44, flags, 0, 0, 0, 0, 0, 0, 255, 0];
    // Code twice, WRT and DEFLT, bits per mm, width, tracks, capacity in MB, texts.
    let mut density = vec![0x58, 0x58, 0xa0, 0, 0, 0, 0x3b, 0x26];
    density.extend([0, 127, 5, 0, 0, 0x16, 0xe3, 0x60]);
    density.extend(b"LTO-CVE U-516   Ultrium 5/16T       ");
    // Type, length, number of codes, codes, width, length, texts.
    let mut medium = vec![0, 0, 0, 52, 1, 0x58, 0, 0, 0, 0, 0, 0, 0, 0];
    medium.extend([0, 127, 0x03, 0x4e, 0, 0]);
    medium.extend(b"LTO-CVE Data    Ultrium-5           ");
    // The medium has one descriptor, the drive one for each generation that it reads.
    for (types, descriptor) in [(0, density), (2, medium)] {
        let length = descriptor.len() as u8;
        let of_medium = [&[0, length + 2, 0, 0][..], &descriptor].concat();
        assert_eq!(scene.run_in(&report(types | 1)).good(), of_medium);
        let of_drive = scene.run_in(&report(types)).good();
        assert_eq!(of_drive[..4], [0, 3 * length + 2, 0, 0]);
        assert_eq!(of_drive.len(), 4 + 3 * descriptor.len());
        assert!(of_drive.ends_with(&descriptor));
    }
    scene.move_medium(DRIVE, SLOT).good();
    for types in [0, 2] {
        assert!(scene.run_in(&report(types)).sense.is_none());
        let empty = scene.run_in(&report(types | 1));
        assert_eq!(empty.sense(), Sense::MEDIUM_NOT_PRESENT);
    }
}

#[test]
fn names_are_those_of_the_configuration() {
    let mut config = with_library(false);
    for lu in &mut config.lus {
        let (vendor, product) = match lu.lun {
            CHANGER => ("IBM", "03584L32"),
            lun if lun == DRIVES[0] => ("HP", "Ultrium 5-SCSI"),
            _ => continue,
        };
        lu.names.vendor = Some(vendor.to_owned());
        lu.names.product = Some(product.to_owned());
    }
    let mut scene = Scene::loaded(config, &[]);
    let inquiry = |scene: &mut Scene, lun| {
        let cdb = [0x12, 0, 0, 0, 96, 0];
        let initiator = &mut scene.initiator;
        let data = initiator.run(&mut scene.pair, lun, &cdb, 96).good();
        let Inquiry {
            vendor, product, ..
        } = Inquiry::parse(&data).unwrap();
        (vendor, product)
    };
    for (lun, vendor, product) in [
        (CHANGER, "IBM", "03584L32"),
        (DRIVES[0], "HP", "Ultrium 5-SCSI"),
        (DRIVES[1], "HAKARU", "TAPE LTO-6"),
        (0, "HAKARU", "ARRAY LU"),
    ] {
        let expected = (vendor.to_owned(), product.to_owned());
        assert_eq!(inquiry(&mut scene, lun), expected);
    }
    // The T10 vendor designator, the error history, and the drives that have loaded a cartridge.
    let identity = scene.run_in(&[0x12, 1, 0x83, 0, 255, 0]).good();
    assert!(identity.windows(8).any(|text| text == b"HP      "));
    let history = scene.run_in(&[0x3c, 0x1c, 0, 0, 0, 0, 0, 0, 255, 0]);
    assert_eq!(history.good()[..8], *b"HP      ");
    let memory = scene.run_in(&[0x8c, 0, 0, 0, 0, 0, 0, 0, 0x02, 0x0a, 0, 0, 0, 255, 0, 0]);
    assert_eq!(memory.good()[4 + 5..][..8], *b"HP      ");
}
