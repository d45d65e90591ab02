//! D-01, D-02, D-04 of docs/reference/faults.md: initiator and target connected by a wire that
//! flips bits. Digests detect every flip, and an initiator that repeats unacknowledged writes loses
//! no data.
//!
//! `cargo test -p hakaru-world --test digests -- --nocapture` prints the PDUs sent, the bits
//! flipped and the sessions lost.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use hakaru_contract::LoginKeys;
use hakaru_iscsi_session::{
    Done, Event, Purpose, Session, SessionConfig, SessionTimers, Task, TaskData,
};
use hakaru_iscsi_target::{
    Access, ConnectionId, IoOp, IoResult, Limits, LuDescription, Segment, Target, TargetConfig,
};
use hakaru_units::Time;
use hakaru_wire::iscsi::{Bhs, Isid, Lun};
use hakaru_wire::scsi::{Cdb, Transfer};

const TARGET: &str = "iqn.2026-01.net.example:array";
const BLOCKS: u64 = 512;
/// Length of every request, bytes. Each block contains its stamp, repeated.
const BYTES: usize = 4096;
const DEPTH: usize = 8;
/// Returns the number of PDUs sent in each direction per combination of digests, and N if one PDU
/// in N is damaged. `make storms` runs as many as the catalogue requires (`HAKARU_LONG`).
fn scale() -> (u64, u64) {
    let full = std::env::var_os("HAKARU_LONG").is_some();
    if full {
        (10_000_000, 100_000)
    } else {
        (50_000, 200)
    }
}

/// A xorshift generator with a fixed seed.
struct Xorshift(u64);

impl Xorshift {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % limit
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Digests {
    header: bool,
    data: bool,
}

/// A request that is not acknowledged yet: a write of this stamp, or a read.
#[derive(Clone, Copy, Debug)]
struct Unacknowledged {
    slot: u64,
    stamp: Option<u64>,
}

struct Lab {
    digests: Digests,
    target: Target,
    lu: Vec<u8>,
    now: Time,
    session: Session,
    connection: ConnectionId,
    logged_in: bool,
    flip_one_in: u64,
    noise: Xorshift,
    /// Acknowledged stamps by slot of `BYTES` bytes.
    acknowledged: HashMap<u64, u64>,
    pending: HashMap<u32, Unacknowledged>,
    next: u64,
    pdus: [u64; 2],
    flips: [u64; 2],
    losses: u64,
    reads: u64,
}

fn session(digests: Digests) -> Session {
    Session::new(SessionConfig {
        initiator_name: "iqn.2026-01.net.example:vm".into(),
        isid: Isid::random(1, 1),
        purpose: Purpose::Normal {
            target_name: TARGET.into(),
        },
        keys: LoginKeys {
            header_digest: digests.header,
            data_digest: digests.data,
            ..LoginKeys::default()
        },
        chap: None,
        timers: SessionTimers::new(Duration::from_secs(30)),
    })
}

fn connect(target: &mut Target, now: Time) -> ConnectionId {
    let address = "10.0.0.1:3260".parse().expect("an address");
    target
        .handle_connected(now, 0, address, "10.0.0.2:1".parse().expect("an address"))
        .expect("room for one connection")
}

impl Lab {
    fn new(digests: Digests) -> Lab {
        let bytes = BLOCKS * BYTES as u64;
        let mut target = Target::new(TargetConfig {
            target_name: TARGET.into(),
            portals: vec!["10.0.0.1:3260".parse().expect("an address")],
            port_groups: Vec::new(),
            lus: vec![LuDescription::new(0, bytes)],
            access: Access::default(),
            limits: Limits::default(),
        });
        let now = Time(1_000_000_000);
        let connection = connect(&mut target, now);
        let mut session = session(digests);
        session.handle_connected(now);
        Lab {
            digests,
            target,
            lu: vec![0; bytes as usize],
            now,
            session,
            connection,
            logged_in: false,
            flip_one_in: scale().1,
            noise: Xorshift(0x5eed + u64::from(digests.header) + 2 * u64::from(digests.data)),
            acknowledged: HashMap::new(),
            pending: HashMap::new(),
            next: 1,
            pdus: [0; 2],
            flips: [0; 2],
            losses: 0,
            reads: 0,
        }
    }

    /// Counts the PDUs sent in one direction, and occasionally flips a bit that a digest covers.
    fn disturb(&mut self, direction: usize, bytes: &mut [u8]) {
        let trailer = |on: bool| if on { 4 } else { 0 };
        let mut at = 0;
        while at < bytes.len() {
            let mut header = [0; 48];
            header.copy_from_slice(&bytes[at..at + 48]);
            let bhs = Bhs::new(header);
            let data = bhs.data_segment_length() as usize;
            let digests = if self.logged_in {
                self.digests
            } else {
                Digests {
                    header: false,
                    data: false,
                }
            };
            let head = 48 + bhs.ahs_length() + trailer(digests.header);
            let tail = data.next_multiple_of(4) + trailer(digests.data && data > 0);
            self.pdus[direction] += 1;
            let mut covered = Vec::new();
            if digests.header {
                covered.push((at, head));
            }
            if digests.data && data > 0 {
                covered.push((at + head, tail));
            }
            if !covered.is_empty() && self.noise.below(self.flip_one_in) == 0 {
                let (start, length) = covered[self.noise.below(covered.len() as u64) as usize];
                let bit = self.noise.below(8 * length as u64) as usize;
                bytes[start + bit / 8] ^= 1 << (bit % 8);
                self.flips[direction] += 1;
            }
            at += head + tail;
        }
    }

    /// Moves data between initiator, target and storage until nothing is pending.
    fn settle(&mut self) {
        loop {
            let mut moved = false;
            let mut up: Vec<u8> = self
                .session
                .transmit()
                .slices()
                .flatten()
                .copied()
                .collect();
            if !up.is_empty() {
                moved = true;
                let length = up.len();
                self.session.transmit().advance(self.now, length);
                self.disturb(0, &mut up);
                self.target.handle_received(self.now, self.connection, &up);
            }
            while let Some(io) = self.target.poll_io() {
                moved = true;
                let result = self.serve(io.op);
                self.target.handle_io_done(self.now, io.id, result);
            }
            while let Some(connection) = self.target.poll_transmit() {
                moved = true;
                let mut down = self.take(connection);
                if connection == self.connection {
                    self.disturb(1, &mut down);
                    self.session.handle_received(self.now, &down);
                }
            }
            while let Some(connection) = self.target.poll_close() {
                moved = true;
                if connection == self.connection {
                    self.session.handle_closed("(by the target)");
                }
            }
            moved |= self.process_events();
            if !moved {
                return;
            }
        }
    }

    fn take(&mut self, connection: ConnectionId) -> Vec<u8> {
        let mut bytes = Vec::new();
        for segment in self.target.transmit(connection).segments() {
            match segment {
                Segment::Bytes(part) => bytes.extend_from_slice(part),
                Segment::Lu {
                    offset_bytes,
                    length_bytes,
                    ..
                } => bytes
                    .extend_from_slice(&self.lu[offset_bytes as usize..][..length_bytes as usize]),
            }
        }
        self.target
            .handle_transmitted(self.now, connection, bytes.len(), &mut |_, _, _| {});
        bytes
    }

    /// Executes an access of the storage. Each write must be a requested one and intact, because no
    /// flipped bit may reach the storage.
    fn serve(&mut self, op: IoOp) -> IoResult {
        match op {
            IoOp::Read { in_place: true, .. } => IoResult::ReadInPlace,
            IoOp::Read {
                offset_bytes,
                length_bytes,
                ..
            } => IoResult::ReadData(
                self.lu[offset_bytes as usize..][..length_bytes as usize].to_vec(),
            ),
            IoOp::Write {
                offset_bytes, data, ..
            } => {
                let slot = offset_bytes / BYTES as u64;
                let stamp = stamp_of(&data)
                    .unwrap_or_else(|| panic!("damaged data reached the storage at {slot}"));
                let pending = self
                    .pending
                    .values()
                    .any(|pending| (pending.slot, pending.stamp) == (slot, Some(stamp)));
                assert!(
                    pending,
                    "a write of {stamp} at {slot} that no request is waiting for"
                );
                self.lu[offset_bytes as usize..][..data.len()].copy_from_slice(&data);
                IoResult::Written(data)
            }
            IoOp::Flush => IoResult::Flushed,
            other => panic!("unexpected operation {other:?}"),
        }
    }

    /// Processes events and completed tasks. A lost session is replaced, and its unfinished
    /// requests are submitted to the new one.
    fn process_events(&mut self) -> bool {
        let mut moved = false;
        while let Some(done) = self.session.poll_done() {
            moved = true;
            self.finish(done);
        }
        while let Some(event) = self.session.poll_event() {
            moved = true;
            match event {
                Event::LoggedIn => {
                    self.logged_in = true;
                    let agreed = self.session.agreed();
                    let agreed = Digests {
                        header: agreed.header_digest == hakaru_wire::iscsi::keys::Digest::Crc32c,
                        data: agreed.data_digest == hakaru_wire::iscsi::keys::Digest::Crc32c,
                    };
                    assert_eq!(agreed, self.digests, "D-04");
                    let unfinished: Vec<u32> = self.pending.keys().copied().collect();
                    unfinished.into_iter().for_each(|tag| self.submit(tag));
                }
                Event::Lost(_) => {
                    self.losses += 1;
                    self.target.handle_closed(self.now, self.connection);
                    self.logged_in = false;
                    self.connection = connect(&mut self.target, self.now);
                    self.session = session(self.digests);
                    self.session.handle_connected(self.now);
                }
                other => panic!("{other:?}"),
            }
        }
        moved
    }

    fn finish(&mut self, done: Done) {
        let pending = self.pending[&done.tag];
        // The session retries UNIT ATTENTION and BUSY; any other error would reach a user.
        assert_eq!(done.result, Ok(BYTES as u32), "{pending:?}");
        self.pending.remove(&done.tag);
        let held = self.acknowledged.get(&pending.slot).copied().unwrap_or(0);
        match pending.stamp {
            Some(stamp) => {
                self.acknowledged.insert(pending.slot, stamp);
            }
            None => {
                self.reads += 1;
                assert_eq!(stamp_of(&done.data), Some(held), "slot {}", pending.slot);
            }
        }
    }

    fn submit(&mut self, tag: u32) {
        let Unacknowledged { slot, stamp } = self.pending[&tag];
        let transfer = Transfer {
            lba: slot * (BYTES as u64 / 512),
            blocks: (BYTES / 512) as u32,
            ..Transfer::default()
        };
        let (cdb, data) = match stamp {
            None => (
                Cdb::Read(transfer),
                TaskData::In {
                    length: BYTES as u32,
                    keep: true,
                },
            ),
            Some(stamp) => {
                let buffer = Arc::new(stamp.to_be_bytes().repeat(BYTES / 8));
                (
                    Cdb::Write(transfer),
                    TaskData::Out {
                        buffer,
                        begin: 0,
                        length: BYTES as u32,
                    },
                )
            }
        };
        let mut padded = [0; 16];
        let emitted = cdb.emit();
        padded[..emitted.len()].copy_from_slice(&emitted);
        self.session.submit(
            self.now,
            Task {
                tag,
                lun: Lun::new(0),
                cdb: padded,
                data,
            },
        );
    }

    /// Submits a request for a block with none in flight.
    fn submit_request(&mut self) {
        let slot = self.noise.below(BLOCKS);
        if self.pending.values().any(|pending| pending.slot == slot) {
            return;
        }
        let stamp = (self.noise.below(2) == 0).then_some(self.next);
        let tag = self.next as u32;
        self.next += 1;
        self.pending.insert(tag, Unacknowledged { slot, stamp });
        self.submit(tag);
    }
}

/// Returns the stamp of these bytes, if all of them contain it.
fn stamp_of(data: &[u8]) -> Option<u64> {
    let (stamps, rest) = data.as_chunks::<8>();
    let first = stamps.first()?;
    (rest.is_empty() && stamps.iter().all(|stamp| stamp == first))
        .then(|| u64::from_be_bytes(*first))
}

#[test]
fn flipped_bits_are_never_written_or_read_and_acknowledged_data_is_never_lost() {
    println!("header  data   PDUs to, from target   flipped        sessions lost   reads checked");
    for digests in [(false, false), (true, false), (false, true), (true, true)] {
        let digests = Digests {
            header: digests.0,
            data: digests.1,
        };
        let mut lab = Lab::new(digests);
        let (pdus_wanted, _) = scale();
        lab.settle();
        while lab.pdus.iter().any(|pdus| *pdus < pdus_wanted) {
            while lab.pending.len() < DEPTH && lab.logged_in {
                lab.submit_request();
            }
            lab.now += Duration::from_micros(100);
            lab.settle();
        }
        // All acknowledged data must be in the storage.
        lab.digests = digests;
        for (slot, stamp) in &lab.acknowledged {
            let unfinished = lab
                .pending
                .values()
                .any(|pending| pending.slot == *slot && pending.stamp.is_some());
            let stamp_on_disk = stamp_of(&lab.lu[*slot as usize * BYTES..][..BYTES]);
            assert!(
                unfinished || stamp_on_disk == Some(*stamp),
                "slot {slot}: {stamp} was acknowledged, the block holds {stamp_on_disk:?}"
            );
        }
        let Lab {
            pdus,
            flips,
            losses,
            reads,
            ..
        } = &lab;
        println!(
            "{:<7} {:<6} {:>8} {:>8} {:>8} {:>8} {losses:>14} {reads:>15}",
            digests.header, digests.data, pdus[0], pdus[1], flips[0], flips[1]
        );
        let covered = digests.header || digests.data;
        assert_eq!(flips.iter().all(|flips| *flips > 20), covered, "{flips:?}");
        assert_eq!(*losses > 0, covered);
    }
}
