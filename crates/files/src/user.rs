//! A user of a mix: the draws of its operations, the files that it created, and the instants at
//! which its operations begin.
use std::collections::VecDeque;
use std::time::Duration;

use hakaru_contract::files::UserOperation;
use hakaru_units::Time;

use crate::draw::{self, Use};
use crate::forest::{FileId, Role};
use crate::mix::{Mix, Pace};
use crate::step::{Act, Job, Step};

/// Largest number of created files that a user keeps.
const OWN_MAX: usize = 16;
/// Largest think time, in means.
const THINK_MAX: f64 = 10.0;

/// The user of one tree.
#[derive(Debug)]
pub(crate) struct User {
    seed: u64,
    tree: u32,
    /// Targets of the tree.
    targets: u32,
    /// Operations drawn so far.
    drawn: u64,
    /// Files that the user created, each beside the target of its number.
    own: VecDeque<Own>,
    /// Instant of the first operation.
    first: Time,
    /// Instant at which the next operation begins.
    due: Time,
}

/// A created file.
#[derive(Clone, Copy, Debug)]
struct Own {
    beside: FileId,
    renamed: bool,
}

impl User {
    /// Creates the user of a tree, who begins at `now`. `number` is that of its tool.
    pub(crate) fn new(
        seed: u64,
        tree: u32,
        targets: u32,
        number: u32,
        now: Time,
        mix: &Mix,
    ) -> User {
        let mut user = User {
            seed,
            tree,
            targets,
            drawn: 0,
            own: VecDeque::new(),
            first: now,
            due: now,
        };
        // Users do not begin all at once.
        user.first = match mix.pace {
            Pace::Think { mean_ns } => now + user.think_time(mean_ns),
            Pace::Rate { interval_ns, users } => {
                let phase = interval_ns * f64::from(number) / f64::from(users);
                now + Duration::from_nanos(phase as u64)
            }
        };
        user.due = user.first;
        user
    }

    /// Returns the instant at which the next operation begins.
    pub(crate) fn due(&self) -> Time {
        self.due
    }

    /// Returns whether files are left that the user created.
    pub(crate) fn has_files(&self) -> bool {
        !self.own.is_empty()
    }

    /// Draws the next operation, and the file that it is about.
    pub(crate) fn draw(&mut self, mix: &Mix) -> (FileId, Job) {
        let bits = draw::bits(self.seed, Use::Mix, [self.tree, 0, 0], self.drawn);
        self.drawn += 1;
        let own_max = OWN_MAX.min(self.targets as usize);
        let operation = match mix.operation(draw::fraction(bits)) {
            UserOperation::Rename | UserOperation::Delete if self.own.is_empty() => {
                UserOperation::Create
            }
            UserOperation::Create if self.own.len() >= own_max => UserOperation::Delete,
            drawn => drawn,
        };
        let below = |n: u64| draw::below(bits >> 64, n);
        let (file, renamed) = match operation {
            UserOperation::Rename | UserOperation::Delete => {
                let own = self.own[below(self.own.len() as u64) as usize];
                (own.beside, own.renamed)
            }
            UserOperation::Create => (self.free_from(below(self.targets.into()) as u32), false),
            _ => (self.target(below(self.targets.into()) as u32), false),
        };
        (file, Job::Of { operation, renamed })
    }

    /// Returns the delete of a file that the user created.
    pub(crate) fn leftover(&self) -> Option<(FileId, Job)> {
        let own = self.own.front()?;
        let job = Job::Of {
            operation: UserOperation::Delete,
            renamed: own.renamed,
        };
        Some((own.beside, job))
    }

    /// Handles the end of an operation at `now`, and plans the next one. A file whose rename or
    /// delete failed is still there, and is used again until the tool stops.
    pub(crate) fn handle_ended(&mut self, now: Time, step: &Step, mix: &Mix) {
        let succeeded = !step.failed;
        let place = self.own.iter().position(|own| own.beside == step.file);
        match (&step.act, place) {
            (Act::Create, _) if succeeded => self.own.push_back(Own {
                beside: step.file,
                renamed: false,
            }),
            (Act::Rename { .. }, Some(place)) if succeeded => self.own[place].renamed ^= true,
            (Act::Delete, Some(place)) if succeeded || step.tidies => {
                self.own.remove(place);
            }
            _ => {}
        }
        self.due = match mix.pace {
            Pace::Think { mean_ns } => now + self.think_time(mean_ns),
            Pace::Rate { interval_ns, .. } => {
                let passed = Duration::from_nanos((interval_ns * self.drawn as f64) as u64);
                now.max(self.first + passed)
            }
        };
    }

    /// Draws the think time before the next operation.
    fn think_time(&self, mean_ns: f64) -> Duration {
        let bits = draw::bits(self.seed, Use::Think, [self.tree, 0, 0], self.drawn);
        let means = (-draw::fraction(bits).ln()).min(THINK_MAX);
        Duration::from_nanos((mean_ns * means) as u64)
    }

    fn target(&self, index: u32) -> FileId {
        FileId {
            tree: self.tree,
            role: Role::Target,
            index,
        }
    }

    /// Returns the first target from `index` on beside which the user has no file.
    fn free_from(&self, index: u32) -> FileId {
        (0..self.targets)
            .map(|further| self.target((index + further) % self.targets))
            .find(|file| self.own.iter().all(|own| own.beside != *file))
            .expect("fewer files than targets are kept")
    }
}
