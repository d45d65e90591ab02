//! A job, two targets and the network between them, in virtual time. Bytes arrive after a delay,
//! accesses to the LUs complete at once or after a service time. Nothing else takes time.
use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hakaru_backup::{Job, JobEvent, Leg, Settings, Side};
use hakaru_contract::backup::{BackupJob, Compression, Lu};
use hakaru_iscsi_target::{
    Access, ConnectionId, Io, IoFailure, IoOp, IoResult, Limits, LuDescription, Segment,
    TapeLibrary, Target, TargetConfig,
};
use hakaru_stats::Latencies;
use hakaru_tape::timing::TimedDrive;
use hakaru_units::Time;

/// Maximum length of a piece transferred at a time, bytes; odd, so that pieces cut PDUs at every
/// place.
const PIECE_BYTES: usize = 60_001;

/// Bytes of an LU, and its injected faults.
pub struct Disk {
    pub bytes: Vec<u8>,
    /// Service time of an access. Reads of every other block take twice as long, so that they
    /// overtake each other.
    pub service: Duration,
    /// The first write that reaches this byte fails with this error, and so do all later ones.
    pub write_error_from: Option<(u64, IoFailure)>,
    /// Reads of this byte fail.
    pub unreadable: Option<u64>,
    /// Bytes as of the last flush, which survive a power cut.
    pub flushed: Vec<u8>,
    pub flushes: u32,
    /// The times of a tape drive whose cartridges these bytes are.
    pub drive: Option<TimedDrive>,
}

struct Array {
    target: Target,
    disk: Disk,
    connections: BTreeMap<Leg, ConnectionId>,
    /// Accesses in progress, by the instant at which they end.
    busy: BTreeMap<(Time, u64), Io>,
}

enum Flight {
    ToTarget(Leg, Vec<u8>),
    ToJob(Leg, Vec<u8>),
}

/// The entire simulation.
pub struct Scene {
    pub now: Time,
    pub job: Job,
    pub latencies: Latencies,
    pub events: Vec<JobEvent>,
    /// One-way delay.
    pub delay: Duration,
    arrays: [Array; 2],
    flights: BTreeMap<(Time, u64), Flight>,
    serial: u64,
}

fn address(host: u8) -> SocketAddr {
    (Ipv4Addr::new(10, 0, 0, host), 3260).into()
}

/// Returns bytes that do not repeat.
pub fn image(length: usize, seed: u64) -> Vec<u8> {
    let word = |i: u64| {
        (i + seed + 1)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(31)
    };
    (0..length as u64 / 8)
        .flat_map(|i| word(i).to_le_bytes())
        .collect()
}

/// Returns a job that copies `length_bytes` in blocks of 16 KiB.
pub fn job(length_bytes: u64) -> BackupJob {
    let lu = |name: &str| Lu {
        portal: "10.0.0.1:3260".into(),
        target_name: format!("iqn.2013-01.lab:{name}"),
        lun: 0,
        initiator_name: "iqn.2013-01.lab:kvm-1".into(),
    };
    BackupJob {
        name: "vm-1".into(),
        source: lu("primary"),
        source_offset_bytes: 0,
        destination: lu("vtl"),
        destination_offset_bytes: 0,
        length_bytes,
        block_bytes: 16_384,
        depth: 4,
        streams: 1,
        rate_limit_bytes_per_s: None,
        compression: Compression::None,
        verify: false,
        tape: None,
        disks: None,
    }
}

impl Array {
    fn new(name: &str, bytes: Vec<u8>) -> Array {
        let lu = LuDescription {
            write_cache: true,
            ..LuDescription::new(0, bytes.len() as u64)
        };
        Array::of_units(name, bytes, vec![lu])
    }

    /// Creates an array whose LU 0 is a changer, with a drive at LUN 1.
    fn library(name: &str, library: TapeLibrary) -> Array {
        let changer = LuDescription::changer(0, library);
        let bytes = vec![0; changer.size_bytes as usize];
        Array::of_units(name, bytes, vec![changer, LuDescription::tape_drive(1)])
    }

    fn of_units(name: &str, bytes: Vec<u8>, lus: Vec<LuDescription>) -> Array {
        let target = Target::new(TargetConfig {
            target_name: format!("iqn.2013-01.lab:{name}"),
            portals: vec![address(1)],
            port_groups: Vec::new(),
            lus,
            access: Access::default(),
            limits: Limits::default(),
        });
        Array {
            target,
            disk: Disk {
                flushed: bytes.clone(),
                bytes,
                service: Duration::ZERO,
                write_error_from: None,
                unreadable: None,
                flushes: 0,
                drive: None,
            },
            connections: BTreeMap::new(),
            busy: BTreeMap::new(),
        }
    }
}

impl Disk {
    fn access(&mut self, op: IoOp) -> IoResult {
        match op {
            IoOp::Read {
                offset_bytes,
                length_bytes,
                ..
            } => {
                let range = offset_bytes..offset_bytes + u64::from(length_bytes);
                if self.unreadable.is_some_and(|at| range.contains(&at)) {
                    return IoResult::Failed(IoFailure::Read);
                }
                IoResult::ReadData(self.bytes[range.start as usize..range.end as usize].to_vec())
            }
            IoOp::Write {
                offset_bytes, data, ..
            } => {
                let end = offset_bytes + data.len() as u64;
                match self.write_error_from {
                    Some((from, failure)) if end > from => IoResult::Failed(failure),
                    _ => {
                        self.bytes[offset_bytes as usize..end as usize].copy_from_slice(&data);
                        IoResult::Written(data)
                    }
                }
            }
            IoOp::Tape { .. } => IoResult::Done,
            IoOp::Flush | IoOp::FlushPart { .. } => {
                self.flushed.clone_from(&self.bytes);
                self.flushes += 1;
                IoResult::Flushed
            }
            _ => panic!("a backup issues no other command"),
        }
    }

    fn service_time(&mut self, now: Time, op: &IoOp) -> Duration {
        match op {
            IoOp::Tape { motion, .. } => {
                let begun = now.as_ns() as f64 / 1e9;
                let drive = self
                    .drive
                    .as_mut()
                    .expect("a timed library has a timed drive");
                Duration::from_secs_f64((drive.begin(begun, *motion) - begun).max(0.0))
            }
            IoOp::Read { offset_bytes, .. } if (offset_bytes / 16_384).is_multiple_of(2) => {
                2 * self.service
            }
            _ => self.service,
        }
    }
}

impl Scene {
    /// Creates a connected job between a source that holds `image` and a destination of `size`
    /// zeros.
    pub fn new(job: BackupJob, image: Vec<u8>, size: usize) -> Scene {
        Scene::between(job, image, Array::new("vtl", vec![0; size]))
    }

    /// Creates a connected job between a source that holds `image` and a tape library, whose drive
    /// has these times.
    pub fn to_tape(
        job: BackupJob,
        image: Vec<u8>,
        library: TapeLibrary,
        drive: Option<TimedDrive>,
    ) -> Scene {
        let limit = Duration::from_secs(600);
        Scene::to_tape_within(job, image, library, drive, [limit, limit])
    }

    /// As [`Scene::to_tape`], with these time limits of commands to disks and to tapes.
    pub fn to_tape_within(
        job: BackupJob,
        image: Vec<u8>,
        library: TapeLibrary,
        drive: Option<TimedDrive>,
        limits: [Duration; 2],
    ) -> Scene {
        let mut array = Array::library("vtl", library);
        array.disk.drive = drive;
        Scene::within(job, image, array, limits)
    }

    fn between(job: BackupJob, image: Vec<u8>, destination: Array) -> Scene {
        let limit = Duration::from_secs(600);
        Scene::within(job, image, destination, [limit, limit])
    }

    fn within(
        job: BackupJob,
        image: Vec<u8>,
        destination: Array,
        [timeout, tape_timeout]: [Duration; 2],
    ) -> Scene {
        let settings = Settings {
            keys: hakaru_contract::LoginKeys::default(),
            chap: None,
            timeout,
            tape_timeout,
            seed: 1,
        };
        let mut scene = Scene {
            now: Time(1_000_000_000),
            job: Job::new(Arc::new(job), &settings, 0, 0),
            latencies: Latencies::default(),
            events: Vec::new(),
            delay: Duration::from_micros(50),
            arrays: [Array::new("primary", image), destination],
            flights: BTreeMap::new(),
            serial: 0,
        };
        for leg in scene.job.legs() {
            let now = scene.now;
            let array = scene.array(leg);
            let peer = address(leg.0 as u8 + 2);
            let connection = array.target.handle_connected(now, 0, address(1), peer);
            array.connections.insert(leg, connection.unwrap());
            scene.job.handle_connected(now, leg);
        }
        scene.settle();
        scene
    }

    pub fn disk(&mut self, side: Side) -> &mut Disk {
        &mut self.arrays[side as usize].disk
    }

    /// Advances the time until an event matches `wanted`. Returns all events so far.
    ///
    /// # Panics
    /// If nothing is pending before an event matches.
    pub fn run_until(&mut self, wanted: impl Fn(&JobEvent) -> bool) -> &[JobEvent] {
        while !self.events.iter().any(&wanted) {
            assert!(
                self.step(Time::MAX),
                "nothing is pending: {:?}",
                self.events
            );
        }
        &self.events
    }

    /// Advances the time by `time`.
    pub fn run_for(&mut self, time: Duration) {
        let until = self.now + time;
        while self.step(until) {}
        self.now = until;
    }

    /// Runs from ready to the end of the copy, successful or not.
    pub fn copy(&mut self) -> &JobEvent {
        self.run_until(|event| *event == JobEvent::Ready);
        self.begin();
        let is_end = |e: &JobEvent| matches!(e, JobEvent::Copied { .. } | JobEvent::Failed(_));
        self.run_until(is_end)
            .iter()
            .find(|event| is_end(event))
            .unwrap()
    }

    pub fn begin(&mut self) {
        self.job.begin(self.now);
        self.settle();
    }

    pub fn mount(&mut self) {
        self.job.mount(self.now);
        self.settle();
    }

    pub fn verify(&mut self) -> &[JobEvent] {
        self.job.verify(self.now);
        self.settle();
        self.run_until(|event| *event == JobEvent::Verified)
    }

    pub fn end(&mut self) {
        self.job.end(self.now);
        self.settle();
    }

    /// Removes an array and its connections.
    pub fn lose(&mut self, side: Side) {
        for leg in self.job.legs().filter(|leg| leg.side() == side) {
            let (now, latencies) = (self.now, &mut self.latencies);
            self.job
                .handle_closed(now, leg, "(reset by the target)", latencies);
        }
        self.settle();
    }

    fn array(&mut self, leg: Leg) -> &mut Array {
        &mut self.arrays[leg.side() as usize]
    }

    /// Processes the next event before `until`. Returns whether there was one.
    fn step(&mut self, until: Time) -> bool {
        let timer = self
            .job
            .legs()
            .filter_map(|leg| Some((self.job.poll_timeout(leg)?, leg)))
            .min();
        let flight = self.flights.keys().next().map(|(at, _)| *at);
        let done = self
            .arrays
            .iter()
            .filter_map(|array| Some(array.busy.keys().next()?.0))
            .min();
        let timer_at = timer.map(|(at, _)| at);
        let Some(next) = [flight, done, timer_at].into_iter().flatten().min() else {
            return false;
        };
        if next > until {
            return false;
        }
        self.now = self.now.max(next);
        let now = self.now;
        if flight == Some(next) {
            let (_, flight) = self.flights.pop_first().unwrap();
            match flight {
                Flight::ToTarget(leg, bytes) => {
                    let array = self.array(leg);
                    let connection = array.connections[&leg];
                    array.target.handle_received(now, connection, &bytes);
                }
                Flight::ToJob(leg, bytes) => {
                    let latencies = &mut self.latencies;
                    self.job.handle_received(now, leg, &bytes, latencies);
                }
            }
        } else if done == Some(next) {
            for array in &mut self.arrays {
                if array
                    .busy
                    .first_key_value()
                    .is_some_and(|((at, _), _)| *at == next)
                {
                    let (_, Io { id, op, .. }) = array.busy.pop_first().unwrap();
                    let result = array.disk.access(op);
                    array.target.handle_io_done(now, id, result);
                    break;
                }
            }
        } else if let Some((_, leg)) = timer {
            self.job.handle_timeout(now, leg, &mut self.latencies);
        }
        self.job.issue(now);
        self.settle();
        true
    }

    /// Sends all pending data and starts all pending accesses.
    fn settle(&mut self) {
        // A shell issues for each leg that it serves.
        let mut served = 0;
        while self.job.poll_transmit().is_some() {
            self.job.issue(self.now);
            served += 1;
            assert!(
                served < 10_000,
                "serving a leg gives another one work for ever"
            );
        }
        self.events
            .extend(std::iter::from_fn(|| self.job.poll_event()));
        for leg in self.job.legs() {
            let bytes: Vec<u8> = self.job.transmit(leg).slices().flatten().copied().collect();
            self.job.transmit(leg).advance(self.now, bytes.len());
            self.send(&bytes, |piece| Flight::ToTarget(leg, piece));
        }
        for side in 0..2 {
            self.serve(side);
        }
    }

    fn serve(&mut self, side: usize) {
        let now = self.now;
        let array = &mut self.arrays[side];
        while let Some(io) = array.target.poll_io() {
            self.serial += 1;
            let at = now + array.disk.service_time(now, &io.op);
            array.busy.insert((at, self.serial), io);
        }
        let mut outgoing = VecDeque::new();
        for (leg, connection) in &array.connections {
            let mut bytes = Vec::new();
            for segment in array.target.transmit(*connection).segments() {
                match segment {
                    Segment::Bytes(piece) => bytes.extend_from_slice(piece),
                    Segment::Lu { .. } => panic!("this store has no data to read in place"),
                }
            }
            let sent = bytes.len();
            array
                .target
                .handle_transmitted(now, *connection, sent, &mut |_, _, _| ());
            outgoing.push_back((*leg, bytes));
        }
        while array.target.poll_transmit().is_some() {}
        for (leg, bytes) in outgoing {
            self.send(&bytes, |piece| Flight::ToJob(leg, piece));
        }
    }

    fn send(&mut self, bytes: &[u8], flight: impl Fn(Vec<u8>) -> Flight) {
        for piece in bytes.chunks(PIECE_BYTES) {
            self.serial += 1;
            let arrives = self.now + self.delay;
            self.flights
                .insert((arrives, self.serial), flight(piece.to_vec()));
        }
    }
}
