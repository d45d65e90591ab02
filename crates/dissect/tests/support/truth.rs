//! The right times of a conversation, computed from its packets in the simplest way: without a
//! reader, holes or a memory bound.
//!
//! A byte counts at the first instant at which all bytes of its direction up to it have been in
//! packets.
use std::collections::BTreeMap;

use super::{From, Packet};

/// The end of a header or of a PDU: the offset after its last byte in the sender's stream.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub from: From,
    pub end: u64,
}

/// A command of the conversation.
#[derive(Clone, Debug)]
pub struct Known {
    pub itt: u32,
    /// End of the command's header.
    pub begin: Place,
    /// Phases in order, each with the event that ends it.
    pub phases: Vec<(&'static str, Place)>,
}

/// Right times of a command, ns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Right {
    pub begin: u64,
    pub latency: u64,
    pub phases: BTreeMap<&'static str, u64>,
}

/// Instants from which each direction of one connection was complete up to a place.
struct Times([Vec<(u64, u64)>; 2]);

impl Times {
    fn of(packets: &[Packet]) -> Times {
        let mut times = Times([Vec::new(), Vec::new()]);
        for (from, done) in times.0.iter_mut().enumerate() {
            let mut early: Vec<(u64, u64)> = Vec::new();
            let mut next = 0;
            let mine = packets.iter().filter(|packet| packet.from as usize == from);
            for packet in mine.filter(|packet| packet.payload > 0) {
                early.push((packet.place, packet.place + packet.payload));
                let before = next;
                early.sort_unstable();
                for &(begin, end) in &early {
                    if begin <= next {
                        next = next.max(end);
                    }
                }
                if next > before {
                    done.push((next, packet.at.0));
                }
            }
        }
        times
    }

    fn at(&self, place: Place) -> Option<u64> {
        let done = &self.0[place.from as usize];
        let (_, at) = done.iter().find(|(next, _)| *next >= place.end)?;
        Some(*at)
    }
}

/// Returns the tag and the right times of each command. A tag may have been used several times.
pub fn right_times(known: &[Known], packets: &[Packet]) -> Vec<(u32, Right)> {
    let times = Times::of(packets);
    known
        .iter()
        .filter_map(|command| {
            let begin = times.at(command.begin)?;
            let (mut last, mut phases) = (begin, BTreeMap::new());
            for &(name, place) in &command.phases {
                let at = times.at(place)?;
                *phases.entry(name).or_default() += at.checked_sub(last)?;
                last = at;
            }
            let latency = last - begin;
            Some((
                command.itt,
                Right {
                    begin,
                    latency,
                    phases,
                },
            ))
        })
        .collect()
}
