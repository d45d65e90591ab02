//! Presets of drives and arrays. `docs/concepts/drive-model.md` gives the source of each figure.
use hakaru_contract::drive::{
    ArrayModel, Cache, Controller, Drive, Group, Hdd, Port, Raid, Ssd, WritePolicy,
};
use hakaru_units::{GIB, KIB, MIB};

/// Returns the names of the array presets.
#[must_use]
pub fn array_presets() -> &'static [&'static str] {
    &["jdsf-2011"]
}

/// Returns the names of the drive presets.
#[must_use]
pub fn drive_presets() -> &'static [&'static str] {
    &[
        "sas-15k-146",
        "sas-15k-300",
        "sata-ssd-960",
        "nvme-ssd-2000",
    ]
}

pub(crate) fn array(name: &str) -> Option<ArrayModel> {
    match name {
        "jdsf-2011" => Some(jdsf_2011()),
        _ => None,
    }
}

pub(crate) fn drive(name: &str) -> Option<Drive> {
    match name {
        "sas-15k-146" => Some(Drive::Hdd(sas_15k(146_815_733_760, 4))),
        "sas-15k-300" => Some(Drive::Hdd(sas_15k(300_000_000_000, 8))),
        "sata-ssd-960" => Some(Drive::Ssd(sata_ssd_960())),
        "nvme-ssd-2000" => Some(Drive::Ssd(nvme_ssd_2000())),
        _ => None,
    }
}

/// Returns the array of the study `vm-sweep`: a Fujitsu ETERNUS DX80 with ten SAS drives of
/// 15 000 rpm in two RAID 5 groups, five of 144 GB (modelled by 146 GB, the size of the class) and
/// five of 300 GB. The lab models the 1 GbE path; the port models what reads and writes share inside the array. Parameters of the
/// search in `examples/fit.rs` were fitted to the published figures of 1, 7, 10 and 16 VMs only.
fn jdsf_2011() -> ArrayModel {
    let raid5 = |name: &str| Group {
        raid: Raid::Raid5,
        drives: 5,
        stripe_unit_bytes: 64 * 1024,
        extents: None,
        drive: Drive::Preset {
            name: name.to_owned(),
        },
    };
    ArrayModel {
        controller: Controller {
            command_us: 60.0,
            data_us_per_mib: 1200.0,
            latency_us: 4050.0,
        },
        port: Some(Port {
            rate_bytes_per_s: 125e6,
            shared: true,
            command_us: 8.1,
        }),
        cache: Some(Cache {
            size_bytes: GIB,
            segment_bytes: 32 * KIB as u32,
            write: WritePolicy::Back,
            nonvolatile: true,
            write_pending_limit_percent: 2.63,
            destage_high_percent: 80.0,
            destage_low_percent: 60.0,
            destage_idle_ms: 1000.0,
            destage_writes: 1,
            destage_forced: 2.45,
            destage_bytes_max: MIB as u32,
            hit_us: 100.0,
            read_ahead_bytes: MIB as u32,
            read_ahead_after: 3,
        }),
        groups: vec![raid5("sas-15k-146"), raid5("sas-15k-300")],
    }
}

/// Returns a 3.5-inch SAS drive of 15 000 rpm, of about 2007 to 2010.
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
        seek_full_ms: 7.91,
        write_settle_ms: 0.5,
        head_switch_ms: None,
        command_us: 200.0,
        queue_depth: 114,
        age_limit_ms: 114.0,
        overdue_every: 3,
    }
}

/// Returns a SATA drive of 960 GB for mixed use, of 2017: the class of Intel's DC S4600.
fn sata_ssd_960() -> Ssd {
    Ssd {
        capacity_bytes: 960_197_124_096,
        over_provisioning_percent: 28.0,
        channels: 8,
        dies_per_channel: 5,
        planes: 2,
        page_bytes: 16 << 10,
        pages_per_block: 768,
        read_us: 48.0,
        program_us: 1800.0,
        erase_us: 3500.0,
        channel_bytes_per_s: 400e6,
        mapping_bytes: 4096,
        buffer_bytes: 16 * MIB,
        interface_bytes_per_s: 500e6,
        command_us: 13.9,
        latency_us: 30.0,
        queue_depth: 32,
        preconditioned: true,
    }
}

/// Returns an NVMe drive of 2 TB for loads that mostly read, of 2017: the class of Intel's DC
/// P4500.
fn nvme_ssd_2000() -> Ssd {
    Ssd {
        capacity_bytes: 2_000_398_934_016,
        over_provisioning_percent: 9.0,
        channels: 12,
        dies_per_channel: 6,
        planes: 2,
        page_bytes: 16 << 10,
        pages_per_block: 768,
        read_us: 55.0,
        program_us: 2165.0,
        erase_us: 3500.0,
        channel_bytes_per_s: 400e6,
        mapping_bytes: 4096,
        buffer_bytes: 16 * MIB,
        interface_bytes_per_s: 3.2e9,
        command_us: 2.0,
        latency_us: 16.6,
        queue_depth: 1024,
        preconditioned: true,
    }
}
