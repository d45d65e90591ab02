//! Preparation of an array's pools before it serves: opens them, and adds the configured groups and
//! volumes that they lack.
use hakaru_contract::{ArrayConfig, GroupConfig, LuConfig, PoolConfig, StoreConfig};
use hakaru_drive::Array;
use hakaru_pool::{Failure as Refusal, Request, SIZE_BYTES_MAX, VolumeId};
use hakaru_runtime::{Events, Reactor, Token, clock};

use super::path_hint::path_hint;
use super::storage::{Ordered, PoolFailure, Storage};
use super::tokens::{FILES, STORES};
use crate::failure::{Failure, OrEnvironment};

/// Maximum number of pools of one array.
pub const POOLS_MAX: usize = 16;

/// Opens every pool, and adds the groups that it lacks.
///
/// # Errors
/// A pool cannot be opened or grown, or has a group without a place on the modelled drives.
pub fn open(config: &ArrayConfig, storage: &mut Storage, reactor: &Reactor) -> Result<(), Failure> {
    for (number, pool) in config.pools.iter().enumerate() {
        let token = Token(STORES + number as u64);
        storage
            .open_pool(pool, reactor, token)
            .map_err(|e| failure(&e))?;
        let (core, model) = (storage.core.pools()[number].core(), storage.core.model());
        for present in core.groups() {
            check_present_group(pool, &present.name, present.size_bytes, model)?;
        }
        for group in &pool.groups {
            let mut groups = storage.core.pools()[number].core().groups();
            if groups.any(|present| present.name == group.name) {
                continue;
            }
            drop(groups);
            let request = prepare(storage, number, group)?;
            perform(storage, number, request, reactor)?.map_err(|refusal| {
                storage.forget_prepared_group(number);
                refused(&pool.name, &format!("group {:?}", group.name), refusal)
            })?;
        }
    }
    Ok(())
}

/// Checks the placement of a group that the pool already has, with the size that it has there.
/// The configured size is ignored.
///
/// # Errors
/// The group has no placement on the modelled drives, or ends beyond them.
fn check_present_group(
    pool: &PoolConfig,
    name: &str,
    size_bytes: u64,
    model: Option<&Array>,
) -> Result<(), Failure> {
    let Some(model) = model else { return Ok(()) };
    let usage = |problem: &str, hint: &str| {
        let message = format!(
            "pool {:?}: group {name:?}, which the pool has, {problem}",
            pool.name
        );
        Err(Failure::usage(message, hint))
    };
    let Some(group) = pool.groups.iter().find(|group| group.name == name) else {
        return usage(
            "is not configured, so its placement on the modelled drives is unknown",
            "add the group and its placement to the groups of the pool",
        );
    };
    let Some(place) = group.placement else {
        return usage(
            "has no placement on the modelled drives",
            "set placement.group and placement.offset_bytes",
        );
    };
    let end = place.offset_bytes.checked_add(size_bytes);
    match (model.group_capacity_bytes(place.group), end) {
        (Some(capacity), Some(end)) if end <= capacity => Ok(()),
        (capacity, _) => usage(
            &format!(
                "has {size_bytes} bytes and ends beyond the {} bytes of the modelled group {}",
                capacity.unwrap_or(0),
                place.group
            ),
            "reduce placement.offset_bytes or use larger drives; size_bytes changes no group that \
             the pool has",
        ),
    }
}

/// Creates the file of a new group. Returns the request that adds the group.
///
/// # Errors
/// The size is out of bounds, or the file cannot be created.
pub fn prepare(
    storage: &mut Storage,
    number: usize,
    group: &GroupConfig,
) -> Result<Request, Failure> {
    let pool = &storage.core.pools()[number];
    let size_bytes_min = 2 * u64::from(pool.core().page_bytes());
    if !(size_bytes_min..=SIZE_BYTES_MAX).contains(&group.size_bytes) {
        let object = format!("group {:?}", group.name);
        return Err(refused(pool.name(), &object, Refusal::SizeInvalid));
    }
    storage
        .prepare_group(number, group)
        .map_err(|e| failure(&e))?;
    Ok(Request::AddGroup {
        name: group.name.clone(),
        size_bytes: group.size_bytes,
    })
}

/// Returns the next request that the volume behind a thin LU needs to exist, to be as large as the
/// LU, and to have the configured quota. Returns `None` if the volume needs no request.
///
/// # Errors
/// The volume is larger than the LU.
pub fn next_step(
    storage: &Storage,
    number: usize,
    lu: &LuConfig,
) -> Result<Option<Request>, Failure> {
    let StoreConfig::Thin {
        volume: name,
        quota_bytes,
        ..
    } = &lu.store
    else {
        unreachable!("only thin LUs have volumes");
    };
    let quota_bytes = *quota_bytes;
    let core = storage.core.pools()[number].core();
    let status = core.volume_named(name).and_then(|id| core.volume(id));
    let Some(status) = status else {
        return Ok(Some(Request::Create {
            name: name.clone(),
            size_bytes: lu.size_bytes,
            quota_bytes,
        }));
    };
    let (volume, size_bytes) = (status.id, lu.size_bytes);
    if status.size_bytes > size_bytes {
        let message = format!(
            "LUN {} has {size_bytes} bytes, but its volume {name:?} has {} bytes",
            lu.lun, status.size_bytes
        );
        let hint = "make the LU as large as its volume, because volumes cannot shrink";
        return Err(Failure::usage(message, hint));
    }
    if status.size_bytes < size_bytes {
        return Ok(Some(Request::Resize { volume, size_bytes }));
    }
    Ok(
        (status.quota_bytes != quota_bytes).then_some(Request::SetQuota {
            volume,
            quota_bytes,
        }),
    )
}

/// Carries out all requests of [`next_step`] for a thin LU. Returns the number of its pool, and its
/// volume.
///
/// # Errors
/// The volume is larger than the LU, or the pool refuses a request.
pub fn open_volume(
    lu: &LuConfig,
    storage: &mut Storage,
    reactor: &Reactor,
) -> Result<(usize, VolumeId), Failure> {
    let StoreConfig::Thin { pool, volume, .. } = &lu.store else {
        unreachable!("only thin LUs have volumes");
    };
    let number = number_of(storage, pool);
    while let Some(request) = next_step(storage, number, lu)? {
        perform(storage, number, request, reactor)?
            .map_err(|refusal| refused(pool, &format!("volume {volume:?}"), refusal))?;
    }
    let volume = storage.core.pools()[number]
        .volume_named(volume)
        .expect("the volume exists now");
    Ok((number, volume))
}

/// Returns the number of a pool that is configured.
///
/// # Panics
/// If there is no pool of that name: the configuration was not checked.
pub fn number_of(storage: &Storage, name: &str) -> usize {
    let number = storage.core.pool_named(name);
    number.expect("the configuration was checked")
}

/// Sends a request to a pool without other pending requests, and waits until it is done. `object`
/// describes the group or volume concerned.
///
/// # Errors
/// The pool refuses the request.
pub fn carry_out(
    number: usize,
    request: Request,
    object: &str,
    storage: &mut Storage,
    reactor: &Reactor,
) -> Result<(), Failure> {
    let outcome = perform(storage, number, request, reactor)?;
    let name = storage.core.pools()[number].name();
    outcome.map_err(|refusal| refused(name, object, refusal))?;
    Ok(())
}

/// Flushes all pools to stable storage after the array has stopped serving.
///
/// # Errors
/// A pool refuses the flush. Data that was acknowledged but not flushed may be lost.
pub fn flush(storage: &mut Storage, reactor: &Reactor) -> Result<(), Failure> {
    for number in 0..storage.core.pools().len() {
        let name = storage.core.pools()[number].name().to_owned();
        perform(storage, number, Request::Flush, reactor)?
            .map_err(|refusal| refused(&name, "last flush", refusal))?;
    }
    Ok(())
}

/// Sends a request to a pool without other pending requests, and waits for the outcome.
fn perform(
    storage: &mut Storage,
    number: usize,
    request: Request,
    reactor: &Reactor,
) -> Result<Ordered, Failure> {
    storage.order(clock::now(), number, 0, request);
    wait(storage, number, reactor)
}

/// Waits for the outcome of the only pending request of a pool.
fn wait(storage: &mut Storage, number: usize, reactor: &Reactor) -> Result<Ordered, Failure> {
    let mut events = Events::with_capacity(16);
    loop {
        storage.flush_files(clock::now());
        if let Some((_, outcome)) = storage.core.poll_ordered(number) {
            return Ok(outcome);
        }
        reactor
            .wait(&mut events, storage.poll_retry())
            .or_environment("wait for a pool's files", "see dmesg")?;
        for event in events.iter() {
            match event.token {
                FILES => storage.handle_file_event(clock::now()),
                Token(token) if (STORES..STORES + POOLS_MAX as u64).contains(&token) => {
                    storage.handle_store_event(clock::now(), (token - STORES) as usize);
                }
                // The serving loop's wait reports other events again.
                _ => {}
            }
        }
    }
}

/// Returns the failure that reports a pool's refusal to the operator. `object` describes the group,
/// volume or request concerned.
pub fn refused(pool: &str, object: &str, refusal: Refusal) -> Failure {
    let message = format!("pool {pool:?}: {object}: {refusal}");
    match refusal {
        Refusal::Full | Refusal::Quota => {
            Failure::environment(message, "grow the pool, or free space in it")
        }
        Refusal::ReadOnly | Refusal::Io => Failure::environment(
            message,
            "see the previous errors and dmesg; restart the array after removing the cause",
        ),
        _ => Failure::usage(message, "correct the order or the configuration"),
    }
}

/// Returns the failure that reports to the operator why a pool could not be used.
pub fn failure(error: &PoolFailure) -> Failure {
    let hint = match error {
        PoolFailure::Lock(_) => "stop the process that uses the pool, or use another pool",
        PoolFailure::Absent(_) => "name the directory that contains the file `metadata`",
        PoolFailure::Lost(_) => {
            "nothing was changed; restore the file `metadata`, or move the files `*.group` away"
        }
        PoolFailure::Open { .. } => {
            "nothing was changed; `hakaru-engine check DIRECTORY` lists all damage"
        }
        PoolFailure::File { error, .. } => path_hint(error),
    };
    Failure::environment(error, hint)
}

#[cfg(test)]
mod tests {
    use super::super::setup;
    use super::*;
    use hakaru_runtime::file::FileQueue;
    use serde_json::{Value, json};

    const MIB: u64 = 1 << 20;

    /// Opens the pool of an array with one modelled drive, of which `offset_bytes` is the position
    /// of the group `a`. Returns the message and hint of the failure.
    fn opened(directory: &str, groups: &Value) -> Result<(), (String, String)> {
        let config = json!({
            "target_name": "iqn.2026-01.net.example:array",
            "portals": ["127.0.0.1:0"],
            "lus": [],
            "pools": [{
                "name": "pool", "directory": directory, "page_bytes": 65_536, "groups": groups,
            }],
            "model": {
                "kind": "array",
                "controller": {"command_us": 1.0, "data_us_per_mib": 0.0},
                "groups": [{
                    "raid": "raid0", "drives": 1, "stripe_unit_bytes": 65_536,
                    "drive": {"kind": "preset", "name": "sas-15k-146"},
                }],
            },
        });
        let config: ArrayConfig = serde_json::from_value(config).expect("a configuration");
        let model = setup::model(&config).ok().flatten().expect("a model").1;
        let reactor = Reactor::new().expect("a reactor");
        let queue = FileQueue::new(&reactor, FILES).expect("a queue of files");
        let mut storage = Storage::new(Some(model), queue, None);
        open(&config, &mut storage, &reactor).map_err(|failure| (failure.message, failure.hint))
    }

    #[test]
    fn a_group_that_a_pool_has_needs_a_place_on_the_modelled_drives_that_holds_its_actual_size() {
        let directory = std::env::temp_dir().join(format!("hakaru-places-{}", std::process::id()));
        let path = directory.to_str().expect("a path of UTF-8");
        let group = |size_bytes: u64, offset_bytes: u64| {
            let placement = json!({"group": 0, "offset_bytes": offset_bytes});
            json!([{"name": "a", "size_bytes": size_bytes, "placement": placement}])
        };
        opened(path, &group(8 * MIB, 0)).expect("the pool is created");
        opened(path, &group(8 * MIB, 4 * MIB)).expect("the pool is opened");
        let (message, hint) = opened(path, &json!([])).expect_err("the placement is unknown");
        assert!(
            message.contains("\"a\"") && message.contains("not configured"),
            "{message}"
        );
        assert!(hint.contains("placement"), "{hint}");
        // The drive has 146 815 733 760 bytes. One MiB fits behind the offset, and 8 MiB do not.
        let offset_bytes = 146_815_733_760 / 65_536 * 65_536 - 2 * MIB;
        let (message, hint) = opened(path, &group(MIB, offset_bytes)).expect_err("no room");
        assert!(message.contains("8388608 bytes"), "{message}");
        assert!(hint.contains("offset_bytes"), "{hint}");
        std::fs::remove_dir_all(&directory).expect("the pool is removed");
    }
}
