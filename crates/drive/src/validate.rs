//! Replaces presets by their parameters and checks that every parameter is within its bounds.
use std::ops::RangeInclusive;

use hakaru_units::{KIB, MIB};
use thiserror::Error;

use crate::raid::Layout;
use crate::{preset, seek};
use hakaru_contract::drive::{ArrayModel, Cache, Drive, Extents, Group, Hdd, Model, Raid, Ssd};

/// An invalid model.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ModelError {
    /// The preset is unknown.
    #[error("unknown {kind} preset \"{name}\"; known: {known}")]
    UnknownPreset {
        /// `array` or `drive`.
        kind: &'static str,
        /// Name in the configuration.
        name: String,
        /// Available names.
        known: String,
    },
    /// A parameter is out of bounds.
    #[error("{parameter} is {value}; it must be {bounds}")]
    OutOfBounds {
        /// Path of the parameter in the configuration, such as `groups[0].drive.rpm`.
        parameter: String,
        /// Value as given.
        value: String,
        /// Valid values.
        bounds: String,
    },
}

/// Returns the array of a model with every preset replaced by its parameters, or `None` for
/// [`Model::None`].
///
/// # Errors
/// A preset is unknown or a parameter is out of bounds.
pub fn resolve(model: &Model) -> Result<Option<ArrayModel>, ModelError> {
    match model {
        Model::None => Ok(None),
        Model::Preset { name } => {
            let array = preset::array(name)
                .ok_or_else(|| unknown("array", name, preset::array_presets()))?;
            resolve_array(&array).map(Some)
        }
        Model::Array(array) => resolve_array(array).map(Some),
    }
}

/// Returns `model` with the presets of its drives replaced, after checking every parameter.
pub(crate) fn resolve_array(model: &ArrayModel) -> Result<ArrayModel, ModelError> {
    let mut model = model.clone();
    float(
        "controller.command_us",
        model.controller.command_us,
        0.0..=1e6,
    )?;
    float(
        "controller.data_us_per_mib",
        model.controller.data_us_per_mib,
        0.0..=1e6,
    )?;
    float(
        "controller.latency_us",
        model.controller.latency_us,
        0.0..=1e5,
    )?;
    if let Some(port) = &model.port {
        float("port.rate_bytes_per_s", port.rate_bytes_per_s, 1e3..=1e12)?;
        float("port.command_us", port.command_us, 0.0..=1e4)?;
    }
    if let Some(cache) = &model.cache {
        check_cache(cache)?;
    }
    integer("groups", model.groups.len() as u64, 1..=64)?;
    for (g, group) in model.groups.iter_mut().enumerate() {
        resolve_group(&format!("groups[{g}]"), group)?;
    }
    Ok(model)
}

fn check_cache(cache: &Cache) -> Result<(), ModelError> {
    let segment = u64::from(cache.segment_bytes);
    integer("cache.segment_bytes", segment, 4 * KIB..=64 * KIB)?;
    let is_power = segment.is_power_of_two();
    require(is_power, "cache.segment_bytes", segment, "a power of two")?;
    integer(
        "cache.size_bytes",
        cache.size_bytes,
        64 * segment..=segment << 22,
    )?;
    float(
        "cache.write_pending_limit_percent",
        cache.write_pending_limit_percent,
        1.0..=100.0,
    )?;
    let high = cache.destage_high_percent;
    float("cache.destage_high_percent", high, 0.0..=100.0)?;
    float(
        "cache.destage_low_percent",
        cache.destage_low_percent,
        0.0..=high,
    )?;
    float("cache.destage_idle_ms", cache.destage_idle_ms, 0.0..=3.6e6)?;
    integer(
        "cache.destage_writes",
        u64::from(cache.destage_writes),
        1..=256,
    )?;
    float("cache.destage_forced", cache.destage_forced, 0.0..=16.0)?;
    integer(
        "cache.destage_bytes_max",
        u64::from(cache.destage_bytes_max),
        segment..=16 * MIB,
    )?;
    float("cache.hit_us", cache.hit_us, 0.0..=1e6)?;
    let ahead = u64::from(cache.read_ahead_bytes);
    integer("cache.read_ahead_bytes", ahead, 0..=16 * MIB)?;
    require(
        ahead.is_multiple_of(512),
        "cache.read_ahead_bytes",
        ahead,
        "a multiple of 512",
    )?;
    integer(
        "cache.read_ahead_after",
        u64::from(cache.read_ahead_after),
        2..=1000,
    )
}

fn resolve_group(path: &str, group: &mut Group) -> Result<(), ModelError> {
    if let Drive::Preset { name } = &group.drive {
        group.drive =
            preset::drive(name).ok_or_else(|| unknown("drive", name, preset::drive_presets()))?;
    }
    let (drives_min, step) = match group.raid {
        Raid::Raid0 => (1, 1),
        Raid::Raid1 => (2, 2),
        Raid::Raid5 => (3, 1),
    };
    integer(
        &format!("{path}.drives"),
        u64::from(group.drives),
        drives_min..=64,
    )?;
    let is_whole = group.drives.is_multiple_of(step);
    require(
        is_whole,
        &format!("{path}.drives"),
        group.drives,
        "even, because mirrors come in pairs",
    )?;
    let unit = u64::from(group.stripe_unit_bytes);
    integer(&format!("{path}.stripe_unit_bytes"), unit, 512..=16 * MIB)?;
    require(
        unit.is_multiple_of(512),
        &format!("{path}.stripe_unit_bytes"),
        unit,
        "a multiple of 512",
    )?;
    let drive_path = format!("{path}.drive");
    let drive_bytes = match &group.drive {
        Drive::Hdd(hdd) => {
            check_hdd(&drive_path, hdd)?;
            hdd.capacity_bytes
        }
        Drive::Ssd(ssd) => {
            check_ssd(&drive_path, ssd)?;
            ssd.capacity_bytes
        }
        Drive::Preset { .. } => unreachable!("presets were replaced above"),
    };
    match &group.extents {
        Some(extents) => check_extents(
            &format!("{path}.extents"),
            extents,
            Layout::new(group),
            drive_bytes,
        ),
        None => Ok(()),
    }
}

fn check_extents(
    path: &str,
    extents: &Extents,
    layout: Layout,
    drive_bytes: u64,
) -> Result<(), ModelError> {
    let &Extents {
        extent_bytes,
        span_bytes,
    } = extents;
    let stripe = layout.stripe_bytes();
    let is_whole = extent_bytes > 0 && extent_bytes.is_multiple_of(stripe);
    let bounds = format!("a multiple of the stripe of {stripe} bytes");
    require(
        is_whole,
        &format!("{path}.extent_bytes"),
        extent_bytes,
        &bounds,
    )?;
    integer(
        &format!("{path}.span_bytes"),
        span_bytes,
        extent_bytes..=layout.capacity_bytes(drive_bytes),
    )?;
    let is_whole = span_bytes.is_multiple_of(extent_bytes);
    require(
        is_whole,
        &format!("{path}.span_bytes"),
        span_bytes,
        "a multiple of extent_bytes",
    )
}

fn check_hdd(path: &str, hdd: &Hdd) -> Result<(), ModelError> {
    let name = |field: &str| format!("{path}.{field}");
    integer(&name("capacity_bytes"), hdd.capacity_bytes, MIB..=64 << 40)?;
    require(
        hdd.capacity_bytes.is_multiple_of(512),
        &name("capacity_bytes"),
        hdd.capacity_bytes,
        "a multiple of 512",
    )?;
    float(&name("rpm"), hdd.rpm, 1e3..=6e4)?;
    integer(&name("heads"), u64::from(hdd.heads), 1..=64)?;
    float(
        &name("rate_outer_bytes_per_s"),
        hdd.rate_outer_bytes_per_s,
        1e6..=1e10,
    )?;
    float(
        &name("rate_inner_bytes_per_s"),
        hdd.rate_inner_bytes_per_s,
        1e6..=hdd.rate_outer_bytes_per_s,
    )?;
    integer(&name("zones"), u64::from(hdd.zones), 1..=64)?;
    float(&name("seek_track_ms"), hdd.seek_track_ms, 1e-3..=100.0)?;
    float(
        &name("seek_full_ms"),
        hdd.seek_full_ms,
        hdd.seek_track_ms..=1e3,
    )?;
    float(&name("write_settle_ms"), hdd.write_settle_ms, 0.0..=10.0)?;
    float(
        &name("head_switch_ms"),
        hdd.head_switch_ms.unwrap_or(0.0),
        0.0..=10.0,
    )?;
    float(&name("command_us"), hdd.command_us, 0.0..=1e4)?;
    integer(&name("queue_depth"), u64::from(hdd.queue_depth), 1..=1024)?;
    float(&name("age_limit_ms"), hdd.age_limit_ms, 0.0..=6e4)?;
    integer(
        &name("overdue_every"),
        u64::from(hdd.overdue_every),
        1..=1000,
    )?;
    check_seek_average(&name("seek_average_ms"), hdd)
}

fn check_ssd(path: &str, ssd: &Ssd) -> Result<(), ModelError> {
    let name = |field: &str| format!("{path}.{field}");
    let whole = |field: &str, value: u64, bounds| integer(&name(field), value, bounds);
    let real = |field: &str, value: f64, bounds| float(&name(field), value, bounds);
    let power = |field: &str, value: u64| {
        let is_power = value.is_power_of_two();
        require(is_power, &name(field), value, "a power of two")
    };
    whole("capacity_bytes", ssd.capacity_bytes, 64 * MIB..=64 << 40)?;
    real(
        "over_provisioning_percent",
        ssd.over_provisioning_percent,
        1.0..=1000.0,
    )?;
    whole("channels", ssd.channels.into(), 1..=64)?;
    whole("dies_per_channel", ssd.dies_per_channel.into(), 1..=64)?;
    whole("planes", ssd.planes.into(), 1..=8)?;
    power("planes", ssd.planes.into())?;
    whole("page_bytes", ssd.page_bytes.into(), 512..=65_536)?;
    power("page_bytes", ssd.page_bytes.into())?;
    whole("pages_per_block", ssd.pages_per_block.into(), 16..=16_384)?;
    real("read_us", ssd.read_us, 0.1..=1e4)?;
    real("program_us", ssd.program_us, 0.1..=1e5)?;
    real("erase_us", ssd.erase_us, 0.1..=1e6)?;
    real("channel_bytes_per_s", ssd.channel_bytes_per_s, 1e6..=1e11)?;
    let page = u64::from(ssd.page_bytes) * u64::from(ssd.planes);
    whole("mapping_bytes", ssd.mapping_bytes.into(), 512..=page)?;
    power("mapping_bytes", ssd.mapping_bytes.into())?;
    require(
        ssd.capacity_bytes
            .is_multiple_of(u64::from(ssd.mapping_bytes)),
        &name("capacity_bytes"),
        ssd.capacity_bytes,
        "a multiple of mapping_bytes",
    )?;
    if ssd.buffer_bytes == 0 {
        let is_page = u64::from(ssd.mapping_bytes) == page;
        let bounds = format!("a page of all planes, {page} bytes, without a buffer");
        require(is_page, &name("mapping_bytes"), ssd.mapping_bytes, &bounds)?;
    } else {
        whole("buffer_bytes", ssd.buffer_bytes, 2 * page..=64 << 30)?;
    }
    real(
        "interface_bytes_per_s",
        ssd.interface_bytes_per_s,
        1e6..=1e12,
    )?;
    real("command_us", ssd.command_us, 0.0..=1e4)?;
    real("latency_us", ssd.latency_us, 0.0..=1e5)?;
    whole("queue_depth", ssd.queue_depth.into(), 1..=65_536)
}

/// Checks that the curve through the three seek times rises monotonically.
fn check_seek_average(parameter: &str, hdd: &Hdd) -> Result<(), ModelError> {
    let (root, linear) = seek::coefficients_ms(hdd);
    let stroke = hdd.seek_full_ms - hdd.seek_track_ms;
    let (low, high) = (
        hdd.seek_track_ms + stroke / 3.0,
        hdd.seek_track_ms + stroke * 8.0 / 15.0,
    );
    let bounds = format!("{low:.3} to {high:.3} ms for the given seek_track_ms and seek_full_ms");
    require(
        root >= -1e-9 && linear >= -1e-9,
        parameter,
        hdd.seek_average_ms,
        &bounds,
    )
}

fn unknown(kind: &'static str, name: &str, known: &[&str]) -> ModelError {
    ModelError::UnknownPreset {
        kind,
        name: name.to_owned(),
        known: known.join(", "),
    }
}

fn float(parameter: &str, value: f64, bounds: RangeInclusive<f64>) -> Result<(), ModelError> {
    let words = format!("from {} to {}", bounds.start(), bounds.end());
    require(bounds.contains(&value), parameter, value, &words)
}

fn integer(parameter: &str, value: u64, bounds: RangeInclusive<u64>) -> Result<(), ModelError> {
    let words = format!("from {} to {}", bounds.start(), bounds.end());
    require(bounds.contains(&value), parameter, value, &words)
}

fn require(
    holds: bool,
    parameter: &str,
    value: impl ToString,
    bounds: &str,
) -> Result<(), ModelError> {
    if holds {
        return Ok(());
    }
    Err(ModelError::OutOfBounds {
        parameter: parameter.to_owned(),
        value: value.to_string(),
        bounds: bounds.to_owned(),
    })
}
