//! Checks of the target port groups.
use hakaru_contract::ArrayConfig;

use super::bound::bound;
use crate::failure::Failure;

/// Maximum number of groups, which is that of portals.
const GROUPS_MAX: u64 = 16;

/// Checks the target port groups.
///
/// # Errors
/// A group is empty, names a portal that does not exist or that is in a group already, or is the
/// second preferred one.
pub fn check(config: &ArrayConfig) -> Result<(), Failure> {
    let groups = &config.port_groups;
    bound("number of port_groups", groups.len() as u64, 0, GROUPS_MAX)?;
    let mut group_of = vec![None; config.portals.len()];
    let mut preferred = None;
    for (index, group) in groups.iter().enumerate() {
        let refuse = |problem: String, hint: &str| {
            let message = format!("port_groups[{index}]: {problem}");
            Err(Failure::usage(message, hint))
        };
        if group.portals.is_empty() {
            let hint = "name a portal by its index, or remove the group";
            return refuse("it has no portal".to_owned(), hint);
        }
        for portal in &group.portals {
            match group_of.get_mut(usize::from(*portal)) {
                None => {
                    let problem = format!("there is no portal {portal}");
                    return refuse(problem, "portals are numbered from 0");
                }
                Some(Some(other)) => {
                    let problem = format!("portal {portal} is in port_groups[{other}] already");
                    return refuse(problem, "name each portal once");
                }
                Some(group) => *group = Some(index),
            }
        }
        if group.preferred
            && let Some(other) = preferred.replace(index)
        {
            let problem = format!("port_groups[{other}] is the preferred group already");
            return refuse(problem, "set preferred for one group at most");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Returns the message of the refusal of an array with two portals and these groups, or an
    /// empty string.
    fn refusal(groups: Value) -> String {
        let config = json!({
            "target_name": "iqn.2026-01.org.example:array",
            "portals": ["127.0.0.1:0", "127.0.0.1:0"],
            "port_groups": groups,
            "lus": [],
            "model": {"kind": "none"},
        });
        let config: ArrayConfig = serde_json::from_value(config).expect("a configuration");
        match check(&config) {
            Ok(()) => String::new(),
            Err(failure) => failure.message,
        }
    }

    #[test]
    fn each_portal_is_in_one_group_and_one_group_is_preferred() {
        for sound in [
            json!([]),
            json!([{"portals": [1, 0], "preferred": true}]),
            json!([{"portals": [1]}, {"portals": [0], "preferred": true}]),
        ] {
            assert_eq!(refusal(sound), "");
        }
        for (groups, message) in [
            (json!([{"portals": []}]), "port_groups[0]: it has no portal"),
            (
                json!([{"portals": [0]}, {"portals": [2]}]),
                "port_groups[1]: there is no portal 2",
            ),
            (
                json!([{"portals": [0]}, {"portals": [1, 0]}]),
                "port_groups[1]: portal 0 is in port_groups[0] already",
            ),
            (
                json!([{"portals": [0, 0]}]),
                "port_groups[0]: portal 0 is in port_groups[0] already",
            ),
            (
                json!([{"portals": [0], "preferred": true}, {"portals": [1], "preferred": true}]),
                "port_groups[1]: port_groups[0] is the preferred group already",
            ),
        ] {
            assert_eq!(refusal(groups), message);
        }
    }
}
