//! Configuration of a logical unit.

use hakaru_tape::LibraryConfig;
use hakaru_wire::scsi::DeviceType;

/// Kind of device that a logical unit is.
#[derive(Clone, Debug, Default)]
pub enum DeviceKind {
    /// A disk.
    #[default]
    Disk,
    /// The medium changer of a tape library. The LU's bytes hold the cartridges; no command of the
    /// changer itself accesses them.
    Changer(Box<TapeLibrary>),
    /// A drive of the tape library. It has no bytes of its own.
    TapeDrive,
}

/// A tape library, whose changer and drives are logical units.
#[derive(Clone, Debug)]
pub struct TapeLibrary {
    /// Drives, slots and cartridges.
    pub library: LibraryConfig,
    /// Logical unit numbers of the drives, in the order of [`LibraryConfig::drives`].
    pub drive_luns: Vec<u8>,
}

impl DeviceKind {
    /// Returns the device type that INQUIRY reports.
    #[must_use]
    pub fn device_type(&self) -> DeviceType {
        match self {
            DeviceKind::Disk => DeviceType::Disk,
            DeviceKind::Changer(_) => DeviceType::Changer,
            DeviceKind::TapeDrive => DeviceType::Tape,
        }
    }
}

/// Names that a logical unit reports instead of its own. `None` is its own name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InquiryNames {
    /// T10 VENDOR IDENTIFICATION, at most 8 printable ASCII characters.
    pub vendor: Option<String>,
    /// PRODUCT IDENTIFICATION, at most 16 printable ASCII characters.
    pub product: Option<String>,
}

/// Properties of a logical unit that SCSI reports.
#[derive(Clone, Debug)]
pub struct LuDescription {
    /// Logical unit number, 0 to 255.
    pub lun: u8,
    /// Capacity in bytes, a multiple of `block_bytes`, at least one block.
    pub size_bytes: u64,
    /// Logical block length in bytes: 512 or 4096.
    pub block_bytes: u32,
    /// Physical block length in bytes, reported by READ CAPACITY(16): `block_bytes` times a power
    /// of two up to 2^15. `None`: `block_bytes`.
    pub physical_block_bytes: Option<u32>,
    /// Whether writes fail with DATA PROTECT, WRITE PROTECTED.
    pub read_only: bool,
    /// Whether the store has a volatile cache. WCE is then reported, and SYNCHRONIZE CACHE flushes.
    pub write_cache: bool,
    /// Revolutions per minute of the medium, reported in VPD page B1h: 0401h to FFFEh. `None`: the
    /// medium does not rotate.
    pub rotation_rate_rpm: Option<u16>,
    /// Whether the shell can lend the LU's memory. Reads may then be answered with
    /// [`crate::IoResult::ReadInPlace`].
    pub in_place: bool,
    /// Thin provisioning: blocks occupy space from their first write until they are unmapped (SBC-3
    /// section 4.7.3.3: LBPME, LBPRZ). `None`: the LU is fully provisioned.
    pub thin: Option<Thin>,
    /// Whether WRITE SAME with UNMAP deallocates blocks regardless of the data that was sent, as
    /// LIO and tgt do. If false, a block that is not all zeros is written, as SBC-3 section 5.49
    /// requires.
    pub unmap_any_data: bool,
    /// Whether the medium is removable. RMB is then set, and START STOP UNIT ejects and loads the
    /// medium.
    pub removable: bool,
    /// Whether SANITIZE is supported.
    pub sanitize: bool,
    /// Longest write that takes effect completely or not at all, even if power is lost: the limit
    /// of WRITE ATOMIC, which is not supported if this is 0. In bytes, a multiple of `block_bytes`,
    /// at most 65 535 blocks.
    pub atomic_bytes: u32,
    /// Whether initiators may set the access states of ports (explicit ALUA, SET TARGET PORT
    /// GROUPS). If false, only the operator can.
    pub explicit_access: bool,
    /// Record of reservations that [`crate::IoOp::Keep`] has stored. `None`: reservations do not
    /// survive a restart (PTPL_C is 0).
    pub reservations: Option<Vec<u8>>,
    /// Names that INQUIRY reports.
    pub names: InquiryNames,
    /// Kind of device. The properties above are those of a disk; a tape library uses `lun`,
    /// `size_bytes`, `removable`, `reservations` and `names`.
    pub kind: DeviceKind,
}

/// Space allocation of a thin-provisioned LU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thin {
    /// Bytes that are allocated and deallocated together: OPTIMAL UNMAP GRANULARITY. A multiple of
    /// the block length.
    pub page_bytes: u64,
}

/// Space of a thin LU, as LOG SENSE reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes that the LU occupies.
    pub used_bytes: u64,
    /// Bytes that the LU may still allocate: the space left in its pool or in its quota, whichever
    /// is less.
    pub available_bytes: u64,
}

impl LuDescription {
    /// Describes a writable LU in memory with 512-byte blocks, without volatile cache, on a medium
    /// that does not rotate.
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
            explicit_access: false,
            reservations: None,
            names: InquiryNames::default(),
            kind: DeviceKind::Disk,
        }
    }

    /// Describes the changer of a tape library.
    #[must_use]
    pub fn changer(lun: u8, library: TapeLibrary) -> Self {
        // A library without cartridges has an LU as well.
        let size_bytes = library.library.store_bytes().max(512);
        Self {
            in_place: false,
            removable: true,
            kind: DeviceKind::Changer(Box::new(library)),
            ..Self::new(lun, size_bytes)
        }
    }

    /// Describes a drive of a tape library.
    #[must_use]
    pub fn tape_drive(lun: u8) -> Self {
        Self {
            in_place: false,
            removable: true,
            kind: DeviceKind::TapeDrive,
            ..Self::new(lun, 512)
        }
    }

    /// Returns the number of logical blocks.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.size_bytes / u64::from(self.block_bytes)
    }
}
