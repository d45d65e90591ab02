//! The measuring side of a probe.
use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::time::Duration;

use hakaru_runtime::net::Socket;
use hakaru_runtime::{Events, Interest, Reactor, Token, clock};
use hakaru_units::Time;

use super::{CHUNK_BYTES, DRAIN, ECHO, REPORT_BYTES, SOURCE};
use crate::address::parse_address;
use crate::control::{Control, Order};
use crate::failure::{Failure, OrEnvironment};

/// A message of the round-trip measurement: about an iSCSI header.
const MESSAGE_BYTES: usize = 64;
/// Round trips that are not counted: they warm caches and routes.
const UNCOUNTED: u32 = 10;
/// The server must answer within this.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between the phases. Round trips, then each direction, begin at instants counted from `start`, so that probes that were
/// started together measure the same stretch of time and their rates add up; this is room for what the phase before left in queues.
const SETTLE: Duration = Duration::from_millis(100);
/// The part of a direction's time that is not counted.
const UNSTEADY: f64 = 0.2;
/// Slices of the rest, of which the median counts.
const SLICES: u32 = 10;

/// Connects, waits for `start`, measures, tells the result.
pub fn run(
    connect: &str,
    seconds: f64,
    round_trips: u32,
    reactor: &Reactor,
    control: &mut Control,
) -> Result<(), Failure> {
    let server = parse_address("connect", connect)?;
    if !(0.05..=60.0).contains(&seconds) || !(1..=1_000_000).contains(&round_trips) {
        return Err(Failure::usage(
            format_args!("seconds is {seconds}, round_trips is {round_trips}"),
            "seconds is 0.05 to 60, round_trips 1 to 1000000",
        ));
    }
    let mut path = Path {
        server,
        reactor,
        control,
        events: Events::with_capacity(16),
        begin: None,
        stopped: false,
    };
    let mut values = BTreeMap::new();
    let echo = path.open(ECHO)?;
    path.control.ready(BTreeMap::new());
    while path.begin.is_none() && !path.stopped {
        path.wait(None)?;
    }
    path.wait_until(path.begin.unwrap_or(Time::ZERO))?;
    path.control.phase("measure", clock::now());
    path.measure(&echo, seconds, round_trips, &mut values)?;
    path.control.result(clock::now(), values, Vec::new());
    Ok(())
}

/// The way to the server, and whether to go on.
struct Path<'a> {
    server: SocketAddr,
    reactor: &'a Reactor,
    control: &'a mut Control,
    events: Events,
    begin: Option<Time>,
    stopped: bool,
}

impl Path<'_> {
    /// Every measurement; `stop` ends it early, without the values that are missing.
    fn measure(
        &mut self,
        echo: &Socket,
        seconds: f64,
        round_trips: u32,
        values: &mut BTreeMap<String, f64>,
    ) -> Result<(), Failure> {
        let trips = self.time_round_trips(echo, round_trips)?;
        give_round_trips(trips, values);
        let drain = self.open(DRAIN)?;
        let sending = self.begin.unwrap_or(Time::ZERO) + SETTLE;
        self.wait_until(sending)?;
        let arrivals = self.send(&drain, seconds)?;
        give_rate("send", &drain, &arrivals, seconds, values);
        drain.abort();
        self.wait_until(sending + Duration::from_secs_f64(seconds) + SETTLE)?;
        let source = self.open(SOURCE)?;
        let arrivals = self.receive(&source, seconds)?;
        give_rate("receive", &source, &arrivals, seconds, values);
        source.abort();
        Ok(())
    }

    /// Sleeps until something happens or `until`; orders are noted.
    fn wait(&mut self, until: Option<Time>) -> Result<(), Failure> {
        self.control.wait(self.reactor, &mut self.events, until)?;
        for event in self.events.iter() {
            self.control.handle_event(event)?;
        }
        while let Some(order) = self.control.poll_order() {
            match order {
                Order::Start(at) => self.begin = Some(at.max(clock::now())),
                Order::Stop => self.stopped = true,
            }
        }
        Ok(())
    }

    /// Sleeps until `instant`, or until told to stop; an instant that has passed is no wait.
    fn wait_until(&mut self, instant: Time) -> Result<(), Failure> {
        while !self.stopped && clock::now() < instant {
            self.wait(Some(instant))?;
        }
        Ok(())
    }

    /// A connection whose first byte, `duty`, is sent.
    fn open(&mut self, duty: u8) -> Result<Socket, Failure> {
        let refused = |server: SocketAddr, e: io::Error| {
            Failure::peer(
                format_args!("cannot reach the probe at {server}: {e}"),
                "start its server first",
            )
        };
        let server = self.server;
        let socket = Socket::connect(server).map_err(|e| refused(server, e))?;
        self.reactor
            .register(&socket, Token(0), Interest::Edge)
            .or_environment("watch a socket", "raise the limit of open files")?;
        let give_up = clock::now() + PATIENCE;
        loop {
            match socket.send_vectored(&[IoSlice::new(&[duty])]) {
                Ok(_) => return Ok(socket),
                // Linux says ENOTCONN or EAGAIN while the handshake is under way.
                Err(e)
                    if matches!(
                        e.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected
                    ) => {}
                Err(e) => return Err(refused(server, e)),
            }
            if clock::now() >= give_up || self.stopped {
                return Err(refused(server, io::ErrorKind::TimedOut.into()));
            }
            self.wait(Some(give_up))?;
        }
    }

    /// Does `io` when it can be done; `None` when `until` came first, or `stop`.
    fn when_possible<T>(
        &mut self,
        until: Time,
        mut io: impl FnMut() -> io::Result<T>,
    ) -> Result<Option<T>, Failure> {
        loop {
            match io() {
                Ok(done) => return Ok(Some(done)),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => return Err(self.lost(&e)),
            }
            if self.stopped || clock::now() >= until {
                return Ok(None);
            }
            self.wait(Some(until))?;
        }
    }

    fn lost(&self, e: &dyn std::fmt::Display) -> Failure {
        Failure::peer(
            format_args!("the probe at {} was lost: {e}", self.server),
            "see why its server ended, and whether the network holds",
        )
    }

    /// Durations of round trips, ns.
    fn time_round_trips(&mut self, socket: &Socket, count: u32) -> Result<Vec<u64>, Failure> {
        let mut trips = Vec::with_capacity(count as usize);
        let mut message = [0_u8; MESSAGE_BYTES];
        for trip in 0..UNCOUNTED + count {
            let sent_at = clock::now();
            let until = sent_at + PATIENCE;
            // One small message at a time always fits an idle socket.
            self.when_possible(until, || socket.send_vectored(&[IoSlice::new(&message)]))?;
            let mut got = 0;
            while got < MESSAGE_BYTES {
                match self.when_possible(until, || socket.receive(&mut message[got..]))? {
                    Some(0) => return Err(self.lost(&"it closed the connection")),
                    Some(n) => got += n,
                    None if self.stopped => return Ok(trips),
                    None => return Err(self.lost(&"no answer within 5 s")),
                }
            }
            if trip >= UNCOUNTED {
                trips.push(clock::now().ns_since(sent_at));
            }
        }
        Ok(trips)
    }

    /// Sends for `seconds`; the arrivals are the server's, on its clock.
    fn send(&mut self, socket: &Socket, seconds: f64) -> Result<Vec<Arrival>, Failure> {
        let until = clock::now() + Duration::from_secs_f64(seconds);
        let chunk = vec![0_u8; CHUNK_BYTES];
        let mut reports = Vec::new();
        while !self.stopped && clock::now() < until {
            self.when_possible(until, || socket.send_vectored(&[IoSlice::new(&chunk)]))?;
            self.take_reports(socket, &mut reports)?;
        }
        Ok(reports
            .as_chunks::<REPORT_BYTES>()
            .0
            .iter()
            .map(Arrival::parse)
            .collect())
    }

    fn take_reports(&self, socket: &Socket, reports: &mut Vec<u8>) -> Result<(), Failure> {
        let mut buffer = [0_u8; 4096];
        loop {
            match socket.receive(&mut buffer) {
                Ok(0) => return Err(self.lost(&"it closed the connection")),
                Ok(n) => reports.extend_from_slice(&buffer[..n]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) => return Err(self.lost(&e)),
            }
        }
    }

    /// Receives for `seconds`; the arrivals are ours.
    fn receive(&mut self, socket: &Socket, seconds: f64) -> Result<Vec<Arrival>, Failure> {
        let until = clock::now() + Duration::from_secs_f64(seconds);
        let mut buffer = vec![0_u8; CHUNK_BYTES];
        let (mut arrivals, mut total) = (Vec::new(), 0);
        while !self.stopped && clock::now() < until {
            match self.when_possible(until, || socket.receive(&mut buffer))? {
                Some(0) => return Err(self.lost(&"it closed the connection")),
                Some(n) => {
                    total += n as u64;
                    arrivals.push(Arrival {
                        at: clock::now(),
                        total,
                    });
                }
                None => break,
            }
        }
        Ok(arrivals)
    }
}

/// So many bytes had arrived at that instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Arrival {
    at: Time,
    total: u64,
}

impl Arrival {
    fn parse(report: &[u8; REPORT_BYTES]) -> Arrival {
        let word = |bytes: &[u8]| {
            bytes
                .iter()
                .rev()
                .fold(0_u64, |word, byte| word << 8 | u64::from(*byte))
        };
        Arrival {
            at: Time(word(&report[..8])),
            total: word(&report[8..]),
        }
    }
}

fn give_round_trips(mut trips: Vec<u64>, values: &mut BTreeMap<String, f64>) {
    trips.sort_unstable();
    let Some(last) = trips.len().checked_sub(1) else {
        return;
    };
    // The nearest rank: the smallest duration that at least this share of the trips did not exceed.
    let quantile = |q: f64| {
        trips[((q * trips.len() as f64).ceil() as usize)
            .saturating_sub(1)
            .min(last)] as f64
            / 1e3
    };
    values.extend([
        ("rtt_us_min".to_owned(), quantile(0.0)),
        ("rtt_us_p50".to_owned(), quantile(0.5)),
        ("rtt_us_p99".to_owned(), quantile(0.99)),
        ("rtt_us_max".to_owned(), quantile(1.0)),
    ]);
}

/// `DIRECTION_bytes_per_s` and `DIRECTION_mean_bytes_per_s` (TCP payload), `DIRECTION_wire_bits_per_s` (what full frames with the
/// former take on Ethernet).
fn give_rate(
    direction: &str,
    socket: &Socket,
    arrivals: &[Arrival],
    seconds: f64,
    values: &mut BTreeMap<String, f64>,
) {
    let edges = slice_edges(arrivals, seconds);
    let (Some(rate), Some(mean)) = (median_rate(&edges), mean_rate(&edges)) else {
        return;
    };
    values.insert(format!("{direction}_bytes_per_s"), rate);
    values.insert(format!("{direction}_mean_bytes_per_s"), mean);
    if let Ok(segment) = socket.segment() {
        let share = segment.wire_bytes() as f64 / segment.payload_bytes as f64;
        values.insert(format!("{direction}_wire_bits_per_s"), 8.0 * rate * share);
    }
}

/// The first arrivals of the slices of the steady part, and the one that ends the last slice.
fn slice_edges(arrivals: &[Arrival], seconds: f64) -> Vec<Arrival> {
    let Some(first) = arrivals.first() else {
        return Vec::new();
    };
    let slice = (1.0 - UNSTEADY) * seconds / f64::from(SLICES);
    let bounds = (0..=SLICES)
        .map(|n| first.at + Duration::from_secs_f64(UNSTEADY * seconds + slice * f64::from(n)));
    // What has arrived when the time is up ends the last slice.
    let at_bound = |bound: Time| arrivals.iter().find(|a| a.at >= bound).or(arrivals.last());
    bounds.filter_map(at_bound).copied().collect()
}

/// Bytes per second from one arrival to another; `None` between an arrival and itself.
fn rate(from: Arrival, to: Arrival) -> Option<f64> {
    let ns = to.at.ns_since(from.at);
    (ns > 0).then(|| (to.total - from.total) as f64 * 1e9 / ns as f64)
}

/// Over the whole steady part. Means of flows that share a link add up.
fn mean_rate(edges: &[Arrival]) -> Option<f64> {
    rate(*edges.first()?, *edges.last()?)
}

/// Of the slices. The median, since the question is what the link carries: a moment in which a busy machine did not run
/// the probe, and the burst with which a shaper makes up for it, are not the link's.
fn median_rate(edges: &[Arrival]) -> Option<f64> {
    let mut rates: Vec<f64> = edges
        .windows(2)
        .filter_map(|pair| rate(pair[0], pair[1]))
        .collect();
    rates.sort_unstable_by(f64::total_cmp);
    let middle = rates.len() / 2;
    match rates.len() {
        0 => None,
        n if n % 2 == 1 => Some(rates[middle]),
        _ => Some((rates[middle - 1] + rates[middle]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_leaves_out_the_slow_start_and_a_moment_of_silence() {
        // 1 byte per ms for the first 100 ms of a second, then 1000 bytes per ms.
        let arrivals: Vec<Arrival> = (0..1000_u64)
            .map(|ms| Arrival {
                at: Time(5 + ms * 1_000_000),
                total: if ms < 100 { ms } else { 100 + (ms - 99) * 1000 },
            })
            .collect();
        assert_eq!(median_rate(&slice_edges(&arrivals, 1.0)), Some(1e6));
        let silent: Vec<Arrival> = arrivals
            .iter()
            .copied()
            .filter(|a| !(500_000_000..530_000_000).contains(&a.at.as_ns()))
            .collect();
        assert_eq!(median_rate(&slice_edges(&silent, 1.0)), Some(1e6));
        assert_eq!(median_rate(&slice_edges(&arrivals[..1], 1.0)), None);
        assert_eq!(median_rate(&slice_edges(&[], 1.0)), None);
    }

    #[test]
    fn quantiles_are_nearest_ranks() {
        let mut values = BTreeMap::new();
        give_round_trips((1..=200).rev().map(|us| us * 1000).collect(), &mut values);
        assert_eq!(values["rtt_us_min"], 1.0);
        assert_eq!(values["rtt_us_p50"], 100.0);
        assert_eq!(values["rtt_us_p99"], 198.0);
        assert_eq!(values["rtt_us_max"], 200.0);
    }

    #[test]
    fn reports_are_little_endian_clock_and_total() {
        let mut report = [0; REPORT_BYTES];
        report[..8].copy_from_slice(&7_u64.to_le_bytes());
        report[8..].copy_from_slice(&(1_u64 << 40).to_le_bytes());
        assert_eq!(
            Arrival::parse(&report),
            Arrival {
                at: Time(7),
                total: 1 << 40
            }
        );
    }
}
