//! The jobs, and the sockets or disks of their streams.
use std::collections::BTreeMap;
use std::sync::Arc;

use hakaru_backup::{Job, Settings, Side, Turns};
use hakaru_contract::SocketOptions;
use hakaru_contract::backup::BackupConfig;
use hakaru_iscsi_session::Session;
use hakaru_runtime::{Event, Reactor, clock};
use hakaru_stats::Latencies;
use hakaru_units::Time;
use serde_json::{Value, json};

use super::disks::Disks;
use super::job_set::JobSet;
use crate::address::parse_address;
use crate::description::{describe_keys, describe_lu};
use crate::failure::Failure;
use crate::sockets::Sockets;
use crate::tcp::{self, TcpLog};

/// Maximum number of sessions that log in at the same time.
const LOGINS_MAX: usize = 64;

/// All jobs of the engine.
pub struct Jobs<'r> {
    sockets: Sockets<'r>,
    /// None if no job is on disks.
    disks: Option<Disks>,
    job_set: JobSet,
    /// Number of jobs that have begun to log in.
    opened: usize,
    /// Last TCP counters of each socket.
    tcp: TcpLog,
}

impl<'r> Jobs<'r> {
    pub fn new(
        reactor: &'r Reactor,
        config: &BackupConfig,
        settings: &Settings,
    ) -> Result<Jobs<'r>, Failure> {
        let mut sockets = Sockets::new(reactor, settings.timeout, SocketOptions::default());
        let on_disks = config.jobs.iter().any(|job| job.disks.is_some());
        let disks = on_disks.then(|| Disks::new(reactor)).transpose()?;
        let mut job_set = JobSet {
            turns: Turns::new(&config.jobs),
            ..JobSet::default()
        };
        for (index, job) in config.jobs.iter().enumerate() {
            let first = sockets.count();
            let job = Job::new(Arc::new(job.clone()), settings, index, first);
            // A job on disks has no sockets.
            for leg in job.legs().filter(|leg| job.session(*leg).is_some()) {
                let (field, lu) = match leg.side() {
                    Side::Source => ("source", &job.config().source),
                    Side::Destination => ("destination", &job.config().destination),
                };
                let field = format!("jobs[{index}].{field}.portal");
                sockets.add(parse_address(&field, &lu.portal)?);
                job_set.legs.push((index, leg));
                job_set.redirects.push(None);
            }
            job_set.first.push(first);
            job_set.jobs.push(job);
        }
        Ok(Jobs {
            sockets,
            disks,
            job_set,
            opened: 0,
            tcp: TcpLog::default(),
        })
    }

    /// Starts the login of more jobs, or opens their disks.
    pub fn open_more(&mut self) {
        while self.opened < self.job_set.jobs.len() && self.logging_in() < LOGINS_MAX {
            let job = self.opened;
            self.opened += 1;
            if let Some(paths) = self.job_set.jobs[job].config().disks.clone() {
                let disks = self.disks.as_mut().expect("a job is on disks");
                if let Err(failure) = disks.open(job, &paths, &mut self.job_set) {
                    self.job_set.end(failure);
                }
                continue;
            }
            for leg in self.job_set.jobs[job].legs() {
                let index = self.job_set.first[job] + leg.0;
                self.sockets.connect(index, &mut self.job_set);
            }
        }
    }

    /// Returns the approximate number of sessions that are logging in. Jobs become ready about in
    /// order.
    fn logging_in(&self) -> usize {
        let open = &self.job_set.jobs[self.job_set.ready.min(self.opened)..self.opened];
        open.iter().map(|job| job.legs().count()).sum()
    }

    pub fn all_ready(&self) -> bool {
        self.job_set.ready == self.job_set.jobs.len()
    }

    /// Prepares the tape of the first job on each drive.
    pub fn mount(&mut self, now: Time) {
        for job in self.first_on_tapes().collect::<Vec<_>>() {
            self.act(job, |job| job.mount(now));
        }
    }

    /// Returns whether the tape of the first job on each drive is prepared.
    pub fn all_mounted(&self) -> bool {
        self.job_set.mounted == self.first_on_tapes().count()
    }

    fn first_on_tapes(&self) -> impl Iterator<Item = usize> {
        let jobs = self.jobs().enumerate();
        jobs.filter(|(number, job)| {
            job.config().tape.is_some() && self.job_set.turns.is_first(*number)
        })
        .map(|(number, _)| number)
    }

    /// Begins all copies. A job that follows another one on its tape drive waits for it.
    pub fn begin(&mut self, now: Time) {
        for number in 0..self.job_set.jobs.len() {
            if self.job_set.turns.is_first(number) {
                self.act(number, |job| job.begin(now));
            } else {
                self.act(number, |job| job.wait(now));
            }
        }
    }

    /// Begins the jobs whose turn has come.
    pub fn take_turns(&mut self, now: Time) {
        while let Some(number) = self.job_set.due.pop() {
            self.act(number, |job| job.begin(now));
        }
    }

    /// Begins to verify. Copies that were written by one tape drive are verified one after another.
    pub fn verify(&mut self, now: Time) {
        self.job_set.due.clear();
        for number in 0..self.job_set.jobs.len() {
            if self.job_set.turns.is_first(number) {
                self.verify_from(number, now);
            }
        }
    }

    /// Verifies the next copies whose turn has come.
    pub fn take_turns_to_verify(&mut self, now: Time) {
        while let Some(number) = self.job_set.due.pop() {
            self.verify_from(number, now);
        }
    }

    /// Begins to verify the first copy that is configured for it, from this job on.
    fn verify_from(&mut self, number: usize, now: Time) {
        let mut next = Some(number);
        while let Some(number) = next {
            if self.job_set.jobs[number].config().verify {
                return self.act(number, |job| job.verify(now));
            }
            next = self.job_set.turns.after(number);
        }
    }

    /// Calls `act` for a job, and sends the resulting data or requests.
    fn act(&mut self, number: usize, act: impl FnOnce(&mut Job)) {
        act(&mut self.job_set.jobs[number]);
        self.flush(number);
    }

    fn flush(&mut self, number: usize) {
        if self.job_set.jobs[number].config().disks.is_some() {
            return self.serve_disks();
        }
        let first = self.job_set.first[number];
        self.sockets.flush(first, &mut self.job_set);
    }

    fn serve_disks(&mut self) {
        if let Some(disks) = &mut self.disks {
            disks.serve(&mut self.job_set);
        }
    }

    /// Returns whether every job has written all data that it read to stable storage.
    pub fn all_copied(&self) -> bool {
        self.job_set.copied == self.job_set.jobs.len()
    }

    /// Returns whether every copy that is configured for it has been verified.
    pub fn all_verified(&self) -> bool {
        let wanted = self.jobs().filter(|job| job.config().verify).count();
        self.job_set.verified == wanted
    }

    pub fn all_logged_out(&self) -> bool {
        self.job_set.logged_out == self.job_set.legs.len()
    }

    /// Calls `act` for every job, and sends the resulting data or requests.
    pub fn for_each(&mut self, now: Time, act: impl Fn(&mut Job, Time, &mut Latencies)) {
        for job in 0..self.job_set.jobs.len() {
            act(
                &mut self.job_set.jobs[job],
                now,
                &mut self.job_set.latencies,
            );
            self.flush(job);
        }
    }

    pub fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.job_set.jobs.iter()
    }

    pub fn latencies(&mut self) -> &mut Latencies {
        &mut self.job_set.latencies
    }

    /// Removes and returns the failure that ends the engine at once.
    pub fn take_fatal(&mut self) -> Option<Failure> {
        self.job_set.fatal.take()
    }

    /// Removes and returns the failure of the first copy that differs.
    pub fn take_mismatch(&mut self) -> Option<Failure> {
        self.job_set.mismatch.take()
    }

    /// Returns the instant at which [`Jobs::handle_timeouts`] is due: at once after a failure.
    pub fn poll_timeout(&self) -> Time {
        if self.job_set.fatal.is_some() {
            return Time::ZERO;
        }
        let of_disks = self.disks.as_ref();
        let of_disks = of_disks.map_or(Time::MAX, |disks| disks.poll_timeout(&self.job_set));
        self.sockets.poll_timeout().min(of_disks)
    }

    pub fn handle_timeouts(&mut self) {
        self.sockets
            .handle_timeouts(clock::now(), &mut self.job_set);
        self.serve_disks();
    }

    pub fn handle_event(&mut self, event: Event) {
        let disks = self.disks.as_mut();
        if !disks.is_some_and(|disks| disks.handle_event(event)) {
            self.sockets.handle_event(event, &mut self.job_set);
        }
    }

    /// Visits the TCP counters of each job's connections, as entity and counters. A closed
    /// connection keeps its last values.
    pub fn visit_tcp(&mut self, visit: &mut dyn FnMut(String, BTreeMap<String, f64>)) {
        for index in 0..self.sockets.count() {
            if let Some(socket) = self.sockets.socket(index) {
                self.tcp.read(index, socket);
            }
        }
        let jobs = self.job_set.jobs.iter().zip(&self.job_set.first);
        for (job, first) in jobs.filter(|(job, _)| job.config().disks.is_none()) {
            let of_job = self.tcp.of(*first..first + job.legs().count());
            for side in [Side::Source, Side::Destination] {
                let streams = of_job.clone().skip(side as usize).step_by(2);
                let entity = format!("tcp/{}/{}", job.config().name, side.name());
                visit(entity, tcp::counters(streams));
            }
        }
    }

    /// Returns the facts for `ready`: both LUs and the keys of the first job, and the parts of
    /// every copy.
    pub fn facts(&self) -> BTreeMap<String, Value> {
        let mut facts = BTreeMap::from([
            ("jobs".to_owned(), json!(self.job_set.jobs.len())),
            ("sessions".to_owned(), json!(self.job_set.legs.len())),
        ]);
        if let Some(job) = self.job_set.jobs.first() {
            for (side, leg) in [Side::Source, Side::Destination]
                .into_iter()
                .zip(job.legs())
            {
                let lu_facts = json!({
                    "lu": job.facts(side).map(describe_lu),
                    "negotiated": job.session(leg).map(Session::agreed).map(describe_keys),
                });
                facts.insert(side.name().to_owned(), lu_facts);
            }
        }
        if let Some(disks) = &self.disks {
            facts.insert("io_backend".to_owned(), json!(disks.backend()));
        }
        let parts: BTreeMap<&str, Value> = self
            .jobs()
            .map(|job| {
                let parts = job.places().map(|place| {
                    json!({
                        "source_offset_bytes": place.source_offset,
                        "destination_offset_bytes": place.destination_offset,
                        "length_bytes": place.length,
                    })
                });
                (job.config().name.as_str(), Value::Array(parts.collect()))
            })
            .collect();
        facts.insert("parts".to_owned(), json!(parts));
        facts
    }
}
