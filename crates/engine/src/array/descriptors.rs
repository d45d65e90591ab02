//! Division of the process's open files among sessions, logins in progress and pipes.
//!
//! Without this division, each of them alone could fit the limit of open files while their sum
//! exceeds it. accept(2) would then fail, and no initiator could log in.
use hakaru_runtime::process;

use super::lending::{self, Lending};
use crate::failure::Failure;

/// Connections reserved for logins in progress when all sessions are in use. With them, an
/// initiator can replace its session, and one initiator too many receives a login response.
const LOGINS_RESERVED: u64 = 8;

/// One pipe is created per this many connections that the limit of open files permits.
const CONNECTIONS_PER_PIPE: u64 = 16;

/// Number of descriptors of a pipe.
const DESCRIPTORS_PER_PIPE: u64 = 2;

/// Bounds on connections, sessions and pipes that the limit of open files permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptors {
    /// Maximum number of connections of any kind.
    pub connections_max: u32,
    /// Maximum number of sessions in full feature phase.
    pub sessions_max: u32,
    /// Maximum number of pipes for zero-copy sends.
    pub pipes_max: u32,
}

impl Descriptors {
    /// Divides the descriptors that the limit of open files leaves beside the files open now.
    /// `sessions_max` is the configured bound.
    ///
    /// # Errors
    /// No descriptor is left for a session.
    pub fn at_start(sessions_max: u32) -> Result<Descriptors, Failure> {
        let plan = Descriptors::plan(process::connections_possible(0), sessions_max);
        if plan.sessions_max == 0 {
            return Err(Failure::environment(
                "the limit of open files leaves no descriptor for a session",
                "raise the limit with `ulimit -n`",
            ));
        }
        Ok(plan)
    }

    /// Divides the descriptors again after a file was opened or closed. `open` connections are
    /// open, and `lending` has created some of its pipes. The bound on pipes does not change.
    pub fn divided_again(self, open: usize, lending: &Lending) -> Descriptors {
        let pipes = u64::from(self.pipes_max.saturating_sub(lending.created()));
        let possible = process::connections_possible(open as u64);
        let connections = possible.saturating_sub(pipes * DESCRIPTORS_PER_PIPE);
        let divided = Descriptors::with_connections(connections, self.sessions_max);
        Descriptors {
            connections_max: divided.connections_max.min(self.connections_max),
            pipes_max: self.pipes_max,
            ..divided
        }
    }

    fn plan(possible: u64, sessions_max: u32) -> Descriptors {
        let pipes = (possible / CONNECTIONS_PER_PIPE).min(lending::PIPES_MAX.into());
        let connections = possible - pipes * DESCRIPTORS_PER_PIPE;
        Descriptors {
            pipes_max: pipes as u32,
            ..Descriptors::with_connections(connections, sessions_max)
        }
    }

    /// Divides connections into sessions and logins, without pipes.
    fn with_connections(connections: u64, sessions_max: u32) -> Descriptors {
        let sessions = connections - LOGINS_RESERVED.min(connections.div_ceil(2));
        Descriptors {
            connections_max: connections.try_into().unwrap_or(u32::MAX),
            sessions_max: sessions.min(sessions_max.into()) as u32,
            pipes_max: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_and_pipes_never_need_more_descriptors_than_possible() {
        for possible in (0..70_000).chain([u64::MAX]) {
            let plan = Descriptors::plan(possible, 20_000);
            let pipes = u64::from(plan.pipes_max) * DESCRIPTORS_PER_PIPE;
            assert!(u64::from(plan.connections_max) + pipes <= possible);
            assert_eq!(plan.sessions_max == 0, possible < 2, "{possible}");
            assert!(possible == 0 || plan.sessions_max < plan.connections_max);
        }
    }

    #[test]
    fn a_usual_limit_leaves_the_configured_sessions_and_all_pipes() {
        let plan = Descriptors::plan(65_536 - 64, 16_384);
        assert_eq!((plan.sessions_max, plan.pipes_max), (16_384, 64));
    }
}
