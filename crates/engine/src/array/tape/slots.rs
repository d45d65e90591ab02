//! The slots in which cartridges of a folder or a pool start.
use std::collections::BTreeSet;

use hakaru_contract::TapeLibraryConfig;

use super::declared::Declared;
use crate::failure::Failure;

/// A cartridge to open.
pub struct Wanted<'a> {
    /// Text on its label.
    pub barcode: &'a str,
    /// Slot, from 1.
    pub slot: u16,
    /// Properties that the configuration declares.
    pub declared: Declared,
}

/// Returns the cartridges that the configuration names, then the other ones that were `found`, in
/// the first free slots. `place` is where they were found, and `remedy` completes "raise `slots`,
/// or …".
///
/// # Errors
/// There are more cartridges than slots.
pub fn assign<'a>(
    config: &'a TapeLibraryConfig,
    found: &'a BTreeSet<String>,
    place: &str,
    remedy: &str,
) -> Result<Vec<Wanted<'a>>, Failure> {
    let mut wanted = Vec::new();
    for cartridge in &config.cartridges {
        wanted.push(Wanted {
            barcode: &cartridge.barcode,
            slot: cartridge.slot,
            declared: Declared::of(cartridge),
        });
    }
    let named: BTreeSet<&str> = wanted.iter().map(|each| each.barcode).collect();
    let taken: BTreeSet<u16> = wanted.iter().map(|each| each.slot).collect();
    let mut free = (1..=config.slots).filter(|slot| !taken.contains(slot));
    let others = found.iter().map(String::as_str);
    for barcode in others.filter(|barcode| !named.contains(barcode)) {
        let Some(slot) = free.next() else {
            let message =
                format!("tape_library: there is no slot for {barcode}, which is in {place}");
            let hint = format!("raise `slots` ({}), or {remedy}", config.slots);
            return Err(Failure::usage(message, hint));
        };
        wanted.push(Wanted {
            barcode,
            slot,
            declared: Declared::default(),
        });
    }
    Ok(wanted)
}
