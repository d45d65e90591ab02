//! Several paths from a VM to its LU: their use, and the timers that decide when a path has failed.
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Destination, InitiatorConfig};
use crate::config_error::{ConfigError, refuse};

/// Maximum number of paths of a VM.
pub const PATHS_MAX: usize = 16;
/// Longest timer of a path, seconds.
const SECONDS_MAX: f64 = 3600.0;

/// Choice of the path of a command among the usable paths. Paths in the state active/optimized are
/// preferred to those in the state active/non-optimized. Other paths are not used. Among paths in
/// the same state, those of the preferred target port group (PREF) come first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PathPolicy {
    /// One after another.
    #[default]
    RoundRobin,
    /// The path with the fewest outstanding commands.
    LeastQueueDepth,
    /// The first path in the order of the configuration. The others are for failures.
    Failover,
}

/// Use of several paths by every VM, as multipath drivers of operating systems have it.
///
/// A path has failed when its session ends: the connection ends, a command exceeds
/// `command_timeout_s`, or the target does not answer a ping. A target that has become silent is
/// noticed `nop_interval_s` + `nop_timeout_s` after its last answer. `recovery_s` later, the commands
/// of the path are repeated on others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Multipath {
    /// Choice of the path of a command. Default: round robin.
    pub policy: PathPolicy,
    /// Time without an answer of the target after which it is pinged with a NOP-Out, seconds, 0.05
    /// to 3600. Default 5.
    pub nop_interval_s: f64,
    /// Time limit of the answer to a ping, seconds, 0.05 to 3600. Default 5.
    pub nop_timeout_s: f64,
    /// Time after the end of a session for which its commands wait for a new session of the same
    /// path, seconds, 0 to 3600. Then they are repeated on other paths. New commands use the other
    /// paths at once. Default 5.
    pub recovery_s: f64,
    /// Time limit of a connection attempt and of a login, seconds, 0.05 to 3600. Default 5.
    pub login_timeout_s: f64,
    /// Interval between the attempts to log in again over a failed path, seconds, 0.05 to 3600.
    /// Default 1.
    pub retry_s: f64,
    /// Interval between checks of the access states of the ports (ALUA), seconds, 0.05 to 3600.
    /// Answers and unit attention conditions that report another state cause a check at once.
    /// Default 5.
    pub check_s: f64,
    /// Time for which a path that is connected again is not used yet, seconds, 0 to 3600. Default 0.
    pub failback_s: f64,
    /// Time without a usable path after which the VM fails, seconds, 0 to 3600. Default 30.
    pub no_path_s: f64,
    /// Longest time after the loss of a path for which its writes may still take effect in the
    /// target, seconds, 0 to 3600. A later write to the same blocks waits for this time, or until
    /// the target has accepted a new login that ends the old session. Default 5: Linux keeps packets
    /// for up to 3 seconds while it looks for the address of a neighbour, and sends them when the
    /// link returns.
    pub stale_s: f64,
}

impl Default for Multipath {
    fn default() -> Multipath {
        Multipath {
            policy: PathPolicy::default(),
            nop_interval_s: 5.0,
            nop_timeout_s: 5.0,
            recovery_s: 5.0,
            login_timeout_s: 5.0,
            retry_s: 1.0,
            check_s: 5.0,
            failback_s: 0.0,
            no_path_s: 30.0,
            stale_s: 5.0,
        }
    }
}

impl Multipath {
    fn validate(&self, field: &str) -> Result<(), ConfigError> {
        let times = [
            ("nop_interval_s", self.nop_interval_s, 0.05),
            ("nop_timeout_s", self.nop_timeout_s, 0.05),
            ("recovery_s", self.recovery_s, 0.0),
            ("login_timeout_s", self.login_timeout_s, 0.05),
            ("retry_s", self.retry_s, 0.05),
            ("check_s", self.check_s, 0.05),
            ("failback_s", self.failback_s, 0.0),
            ("no_path_s", self.no_path_s, 0.0),
            ("stale_s", self.stale_s, 0.0),
        ];
        for (name, value, shortest) in times {
            if !(shortest..=SECONDS_MAX).contains(&value) {
                let problem = format!("{value} seconds");
                let hint = format!("use {shortest} to {SECONDS_MAX}");
                return refuse(format!("{field}.{name}"), problem, hint);
            }
        }
        Ok(())
    }
}

impl Destination {
    /// Returns the portals of the paths, the first one first. Empty for a file.
    pub fn portals(&self) -> impl Iterator<Item = &str> {
        let (first, others) = match self {
            Destination::Iscsi {
                portal,
                other_portals,
                ..
            } => (Some(portal), &other_portals[..]),
            Destination::File { .. } => (None, &[][..]),
        };
        first.into_iter().chain(others).map(String::as_str)
    }
}

impl InitiatorConfig {
    /// Returns the number of sessions of each VM with its own sessions: one per path, or
    /// `sessions_per_vm`.
    #[must_use]
    pub fn legs(&self) -> u32 {
        if self.multipath.is_none() {
            return self.sessions_per_vm;
        }
        let paths = self.vms.first().map(|vm| vm.destination.portals().count());
        paths.unwrap_or(1) as u32
    }

    /// Checks that either every VM has several paths or none has.
    pub(super) fn validate_paths(&self) -> Result<(), ConfigError> {
        let paths = |index: usize| self.vms[index].destination.portals().count();
        let Some(multipath) = &self.multipath else {
            return match (0..self.vms.len()).find(|&index| paths(index) > 1) {
                Some(index) => refuse(
                    format!("vms[{index}].destination.other_portals"),
                    "is set, but `multipath` is not",
                    "set `multipath`, whose fields have defaults, or name one portal",
                ),
                None => Ok(()),
            };
        };
        multipath.validate("multipath")?;
        if self.share_sessions || self.sessions_per_vm != 1 {
            return refuse(
                "multipath",
                "each VM has one session per path, which no other VM shares",
                "omit `share_sessions` and `sessions_per_vm`",
            );
        }
        let first = paths(0);
        for index in 0..self.vms.len() {
            let count = paths(index);
            let field = format!("vms[{index}].destination.other_portals");
            if !(1..=PATHS_MAX).contains(&count) {
                let problem = format!("{count} portals");
                let hint = format!("name 1 to {PATHS_MAX} portals of an iSCSI target");
                return refuse(field, problem, hint);
            }
            if count != first {
                let problem = format!("{count} portals, and the first VM has {first}");
                return refuse(field, problem, "use the same number for every VM");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::initiator::fixture::config;

    fn add_portal(config: &mut InitiatorConfig, vm: usize, portal: &str) {
        let Destination::Iscsi { other_portals, .. } = &mut config.vms[vm].destination else {
            unreachable!()
        };
        other_portals.push(portal.to_owned());
    }

    #[test]
    fn every_refusal_of_paths_names_its_field() {
        type Case = (fn(&mut InitiatorConfig), &'static str);
        let cases: [Case; 8] = [
            (|c| c.multipath = None, "vms[0].destination.other_portals"),
            (|c| c.share_sessions = true, "multipath"),
            (|c| c.sessions_per_vm = 2, "multipath"),
            (
                |c| add_portal(c, 1, "127.0.0.4:3260"),
                "vms[1].destination.other_portals",
            ),
            (
                |c| {
                    let Destination::Iscsi { other_portals, .. } = &mut c.vms[1].destination else {
                        unreachable!()
                    };
                    other_portals[0] = "nowhere".to_owned();
                },
                "vms[1].destination.other_portals[0]",
            ),
            (
                |c| (0..PATHS_MAX).for_each(|_| add_portal(c, 0, "127.0.0.3:3260")),
                "vms[0].destination.other_portals",
            ),
            (
                |c| c.multipath.as_mut().unwrap().nop_timeout_s = 0.0,
                "multipath.nop_timeout_s",
            ),
            (
                |c| c.multipath.as_mut().unwrap().recovery_s = f64::NAN,
                "multipath.recovery_s",
            ),
        ];
        let valid = || {
            let mut config = config();
            config.multipath = Some(Box::default());
            (0..2).for_each(|vm| add_portal(&mut config, vm, "127.0.0.2:3260"));
            config
        };
        assert_eq!(valid().validate(), Ok(()));
        assert_eq!(valid().legs(), 2);
        for (change, field) in cases {
            let mut changed = valid();
            change(&mut changed);
            assert_eq!(changed.validate().unwrap_err().field, field);
        }
    }
}
