//! A VM's requests as commands: a long one goes as several, and what a session may not take yet
//! waits here.
//!
//! 1. [`Commands::admit`] takes a request of the load, with the data of a write;
//! 2. [`Commands::poll_command`] gives the next command for a session that has room: those of the oldest request first;
//! 3. [`Commands::handle_done`] ends one, and tells when it was the last of its request.
use std::collections::VecDeque;
use std::sync::Arc;

use hakaru_iscsi_session::TaskError;

use crate::load::{Request, RequestId};
use crate::pattern::{Access, Op};

/// A command to carry out.
#[derive(Clone, Debug)]
pub(crate) struct Command {
    /// To be given back to [`Commands::handle_done`].
    pub tag: u32,
    /// The part of the request that it does.
    pub access: Access,
    /// Of a write: the request's bytes, and where in them those of this command begin.
    pub data: Option<(Arc<Vec<u8>>, usize)>,
}

/// What became of a command.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Its request.
    pub request: RequestId,
    /// Of the last command of the request: how the request ended.
    pub result: Option<Result<(), TaskError>>,
}

/// A request that is under way.
#[derive(Debug)]
struct UnderWay {
    access: Access,
    /// Of a write, until its last command is given: its bytes, and where in them they begin.
    data: Option<(Arc<Vec<u8>>, usize)>,
    /// Commands that were given.
    given: u32,
    /// Parts that have not ended: commands, and the rest while there is one.
    open: u32,
    /// Of those that have: how the first that failed did.
    result: Result<(), TaskError>,
}

impl UnderWay {
    /// What a place holds before its first request.
    fn nothing() -> UnderWay {
        UnderWay {
            access: Access {
                op: Op::Read,
                offset_bytes: 0,
                length_bytes: 0,
            },
            data: None,
            given: 0,
            open: 0,
            result: Ok(()),
        }
    }
}

/// The requests of a VM that are under way. See the module.
#[derive(Debug)]
pub(crate) struct Commands {
    longest: u32,
    /// By [`RequestId`]; free places keep what was there.
    requests: Vec<UnderWay>,
    /// Requests that further commands are to be made for, oldest first.
    waiting: VecDeque<RequestId>,
}

impl Commands {
    /// Commands of at most `longest` bytes, above 0 and a multiple of the LU's block; `None`: as
    /// long as requests are.
    pub(crate) fn new(longest: Option<u32>) -> Commands {
        Commands {
            longest: longest.unwrap_or(u32::MAX),
            requests: Vec::new(),
            waiting: VecDeque::new(),
        }
    }

    /// A request to carry out; `data` of a write: a buffer and where in it its bytes begin.
    #[inline]
    pub(crate) fn admit(&mut self, request: &Request, data: Option<(Arc<Vec<u8>>, usize)>) {
        let place = request.id.0 as usize;
        if self.requests.len() <= place {
            self.requests.resize_with(place + 1, UnderWay::nothing);
        }
        let under_way = &mut self.requests[place];
        under_way.access = request.access;
        under_way.data = data;
        under_way.given = 0;
        under_way.open = 1;
        under_way.result = Ok(());
        self.waiting.push_back(request.id);
    }

    /// The next command.
    #[inline]
    pub(crate) fn poll_command(&mut self) -> Option<Command> {
        let request = self.waiting.pop_front()?;
        let under_way = &mut self.requests[request.0 as usize];
        let number = under_way.given;
        let access = part(&under_way.access, self.longest, number);
        under_way.given += 1;
        let data = if access.end_bytes() == under_way.access.end_bytes() {
            under_way.data.take()
        } else {
            self.waiting.push_front(request);
            under_way.open += 1;
            under_way.data.clone()
        };
        let before = (access.offset_bytes - under_way.access.offset_bytes) as usize;
        Some(Command {
            tag: tag_of(request, number),
            access,
            data: data.map(|(buffer, begin)| (buffer, begin + before)),
        })
    }

    /// What a command that is under way does.
    #[inline]
    pub(crate) fn access(&self, tag: u32) -> Access {
        let (request, number) = place_of(tag);
        part(
            &self.requests[request.0 as usize].access,
            self.longest,
            number,
        )
    }

    /// A command has ended.
    #[inline]
    pub(crate) fn handle_done(&mut self, tag: u32, result: Result<(), TaskError>) -> Ended {
        let (request, _) = place_of(tag);
        let under_way = &mut self.requests[request.0 as usize];
        under_way.open -= 1;
        if result.is_err() && under_way.result.is_ok() {
            under_way.result = result;
        }
        let result = (under_way.open == 0).then_some(under_way.result);
        Ended { request, result }
    }
}

/// The part of a request that its command number `number`, from 0, does.
#[inline]
fn part(request: &Access, longest: u32, number: u32) -> Access {
    let before = longest * number;
    Access {
        op: request.op,
        offset_bytes: request.offset_bytes + u64::from(before),
        length_bytes: longest.min(request.length_bytes - before),
    }
}

/// A command's tag: its request, of which a VM has 1024 at most, and its number among the request's
/// commands, 32 768 at most.
#[inline]
fn tag_of(request: RequestId, number: u32) -> u32 {
    debug_assert!(request.0 <= 0xffff && number <= 0xffff);
    number << 16 | request.0
}

/// What [`tag_of`] has put together.
#[inline]
fn place_of(tag: u32) -> (RequestId, u32) {
    (RequestId(tag & 0xffff), tag >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hakaru_units::Time;

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
    fn long_requests_go_as_several_commands_and_end_with_the_last() {
        let mut commands = Commands::new(Some(4096));
        let bytes = Arc::new(vec![0; 20_000]);
        commands.admit(&request(0, 1 << 20, 10_240), Some((Arc::clone(&bytes), 64)));
        commands.admit(&request(1, 0, 512), Some((bytes, 0)));
        let given: Vec<Command> = std::iter::from_fn(|| commands.poll_command()).collect();
        let places: Vec<_> = given
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
            places,
            [
                (0, 4096, 64),
                (4096, 4096, 4160),
                (8192, 2048, 8256),
                (0, 512, 0)
            ]
        );
        assert!(commands.waiting.is_empty());
        // In any order; the first failure is the request's.
        assert!(commands.handle_done(given[2].tag, Ok(())).result.is_none());
        let error = TaskError::CheckWithoutSense;
        assert!(
            commands
                .handle_done(given[0].tag, Err(error))
                .result
                .is_none()
        );
        assert_eq!(
            commands.handle_done(given[3].tag, Ok(())).result,
            Some(Ok(()))
        );
        let last = commands.handle_done(given[1].tag, Err(TaskError::TargetFailure(1)));
        assert_eq!(
            (last.request, last.result),
            (RequestId(0), Some(Err(TaskError::CheckWithoutSense)))
        );
        // Places are used again.
        commands.admit(&request(0, 0, 512), None);
        assert!(commands.poll_command().unwrap().tag < 4);
    }

    #[test]
    fn requests_are_not_split_unless_told() {
        let mut commands = Commands::new(None);
        commands.admit(&request(7, 0, 16 << 20), None);
        assert_eq!(
            commands.poll_command().unwrap().access.length_bytes,
            16 << 20
        );
        assert!(commands.poll_command().is_none());
    }
}
