//! The pools of an array before it serves anyone: checked, opened, grown to what the configuration names, their volumes made.
use std::collections::BTreeSet;

use hakaru_contract::{ArrayConfig, GroupConfig, LuConfig, PoolConfig, StoreConfig};
use hakaru_drive::Array;
use hakaru_pool::{
    Failure as Refusal, Outcome, PAGE_BYTES_MAX, PAGE_BYTES_MIN, Request, SIZE_BYTES_MAX, VolumeId,
};
use hakaru_runtime::{Events, Reactor, Token, clock};
use serde_json::{Value, json};

use super::path_hint::path_hint;
use super::storage::{PoolFailure, PoolStore, Storage};
use crate::failure::{Failure, OrEnvironment};

/// Tokens of the pools' stores count from here.
pub const STORES: u64 = (1 << 33) + 16;

/// Most pools of one array.
const POOLS_MAX: usize = 16;

/// Longest time a write may be held where there is no space.
const HOLD_S_MAX: u32 = 3600;

/// Checks what can be checked before anything is opened.
///
/// # Errors
/// What is out of bounds, and the bounds.
pub fn check(config: &ArrayConfig, model: Option<&Array>) -> Result<(), Failure> {
    if config.pools.len() > POOLS_MAX {
        let message = format!("pools: {} given", config.pools.len());
        return Err(Failure::usage(
            message,
            format_args!("at most {POOLS_MAX} are possible"),
        ));
    }
    let mut names = BTreeSet::new();
    let mut directories = BTreeSet::new();
    for pool in &config.pools {
        check_pool(pool)?;
        if !names.insert(&pool.name) || !directories.insert(&pool.directory) {
            let message = format!(
                "pools: {:?} in {:?} is given twice",
                pool.name, pool.directory
            );
            return Err(Failure::usage(
                message,
                "give each a name and a directory of its own",
            ));
        }
        for group in &pool.groups {
            check_group(&pool.name, group, model)?;
        }
    }
    for lu in &config.lus {
        if let StoreConfig::Thin { pool, .. } = &lu.store
            && !names.contains(pool)
        {
            let message = format!(
                "lus: LUN {} is in pool {pool:?}, which is not given",
                lu.lun
            );
            return Err(Failure::usage(message, "name one of the pools"));
        }
    }
    Ok(())
}

fn check_pool(pool: &PoolConfig) -> Result<(), Failure> {
    let usage = |what: &str, hint: String| {
        Err(Failure::usage(
            format_args!("pools: {:?}: {what}", pool.name),
            hint,
        ))
    };
    if !hakaru_pool::name_is_valid(&pool.name) {
        return usage("is no name", Refusal::NameInvalid.to_string());
    }
    if !pool.page_bytes.is_power_of_two()
        || !(PAGE_BYTES_MIN..=PAGE_BYTES_MAX).contains(&pool.page_bytes)
    {
        let hint = format!("a power of two from {PAGE_BYTES_MIN} to {PAGE_BYTES_MAX}");
        return usage(&format!("page_bytes is {}", pool.page_bytes), hint);
    }
    if !(1..=100).contains(&pool.soft_threshold_percent) {
        let what = format!("soft_threshold_percent is {}", pool.soft_threshold_percent);
        return usage(&what, "it must be 1 to 100".to_owned());
    }
    if pool.hold_when_full_s > HOLD_S_MAX {
        let what = format!("hold_when_full_s is {}", pool.hold_when_full_s);
        return usage(&what, format!("it must be 0 to {HOLD_S_MAX}"));
    }
    Ok(())
}

/// Checks a group's name, and its place on the modelled drives.
///
/// # Errors
/// As [`check`].
pub fn check_group(pool: &str, group: &GroupConfig, model: Option<&Array>) -> Result<(), Failure> {
    let usage = |what: &str, hint: &str| {
        let message = format!("pool {pool:?}: group {:?} {what}", group.name);
        Err(Failure::usage(message, hint))
    };
    if !hakaru_pool::name_is_valid(&group.name) {
        return usage("is no name", &Refusal::NameInvalid.to_string());
    }
    let Some(model) = model else { return Ok(()) };
    let Some(place) = group.placement else {
        return usage(
            "has no placement on the modelled drives",
            "give placement.group and placement.offset_bytes",
        );
    };
    let end = place.offset_bytes.checked_add(group.size_bytes);
    match (model.group_capacity_bytes(place.group), end) {
        (Some(capacity), Some(end)) if end <= capacity => Ok(()),
        (None, _) => usage(
            "lies on a group that the model has not",
            "groups count from 0",
        ),
        _ => usage(
            "ends beyond the modelled group",
            "make it smaller, or move it forward",
        ),
    }
}

/// Opens every pool, and adds the groups that it does not have yet.
///
/// # Errors
/// One cannot be opened or grown.
pub fn open(config: &ArrayConfig, storage: &mut Storage, reactor: &Reactor) -> Result<(), Failure> {
    for (number, pool) in config.pools.iter().enumerate() {
        let token = Token(STORES + number as u64);
        storage.add_pool(PoolStore::open(pool, number, reactor, token).map_err(|e| failure(&e))?);
        for group in &pool.groups {
            let known = storage.pools()[number]
                .core()
                .groups()
                .any(|known| known.name == group.name);
            if !known {
                let request = prepare(storage, number, group)?;
                ask(storage, number, request, reactor)?.map_err(|refusal| {
                    refused(&pool.name, &format!("group {:?}", group.name), refusal)
                })?;
            }
        }
    }
    Ok(())
}

/// Makes the file of a new group; the request then adds it.
///
/// # Errors
/// It cannot be made.
pub fn prepare(
    storage: &mut Storage,
    number: usize,
    group: &GroupConfig,
) -> Result<Request, Failure> {
    let (pool, _) = storage.pool(clock::now(), number);
    let least = 2 * u64::from(pool.core().page_bytes());
    if !(least..=SIZE_BYTES_MAX).contains(&group.size_bytes) {
        let what = format!("group {:?}", group.name);
        return Err(refused(pool.name(), &what, Refusal::SizeInvalid));
    }
    pool.prepare_group(group).map_err(|e| failure(&e))?;
    Ok(Request::AddGroup {
        name: group.name.clone(),
        size_bytes: group.size_bytes,
    })
}

/// What the volume behind a thin LU still lacks: to be made, to be as large as the LU, to have the quota. `None`: nothing.
///
/// # Errors
/// It is larger than the LU.
pub fn next_step(
    storage: &Storage,
    number: usize,
    name: &str,
    lu: &LuConfig,
) -> Result<Option<Request>, Failure> {
    let StoreConfig::Thin { quota_bytes, .. } = lu.store else {
        unreachable!("only thin LUs have volumes");
    };
    let core = storage.pools()[number].core();
    let found = core.volume_named(name).and_then(|id| core.volume(id));
    let Some(found) = found else {
        return Ok(Some(Request::Create {
            name: name.to_owned(),
            size_bytes: lu.size_bytes,
            quota_bytes,
        }));
    };
    let (volume, size_bytes) = (found.id, lu.size_bytes);
    if found.size_bytes > size_bytes {
        let message = format!(
            "LUN {} has {size_bytes} bytes, its volume {name:?} has {}",
            lu.lun, found.size_bytes
        );
        return Err(Failure::usage(message, "a volume is never made smaller"));
    }
    if found.size_bytes < size_bytes {
        return Ok(Some(Request::Resize { volume, size_bytes }));
    }
    Ok(
        (found.quota_bytes != quota_bytes).then_some(Request::SetQuota {
            volume,
            quota_bytes,
        }),
    )
}

/// The volume behind a thin LU, with all that [`next_step`] asks for.
///
/// # Errors
/// It is larger than the LU, or the pool refuses.
pub fn open_volume(
    lu: &LuConfig,
    (pool, volume): (&str, &str),
    storage: &mut Storage,
    reactor: &Reactor,
) -> Result<(usize, VolumeId), Failure> {
    let number = storage
        .pool_named(pool)
        .expect("the configuration was checked");
    while let Some(request) = next_step(storage, number, volume, lu)? {
        ask(storage, number, request, reactor)?
            .map_err(|refusal| refused(pool, &format!("volume {volume:?}"), refusal))?;
    }
    let volume = storage.pools()[number]
        .volume_named(volume)
        .expect("it lacks nothing");
    Ok((number, volume))
}

/// Puts all that was written on stable storage. For the end, when nobody is served any more.
///
/// # Errors
/// A pool refuses: data that were acknowledged but not flushed may be lost.
pub fn flush(storage: &mut Storage, reactor: &Reactor) -> Result<(), Failure> {
    for number in 0..storage.pools().len() {
        let name = storage.pools()[number].name().to_owned();
        ask(storage, number, Request::Flush, reactor)?
            .map_err(|refusal| refused(&name, "last flush", refusal))?;
    }
    Ok(())
}

/// A pool in figures, with its groups and volumes.
pub fn figures(storage: &Storage, number: usize) -> Value {
    let pool = &storage.pools()[number];
    let core = pool.core();
    let status = core.status();
    let groups: Vec<Value> = core
        .groups()
        .map(|group| {
            json!({
                "name": group.name,
                "size_bytes": group.size_bytes,
                "capacity_bytes": group.capacity_bytes,
                "used_bytes": group.used_bytes,
                "free_bytes": group.free_bytes,
            })
        })
        .collect();
    let volumes: Vec<Value> = core
        .volumes()
        .map(|volume| volume_figures(storage, number, volume.id))
        .collect();
    json!({
        "name": pool.name(),
        "page_bytes": status.page_bytes,
        "capacity_bytes": status.capacity_bytes,
        "used_bytes": status.used_bytes,
        "free_bytes": status.free_bytes,
        "freeing_bytes": status.freeing_bytes,
        "lost_bytes": status.lost_bytes,
        "provisioned_bytes": status.provisioned_bytes,
        "overcommit": status.overcommit,
        "threshold_bytes": status.threshold_bytes,
        "generation": status.generation,
        "read_only": status.read_only,
        "metadata_is_low": status.metadata_is_low,
        "groups": groups,
        "volumes": volumes,
    })
}

/// A volume in figures, with the LUs that it is.
pub fn volume_figures(storage: &Storage, number: usize, volume: VolumeId) -> Value {
    let core = storage.pools()[number].core();
    let luns: Vec<u8> = storage.luns_of(number, volume).collect();
    let Some(status) = core.volume(volume) else {
        return Value::Null;
    };
    let origin = status.origin.and_then(|origin| core.volume(origin));
    json!({
        "name": status.name,
        "size_bytes": status.size_bytes,
        "quota_bytes": status.quota_bytes,
        "mapped_bytes": status.mapped_bytes,
        "exclusive_bytes": core.exclusive_bytes(volume),
        "read_only": status.read_only,
        "origin": origin.map(|origin| origin.name),
        "luns": luns,
    })
}

/// Has a pool do something and waits for the outcome; nothing else is ordered of it meanwhile.
fn ask(
    storage: &mut Storage,
    number: usize,
    request: Request,
    reactor: &Reactor,
) -> Result<Result<Outcome, Refusal>, Failure> {
    let (pool, way) = storage.pool(clock::now(), number);
    pool.order(0, request, way);
    wait(storage, number, reactor)
}

/// Waits for the outcome of the one order that a pool has.
fn wait(
    storage: &mut Storage,
    number: usize,
    reactor: &Reactor,
) -> Result<Result<Outcome, Refusal>, Failure> {
    let mut events = Events::with_capacity(16);
    loop {
        storage.flush_files(clock::now());
        if let Some((_, outcome)) = storage.pool(clock::now(), number).0.poll_ordered() {
            return Ok(outcome);
        }
        reactor
            .wait(&mut events, None)
            .or_environment("wait for a pool's files", "see dmesg")?;
        for event in events.iter() {
            match event.token {
                super::FILES => storage.handle_file_event(clock::now()),
                Token(token) if (STORES..STORES + POOLS_MAX as u64).contains(&token) => {
                    storage.handle_store_event(clock::now(), (token - STORES) as usize);
                }
                // Told again by the loop's own wait.
                _ => {}
            }
        }
    }
}

/// A pool's refusal of `what`, in the operator's words.
pub fn refused(pool: &str, what: &str, refusal: Refusal) -> Failure {
    let message = format!("pool {pool:?}: {what}: {refusal}");
    match refusal {
        Refusal::Full | Refusal::Quota => {
            Failure::environment(message, "grow the pool, or free space in it")
        }
        Refusal::ReadOnly | Refusal::Io => Failure::environment(
            message,
            "see the errors before and dmesg; restart the array once the cause is gone",
        ),
        _ => Failure::usage(message, "correct the order or the configuration"),
    }
}

/// Why a pool was not opened, in the operator's words.
pub fn failure(e: &PoolFailure) -> Failure {
    let hint = match e {
        PoolFailure::Lock(_) => "stop the process that has it, or use another pool",
        PoolFailure::Absent(_) => "name the directory that holds the file `metadata`",
        PoolFailure::Lost(_) => {
            "nothing was changed; put the file `metadata` back, or move the files `*.group` away"
        }
        PoolFailure::Open { .. } => {
            "nothing was changed; `hakaru-engine check DIRECTORY` tells all that is wrong"
        }
        PoolFailure::File { error, .. } => path_hint(error),
    };
    Failure::environment(e, hint)
}
