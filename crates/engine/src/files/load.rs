//! A load: its phases, its tools in threads of their own, and its result.
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hakaru_contract::files::{FilesDestination, FilesLoad};
use hakaru_contract::{ErrorClass, NamedHistogram};
use hakaru_files::{BuildState, Forest, Measured, Settings, Tool, Units};
use hakaru_runtime::{Reactor, clock};
use hakaru_units::Time;

use super::crew::{Crew, Shared, Until, Watched};
use super::destination;
use super::place::Place;
use super::root::{Root, Transport};
use super::state::{State, named, send_sample};
use super::task::{Progress, Work};
use super::trees;
use super::worker::Worker;
use crate::control::Control;
use crate::failure::Failure;
use crate::sampling::Schedule;

/// Threads that build and delete the trees of a load.
const BUILDERS: u32 = 4;
/// Runs a load: ready, start, build, second start if configured, load, result, removal.
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
    if config.cold && matches!(config.destination, FilesDestination::Smb(_)) {
        let message =
            "`cold` drops files from the page cache of this machine, not of a file server";
        return Err(Failure::usage(message, "leave out `cold`"));
    }
    let root = destination::open(&config.destination, config.build, settings.block_bytes)?;
    let place = Arc::new(open(config, root, &forest)?);
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
    load.control.accept_measure_orders();
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

fn open(config: &FilesLoad, root: Arc<dyn Root>, forest: &Forest) -> Result<Place, Failure> {
    if config.build {
        return Place::for_build(root, forest);
    }
    let (place, marker) = Place::of_trees(root, config.remove)?;
    place.require(&marker, &[BuildState::Complete])?;
    if marker.digest != forest.digest() {
        return Err(Failure::usage(
            format_args!(
                "{} holds trees of another description (digest {}, not {})",
                place.shown(),
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

impl Load<'_> {
    fn run(&mut self) -> Result<Finished, Failure> {
        let mut threads = Crew::new(self.reactor)?;
        let done = self.run_phases(&mut threads);
        if done.is_err() {
            threads.abandon(self.control);
            // The last sample has what was finished before the failure.
            self.sample(clock::now(), threads.shared(), false);
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
        let shown = self.place.shown();
        let in_use = || {
            let message = format!(
                "the trees in {shown} are not deleted: a thread still waits for the file system"
            );
            Failure::peer(
                message,
                "delete them with `hakaru files remove` when the file server responds",
            )
        };
        // Every thread that may still write holds a reference.
        if Arc::get_mut(&mut self.place).is_none_or(|place| place.is_in_use()) {
            return Err(in_use());
        }
        self.process(Work::Remove)?;
        match Arc::into_inner(self.place) {
            Some(place) => place.remove(),
            None => Err(in_use()),
        }
    }

    fn run_phases(&mut self, threads: &mut Crew) -> Result<Finished, Failure> {
        let started = self.await_start(threads)?;
        let mut stopped = started.is_none();
        if let Some(at) = started {
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
            return Ok(self.unmeasured());
        }
        self.load(threads)
    }

    /// Waits for the order to start and for its instant, which is returned; `None` if the load is
    /// stopped meanwhile.
    fn await_start(&mut self, threads: &mut Crew) -> Result<Option<Time>, Failure> {
        let Watched::Started(at) = self.watch(threads, None, false)? else {
            return Ok(None);
        };
        let stopped = self.watch(threads, Some(at), false)? == Watched::Stopped;
        Ok((!stopped).then_some(at))
    }

    /// Returns the results of a load that was stopped before it began.
    fn unmeasured(&self) -> Finished {
        Finished {
            ended: clock::now(),
            values: self.values(0, 0),
            histograms: Vec::new(),
            mismatches: 0,
        }
    }

    /// Begins the sessions of all tools, so that no login is measured. Returns `None` if the load
    /// is stopped meanwhile.
    fn connect(&mut self) -> Result<Option<Vec<Box<dyn Transport>>>, Failure> {
        let mut threads = Crew::new(self.reactor)?;
        let begun = Arc::new(Mutex::new(Vec::new()));
        let (sessions, root) = (Arc::clone(&begun), Arc::clone(self.place.root()));
        let (tools, keep) = (self.config.tools, self.settings.verify);
        threads.spawn("connect".to_owned(), move |shared| {
            for _ in 0..tools {
                if shared.is_stopped() {
                    break;
                }
                let transport = Arc::clone(&root).transport(keep)?;
                sessions
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(transport);
            }
            drop(root);
            Ok(())
        })?;
        let watched = self.watch(&mut threads, None, false);
        match watched {
            Ok(Watched::Ended) => {
                let mut begun = begun.lock().unwrap_or_else(PoisonError::into_inner);
                Ok(Some(std::mem::take(&mut *begun)))
            }
            Ok(_) => {
                self.end(&mut threads, false)?;
                Ok(None)
            }
            Err(failure) => {
                threads.abandon(self.control);
                Err(failure)
            }
        }
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
        let Some(transports) = self.connect()? else {
            return Ok(self.unmeasured());
        };
        if self.config.second_start {
            self.control.phase("built", clock::now());
            if self.await_start(threads)?.is_none() {
                return Ok(self.unmeasured());
            }
        }
        let begin = clock::now();
        // The rate of the warm-up is judged from its begin on.
        self.sample(begin, threads.shared(), false);
        self.spawn_tools(threads, transports)?;
        let mut watched = None;
        if self.config.warmup_s > 0.0 {
            watched = Some(self.warm_up(begin, threads)?);
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

    /// Lets the tools work until the end of the warm-up, or until the control plane orders
    /// measuring to begin earlier.
    fn warm_up(&mut self, begin: Time, threads: &mut Crew) -> Result<Watched, Failure> {
        self.control.phase("warmup", begin);
        let mut end = begin + Duration::from_secs_f64(self.config.warmup_s);
        let until = &mut |control: &mut Control| {
            end = control.poll_measure_order().map_or(end, |at| at.min(end));
            Some(end)
        };
        let watched = self.watch_until(threads, until, false)?;
        if matches!(watched, Watched::OutOfWork | Watched::Ended) {
            // A rate over what is left would be one of microseconds.
            return Err(Failure::usage(
                format_args!(
                    "the warm-up used every file within {:.1} s: nothing is left to measure",
                    clock::now().ns_since(begin) as f64 / 1e9
                ),
                "shorten the warm-up, or use more trees or larger files",
            ));
        }
        Ok(watched)
    }

    fn spawn_tools(
        &mut self,
        threads: &mut Crew,
        transports: Vec<Box<dyn Transport>>,
    ) -> Result<(), Failure> {
        let FilesLoad {
            first_tree, stride, ..
        } = *self.config;
        let mut units = Units::new(first_tree, stride, self.config.trees.trees);
        if self.config.repeat {
            units = units.repeated();
        }
        let units = Arc::new(Mutex::new(units));
        for (number, transport) in (0..).zip(transports) {
            let (forest, settings) = (Arc::clone(&self.forest), Arc::clone(&self.settings));
            let tool = Tool::new(forest, settings, number, transport.conduct());
            let root = Arc::clone(self.place.root());
            let mut worker = Worker::new(tool, transport, root, Arc::clone(&self.state));
            let units = Arc::clone(&units);
            let block_bytes = self.settings.block_bytes as usize;
            threads.spawn(format!("tool-{number}"), move |shared| {
                let done = worker.run(&units, block_bytes, shared);
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
        self.watch_until(threads, &mut |_| until, measured)
    }

    fn watch_until(
        &mut self,
        threads: &mut Crew,
        until: Until<'_>,
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
