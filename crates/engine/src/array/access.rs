//! The access list, and the addresses that the array may listen on, checked.
use std::net::{IpAddr, SocketAddr};

use hakaru_contract::{AccessConfig, AccessRule, ArrayConfig, ChapAlgorithm};
use hakaru_iscsi_target::{Access, LuAccess, Rule};

use crate::failure::Failure;
use crate::secret::{algorithm, credentials};

/// The access list, with every secret read.
///
/// # Errors
/// A secret is missing or unusable, an address is invalid, or users and rules contradict each
/// other.
pub fn access(config: &AccessConfig) -> Result<Access, Failure> {
    let users = config.users.iter().enumerate();
    let users = users.map(|(at, user)| credentials(&format!("access.users[{at}]"), user));
    let target = config.target.as_ref();
    let target = target.map(|target| credentials("access.target", target));
    let rules = config.rules.as_ref().map(|rules| {
        let rules = rules.iter().enumerate();
        rules.map(|(at, rule)| self::rule(at, rule)).collect()
    });
    let access = Access {
        users: users.collect::<Result<_, _>>()?,
        target: target.transpose()?,
        algorithms: config
            .algorithms
            .iter()
            .map(|one| algorithm(*one))
            .collect(),
        rules: rules.transpose()?,
    };
    access.check().map_err(|error| {
        Failure::usage(format_args!("access: {error}"), "correct the configuration")
    })?;
    Ok(access)
}

fn rule(at: usize, rule: &AccessRule) -> Result<Rule, Failure> {
    let address = rule.address.as_ref().map(|text| {
        text.parse().map_err(|error| {
            Failure::usage(
                format_args!("access.rules[{at}].address: {text:?} is {error}"),
                "bits behind the prefix are 0: 10.1.0.0/16, not 10.1.2.3/16",
            )
        })
    });
    let lus = rule.lus.as_ref().map(|lus| {
        let lus = lus.iter().map(|lu| LuAccess {
            lun: lu.lun,
            read_only: lu.read_only,
        });
        lus.collect()
    });
    Ok(Rule {
        initiator_name: rule.initiator_name.clone(),
        address: address.transpose()?,
        user: rule.user.clone(),
        lus,
    })
}

/// Refuses addresses that other machines can reach, unless the configuration allows that, all
/// initiators authenticate, and there is an access list.
///
/// # Errors
/// One of the three is missing.
pub fn check_exposure(
    config: &ArrayConfig,
    addresses: &[SocketAddr],
    access: &Access,
) -> Result<(), Failure> {
    let outside = addresses.iter().find(|address| !is_local(address.ip()));
    let Some(outside) = outside.filter(|_| !config.isolated_network) else {
        return Ok(());
    };
    let refuse = |what: &str, hint: &str| {
        Err(Failure::usage(
            format_args!("portals: {outside} can be reached from other machines, {what}"),
            hint,
        ))
    };
    if !config.allow_external {
        return refuse(
            "and that was not asked for",
            "listen on 127.0.0.1, or say `allow_external: true`, with CHAP and an access list",
        );
    }
    if !access.always_authenticates() {
        return refuse(
            "and not every initiator must authenticate with CHAP",
            "give `access.users`, and each of `access.rules` its `user`",
        );
    }
    if access.rules.is_none() {
        return refuse(
            "and there is no list of who may come",
            "give `access.rules`: initiator names, addresses and users that are let in",
        );
    }
    Ok(())
}

fn is_local(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// The warning about a configuration that accepts CHAP responses made with a broken hash.
pub fn weakness(config: &AccessConfig) -> Option<Failure> {
    let weak = config
        .algorithms
        .iter()
        .any(|one| ChapAlgorithm::is_weak(*one));
    weak.then(|| {
        Failure::usage(
            "access.algorithms: CHAP with SHA-1 or MD5 is accepted; both can be broken",
            "only for initiators that know no other; SHA3-256 and SHA-256 are the default",
        )
    })
}

#[cfg(test)]
mod tests {
    use hakaru_contract::drive::Model;
    use hakaru_contract::{ChapUser, SecretSource};

    use super::*;

    fn config(external: bool, chap: bool, list: bool) -> ArrayConfig {
        let user = ChapUser {
            name: "vm".into(),
            secret: SecretSource::Text {
                text: "canary-canary".into(),
            },
        };
        let mut config: ArrayConfig = serde_json::from_value(serde_json::json!({
            "target_name": "iqn.2026-01.net.example:array",
            "portals": ["192.0.2.1:3260"],
            "lus": [],
            "model": {"kind": "none"},
        }))
        .expect("a configuration");
        assert_eq!(config.model, Model::None);
        config.allow_external = external;
        config.access.users = if chap { vec![user] } else { vec![] };
        config.access.rules = list.then(|| {
            vec![AccessRule {
                initiator_name: Some("iqn.2026-01.net.example:vm".into()),
                user: chap.then(|| "vm".into()),
                ..AccessRule::default()
            }]
        });
        config
    }

    fn refusal(config: &ArrayConfig, portal: &str) -> Option<String> {
        let access = access(&config.access).expect("it can be");
        let refused = check_exposure(config, &[portal.parse().unwrap()], &access).err();
        refused.map(|failure| failure.message)
    }

    /// S-01.
    #[test]
    fn an_address_that_others_reach_wants_permission_chap_and_a_list() {
        for bits in 0..8 {
            let config = config(bits & 4 != 0, bits & 2 != 0, bits & 1 != 0);
            for portal in [
                "192.0.2.1:3260",
                "0.0.0.0:3260",
                "[::]:3260",
                "[2001:db8::1]:3260",
            ] {
                assert_eq!(
                    refusal(&config, portal).is_none(),
                    bits == 7,
                    "{bits:03b} {portal}"
                );
            }
            for portal in [
                "127.0.0.1:3260",
                "127.9.9.9:3260",
                "[::1]:3260",
                "[::ffff:127.0.0.1]:3260",
            ] {
                assert_eq!(refusal(&config, portal), None, "{bits:03b} {portal}");
            }
        }
    }

    #[test]
    fn a_list_with_one_way_round_chap_is_not_enough() {
        let mut config = config(true, true, true);
        let rules = config.access.rules.as_mut().unwrap();
        rules.push(AccessRule {
            address: Some("192.0.2.0/24".into()),
            ..AccessRule::default()
        });
        assert!(
            refusal(&config, "192.0.2.1:3260")
                .unwrap()
                .contains("must authenticate")
        );
    }

    #[test]
    fn inside_a_network_of_its_own_an_array_listens_where_it_likes() {
        let mut config = config(false, false, false);
        config.isolated_network = true;
        assert_eq!(refusal(&config, "10.77.0.1:3260"), None);
    }

    #[test]
    fn broken_hashes_are_warned_of() {
        let mut config = AccessConfig::default();
        assert_eq!(weakness(&config), None);
        config.algorithms.push(ChapAlgorithm::Md5);
        assert!(weakness(&config).unwrap().message.contains("MD5"));
    }

    #[test]
    fn what_cannot_be_names_its_place() {
        let mut config = config(true, true, true).access;
        config.rules.as_mut().unwrap()[0].address = Some("10.1.2.3/16".into());
        assert!(
            access(&config)
                .unwrap_err()
                .message
                .contains("access.rules[0].address")
        );
        let mut config = self::config(true, true, true).access;
        config.users.clear();
        assert!(access(&config).unwrap_err().message.contains("\"vm\""));
    }
}
