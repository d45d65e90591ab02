//! Watching single TCP connections: the shell around `hakaru_watch::tcp_sockets`.
//!
//! Every interval it drains the tracepoints' rings and reads each known connection. From time to
//! time it dumps all connections of the watched ports to discover new ones. A dump walks the table
//! of the whole machine. With tracing, the first segment of a new connection announces it at once.
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

/// Readable when a ring of the tracepoints begins to fill.
pub const TRACE: Token = Token(1);

const INTERVALS_US: std::ops::RangeInclusive<u32> = 1000..=60_000_000;
/// Sockets requested in one message: their answers (about 2 KiB each) must fit into the socket's
/// buffer of 208 KiB.
const ASKED_AT_ONCE: usize = 32;
/// Least interval between two dumps. Dumps also take at most 1 % of the time.
const DUMPS_APART: Duration = Duration::from_millis(100);
const DUMP_SHARE: u64 = 100;
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
            .or_environment("ask the kernel for TCP sockets", "load the module tcp_diag")?;
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
                    .or_environment("wait for TCP's events", "raise the limit of open files")?;
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

    /// Facts for `ready`.
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

    /// Starts readings at `at`, and events now.
    pub fn start(&mut self, at: Time) -> Result<(), Failure> {
        self.schedule.start(at);
        if let Some(trace) = &self.trace {
            let enabled = trace.rings().enable();
            enabled.or_environment("begin to trace TCP", "set `trace` to `off`")?;
        }
        Ok(())
    }

    pub fn next(&self) -> Option<Time> {
        self.schedule.next()
    }

    /// Takes the readings that are due. With `events_wait` reads the events even if no reading is
    /// due.
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

    /// Entity `tcp_watch` of a sample.
    pub fn counters(&self) -> BTreeMap<String, f64> {
        let (bytes, records, dropped) = self.file.totals();
        let unheard = self.trace.as_ref().map_or(0, Trace::unheard_cpus);
        let (lost, not_understood) = self.trace.as_ref().map_or((0, 0), Trace::missing);
        [
            ("readings", self.readings),
            ("readings_missed", self.schedule.missed()),
            ("readings_unanswered", self.unanswered),
            ("records", records),
            ("records_dropped", dropped),
            ("written_bytes", bytes),
            ("events_lost", lost + not_understood),
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
        // Before the sockets are read, so that a connection seen in an event is read at once.
        self.read_events()?;
        if sockets_due {
            let ids = self.sockets.ids();
            self.readings += ids.len() as u64;
            self.ask(&ids)?;
            let now = clock::now();
            if now >= self.next_dump {
                self.look_for_new()?;
                if let Some(trace) = &mut self.trace {
                    trace.idle_check().look();
                }
                let took = clock::now().ns_since(now);
                let apart = DUMPS_APART.max(Duration::from_nanos(took * DUMP_SHARE));
                self.next_dump = now + apart;
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
        let asked = self.ask(&self.sockets.unknown(events));
        for event in events {
            self.sockets.handle_event(event, &mut self.series);
        }
        for (at_ns, lost) in losses {
            self.series.add_lost(*at_ns, *lost);
        }
        self.trace = Some(trace);
        asked
    }

    /// Reads single sockets.
    fn ask(&mut self, ids: &[SocketId]) -> Result<(), Failure> {
        for some in ids.chunks(ASKED_AT_ONCE) {
            self.requests.clear();
            let first = self.sequence.wrapping_add(1);
            for id in some {
                self.sequence = self.sequence.wrapping_add(1);
                sock_diag::emit_request_of(id, self.sequence, &mut self.requests);
            }
            let asked = clock::now();
            self.diag.send(&self.requests).or_environment(
                "ask the kernel for a TCP socket",
                "lengthen the interval of the TCP watch",
            )?;
            // The kernel has answered all of them by now.
            let at = span(asked, clock::now());
            let mut left = some.len();
            while left > 0 {
                let Ok(Some(datagram)) = self.diag.receive() else {
                    break;
                };
                for (sequence, answer) in answers(datagram) {
                    let asked_for = some.get(sequence.wrapping_sub(first) as usize);
                    let Some(id) = asked_for else { continue };
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
    fn look_for_new(&mut self) -> Result<(), Failure> {
        for family in self.families.clone() {
            self.requests.clear();
            self.sequence = self.sequence.wrapping_add(1);
            sock_diag::emit_dump(family, &self.ports, self.sequence, &mut self.requests);
            // The kernel makes each part of a dump while the part before it is received, and the
            // first part during the request.
            let mut asked = clock::now();
            let sent = self.diag.send(&self.requests);
            sent.or_environment("ask the kernel for TCP sockets", "load the module tcp_diag")?;
            if self.receive_dump(&mut asked)? == Some(ENOENT) {
                // A kernel without IPv6.
                self.families.retain(|of| *of != family);
            }
        }
        Ok(())
    }

    /// Receives the parts of a dump. Returns the errno if the kernel refused it.
    fn receive_dump(&mut self, asked: &mut Time) -> Result<Option<i32>, Failure> {
        loop {
            let next_asked = clock::now();
            let Ok(Some(datagram)) = self.diag.receive() else {
                // The table changed too much for a consistent dump; the next dump finds the
                // sockets.
                return Ok(None);
            };
            let at = span(*asked, next_asked);
            *asked = next_asked;
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
            "tcp.ports has port 0, which no connection has",
            hint,
        ));
    }
    Ok(())
}
