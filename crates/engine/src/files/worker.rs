//! One tool of a load in a thread of its own, and the reports of its failures.
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hakaru_contract::ErrorClass;
use hakaru_files::{Action, Completion, Failed, Journal, Measured, Operation, Tool, Units};
use hakaru_runtime::clock;
use hakaru_units::Time;

use super::crew::{Report, Shared};
use super::root::{Ended, Root, Transport};
use super::state::State;
use super::trees;
use crate::failure::Failure;

/// Durations in a journal, and age of a journal, from which on it is absorbed.
const JOURNAL_LEN: usize = 64;
const JOURNAL_AGE: Duration = Duration::from_millis(20);
/// Failures that are reported one by one.
const REPORTED_MAX: u64 = 20;
/// Time that a tool has after the order to end to complete the file that it writes. Below the time
/// that threads have to end.
const COMPLETION_TIME: Duration = Duration::from_secs(10);
/// Failed files in succession after which a tool gives up.
const FAILED_MAX: u32 = 100;

/// One tool and its transport.
pub struct Worker {
    tool: Tool,
    transport: Box<dyn Transport>,
    /// Destination, for messages.
    root: Arc<dyn Root>,
    state: Arc<State>,
    journal: Journal,
    absorbed: Time,
    /// Failed files in succession.
    failed: u32,
    /// Operations begun ahead that have not ended.
    in_flight: usize,
    /// Data of the writes begun ahead.
    buffers: Buffers,
    /// Empty, to be used again.
    ended: Vec<Ended>,
}

/// End of an operation, with the data of a read.
struct Done<'a> {
    started: Time,
    ended: Time,
    outcome: std::io::Result<u64>,
    data: &'a [u8],
}

/// Buffers of writes in flight. A buffer is free again once the transport has dropped its copy.
#[derive(Default)]
struct Buffers(Vec<Arc<Vec<u8>>>);

impl Buffers {
    /// Returns a buffer of any length that nothing else refers to.
    fn take(&mut self) -> Arc<Vec<u8>> {
        let free = self
            .0
            .iter()
            .position(|buffer| Arc::strong_count(buffer) == 1);
        free.map(|place| self.0.swap_remove(place))
            .unwrap_or_default()
    }

    /// Keeps a buffer that is in use, to be taken again.
    fn lend(&mut self, buffer: &Arc<Vec<u8>>) {
        self.0.push(Arc::clone(buffer));
    }
}

impl Worker {
    /// Creates a tool that begins at once.
    pub fn new(
        tool: Tool,
        transport: Box<dyn Transport>,
        root: Arc<dyn Root>,
        state: Arc<State>,
    ) -> Worker {
        Worker {
            tool,
            transport,
            root,
            state,
            journal: Journal::default(),
            absorbed: clock::now(),
            failed: 0,
            in_flight: 0,
            buffers: Buffers::default(),
            ended: Vec::new(),
        }
    }

    /// Works until no tree is left, or until the threads must end. Counters and times are in the
    /// shared state afterwards.
    ///
    /// # Errors
    /// The server was lost, or too many files failed in succession.
    pub fn run(
        &mut self,
        units: &Mutex<Units>,
        block_bytes: usize,
        shared: &Shared,
    ) -> Result<(), Failure> {
        let done = self.work(units, block_bytes, shared);
        if self.tool.has_cut() {
            self.state.has_cut.store(true, Ordering::Relaxed);
        }
        self.state.meter().absorb(&mut self.journal);
        done
    }

    fn work(
        &mut self,
        units: &Mutex<Units>,
        block_bytes: usize,
        shared: &Shared,
    ) -> Result<(), Failure> {
        let mut buffer = Arc::new(vec![0; block_bytes]);
        let mut scratch = vec![0; block_bytes];
        let mut operations = Vec::new();
        let runs_ahead = self.transport.conduct().ahead.is_some();
        let (mut cut_at, mut tree) = (None, None);
        loop {
            if shared.is_stopped() {
                let now = clock::now();
                if now < *cut_at.get_or_insert(now + COMPLETION_TIME) {
                    self.tool.stop();
                } else {
                    self.tool.cut();
                }
            }
            if let Some(due) = self.tool.due() {
                shared.wait_until(due);
                if shared.is_stopped() {
                    continue;
                }
            }
            self.tool.poll_operations(&mut operations);
            if runs_ahead {
                self.begin(&mut operations);
                if self.in_flight > 0 {
                    self.complete(&mut scratch, shared)?;
                    continue;
                }
            }
            if let Some(operation) = operations.pop() {
                self.execute(&operation, &mut buffer, &mut scratch, shared)?;
            } else if shared.is_stopped() {
                return Ok(());
            } else if let Some(next) = trees::exchange(units, tree) {
                tree = Some(next);
                self.tool.assign(next, clock::now());
            } else {
                shared.send(Report::OutOfWork);
                return Ok(());
            }
        }
    }

    /// Carries out one operation.
    fn execute(
        &mut self,
        operation: &Operation,
        buffer: &mut Arc<Vec<u8>>,
        scratch: &mut [u8],
        shared: &Shared,
    ) -> Result<(), Failure> {
        if let Action::Write { length, .. } = operation.action {
            let part = &mut Arc::make_mut(buffer)[..length as usize];
            self.tool.fill(operation, part);
        }
        let started = clock::now();
        let outcome = self.transport.execute(operation, buffer);
        let ended = clock::now();
        let read = match (&operation.action, &outcome) {
            (Action::Read { .. }, Ok(read)) => *read as usize,
            _ => 0,
        };
        let done = Done {
            started,
            ended,
            outcome,
            data: &buffer[..read],
        };
        self.conclude(operation, done, scratch, shared)
    }

    /// Begins operations ahead of the ends of those in flight.
    fn begin(&mut self, operations: &mut Vec<Operation>) {
        if operations.is_empty() {
            return;
        }
        self.in_flight += operations.len();
        let begun = operations.drain(..).map(|operation| {
            let data = match operation.action {
                Action::Write { length, .. } => {
                    let mut data = self.buffers.take();
                    let part = Arc::make_mut(&mut data);
                    part.resize(length as usize, 0);
                    self.tool.fill(&operation, part);
                    self.buffers.lend(&data);
                    Some(data)
                }
                _ => None,
            };
            (operation, data)
        });
        self.transport.begin(begun.collect());
    }

    /// Waits until operations in flight have ended, and concludes them.
    fn complete(&mut self, scratch: &mut [u8], shared: &Shared) -> Result<(), Failure> {
        let mut ended = std::mem::take(&mut self.ended);
        self.transport.wait(&mut ended);
        self.in_flight -= ended.len();
        for each in ended.drain(..) {
            let Some(operation) = self.tool.operation(each.id).cloned() else {
                continue;
            };
            let done = Done {
                started: each.started,
                ended: each.ended,
                outcome: each.outcome,
                data: &each.data,
            };
            self.conclude(&operation, done, scratch, shared)?;
        }
        self.ended = ended;
        Ok(())
    }

    /// Checks, counts and reports the end of an operation.
    fn conclude(
        &mut self,
        operation: &Operation,
        done: Done<'_>,
        scratch: &mut [u8],
        shared: &Shared,
    ) -> Result<(), Failure> {
        let Done {
            started,
            ended,
            outcome,
            data,
        } = done;
        if outcome.is_ok()
            && let Some(wrong) = self.tool.check(operation, data, scratch, &mut self.journal)
        {
            let path = self.root.locate(&wrong.path);
            self.complain(shared, || {
                Failure::new(
                    ErrorClass::Verification,
                    format_args!("{path}: byte {} is wrong", wrong.offset),
                    "compare the file with `hakaru files verify`",
                )
            });
        }
        let completion = Completion {
            id: operation.id,
            started,
            ended,
            outcome: outcome.map_err(|error| error.to_string()),
        };
        if self.tool.handle_completion(completion, &mut self.journal) {
            self.failed = 0;
        }
        if let Some(lost) = self.transport.lost() {
            let path = self.root.locate(&operation.path);
            let message = format!("{} of {path}: {}", name_of(operation), lost.message);
            return Err(Failure::new(lost.class, message, lost.hint));
        }
        for failed in self.journal.take_failures() {
            self.handle_failure(&failed, shared)?;
        }
        if self.journal.len() >= JOURNAL_LEN || ended >= self.absorbed + JOURNAL_AGE {
            self.state.meter().absorb(&mut self.journal);
            self.absorbed = ended;
        }
        Ok(())
    }

    fn handle_failure(&mut self, failed: &Failed, shared: &Shared) -> Result<(), Failure> {
        let failure = || {
            let path = self.root.locate(&failed.path);
            let name = failed.of.histogram().trim_end_matches("_latency_ns");
            Failure::environment(
                format_args!("{name} of {path} failed: {}", failed.reason),
                "check the file system and its server",
            )
        };
        self.complain(shared, failure);
        self.failed += 1;
        if self.failed < FAILED_MAX {
            return Ok(());
        }
        let last = failure();
        let message = format!("{FAILED_MAX} files in succession failed; the last: {last}");
        Err(Failure::new(last.class, message, last.hint))
    }

    /// Reports one of the first failures of all tools.
    fn complain(&self, shared: &Shared, failure: impl FnOnce() -> Failure) {
        if self.state.reported.fetch_add(1, Ordering::Relaxed) < REPORTED_MAX {
            shared.send(Report::Complaint(failure()));
        }
    }
}

/// Returns the name of an operation in messages.
fn name_of(operation: &Operation) -> &'static str {
    let histogram = Measured::from(&operation.action).histogram();
    histogram.trim_end_matches("_latency_ns")
}
