//! Checks of the configuration of caps and shares.
use std::collections::BTreeSet;

use hakaru_contract::{ArrayConfig, CapConfig, SharesConfig};

use super::bound::bound;
use crate::failure::Failure;

/// Largest number of caps.
const CAPS_MAX: u64 = 256;
/// Largest number of classes of shares.
const CLASSES_MAX: u64 = 64;
/// Largest share.
const SHARE_MAX: u64 = 1_000_000;

/// Checks the caps and shares of an array.
///
/// # Errors
/// A value is out of bounds, a name is not valid or not free, a LUN is not one to which caps and
/// shares apply, or shares are combined with a pool that holds writes.
pub fn check(config: &ArrayConfig) -> Result<(), Failure> {
    check_caps(config, &config.caps)?;
    match &config.shares {
        Some(shares) => check_shares(config, shares),
        None => Ok(()),
    }
}

fn check_caps(config: &ArrayConfig, caps: &[CapConfig]) -> Result<(), Failure> {
    bound("number of caps", caps.len() as u64, 0, CAPS_MAX)?;
    let mut names = BTreeSet::new();
    for cap in caps {
        let field = |name: &str| format!("caps: {:?}: {name}", cap.name);
        if !hakaru_pool::name_is_valid(&cap.name) || !names.insert(&cap.name) {
            let message = format!("caps: the name {:?} is not valid or given twice", cap.name);
            return Err(Failure::usage(
                message,
                "give each cap a name of its own: 1 to 64 letters, digits, `.`, `_` and `-`",
            ));
        }
        if cap.iops.is_none() && cap.bytes_per_s.is_none() {
            return Err(Failure::usage(
                field("no rate"),
                "set iops, bytes_per_s, or both",
            ));
        }
        if let Some(iops) = cap.iops {
            bound(&field("iops"), iops.into(), 1, 10_000_000)?;
        }
        if let Some(bytes_per_s) = cap.bytes_per_s {
            bound(&field("bytes_per_s"), bytes_per_s, 4096, 1_000_000_000_000)?;
        }
        bound(&field("burst_ms"), cap.burst_ms.into(), 0, 60_000)?;
        check_lun(config, cap.lun, |problem| field(problem))?;
    }
    Ok(())
}

fn check_shares(config: &ArrayConfig, shares: &SharesConfig) -> Result<(), Failure> {
    bound("shares.in_flight", shares.in_flight.into(), 1, 4096)?;
    bound("shares.others", shares.others.into(), 1, SHARE_MAX)?;
    let classes = shares.classes.len() as u64;
    bound("number of shares.classes", classes, 1, CLASSES_MAX)?;
    let mut names = BTreeSet::from(["others"]);
    for class in &shares.classes {
        let name = &class.name;
        if !hakaru_pool::name_is_valid(name) || !names.insert(name) {
            return Err(Failure::usage(
                format_args!("shares: the name {name:?} is not valid or not free"),
                "give each class a name of its own: 1 to 64 letters, digits, `.`, `_` and `-`, not `others`",
            ));
        }
        let field = |name: &str| format!("shares: {:?}: {name}", class.name);
        bound(&field("share"), class.share.into(), 1, SHARE_MAX)?;
        check_lun(config, class.lun, field)?;
    }
    // A write that is held keeps its place among those in flight. Held writes would soon have all
    // places, and UNMAP, which could free space, none.
    match config.pools.iter().find(|pool| pool.hold_when_full_s > 0) {
        Some(pool) => Err(Failure::usage(
            format_args!(
                "shares: pool {:?} has hold_when_full_s {}; its held writes would stop all accesses",
                pool.name, pool.hold_when_full_s
            ),
            "remove `shares`, or set hold_when_full_s of each pool to 0",
        )),
        None => Ok(()),
    }
}

/// Checks the LUN of a cap or a class. With pools any LUN is allowed that is not a tape drive's,
/// because a volume may be served there later.
fn check_lun(
    config: &ArrayConfig,
    lun: Option<u8>,
    field: impl Fn(&str) -> String,
) -> Result<(), Failure> {
    let Some(lun) = lun else { return Ok(()) };
    let problem = field(&format!("LUN {lun}"));
    if let Some(library) = &config.tape_library {
        if library.drives.iter().any(|drive| drive.lun == lun) {
            let hint = format!(
                "set lun to {}, the medium changer's, which stands for all drives",
                library.lun
            );
            return Err(Failure::usage(problem + " is that of a tape drive", hint));
        }
        if library.lun == lun {
            return Ok(());
        }
    }
    if config.pools.is_empty() && config.lus.iter().all(|lu| lu.lun != lun) {
        let hint = "set lun to that of an LU of the array, or omit it for all";
        return Err(Failure::usage(problem + " does not exist", hint));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// Returns the message of the refusal of an array with LU 0, a library with changer 8 and drive
    /// 9, and these fields, or an empty string.
    fn refusal(fields: Value) -> String {
        let memory = json!({"kind": "memory"});
        let mut config = json!({
            "target_name": "iqn.2026-01.org.example:array",
            "portals": ["127.0.0.1:0"],
            "lus": [{"lun": 0, "size_bytes": 1 << 20, "store": memory}],
            "model": {"kind": "none"},
            "tape_library": {
                "lun": 8,
                "drives": [{"lun": 9, "generation": "lto5"}],
                "slots": 1,
                "cartridges": [],
                "capacity_bytes": 1 << 30,
                "early_warning_bytes": 1 << 20,
            },
        });
        let Value::Object(fields) = fields else {
            panic!("an object")
        };
        config.as_object_mut().expect("an object").extend(fields);
        let config: ArrayConfig = serde_json::from_value(config).expect("a configuration");
        match check(&config) {
            Ok(()) => String::new(),
            Err(failure) => failure.message,
        }
    }

    fn cap(lun: u8) -> Value {
        json!([{"name": "a", "lun": lun, "iops": 1}])
    }

    fn shares(lun: u8) -> Value {
        json!({"in_flight": 4, "classes": [{"name": "a", "lun": lun, "share": 1}]})
    }

    fn pools(hold_when_full_s: u32) -> Value {
        json!([{
            "name": "p",
            "directory": "p",
            "hold_when_full_s": hold_when_full_s,
            "groups": [],
        }])
    }

    #[test]
    fn a_lun_is_that_of_an_lu_or_of_the_changer() {
        for lun in [0, 8] {
            assert_eq!(refusal(json!({"caps": cap(lun)})), "");
            assert_eq!(refusal(json!({"shares": shares(lun)})), "");
        }
        for (lun, problem) in [(1, "does not exist"), (9, "is that of a tape drive")] {
            assert_eq!(
                refusal(json!({"caps": cap(lun)})),
                format!("caps: \"a\": LUN {lun} {problem}")
            );
            assert_eq!(
                refusal(json!({"shares": shares(lun)})),
                format!("shares: \"a\": LUN {lun} {problem}")
            );
        }
    }

    #[test]
    fn with_pools_a_volume_may_be_served_later() {
        assert_eq!(refusal(json!({"caps": cap(1), "pools": pools(0)})), "");
        assert_eq!(
            refusal(json!({"caps": cap(9), "pools": pools(0)})),
            "caps: \"a\": LUN 9 is that of a tape drive"
        );
    }

    #[test]
    fn shares_are_refused_if_a_pool_holds_writes() {
        let with = |hold_s| refusal(json!({"shares": shares(0), "pools": pools(hold_s)}));
        assert_eq!(with(0), "");
        assert_eq!(
            with(60),
            "shares: pool \"p\" has hold_when_full_s 60; its held writes would stop all accesses"
        );
        assert_eq!(refusal(json!({"caps": cap(0), "pools": pools(60)})), "");
    }
}
