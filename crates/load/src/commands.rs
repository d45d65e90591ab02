//! Splits a VM's requests into commands. Requests wait here until all of their commands were issued,
//! first come, first served.
//!
//! 1. [`Commands::admit`] accepts a request of the load, with the data of a write.
//! 2. [`Commands::poll_command`] returns the next command, oldest request first, once the ring of
//!    the guest's disk can hold it. Without a ring there is always a next command.
//! 3. [`Commands::handle_done`] ends a command and reports whether it was the last of its request.
use std::collections::VecDeque;
use std::sync::Arc;

use hakaru_iscsi_session::TaskError;
use hakaru_units::Time;

use crate::load::{Request, RequestId};
use crate::occupancy::Occupancy;
use crate::pattern::{Access, Op};
use crate::ring::Ring;

/// Bits of a tag that name the request, of which a VM has at most 1024.
const REQUEST_BITS: u32 = 10;
/// Bits of a tag that number the commands of a request, at most 4096.
const NUMBER_BITS: u32 = 12;
/// Bits of a tag that this module uses. The remaining ones are free for the caller.
pub(crate) const TAG_BITS: u32 = REQUEST_BITS + NUMBER_BITS;

/// A command to issue.
#[derive(Clone, Debug)]
pub(crate) struct Command {
    /// Tag, passed to [`Commands::handle_done`].
    pub tag: u32,
    /// Part of the request that the command transfers.
    pub access: Access,
    /// Data of a write: a buffer and the offset of the command's bytes in it.
    pub data: Option<(Arc<Vec<u8>>, usize)>,
}

/// Result of [`Commands::handle_done`].
#[derive(Debug)]
pub(crate) struct Completion {
    /// Request of the command.
    pub request: RequestId,
    /// Whether the request has no other command.
    pub is_single: bool,
    /// Result of the request, if this was its last command.
    pub result: Option<Result<(), TaskError>>,
}

/// A request in flight.
#[derive(Debug)]
struct ActiveRequest {
    access: Access,
    /// Data of a write: a buffer and the offset of the request's bytes in it. `None` once the last
    /// command was issued.
    data: Option<(Arc<Vec<u8>>, usize)>,
    /// Number of commands issued.
    issued: u32,
    /// Number of parts that have not completed: the commands in flight, plus one while part of the
    /// request is not issued.
    pending_parts: u32,
    /// Result of the completed parts: the first error, if any.
    result: Result<(), TaskError>,
}

impl ActiveRequest {
    /// Returns the initial content of a slot.
    fn empty() -> ActiveRequest {
        ActiveRequest {
            access: Access {
                op: Op::Read,
                offset_bytes: 0,
                length_bytes: 0,
            },
            data: None,
            issued: 0,
            pending_parts: 0,
            result: Ok(()),
        }
    }
}

/// The requests of a VM in flight. See the module's documentation.
#[derive(Debug)]
pub(crate) struct Commands {
    /// Maximum length of a command, bytes.
    longest: u32,
    /// Slots by [`RequestId`]; free slots keep their last contents.
    requests: Vec<ActiveRequest>,
    /// Requests with commands left to issue, oldest first.
    waiting: VecDeque<RequestId>,
    /// Integral of the length of `waiting`.
    occupancy: Occupancy,
    /// The ring of the guest's disk; `None`: no limit.
    ring: Option<Ring>,
}

impl Commands {
    /// Creates an empty set. Commands are at most `longest` bytes, a multiple of the LU's block,
    /// and not longer than `ring` allows. Without a limit, requests are not split.
    pub(crate) fn new(longest: Option<u32>, ring: Option<Ring>) -> Commands {
        let of_ring = ring.map(|ring| ring.request_bytes_max());
        Commands {
            longest: longest.into_iter().chain(of_ring).min().unwrap_or(u32::MAX),
            requests: Vec::new(),
            waiting: VecDeque::new(),
            occupancy: Occupancy::default(),
            ring,
        }
    }

    /// Accepts a request. `data` of a write is a buffer and the offset of the request's bytes in
    /// it.
    #[inline]
    pub(crate) fn admit(
        &mut self,
        now: Time,
        request: &Request,
        data: Option<(Arc<Vec<u8>>, usize)>,
    ) {
        let slot = request.id.0 as usize;
        if self.requests.len() <= slot {
            self.requests.resize_with(slot + 1, ActiveRequest::empty);
        }
        let active = &mut self.requests[slot];
        active.access = request.access;
        active.data = data;
        active.issued = 0;
        active.pending_parts = 1;
        active.result = Ok(());
        self.occupancy.advance(now, self.waiting.len());
        self.waiting.push_back(request.id);
    }

    /// Returns the next command, if the ring can hold it.
    #[inline]
    pub(crate) fn poll_command(&mut self, now: Time) -> Option<Command> {
        let request = *self.waiting.front()?;
        let active = &mut self.requests[request.0 as usize];
        let number = active.issued;
        let access = part(&active.access, self.longest, number);
        if let Some(ring) = &mut self.ring
            && !ring.add(access.length_bytes)
        {
            return None;
        }
        active.issued += 1;
        let data = if access.end_bytes() == active.access.end_bytes() {
            self.occupancy.advance(now, self.waiting.len());
            self.waiting.pop_front();
            active.data.take()
        } else {
            active.pending_parts += 1;
            active.data.clone()
        };
        let before = (access.offset_bytes - active.access.offset_bytes) as usize;
        Some(Command {
            tag: tag_of(request, number),
            access,
            data: data.map(|(buffer, begin)| (buffer, begin + before)),
        })
    }

    /// Returns the access of a command in flight.
    #[inline]
    pub(crate) fn access(&self, tag: u32) -> Access {
        let (request, number) = request_of(tag);
        part(
            &self.requests[request.0 as usize].access,
            self.longest,
            number,
        )
    }

    /// Ends a command.
    #[inline]
    pub(crate) fn handle_done(&mut self, tag: u32, result: Result<(), TaskError>) -> Completion {
        if self.ring.is_some() {
            let length_bytes = self.access(tag).length_bytes;
            self.ring
                .iter_mut()
                .for_each(|ring| ring.remove(length_bytes));
        }
        let (request, _) = request_of(tag);
        let active = &mut self.requests[request.0 as usize];
        active.pending_parts -= 1;
        if result.is_err() && active.result.is_ok() {
            active.result = result;
        }
        let result = (active.pending_parts == 0).then_some(active.result);
        Completion {
            request,
            is_single: active.issued == 1,
            result,
        }
    }

    /// Returns whether the guest's disk has a ring, for which requests wait.
    pub(crate) fn has_ring(&self) -> bool {
        self.ring.is_some()
    }

    /// Returns the integral over time of the number of requests with commands left to issue, in
    /// request-nanoseconds, complete until `now`.
    pub(crate) fn waiting_ns(&mut self, now: Time) -> u64 {
        self.occupancy.advance(now, self.waiting.len());
        self.occupancy.integral_ns()
    }
}

/// Returns the part of a request that its `number`th command, counting from 0, transfers.
#[inline]
fn part(request: &Access, longest: u32, number: u32) -> Access {
    let before = longest * number;
    Access {
        op: request.op,
        offset_bytes: request.offset_bytes + u64::from(before),
        length_bytes: longest.min(request.length_bytes - before),
    }
}

/// Encodes a command's tag: its request and its number among the request's commands.
#[inline]
fn tag_of(request: RequestId, number: u32) -> u32 {
    debug_assert!(request.0 < 1 << REQUEST_BITS && number < 1 << NUMBER_BITS);
    number << REQUEST_BITS | request.0
}

/// Decodes a tag made by [`tag_of`].
#[inline]
fn request_of(tag: u32) -> (RequestId, u32) {
    (
        RequestId(tag & ((1 << REQUEST_BITS) - 1)),
        tag >> REQUEST_BITS,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use hakaru_contract::initiator::GuestQueue;

    fn request(id: u32, offset_bytes: u64, length_bytes: u32) -> Request {
        let access = Access {
            op: Op::Write,
            offset_bytes,
            length_bytes,
        };
        Request {
            id: RequestId(id),
            access,
            due: Time(0),
        }
    }

    #[test]
    fn long_requests_are_split_and_end_with_their_last_command() {
        let mut commands = Commands::new(Some(4096), None);
        let bytes = Arc::new(vec![0; 20_000]);
        commands.admit(
            Time(0),
            &request(0, 1 << 20, 10_240),
            Some((Arc::clone(&bytes), 64)),
        );
        commands.admit(Time(0), &request(1, 0, 512), Some((bytes, 0)));
        let issued: Vec<Command> = std::iter::from_fn(|| commands.poll_command(Time(0))).collect();
        let ranges: Vec<_> = issued
            .iter()
            .map(|c| {
                (
                    c.access.offset_bytes - (1 << 20) * u64::from(c.access.offset_bytes > 0),
                    c.access.length_bytes,
                    c.data.as_ref().unwrap().1,
                )
            })
            .collect();
        assert_eq!(
            ranges,
            [
                (0, 4096, 64),
                (4096, 4096, 4160),
                (8192, 2048, 8256),
                (0, 512, 0)
            ]
        );
        assert!(commands.waiting.is_empty());
        // Commands may complete in any order. The first error becomes the request's result.
        assert!(commands.handle_done(issued[2].tag, Ok(())).result.is_none());
        let error = TaskError::CheckWithoutSense;
        assert!(
            commands
                .handle_done(issued[0].tag, Err(error))
                .result
                .is_none()
        );
        assert_eq!(
            commands.handle_done(issued[3].tag, Ok(())).result,
            Some(Ok(()))
        );
        let last = commands.handle_done(issued[1].tag, Err(TaskError::TargetFailure(1)));
        assert_eq!(
            (last.request, last.result),
            (RequestId(0), Some(Err(TaskError::CheckWithoutSense)))
        );
        // Slots are reused.
        commands.admit(Time(0), &request(0, 0, 512), None);
        assert!(commands.poll_command(Time(0)).unwrap().tag < 4);
    }

    #[test]
    fn requests_are_not_split_without_a_limit() {
        let mut commands = Commands::new(None, None);
        commands.admit(Time(0), &request(7, 0, 16 << 20), None);
        assert_eq!(
            commands.poll_command(Time(0)).unwrap().access.length_bytes,
            16 << 20
        );
        assert!(commands.poll_command(Time(0)).is_none());
    }

    /// The queue of a guest whose requests are at most 504 KiB long, one at a time.
    fn kvm_83() -> Commands {
        let queue = GuestQueue {
            ring_descriptors: 128,
            segments_max: 126,
            indirect: false,
            in_flight_max: None,
        };
        Commands::new(None, Some(Ring::new(queue)))
    }

    #[test]
    fn request_of_1_mib_passes_the_ring_in_three_pieces_one_after_another() {
        let mut commands = kvm_83();
        commands.admit(Time(0), &request(0, 0, 1 << 20), None);
        commands.admit(Time(0), &request(1, 1 << 20, 1 << 20), None);
        let mut lengths = Vec::new();
        for ms in 1..=6 {
            let piece = commands.poll_command(Time(ms)).expect("the ring is empty");
            lengths.push(piece.access.length_bytes >> 10);
            assert!(
                lengths.last() == Some(&16) || commands.poll_command(Time(ms)).is_none(),
                "a piece of 504 KiB fills the ring"
            );
            let request = commands.handle_done(piece.tag, Ok(())).request;
            assert_eq!(request, RequestId((ms as u32 - 1) / 3));
        }
        assert_eq!(lengths, [504, 504, 16, 504, 504, 16]);
        // The first request waited until its last piece was issued at 3, the second one until 6.
        assert_eq!(commands.waiting_ns(Time(100)), 3 + 6);
    }

    #[test]
    fn no_request_overtakes_one_that_the_ring_cannot_hold() {
        let mut commands = kvm_83();
        commands.admit(Time(0), &request(0, 0, 4096), None);
        commands.admit(Time(0), &request(1, 0, 504 << 10), None);
        commands.admit(Time(0), &request(2, 0, 4096), None);
        let first = commands.poll_command(Time(0)).unwrap();
        assert!(commands.poll_command(Time(0)).is_none());
        commands.handle_done(first.tag, Ok(()));
        assert_eq!(
            commands.poll_command(Time(0)).unwrap().access.length_bytes,
            504 << 10
        );
        assert!(commands.poll_command(Time(0)).is_none());
    }
}
