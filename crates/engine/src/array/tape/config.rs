//! Checks of the configuration of a tape library.
use std::collections::BTreeSet;

use hakaru_contract::drive::Model;
use hakaru_contract::{LuConfig, PoolConfig, StoreConfig, TapeLibraryConfig};
use hakaru_tape::Ratio;

use crate::failure::Failure;

/// Largest number of drives.
const DRIVES_MAX: usize = 64;
/// Largest number of storage slots.
const SLOTS_MAX: u16 = 10_000;
/// Largest number of import and export slots.
const IMPORT_EXPORT_MAX: u16 = 255;
/// Smallest capacity of a cartridge, bytes.
pub const CAPACITY_MIN: u64 = 1 << 20;
/// Largest capacity of a cartridge, bytes.
pub const CAPACITY_MAX: u64 = 16 << 40;
/// Largest store of all cartridges, bytes.
const STORE_MAX: u64 = 64 << 40;
const BARCODE_MAX: usize = 32;
/// Beginning of the names of the volumes of cartridges. The barcode follows.
const VOLUME_PREFIX: &str = "tape-";

/// Checks the configuration of the tape library of an array with these disks and pools.
///
/// # Errors
/// A value is out of bounds. The message names the value and its bounds.
pub fn check(
    library: &TapeLibraryConfig,
    lus: &[LuConfig],
    pools: &[PoolConfig],
    model: &Model,
) -> Result<(), Failure> {
    let drives = &library.drives;
    if !(1..=DRIVES_MAX).contains(&drives.len()) {
        return usage(
            format!("drives has {} entries", drives.len()),
            format!("a library has 1 to {DRIVES_MAX} drives"),
        );
    }
    if !(1..=SLOTS_MAX).contains(&library.slots) {
        let hint = format!("a library has 1 to {SLOTS_MAX} slots");
        return usage(format!("slots is {}", library.slots), hint);
    }
    if library.import_export > IMPORT_EXPORT_MAX {
        let hint = format!("a library has at most {IMPORT_EXPORT_MAX} such slots");
        return usage(format!("import_export is {}", library.import_export), hint);
    }
    let mut luns: BTreeSet<u8> = lus.iter().map(|lu| lu.lun).collect();
    for lun in std::iter::once(library.lun).chain(drives.iter().map(|drive| drive.lun)) {
        if !luns.insert(lun) {
            let hint = "give the changer, each drive and each disk a different LUN";
            return usage(format!("LUN {lun} is given twice"), hint);
        }
    }
    check_names(library)?;
    check_store(library, lus, pools, model)?;
    check_cartridges(library)
}

/// Longest names of INQUIRY, characters.
const VENDOR_MAX: usize = 8;
const PRODUCT_MAX: usize = 16;

fn check_names(library: &TapeLibraryConfig) -> Result<(), Failure> {
    let drives = library.drives.iter();
    let names = drives.map(|drive| (&drive.vendor, &drive.product));
    for (vendor, product) in names.chain([(&library.vendor, &library.product)]) {
        for (name, text, longest) in [
            ("vendor", vendor, VENDOR_MAX),
            ("product", product, PRODUCT_MAX),
        ] {
            let is_printable = |byte| (0x20..0x7f).contains(&byte);
            let fits = |text: &String| {
                (1..=longest).contains(&text.len()) && text.bytes().all(is_printable)
            };
            if let Some(text) = text.as_ref().filter(|text| !fits(text)) {
                let hint = format!("use 1 to {longest} printable ASCII characters");
                return usage(format!("the {name} {text:?} is not valid"), hint);
            }
        }
    }
    Ok(())
}

fn check_store(
    library: &TapeLibraryConfig,
    lus: &[LuConfig],
    pools: &[PoolConfig],
    model: &Model,
) -> Result<(), Failure> {
    let capacity = library.capacity_bytes;
    if !(CAPACITY_MIN..=CAPACITY_MAX).contains(&capacity) || !capacity.is_multiple_of(512) {
        let hint = format!("it must be a multiple of 512 from {CAPACITY_MIN} to {CAPACITY_MAX}");
        return usage(format!("capacity_bytes is {capacity}"), hint);
    }
    if library.early_warning_bytes > capacity {
        return usage(
            format!("early_warning_bytes is {}", library.early_warning_bytes),
            "it must not exceed capacity_bytes",
        );
    }
    let taken = taken_bytes(library);
    if taken > CAPACITY_MAX {
        let hint = format!("choose a smaller capacity or compression, of {CAPACITY_MAX} together");
        return usage(format!("a cartridge takes {taken} bytes"), hint);
    }
    let all = library.cartridges.len() as u64 * taken;
    if all > STORE_MAX {
        let hint = format!("all cartridges together may have at most {STORE_MAX} bytes");
        return usage(format!("the cartridges have {all} bytes"), hint);
    }
    match &library.pool {
        Some(name) => check_pool(name, library, lus, pools),
        None if !matches!(model, Model::None) => usage(
            "the array has a timing model, whose drives are disks".to_owned(),
            "put the cartridges into a `pool`, or remove `model` or `tape_library`",
        ),
        _ => Ok(()),
    }
}

/// Returns the bytes of initiators for each byte on the tape.
pub fn ratio(library: &TapeLibraryConfig) -> Ratio {
    let times = library.times.as_ref();
    times.map_or(Ratio::ONE, |times| Ratio::of(times.compression))
}

/// Returns the bytes of initiators that a new cartridge takes. They are not compressed on the store.
pub fn taken_bytes(library: &TapeLibraryConfig) -> u64 {
    ratio(library).cartridge_bytes(library.capacity_bytes)
}

/// Returns the name of the volume of a cartridge in a pool.
pub fn volume_name(barcode: &str) -> String {
    format!("{VOLUME_PREFIX}{barcode}")
}

/// Returns the barcode of the cartridge that a volume of this name is. `None`: it is none.
pub fn barcode_of(volume: &str) -> Option<&str> {
    let barcode = volume.strip_prefix(VOLUME_PREFIX)?;
    is_barcode(barcode).then_some(barcode)
}

/// Checks the pool of the cartridges. That they do not all fit into it is no mistake, as with other
/// volumes.
fn check_pool(
    name: &str,
    library: &TapeLibraryConfig,
    lus: &[LuConfig],
    pools: &[PoolConfig],
) -> Result<(), Failure> {
    if library.folder.is_some() {
        return usage(
            "it has a folder and a pool".to_owned(),
            "cartridges are in one of them; remove the other",
        );
    }
    if !pools.iter().any(|pool| pool.name == name) {
        return usage(
            format!("its cartridges are in pool {name:?}, which is not configured"),
            "name one of `pools`",
        );
    }
    for lu in lus {
        if let StoreConfig::Thin { pool, volume, .. } = &lu.store
            && pool == name
            && barcode_of(volume).is_some()
        {
            return usage(
                format!("the volume {volume:?} of LUN {} is a cartridge", lu.lun),
                "give the LU another volume",
            );
        }
    }
    Ok(())
}

/// Whether a text is a barcode: 1 to 32 capital letters and digits.
pub fn is_barcode(text: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit();
    (1..=BARCODE_MAX).contains(&text.len()) && text.bytes().all(is_plain)
}

fn check_cartridges(library: &TapeLibraryConfig) -> Result<(), Failure> {
    let (mut slots, mut barcodes) = (BTreeSet::new(), BTreeSet::new());
    for cartridge in &library.cartridges {
        let barcode = &cartridge.barcode;
        if !is_barcode(barcode) {
            let hint = format!("use 1 to {BARCODE_MAX} capital letters and digits");
            return usage(format!("the barcode {barcode:?} is not valid"), hint);
        }
        if !(1..=library.slots).contains(&cartridge.slot) {
            let hint = format!("slots are numbered from 1 to {}", library.slots);
            return usage(format!("{barcode} is in slot {}", cartridge.slot), hint);
        }
        if !slots.insert(cartridge.slot) {
            let problem = format!("slot {} is given twice", cartridge.slot);
            return usage(problem, "give each cartridge its own slot");
        }
        if !barcodes.insert(barcode) {
            let problem = format!("the barcode {barcode} is given twice");
            return usage(problem, "give each cartridge its own barcode");
        }
    }
    Ok(())
}

fn usage(problem: String, hint: impl std::fmt::Display) -> Result<(), Failure> {
    let message = format!("tape_library: {problem}");
    Err(Failure::usage(message, hint))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hakaru_contract::{CartridgeConfig, TapeDriveConfig, TapeGeneration, TapeTimesConfig};

    fn library() -> TapeLibraryConfig {
        let generation = TapeGeneration::Lto5;
        TapeLibraryConfig {
            lun: 0,
            vendor: None,
            product: None,
            drives: vec![TapeDriveConfig {
                lun: 1,
                generation,
                vendor: None,
                product: None,
            }],
            slots: 2,
            import_export: 1,
            cartridges: vec![CartridgeConfig {
                barcode: "HAK001L5".to_owned(),
                slot: 1,
                write_protected: None,
                generation: None,
            }],
            capacity_bytes: 1 << 30,
            early_warning_bytes: 1 << 20,
            folder: None,
            pool: None,
            times: None,
        }
    }

    #[test]
    fn compression_counts_for_what_the_cartridges_take() {
        let mut library = library();
        let compressed = |compression| Some(TapeTimesConfig { compression });
        library.times = compressed(2.0);
        assert_eq!(taken_bytes(&library), 2 << 30);
        assert!(check(&library, &[], &[], &Model::None).is_ok());
        library.capacity_bytes = 8 << 40;
        assert!(check(&library, &[], &[], &Model::None).is_ok());
        library.times = compressed(3.0);
        let failure = check(&library, &[], &[], &Model::None).unwrap_err();
        let message = "a cartridge takes 26388279066624 bytes";
        assert!(failure.message.contains(message), "{}", failure.message);
        // Each takes 16 TiB, and all together 80 TiB.
        library.times = compressed(2.0);
        library.slots = 5;
        library.cartridges = (1..=5)
            .map(|slot| CartridgeConfig {
                barcode: format!("HAK00{slot}L5"),
                slot,
                ..library.cartridges[0].clone()
            })
            .collect();
        let failure = check(&library, &[], &[], &Model::None).unwrap_err();
        let message = "the cartridges have 87960930222080 bytes";
        assert!(failure.message.contains(message), "{}", failure.message);
    }

    #[test]
    fn each_bound_is_refused_with_its_name() {
        assert!(check(&library(), &[], &[], &Model::None).is_ok());
        type Change = fn(&mut TapeLibraryConfig);
        let changes: [(Change, &str); 18] = [
            (|library| library.drives.clear(), "drives has 0 entries"),
            (|library| library.slots = 0, "slots is 0"),
            (
                |library| library.import_export = 256,
                "import_export is 256",
            ),
            (|library| library.lun = 1, "LUN 1 is given twice"),
            (
                |library| library.capacity_bytes = 1 << 19,
                "capacity_bytes is 524288",
            ),
            (
                |library| library.capacity_bytes += 1,
                "capacity_bytes is 1073741825",
            ),
            (
                |library| library.early_warning_bytes = 1 << 31,
                "early_warning_bytes",
            ),
            (
                |library| library.pool = Some("tapes".to_owned()),
                "in pool \"tapes\", which is not configured",
            ),
            (
                |library| {
                    library.pool = Some("tapes".to_owned());
                    library.folder = Some("tapes".to_owned());
                },
                "a folder and a pool",
            ),
            (
                |library| library.vendor = Some("HAKARULAB".to_owned()),
                "the vendor \"HAKARULAB\" is not valid",
            ),
            (
                |library| library.product = Some("\u{e9}".to_owned()),
                "the product \"\u{e9}\" is not valid",
            ),
            (
                |library| library.drives[0].vendor = Some(String::new()),
                "the vendor \"\" is not valid",
            ),
            (
                |library| library.drives[0].product = Some("ULT3580-TD5 STAND".to_owned()),
                "the product \"ULT3580-TD5 STAND\" is not valid",
            ),
            (
                |library| library.cartridges[0].barcode = "a".to_owned(),
                "barcode \"a\"",
            ),
            (
                |library| library.cartridges[0].barcode.clear(),
                "barcode \"\"",
            ),
            (|library| library.cartridges[0].slot = 3, "is in slot 3"),
            (
                |library| library.cartridges.push(library.cartridges[0].clone()),
                "slot 1 is given twice",
            ),
            (
                |library| {
                    let again = library.cartridges[0].clone();
                    library
                        .cartridges
                        .push(CartridgeConfig { slot: 2, ..again });
                },
                "barcode HAK001L5 is given twice",
            ),
        ];
        for (change, message) in changes {
            let mut changed = library();
            change(&mut changed);
            let failure = check(&changed, &[], &[], &Model::None).unwrap_err();
            assert!(failure.message.contains(message), "{}", failure.message);
        }
    }
}
