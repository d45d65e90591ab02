//! Named drives and arrays. Where each figure comes from is in `docs/concepts/drive-model.md`.
use crate::config::{ArrayModel, Controller, Drive, Extents, Group, Hdd, Raid};
use hakaru_units::{GIB, MIB};

/// Names of the array presets.
#[must_use]
pub fn array_presets() -> &'static [&'static str] {
    &["jdsf-2011"]
}

/// Names of the drive presets.
#[must_use]
pub fn drive_presets() -> &'static [&'static str] {
    &["sas-15k-146", "sas-15k-300"]
}

pub(crate) fn array(name: &str) -> Option<ArrayModel> {
    match name {
        "jdsf-2011" => Some(jdsf_2011()),
        _ => None,
    }
}

pub(crate) fn drive(name: &str) -> Option<Hdd> {
    match name {
        "sas-15k-146" => Some(sas_15k(146_815_733_760, 4)),
        "sas-15k-300" => Some(sas_15k(300_000_000_000, 8)),
        _ => None,
    }
}

/// The array of the study `vm-sweep`: a Fujitsu ETERNUS DX80 with ten 15 000 rpm SAS drives, 5 of 146 GB and 5 of 300 GB, each
/// five in RAID 5. It has no port: the 1 GbE path is the lab's.
fn jdsf_2011() -> ArrayModel {
    let raid5 = |name: &str| Group {
        raid: Raid::Raid5,
        drives: 5,
        stripe_unit_bytes: 64 * 1024,
        extents: Some(Extents {
            extent_bytes: 64 * MIB,
            span_bytes: 256 * GIB,
        }),
        drive: Drive::Preset {
            name: name.to_owned(),
        },
    };
    ArrayModel {
        controller: Controller {
            command_us: 60.0,
            data_us_per_mib: 1200.0,
        },
        port: None,
        cache: None,
        groups: vec![raid5("sas-15k-146"), raid5("sas-15k-300")],
    }
}

/// A 3.5-inch SAS drive of 15 000 rpm of about 2007 to 2010.
fn sas_15k(capacity_bytes: u64, heads: u32) -> Hdd {
    Hdd {
        capacity_bytes,
        rpm: 15_000.0,
        heads,
        rate_outer_bytes_per_s: 171e6,
        rate_inner_bytes_per_s: 112e6,
        zones: 16,
        seek_track_ms: 0.2,
        seek_average_ms: 3.1,
        seek_full_ms: 7.5,
        write_settle_ms: 0.5,
        head_switch_ms: None,
        command_us: 200.0,
        queue_depth: 64,
        age_limit_ms: 250.0,
        overdue_every: 4,
    }
}
