//! Paths that a kernel directs (dm-multipath): the counters of their life, from what the kernel
//! shows of them in every sample.
//!
//! All instants are those of samples, so times are exact to two intervals between samples. The
//! kernel does not show which commands it has repeated.
use std::collections::BTreeMap;

use hakaru_units::Time;

use super::figures::PathCounters;

/// A path in the status of a device of dm-multipath, as `dmsetup status` prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathStatus {
    /// Number of the path's disk: `8:16`.
    pub device: String,
    /// Whether the device sends commands over the path.
    pub is_active: bool,
    /// Number of times that the device gave up the path, since its table was loaded.
    pub failures: u64,
}

/// A path as the kernel shows it at one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathSight {
    /// The path in the status of the device.
    pub status: PathStatus,
    /// Whether the session of the path is logged in.
    pub has_session: bool,
    /// Number of commands that the path's disk has completed (`iodone_cnt`).
    pub answers: u64,
}

/// Parses the status of a target `multipath` (`multipath_status` of Linux's dm-mpath.c):
///
/// ```text
/// 2 0 0 0 2 1 A 0 1 0 8:16 A 0 E 0 1 0 8:32 F 3
/// features, hardware handler, groups, the next one; per group: state, selector, number of paths,
/// number of values per path; per path: disk, state, failures, values
/// ```
///
/// `None` for text of another form.
#[must_use]
pub fn parse_multipath_status(text: &str) -> Option<Vec<PathStatus>> {
    fn number(words: &mut dyn Iterator<Item = &str>) -> Option<usize> {
        words.next()?.parse().ok()
    }
    fn skip(words: &mut dyn Iterator<Item = &str>, count: usize) -> Option<()> {
        (0..count).try_for_each(|_| words.next().map(drop))
    }
    let words = &mut text.split_ascii_whitespace();
    let features = number(words)?;
    skip(words, features)?;
    let handler = number(words)?;
    skip(words, handler)?;
    let (groups, _next) = (number(words)?, number(words)?);
    let mut paths = Vec::new();
    for _ in 0..groups {
        let _state = words.next()?;
        let selector = number(words)?;
        skip(words, selector)?;
        let (count, values) = (number(words)?, number(words)?);
        for _ in 0..count {
            let device = words.next()?.to_owned();
            let is_active = match words.next()? {
                "A" => true,
                "F" => false,
                _ => return None,
            };
            let failures = words.next()?.parse().ok()?;
            skip(words, values)?;
            paths.push(PathStatus {
                device,
                is_active,
                failures,
            });
        }
    }
    Some(paths)
}

/// Known of a path from earlier samples.
struct Known {
    sight: PathSight,
    /// Sample that showed the last answer over the session.
    last_answer: Time,
    /// Sample that showed an answer before that one.
    earlier_answer: Time,
    /// The sample before the current one.
    observed: Time,
    /// Sample that showed the end of the session, until the next one.
    lost_at: Option<Time>,
    /// Instant of the last answer over a lost session, until the device releases its commands.
    holds_since: Option<Time>,
}

/// The counters of the paths of one device.
#[derive(Default)]
pub struct KernelPaths {
    known: BTreeMap<String, Known>,
    counters: PathCounters,
}

impl KernelPaths {
    /// Records that a request was submitted to the device.
    pub fn begin(&mut self, now: Time) {
        self.counters.begin(now);
    }

    /// Records that a request was completed. `left` is whether others are outstanding.
    pub fn end(&mut self, now: Time, left: bool) {
        self.counters.end(now, left);
    }

    /// Counts what has changed since the last call. The first sight of a path is its start.
    pub fn observe(&mut self, now: Time, sights: Vec<PathSight>) {
        self.counters.paths_usable =
            sights.iter().filter(|sight| sight.status.is_active).count() as u64;
        for sight in sights {
            match self.known.get_mut(&sight.status.device) {
                Some(known) => known.change(now, sight, &mut self.counters),
                None => {
                    let known = Known {
                        last_answer: now,
                        earlier_answer: now,
                        observed: now,
                        lost_at: (!sight.has_session).then_some(now),
                        holds_since: None,
                        sight,
                    };
                    self.known.insert(known.sight.status.device.clone(), known);
                }
            }
        }
    }

    /// Returns the counters up to now.
    #[must_use]
    pub fn counters(&self, now: Time) -> PathCounters {
        self.counters.until(now)
    }
}

impl Known {
    fn change(&mut self, now: Time, sight: PathSight, counters: &mut PathCounters) {
        if self.sight.has_session && !sight.has_session {
            counters.path_losses += 1;
            self.lost_at = Some(now);
            // The kernel ends the commands of a lost session before it shows the loss. The sample
            // between counts them as answers.
            let is_end = self.last_answer == self.observed;
            self.holds_since = Some(if is_end {
                self.earlier_answer
            } else {
                self.last_answer
            });
        }
        if sight.has_session && sight.answers != self.sight.answers {
            self.earlier_answer = self.last_answer;
            self.last_answer = now;
        }
        self.observed = now;
        let (switches, returns) = grown(&self.sight.status, &sight.status);
        counters.path_switches += switches;
        counters.path_returns += returns;
        // The kernel fails the commands of a path after its recovery time, or sends them again over
        // the same path when the session returns before. That is no failover.
        if (switches > 0 || sight.has_session)
            && let Some(since) = self.holds_since.take()
            && (switches > 0 || !self.sight.status.is_active)
        {
            counters.add_failover(now.ns_since(since));
        }
        if sight.has_session
            && let Some(lost_at) = self.lost_at.take()
        {
            counters.add_failback(now.ns_since(lost_at));
        }
        self.sight = sight;
    }
}

/// Returns how often the path became unusable and usable again.
fn grown(before: &PathStatus, after: &PathStatus) -> (u64, u64) {
    let returned =
        |status: &PathStatus| status.failures - u64::from(!status.is_active).min(status.failures);
    if after.failures < before.failures {
        // multipathd has loaded the table again, with new counters.
        return (
            u64::from(before.is_active && !after.is_active),
            u64::from(!before.is_active && after.is_active),
        );
    }
    (
        after.failures - before.failures,
        returned(after).saturating_sub(returned(before)),
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn at(seconds: u64) -> Time {
        Time(seconds * SECOND)
    }

    fn sight(
        device: &str,
        has_session: bool,
        is_active: bool,
        failures: u64,
        answers: u64,
    ) -> PathSight {
        PathSight {
            status: PathStatus {
                device: device.to_owned(),
                is_active,
                failures,
            },
            has_session,
            answers,
        }
    }

    #[test]
    fn status_of_every_selector_is_parsed() {
        let path = |device: &str, is_active, failures| PathStatus {
            device: device.to_owned(),
            is_active,
            failures,
        };
        let round_robin = "2 0 0 0 1 1 A 0 2 0 8:0 A 0 8:16 F 3 ";
        let both = vec![path("8:0", true, 0), path("8:16", false, 3)];
        assert_eq!(parse_multipath_status(round_robin), Some(both.clone()));
        let queue_length = "2 0 0 0 1 1 E 0 2 1 8:0 A 0 17 8:16 F 3 0 ";
        assert_eq!(parse_multipath_status(queue_length), Some(both.clone()));
        let failover_with_alua = "2 0 1 1 alua 2 2 E 0 1 0 8:0 A 0 A 0 1 0 8:16 F 3";
        assert_eq!(parse_multipath_status(failover_with_alua), Some(both));
        assert_eq!(parse_multipath_status("2 0 0 0 0 0"), Some(vec![]));
        for other in [
            "",
            "0 64 linear",
            "2 0 0 0 1 1 A 0 2 0 8:0 A 0",
            "2 0 0 0 1 1 A 0 1 0 8:0 X 0",
        ] {
            assert_eq!(parse_multipath_status(other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(words in proptest::collection::vec("[0-9A-Z:]{1,20}", 0..40)) {
            let _ = parse_multipath_status(&words.join(" "));
        }
    }

    #[test]
    fn lost_path_is_counted_from_its_last_answer_to_its_return() {
        let mut paths = KernelPaths::default();
        let other = |answers| sight("8:0", true, true, 0, answers);
        let samples = [
            (0, sight("8:16", true, true, 0, 5)),
            (1, sight("8:16", true, true, 0, 9)),
            // Silent from here. The session ends after two seconds, and the path one second later.
            (2, sight("8:16", true, true, 0, 9)),
            (3, sight("8:16", false, true, 0, 9)),
            // The kernel fails the commands, which counts as answers of the disk.
            (4, sight("8:16", false, false, 1, 13)),
            (7, sight("8:16", true, false, 1, 13)),
            (8, sight("8:16", true, true, 1, 15)),
        ];
        for (second, sight) in samples {
            paths.observe(at(second), vec![other(second), sight]);
        }
        let counters = paths.counters(at(8));
        assert_eq!(
            (
                counters.path_losses,
                counters.path_switches,
                counters.path_returns
            ),
            (1, 1, 1)
        );
        assert_eq!((counters.failovers, counters.failbacks), (1, 1));
        assert_eq!(counters.failover_ns_sum, 3 * SECOND);
        assert_eq!(counters.failback_ns_sum, 4 * SECOND);
        assert_eq!(counters.paths_usable, 2);
    }

    #[test]
    fn commands_that_end_with_their_session_are_no_answers() {
        let mut paths = KernelPaths::default();
        let samples = [
            (0, sight("8:0", true, true, 0, 5)),
            (1, sight("8:0", true, true, 0, 9)),
            (2, sight("8:0", true, true, 0, 9)),
            // The commands have ended, and the session still seems to be logged in.
            (3, sight("8:0", true, true, 0, 13)),
            (4, sight("8:0", false, true, 0, 13)),
            (5, sight("8:0", false, false, 1, 13)),
        ];
        for (second, sight) in samples {
            paths.observe(at(second), vec![sight]);
        }
        assert_eq!(paths.counters(at(5)).failover_ns_sum, 4 * SECOND);
    }

    #[test]
    fn session_that_returns_before_its_path_is_given_up_is_no_failover() {
        let mut paths = KernelPaths::default();
        for (second, has_session) in [(0, true), (1, false), (2, true), (3, true)] {
            paths.observe(at(second), vec![sight("8:0", has_session, true, 0, 5)]);
        }
        let counters = paths.counters(at(3));
        assert_eq!(
            (
                counters.path_losses,
                counters.path_switches,
                counters.path_returns
            ),
            (1, 0, 0)
        );
        assert_eq!((counters.failovers, counters.failover_ns_sum), (0, 0));
        assert_eq!((counters.failbacks, counters.failback_ns_sum), (1, SECOND));
    }

    #[test]
    fn failures_between_two_samples_and_reloaded_tables_are_counted() {
        let mut paths = KernelPaths::default();
        // Failed before the load began: not part of it.
        paths.observe(at(0), vec![sight("8:0", true, false, 4, 0)]);
        paths.observe(at(1), vec![sight("8:0", true, true, 6, 0)]);
        assert_eq!(paths.counters(at(1)).path_switches, 2);
        assert_eq!(paths.counters(at(1)).path_returns, 3);
        paths.observe(at(2), vec![sight("8:0", true, false, 7, 0)]);
        paths.observe(at(3), vec![sight("8:0", true, true, 0, 0)]);
        assert_eq!(paths.counters(at(3)).path_switches, 3);
        assert_eq!(paths.counters(at(3)).path_returns, 4);
    }

    #[test]
    fn gap_is_the_longest_time_without_an_answer_while_requests_are_outstanding() {
        let mut paths = KernelPaths::default();
        paths.begin(at(1));
        paths.end(at(2), true);
        paths.end(at(5), false);
        // Nothing is outstanding from 5 to 9.
        paths.begin(at(9));
        assert_eq!(paths.counters(at(10)).longest_gap_ns, 3 * SECOND);
        assert_eq!(paths.counters(at(13)).longest_gap_ns, 4 * SECOND);
    }
}
