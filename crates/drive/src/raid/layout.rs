//! Layout of a RAID group: the drives and offsets of its rows and data units.
//!
//! RAID 5 is left-symmetric (the layout of Linux md and of most arrays): in row `r` of `n` drives
//! the parity is on drive `n − 1 − r mod n`, and the row's data units follow on the drives after
//! it, wrapping around.
use hakaru_contract::drive::{Group, Raid};

/// Layout of one group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(super) raid: Raid,
    pub(super) drives: u64,
    /// Length of a stripe unit, bytes.
    pub(super) unit: u64,
}

/// The part of a data unit that a request covers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    /// Index of the unit among its row's data units.
    pub(super) index: u64,
    /// First byte within the unit.
    pub(super) begin: u64,
    /// End within the unit, exclusive.
    pub(super) end: u64,
}

impl Layout {
    pub(crate) fn new(group: &Group) -> Layout {
        Layout {
            raid: group.raid,
            drives: u64::from(group.drives),
            unit: u64::from(group.stripe_unit_bytes),
        }
    }

    /// Returns the amount of data in a row, over all drives, bytes.
    pub(crate) fn stripe_bytes(&self) -> u64 {
        self.unit * self.data_drives()
    }

    /// Returns [`Layout::stripe_bytes`] if rows have parity, else `None`.
    pub(crate) fn parity_row_bytes(&self) -> Option<u64> {
        (self.raid == Raid::Raid5).then(|| self.stripe_bytes())
    }

    /// Returns the number of drives less those for parity and mirrors.
    pub(super) fn data_drives(&self) -> u64 {
        match self.raid {
            Raid::Raid0 => self.drives,
            Raid::Raid1 => self.drives / 2,
            Raid::Raid5 => self.drives - 1,
        }
    }

    /// Returns the usable capacity of the group, a multiple of the row, bytes.
    pub(crate) fn capacity_bytes(&self, drive_bytes: u64) -> u64 {
        drive_bytes / self.unit * self.unit * self.data_drives()
    }

    /// Calls `visit` with each row that a range of the group touches and the spans of its data
    /// units, in order.
    pub(super) fn for_each_row(
        &self,
        offset: u64,
        length: u64,
        mut visit: impl FnMut(u64, &[Span]),
    ) {
        let row_bytes = self.stripe_bytes();
        let end = offset + length;
        let mut at = offset;
        let mut spans = Vec::with_capacity(self.data_drives() as usize);
        while at < end {
            let row = at / row_bytes;
            let row_end = end.min((row + 1) * row_bytes);
            spans.clear();
            while at < row_end {
                let begin = at % self.unit;
                let length = (self.unit - begin).min(row_end - at);
                spans.push(Span {
                    index: at % row_bytes / self.unit,
                    begin,
                    end: begin + length,
                });
                at += length;
            }
            visit(row, &spans);
        }
    }

    /// Returns the drive of a row's data unit; in RAID 1, the first of its pair.
    pub(super) fn data_drive(&self, row: u64, index: u64) -> u32 {
        (match self.raid {
            Raid::Raid0 => index,
            Raid::Raid1 => 2 * index,
            Raid::Raid5 => (u64::from(self.parity_drive(row)) + 1 + index) % self.drives,
        }) as u32
    }

    /// Returns the drive with the parity of a row.
    pub(super) fn parity_drive(&self, row: u64) -> u32 {
        (self.drives - 1 - row % self.drives) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raid5_parity_rotates_over_all_drives() {
        let layout = Layout {
            raid: Raid::Raid5,
            drives: 5,
            unit: 65_536,
        };
        let parity: Vec<u32> = (0..6).map(|row| layout.parity_drive(row)).collect();
        assert_eq!(parity, [4, 3, 2, 1, 0, 4]);
        for row in 0..5 {
            let mut all: Vec<u32> = (0..4).map(|index| layout.data_drive(row, index)).collect();
            all.push(layout.parity_drive(row));
            all.sort_unstable();
            assert_eq!(all, [0, 1, 2, 3, 4]);
        }
    }
}
