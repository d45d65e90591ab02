//! The outcome of a trial, assembled from the counts of both ends.
use hakaru_contract::NamedHistogram;
use hakaru_contract::trial::{
    PortOutcome, ProcessorStops, StreamOutcome, TesterFault, TesterFaultKind, TrialOutcome,
};
use hakaru_stats::Histogram;
use hakaru_units::Time;

use crate::receiver::Received;
use crate::sender::Sent;
use crate::trial::{Rate, Trial};

/// Figures of a port in a trial, as the shell measured them.
#[derive(Clone, Debug)]
pub struct PortFigures {
    /// Counts and CPU times.
    pub outcome: PortOutcome,
    /// Whether any stream arrives at the port. Only then do its losses concern the trial.
    pub receives: bool,
    /// Whether frames that the interface drops after it accepted them are lost in the queue of
    /// another interface, as with veth pairs and TAPs, and not in the tester.
    pub hands_over: bool,
}

/// Assembles the outcome from the counts of all ports, and what is known about stops of processors.
/// Streams are named `names`.
#[must_use]
pub fn outcome(
    trial: &Trial,
    names: &[&str],
    (start, end): (Time, Time),
    sent: &[Sent],
    received: &[Received],
    ports: &[PortFigures],
    stops: Option<ProcessorStops>,
) -> TrialOutcome {
    let mut outcome = TrialOutcome {
        id: trial.id(),
        start_ns: start.as_ns(),
        end_ns: end.as_ns(),
        tester_faults: Vec::new(),
        streams: Vec::new(),
        ports: ports.iter().map(|port| port.outcome.clone()).collect(),
        stops,
        histograms: Vec::new(),
    };
    for (index, name) in names.iter().enumerate() {
        let sent = sent.iter().find(|sent| sent.stream == index);
        let sent = sent.cloned().unwrap_or_default();
        let received = received.iter().find(|received| received.stream == index);
        let received = received.cloned().unwrap_or_default();
        let entity = format!("stream/{name}");
        for (name, histogram) in [
            ("latency_ns", &received.latency),
            ("lateness_ns", &sent.lateness),
        ] {
            outcome.histograms.extend(named(&entity, name, histogram));
        }
        let faults = sending_faults(trial, index, &entity, &sent);
        outcome.tester_faults.extend(faults);
        outcome
            .tester_faults
            .extend(surplus(&entity, sent.frames, received.frames));
        let instants = |instants: Option<(Time, Time)>| {
            instants.map(|(first, last)| (first.as_ns(), last.as_ns()))
        };
        let (sent_at, received_at) = (
            instants(sent.first_and_last),
            instants(received.first_and_last),
        );
        let lost = sent.frames.saturating_sub(received.frames);
        // Numbers of unsent frames may be incomplete, and frames in excess hide losses.
        let excluded_unsent = received.excluded.among(&sent.unsent_numbers);
        let excluded_lost = received.excluded.missing.saturating_sub(excluded_unsent);
        outcome.streams.push(StreamOutcome {
            name: (*name).to_owned(),
            intended: match trial.rate(index) {
                Rate::Unlimited => None,
                Rate::Paced(_) | Rate::Silent => Some(trial.frames_max(index)),
            },
            sent: sent.frames,
            unsent: sent.unsent,
            received: received.frames,
            lost,
            duplicated: received.duplicated,
            reordered: received.reordered,
            corrupted: received.corrupted,
            sent_bytes: sent.bytes,
            received_bytes: received.bytes,
            first_sent_ns: sent_at.map(|(first, _)| first),
            last_sent_ns: sent_at.map(|(_, last)| last),
            first_received_ns: received_at.map(|(first, _)| first),
            last_received_ns: received_at.map(|(_, last)| last),
            lateness_ns_max: sent.lateness_ns_max,
            excluded: received.excluded.due(),
            excluded_unsent,
            excluded_lost: excluded_lost.min(lost),
        });
    }
    for port in ports {
        outcome.tester_faults.extend(port_faults(port));
    }
    outcome
}

fn sending_faults(
    trial: &Trial,
    stream: usize,
    entity: &str,
    sent: &Sent,
) -> impl Iterator<Item = TesterFault> {
    let limit_us = trial.late_limit_ns() / 1000;
    let unsent = (sent.unsent > 0).then(|| {
        let message = format!(
            "{} of {} frames could not be sent within {limit_us} us of their due instants",
            sent.unsent,
            trial.frames_max(stream)
        );
        fault(TesterFaultKind::Unsent, entity, message)
    });
    let late = (sent.lateness_ns_max > trial.late_limit_ns()).then(|| {
        let late_us = sent.lateness_ns_max / 1000;
        let message = format!("a frame was sent {late_us} us late; the limit is {limit_us} us");
        fault(TesterFaultKind::Late, entity, message)
    });
    unsent.into_iter().chain(late)
}

/// Returns the fault of a stream of which more frames arrived than were sent.
fn surplus(entity: &str, sent: u64, received: u64) -> Option<TesterFault> {
    (received > sent).then(|| {
        let message = format!("{received} frames arrived, but {sent} were sent");
        fault(TesterFaultKind::Surplus, entity, message)
    })
}

/// Returns the faults of a port.
fn port_faults(figures: &PortFigures) -> impl Iterator<Item = TesterFault> {
    let port = &figures.outcome;
    let entity = format!("port/{}", port.name);
    let faults = [
        (
            TesterFaultKind::ReceiveRing,
            figures.receives,
            port.ring_dropped,
            "the receive ring had no room for",
        ),
        (
            TesterFaultKind::ReceiveInterface,
            figures.receives,
            port.rx_dropped,
            "the kernel received and dropped",
        ),
        (
            TesterFaultKind::TransmitInterface,
            !figures.hands_over,
            port.tx_dropped,
            "the interface accepted and dropped",
        ),
    ];
    faults
        .into_iter()
        .filter(|(_, concerns, frames, _)| *concerns && *frames > 0)
        .map(move |(kind, _, frames, problem)| {
            fault(kind, &entity, format!("{problem} {frames} frames"))
        })
}

fn fault(kind: TesterFaultKind, entity: &str, message: String) -> TesterFault {
    TesterFault {
        kind,
        entity: entity.to_owned(),
        message,
    }
}

fn named(entity: &str, name: &str, histogram: &Histogram) -> Option<NamedHistogram> {
    (!histogram.is_empty()).then(|| NamedHistogram {
        entity: entity.to_owned(),
        name: name.to_owned(),
        hdr: histogram.encode(),
    })
}

#[cfg(test)]
mod tests {
    use hakaru_contract::TrialOrder;

    use super::*;
    use crate::receiver::ExcludedFrames;

    fn order() -> TrialOrder {
        TrialOrder {
            id: 9,
            duration_ns: 1_000_000_000,
            rates: vec![Some(1000.0), None, Some(0.0)],
            settle_ns: 0,
            late_limit_ns: 1_000_000,
        }
    }

    #[test]
    fn an_outcome_charges_losses_of_the_tester_to_the_tester() {
        let trial = Trial::unchecked(&order());
        let sent = Sent {
            frames: 990,
            unsent: 10,
            lateness_ns_max: 2_000_000,
            ..Sent::default()
        };
        let received = Received {
            frames: 980,
            corrupted: 4,
            ..Received::default()
        };
        let port = |name: &str, receives, hands_over| PortFigures {
            outcome: PortOutcome {
                name: name.to_owned(),
                tx_dropped: 1,
                refused: 1,
                rx_dropped: 2,
                ring_dropped: 3,
                foreign: 0,
                late: 0,
                transmit_cpu_ns: 0,
                receive_cpu_ns: 0,
            },
            receives,
            hands_over,
        };
        let ports = [port("left", false, false), port("right", true, true)];
        let outcome = super::outcome(
            &trial,
            &["a", "b", "c"],
            (Time(5), Time(6)),
            &[sent],
            &[received],
            &ports,
            None,
        );
        let [a, b, c] = outcome.streams.as_slice() else {
            panic!("three streams");
        };
        assert_eq!(
            (
                a.intended,
                a.sent,
                a.unsent,
                a.received,
                a.lost,
                a.corrupted
            ),
            (Some(1000), 990, 10, 980, 10, 4)
        );
        assert_eq!((b.intended, c.intended), (None, Some(0)));
        let faults: Vec<_> = outcome
            .tester_faults
            .iter()
            .map(|fault| (fault.kind, fault.entity.as_str()))
            .collect();
        let expected = [
            (TesterFaultKind::Unsent, "stream/a"),
            (TesterFaultKind::Late, "stream/a"),
            (TesterFaultKind::TransmitInterface, "port/left"),
            (TesterFaultKind::ReceiveRing, "port/right"),
            (TesterFaultKind::ReceiveInterface, "port/right"),
        ];
        assert_eq!(faults, expected);
        assert_eq!(outcome.id, 9);
    }

    #[test]
    fn more_frames_received_than_sent_are_a_fault_of_the_tester() {
        let outcome_of = |frames| {
            let (sent, received) = (
                Sent {
                    frames: 990,
                    ..Sent::default()
                },
                Received {
                    frames,
                    ..Received::default()
                },
            );
            let times = (Time(5), Time(6));
            let trial = Trial::unchecked(&order());
            super::outcome(&trial, &["a"], times, &[sent], &[received], &[], None)
        };
        for received in [0, 989, 990] {
            let outcome = outcome_of(received);
            let stream = &outcome.streams[0];
            assert_eq!(stream.sent, stream.received + stream.lost);
            assert_eq!(outcome.tester_faults, []);
        }
        let outcome = outcome_of(991);
        assert_eq!(outcome.streams[0].lost, 0);
        let [fault] = outcome.tester_faults.as_slice() else {
            panic!("one fault");
        };
        assert_eq!(
            (fault.kind, fault.entity.as_str(), fault.message.as_str()),
            (
                TesterFaultKind::Surplus,
                "stream/a",
                "991 frames arrived, but 990 were sent"
            )
        );
    }

    #[test]
    fn frames_due_in_excluded_times_are_counted_apart() {
        let sent = Sent {
            frames: 993,
            unsent: 7,
            unsent_numbers: vec![90..95, 200..202],
            ..Sent::default()
        };
        let received = Received {
            frames: 980,
            excluded: ExcludedFrames {
                numbers: vec![80..94, 201..210],
                missing: 11,
            },
            ..Received::default()
        };
        let (trial, times) = (Trial::unchecked(&order()), (Time(5), Time(6)));
        let outcome = super::outcome(&trial, &["a"], times, &[sent], &[received], &[], None);
        let stream = &outcome.streams[0];
        assert_eq!((stream.lost, stream.unsent, stream.excluded), (13, 7, 23));
        assert_eq!((stream.excluded_unsent, stream.excluded_lost), (5, 6));
    }
}
