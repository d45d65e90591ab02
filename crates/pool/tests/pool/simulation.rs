//! Many concurrent requests with delayed transfers and actions in any order, compared with a simple
//! model, then a power cut. One seed replays one run exactly.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::support::oracle::{BLOCK, Model, stamps};
use crate::support::recovery::{disks, of_memory, recover, use_up};
use crate::support::{Driver, PAGE, scale};
use hakaru_pool::disk::{Disk, MemoryDisk, Recorder};
use hakaru_pool::{
    Access, Action, Failure, Outcome, Piece, Pieces, PoolConfig, Range, Request, RequestId,
};
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64;

const PAGE_BLOCKS: u64 = PAGE / BLOCK as u64;
const VOLUME_BLOCKS: u64 = 6 * PAGE_BLOCKS + 3;
const GROUP_PAGES: u64 = 12;

/// A request in progress.
#[derive(Debug)]
enum InProgress {
    Read {
        name: String,
        first: u64,
        blocks: u64,
    },
    Write {
        name: String,
        first: u64,
        blocks: u64,
        value: u64,
        fua: bool,
    },
    Unmap {
        name: String,
        first: u64,
        blocks: u64,
        fua: bool,
    },
    /// A flush, with the model at the time of its request.
    Flush {
        covers: Model,
    },
    Copy {
        name: String,
    },
    Delete {
        name: String,
    },
}

struct Simulation {
    driver: Driver,
    recorder: Recorder,
    random: Pcg64,
    model: Model,
    in_progress: BTreeMap<RequestId, InProgress>,
    ready: Vec<(RequestId, Access, Pieces)>,
    actions: Vec<Action>,
    value: u64,
    names: u64,
    full: u64,
}

impl Simulation {
    fn new(seed: u64) -> Simulation {
        let recorder = Recorder::new();
        let recorded: Vec<Arc<dyn Disk>> = (0..3)
            .map(|_| Arc::new(recorder.disk(&MemoryDisk::new(0))) as Arc<dyn Disk>)
            .collect();
        let mut all = disks(recorded);
        let groups = std::mem::take(&mut all.groups);
        let mut driver = Driver::create(PoolConfig::default(), all).unwrap();
        for (name, disk) in groups {
            driver.grow(&name, disk, (GROUP_PAGES + 1) * PAGE).unwrap();
        }
        let mut model = Model::default();
        for name in ["a", "b"] {
            model.create(name, VOLUME_BLOCKS);
            let id = driver
                .create_volume(name, VOLUME_BLOCKS * BLOCK as u64, None)
                .unwrap();
            model.created(name, id);
        }
        driver.settle();
        Simulation {
            driver,
            recorder,
            random: Pcg64::seed_from_u64(seed),
            model,
            in_progress: BTreeMap::new(),
            ready: Vec::new(),
            actions: Vec::new(),
            value: 0,
            names: 0,
            full: 0,
        }
    }

    fn step(&mut self) {
        match self.random.random_range(0..100) {
            0..30 if self.in_progress.len() < 12 => self.submit_random(),
            0..60 => self.transfer_random(),
            60..70 => self.driver.pool.handle_timeout(self.driver.now),
            _ => self.perform_random_action(),
        }
        self.drain();
    }

    /// Returns a random volume of the model.
    fn random_volume(&mut self) -> Option<String> {
        let usable = self
            .model
            .volumes
            .iter()
            .filter(|(_, volume)| volume.id.is_some() && !volume.is_deleting);
        let names: Vec<String> = usable.map(|(name, _)| name.clone()).collect();
        (!names.is_empty()).then(|| names[self.random.random_range(0..names.len())].clone())
    }

    /// Returns whether no access to these blocks is in progress, because the result of concurrent
    /// accesses is undefined.
    fn is_quiet(&self, volume: &str, from: u64, length: u64) -> bool {
        self.in_progress
            .values()
            .all(|in_progress| match in_progress {
                InProgress::Write {
                    name,
                    first,
                    blocks,
                    ..
                }
                | InProgress::Unmap {
                    name,
                    first,
                    blocks,
                    ..
                }
                | InProgress::Read {
                    name,
                    first,
                    blocks,
                } => name != volume || first + blocks <= from || from + length <= *first,
                InProgress::Copy { .. } | InProgress::Delete { .. } | InProgress::Flush { .. } => {
                    true
                }
            })
    }

    /// Returns whether no change of the volume is in progress, so that a snapshot has exactly one
    /// valid content.
    fn is_unchanging(&self, volume: &str) -> bool {
        self.in_progress
            .values()
            .all(|in_progress| match in_progress {
                InProgress::Write { name, .. } | InProgress::Unmap { name, .. } => name != volume,
                _ => true,
            })
    }

    fn submit_random(&mut self) {
        let Some(name) = self.random_volume() else {
            return;
        };
        let volume = self.model.volumes[&name].id.unwrap();
        // Half of all accesses go to the first two pages, where copies and their origins overlap.
        let blocks_used = [VOLUME_BLOCKS, 2 * PAGE_BLOCKS][self.random.random_range(0..2)];
        let first = self.random.random_range(0..blocks_used);
        let longest = [4, PAGE_BLOCKS, 2 * PAGE_BLOCKS][self.random.random_range(0..3)];
        let blocks = self
            .random
            .random_range(1..=longest)
            .min(VOLUME_BLOCKS - first);
        let (offset_bytes, length_bytes) = (first * BLOCK as u64, blocks * BLOCK as u64);
        let fua = self.random.random_range(0..4) == 0;
        let read_only = self.model.volumes[&name].read_only;
        match self.random.random_range(0..100) {
            0..45 if self.is_quiet(&name, first, blocks) && !read_only => {
                self.value += 1;
                let value = self.value;
                let id = self.driver.submit(Request::Write {
                    volume,
                    offset_bytes,
                    length_bytes: length_bytes as u32,
                    fua,
                });
                self.in_progress.insert(
                    id,
                    InProgress::Write {
                        name,
                        first,
                        blocks,
                        value,
                        fua,
                    },
                );
            }
            45..60 if self.is_quiet(&name, first, blocks) => {
                let id = self.driver.submit(Request::Read {
                    volume,
                    offset_bytes,
                    length_bytes: length_bytes as u32,
                });
                self.in_progress.insert(
                    id,
                    InProgress::Read {
                        name,
                        first,
                        blocks,
                    },
                );
            }
            60..75 if self.is_quiet(&name, first, blocks) && !read_only => {
                self.model.write(&name, first, blocks, 0);
                let ranges = vec![Range {
                    offset_bytes,
                    length_bytes,
                }];
                let id = self.driver.submit(Request::Unmap {
                    volume,
                    ranges,
                    fua,
                });
                self.in_progress.insert(
                    id,
                    InProgress::Unmap {
                        name,
                        first,
                        blocks,
                        fua,
                    },
                );
            }
            75..81 => {
                let covers = self.without_requests_in_progress();
                let id = self.driver.submit(Request::Flush);
                self.in_progress.insert(id, InProgress::Flush { covers });
            }
            81..92 if self.is_unchanging(&name) && self.model.volumes.len() < 6 => {
                self.names += 1;
                let copy = format!("{}{}", &name[..1], self.names);
                let read_only = self.random.random_range(0..4) == 0;
                self.model.copy(&name, &copy);
                self.model.volumes.get_mut(&copy).unwrap().read_only = read_only;
                let request = Request::Snapshot {
                    volume,
                    name: copy.clone(),
                    read_only,
                    quota_bytes: None,
                };
                let id = self.driver.submit(request);
                self.in_progress.insert(id, InProgress::Copy { name: copy });
            }
            92..97 if name.len() > 1 && self.is_quiet(&name, 0, VOLUME_BLOCKS) => {
                self.model.volumes.get_mut(&name).unwrap().is_deleting = true;
                let id = self.driver.submit(Request::Delete { volume });
                self.in_progress.insert(id, InProgress::Delete { name });
            }
            _ => {}
        }
    }

    /// Carries out a random pending action.
    fn perform_random_action(&mut self) {
        if !self.actions.is_empty() {
            let at = self.random.random_range(0..self.actions.len());
            let action = self.actions.swap_remove(at);
            self.driver.perform(action);
        }
    }

    /// Transfers the data of a random access that is ready.
    fn transfer_random(&mut self) {
        if self.ready.is_empty() {
            return;
        }
        let at = self.random.random_range(0..self.ready.len());
        let (id, access, pieces) = self.ready.swap_remove(at);
        let is_complete = match &self.in_progress[&id] {
            InProgress::Write {
                name,
                first,
                blocks,
                value,
                fua,
            } => {
                self.model.write(name, *first, *blocks, *value);
                let data = stamps(*value, *first, *blocks);
                let mut at = 0;
                for piece in &pieces {
                    let Piece::Data {
                        place,
                        length_bytes,
                    } = piece
                    else {
                        panic!("zeros in a write")
                    };
                    let part = &data[at..at + *length_bytes as usize];
                    self.driver
                        .file(place.group)
                        .write_at(place.offset_bytes, part)
                        .unwrap();
                    at += part.len();
                }
                !*fua
            }
            InProgress::Read {
                name,
                first,
                blocks,
            } => {
                let mut data = vec![0; *blocks as usize * BLOCK];
                let mut at = 0;
                for piece in &pieces {
                    let part = &mut data[at..at + piece.length_bytes() as usize];
                    at += part.len();
                    if let Piece::Data { place, .. } = piece {
                        self.driver
                            .file(place.group)
                            .read_at(place.offset_bytes, part)
                            .unwrap();
                    }
                }
                let current =
                    &self.model.volumes[name].blocks[*first as usize..(first + blocks) as usize];
                let expected: Vec<u8> = (*first..)
                    .zip(current)
                    .flat_map(|(block, values)| stamps(*values.last().unwrap(), block, 1))
                    .collect();
                assert!(
                    data == expected,
                    "a read of {name} at {first} returned unexpected data"
                );
                true
            }
            other => panic!("{other:?} has no data"),
        };
        self.driver.moved(access, true);
        if is_complete {
            self.in_progress.remove(&id);
        }
    }

    /// Drains replies and actions, and compares the pool's counts with a walk.
    fn drain(&mut self) {
        let ids: Vec<RequestId> = self.in_progress.keys().copied().collect();
        for id in ids {
            while let Some(outcome) = self.driver.take_reply(id) {
                self.handle_reply(id, outcome);
            }
        }
        while let Some(action) = self.driver.pool.poll_action() {
            self.actions.push(action);
        }
        if self.random.random_range(0..16) == 0 {
            self.driver.assert_clean();
        }
    }

    fn handle_reply(&mut self, id: RequestId, outcome: Outcome) {
        if let Outcome::Ready { access, pieces } = outcome {
            self.ready.push((id, access, pieces));
            return;
        }
        let done = self.in_progress.remove(&id).unwrap();
        match (done, outcome) {
            (
                InProgress::Write {
                    name,
                    first,
                    blocks,
                    fua: true,
                    ..
                }
                | InProgress::Unmap {
                    name,
                    first,
                    blocks,
                    fua: true,
                },
                Outcome::Done,
            ) => {
                self.model.settle(&name, first, blocks);
            }
            (InProgress::Unmap { fua: false, .. }, Outcome::Done) => {}
            (InProgress::Flush { covers }, Outcome::Done) => self.check_flush(&covers),
            (InProgress::Copy { name }, Outcome::Created(volume)) => {
                self.model.created(&name, volume)
            }
            (InProgress::Delete { name }, Outcome::Done) => {
                self.model.volumes.remove(&name);
            }
            (InProgress::Write { .. }, Outcome::Failed(Failure::Full)) => self.full += 1,
            // The request had no effect.
            (
                InProgress::Unmap {
                    name,
                    first,
                    blocks,
                    ..
                },
                Outcome::Failed(Failure::Full),
            ) => {
                self.full += 1;
                let volume = self.model.volumes.get_mut(&name).unwrap();
                for values in &mut volume.blocks[first as usize..(first + blocks) as usize] {
                    values.pop();
                }
            }
            (done, outcome) => panic!("{done:?} was answered {outcome:?}"),
        }
    }

    /// Returns the model without the requests in progress. Writes enter the model only when their
    /// data is transferred.
    fn without_requests_in_progress(&self) -> Model {
        let mut model = self.model.clone();
        for in_progress in self.in_progress.values() {
            if let InProgress::Unmap {
                name,
                first,
                blocks,
                ..
            } = in_progress
            {
                let volume = model.volumes.get_mut(name).unwrap();
                for values in &mut volume.blocks[*first as usize..(first + blocks) as usize] {
                    values.pop();
                }
            }
        }
        model
    }

    /// Records that the blocks are on stable storage as they were at the flush's request, or newer.
    fn check_flush(&mut self, covers: &Model) {
        for (name, covered) in &covers.volumes {
            let Some(current) = self.model.volumes.get_mut(name) else {
                continue;
            };
            for (values, covered) in current.blocks.iter_mut().zip(&covered.blocks) {
                let last = covered.last().unwrap();
                if let Some(at) = values.iter().position(|value| value == last) {
                    values.drain(..at);
                }
            }
        }
    }

    /// Cuts the power and checks that all durable data is present.
    fn cut_off(&mut self) -> Result<(), String> {
        let position = self.recorder.position();
        let crash = self.recorder.crash(position);
        for turn in 0..6 {
            let random = &mut self.random;
            let image = if turn % 2 == 0 {
                crash.torn_image(&mut || random.next_u64() & 1 == 0)
            } else {
                let odds = [1, 4, 7][turn / 2];
                crash.image(&mut |_| random.next_u64() % 8 < odds)
            };
            let (driver, content) = recover(of_memory(&image), &self.model)?;
            if turn == 0 {
                use_up(driver, &self.model, &content)?;
            }
        }
        Ok(())
    }
}

#[test]
fn concurrent_requests_in_any_order_lose_and_mix_nothing() {
    let (mut full, mut waited) = (0, 0);
    // Each seed is cut off at six images. 200 seeds take half a minute in a test build.
    for seed in 0..scale(200, 4000) {
        let mut simulation = Simulation::new(seed);
        let steps = simulation.random.random_range(50..600);
        for _ in 0..steps {
            simulation.step();
            waited += u64::from(simulation.driver.pool.status().freeing_bytes > 0);
        }
        if let Err(wrong) = simulation.cut_off() {
            panic!("seed {seed}: {wrong}");
        }
        full += simulation.full;
    }
    assert!(
        full > 0 && waited > 0,
        "the pool was never full ({full}), or never had pages to recycle ({waited})"
    );
}

#[test]
fn every_request_completes_once_all_actions_are_done() {
    for seed in 10_000..scale(10_060, 12_000) {
        let mut simulation = Simulation::new(seed);
        for _ in 0..300 {
            simulation.step();
        }
        for _ in 0..10_000 {
            if simulation.in_progress.is_empty() && simulation.actions.is_empty() {
                break;
            }
            simulation.transfer_random();
            simulation.perform_random_action();
            simulation.drain();
        }
        assert!(
            simulation.in_progress.is_empty(),
            "seed {seed}: {:?} did not end",
            simulation.in_progress
        );
        simulation.driver.flush().unwrap();
        simulation.driver.settle();
        simulation.driver.assert_clean();
        assert!(simulation.driver.pool.is_idle());
        assert_eq!(
            simulation.driver.pool.status().freeing_bytes,
            0,
            "all freed pages are recycled"
        );
    }
}
