//! A shell for tests: transfers data and carries out a pool's actions at once, over any disks.

pub mod oracle;
pub mod pages;
pub mod recovery;
pub mod workload;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;

use hakaru_pool::disk::Disk;
use hakaru_pool::metadata::Store;
use hakaru_pool::{
    Access, Action, ActionFailure, ActionKind, Event, Failure, GroupId, OpenError, Outcome, Piece,
    Place, Pool, PoolConfig, Range, Reply, Request, RequestId, VolumeId,
};
use hakaru_units::Time;

/// Returns `long` if `HAKARU_LONG` is set (`make test-long`), otherwise `short`.
pub fn scale<T>(short: T, long: T) -> T {
    if std::env::var_os("HAKARU_LONG").is_some() {
        long
    } else {
        short
    }
}

pub const PAGE: u64 = 64 << 10;
pub const UUID: [u8; 16] = *b"sixteen bytes ok";

/// The disks of a pool.
#[derive(Clone, Debug)]
pub struct Disks {
    pub metadata: Arc<dyn Disk>,
    /// Data files by the group's name.
    pub groups: BTreeMap<String, Arc<dyn Disk>>,
}

/// Steps that a driver skips: planted bugs that the harness must detect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Planted {
    /// `Sync` is answered without being carried out.
    pub no_sync: bool,
    /// `Discard` is answered without being carried out.
    pub no_discard: bool,
}

#[derive(Debug)]
pub struct Driver {
    pub pool: Pool,
    pub store: Store,
    pub disks: Disks,
    pub now: Time,
    pub planted: Planted,
    pub events: Vec<Event>,
    next: u64,
    replies: BTreeMap<RequestId, VecDeque<Outcome>>,
}

/// Result of a driver's request. Reporting an error of the data disk is the shell's task; here it
/// is `Io`.
pub type Ended = Result<(), Failure>;

impl Driver {
    pub fn create(config: PoolConfig, disks: Disks) -> Result<Driver, OpenError> {
        let (pool, store) = hakaru_pool::create(config, UUID, PAGE as u32, disks.metadata.clone())?;
        Ok(Driver::new(pool, store, disks))
    }

    pub fn open(config: PoolConfig, disks: Disks) -> Result<Driver, OpenError> {
        Driver::open_planted(config, disks, Planted::default())
    }

    pub fn open_planted(
        config: PoolConfig,
        disks: Disks,
        planted: Planted,
    ) -> Result<Driver, OpenError> {
        let groups = disks.groups.clone();
        let (pool, store) = hakaru_pool::open(config, disks.metadata.clone(), &mut |_, name| {
            groups
                .get(name)
                .cloned()
                .ok_or_else(|| io::ErrorKind::NotFound.into())
        })?;
        let mut driver = Driver::new(pool, store, disks);
        driver.planted = planted;
        driver.settle();
        Ok(driver)
    }

    fn new(pool: Pool, store: Store, disks: Disks) -> Driver {
        Driver {
            pool,
            store,
            disks,
            now: Time::ZERO,
            planted: Planted::default(),
            events: Vec::new(),
            next: 0,
            replies: BTreeMap::new(),
        }
    }

    /// Adds a group with `disk` as its file.
    pub fn grow(&mut self, name: &str, disk: Arc<dyn Disk>, size_bytes: u64) -> Ended {
        self.pool
            .prepare_group(disk.as_ref(), size_bytes)
            .map_err(|_| Failure::Io)?;
        self.disks.groups.insert(name.into(), disk);
        let request = Request::AddGroup {
            name: name.into(),
            size_bytes,
        };
        match self.ask(request) {
            Outcome::Grown(_) => Ok(()),
            other => ended(other),
        }
    }

    pub fn create_volume(
        &mut self,
        name: &str,
        size_bytes: u64,
        quota_bytes: Option<u64>,
    ) -> Result<VolumeId, Failure> {
        let name = name.into();
        created(self.ask(Request::Create {
            name,
            size_bytes,
            quota_bytes,
        }))
    }

    pub fn copy_volume(
        &mut self,
        volume: VolumeId,
        name: &str,
        read_only: bool,
    ) -> Result<VolumeId, Failure> {
        created(self.ask(Request::Snapshot {
            volume,
            name: name.into(),
            read_only,
            quota_bytes: None,
        }))
    }

    pub fn delete(&mut self, volume: VolumeId) -> Ended {
        ended(self.ask(Request::Delete { volume }))
    }

    pub fn flush(&mut self) -> Ended {
        ended(self.ask(Request::Flush))
    }

    pub fn unmap(&mut self, volume: VolumeId, ranges: &[(u64, u64)], fua: bool) -> Ended {
        let ranges = ranges
            .iter()
            .map(|&(offset_bytes, length_bytes)| Range {
                offset_bytes,
                length_bytes,
            })
            .collect();
        ended(self.ask(Request::Unmap {
            volume,
            ranges,
            fua,
        }))
    }

    pub fn write(&mut self, volume: VolumeId, offset_bytes: u64, data: &[u8], fua: bool) -> Ended {
        let id = self.submit(Request::Write {
            volume,
            offset_bytes,
            length_bytes: data.len() as u32,
            fua,
        });
        match self.reply(id) {
            Outcome::Ready { access, pieces } => {
                let mut at = 0;
                let mut ok = true;
                for piece in &pieces {
                    let Piece::Data {
                        place,
                        length_bytes,
                    } = piece
                    else {
                        panic!("a write has no piece of zeros");
                    };
                    let part = &data[at..at + *length_bytes as usize];
                    ok &= self
                        .file(place.group)
                        .write_at(place.offset_bytes, part)
                        .is_ok();
                    at += part.len();
                }
                assert_eq!(at, data.len());
                self.moved(access, ok);
                if !ok {
                    Err(Failure::Io)
                } else if fua {
                    ended(self.reply(id))
                } else {
                    Ok(())
                }
            }
            other => ended(other),
        }
    }

    pub fn read(
        &mut self,
        volume: VolumeId,
        offset_bytes: u64,
        length: usize,
    ) -> Result<Vec<u8>, Failure> {
        let request = Request::Read {
            volume,
            offset_bytes,
            length_bytes: length as u32,
        };
        match self.ask(request) {
            Outcome::Ready { access, pieces } => {
                let mut data = vec![0xEE; length];
                let mut at = 0;
                let mut ok = true;
                for piece in &pieces {
                    let part = &mut data[at..at + piece.length_bytes() as usize];
                    at += part.len();
                    match piece {
                        Piece::Zeros { .. } => part.fill(0),
                        Piece::Data { place, .. } => {
                            ok &= self
                                .file(place.group)
                                .read_at(place.offset_bytes, part)
                                .is_ok()
                        }
                    }
                }
                assert_eq!(at, length);
                self.moved(access, ok);
                if ok { Ok(data) } else { Err(Failure::Io) }
            }
            Outcome::Failed(failure) => Err(failure),
            other => panic!("a read is answered {other:?}"),
        }
    }

    /// Sends a request, carries out everything pending, and returns the first answer.
    pub fn ask(&mut self, request: Request) -> Outcome {
        let id = self.submit(request);
        self.reply(id)
    }

    pub fn submit(&mut self, request: Request) -> RequestId {
        let id = RequestId(self.next);
        self.next += 1;
        self.pool.handle_request(self.now, id, request);
        id
    }

    pub fn moved(&mut self, access: Access, ok: bool) {
        self.pool.handle_moved(self.now, access, ok);
    }

    /// Carries out actions until `id` is answered. Returns the answer.
    pub fn reply(&mut self, id: RequestId) -> Outcome {
        loop {
            if let Some(outcome) = self.take_reply(id) {
                return outcome;
            }
            assert!(self.step(), "no answer to {id:?} and nothing to do");
        }
    }

    /// Returns the next answer to `id`, if any.
    pub fn take_reply(&mut self, id: RequestId) -> Option<Outcome> {
        while let Some(Reply { id, outcome }) = self.pool.poll_reply() {
            self.replies.entry(id).or_default().push_back(outcome);
        }
        let outcomes = self.replies.get_mut(&id)?;
        let outcome = outcomes.pop_front();
        if outcomes.is_empty() {
            self.replies.remove(&id);
        }
        outcome
    }

    /// Carries out everything pending.
    pub fn settle(&mut self) {
        while self.step() {}
    }

    /// Carries out the next action. Returns false if no action is pending.
    pub fn step(&mut self) -> bool {
        while let Some(event) = self.pool.poll_event() {
            self.events.push(event);
        }
        let Some(action) = self.pool.poll_action() else {
            return false;
        };
        self.perform(action);
        true
    }

    pub fn perform(&mut self, Action { id, kind }: Action) {
        let result = self.do_action(kind).map_err(|error| match error.kind() {
            io::ErrorKind::StorageFull => ActionFailure::NoSpace,
            _ => ActionFailure::Io,
        });
        self.pool.handle_action_done(self.now, id, result);
        let low = self.store.space_is_low();
        self.pool.set_metadata_is_low(self.now, low);
    }

    fn do_action(&mut self, kind: ActionKind) -> io::Result<()> {
        match kind {
            ActionKind::Copy {
                from,
                to,
                length_bytes,
            } => {
                let mut data = vec![0; length_bytes as usize];
                self.file(from.group)
                    .read_at(from.offset_bytes, &mut data)?;
                self.file(to.group).write_at(to.offset_bytes, &data)
            }
            ActionKind::Zero {
                place,
                length_bytes,
            } => self.zero(place, length_bytes.into()),
            ActionKind::Discard { .. } if self.planted.no_discard => Ok(()),
            ActionKind::Discard {
                place,
                length_bytes,
            } => self.zero(place, length_bytes),
            ActionKind::Sync { .. } if self.planted.no_sync => Ok(()),
            ActionKind::Sync { groups } => groups
                .into_iter()
                .try_for_each(|group| self.file(group).flush()),
            ActionKind::Commit(batch) => self
                .store
                .commit(&batch)
                .map_err(|_| io::ErrorKind::Other.into()),
        }
    }

    fn zero(&self, place: Place, length_bytes: u64) -> io::Result<()> {
        self.file(place.group)
            .discard(place.offset_bytes, length_bytes)
    }

    pub fn file(&self, group: GroupId) -> Arc<dyn Disk> {
        let name = self
            .pool
            .groups()
            .nth(group.index())
            .expect("the group exists")
            .name;
        self.disks.groups[&name].clone()
    }

    /// Asserts that the pool's counts equal those of a walk.
    #[track_caller]
    pub fn assert_clean(&self) {
        assert_eq!(self.pool.check(), []);
    }
}

pub fn ended(outcome: Outcome) -> Ended {
    match outcome {
        Outcome::Done => Ok(()),
        Outcome::Failed(failure) => Err(failure),
        other => panic!("answered {other:?}"),
    }
}

pub fn created(outcome: Outcome) -> Result<VolumeId, Failure> {
    match outcome {
        Outcome::Created(volume) => Ok(volume),
        Outcome::Failed(failure) => Err(failure),
        other => panic!("answered {other:?}"),
    }
}
