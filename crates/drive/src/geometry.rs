//! Position of a byte: zone, cylinder, track, and angle on the track.
//!
//! Bytes run along a track, then over the heads of a cylinder, then inwards. The start of each
//! track is rotated against that of the previous one by the skew, the time of a track switch, so
//! that a sequential transfer does not lose a revolution. Angles are in nanoseconds of revolution:
//! the angle under the head at instant `t` is `(t + phase) mod revolution_ns`.
use crate::seek::SeekCurve;
use hakaru_contract::drive::Hdd;

const SECTOR_BYTES: u64 = 512;

/// Adjacent tracks of the same length.
#[derive(Clone, Debug)]
struct Zone {
    first_byte: u64,
    first_track: u64,
    track_bytes: u64,
}

/// Geometry of one model of drive.
#[derive(Clone, Debug)]
pub(crate) struct Geometry {
    zones: Vec<Zone>,
    heads: u64,
    cylinders: u32,
    pub(crate) revolution_ns: u64,
    pub(crate) skew_ns: u64,
}

/// Start of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) cylinder: u32,
    pub(crate) head: u32,
    pub(crate) angle_ns: u64,
    track_bytes: u64,
    offset_in_track: u64,
}

impl Geometry {
    pub(crate) fn new(hdd: &Hdd) -> Geometry {
        let revolution_ns = (60e9 / hdd.rpm) as u64;
        let heads = u64::from(hdd.heads);
        let lengths: Vec<u64> = (0..hdd.zones)
            .map(|zone| track_bytes(hdd, zone, revolution_ns))
            .collect();
        let per_cylinder_of_each_zone = heads * lengths.iter().sum::<u64>();
        let cylinders_per_zone = hdd
            .capacity_bytes
            .div_ceil(per_cylinder_of_each_zone)
            .max(1);
        let tracks_per_zone = cylinders_per_zone * heads;
        let mut zones = Vec::with_capacity(lengths.len());
        let (mut first_byte, mut first_track) = (0, 0);
        for track_bytes in lengths {
            zones.push(Zone {
                first_byte,
                first_track,
                track_bytes,
            });
            first_byte += tracks_per_zone * track_bytes;
            first_track += tracks_per_zone;
        }
        let switch_ms = hdd
            .head_switch_ms
            .unwrap_or(hdd.seek_track_ms)
            .max(hdd.seek_track_ms);
        Geometry {
            cylinders: (cylinders_per_zone * u64::from(hdd.zones)) as u32,
            zones,
            heads,
            revolution_ns,
            skew_ns: ((switch_ms + hdd.write_settle_ms) * 1e6) as u64 % revolution_ns,
        }
    }

    pub(crate) fn seek_curve(&self, hdd: &Hdd) -> SeekCurve {
        SeekCurve::new(hdd, self.cylinders)
    }

    /// Returns the position of byte `offset`, which must be below the capacity.
    pub(crate) fn locate(&self, offset: u64) -> Location {
        let zone = &self.zones[self.zones.partition_point(|z| z.first_byte <= offset) - 1];
        let in_zone = offset - zone.first_byte;
        let track = zone.first_track + in_zone / zone.track_bytes;
        let offset_in_track = in_zone % zone.track_bytes;
        let along = offset_in_track * self.revolution_ns / zone.track_bytes;
        Location {
            cylinder: (track / self.heads) as u32,
            head: (track % self.heads) as u32,
            angle_ns: (track * self.skew_ns + along) % self.revolution_ns,
            track_bytes: zone.track_bytes,
            offset_in_track,
        }
    }

    /// Returns the time to transfer `length` bytes from `at` on, including track switches. The rate
    /// is that of the zone where the transfer begins, even if it ends in the next one.
    pub(crate) fn transfer_ns(&self, at: &Location, length: u64) -> u64 {
        let crossings = (at.offset_in_track + length.max(1) - 1) / at.track_bytes;
        length * self.revolution_ns / at.track_bytes + crossings * self.skew_ns
    }
}

/// Returns the length of a track in a zone, a multiple of the sector. Zone 0 is the outermost.
fn track_bytes(hdd: &Hdd, zone: u32, revolution_ns: u64) -> u64 {
    let inwards = if hdd.zones < 2 {
        0.0
    } else {
        f64::from(zone) / f64::from(hdd.zones - 1)
    };
    let rate = hdd.rate_outer_bytes_per_s
        + (hdd.rate_inner_bytes_per_s - hdd.rate_outer_bytes_per_s) * inwards;
    let sectors = (rate * revolution_ns as f64 / 1e9) as u64 / SECTOR_BYTES;
    sectors.max(1) * SECTOR_BYTES
}
