//! Ranges that the target has unmapped.

use std::collections::HashSet;

use hakaru_iscsi_target::Extent;

pub(super) fn span(range: Extent) -> std::ops::Range<usize> {
    range.offset_bytes as usize..(range.offset_bytes + range.length_bytes) as usize
}

/// Blocks of 512 bytes that were unmapped and not written since, by LU and number.
#[derive(Debug, Default)]
pub struct Unmapped(HashSet<(u8, u64)>);

impl Unmapped {
    pub(super) fn set(&mut self, lun: u8, range: Extent, unmapped: bool) {
        let first = range.offset_bytes / 512;
        for block in first..first + range.length_bytes / 512 {
            if unmapped {
                self.0.insert((lun, block));
            } else {
                self.0.remove(&(lun, block));
            }
        }
    }

    pub(super) fn status(&self, lun: u8, range: Extent, extents_max: usize) -> Vec<(Extent, bool)> {
        let mut extents: Vec<(Extent, bool)> = Vec::new();
        let first = range.offset_bytes / 512;
        for block in first..first + range.length_bytes / 512 {
            let mapped = !self.0.contains(&(lun, block));
            let full = extents.len() == extents_max;
            match extents.last_mut() {
                Some((extent, last)) if *last == mapped => extent.length_bytes += 512,
                _ if full => break,
                _ => {
                    let extent = Extent {
                        offset_bytes: block * 512,
                        length_bytes: 512,
                    };
                    extents.push((extent, mapped));
                }
            }
        }
        extents
    }
}
