//! Target ports and their groups (SPC-4 section 5.15).

use hakaru_wire::scsi::AccessState;

/// Ports that form a target port group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortGroupDescription {
    /// Positions of the ports, from 0. 1 to 255 ports.
    pub ports: Vec<u16>,
    /// Whether the group is the preferred one (PREF).
    pub preferred: bool,
}

/// A target port group: ports that share their asymmetric access state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessGroup {
    /// Asymmetric access state.
    pub state: AccessState,
    /// The cause of the last change of the state.
    pub change: PortChange,
    /// Whether the group is the preferred one (PREF).
    pub preferred: bool,
}

/// The cause of a change of a group's state: STATUS CODE of REPORT TARGET PORT GROUPS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum PortChange {
    /// The state has never changed.
    #[default]
    Never = 0,
    /// SET TARGET PORT GROUPS.
    Command = 1,
    /// The operator.
    Device = 2,
}

/// The ports of a target. Each is in one group. Positions of ports and groups count from 0; their
/// numbers in SCSI count from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetPorts {
    /// Position of the group of each port.
    group_of: Vec<usize>,
    groups: Vec<AccessGroup>,
}

impl TargetPorts {
    /// Creates active/optimized ports. The groups are numbered in the order of their descriptions.
    /// Each port that is in none of them is a group of its own behind them.
    ///
    /// # Panics
    /// If a group has no port or more than 255, or names a port that does not exist or that is in
    /// another group.
    #[must_use]
    pub fn new(ports: usize, descriptions: &[PortGroupDescription]) -> Self {
        let mut group_of = vec![None; ports];
        let mut groups = Vec::new();
        for description in descriptions {
            assert!(
                (1..=255).contains(&description.ports.len()),
                "a group must have 1 to 255 ports"
            );
            for port in &description.ports {
                let group = &mut group_of[usize::from(*port)];
                assert_eq!(*group, None, "port {port} is in two groups");
                *group = Some(groups.len());
            }
            groups.push(AccessGroup {
                preferred: description.preferred,
                ..AccessGroup::default()
            });
        }
        let alone = |groups: &mut Vec<AccessGroup>| {
            groups.push(AccessGroup::default());
            groups.len() - 1
        };
        let group_of = group_of
            .into_iter()
            .map(|group| group.unwrap_or_else(|| alone(&mut groups)))
            .collect();
        Self { group_of, groups }
    }

    /// Returns the number of ports.
    #[must_use]
    pub fn count(&self) -> usize {
        self.group_of.len()
    }

    /// Returns the groups.
    #[must_use]
    pub fn groups(&self) -> &[AccessGroup] {
        &self.groups
    }

    /// Returns the position of a port's group.
    ///
    /// # Panics
    /// If there is no such port.
    #[must_use]
    pub fn group_of(&self, port: usize) -> usize {
        self.group_of[port]
    }

    /// Returns the positions of the ports of a group.
    pub fn members(&self, group: usize) -> impl Iterator<Item = usize> + '_ {
        let ports = self.group_of.iter().enumerate();
        ports.filter_map(move |(port, of)| (*of == group).then_some(port))
    }

    /// Returns the access state of a port.
    ///
    /// # Panics
    /// If there is no such port.
    #[must_use]
    pub fn state(&self, port: usize) -> AccessState {
        self.groups[self.group_of[port]].state
    }

    /// Sets the state of a group. Returns whether it was another one.
    ///
    /// # Panics
    /// If there is no such group.
    pub fn set_state(&mut self, group: usize, state: AccessState, change: PortChange) -> bool {
        let group = &mut self.groups[group];
        let changes = group.state != state;
        if changes {
            (group.state, group.change) = (state, change);
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(ports: &TargetPorts) -> Vec<Vec<usize>> {
        let groups = 0..ports.groups().len();
        groups.map(|group| ports.members(group).collect()).collect()
    }

    #[test]
    fn ports_without_a_described_group_follow_alone() {
        assert_eq!(members(&TargetPorts::new(2, &[])), [[0], [1]]);
        let pair = PortGroupDescription {
            ports: vec![3, 1],
            preferred: true,
        };
        let mut ports = TargetPorts::new(4, &[pair]);
        assert_eq!(members(&ports), [vec![1, 3], vec![0], vec![2]]);
        let preferred: Vec<bool> = ports.groups().iter().map(|group| group.preferred).collect();
        assert_eq!(preferred, [true, false, false]);
        assert!(ports.set_state(0, AccessState::Standby, PortChange::Command));
        assert!(!ports.set_state(0, AccessState::Standby, PortChange::Device));
        assert_eq!(ports.groups()[0].change, PortChange::Command);
        let standby = [false, true, false, true];
        let states = standby.map(|standby| match standby {
            true => AccessState::Standby,
            false => AccessState::ActiveOptimized,
        });
        assert_eq!([0, 1, 2, 3].map(|port| ports.state(port)), states);
    }

    #[test]
    #[should_panic(expected = "port 1 is in two groups")]
    fn port_has_one_group() {
        let group = PortGroupDescription {
            ports: vec![1],
            preferred: false,
        };
        let _ = TargetPorts::new(2, &[group.clone(), group]);
    }
}
