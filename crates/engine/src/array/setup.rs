//! Construction of the parts of an array from a checked [`ArrayConfig`].
use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use hakaru_contract::drive::{ArrayModel, Drive};
use hakaru_contract::{ArrayConfig, LuConfig, StoreConfig};
use hakaru_drive::Array;
use hakaru_iscsi_target::{Limits, LuDescription, PortGroupDescription, Thin, check_reservations};
use hakaru_runtime::memory::SparseMemory;
use hakaru_runtime::{Reactor, Token};
use hakaru_store::{Contents, FileStore, GRANULE_BYTES, MemoryStore, Place, Store};

use super::descriptors::Descriptors;
use super::lu_file::LuFile;
use super::pools;
use super::storage::{Keeper, Lu, LuMemory, Storage};
use crate::address::parse_address;
use crate::failure::{Failure, OrEnvironment};

/// Longest WRITE ATOMIC of an LU in memory, bytes.
const ATOMIC_BYTES: u32 = 1 << 20;

/// Returns the addresses to listen on.
///
/// # Errors
/// The number of portals is not 1 to 16, or a portal is not an `address:port`.
pub fn portals(config: &ArrayConfig) -> Result<Vec<SocketAddr>, Failure> {
    if !(1..=16).contains(&config.portals.len()) {
        return Err(Failure::usage(
            format_args!(
                "portals has {} entries; it must have 1 to 16",
                config.portals.len()
            ),
            "set an `address:port` for each network of the array",
        ));
    }
    config
        .portals
        .iter()
        .map(|portal| parse_address("portals", portal))
        .collect()
}

/// Returns the target port groups of a checked configuration.
pub fn port_groups(config: &ArrayConfig) -> Vec<PortGroupDescription> {
    let groups = config.port_groups.iter();
    groups
        .map(|group| PortGroupDescription {
            ports: group.portals.clone(),
            preferred: group.preferred,
        })
        .collect()
}

/// Returns the parameters of the timing model and the model, or `None` if the array works as fast
/// as the machine.
///
/// # Errors
/// A parameter is out of bounds, or a preset is unknown.
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

/// Returns the limits of the target.
pub fn limits(config: &ArrayConfig, descriptors: &Descriptors) -> Limits {
    let logins_max = config.sessions_max.max(2);
    let defaults = Limits::default();
    Limits {
        connections_max: descriptors.connections_max,
        sessions_max: descriptors.sessions_max,
        logins_max,
        logins_per_address_max: defaults.logins_per_address_max.min(logins_max - 1),
        keys: config.login,
        ..defaults
    }
}

/// Properties of an LU that its volume determines.
#[derive(Clone, Copy, Debug)]
pub struct VolumeTraits {
    /// Page size, bytes.
    pub page_bytes: u32,
    /// Whether the volume is a snapshot.
    pub read_only: bool,
}

/// Returns the SCSI description of an LU. `model` holds the resolved parameters of the timing
/// model. `reservations` is the stored record, or `None` if reservations of the LU are not stored.
/// `volume` is given if the LU is in a pool.
///
/// # Errors
/// The record of the reservations is damaged.
pub fn describe(
    lu: &LuConfig,
    model: Option<&ArrayModel>,
    reservations: Option<Vec<u8>>,
    volume: Option<VolumeTraits>,
) -> Result<LuDescription, Failure> {
    let in_memory = matches!(lu.store, StoreConfig::Memory { .. });
    // An empty record means that no reservation was ever stored.
    if let Some(record) = reservations.as_deref().filter(|record| !record.is_empty()) {
        check_reservations(record).or_environment(
            format_args!("restore the reservations of LUN {}", lu.lun),
            "remove the LU's file in state_directory if the reservations may be lost",
        )?;
    }
    Ok(LuDescription {
        block_bytes: lu.block_bytes,
        physical_block_bytes: lu.physical_block_bytes,
        unmap_any_data: lu.unmap_any_data,
        read_only: lu.read_only || volume.is_some_and(|volume| volume.read_only),
        // The page cache of a file is volatile. An LU in memory has only the modelled cache.
        write_cache: !in_memory || model.is_some_and(ArrayModel::has_volatile_write_cache),
        rotation_rate_rpm: model.and_then(|model| rotation_rate(model, lu)),
        in_place: in_memory,
        thin: match volume {
            Some(volume) => Some(u64::from(volume.page_bytes)),
            None => lu.thin.then_some(GRANULE_BYTES),
        }
        .map(|page_bytes| Thin { page_bytes }),
        removable: lu.removable,
        sanitize: lu.sanitize,
        explicit_access: lu.explicit_alua,
        // A write to memory is one copy, and memory does not survive a crash. A file is written in
        // parts.
        atomic_bytes: if in_memory { ATOMIC_BYTES } else { 0 },
        reservations,
        ..LuDescription::new(lu.lun, lu.size_bytes)
    })
}

/// Opens the state directory, if given, in which reservations are stored.
///
/// # Errors
/// The directory cannot be created, or no thread or descriptor is available.
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
            format_args!("store state in {}", directory.display()),
            "choose a state_directory to which this user may write",
        )
}

fn rotation_rate(model: &ArrayModel, lu: &LuConfig) -> Option<u16> {
    let group = model.groups.get(lu.placement?.group as usize)?;
    match &group.drive {
        Drive::Hdd(hdd) => Some(hdd.rpm as u16),
        Drive::Ssd(_) | Drive::Preset { .. } => None,
    }
}

/// Opens every LU of the configuration. Returns their SCSI descriptions. `model` holds the resolved
/// parameters of the timing model.
///
/// # Errors
/// The memory, file or volume of an LU is not available.
pub fn open_lus(
    config: &ArrayConfig,
    model: Option<&ArrayModel>,
    storage: &mut Storage,
    reactor: &Reactor,
) -> Result<Vec<LuDescription>, Failure> {
    let mut descriptions = Vec::new();
    for (index, lu) in config.lus.iter().enumerate() {
        let opened = open_lu(index, lu, storage, reactor)?;
        let reservations = storage.load_reservations(lu.lun, &opened).or_environment(
            format_args!("read the reservations of LUN {}", lu.lun),
            "make state_directory readable, or remove the LU's file there if the reservations may be lost",
        )?;
        descriptions.push(describe(lu, model, reservations, traits(storage, &opened))?);
        storage.core.attach(lu.lun, opened);
    }
    Ok(descriptions)
}

/// Returns the properties of an LU that its volume determines, or `None` if it is not in a pool.
pub fn traits(storage: &Storage, lu: &Lu) -> Option<VolumeTraits> {
    let Store::Thin { pool, volume } = lu.store else {
        return None;
    };
    let core = storage.core.pools()[pool].core();
    let volume = core.volume(volume);
    Some(VolumeTraits {
        page_bytes: core.page_bytes(),
        read_only: volume.is_some_and(|volume| volume.read_only),
    })
}

/// Opens the store of `lus[index]`.
fn open_lu(
    index: usize,
    lu: &LuConfig,
    storage: &mut Storage,
    reactor: &Reactor,
) -> Result<Lu, Failure> {
    let (store, identity) = match &lu.store {
        StoreConfig::Memory { .. } => (Store::Memory(open_memory(lu)?), None),
        StoreConfig::File {
            path,
            direct,
            adopt,
        } => {
            let file = LuFile {
                path: Path::new(path),
                size_bytes: lu.size_bytes,
                block_bytes: lu.block_bytes,
                direct: *direct,
                adopt: *adopt,
            };
            let file = file.open().map_err(|failure| Failure {
                message: format!("lus[{index}].store.path: {}", failure.message),
                ..failure
            })?;
            let path = fs::canonicalize(path).unwrap_or_else(|_| path.into());
            let store = FileStore::new(storage.add_file(file));
            (Store::File(store), Some(format!("file {path:?}")))
        }
        StoreConfig::Thin { .. } => {
            let (pool, volume) = pools::open_volume(lu, storage, reactor)?;
            let identity = storage.core.volume_identity(pool, volume);
            (Store::Thin { pool, volume }, Some(identity))
        }
    };
    let place = lu.placement.map_or_else(Place::default, |place| Place {
        group: place.group,
        offset_bytes: place.offset_bytes,
    });
    Ok(Lu {
        store,
        size_bytes: lu.size_bytes,
        block_bytes: lu.block_bytes,
        place,
        identity,
        unmaps: 0,
    })
}

fn open_memory(lu: &LuConfig) -> Result<MemoryStore<LuMemory>, Failure> {
    let memory = SparseMemory::new(lu.size_bytes).or_environment(
        format_args!(
            "reserve {} bytes of memory for LUN {}",
            lu.size_bytes, lu.lun
        ),
        "set `sysctl vm.overcommit_memory=0` to make thin LUs larger than RAM, or store the LU in a file",
    )?;
    let memory = LuMemory(memory);
    Ok(match lu.store {
        StoreConfig::Memory {
            fill_seed: Some(seed),
            fill_compressible_percent: percent,
        } => MemoryStore::full(memory, Contents::new(seed, percent)),
        _ => MemoryStore::new(memory),
    })
}
