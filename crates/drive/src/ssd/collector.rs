//! Garbage collection of a flash drive. The map determines its cost, which is spread over the pages
//! that the host writes.
use std::ops::Range;

use hakaru_contract::drive::Ssd;
use rand_pcg::Pcg64;

use super::ftl::{BLOCK_UNITS, Cost, Ftl};

/// Approximate number of steps of [`BLOCK_UNITS`] followed units over which the reported write
/// amplification is averaged.
const SMOOTHING: f64 = 8.0;

/// Cost of garbage collection per unit written by the host.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    /// Number of units moved.
    moves: f64,
    /// Number of blocks erased.
    erases: f64,
    /// Share of valid data in emptied blocks.
    valid_share: f64,
}

/// The map of a drive, and the garbage collection that its writes require.
#[derive(Clone, Debug)]
pub(super) struct Collector {
    ftl: Ftl,
    /// Number of units in a page of all planes.
    page_units: f64,
    /// Number of units in a block of all planes.
    block_units: f64,
    /// Cost of the last complete step of [`BLOCK_UNITS`] followed units, charged to the current
    /// step.
    pace: Pace,
    /// Cost of the current step so far.
    cost: Cost,
    /// Write amplification, smoothed because garbage collection empties entire blocks.
    amplification: f64,
    /// Moves that are due, units.
    moves_due: f64,
    /// Erasures that are due, blocks.
    erases_due: f64,
}

/// Garbage collection that is due with a page of the host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    /// Number of pages to move.
    pub(super) moves: u32,
    /// Number of pages to read from emptied blocks to fill one page. It is above 1 because they are
    /// only partly valid.
    pub(super) reads: f64,
    /// Number of blocks to erase.
    pub(super) erases: u32,
}

impl Collector {
    /// Creates the map of a drive, in its steady state if the drive is preconditioned.
    pub(super) fn new(ssd: &Ssd, rng: &mut Pcg64) -> Collector {
        let mut ftl = Ftl::new(
            ssd.capacity_bytes / u64::from(ssd.mapping_bytes),
            ssd.over_provisioning_percent / 100.0,
        );
        let cost = if ssd.preconditioned {
            ftl.precondition(rng)
        } else {
            Cost::default()
        };
        let page_bytes = f64::from(ssd.page_bytes) * f64::from(ssd.planes);
        let mapping_bytes = f64::from(ssd.mapping_bytes);
        let mut collector = Collector {
            ftl,
            page_units: page_bytes / mapping_bytes,
            block_units: page_bytes * f64::from(ssd.pages_per_block) / mapping_bytes,
            pace: Pace::default(),
            cost: Cost::default(),
            amplification: 1.0,
            moves_due: 0.0,
            erases_due: 0.0,
        };
        collector.set_pace(cost);
        collector.amplification = 1.0 + collector.pace.moves;
        collector
    }

    /// Returns the smoothed write amplification.
    pub(super) fn write_amplification(&self) -> f64 {
        self.amplification
    }

    /// Maps units written by the host. Their old places become invalid, which may cause garbage
    /// collection.
    pub(super) fn write(&mut self, units: Range<u64>) {
        self.ftl.write(units, &mut self.cost);
        if self.cost.written >= BLOCK_UNITS {
            let cost = std::mem::take(&mut self.cost);
            self.set_pace(cost);
            self.amplification += (1.0 + self.pace.moves - self.amplification) / SMOOTHING;
        }
    }

    /// Unmaps units.
    pub(super) fn trim(&mut self, units: Range<u64>) {
        self.ftl.trim(units);
    }

    /// Charges a page written by the host. Returns the garbage collection that is due with it.
    pub(super) fn charge_page(&mut self) -> Due {
        let units = self.page_units;
        self.moves_due += self.pace.moves * units;
        self.erases_due += self.pace.erases * units;
        let mut due = Due {
            moves: 0,
            reads: 1.0 / self.pace.valid_share.max(1.0 / units),
            erases: 0,
        };
        while self.moves_due >= units {
            self.moves_due -= units;
            due.moves += 1;
        }
        while self.erases_due >= 1.0 {
            self.erases_due -= 1.0;
            due.erases += 1;
        }
        due
    }

    fn set_pace(&mut self, cost: Cost) {
        let written = f64::from(cost.written.max(1));
        let read = f64::from(cost.emptied.max(1) * BLOCK_UNITS);
        self.pace = Pace {
            moves: f64::from(cost.moved) / written,
            erases: f64::from(cost.emptied * BLOCK_UNITS) / written / self.block_units,
            valid_share: f64::from(cost.moved) / read,
        };
    }
}
