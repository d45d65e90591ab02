//! A load: tools in threads of their own, the phases, and the samples.
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hakaru_contract::files::{FilesDestination, FilesLoad};
use hakaru_contract::{ErrorClass, NamedHistogram};
use hakaru_files::{
    Action, BuildState, Completion, Failed, Forest, Journal, Measured, Meter, Settings, Tool, Units,
};
use hakaru_runtime::{Reactor, clock};
use hakaru_stats::Histogram;
use hakaru_units::Time;

use super::crew::{Crew, Report, Shared, Watched};
use super::directory::Directory;
use super::place::Place;
use super::trees::{self, Progress, Work};
use crate::control::{Control, Counters};
use crate::failure::Failure;
use crate::sampling::Schedule;

/// Entity of all tools together.
const ENTITY: &str = "files";
/// Threads that build and delete the trees of a load.
const BUILDERS: u32 = 4;
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

/// Runs a load: ready, start, build, load, result, removal.
///
/// # Errors
/// As [`super::run`].
pub fn run(config: &FilesLoad, reactor: &Reactor, control: &mut Control) -> Result<(), Failure> {
    let settings = Settings::new(config).map_err(|error| Failure::usage(&error, &error.hint))?;
    if config.build && config.stride > 1 {
        let message = "stride is above 1 with `build`: engines that share trees cannot build them";
        return Err(Failure::usage(message, "build the trees first"));
    }
    let forest = Arc::new(trees::forest_of(&config.trees)?);
    let FilesDestination::Directory { path } = &config.destination;
    let place = Arc::new(open(config, Path::new(path), &forest)?);
    let mut load = Load {
        config,
        settings: Arc::new(settings),
        samples: Schedule::new(config.sample_interval_ms)?,
        progress: Arc::default(),
        state: Arc::default(),
        forest,
        place,
        reactor,
        control: &mut *control,
    };
    load.control.ready(trees::facts(&load.forest, &load.place));
    let done = load.run();
    if config.remove {
        return match (done, load.remove()) {
            (Ok(finished), Ok(())) => finished.report(control),
            (Ok(_), Err(failure)) | (Err(failure), Ok(())) => Err(failure),
            (Err(first), Err(second)) => {
                control.error(&second, false);
                Err(first)
            }
        };
    }
    done?.report(control)
}

/// Results of a load. They are reported last, because the control plane then ends the engine.
struct Finished {
    ended: Time,
    values: BTreeMap<String, f64>,
    histograms: Vec<NamedHistogram>,
    mismatches: u64,
}

impl Finished {
    fn report(self, control: &Control) -> Result<(), Failure> {
        if self.mismatches > 0 {
            return Err(Failure::new(
                ErrorClass::Verification,
                format_args!("{} reads returned wrong data", self.mismatches),
                "the messages before this one name the files",
            ));
        }
        control.result(self.ended, self.values, self.histograms);
        Ok(())
    }
}

fn open(config: &FilesLoad, path: &Path, forest: &Forest) -> Result<Place, Failure> {
    if config.build {
        return Place::for_build(path, forest);
    }
    let (place, marker) = Place::of_trees(path, config.remove)?;
    place.require(&marker, &[BuildState::Complete])?;
    if marker.digest != forest.digest() {
        return Err(Failure::usage(
            format_args!(
                "{} holds trees of another description (digest {}, not {})",
                path.display(),
                marker.digest,
                forest.digest()
            ),
            "use the description that they were built with, or build others",
        ));
    }
    Ok(place)
}

struct Load<'a> {
    config: &'a FilesLoad,
    settings: Arc<Settings>,
    forest: Arc<Forest>,
    place: Arc<Place>,
    samples: Schedule,
    /// Progress of building and deleting.
    progress: Arc<Progress>,
    state: Arc<State>,
    reactor: &'a Reactor,
    control: &'a mut Control,
}

/// State that tools share with the main thread.
#[derive(Default)]
struct State {
    meter: Mutex<Meter>,
    reported: AtomicU64,
    /// Whether a tool left a file shorter than described.
    has_cut: AtomicBool,
}

impl State {
    /// Locks the meter. A panic of a thread that held it ended the process.
    fn meter(&self) -> MutexGuard<'_, Meter> {
        self.meter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the counters. `tools` is the number of running tools.
    fn counters(&self, tools: u32) -> BTreeMap<String, f64> {
        let mut named = BTreeMap::from([("tools_now".to_owned(), f64::from(tools))]);
        self.meter().visit(&mut |name, value| {
            named.insert(name.to_owned(), value as f64);
        });
        named
    }

    /// Ends the interval of all histograms, and returns those with values.
    fn take_intervals(&self, measured: bool) -> Vec<(Measured, Histogram)> {
        let mut meter = self.meter();
        let mut taken = Vec::new();
        for of in Measured::ALL {
            let histogram = meter.latency(of).take_interval(measured, Histogram::clone);
            if !histogram.is_empty() {
                taken.push((of, histogram));
            }
        }
        taken
    }
}

impl Load<'_> {
    fn run(&mut self) -> Result<Finished, Failure> {
        let mut threads = Crew::new(self.reactor)?;
        let done = self.run_phases(&mut threads);
        if done.is_err() {
            threads.abandon(self.control);
        }
        let marked = if self.state.has_cut.load(Ordering::Relaxed) && !self.config.remove {
            // A build repairs them.
            self.place.write_marker(BuildState::Building, &self.forest)
        } else {
            Ok(())
        };
        match (done, marked) {
            (Err(first), Err(second)) => {
                self.control.error(&second, false);
                Err(first)
            }
            (done, marked) => marked.and(done),
        }
    }

    /// Deletes the trees.
    fn remove(mut self) -> Result<(), Failure> {
        let in_use = |path: &Path| {
            let message = format!(
                "the trees in {} are not deleted: a thread still waits for the file system",
                path.display()
            );
            Failure::peer(
                message,
                "delete them with `hakaru files remove` when the file server responds",
            )
        };
        // Every thread that may still write holds a reference.
        if Arc::get_mut(&mut self.place).is_none() {
            return Err(in_use(self.place.directory()));
        }
        self.process(Work::Remove)?;
        let path = self.place.directory().to_owned();
        match Arc::into_inner(self.place) {
            Some(place) => place.remove(),
            None => Err(in_use(&path)),
        }
    }

    fn run_phases(&mut self, threads: &mut Crew) -> Result<Finished, Failure> {
        let ordered = self.watch(threads, None, false)?;
        let mut stopped = !matches!(ordered, Watched::Started(_));
        if let Watched::Started(at) = ordered {
            stopped = self.watch(threads, Some(at), false)? == Watched::Stopped;
            self.samples.start(at);
        }
        for (phase, work, wanted) in [
            ("build", Work::Build, self.config.build),
            ("cold", Work::DropFromCache, self.config.cold),
        ] {
            if wanted && !stopped {
                self.control.phase(phase, clock::now());
                stopped = self.process(work)? == Watched::Stopped;
            }
        }
        if stopped {
            return Ok(Finished {
                ended: clock::now(),
                values: self.values(0, 0),
                histograms: Vec::new(),
                mismatches: 0,
            });
        }
        self.load(threads)
    }

    /// Builds, drops from the cache, or deletes.
    fn process(&mut self, work: Work) -> Result<Watched, Failure> {
        let mut threads = Crew::new(self.reactor)?;
        let (forest, place) = (Arc::clone(&self.forest), Arc::clone(&self.place));
        let progress = Arc::clone(&self.progress);
        let watch = &mut |threads: &mut Crew, work| {
            loop {
                let watched = self.watch(threads, None, false)?;
                match watched {
                    // The trees are deleted because the engine ends.
                    Watched::Stopped if work == Work::Remove => {}
                    Watched::Stopped => {
                        self.end(threads, false)?;
                        return Ok(watched);
                    }
                    Watched::Ended => return Ok(watched),
                    _ => {}
                }
            }
        };
        let done = trees::process(
            work,
            &forest,
            &place,
            BUILDERS,
            &progress,
            &mut threads,
            watch,
        );
        if done.is_err() {
            threads.abandon(self.control);
        }
        done
    }

    fn load(&mut self, threads: &mut Crew) -> Result<Finished, Failure> {
        let begin = clock::now();
        self.spawn_tools(threads)?;
        let mut watched = None;
        if self.config.warmup_s > 0.0 {
            self.control.phase("warmup", begin);
            let until = begin + Duration::from_secs_f64(self.config.warmup_s);
            watched = Some(self.watch(threads, Some(until), false)?);
            if matches!(watched, Some(Watched::OutOfWork | Watched::Ended)) {
                // A rate over what is left would be one of microseconds.
                return Err(Failure::usage(
                    format_args!(
                        "the warm-up of {} s used every file: nothing is left to measure",
                        self.config.warmup_s
                    ),
                    "shorten the warm-up, or use more trees or larger files",
                ));
            }
        }
        let measure = clock::now();
        self.sample(measure, threads.shared(), false);
        self.control.phase("measure", measure);
        let until = self
            .config
            .measure_s
            .map(|s| measure + Duration::from_secs_f64(s));
        if matches!(watched, None | Some(Watched::Reached)) {
            watched = Some(self.watch(threads, until, true)?);
        }
        let drain = clock::now();
        self.sample(drain, threads.shared(), true);
        self.control.phase("drain", drain);
        while watched == Some(Watched::OutOfWork) {
            // The others complete their trees, which is not measured, because fewer tools work.
            watched = Some(self.watch(threads, until, false)?);
        }
        self.end(threads, false)?;
        let ended = clock::now();
        self.sample(ended, threads.shared(), false);
        let values = self.values(drain.ns_since(measure), ended.ns_since(begin));
        let mut histograms = Vec::new();
        let mut meter = self.state.meter();
        for of in Measured::ALL {
            let total = meter.latency(of).total();
            if !total.is_empty() {
                histograms.push(named(of, total));
            }
        }
        let mismatches = meter.mismatches();
        Ok(Finished {
            ended,
            values,
            histograms,
            mismatches,
        })
    }

    fn spawn_tools(&mut self, threads: &mut Crew) -> Result<(), Failure> {
        let FilesLoad {
            first_tree, stride, ..
        } = *self.config;
        let units = Units::new(first_tree, stride, self.config.trees.trees);
        let units = Arc::new(Mutex::new(units));
        for number in 0..self.config.tools {
            let mut worker = Worker {
                tool: Tool::new(Arc::clone(&self.forest), Arc::clone(&self.settings), number),
                directory: Directory::new(Arc::clone(&self.place)),
                path: self.place.directory().to_owned(),
                state: Arc::clone(&self.state),
                journal: Journal::default(),
                absorbed: clock::now(),
                failed: 0,
            };
            let units = Arc::clone(&units);
            let block_bytes = self.settings.block_bytes as usize;
            threads.spawn(format!("tool-{number}"), move |shared| {
                let done = worker.run(&units, block_bytes, shared);
                if worker.tool.has_cut() {
                    worker.state.has_cut.store(true, Ordering::Relaxed);
                }
                worker.state.meter().absorb(&mut worker.journal);
                // Released before the end is reported, because deleting needs the only reference.
                drop(worker);
                done
            })?;
        }
        Ok(())
    }

    fn watch(
        &mut self,
        threads: &mut Crew,
        until: Option<Time>,
        measured: bool,
    ) -> Result<Watched, Failure> {
        let shared = threads.shared().clone();
        let (state, progress) = (&self.state, &self.progress);
        let mut sample =
            |at, control: &Control| send_sample(at, state, progress, &shared, measured, control);
        threads.watch(
            self.reactor,
            self.control,
            until,
            &mut self.samples,
            &mut sample,
        )
    }

    fn end(&mut self, threads: &mut Crew, measured: bool) -> Result<(), Failure> {
        let shared = threads.shared().clone();
        let (state, progress) = (&self.state, &self.progress);
        let mut sample =
            |at, control: &Control| send_sample(at, state, progress, &shared, measured, control);
        threads.end(self.reactor, self.control, &mut self.samples, &mut sample)
    }

    fn sample(&self, at: Time, shared: &Shared, measured: bool) {
        send_sample(
            at,
            &self.state,
            &self.progress,
            shared,
            measured,
            self.control,
        );
    }

    fn values(&self, measured_ns: u64, load_ns: u64) -> BTreeMap<String, f64> {
        let mut values = self.state.counters(0);
        values.remove("tools_now");
        values.insert("measured_ns".to_owned(), measured_ns as f64);
        values.insert("load_ns".to_owned(), load_ns as f64);
        values
    }
}

fn send_sample(
    at: Time,
    state: &State,
    progress: &Progress,
    shared: &Shared,
    measured: bool,
    control: &Control,
) {
    let counters = Counters::from([
        (ENTITY.to_owned(), state.counters(shared.running())),
        (trees::ENTITY.to_owned(), progress.counters()),
    ]);
    let intervals = state.take_intervals(measured);
    control.sample_later(at, move || {
        let encoded = intervals
            .iter()
            .map(|(of, histogram)| named(*of, histogram));
        (counters.clone(), encoded.collect())
    });
}

fn named(of: Measured, histogram: &Histogram) -> NamedHistogram {
    NamedHistogram {
        entity: ENTITY.to_owned(),
        name: of.histogram().to_owned(),
        hdr: histogram.encode(),
    }
}

/// One tool and its transport.
struct Worker {
    tool: Tool,
    directory: Directory,
    /// Path of the directory, for messages.
    path: std::path::PathBuf,
    state: Arc<State>,
    journal: Journal,
    absorbed: Time,
    /// Failed files in succession.
    failed: u32,
}

impl Worker {
    /// Works until no tree is left, or until the threads must end.
    fn run(
        &mut self,
        units: &Mutex<Units>,
        block_bytes: usize,
        shared: &Shared,
    ) -> Result<(), Failure> {
        let mut buffer = vec![0; block_bytes];
        let mut scratch = vec![0; block_bytes];
        let mut cut_at = None;
        loop {
            if shared.is_stopped() {
                let now = clock::now();
                if now < *cut_at.get_or_insert(now + COMPLETION_TIME) {
                    self.tool.stop();
                } else {
                    self.tool.cut();
                }
            }
            if let Some(operation) = self.tool.poll_operation() {
                self.execute(&operation, &mut buffer, &mut scratch, shared)?;
            } else if shared.is_stopped() {
                return Ok(());
            } else if let Some(tree) = trees::take(units) {
                self.tool.assign(tree);
            } else {
                shared.send(Report::OutOfWork);
                return Ok(());
            }
        }
    }

    fn execute(
        &mut self,
        operation: &hakaru_files::Operation,
        buffer: &mut [u8],
        scratch: &mut [u8],
        shared: &Shared,
    ) -> Result<(), Failure> {
        if let Action::Write { length, .. } = operation.action {
            self.tool.fill(&mut buffer[..length as usize]);
        }
        let started = clock::now();
        let outcome = self.directory.execute(operation, buffer);
        let ended = clock::now();
        if let (Action::Read { .. }, Ok(read)) = (&operation.action, &outcome)
            && let Some(wrong) =
                self.tool
                    .check(&buffer[..*read as usize], scratch, &mut self.journal)
        {
            let path = self.path.join(&*wrong.path);
            self.complain(shared, || {
                Failure::new(
                    ErrorClass::Verification,
                    format_args!("{}: byte {} is wrong", path.display(), wrong.offset),
                    "compare the file with `hakaru files verify`",
                )
            });
        }
        let transferred = matches!(
            operation.action,
            Action::Read { .. } | Action::Write { .. } | Action::Create
        );
        if transferred && outcome.is_ok() {
            self.failed = 0;
        }
        let completion = Completion {
            id: operation.id,
            started,
            ended,
            outcome: outcome.map_err(|error| error.to_string()),
        };
        self.tool.handle_completion(completion, &mut self.journal);
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
            let path = self.path.join(&*failed.path);
            let name = failed.of.histogram().trim_end_matches("_latency_ns");
            Failure::environment(
                format_args!("{name} of {} failed: {}", path.display(), failed.reason),
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
