//! Valid contents after a crash. For each block of 512 bytes, these are the values from the last
//! value known to be on stable storage to the last value issued.
#![allow(dead_code)]

use std::collections::BTreeMap;

use hakaru_pool::VolumeId;

pub const BLOCK: usize = 512;

/// Content of a block: the number of the write, 0 for zeros. Numbers are unique over all volumes.
pub type Value = u64;

/// Returns the bytes of block `block` written by the write `value`.
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

/// Returns the data of the write `value`.
pub fn stamps(value: Value, first: u64, blocks: u64) -> Vec<u8> {
    (first..first + blocks)
        .flat_map(|block| stamp(value, block))
        .collect()
}

/// Returns the write that a block contains. `None` if the block is torn or holds data of another.
pub fn value_of(bytes: &[u8], block: u64) -> Option<Value> {
    let value = Value::from_be_bytes(bytes[..8].try_into().unwrap());
    (bytes == stamp(value, block)).then_some(value)
}

#[derive(Clone, Debug)]
pub struct VolumeModel {
    pub id: Option<VolumeId>,
    /// Whether the volume's existence is on stable storage.
    pub is_durable: bool,
    /// Whether the volume's deletion was requested.
    pub is_deleting: bool,
    pub read_only: bool,
    /// Valid values per block after a crash; the last is the current one.
    pub blocks: Vec<Vec<Value>>,
}

/// All volumes, by name.
#[derive(Clone, Debug, Default)]
pub struct Model {
    pub volumes: BTreeMap<String, VolumeModel>,
    /// Whether an operation failed. A read may then return any value that was valid since.
    pub uncertain: bool,
}

impl Model {
    pub fn create(&mut self, name: &str, blocks: u64) {
        self.volumes.insert(
            name.into(),
            VolumeModel {
                id: None,
                is_durable: false,
                is_deleting: false,
                read_only: false,
                blocks: vec![vec![0]; blocks as usize],
            },
        );
    }

    /// Adds a copy of the current contents of `origin`.
    pub fn copy(&mut self, origin: &str, name: &str) {
        let mut copy = self.volumes[origin].clone();
        copy.id = None;
        copy.is_durable = false;
        copy.is_deleting = false;
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
        volume.is_durable = true;
    }

    /// Records that the write `value` was issued.
    pub fn write(&mut self, name: &str, first: u64, blocks: u64, value: Value) {
        let volume = self.volumes.get_mut(name).unwrap();
        for values in &mut volume.blocks[first as usize..(first + blocks) as usize] {
            values.push(value);
        }
    }

    /// Records that the current contents of these blocks are on stable storage.
    pub fn settle(&mut self, name: &str, first: u64, blocks: u64) {
        if self.uncertain {
            return;
        }
        let volume = self.volumes.get_mut(name).unwrap();
        for values in &mut volume.blocks[first as usize..(first + blocks) as usize] {
            values.drain(..values.len() - 1);
        }
    }

    /// Records that all acknowledged data is on stable storage.
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

    /// Checks data that was read. `Err` names an invalid block.
    pub fn check(&self, name: &str, data: &[u8]) -> Result<Vec<Value>, String> {
        let volume = &self.volumes[name];
        let mut values = Vec::with_capacity(volume.blocks.len());
        for (block, (bytes, allowed)) in data.chunks_exact(BLOCK).zip(&volume.blocks).enumerate() {
            match value_of(bytes, block as u64) {
                Some(value) if allowed.contains(&value) => values.push(value),
                Some(value) => {
                    return Err(format!(
                        "block {block} of {name} holds {value}, allowed {allowed:?}"
                    ));
                }
                None => {
                    return Err(format!(
                        "block {block} of {name} is torn or of another block: {:?}",
                        &bytes[..16]
                    ));
                }
            }
        }
        assert_eq!(values.len(), volume.blocks.len());
        Ok(values)
    }
}
