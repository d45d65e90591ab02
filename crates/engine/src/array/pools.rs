//! The pools of an array before it serves: opened, grown to what the configuration names, their
//! volumes made.
use hakaru_contract::{ArrayConfig, GroupConfig, LuConfig, StoreConfig};
use hakaru_pool::{Failure as Refusal, Request, SIZE_BYTES_MAX, VolumeId};
use hakaru_runtime::{Events, Reactor, Token, clock};

use super::path_hint::path_hint;
use super::storage::{Ordered, PoolFailure, Storage};
use super::tokens::{FILES, STORES};
use crate::failure::{Failure, OrEnvironment};

/// Most pools of one array.
pub const POOLS_MAX: usize = 16;

/// Opens every pool, and adds the groups that it lacks.
///
/// # Errors
/// A pool cannot be opened or grown.
pub fn open(config: &ArrayConfig, storage: &mut Storage, reactor: &Reactor) -> Result<(), Failure> {
    for (number, pool) in config.pools.iter().enumerate() {
        let token = Token(STORES + number as u64);
        storage
            .open_pool(pool, reactor, token)
            .map_err(|e| failure(&e))?;
        for group in &pool.groups {
            let mut groups = storage.core.pools()[number].core().groups();
            if groups.any(|present| present.name == group.name) {
                continue;
            }
            drop(groups);
            let request = prepare(storage, number, group)?;
            ask(storage, number, request, reactor)?.map_err(|refusal| {
                storage.forget_prepared_group(number);
                refused(&pool.name, &format!("group {:?}", group.name), refusal)
            })?;
        }
    }
    Ok(())
}

/// Makes the file of a new group; the request then adds it.
///
/// # Errors
/// The size is out of bounds, or the file cannot be made.
pub fn prepare(
    storage: &mut Storage,
    number: usize,
    group: &GroupConfig,
) -> Result<Request, Failure> {
    let pool = &storage.core.pools()[number];
    let least = 2 * u64::from(pool.core().page_bytes());
    if !(least..=SIZE_BYTES_MAX).contains(&group.size_bytes) {
        let what = format!("group {:?}", group.name);
        return Err(refused(pool.name(), &what, Refusal::SizeInvalid));
    }
    storage
        .prepare_group(number, group)
        .map_err(|e| failure(&e))?;
    Ok(Request::AddGroup {
        name: group.name.clone(),
        size_bytes: group.size_bytes,
    })
}

/// The next request that makes the volume behind a thin LU what it is to be: present, as large as
/// the LU, with its quota. `None` if it is that.
///
/// # Errors
/// It is larger than the LU.
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
    let found = core.volume_named(name).and_then(|id| core.volume(id));
    let Some(found) = found else {
        return Ok(Some(Request::Create {
            name: name.clone(),
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
    storage: &mut Storage,
    reactor: &Reactor,
) -> Result<(usize, VolumeId), Failure> {
    let StoreConfig::Thin { pool, volume, .. } = &lu.store else {
        unreachable!("only thin LUs have volumes");
    };
    let number = storage
        .core
        .pool_named(pool)
        .expect("the configuration was checked");
    while let Some(request) = next_step(storage, number, lu)? {
        ask(storage, number, request, reactor)?
            .map_err(|refusal| refused(pool, &format!("volume {volume:?}"), refusal))?;
    }
    let volume = storage.core.pools()[number]
        .volume_named(volume)
        .expect("it is there now");
    Ok((number, volume))
}

/// Puts everything written on stable storage, when the array has stopped serving.
///
/// # Errors
/// A pool refuses: data that were acknowledged but not flushed may be lost.
pub fn flush(storage: &mut Storage, reactor: &Reactor) -> Result<(), Failure> {
    for number in 0..storage.core.pools().len() {
        let name = storage.core.pools()[number].name().to_owned();
        ask(storage, number, Request::Flush, reactor)?
            .map_err(|refusal| refused(&name, "last flush", refusal))?;
    }
    Ok(())
}

/// Sends a request to a pool that has no other pending, and waits for the outcome.
fn ask(
    storage: &mut Storage,
    number: usize,
    request: Request,
    reactor: &Reactor,
) -> Result<Ordered, Failure> {
    storage.order(clock::now(), number, 0, request);
    wait(storage, number, reactor)
}

/// Waits for the outcome of the one order that a pool has.
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
                // Reported again by the loop's own wait.
                _ => {}
            }
        }
    }
}

/// A pool's refusal of `object` as the operator sees it.
pub fn refused(pool: &str, object: &str, refusal: Refusal) -> Failure {
    let message = format!("pool {pool:?}: {object}: {refusal}");
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

/// The reason that a pool was not opened, as the operator sees it.
pub fn failure(e: &PoolFailure) -> Failure {
    let hint = match e {
        PoolFailure::Lock(_) => "stop the process that has it, or use another pool",
        PoolFailure::Absent(_) => "name the directory that holds the file `metadata`",
        PoolFailure::Lost(_) => {
            "nothing was changed; put the file `metadata` back, or move the files `*.group` away"
        }
        PoolFailure::Open { .. } => {
            "nothing was changed; `hakaru-engine check DIRECTORY` lists everything that is wrong"
        }
        PoolFailure::File { error, .. } => path_hint(error),
    };
    Failure::environment(e, hint)
}
