//! Records of a perf ring (include/uapi/linux/perf_event.h), for events opened with
//! `PERF_SAMPLE_TIME | PERF_SAMPLE_RAW` and `sample_id_all`.

const RECORD_LOST: u32 = 2;
const RECORD_SAMPLE: u32 = 9;
const HEADER: usize = 8;

/// A record of a perf ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// An event.
    Sample {
        /// Instant, ns of the clock that the event was opened with.
        at_ns: u64,
        /// The tracepoint's own record; may be followed by padding.
        raw: &'a [u8],
    },
    /// The ring was full, and this many events were not written.
    Lost {
        /// Instant at which the loss was detected.
        at_ns: u64,
        /// Number of lost events.
        events: u64,
    },
}

/// Returns the records in `bytes`, in order. Records of other kinds are skipped; a truncated record
/// ends the iteration.
pub fn records(bytes: &[u8]) -> impl Iterator<Item = Record<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        loop {
            let kind = u32_at(rest, 0)?;
            let size = usize::from(u16::from_ne_bytes(rest.get(6..8)?.try_into().ok()?));
            let body = rest.get(HEADER..size)?;
            rest = &rest[size..];
            if let Some(record) = parse(kind, body) {
                return Some(record);
            }
        }
    })
}

fn parse(kind: u32, body: &[u8]) -> Option<Record<'_>> {
    match kind {
        RECORD_SAMPLE => {
            let length = u32_at(body, 8)? as usize;
            Some(Record::Sample {
                at_ns: u64_at(body, 0)?,
                raw: body.get(12..12_usize.checked_add(length)?)?,
            })
        }
        // Number of the event, number of lost events, and the fields that `sample_id_all` adds.
        RECORD_LOST => Some(Record::Lost {
            events: u64_at(body, 8)?,
            at_ns: u64_at(body, 16)?,
        }),
        _ => None,
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::from(kind.to_ne_bytes());
        out.extend_from_slice(&0_u16.to_ne_bytes());
        out.extend_from_slice(&((HEADER + body.len()) as u16).to_ne_bytes());
        out.extend_from_slice(body);
        out
    }

    fn sample(at_ns: u64, raw: &[u8]) -> Vec<u8> {
        let mut body = Vec::from(at_ns.to_ne_bytes());
        body.extend_from_slice(&(raw.len() as u32).to_ne_bytes());
        body.extend_from_slice(raw);
        record(RECORD_SAMPLE, &body)
    }

    #[test]
    fn samples_and_losses_are_read_and_other_records_skipped() {
        let mut ring = sample(5, &[1, 2, 3, 4]);
        ring.extend(record(5, &[0; 24]));
        let lost: Vec<u8> = [77_u64, 3, 9]
            .iter()
            .flat_map(|n| n.to_ne_bytes())
            .collect();
        ring.extend(record(RECORD_LOST, &lost));
        let read: Vec<Record<'_>> = records(&ring).collect();
        let expected = [
            Record::Sample {
                at_ns: 5,
                raw: &[1, 2, 3, 4],
            },
            Record::Lost {
                at_ns: 9,
                events: 3,
            },
        ];
        assert_eq!(read, expected);
    }

    #[test]
    fn no_bytes_cause_a_panic_or_an_endless_loop() {
        let ring = sample(5, &[1, 2, 3, 4]);
        for length in 0..ring.len() {
            assert_eq!(records(&ring[..length]).count(), 0);
        }
        for at in 0..ring.len() {
            for value in [0, 1, 7, 0xff] {
                let mut bad = ring.clone();
                bad[at] = value;
                assert!(records(&bad).count() <= bad.len() / HEADER);
            }
        }
    }
}
