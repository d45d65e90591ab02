//! Watching single TCP connections: the shell around `hakaru_watch::tcp_sockets`.
//!
//! Every interval, it drains the rings of the tracepoints and reads each known connection. From
//! time to time, it dumps all connections of the watched ports to discover new ones. A dump walks
//! the table of the entire machine. With tracing, the first segment of a new connection announces
//! it at once.
use std::collections::BTreeMap;
use std::time::Duration;

use hakaru_contract::{TcpTrace, TcpWatch};
use hakaru_runtime::net::sock_diag::SockDiag;
use hakaru_runtime::{Interest, Reactor, Token, clock, process};
use hakaru_units::Time;
use hakaru_watch::series::Series;
use hakaru_watch::sock_diag::{self, Answer, Family, PORTS_MAX, SocketId, answers};
use hakaru_watch::tcp_sockets::TcpSockets;
use serde_json::{Value, json};

use super::series_file::SeriesFile;
use super::trace::Trace;
use crate::failure::{Failure, OrEnvironment};
use crate::sampling::Schedule;

/// Token of the tracepoints' rings, which are readable when they begin to fill.
pub const TRACE: Token = Token(1);

const INTERVALS_US: std::ops::RangeInclusive<u32> = 1000..=60_000_000;
/// Maximum number of sockets requested in one message. Their answers (about 2 KiB each) must fit in
/// the socket's buffer of 208 KiB.
const REQUESTS_MAX: usize = 32;
/// Shortest interval between two dumps.
const DUMP_INTERVAL_MIN: Duration = Duration::from_millis(100);
/// Ratio of the interval between two dumps to the duration of a dump, so that dumps take at most
/// 1 % of the time.
const DUMP_INTERVAL_RATIO: u64 = 100;
const ENOENT: i32 = 2;

pub struct TcpWatcher {
    diag: SockDiag,
    trace: Option<Trace>,
    why_not_traced: Option<String>,
    ports: Vec<u16>,
    path: String,
    interval_us: u32,
    sockets: TcpSockets,
    series: Series,
    file: SeriesFile,
    schedule: Schedule,
    next_dump: Time,
    families: Vec<Family>,
    sequence: u32,
    readings: u64,
    unanswered: u64,
    cpu_ns: u64,
    requests: Vec<u8>,
}

impl TcpWatcher {
    pub fn open(config: &TcpWatch, reactor: &Reactor) -> Result<TcpWatcher, Failure> {
        check(config)?;
        let diag = SockDiag::open()
            .or_environment("query the kernel's TCP sockets", "load the module tcp_diag")?;
        let opened = match config.trace {
            TcpTrace::Off => Err("tracing is off in the configuration".to_owned()),
            TcpTrace::Auto | TcpTrace::On => Trace::open(&config.ports),
        };
        let (trace, why_not_traced) = match opened {
            Ok(trace) => (Some(trace), None),
            Err(why) if config.trace == TcpTrace::On => {
                let hint = "run as root outside of containers, or set `trace` to `auto`";
                return Err(Failure::environment(
                    format_args!("cannot trace TCP: {why}"),
                    hint,
                ));
            }
            Err(why) => (None, Some(why)),
        };
        if let Some(trace) = &trace {
            for ring in trace.rings().descriptors() {
                reactor
                    .register(ring, TRACE, Interest::Edge)
                    .or_environment("wait for TCP trace events", "raise the limit of open files")?;
            }
        }
        Ok(TcpWatcher {
            diag,
            trace,
            why_not_traced,
            ports: config.ports.clone(),
            path: config.file.clone(),
            interval_us: config.interval_us,
            sockets: TcpSockets::default(),
            series: Series::default(),
            file: SeriesFile::create(&config.file, config.file_bytes_max)?,
            schedule: Schedule::every(Duration::from_micros(config.interval_us.into())),
            next_dump: Time::ZERO,
            families: vec![Family::V4, Family::V6],
            sequence: 0,
            readings: 0,
            unanswered: 0,
            cpu_ns: 0,
            requests: Vec::new(),
        })
    }

    /// Returns the facts for `ready`.
    pub fn facts(&self) -> Value {
        let events = self.trace.as_ref().map(Trace::names);
        json!({
            "file": self.path,
            "interval_us": self.interval_us,
            "trace": events.is_some(),
            "tracepoints": events.unwrap_or_default(),
            "why_not_traced": self.why_not_traced,
        })
    }

    /// Starts the readings at `at`, and the tracing of events now.
    pub fn start(&mut self, at: Time) -> Result<(), Failure> {
        self.schedule.start(at);
        if let Some(trace) = &self.trace {
            let enabled = trace.rings().enable();
            enabled.or_environment("start to trace TCP", "set `trace` to `off`")?;
        }
        Ok(())
    }

    pub fn next(&self) -> Option<Time> {
        self.schedule.next()
    }

    /// Takes the readings that are due. With `events_wait`, reads the pending events even if no
    /// reading is due.
    pub fn handle(&mut self, now: Time, events_wait: bool) -> Result<(), Failure> {
        let due = self.schedule.due(now);
        if due || events_wait {
            self.read(due)?;
        }
        Ok(())
    }

    /// Takes the last reading and writes everything to the file.
    pub fn finish(&mut self) -> Result<(), Failure> {
        self.read(self.schedule.next().is_some())?;
        self.sockets.finish();
        self.file.flush(&mut self.series)
    }

    /// Returns the counters of the entity `tcp_watch` of a sample.
    pub fn counters(&self) -> BTreeMap<String, f64> {
        let (bytes, records, dropped) = self.file.totals();
        let unheard = self.trace.as_ref().map_or(0, Trace::unheard_cpus);
        let (lost, unparsed) = self.trace.as_ref().map_or((0, 0), Trace::missing);
        [
            ("readings", self.readings),
            ("readings_missed", self.schedule.missed()),
            ("readings_unanswered", self.unanswered),
            ("records", records),
            ("records_dropped", dropped),
            ("written_bytes", bytes),
            ("events_lost", lost + unparsed),
            ("unheard_cpus", unheard as u64),
            ("events_of_others", self.sockets.unattributed()),
            ("sockets_seen", self.sockets.seen().into()),
            ("sockets_refused", self.sockets.refused() as u64),
            ("sockets_now", self.sockets.len() as u64),
            ("cpu_ns", self.cpu_ns),
        ]
        .map(|(name, value)| (name.to_owned(), value as f64))
        .into()
    }

    fn read(&mut self, sockets_due: bool) -> Result<(), Failure> {
        let before = process::thread_cpu_ns();
        // Events are read before the sockets, so that a connection seen in an event is read at
        // once.
        self.read_events()?;
        if sockets_due {
            let ids = self.sockets.ids();
            self.readings += ids.len() as u64;
            self.query(&ids)?;
            let now = clock::now();
            if now >= self.next_dump {
                self.discover()?;
                if let Some(trace) = &mut self.trace {
                    trace.idle_check().update();
                }
                let dump_ns = clock::now().ns_since(now);
                let interval = Duration::from_nanos(dump_ns * DUMP_INTERVAL_RATIO);
                self.next_dump = now + interval.max(DUMP_INTERVAL_MIN);
            }
        }
        self.file.take(&mut self.series)?;
        self.cpu_ns += process::thread_cpu_ns() - before;
        Ok(())
    }

    fn read_events(&mut self) -> Result<(), Failure> {
        let Some(mut trace) = self.trace.take() else {
            return Ok(());
        };
        let (events, losses) = trace.read();
        let queried = self.query(&self.sockets.unknown(events));
        for event in events {
            self.sockets.handle_event(event, &mut self.series);
        }
        for (at_ns, lost) in losses {
            self.series.add_lost(*at_ns, *lost);
        }
        self.trace = Some(trace);
        queried
    }

    /// Reads single sockets.
    fn query(&mut self, ids: &[SocketId]) -> Result<(), Failure> {
        for chunk in ids.chunks(REQUESTS_MAX) {
            self.requests.clear();
            let first = self.sequence.wrapping_add(1);
            for id in chunk {
                self.sequence = self.sequence.wrapping_add(1);
                sock_diag::emit_request_of(id, self.sequence, &mut self.requests);
            }
            let sent_at = clock::now();
            self.diag.send(&self.requests).or_environment(
                "query a TCP socket of the kernel",
                "increase the interval of the TCP watch",
            )?;
            // The kernel has answered all requests by now.
            let at = span(sent_at, clock::now());
            let mut left = chunk.len();
            while left > 0 {
                let Ok(Some(datagram)) = self.diag.receive() else {
                    break;
                };
                for (sequence, answer) in answers(datagram) {
                    let requested = chunk.get(sequence.wrapping_sub(first) as usize);
                    let Some(id) = requested else { continue };
                    left -= 1;
                    match answer {
                        Answer::Socket(socket) => {
                            self.sockets.handle_socket(at, &socket, &mut self.series);
                        }
                        Answer::Refused(_) => self.sockets.handle_gone(id.cookie()),
                        Answer::Done { .. } => {}
                    }
                    if left == 0 {
                        break;
                    }
                }
            }
            self.unanswered += left as u64;
        }
        Ok(())
    }

    /// Reads all sockets of the watched ports and adds the new ones.
    fn discover(&mut self) -> Result<(), Failure> {
        for family in self.families.clone() {
            self.requests.clear();
            self.sequence = self.sequence.wrapping_add(1);
            sock_diag::emit_dump(family, &self.ports, self.sequence, &mut self.requests);
            // The kernel creates the first part of a dump during the request, and each further part
            // while the previous part is received.
            let mut requested_at = clock::now();
            let sent = self.diag.send(&self.requests);
            sent.or_environment("query the kernel's TCP sockets", "load the module tcp_diag")?;
            if self.receive_dump(&mut requested_at)? == Some(ENOENT) {
                // The kernel lacks this address family, such as IPv6.
                self.families.retain(|other| *other != family);
            }
        }
        Ok(())
    }

    /// Receives the parts of a dump. Returns the errno if the kernel refused it.
    fn receive_dump(&mut self, requested_at: &mut Time) -> Result<Option<i32>, Failure> {
        loop {
            let next_requested_at = clock::now();
            let Ok(Some(datagram)) = self.diag.receive() else {
                // The table changed too much for a consistent dump; the next dump finds the
                // sockets.
                return Ok(None);
            };
            let at = span(*requested_at, next_requested_at);
            *requested_at = next_requested_at;
            for (sequence, answer) in answers(datagram) {
                if sequence != self.sequence {
                    continue;
                }
                match answer {
                    Answer::Socket(socket) if !self.sockets.knows(socket.id.cookie()) => {
                        self.sockets.handle_socket(at, &socket, &mut self.series);
                    }
                    Answer::Socket(_) => {}
                    Answer::Done { .. } => return Ok(None),
                    Answer::Refused(ENOENT) => return Ok(Some(ENOENT)),
                    Answer::Refused(errno) => {
                        let error = std::io::Error::from_raw_os_error(errno);
                        return Err(error).or_environment(
                            "list the TCP sockets of these ports",
                            "Linux 4.16 or newer is needed; load the module tcp_diag",
                        );
                    }
                }
            }
        }
    }
}

fn span(from: Time, to: Time) -> (u64, u32) {
    let within = u32::try_from(to.ns_since(from)).unwrap_or(u32::MAX - 1);
    (from.as_ns(), within)
}

fn check(config: &TcpWatch) -> Result<(), Failure> {
    let hint = "correct the configuration";
    if !INTERVALS_US.contains(&config.interval_us) {
        let interval_us = config.interval_us;
        let message = format!("tcp.interval_us is {interval_us}; it must be 1000 to 60000000");
        return Err(Failure::usage(message, hint));
    }
    if config.ports.len() > PORTS_MAX {
        let count = config.ports.len();
        let message = format!("tcp.ports has {count} ports; at most {PORTS_MAX} are allowed");
        return Err(Failure::usage(message, hint));
    }
    if config.ports.contains(&0) {
        return Err(Failure::usage(
            "tcp.ports contains port 0, which no connection uses",
            hint,
        ));
    }
    Ok(())
}
