//! What may be read after a crash: per block (512 bytes) the values from the last one known to be
//! on stable storage to the last one issued.
#![allow(dead_code)]

use std::collections::BTreeMap;

use hakaru_pool::VolumeId;

pub const BLOCK: usize = 512;

/// A block's content: what wrote it, 0 for zeros. No two writes have the same number, so neither do
/// two volumes.
pub type Value = u64;

/// The bytes of a block that write `value` wrote at `block`.
pub fn stamp(value: Value, block: u64) -> [u8; BLOCK] {
    let mut bytes = [0; BLOCK];
    if value != 0 {
        for (index, word) in bytes.chunks_exact_mut(8).enumerate() {
            let mixed = (value << 20 | block)
                .wrapping_mul(0x9E37_79B9_7F4A_7C15)
                .rotate_left(index as u32);
            word.copy_from_slice(&if index == 0 { value } else { mixed }.to_be_bytes());
        }
    }
    bytes
}

/// The data of a write of `value`.
pub fn stamps(value: Value, first: u64, blocks: u64) -> Vec<u8> {
    (first..first + blocks)
        .flat_map(|block| stamp(value, block))
        .collect()
}

/// What wrote a block; `None`: torn, or of another place.
pub fn value_of(bytes: &[u8], block: u64) -> Option<Value> {
    let value = Value::from_be_bytes(bytes[..8].try_into().unwrap());
    (bytes == stamp(value, block)).then_some(value)
}

#[derive(Clone, Debug)]
pub struct VolumeModel {
    pub id: Option<VolumeId>,
    /// It is on stable storage that it is there.
    pub certain: bool,
    /// Its deletion has been asked for.
    pub going: bool,
    pub read_only: bool,
    /// Per block: what may be read after a crash; the last is what is read now.
    pub blocks: Vec<Vec<Value>>,
}

/// All volumes, by name.
#[derive(Clone, Debug, Default)]
pub struct Model {
    pub volumes: BTreeMap<String, VolumeModel>,
    /// Something failed: what is read now may be any of what was allowed since then.
    pub uncertain: bool,
}

impl Model {
    pub fn create(&mut self, name: &str, blocks: u64) {
        self.volumes.insert(
            name.into(),
            VolumeModel {
                id: None,
                certain: false,
                going: false,
                read_only: false,
                blocks: vec![vec![0]; blocks as usize],
            },
        );
    }

    /// A copy of what `of` holds now.
    pub fn copy(&mut self, of: &str, name: &str) {
        let mut copy = self.volumes[of].clone();
        copy.id = None;
        copy.certain = false;
        copy.going = false;
        if !self.uncertain {
            for values in &mut copy.blocks {
                values.drain(..values.len() - 1);
            }
        }
        self.volumes.insert(name.into(), copy);
    }

    pub fn created(&mut self, name: &str, id: VolumeId) {
        let volume = self.volumes.get_mut(name).unwrap();
        volume.id = Some(id);
        volume.certain = true;
    }

    /// `value` is being written.
    pub fn write(&mut self, name: &str, first: u64, blocks: u64, value: Value) {
        let volume = self.volumes.get_mut(name).unwrap();
        for values in &mut volume.blocks[first as usize..(first + blocks) as usize] {
            values.push(value);
        }
    }

    /// What was written to these blocks is on stable storage.
    pub fn settle(&mut self, name: &str, first: u64, blocks: u64) {
        if self.uncertain {
            return;
        }
        let volume = self.volumes.get_mut(name).unwrap();
        for values in &mut volume.blocks[first as usize..(first + blocks) as usize] {
            values.drain(..values.len() - 1);
        }
    }

    /// All that was acknowledged is on stable storage.
    pub fn settle_all(&mut self) {
        if self.uncertain {
            return;
        }
        for volume in self.volumes.values_mut() {
            for values in &mut volume.blocks {
                values.drain(..values.len() - 1);
            }
        }
    }

    /// What is read now: `Err` tells a block that may not be.
    pub fn judge(&self, name: &str, data: &[u8]) -> Result<Vec<Value>, String> {
        let volume = &self.volumes[name];
        let mut found = Vec::with_capacity(volume.blocks.len());
        for (block, (bytes, allowed)) in data.chunks_exact(BLOCK).zip(&volume.blocks).enumerate() {
            match value_of(bytes, block as u64) {
                Some(value) if allowed.contains(&value) => found.push(value),
                Some(value) => {
                    return Err(format!(
                        "block {block} of {name} holds {value}, allowed {allowed:?}"
                    ));
                }
                None => {
                    return Err(format!(
                        "block {block} of {name} is torn or another's: {:?}",
                        &bytes[..16]
                    ));
                }
            }
        }
        assert_eq!(found.len(), volume.blocks.len());
        Ok(found)
    }
}
