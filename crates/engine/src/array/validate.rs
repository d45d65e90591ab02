//! Checks of the configuration. They run before anything is opened or bound.
use std::collections::BTreeSet;

use hakaru_contract::{ArrayConfig, GroupConfig, LoginKeys, LuConfig, PoolConfig, StoreConfig};
use hakaru_drive::Array;
use hakaru_pool::{Failure as Refusal, PAGE_BYTES_MAX, PAGE_BYTES_MIN};

use super::bound::bound;
use super::pools::POOLS_MAX;
use super::{port_groups, rates_config, tape};
use crate::failure::Failure;

/// Largest physical block of an LU, bytes.
const PHYSICAL_BLOCK_BYTES_MAX: u32 = 64 << 10;

/// Largest LU in memory that is full from the beginning, bytes. Its maps take 64 MiB.
const FULL_BYTES_MAX: u64 = 1 << 40;

/// Longest time for which a write may wait for space, s.
const HOLD_S_MAX: u32 = 3600;

/// Checks the entire configuration, including each LU and group against the model.
///
/// # Errors
/// A value is out of bounds. The message names the value and its bounds.
pub fn check(config: &ArrayConfig, model: Option<&Array>) -> Result<(), Failure> {
    bound("sessions_max", config.sessions_max.into(), 1, 20_000)?;
    bound("spin_us", config.spin_us.into(), 0, 1000)?;
    check_keys(&config.login)?;
    config.socket.validate("socket").map_err(|e| {
        let hint = e.hint.clone();
        Failure::usage(e, hint)
    })?;
    check_target_name(&config.target_name)?;
    port_groups::check(config)?;
    rates_config::check(config)?;
    check_pools(config, model)?;
    check_lus(config, model)?;
    match &config.tape_library {
        Some(library) => tape::check(library, &config.lus, &config.pools, &config.model),
        None => Ok(()),
    }
}

fn check_target_name(name: &str) -> Result<(), Failure> {
    let prefixes = ["iqn.", "eui.", "naa."];
    if name.len() <= 223 && prefixes.iter().any(|prefix| name.starts_with(prefix)) {
        return Ok(());
    }
    Err(Failure::usage(
        format_args!("target_name: {name:?} is not an iSCSI name"),
        "use the form iqn.2026-01.org.example:name, at most 223 bytes (RFC 7143 section 4.2.7)",
    ))
}

/// Checks the ranges of RFC 7143 section 13. An array agrees to no FirstBurstLength above its
/// MaxBurstLength.
fn check_keys(keys: &LoginKeys) -> Result<(), Failure> {
    keys.validate()
        .map_err(|error| Failure::usage(&error, &error.hint))?;
    bound(
        "login.first_burst_length",
        keys.first_burst_length.into(),
        512,
        keys.max_burst_length.into(),
    )
}

fn check_lus(config: &ArrayConfig, model: Option<&Array>) -> Result<(), Failure> {
    let lus_min = u64::from(config.pools.is_empty() && config.tape_library.is_none());
    bound("number of lus", config.lus.len() as u64, lus_min, 256)?;
    let mut seen = BTreeSet::new();
    for lu in &config.lus {
        if !seen.insert(lu.lun) {
            let message = format!("lus: LUN {} is given twice", lu.lun);
            return Err(Failure::usage(message, "give each LU a different LUN"));
        }
        check_lu(lu, model)?;
    }
    Ok(())
}

/// Checks the configuration of a single LU.
///
/// # Errors
/// As [`check`].
pub fn check_lu(lu: &LuConfig, model: Option<&Array>) -> Result<(), Failure> {
    check_blocks(lu)?;
    check_contents(lu)?;
    match model {
        Some(model) if !matches!(lu.store, StoreConfig::Thin { .. }) => check_placement(lu, model),
        _ => Ok(()),
    }
}

fn check_blocks(lu: &LuConfig) -> Result<(), Failure> {
    let lun = lu.lun;
    let block = u64::from(lu.block_bytes);
    if ![512, 4096].contains(&block) {
        let message = format!("lus: LUN {lun} has blocks of {block} bytes");
        return Err(Failure::usage(message, "set block_bytes to 512 or 4096"));
    }
    let physical = lu.physical_block_bytes.unwrap_or(lu.block_bytes);
    let allowed = lu.block_bytes..=PHYSICAL_BLOCK_BYTES_MAX;
    if !physical.is_power_of_two() || !allowed.contains(&physical) {
        let message = format!("lus: LUN {lun} has physical blocks of {physical} bytes");
        return Err(Failure::usage(
            message,
            "set physical_block_bytes to a power of two from block_bytes to 65536",
        ));
    }
    if lu.size_bytes == 0 || !lu.size_bytes.is_multiple_of(block) {
        let message = format!("lus: LUN {lun} has {} bytes", lu.size_bytes);
        let hint = format!("set size_bytes to a multiple of {block} above 0");
        return Err(Failure::usage(message, hint));
    }
    Ok(())
}

fn check_placement(lu: &LuConfig, model: &Array) -> Result<(), Failure> {
    let lun = lu.lun;
    let Some(place) = lu.placement else {
        let message = format!("lus: LUN {lun} has no placement on the modelled drives");
        return Err(Failure::usage(
            message,
            "set placement.group and placement.offset_bytes",
        ));
    };
    let Some(capacity) = model.group_capacity_bytes(place.group) else {
        let message = format!(
            "lus: LUN {lun} is placed on group {}, which the model lacks",
            place.group
        );
        return Err(Failure::usage(message, "groups are numbered from 0"));
    };
    match place.offset_bytes.checked_add(lu.size_bytes) {
        Some(end) if end <= capacity => Ok(()),
        _ => Err(Failure::usage(
            format_args!(
                "lus: LUN {lun} ends beyond the {capacity} bytes of group {}",
                place.group
            ),
            "reduce size_bytes or placement.offset_bytes",
        )),
    }
}

/// Checks the declared initial contents of an LU in memory.
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
            "it must be 0 to 100, and requires fill_seed if it is not 0",
        ));
    }
    if fill_seed.is_some() && lu.size_bytes > FULL_BYTES_MAX {
        let message = format!("lus: LUN {lun} has {} bytes and fill_seed", lu.size_bytes);
        return Err(Failure::usage(
            message,
            "an LU with fill_seed may have at most 1 TiB",
        ));
    }
    Ok(())
}

fn check_pools(config: &ArrayConfig, model: Option<&Array>) -> Result<(), Failure> {
    if config.pools.len() > POOLS_MAX {
        let message = format!("pools: {} are listed", config.pools.len());
        return Err(Failure::usage(
            message,
            format_args!("an array may have at most {POOLS_MAX} pools"),
        ));
    }
    let mut names = BTreeSet::new();
    let mut directories = BTreeSet::new();
    for pool in &config.pools {
        check_pool(pool)?;
        if !names.insert(&pool.name) || !directories.insert(&pool.directory) {
            let message = format!(
                "pools: the name {:?} or the directory {:?} is given twice",
                pool.name, pool.directory
            );
            return Err(Failure::usage(
                message,
                "give each pool a unique name and directory",
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
                "lus: LUN {} is in pool {pool:?}, which is not configured",
                lu.lun
            );
            return Err(Failure::usage(message, "name one of `pools`"));
        }
    }
    Ok(())
}

fn check_pool(pool: &PoolConfig) -> Result<(), Failure> {
    let usage = |problem: &str, hint: String| {
        Err(Failure::usage(
            format_args!("pools: {:?}: {problem}", pool.name),
            hint,
        ))
    };
    if !hakaru_pool::name_is_valid(&pool.name) {
        return usage("the name is not valid", Refusal::NameInvalid.to_string());
    }
    if !pool.page_bytes.is_power_of_two()
        || !(PAGE_BYTES_MIN..=PAGE_BYTES_MAX).contains(&pool.page_bytes)
    {
        let hint = format!("it must be a power of two from {PAGE_BYTES_MIN} to {PAGE_BYTES_MAX}");
        return usage(&format!("page_bytes is {}", pool.page_bytes), hint);
    }
    if !(1..=100).contains(&pool.soft_threshold_percent) {
        let problem = format!("soft_threshold_percent is {}", pool.soft_threshold_percent);
        return usage(&problem, "it must be 1 to 100".to_owned());
    }
    if pool.hold_when_full_s > HOLD_S_MAX {
        let problem = format!("hold_when_full_s is {}", pool.hold_when_full_s);
        return usage(&problem, format!("it must be 0 to {HOLD_S_MAX}"));
    }
    Ok(())
}

/// Checks the name of a group, and its placement on the modelled drives.
///
/// # Errors
/// As [`check`].
pub fn check_group(pool: &str, group: &GroupConfig, model: Option<&Array>) -> Result<(), Failure> {
    let usage = |problem: &str, hint: &str| {
        let message = format!("pool {pool:?}: group {:?} {problem}", group.name);
        Err(Failure::usage(message, hint))
    };
    if !hakaru_pool::name_is_valid(&group.name) {
        return usage("has an invalid name", &Refusal::NameInvalid.to_string());
    }
    let Some(model) = model else { return Ok(()) };
    let Some(place) = group.placement else {
        return usage(
            "has no placement on the modelled drives",
            "set placement.group and placement.offset_bytes",
        );
    };
    let end = place.offset_bytes.checked_add(group.size_bytes);
    match (model.group_capacity_bytes(place.group), end) {
        (Some(capacity), Some(end)) if end <= capacity => Ok(()),
        (None, _) => usage(
            "is placed on a group that the model lacks",
            "groups are numbered from 0",
        ),
        _ => usage(
            "ends beyond the modelled group",
            "reduce size_bytes or placement.offset_bytes",
        ),
    }
}
