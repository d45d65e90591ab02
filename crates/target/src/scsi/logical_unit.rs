//! Logical units: what each is, and the little state it has.

use crate::config::LuDescription;

/// A logical unit.
#[derive(Debug)]
pub(crate) struct LogicalUnit {
    pub(crate) description: LuDescription,
    pub(crate) block_bytes: u32,
    pub(crate) blocks: u64,
    pub(crate) in_place: bool,
    /// Names the LU for good: made of the target's name and the LUN, so that it is the same after a restart.
    pub(crate) identity: u64,
    /// START STOP UNIT stopped it.
    pub(crate) stopped: bool,
}

/// All of them, by number.
#[derive(Debug)]
pub(crate) struct LogicalUnits {
    target_name: String,
    units: Vec<LogicalUnit>,
    /// LUN → index into `units`.
    places: [u16; 256],
}

const NONE: u16 = u16::MAX;

impl LogicalUnits {
    /// # Panics
    /// If a LUN occurs twice, a block length is neither 512 nor 4096, or a size is no whole, positive number of blocks.
    pub(crate) fn new(target_name: &str, descriptions: &[LuDescription]) -> Self {
        let mut places = [NONE; 256];
        let mut units = Vec::with_capacity(descriptions.len());
        let mut sorted = descriptions.to_vec();
        sorted.sort_by_key(|description| description.lun);
        for description in sorted {
            let lun = description.lun;
            assert!(
                matches!(description.block_bytes, 512 | 4096),
                "LU {lun}: blocks of 512 or 4096 bytes"
            );
            let whole = description
                .size_bytes
                .is_multiple_of(u64::from(description.block_bytes));
            assert!(
                whole && description.size_bytes > 0,
                "LU {lun}: a whole, positive number of blocks"
            );
            assert_eq!(places[usize::from(lun)], NONE, "LU {lun} is there twice");
            places[usize::from(lun)] = units.len() as u16;
            units.push(LogicalUnit {
                block_bytes: description.block_bytes,
                blocks: description.blocks(),
                in_place: description.in_place,
                identity: identity(target_name, lun),
                stopped: false,
                description,
            });
        }
        Self {
            target_name: target_name.to_owned(),
            units,
            places,
        }
    }

    pub(crate) fn target_name(&self) -> &str {
        &self.target_name
    }

    pub(crate) fn get(&self, lun: u8) -> Option<&LogicalUnit> {
        self.units.get(usize::from(self.places[usize::from(lun)]))
    }

    pub(crate) fn get_mut(&mut self, lun: u8) -> Option<&mut LogicalUnit> {
        self.units
            .get_mut(usize::from(self.places[usize::from(lun)]))
    }

    /// Numbers, ascending.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u8> {
        self.units.iter().map(|unit| unit.description.lun)
    }
}

/// FNV-1a over name and number.
fn identity(target_name: &str, lun: u8) -> u64 {
    target_name
        .bytes()
        .chain([0, lun])
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
}
