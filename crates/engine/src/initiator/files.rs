//! VMs whose destination is a file or block device of this machine. They run the same loads as
//! iSCSI VMs, through a [`FileQueue`].
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use hakaru_contract::initiator::{Destination, Vm};
use hakaru_iscsi_session::Volume;
use hakaru_load::{
    Access, Counters, Load, Op, Payload, Request, RequestId, Settings, Verifier, resolve_region,
    volume_id,
};
use hakaru_runtime::file::{
    FileDone, FileHandle, FileOp, FileQueue, FileRequest, PageBuffer, RETRY_AFTER,
};
use hakaru_runtime::{Event, Reactor, Token, clock};
use hakaru_units::Time;
use serde_json::{Value, json};

use super::failures::{of_corruption, of_file_request, usage_of};
use super::kernel_paths::DevicePaths;
use super::ledger::Ledger;
use crate::failure::{Failure, OrEnvironment};

/// Token of the queue. Sessions have smaller tokens.
const TOKEN: Token = Token(1 << 32);

struct FileVm {
    vm: Vm,
    load: Load,
    file: FileHandle,
    block_bytes: u32,
    capacity_bytes: u64,
    /// Buffers that no request uses, by length.
    spare: HashMap<u32, Vec<PageBuffer>>,
    writes: u64,
    /// Paths of the kernel below the device, if the configuration says that it has some.
    paths: Option<DevicePaths>,
}

/// All VMs on files.
pub struct Files {
    queue: FileQueue<PageBuffer>,
    settings: Arc<Settings>,
    vms: Vec<FileVm>,
    /// A completed request that is not handled yet. A request that the page cache serves completes
    /// during its submission.
    next_done: Option<FileDone<PageBuffer>>,
    /// Completed requests that are being handled.
    ready: Vec<FileDone<PageBuffer>>,
}

impl Files {
    pub fn new(reactor: &Reactor, settings: Arc<Settings>) -> Result<Files, Failure> {
        let queue = FileQueue::new(reactor, TOKEN)
            .or_environment("create a queue for files", "raise the limit of open files")?;
        Ok(Files {
            queue,
            settings,
            vms: Vec::new(),
            next_done: None,
            ready: Vec::new(),
        })
    }

    /// Opens the destination of a VM, which is the `index`th of the configuration. Never creates a
    /// file, because a mistyped path must fail.
    pub fn add(&mut self, vm: &Vm, index: usize) -> Result<(), Failure> {
        let Destination::File {
            path,
            direct,
            multipath,
        } = &vm.destination
        else {
            unreachable!("the caller checked the destination")
        };
        let writes = vm.pattern.read_percent < 100;
        let hint =
            "create it first (`truncate -s 1G FILE`); `direct` needs a file system with direct I/O";
        let opened = FileHandle::open(Path::new(path), writes, *direct)
            .and_then(|file| Ok((file.size_bytes()?, file.block_bytes()?, file)));
        let (capacity_bytes, block_bytes, file) =
            opened.or_environment(format_args!("open {path} for {}", vm.name), hint)?;
        let volume = Volume {
            block_bytes,
            capacity_bytes,
        };
        let field = format!("vms[{index}]");
        let extent =
            resolve_region(&field, &vm.region, &vm.pattern, &volume).map_err(|e| usage_of(&e))?;
        let mut load = Load::new(vm, extent);
        if let Some(run) = self.settings.verify_run {
            let payload = Arc::clone(self.settings.payload.bytes());
            load = load.with_verifier(Verifier::new(volume_id(path), run, block_bytes, payload));
        }
        let paths = multipath
            .then(|| DevicePaths::open(path, &vm.name))
            .transpose()?;
        let vm = vm.clone();
        self.vms.push(FileVm {
            vm,
            load,
            file,
            block_bytes,
            capacity_bytes,
            spare: HashMap::new(),
            writes: 0,
            paths,
        });
        Ok(())
    }

    pub fn count(&self) -> usize {
        self.vms.len()
    }

    /// Returns the facts for `ready`.
    pub fn facts(&self) -> BTreeMap<String, Value> {
        let Some(first) = self.vms.first() else {
            return BTreeMap::new();
        };
        let file =
            json!({ "block_bytes": first.block_bytes, "capacity_bytes": first.capacity_bytes });
        BTreeMap::from([
            ("file".to_owned(), file),
            ("io_backend".to_owned(), json!(self.queue.backend())),
        ])
    }

    pub fn begin(&mut self, ledger: &mut Ledger) {
        let now = clock::now();
        self.vms
            .iter_mut()
            .for_each(|file_vm| file_vm.load.begin(now));
        self.serve(ledger);
    }

    pub fn measure(&mut self, now: Time) {
        self.vms
            .iter_mut()
            .for_each(|file_vm| file_vm.load.measure(now));
    }

    pub fn end(&mut self, now: Time, ledger: &mut Ledger) {
        for file_vm in &mut self.vms {
            file_vm.load.end(now, &mut ledger.latencies);
        }
    }

    pub fn in_flight(&self) -> usize {
        self.vms
            .iter()
            .map(|file_vm| file_vm.load.in_flight())
            .sum()
    }

    pub fn visit_counters(&mut self, now: Time, visit: &mut dyn FnMut(&str, Counters)) {
        for file_vm in &mut self.vms {
            visit(&file_vm.vm.name, file_vm.load.counters(now));
        }
    }

    /// Calls `visit` with the entity and the counters of the paths of every VM that has some.
    pub fn visit_paths(&mut self, now: Time, visit: &mut dyn FnMut(String, BTreeMap<String, f64>)) {
        for file_vm in &mut self.vms {
            if let Some(paths) = &mut file_vm.paths {
                visit(format!("paths/{}", file_vm.vm.name), paths.counters(now));
            }
        }
    }

    /// Returns the instant at which [`Files::serve`] is due.
    pub fn poll_timeout(&self) -> Time {
        if self.next_done.is_some() {
            return Time::ZERO;
        }
        let retry = self.queue.must_retry().then(|| clock::now() + RETRY_AFTER);
        self.vms
            .iter()
            .filter_map(|file_vm| file_vm.load.poll_timeout())
            .chain(retry)
            .min()
            .unwrap_or(Time::MAX)
    }

    /// Handles the event if it belongs to the queue. Returns whether it does.
    pub fn handle_event(&mut self, event: Event) -> bool {
        if event.token == TOKEN {
            self.queue.handle_event();
        }
        event.token == TOKEN
    }

    /// Handles completed requests and begins those that are due.
    pub fn serve(&mut self, ledger: &mut Ledger) {
        if self.vms.is_empty() {
            return;
        }
        let mut ready = std::mem::take(&mut self.ready);
        ready.extend(self.next_done.take());
        ready.extend(std::iter::from_fn(|| self.queue.poll_done()));
        // All of them have ended by now. Checking the data of one must not lengthen the others.
        let now = clock::now();
        for done in ready.drain(..) {
            self.handle_done(now, done, ledger);
        }
        self.ready = ready;
        for index in 0..self.vms.len() {
            self.issue(index, ledger);
        }
        self.queue.flush();
        self.next_done = self.queue.poll_done();
    }

    fn issue(&mut self, index: usize, ledger: &mut Ledger) {
        let file_vm = &mut self.vms[index];
        while let Some(request) = file_vm.load.poll_request(clock::now()) {
            if let Some(paths) = &mut file_vm.paths {
                paths.begin(clock::now());
            }
            match file_vm.prepare(&request, &self.settings.payload) {
                Ok(buffer) => self.queue.submit(FileRequest {
                    id: (index as u64) << 32 | u64::from(request.id.0),
                    file: file_vm.file.clone(),
                    op: match request.access.op {
                        Op::Read => FileOp::Read,
                        Op::Write => FileOp::Write { durable: false },
                    },
                    offset_bytes: request.access.offset_bytes,
                    buffer,
                }),
                Err(failure) => return ledger.fail(failure),
            }
        }
    }

    fn handle_done(&mut self, now: Time, done: FileDone<PageBuffer>, ledger: &mut Ledger) {
        let (file_vm, id) = (
            &mut self.vms[(done.id >> 32) as usize],
            RequestId(done.id as u32),
        );
        let access = file_vm.load.access(id);
        let result = done.result;
        if result.is_ok()
            && access.op == Op::Read
            && let Err(corruption) = file_vm.load.check(&access, &done.buffer)
        {
            ledger.fail(of_corruption(&file_vm.vm, &corruption));
        }
        file_vm
            .load
            .handle_done(now, id, result.is_ok(), &mut ledger.latencies);
        if let Some(paths) = &mut file_vm.paths {
            paths.end(now, file_vm.load.in_flight() > 0);
        }
        if let Err(error) = result {
            ledger.add_failed_request(of_file_request(&file_vm.vm, access.op, &error));
        }
        file_vm
            .spare
            .entry(access.length_bytes)
            .or_default()
            .push(done.buffer);
    }
}

impl FileVm {
    /// Returns a buffer for the request, filled if it is a write.
    fn prepare(&mut self, request: &Request, payload: &Payload) -> Result<PageBuffer, Failure> {
        let access = request.access;
        let mut buffer = match self.spare.entry(access.length_bytes).or_default().pop() {
            Some(buffer) => buffer,
            None => PageBuffer::new(access.length_bytes as usize).or_environment(
                "allocate memory for a request",
                "use a smaller queue depth or request size",
            )?,
        };
        if access.op == Op::Write {
            self.fill(&access, payload, &mut buffer);
        }
        Ok(buffer)
    }

    fn fill(&mut self, access: &Access, payload: &Payload, buffer: &mut PageBuffer) {
        if self.load.verifies() {
            let mut stamped = Vec::with_capacity(buffer.len());
            self.load.stamp(access, &mut stamped);
            buffer.copy_from_slice(&stamped);
        } else {
            let begin = payload.begin_of(self.writes, access.length_bytes);
            buffer.copy_from_slice(&payload.bytes()[begin..begin + access.length_bytes as usize]);
        }
        self.writes += 1;
    }
}
