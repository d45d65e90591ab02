//! The choice of a path for a command.
use hakaru_contract::initiator::PathPolicy;
use hakaru_units::Time;

use super::path::{Path, Usability};

/// Chooses among the usable paths with the best access state, and of those, among the paths of the
/// preferred target port group if there is one.
#[derive(Debug)]
pub struct Choice {
    policy: PathPolicy,
    /// Maximum number of outstanding commands per path.
    outstanding_max: u32,
    /// First path that round robin considers.
    turn: usize,
}

impl Choice {
    /// Creates a choice by a policy. Each path has at most `outstanding_max` outstanding commands.
    pub fn new(policy: PathPolicy, outstanding_max: u32) -> Choice {
        Choice {
            policy,
            outstanding_max,
            turn: 0,
        }
    }

    /// Returns the path of the next command, if one has room.
    pub fn of(&self, paths: &[Path], now: Time) -> Option<usize> {
        let usable = |&path: &usize| paths[path].usability(now) == Usability::Usable;
        let best = (0..paths.len())
            .filter(usable)
            .map(|path| paths[path].rank())
            .min()?;
        let is_best = |path: &usize| paths[*path].rank() == best && usable(path);
        let has_room = |path: &usize| paths[*path].outstanding < self.outstanding_max;
        let is_candidate = |path: &usize| is_best(path) && has_room(path);
        // All paths, beginning with the one whose turn it is.
        let mut in_turn = (self.turn..paths.len()).chain(0..self.turn);
        match self.policy {
            // A full path is no failure: commands wait for it.
            PathPolicy::Failover => (0..paths.len()).find(is_best).filter(has_room),
            PathPolicy::RoundRobin => in_turn.find(is_candidate),
            PathPolicy::LeastQueueDepth => in_turn
                .filter(is_candidate)
                .min_by_key(|&path| paths[path].outstanding),
        }
    }

    /// Lets the path after `path`, which a command takes, be the next in turn.
    pub fn advance(&mut self, path: usize, paths: usize) {
        self.turn = (path + 1) % paths;
    }
}
