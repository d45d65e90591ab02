//! Configuration of a logical unit.

/// A logical unit as SCSI sees it.
#[derive(Clone, Debug)]
pub struct LuDescription {
    /// Logical unit number, 0 to 255.
    pub lun: u8,
    /// Capacity in bytes, a multiple of `block_bytes`, at least one block.
    pub size_bytes: u64,
    /// Logical block length in bytes: 512 or 4096.
    pub block_bytes: u32,
    /// Physical block length in bytes, reported by READ CAPACITY(16): `block_bytes` times a power
    /// of two up to 2^15; `None`: `block_bytes`.
    pub physical_block_bytes: Option<u32>,
    /// Writes end in DATA PROTECT, WRITE PROTECTED.
    pub read_only: bool,
    /// The store has a volatile cache: WCE is reported, SYNCHRONIZE CACHE flushes.
    pub write_cache: bool,
    /// Revolutions per minute of the medium, reported in VPD page B1h: 0401h to FFFEh; `None`: it
    /// does not rotate.
    pub rotation_rate_rpm: Option<u16>,
    /// The shell can lend the LU's memory: reads may be answered with
    /// [`crate::IoResult::ReadInPlace`].
    pub in_place: bool,
    /// Blocks take space when they are written first, and give it back when they are unmapped
    /// (SBC-3 section 4.7.3.3: LBPME, LBPRZ).
    pub thin: Option<Thin>,
    /// WRITE SAME with UNMAP gives blocks back whatever block was sent, as LIO and tgt do; not so:
    /// it writes a block that is not all zeros, as SBC-3 section 5.49 wants it.
    pub unmap_any_data: bool,
    /// The medium can be taken out: RMB is set, START STOP UNIT ejects and loads.
    pub removable: bool,
    /// SANITIZE may overwrite the whole LU.
    pub sanitize: bool,
    /// Longest write that is done as a whole or not at all, whatever happens: WRITE ATOMIC takes as
    /// much, and nothing if this is 0. In bytes, a multiple of `block_bytes`, at most 65 535
    /// blocks.
    pub atomic_bytes: u32,
    /// Reservations kept by [`crate::IoOp::Keep`]; `None`: none are kept, and none can be (PTPL_C
    /// is 0).
    pub reservations: Option<Vec<u8>>,
}

/// How a thin-provisioned LU takes space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thin {
    /// Bytes that are taken and given back together: OPTIMAL UNMAP GRANULARITY. A multiple of the
    /// block length.
    pub page_bytes: u64,
}

/// Space behind a thin LU, as LOG SENSE reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes the LU has taken.
    pub used_bytes: u64,
    /// Bytes it may still take: what is left in its pool, and of its quota if that is less.
    pub available_bytes: u64,
}

impl LuDescription {
    /// A writable LU in memory with 512-byte blocks, no volatile cache, not rotating.
    #[must_use]
    pub fn new(lun: u8, size_bytes: u64) -> Self {
        Self {
            lun,
            size_bytes,
            block_bytes: 512,
            physical_block_bytes: None,
            read_only: false,
            write_cache: false,
            rotation_rate_rpm: None,
            in_place: true,
            thin: None,
            unmap_any_data: false,
            removable: false,
            sanitize: false,
            atomic_bytes: 0,
            reservations: None,
        }
    }

    /// Number of logical blocks.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.size_bytes / u64::from(self.block_bytes)
    }
}
