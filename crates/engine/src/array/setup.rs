//! From an [`ArrayConfig`] to the parts of an array, with every bound checked: nothing is opened or bound before the
//! configuration as a whole makes sense.
use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use hakaru_contract::drive::{ArrayModel, Drive};
use hakaru_contract::{ArrayConfig, LuConfig, StoreConfig, TargetKeys};
use hakaru_drive::Array;
use hakaru_iscsi_target::{Limits, LuDescription, Thin, check_reservations};
use hakaru_runtime::memory::SparseMemory;
use hakaru_runtime::{Reactor, Token};

use super::lu_file::LuFile;
use super::pools;
use super::storage::{Contents, FileStore, GRANULE_BYTES, Keeper, Lu, MemoryStore, Storage, Store};
use crate::address::parse_address;
use crate::failure::{Failure, OrEnvironment};

/// Largest physical block an LU may be said to have.
const PHYSICAL_BLOCK_BYTES_MAX: u32 = 64 << 10;

/// Largest LU in memory that is full from the beginning: its maps take 64 MiB.
const FULL_BYTES_MAX: u64 = 1 << 40;

/// Longest data segment or burst (RFC 7143 sections 13.12 to 13.14).
const LENGTH_MAX: u64 = (1 << 24) - 1;

/// Longest WRITE ATOMIC of an LU in memory.
const ATOMIC_BYTES: u32 = 1 << 20;

/// Where to listen.
///
/// # Errors
/// Not 1 to 16 portals, or one that is no `address:port`.
pub fn portals(config: &ArrayConfig) -> Result<Vec<SocketAddr>, Failure> {
    if !(1..=16).contains(&config.portals.len()) {
        return Err(Failure::usage(
            format_args!(
                "portals: {} given, 1 to 16 are possible",
                config.portals.len()
            ),
            "give an `address:port` for each network the array is on",
        ));
    }
    config
        .portals
        .iter()
        .map(|portal| parse_address("portals", portal))
        .collect()
}

/// The timing model and its parameters, or `None` for "as fast as the machine".
///
/// # Errors
/// A parameter out of bounds, an unknown preset.
pub fn model(config: &ArrayConfig) -> Result<Option<(ArrayModel, Array)>, Failure> {
    let hint = "docs/concepts/drive-model.md lists presets and bounds";
    let usage = |e: hakaru_drive::ModelError| Failure::usage(format_args!("model: {e}"), hint);
    match hakaru_drive::resolve(&config.model).map_err(usage)? {
        None => Ok(None),
        Some(parameters) => {
            let array = Array::new(&parameters, config.seed).map_err(usage)?;
            Ok(Some((parameters, array)))
        }
    }
}

/// Checks the limits that are plain numbers, and each LU against the model.
///
/// # Errors
/// What is out of bounds, and the bounds.
pub fn check(config: &ArrayConfig, model: Option<&Array>) -> Result<(), Failure> {
    bound("sessions_max", config.sessions_max.into(), 1, 20_000)?;
    bound("spin_us", config.spin_us.into(), 0, 1000)?;
    check_keys(&config.login)?;
    config.socket.validate("socket").map_err(|e| {
        let hint = e.hint.clone();
        Failure::usage(e, hint)
    })?;
    let least = u64::from(config.pools.is_empty());
    bound("number of lus", config.lus.len() as u64, least, 256)?;
    let name = config.target_name.as_str();
    if name.len() > 223
        || !["iqn.", "eui.", "naa."]
            .iter()
            .any(|prefix| name.starts_with(prefix))
    {
        return Err(Failure::usage(
            format_args!("target_name: {name:?} is no iSCSI name"),
            "use the form iqn.2026-01.org.example:name, at most 223 bytes (RFC 7143 section 4.2.7)",
        ));
    }
    pools::check(config, model)?;
    let mut seen = BTreeSet::new();
    for lu in &config.lus {
        if !seen.insert(lu.lun) {
            let message = format!("lus: LUN {} is given twice", lu.lun);
            return Err(Failure::usage(message, "number them differently"));
        }
        check_lu(lu, model)?;
    }
    Ok(())
}

fn bound(field: &str, value: u64, low: u64, high: u64) -> Result<(), Failure> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    let message = format!("{field} is {value}; it must be {low} to {high}");
    Err(Failure::usage(message, "correct the configuration"))
}

/// Ranges of RFC 7143 section 13.
fn check_keys(keys: &TargetKeys) -> Result<(), Failure> {
    let lengths = [
        (
            "login.max_recv_data_segment_length",
            keys.max_recv_data_segment_length,
            LENGTH_MAX,
        ),
        ("login.max_burst_length", keys.max_burst_length, LENGTH_MAX),
        (
            "login.first_burst_length",
            keys.first_burst_length,
            u64::from(keys.max_burst_length),
        ),
    ];
    for (field, bytes, most) in lengths {
        bound(field, bytes.into(), 512, most)?;
    }
    let most = u64::from(u16::MAX);
    bound(
        "login.max_outstanding_r2t",
        keys.max_outstanding_r2t.into(),
        1,
        most,
    )
}

/// The target's bounds with these keys, for sessions as many as this.
pub fn limits(keys: &TargetKeys, sessions_max: u32) -> Limits {
    let defaults = Limits::default();
    Limits {
        sessions_max,
        logins_max: sessions_max.max(2),
        logins_per_address_max: (sessions_max.max(2) - 1).min(defaults.logins_per_address_max),
        data_segment_bytes_max: keys.max_recv_data_segment_length,
        max_burst_bytes: keys.max_burst_length,
        first_burst_bytes: keys.first_burst_length,
        outstanding_r2t_max: keys.max_outstanding_r2t,
        initial_r2t: keys.initial_r2t,
        immediate_data: keys.immediate_data,
        ..defaults
    }
}

/// Checks an LU on its own.
///
/// # Errors
/// As [`check`].
pub fn check_lu(lu: &LuConfig, model: Option<&Array>) -> Result<(), Failure> {
    let lun = lu.lun;
    let block = u64::from(lu.block_bytes);
    if ![512, 4096].contains(&block) {
        let message = format!("lus: LUN {lun} has blocks of {block} bytes");
        return Err(Failure::usage(message, "block_bytes is 512 or 4096"));
    }
    if let Some(physical) = lu.physical_block_bytes {
        let possible = physical.is_power_of_two()
            && (lu.block_bytes..=PHYSICAL_BLOCK_BYTES_MAX).contains(&physical);
        if !possible {
            let message = format!("lus: LUN {lun} has physical blocks of {physical} bytes");
            return Err(Failure::usage(
                message,
                "physical_block_bytes is a power of two from block_bytes to 65 536",
            ));
        }
    }
    if lu.size_bytes == 0 || !lu.size_bytes.is_multiple_of(block) {
        let message = format!("lus: LUN {lun} has {} bytes", lu.size_bytes);
        return Err(Failure::usage(
            message,
            format_args!("size_bytes is a multiple of {block}, not 0"),
        ));
    }
    check_contents(lu)?;
    let Some(model) = model else { return Ok(()) };
    if matches!(lu.store, StoreConfig::Thin { .. }) {
        return Ok(());
    }
    let Some(place) = lu.placement else {
        let message = format!("lus: LUN {lun} has no placement on the modelled drives");
        return Err(Failure::usage(
            message,
            "give placement.group and placement.offset_bytes",
        ));
    };
    let Some(capacity) = model.group_capacity_bytes(place.group) else {
        let message = format!(
            "lus: LUN {lun} lies on group {}, which the model has not",
            place.group
        );
        return Err(Failure::usage(message, "groups count from 0"));
    };
    match place.offset_bytes.checked_add(lu.size_bytes) {
        Some(end) if end <= capacity => Ok(()),
        _ => Err(Failure::usage(
            format_args!(
                "lus: LUN {lun} ends beyond the {capacity} bytes of group {}",
                place.group
            ),
            "make it smaller, or move it forward",
        )),
    }
}

/// Contents that an LU in memory is declared to have.
fn check_contents(lu: &LuConfig) -> Result<(), Failure> {
    let StoreConfig::Memory {
        fill_seed,
        fill_compressible_percent: percent,
    } = lu.store
    else {
        return Ok(());
    };
    let lun = lu.lun;
    if percent > 100 || percent > 0 && fill_seed.is_none() {
        let message = format!("lus: LUN {lun} has fill_compressible_percent {percent}");
        return Err(Failure::usage(
            message,
            "0 to 100, and only together with fill_seed",
        ));
    }
    if fill_seed.is_some() && lu.size_bytes > FULL_BYTES_MAX {
        let message = format!("lus: LUN {lun} has {} bytes and fill_seed", lu.size_bytes);
        return Err(Failure::usage(
            message,
            "an LU that is full from the beginning has at most 1 TiB",
        ));
    }
    Ok(())
}

/// The LU as SCSI sees it: `model` as resolved; `reservations` as they were kept, `None` where they
/// are not kept; `pool` the bytes of a page and whether the volume is read-only, if it is in a pool.
///
/// # Errors
/// The reservations are damaged.
pub fn describe(
    lu: &LuConfig,
    model: Option<&ArrayModel>,
    reservations: Option<Vec<u8>>,
    pool: Option<(u32, bool)>,
) -> Result<LuDescription, Failure> {
    let in_memory = matches!(lu.store, StoreConfig::Memory { .. });
    // Empty: nothing was ever kept.
    if let Some(record) = reservations.as_deref().filter(|record| !record.is_empty()) {
        check_reservations(record).or_environment(
            format_args!("take the reservations of LUN {}", lu.lun),
            "remove the LU's file in state_directory if they may be forgotten",
        )?;
    }
    Ok(LuDescription {
        block_bytes: lu.block_bytes,
        physical_block_bytes: lu.physical_block_bytes,
        unmap_any_data: lu.unmap_any_data,
        read_only: lu.read_only || pool.is_some_and(|(_, snapshot)| snapshot),
        // The page cache of a file is volatile; an LU in memory has no cache to flush but the modelled one.
        write_cache: !in_memory || model.is_some_and(ArrayModel::has_volatile_write_cache),
        rotation_rate_rpm: model.and_then(|model| rotation_rate(model, lu)),
        in_place: in_memory,
        thin: match pool {
            Some((page_bytes, _)) => Some(u64::from(page_bytes)),
            None => lu.thin.then_some(GRANULE_BYTES),
        }
        .map(|page_bytes| Thin { page_bytes }),
        removable: lu.removable,
        sanitize: lu.sanitize,
        // A write to memory is one copy, and nothing of it outlives a crash; a file is written in parts.
        atomic_bytes: if in_memory { ATOMIC_BYTES } else { 0 },
        reservations,
        ..LuDescription::new(lu.lun, lu.size_bytes)
    })
}

/// Keeps reservations in the state directory, if one is given.
///
/// # Errors
/// It cannot be made.
pub fn keeper(
    state: Option<&Path>,
    reactor: &Reactor,
    token: Token,
) -> Result<Option<Keeper>, Failure> {
    let Some(directory) = state else {
        return Ok(None);
    };
    std::fs::create_dir_all(directory)
        .and_then(|()| Keeper::new(directory, reactor, token))
        .map(Some)
        .or_environment(
            format_args!("keep state in {}", directory.display()),
            "choose a state_directory where you may write",
        )
}

fn rotation_rate(model: &ArrayModel, lu: &LuConfig) -> Option<u16> {
    let group = model.groups.get(lu.placement?.group as usize)?;
    match &group.drive {
        Drive::Hdd(hdd) => Some(hdd.rpm as u16),
        Drive::Ssd(_) | Drive::Preset { .. } => None,
    }
}

/// The reservations that were kept for an LU; `None` if they are not kept for it.
///
/// # Errors
/// They cannot be read.
pub fn reservations(storage: &mut Storage, lun: u8, lu: &Lu) -> Result<Option<Vec<u8>>, Failure> {
    storage.load_reservations(lun, lu).or_environment(
        format_args!("read the reservations of LUN {lun}"),
        "state_directory must be readable; remove the LU's file there if they may be forgotten",
    )
}

/// Opens the bytes of `lus[index]` of the configuration.
///
/// # Errors
/// The memory, file or volume is not available.
pub fn open(
    index: usize,
    lu: &LuConfig,
    storage: &mut Storage,
    reactor: &Reactor,
) -> Result<Lu, Failure> {
    let mut identity = None;
    let store = match &lu.store {
        StoreConfig::Memory {
            fill_seed,
            fill_compressible_percent: percent,
        } => {
            let memory = SparseMemory::new(lu.size_bytes).or_environment(
                format_args!(
                    "reserve {} bytes of memory for LUN {}",
                    lu.size_bytes, lu.lun
                ),
                "sysctl vm.overcommit_memory=0 lets thin LUs be larger than RAM; or keep it in a file",
            )?;
            Store::Memory(match fill_seed {
                Some(seed) => {
                    MemoryStore::full(memory, lu.size_bytes, Contents::new(*seed, *percent))
                }
                None => MemoryStore::new(memory, lu.size_bytes),
            })
        }
        StoreConfig::File {
            path,
            direct,
            adopt,
        } => {
            let field = format!("lus[{index}].store.path");
            let file = LuFile {
                path: Path::new(path),
                size_bytes: lu.size_bytes,
                block_bytes: lu.block_bytes,
                direct: *direct,
                adopt: *adopt,
            };
            let file = file.open().map_err(|failure| Failure {
                message: format!("{field}: {}", failure.message),
                ..failure
            })?;
            let path = fs::canonicalize(path).unwrap_or_else(|_| path.into());
            identity = Some(format!("file {path:?}"));
            Store::File(FileStore::new(file))
        }
        StoreConfig::Thin { pool, volume, .. } => {
            let (pool, volume) = pools::open_volume(lu, (pool, volume), storage, reactor)?;
            identity = Some(storage.volume_identity(pool, volume));
            Store::Thin { pool, volume }
        }
    };
    let place = lu.placement.map_or((0, 0), |p| (p.group, p.offset_bytes));
    let sizes = (lu.size_bytes, lu.block_bytes);
    Ok(Lu::new(store, sizes, place, identity))
}
