//! Record of an LU's reservations that survives a restart. Big-endian:
//!
//! ```text
//! 0   8  "hakaruPR"
//! 8   1  version, 1
//! 9   1  TYPE of the reservation, 0: none
//! 10  2  index of its holder among the registrations
//! 12  2  number of registrations, then each:
//!        key 8 | ISID 6 | relative target port 2 | length of the name 1 | initiator's name
//! ```
//! An empty record means that no nexus is registered.

use hakaru_wire::scsi::Isid;
use hakaru_wire::scsi::ReservationType;

use super::state::{Held, REGISTRATIONS_MAX, Registration, Reservations};
use crate::nexus::Nexus;

const MAGIC: &[u8; 8] = b"hakaruPR";
const VERSION: u8 = 1;
const HEADER: usize = 14;

/// The reason why a record of reservations cannot be used. An LU must not be served without its
/// reservations, because hosts rely on them to exclude each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The bytes are not a record of reservations.
    #[error("the data is not a record of reservations")]
    NotARecord,
    /// The record was written by a later version.
    #[error("the record has the unknown version {0}")]
    Version(u8),
    /// The record is truncated or damaged.
    #[error("the record is damaged")]
    Damaged,
}

/// Checks a record of [`crate::LuDescription::reservations`].
///
/// # Errors
/// The bytes are not a record, or the record is damaged. The LU must then not be served, because
/// hosts rely on their reservations to exclude each other.
pub fn check_reservations(record: &[u8]) -> Result<(), RecordError> {
    Reservations::from_record(record).map(|_| ())
}

impl Reservations {
    /// Returns the record, which is empty if the registrations are not persistent.
    pub(crate) fn record(&self) -> Vec<u8> {
        if !self.persistent || self.registrations.is_empty() {
            return Vec::new();
        }
        let holder = self.held.as_ref().and_then(|held| {
            self.registrations
                .iter()
                .position(|registration| registration.nexus == held.holder)
        });
        let kind = self.held.as_ref().map_or(0, |held| held.kind as u8);
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&[VERSION, kind]);
        out.extend_from_slice(&(holder.unwrap_or(0) as u16).to_be_bytes());
        out.extend_from_slice(&(self.registrations.len() as u16).to_be_bytes());
        for Registration { nexus, key } in &self.registrations {
            out.extend_from_slice(&key.to_be_bytes());
            out.extend_from_slice(&nexus.isid.0);
            out.extend_from_slice(&nexus.port.to_be_bytes());
            // RFC 7143 section 4.2.7.1 limits names to 223 bytes, and login enforces it.
            out.push(nexus.initiator_name.len() as u8);
            out.extend_from_slice(nexus.initiator_name.as_bytes());
        }
        out
    }

    /// Parses a record.
    pub(crate) fn from_record(record: &[u8]) -> Result<Reservations, RecordError> {
        if record.is_empty() {
            return Ok(Reservations::default());
        }
        let (head, mut rest) = record
            .split_at_checked(HEADER)
            .ok_or(RecordError::NotARecord)?;
        if head[..8] != *MAGIC {
            return Err(RecordError::NotARecord);
        }
        if head[8] != VERSION {
            return Err(RecordError::Version(head[8]));
        }
        let holder = usize::from(u16::from_be_bytes([head[10], head[11]]));
        let count = usize::from(u16::from_be_bytes([head[12], head[13]]));
        if count > REGISTRATIONS_MAX {
            return Err(RecordError::Damaged);
        }
        let mut registrations = Vec::with_capacity(count);
        for _ in 0..count {
            let (registration, after) = parse_registration(rest).ok_or(RecordError::Damaged)?;
            registrations.push(registration);
            rest = after;
        }
        let held = match head[9] {
            0 => None,
            code => Some(Held {
                kind: ReservationType::from_code(code).ok_or(RecordError::Damaged)?,
                holder: registrations
                    .get(holder)
                    .ok_or(RecordError::Damaged)?
                    .nexus
                    .clone(),
            }),
        };
        if !rest.is_empty() {
            return Err(RecordError::Damaged);
        }
        Ok(Reservations {
            registrations,
            held,
            persistent: true,
            ..Reservations::default()
        })
    }
}

fn parse_registration(bytes: &[u8]) -> Option<(Registration, &[u8])> {
    let (key, rest) = bytes.split_first_chunk::<8>()?;
    let (isid, rest) = rest.split_first_chunk::<6>()?;
    let (port, rest) = rest.split_first_chunk::<2>()?;
    let (&length, rest) = rest.split_first()?;
    let (name, rest) = rest.split_at_checked(usize::from(length))?;
    let nexus = Nexus {
        initiator_name: core::str::from_utf8(name).ok()?.to_owned(),
        isid: Isid(*isid),
        port: u16::from_be_bytes(*port),
    };
    let key = u64::from_be_bytes(*key);
    Some((Registration { nexus, key }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Reservations {
        let nexus = |port| Nexus {
            initiator_name: "iqn.2026-01.org.example:a".into(),
            isid: Isid::random(7, 1),
            port,
        };
        Reservations {
            registrations: vec![
                Registration {
                    nexus: nexus(1),
                    key: 1,
                },
                Registration {
                    nexus: nexus(2),
                    key: 2,
                },
            ],
            held: Some(Held {
                kind: ReservationType::WriteExclusiveRegistrantsOnly,
                holder: nexus(2),
            }),
            persistent: true,
            ..Reservations::default()
        }
    }

    #[test]
    fn reservations_survive_the_record() {
        let again = Reservations::from_record(&sample().record()).expect("a record");
        assert_eq!(again.registrations, sample().registrations);
        assert_eq!(again.held, sample().held);
        assert!(again.persistent);
        let volatile = Reservations {
            persistent: false,
            ..sample()
        };
        assert!(volatile.record().is_empty());
    }

    #[test]
    fn a_damaged_record_is_refused_wherever_it_is_cut_and_whatever_follows_it() {
        let record = sample().record();
        for cut in 1..record.len() {
            assert!(
                Reservations::from_record(&record[..cut]).is_err(),
                "cut at {cut}"
            );
        }
        let longer = [&record[..], &[0]].concat();
        assert_eq!(
            Reservations::from_record(&longer).err(),
            Some(RecordError::Damaged)
        );
        let later = [&record[..8], &[2], &record[9..]].concat();
        assert_eq!(
            Reservations::from_record(&later).err(),
            Some(RecordError::Version(2))
        );
        assert_eq!(
            Reservations::from_record(&[0; 64]).err(),
            Some(RecordError::NotARecord)
        );
    }
}
