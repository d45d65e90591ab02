//! Checks of the access list, and of the addresses on which the array may listen.
use std::net::{IpAddr, SocketAddr};

use hakaru_contract::{AccessConfig, AccessRule, ArrayConfig, ChapAlgorithm};
use hakaru_iscsi_target::{Access, LuAccess, Rule};

use crate::failure::Failure;
use crate::secret::{algorithm, credentials};

/// Returns the access list, with all secrets read.
///
/// # Errors
/// A secret is missing or unusable, an address is invalid, or users and rules contradict each
/// other.
pub fn access(config: &AccessConfig) -> Result<Access, Failure> {
    let users = config.users.iter().enumerate();
    let users = users.map(|(index, user)| credentials(&format!("access.users[{index}]"), user));
    let target = config.target.as_ref();
    let target = target.map(|target| credentials("access.target", target));
    let rules = config.rules.as_ref().map(|rules| {
        let rules = rules.iter().enumerate();
        rules.map(|(index, rule)| self::rule(index, rule)).collect()
    });
    let access = Access {
        users: users.collect::<Result<_, _>>()?,
        target: target.transpose()?,
        algorithms: config
            .algorithms
            .iter()
            .map(|configured| algorithm(*configured))
            .collect(),
        rules: rules.transpose()?,
    };
    access.check().map_err(|error| {
        Failure::usage(format_args!("access: {error}"), "correct the configuration")
    })?;
    Ok(access)
}

fn rule(index: usize, rule: &AccessRule) -> Result<Rule, Failure> {
    let address = rule.address.as_ref().map(|text| {
        text.parse().map_err(|error| {
            Failure::usage(
                format_args!("access.rules[{index}].address: {text:?} is {error}"),
                "set the bits after the prefix to 0: 10.1.0.0/16, not 10.1.2.3/16",
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

/// Refuses addresses that other machines can reach, unless the configuration allows external
/// access, all initiators authenticate, and an access list is given.
///
/// # Errors
/// One of the three conditions is not met.
pub fn check_exposure(
    config: &ArrayConfig,
    addresses: &[SocketAddr],
    access: &Access,
) -> Result<(), Failure> {
    let outside = addresses.iter().find(|address| !is_local(address.ip()));
    let Some(outside) = outside.filter(|_| !config.isolated_network) else {
        return Ok(());
    };
    let refuse = |reason: &str, hint: &str| {
        Err(Failure::usage(
            format_args!("portals: {outside} is reachable from other machines, but {reason}"),
            hint,
        ))
    };
    if !config.allow_external {
        return refuse(
            "external access is not allowed",
            "listen on 127.0.0.1, or set `allow_external: true` with CHAP and an access list",
        );
    }
    if !access.always_authenticates() {
        return refuse(
            "not every initiator must authenticate with CHAP",
            "set `access.users`, and `user` in each rule of `access.rules`",
        );
    }
    if access.rules.is_none() {
        return refuse(
            "no access list is given",
            "set `access.rules`: the initiator names, addresses and users that may log in",
        );
    }
    Ok(())
}

fn is_local(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// Returns a warning if the configuration accepts CHAP responses made with a weak hash.
pub fn weakness(config: &AccessConfig) -> Option<Failure> {
    let weak = config
        .algorithms
        .iter()
        .any(|algorithm| ChapAlgorithm::is_weak(*algorithm));
    weak.then(|| {
        Failure::usage(
            "access.algorithms: CHAP with SHA-1 or MD5 is accepted; both hashes are weak",
            "accept them only for initiators that support no other; the default is SHA3-256 and SHA-256",
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
        let access = access(&config.access).expect("a valid access list");
        let refused = check_exposure(config, &[portal.parse().unwrap()], &access).err();
        refused.map(|failure| failure.message)
    }

    /// S-01.
    #[test]
    fn an_address_that_other_machines_reach_requires_permission_chap_and_a_list() {
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
    fn an_access_list_with_one_rule_without_chap_is_refused() {
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
    fn an_array_in_an_isolated_network_may_listen_on_any_address() {
        let mut config = config(false, false, false);
        config.isolated_network = true;
        assert_eq!(refusal(&config, "10.77.0.1:3260"), None);
    }

    #[test]
    fn weak_hashes_cause_a_warning() {
        let mut config = AccessConfig::default();
        assert_eq!(weakness(&config), None);
        config.algorithms.push(ChapAlgorithm::Md5);
        assert!(weakness(&config).unwrap().message.contains("MD5"));
    }

    #[test]
    fn an_error_names_its_setting() {
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
