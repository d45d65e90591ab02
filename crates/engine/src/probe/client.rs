//! The measuring side of a probe.
use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::time::Duration;

use hakaru_contract::SocketOptions;
use hakaru_runtime::net::Socket;
use hakaru_runtime::{Reactor, Token, clock};
use hakaru_units::Time;

use super::path::Path;
use super::protocol::{CHUNK_BYTES, DRAIN, ECHO, REPORT_BYTES, Report, SOURCE};
use crate::address::parse_address;
use crate::control::Control;
use crate::failure::Failure;

/// Length of a message of the round-trip measurement: about an iSCSI header.
const MESSAGE_BYTES: usize = 64;
/// Number of round trips that are not measured. They warm caches and routes.
const WARM_UP_TRIPS: u32 = 10;
/// Time within which the server must answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause between phases, in which the queues that the previous phase filled drain. Each phase
/// begins at an instant counted from `start`. Probes started together therefore measure the same
/// period, and their rates add up.
const SETTLE: Duration = Duration::from_millis(100);
/// Share of a direction's time, at its start, that is not measured.
const RAMP_UP_SHARE: f64 = 0.2;
/// Number of slices of the measured time. The result is the median of their rates.
const SLICES: u32 = 10;

/// Connects, waits for `start`, measures, and reports the result.
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
            "seconds must be 0.05 to 60, and round_trips 1 to 1000000",
        ));
    }
    let mut path = Path::new(server, reactor, control);
    let mut values = BTreeMap::new();
    let echo = path.dial(ECHO)?;
    path.wait_for_start()?;
    path.control.phase("measure", clock::now());
    path.measure(&echo, seconds, round_trips, &mut values)?;
    path.control.result(clock::now(), values, Vec::new());
    Ok(())
}

impl Path<'_> {
    /// Runs every phase. A `stop` ends the measurement early; the values of later phases are then
    /// missing.
    fn measure(
        &mut self,
        echo: &Socket,
        seconds: f64,
        round_trips: u32,
        values: &mut BTreeMap<String, f64>,
    ) -> Result<(), Failure> {
        let trips = self.time_round_trips(echo, round_trips)?;
        insert_round_trips(trips, values);
        let drain = self.dial(DRAIN)?;
        let sending = self.begin.unwrap_or(Time::ZERO) + SETTLE;
        self.wait_until(sending)?;
        let arrivals = self.send(&drain, seconds)?;
        insert_rates("send", &drain, &arrivals, seconds, values);
        drain.abort();
        self.wait_until(sending + Duration::from_secs_f64(seconds) + SETTLE)?;
        let source = self.dial(SOURCE)?;
        let arrivals = self.receive(&source, seconds)?;
        insert_rates("receive", &source, &arrivals, seconds, values);
        source.abort();
        Ok(())
    }

    /// Opens a connection for `duty`.
    fn dial(&mut self, duty: u8) -> Result<Socket, Failure> {
        let socket = self.connect(Token(0), &SocketOptions::default())?;
        self.open(&socket, duty, ANSWER_TIMEOUT)?;
        Ok(socket)
    }

    /// Retries `io` until it does not block. Returns `None` at `until` or after `stop`.
    fn retry_until<T>(
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

    /// Returns the durations of `count` round trips, ns.
    fn time_round_trips(&mut self, socket: &Socket, count: u32) -> Result<Vec<u64>, Failure> {
        let mut trips = Vec::with_capacity(count as usize);
        let mut message = [0_u8; MESSAGE_BYTES];
        for trip in 0..WARM_UP_TRIPS + count {
            let sent_at = clock::now();
            let until = sent_at + ANSWER_TIMEOUT;
            // One small message at a time always fits an idle socket.
            self.retry_until(until, || socket.send_vectored(&[IoSlice::new(&message)]))?;
            let mut received = 0;
            while received < MESSAGE_BYTES {
                match self.retry_until(until, || socket.receive(&mut message[received..]))? {
                    Some(0) => return Err(self.lost(&"the server closed the connection")),
                    Some(n) => received += n,
                    None if self.stopped => return Ok(trips),
                    None => return Err(self.lost(&"no answer within 5 s")),
                }
            }
            if trip >= WARM_UP_TRIPS {
                trips.push(clock::now().ns_since(sent_at));
            }
        }
        Ok(trips)
    }

    /// Sends for `seconds`. Returns the arrivals at the server, by the server's clock.
    fn send(&mut self, socket: &Socket, seconds: f64) -> Result<Vec<Report>, Failure> {
        let until = clock::now() + Duration::from_secs_f64(seconds);
        let chunk = vec![0_u8; CHUNK_BYTES];
        let mut reports = Vec::new();
        while !self.stopped && clock::now() < until {
            self.retry_until(until, || socket.send_vectored(&[IoSlice::new(&chunk)]))?;
            self.receive_reports(socket, &mut reports)?;
        }
        Ok(reports
            .as_chunks::<REPORT_BYTES>()
            .0
            .iter()
            .map(Report::parse)
            .collect())
    }

    fn receive_reports(&self, socket: &Socket, reports: &mut Vec<u8>) -> Result<(), Failure> {
        let mut buffer = [0_u8; 4096];
        loop {
            match socket.receive(&mut buffer) {
                Ok(0) => return Err(self.lost(&"the server closed the connection")),
                Ok(n) => reports.extend_from_slice(&buffer[..n]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) => return Err(self.lost(&e)),
            }
        }
    }

    /// Receives for `seconds`. Returns the arrivals at this client.
    fn receive(&mut self, socket: &Socket, seconds: f64) -> Result<Vec<Report>, Failure> {
        let until = clock::now() + Duration::from_secs_f64(seconds);
        let mut buffer = vec![0_u8; CHUNK_BYTES];
        let (mut arrivals, mut total) = (Vec::new(), 0);
        while !self.stopped && clock::now() < until {
            match self.retry_until(until, || socket.receive(&mut buffer))? {
                Some(0) => return Err(self.lost(&"the server closed the connection")),
                Some(n) => {
                    total += n as u64;
                    arrivals.push(Report {
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

fn insert_round_trips(mut trips: Vec<u64>, values: &mut BTreeMap<String, f64>) {
    trips.sort_unstable();
    let Some(last) = trips.len().checked_sub(1) else {
        return;
    };
    // Nearest rank: the smallest duration that at least this share of the trips did not exceed.
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

/// Inserts `DIRECTION_bytes_per_s` and `DIRECTION_mean_bytes_per_s` (TCP payload), and
/// `DIRECTION_wire_bits_per_s` (`DIRECTION_bytes_per_s` sent as full Ethernet frames).
fn insert_rates(
    direction: &str,
    socket: &Socket,
    arrivals: &[Report],
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

/// Returns the first arrival of each slice of the measured time, then the end of the last slice.
fn slice_edges(arrivals: &[Report], seconds: f64) -> Vec<Report> {
    let Some(first) = arrivals.first() else {
        return Vec::new();
    };
    let slice = (1.0 - RAMP_UP_SHARE) * seconds / f64::from(SLICES);
    let bounds = (0..=SLICES).map(|n| {
        first.at + Duration::from_secs_f64(RAMP_UP_SHARE * seconds + slice * f64::from(n))
    });
    // The last arrival ends the last slice if no arrival reached its bound.
    let at_bound = |bound: Time| arrivals.iter().find(|a| a.at >= bound).or(arrivals.last());
    bounds.filter_map(at_bound).copied().collect()
}

/// Returns the rate between two arrivals in bytes per second, or `None` if both have the same
/// instant.
fn rate(from: Report, to: Report) -> Option<f64> {
    let ns = to.at.ns_since(from.at);
    (ns > 0).then(|| (to.total - from.total) as f64 * 1e9 / ns as f64)
}

/// Returns the mean rate of the measured time. Means of flows that share a link add up.
fn mean_rate(edges: &[Report]) -> Option<f64> {
    rate(*edges.first()?, *edges.last()?)
}

/// Returns the median rate of the slices, which is the rate of the link. The median is not affected
/// by a moment in which a busy machine did not run the probe, or by the burst of a shaper after it.
fn median_rate(edges: &[Report]) -> Option<f64> {
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
    fn rate_excludes_the_slow_start_and_a_moment_of_silence() {
        // 1 byte per ms for the first 100 ms of a second, then 1000 bytes per ms.
        let arrivals: Vec<Report> = (0..1000_u64)
            .map(|ms| Report {
                at: Time(5 + ms * 1_000_000),
                total: if ms < 100 { ms } else { 100 + (ms - 99) * 1000 },
            })
            .collect();
        assert_eq!(median_rate(&slice_edges(&arrivals, 1.0)), Some(1e6));
        let silent: Vec<Report> = arrivals
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
        insert_round_trips((1..=200).rev().map(|us| us * 1000).collect(), &mut values);
        assert_eq!(values["rtt_us_min"], 1.0);
        assert_eq!(values["rtt_us_p50"], 100.0);
        assert_eq!(values["rtt_us_p99"], 198.0);
        assert_eq!(values["rtt_us_max"], 200.0);
    }
}
