//! The disks of jobs whose initiator is this machine's kernel: the shell of their legs, through a
//! [`FileQueue`].
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use hakaru_backup::{DiskOp, DiskRequest, Job, Leg, Side};
use hakaru_contract::backup::{BackupJob, Disks as Paths};
use hakaru_iscsi_session::Volume;
use hakaru_runtime::file::{
    FileDone, FileHandle, FileOp, FileQueue, FileRequest, PageBuffer, RETRY_AFTER,
};
use hakaru_runtime::{Event, Reactor, Token, clock};
use hakaru_units::Time;

use super::failures::of_device;
use super::job_set::JobSet;
use crate::failure::{Failure, OrEnvironment};

/// Token of the queue. Sockets have smaller tokens.
const TOKEN: Token = Token(1 << 32);

/// A request that a disk executes.
struct Pending {
    job: usize,
    leg: Leg,
    tag: u32,
    length_bytes: u32,
}

/// The disks of all jobs, and the queue of their requests.
pub struct Disks {
    queue: FileQueue<PageBuffer>,
    /// Source and destination of each job on disks, by the number of the job.
    files: BTreeMap<usize, [FileHandle; 2]>,
    /// Requests in flight, by their ids.
    pending: HashMap<u64, Pending>,
    next_id: u64,
    /// Buffers that no request uses, by length.
    spare: HashMap<u32, Vec<PageBuffer>>,
    /// A finished request that is not handled yet. A request that the page cache serves finishes
    /// during its submission.
    next_done: Option<FileDone<PageBuffer>>,
}

impl Disks {
    pub fn new(reactor: &Reactor) -> Result<Disks, Failure> {
        let queue = FileQueue::new(reactor, TOKEN)
            .or_environment("create a queue for files", "raise the limit of open files")?;
        Ok(Disks {
            queue,
            files: BTreeMap::new(),
            pending: HashMap::new(),
            next_id: 0,
            spare: HashMap::new(),
            next_done: None,
        })
    }

    /// Opens the disks of job `number`. Never creates a file, because a mistyped path must fail.
    pub fn open(&mut self, number: usize, paths: &Paths, set: &mut JobSet) -> Result<(), Failure> {
        let job = &mut set.jobs[number];
        let (source, volume) = open(job.config(), Side::Source, &paths.source)?;
        let (destination, room) = open(job.config(), Side::Destination, &paths.destination)?;
        self.files.insert(number, [source, destination]);
        for leg in job.legs() {
            let volume = match leg.side() {
                Side::Source => volume,
                Side::Destination => room,
            };
            job.handle_opened(leg, volume);
        }
        set.settle_job(number);
        Ok(())
    }

    /// Returns the name of the queue's backend, as in the facts of `ready`.
    pub fn backend(&self) -> &'static str {
        self.queue.backend()
    }

    /// Returns the instant at which [`Disks::serve`] is due.
    pub fn poll_timeout(&self, set: &JobSet) -> Time {
        if self.next_done.is_some() {
            return Time::ZERO;
        }
        let retry = self.queue.must_retry().then(|| clock::now() + RETRY_AFTER);
        let of_jobs = self.files.keys().filter_map(|job| due(&set.jobs[*job]));
        of_jobs.chain(retry).min().unwrap_or(Time::MAX)
    }

    /// Handles the event if it belongs to the queue. Returns whether it does.
    pub fn handle_event(&mut self, event: Event) -> bool {
        if event.token == TOKEN {
            self.queue.handle_event();
        }
        event.token == TOKEN
    }

    /// Handles finished requests and deadlines, and begins the requests that are due.
    pub fn serve(&mut self, set: &mut JobSet) {
        // Handling one request may take long, and is no part of the time of the others.
        let first = self.next_done.take();
        let all: Vec<_> = first
            .into_iter()
            .chain(std::iter::from_fn(|| self.queue.poll_done()))
            .collect();
        let now = clock::now();
        for done in all {
            self.handle_done(now, done, set);
        }
        for (number, files) in &self.files {
            let now = clock::now();
            let job = &mut set.jobs[*number];
            if due(job).is_some_and(|due| due <= now) {
                job.handle_timeout(now, Leg(0), &mut set.latencies);
            }
            job.issue(clock::now());
            while let Some((leg, request)) = job.poll_disk() {
                let file = files[leg.side() as usize].clone();
                let (op, length_bytes) = operation(&request);
                let buffers = self.spare.entry(length_bytes).or_default();
                let buffer = match prepare(&request, length_bytes, buffers) {
                    Ok(buffer) => buffer,
                    Err(failure) => return set.end(failure),
                };
                let id = self.next_id;
                self.next_id += 1;
                let tag = request.tag;
                let pending = Pending {
                    job: *number,
                    leg,
                    tag,
                    length_bytes,
                };
                self.pending.insert(id, pending);
                self.queue.submit(FileRequest {
                    id,
                    file,
                    op,
                    offset_bytes: request.offset_bytes,
                    buffer,
                });
            }
            set.settle_job(*number);
        }
        self.queue.flush();
        self.next_done = self.queue.poll_done();
    }

    fn handle_done(&mut self, now: Time, done: FileDone<PageBuffer>, set: &mut JobSet) {
        let pending = self.pending.remove(&done.id).expect("each id is used once");
        let Pending { job, leg, tag, .. } = pending;
        if let Err(error) = &done.result {
            let failure = of_device(&set.jobs[job], leg.side(), done.op, error);
            return set.end(failure);
        }
        let (moved, data) = match done.op {
            FileOp::Read => (pending.length_bytes, &*done.buffer),
            FileOp::Write { .. } => (pending.length_bytes, &[][..]),
            _ => (0, &[][..]),
        };
        let latencies = &mut set.latencies;
        set.jobs[job].handle_disk_done(now, leg, tag, moved, data, latencies);
        let spare = self.spare.entry(pending.length_bytes).or_default();
        spare.push(done.buffer);
    }
}

/// Returns the instant at which a job on disks has something to do without an event.
fn due(job: &Job) -> Option<Time> {
    job.poll_timeout(Leg(0))
}

fn open(job: &BackupJob, side: Side, path: &str) -> Result<(FileHandle, Volume), Failure> {
    let hint = "name a disk that exists and supports direct I/O";
    let opened = FileHandle::open(Path::new(path), side == Side::Destination, true)
        .and_then(|file| Ok((file.size_bytes()?, file.block_bytes()?, file)));
    let (capacity_bytes, block_bytes, file) =
        opened.or_environment(format_args!("open {path} for {}", job.name), hint)?;
    let volume = Volume {
        block_bytes,
        capacity_bytes,
    };
    Ok((file, volume))
}

/// Returns the operation of a request on its file, and the length of its buffer. A flush has a
/// buffer of one byte, which it does not use.
fn operation(request: &DiskRequest) -> (FileOp, u32) {
    match &request.op {
        DiskOp::Read(length_bytes) => (FileOp::Read, *length_bytes),
        DiskOp::Write(data) => (FileOp::Write { durable: false }, data.len() as u32),
        DiskOp::Flush => (FileOp::Sync, 1),
    }
}

/// Returns a buffer for a request, with the data of a write.
fn prepare(
    request: &DiskRequest,
    length_bytes: u32,
    spare: &mut Vec<PageBuffer>,
) -> Result<PageBuffer, Failure> {
    let mut buffer = match spare.pop() {
        Some(buffer) => buffer,
        None => PageBuffer::new(length_bytes as usize).or_environment(
            "allocate memory for a request",
            "use a smaller queue depth or block",
        )?,
    };
    if let DiskOp::Write(data) = &request.op {
        buffer.copy_from_slice(data);
    }
    Ok(buffer)
}
