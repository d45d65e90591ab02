//! Frames on a path that loses, duplicates, reorders and damages them: every frame is accounted
//! for, and each count is exactly that of the path.
use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use hakaru_contract::packets::{FrameSize, PacketPort, PacketStream, PacketsConfig};
use hakaru_contract::{ReceiveMethod, TransmitMethod, TrialOrder};
use hakaru_packets::{
    Excluded, Frames, Mac, Plan, Received, Receiver, Sender, Sent, Step, outcome,
};
use hakaru_units::Time;
use proptest::prelude::*;

const MARK: u32 = 0x686b_0001;
const START: Time = Time(5_000_000_000);
const MS: u64 = 1_000_000;

fn plan(flows: u16) -> Plan {
    let port = |name: &str| PacketPort {
        name: name.to_owned(),
        interface: name.to_owned(),
    };
    let size = |bytes, weight| FrameSize { bytes, weight };
    let config = PacketsConfig {
        ports: vec![port("left"), port("right")],
        streams: vec![PacketStream {
            name: "a".to_owned(),
            from: "left".to_owned(),
            to: "right".to_owned(),
            source_mac: None,
            destination_mac: None,
            source_address: Ipv4Addr::new(198, 18, 0, 2),
            destination_address: Ipv4Addr::new(198, 19, 0, 2),
            source_port: 1000,
            destination_port: 9,
            flows,
            sizes: vec![size(64, 7), size(594, 4), size(1518, 1)],
        }],
        transmit: TransmitMethod::Auto,
        receive: ReceiveMethod::Auto,
        sample_interval_ms: 1000,
        avoid_processors: Vec::new(),
    };
    Plan::new(&config).unwrap()
}

/// Fate of one frame on the path.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Delivered,
    Lost,
    Duplicated,
    Damaged(u16),
    Delayed(u8),
}

fn fates() -> impl Strategy<Value = Vec<Fate>> {
    let fate = prop_oneof![
        6 => Just(Fate::Delivered),
        1 => Just(Fate::Lost),
        1 => Just(Fate::Duplicated),
        1 => any::<u16>().prop_map(Fate::Damaged),
        2 => (1_u8..40).prop_map(Fate::Delayed),
    ];
    prop::collection::vec(fate, 1..400)
}

/// Sends a trial with one frame per millisecond and returns the frames, without an operating
/// system.
fn send(frames: &Frames, sender: &mut Sender, limit: usize) -> Vec<(Time, Vec<u8>)> {
    let (mut now, mut all) = (START, Vec::new());
    while all.len() < limit {
        match sender.poll(now) {
            Step::Send(due) => {
                let mut bytes = vec![0; 1600];
                let length = frames.emit(due.number, now, &mut bytes);
                bytes.truncate(length);
                sender.handed_over(&due, now, frames.bytes_of(due.number));
                all.push((now, bytes));
            }
            Step::Wait(until) => now = until,
            Step::Finished => break,
        }
    }
    all
}

proptest! {
    #[test]
    fn every_frame_is_counted_once_for_what_happened_to_it(
        fates in fates(),
        flows in 1_u16..5,
        stop in (0..400_u64, 1..50_u64),
    ) {
        let plan = plan(flows);
        let order = TrialOrder {
            id: 1,
            duration_ns: MS * fates.len() as u64,
            rates: vec![Some(1000.0)],
            settle_ns: 0,
            late_limit_ns: MS,
        };
        let trial = plan.trial(&order, 77).unwrap();
        let mut frames = plan.frames(0, &[Mac([2; 6]), Mac([4; 6])], MARK);
        frames.set_trial(77);
        let mut sender = Sender::new(&trial, &plan.leaving(0), START);
        let sent_frames = send(&frames, &mut sender, usize::MAX);
        prop_assert_eq!(sent_frames.len(), fates.len());

        // Arrivals: instant in ms, number, bytes.
        let mut arrivals: Vec<(u64, u32, Vec<u8>)> = Vec::new();
        let (mut lost, mut duplicated, mut damaged) = (0, 0, 0);
        for (number, (fate, (_, bytes))) in fates.iter().zip(&sent_frames).enumerate() {
            let at = number as u64;
            let mut deliver = |at: u64, bytes: &[u8]| arrivals.push((at, number as u32, bytes.to_vec()));
            match fate {
                Fate::Delivered => deliver(at, bytes),
                Fate::Lost => lost += 1,
                Fate::Duplicated => {
                    deliver(at, bytes);
                    deliver(at + 3, bytes);
                    duplicated += 1;
                }
                Fate::Damaged(bit) => {
                    let mut bytes = bytes.clone();
                    // A bit behind the mark and the index of the stream.
                    let first = 50 * 8;
                    let bit = first + usize::from(*bit) % (8 * bytes.len() - first);
                    bytes[bit / 8] ^= 1 << (bit % 8);
                    deliver(at, &bytes);
                    damaged += 1;
                }
                Fate::Delayed(delay) => deliver(at + u64::from(*delay), bytes),
            }
        }
        arrivals.sort_by_key(|(at, _, _)| *at);
        let mut receiver = Receiver::new(&plan, 1, MARK);
        receiver.begin(&trial);
        for (at, _, bytes) in &arrivals {
            receiver.handle_frame(Time(START.as_ns() + at * MS + 500), bytes);
        }

        // The definition of RFC 4737, applied to the numbers in order of arrival.
        let is_intact = |number: &u32| !matches!(fates[*number as usize], Fate::Damaged(_));
        let mut seen = BTreeSet::new();
        let mut highest = vec![None; flows.into()];
        let mut reordered = 0;
        for (_, number, _) in arrivals.iter().filter(|(_, number, _)| is_intact(number)) {
            if !seen.insert(*number) {
                continue;
            }
            let highest = &mut highest[(number % u32::from(flows)) as usize];
            if Some(*number) < *highest {
                reordered += 1;
            } else {
                *highest = Some(*number);
            }
        }

        let sent: Vec<Sent> = sender.finish();
        // A stop in milliseconds, which excludes as much time after it.
        let (from, length) = stop;
        let at = |ms: u64| Time(START.as_ns() + ms * MS);
        let stops = [at(from)..at(from + length)];
        let excluded = Excluded::new(&stops, START, trial.duration_ns());
        let by_port = receiver.finish(&excluded);
        prop_assert_eq!((by_port.foreign, by_port.late), (0, 0));
        let received: Vec<Received> = by_port.streams;
        let outcome = outcome(&trial, &["a"], (START, START), &sent, &received, &[], None);
        let stream = &outcome.streams[0];
        let count = fates.len() as u64;
        prop_assert_eq!(stream.intended, Some(count));
        prop_assert_eq!((stream.sent, stream.unsent), (count, 0));
        prop_assert_eq!(stream.lost, lost + damaged);
        prop_assert_eq!(stream.received, count - lost - damaged);
        prop_assert_eq!(stream.duplicated, duplicated);
        prop_assert_eq!(stream.corrupted, damaged);
        prop_assert_eq!(stream.reordered, reordered);
        prop_assert_eq!(received[0].latency.count(), stream.received);
        let within = |number: &usize| (from..from + 2 * length).contains(&(*number as u64));
        let is_lost = |number: &usize| matches!(fates[*number], Fate::Lost | Fate::Damaged(_));
        let numbers = (0..fates.len()).filter(within);
        prop_assert_eq!(stream.excluded, numbers.clone().count() as u64);
        prop_assert_eq!(stream.excluded_lost, numbers.filter(is_lost).count() as u64);
        prop_assert!(outcome.tester_faults.is_empty());
    }

    #[test]
    fn any_bytes_are_received_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let plan = plan(3);
        let mut receiver = Receiver::new(&plan, 1, MARK);
        receiver.handle_frame(START, &bytes);
        // The same with the headers of a test frame.
        let frames = plan.frames(0, &[Mac([2; 6]), Mac([4; 6])], MARK);
        let mut frame = vec![0; 1600];
        frames.emit(0, START, &mut frame);
        frame.truncate(46);
        frame.extend(bytes);
        receiver.handle_frame(START, &frame);
        prop_assert_eq!(receiver.totals().frames, 0);
    }
}

#[test]
fn frames_of_earlier_trials_and_of_other_ports_are_told_apart() {
    let plan = plan(1);
    let order = |id| TrialOrder {
        id,
        duration_ns: 10 * MS,
        rates: vec![Some(1000.0)],
        settle_ns: 0,
        late_limit_ns: MS,
    };
    let mut frames = plan.frames(0, &[Mac([2; 6]), Mac([4; 6])], MARK);
    let mut receiver = Receiver::new(&plan, 1, MARK);
    let mut elsewhere = Receiver::new(&plan, 0, MARK);
    let mut all = Vec::new();
    for number in [0, 1] {
        let trial = plan.trial(&order(number.into()), number).unwrap();
        frames.set_trial(number);
        let mut sender = Sender::new(&trial, &[0], START);
        all.push((trial, send(&frames, &mut sender, usize::MAX)));
    }
    let (first, second) = (&all[0], &all[1]);
    receiver.begin(&first.0);
    for (at, frame) in &first.1[..7] {
        receiver.handle_frame(*at, frame);
        elsewhere.handle_frame(*at, frame);
    }
    assert_eq!(receiver.finish(&Excluded::default()).streams[0].frames, 7);
    // Two arrive between the trials, one after the start of the second.
    for (at, frame) in &first.1[7..9] {
        receiver.handle_frame(*at, frame);
    }
    receiver.begin(&second.0);
    for (at, frame) in first.1[9..].iter().chain(&second.1) {
        receiver.handle_frame(*at, frame);
    }
    let counts = receiver.finish(&Excluded::default());
    assert_eq!((counts.streams[0].frames, counts.late), (10, 3));
    assert_eq!(receiver.totals().late, 3);
    assert_eq!(elsewhere.totals().foreign, 7);
    assert_eq!(elsewhere.totals().frames, 0);
}
