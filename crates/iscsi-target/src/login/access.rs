//! The access list: which initiators may log in, and which LUs they see.
//!
//! A [`Rule`] admits an initiator that meets *all* of its conditions (RFC 7143 section 9.2.1:
//! authentication establishes the identity, authorization the rights). If there is a list of rules,
//! an initiator that matches none is refused.

use core::fmt;
use core::net::IpAddr;
use core::str::FromStr;

use hakaru_scsi_device::Rights;
use hakaru_wire::iscsi::LoginStatus;
use hakaru_wire::iscsi::chap::{Algorithm, Credentials, SecretError};
use hakaru_wire::iscsi::keys::AuthMethod;

/// Access to a target. Default: every initiator, without authentication, sees every LU.
#[derive(Clone, Debug)]
pub struct Access {
    /// CHAP names and secrets of initiators, each name once. With users and no `rules`, each of
    /// them sees every LU, and no other initiator logs in.
    pub users: Vec<Credentials>,
    /// Credentials of the target for initiators that request mutual CHAP. `None`: such an initiator
    /// is refused. The secret must differ from those of all users.
    pub target: Option<Credentials>,
    /// Algorithms of CHAP, best first. Default SHA3-256, SHA-256.
    pub algorithms: Vec<Algorithm>,
    /// Rules that admit initiators. `None`: no list; an empty list admits no initiator.
    pub rules: Option<Vec<Rule>>,
}

/// Admits initiators that meet all conditions. Bind each CHAP user to its initiator names: a user
/// that may log in under any name can replace the session of another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// iSCSI name of the initiator. `None`: any.
    pub initiator_name: Option<String>,
    /// Address of the initiator. `None`: any.
    pub address: Option<AddressPrefix>,
    /// The CHAP user as which the initiator must authenticate. `None`: any user, or no
    /// authentication.
    pub user: Option<String>,
    /// LUs that the initiator sees. If several rules match, it sees the LUs of all of them. `None`:
    /// all LUs, writable.
    pub lus: Option<Vec<LuAccess>>,
}

/// An LU that a rule makes visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LuAccess {
    /// Logical unit number.
    pub lun: u8,
    /// Whether writes fail with DATA PROTECT, WRITE PROTECTED.
    pub read_only: bool,
}

/// Inconsistencies of an [`Access`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// Two users have the same name.
    #[error("CHAP user {0:?} is given twice")]
    UserTwice(String),
    /// A rule names an unknown user.
    #[error("a rule names CHAP user {0:?}, which is not in the list of users")]
    UnknownUser(String),
    /// CHAP is required and there is no algorithm.
    #[error("CHAP is required but the list of algorithms is empty")]
    NoAlgorithm,
    /// A secret is invalid.
    #[error(transparent)]
    Secret(#[from] SecretError),
}

impl Default for Access {
    fn default() -> Self {
        Self {
            users: Vec::new(),
            target: None,
            algorithms: Algorithm::DEFAULT.to_vec(),
            rules: None,
        }
    }
}

impl Access {
    /// Checks that the access list is consistent.
    ///
    /// # Errors
    /// See [`AccessError`].
    pub fn check(&self) -> Result<(), AccessError> {
        for (at, user) in self.users.iter().enumerate() {
            if self.users[..at]
                .iter()
                .any(|other| other.name() == user.name())
            {
                return Err(AccessError::UserTwice(user.name().to_owned()));
            }
            let target_secret = self.target.as_ref().map(Credentials::secret);
            if target_secret == Some(user.secret()) {
                return Err(SecretError::Same.into());
            }
        }
        let users = self
            .rules
            .iter()
            .flatten()
            .filter_map(|rule| rule.user.as_ref());
        for name in users {
            if self.user(name).is_none() {
                return Err(AccessError::UnknownUser(name.clone()));
            }
        }
        if self.asks_for_chap() && self.algorithms.is_empty() {
            return Err(AccessError::NoAlgorithm);
        }
        Ok(())
    }

    /// Whether every initiator must authenticate with CHAP.
    #[must_use]
    pub fn always_authenticates(&self) -> bool {
        self.methods() == [AuthMethod::Chap]
    }

    /// Whether some initiators authenticate with CHAP.
    pub(crate) fn asks_for_chap(&self) -> bool {
        self.methods().contains(&AuthMethod::Chap)
    }

    /// Returns the authentication methods to offer, best first.
    pub(crate) fn methods(&self) -> &'static [AuthMethod] {
        const CHAP: &[AuthMethod] = &[AuthMethod::Chap];
        const NONE: &[AuthMethod] = &[AuthMethod::None];
        const BOTH: &[AuthMethod] = &[AuthMethod::Chap, AuthMethod::None];
        match &self.rules {
            None if self.users.is_empty() => NONE,
            None => CHAP,
            Some(rules) if rules.iter().all(|rule| rule.user.is_none()) => NONE,
            Some(rules) if rules.iter().all(|rule| rule.user.is_some()) => CHAP,
            Some(_) => BOTH,
        }
    }

    /// Returns the user with this name. Names are compared byte by byte.
    pub(crate) fn user(&self, name: &str) -> Option<&Credentials> {
        self.users.iter().find(|user| user.name() == name)
    }

    /// Returns the rights of an initiator, or the status that refuses it.
    pub(crate) fn authorize(
        &self,
        initiator_name: &str,
        address: IpAddr,
        user: Option<&str>,
    ) -> Result<Rights, LoginStatus> {
        let Some(rules) = &self.rules else {
            return if self.users.is_empty() || user.is_some() {
                Ok(Rights::ALL)
            } else {
                Err(LoginStatus::AUTHENTICATION_FAILURE)
            };
        };
        let matches = |rule: &&Rule| {
            let required_name = rule.initiator_name.as_deref();
            required_name.is_none_or(|name| name == initiator_name)
                && rule.address.is_none_or(|prefix| prefix.contains(address))
        };
        let mut rights = None;
        for rule in rules.iter().filter(matches) {
            if rule.user.is_none() || rule.user.as_deref() == user {
                allow(rights.get_or_insert(Rights::NONE), rule);
            }
        }
        rights.ok_or(
            if user.is_none() && rules.iter().filter(matches).count() > 0 {
                LoginStatus::AUTHENTICATION_FAILURE
            } else {
                LoginStatus::AUTHORIZATION_FAILURE
            },
        )
    }
}

/// Adds the LUs of a rule to `rights`.
fn allow(rights: &mut Rights, rule: &Rule) {
    match &rule.lus {
        None => *rights = Rights::ALL,
        Some(lus) => lus.iter().for_each(|lu| rights.allow(lu.lun, lu.read_only)),
    }
}

/// Addresses with the same leading bits: `10.1.0.0/16`, `fd00::/8`, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressPrefix {
    address: IpAddr,
    bits: u8,
}

/// The text is not an address prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("neither an address nor a prefix like 10.1.0.0/16")]
pub struct PrefixError;

impl AddressPrefix {
    /// Whether an address begins with this prefix. An IPv4-mapped IPv6 address (`::ffff:10.0.0.1`)
    /// counts as the IPv4 address.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let shift = |width: u8| u32::from(width - self.bits);
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let differing = own.to_bits() ^ other.to_bits();
                differing.checked_shr(shift(32)).unwrap_or(0) == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let differing = own.to_bits() ^ other.to_bits();
                differing.checked_shr(shift(128)).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

impl FromStr for AddressPrefix {
    type Err = PrefixError;

    /// Parses an address or a prefix. Bits after the prefix must be 0, because a typing error there
    /// would admit other initiators than intended.
    fn from_str(text: &str) -> Result<Self, PrefixError> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| PrefixError)?;
        let address = address.to_canonical();
        let width: u8 = if address.is_ipv4() { 32 } else { 128 };
        let digits = |bits: &str| !bits.is_empty() && bits.bytes().all(|b| b.is_ascii_digit());
        let bits = match bits {
            None => width,
            Some(bits) if digits(bits) => bits.parse().map_err(|_| PrefixError)?,
            Some(_) => return Err(PrefixError),
        };
        let rest_is_zero = match address {
            _ if bits > width => false,
            IpAddr::V4(v4) => v4.to_bits().checked_shl(bits.into()).unwrap_or(0) == 0,
            IpAddr::V6(v6) => v6.to_bits().checked_shl(bits.into()).unwrap_or(0) == 0,
        };
        if rest_is_zero {
            Ok(Self { address, bits })
        } else {
            Err(PrefixError)
        }
    }
}

impl fmt::Display for AddressPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> AddressPrefix {
        text.parse().expect("a prefix")
    }

    #[test]
    fn prefixes_contain_the_addresses_that_begin_with_them() {
        for (text, inside, outside) in [
            ("10.1.0.0/16", "10.1.255.255", "10.2.0.0"),
            ("10.1.2.3", "10.1.2.3", "10.1.2.2"),
            ("0.0.0.0/0", "203.0.113.9", "::1"),
            ("128.0.0.0/1", "128.0.0.0", "127.255.255.255"),
            ("fd00::/8", "fdff::1", "fe80::1"),
            ("::/0", "2001:db8::1", "10.0.0.1"),
            ("2001:db8::1", "2001:db8::1", "2001:db8::2"),
            ("10.0.0.0/8", "::ffff:10.9.9.9", "::ffff:11.0.0.1"),
        ] {
            assert!(
                prefix(text).contains(inside.parse().unwrap()),
                "{text} {inside}"
            );
            assert!(
                !prefix(text).contains(outside.parse().unwrap()),
                "{text} {outside}"
            );
        }
    }

    #[test]
    fn texts_that_are_not_prefixes_are_refused() {
        for text in [
            "",
            "/",
            "10.1.0.0/",
            "10.1.0.0/33",
            "10.1.0.1/16",
            "10.1.0.0/+8",
            "10.1.0.0/-1",
            "10.1/16",
            "::/129",
            "10.0.0.0/256",
            "host",
            "fd00::1/8",
            " 10.0.0.1",
            "10.0.0.0/8/8",
        ] {
            assert_eq!(text.parse::<AddressPrefix>(), Err(PrefixError), "{text:?}");
        }
        assert_eq!(prefix("10.1.0.0/16").to_string(), "10.1.0.0/16");
    }

    #[test]
    fn matching_rules_add_up_and_an_lu_is_writable_if_one_of_them_allows_writes() {
        let lus = |list: &[(u8, bool)]| {
            let accesses = list
                .iter()
                .map(|&(lun, read_only)| LuAccess { lun, read_only });
            Some(accesses.collect())
        };
        let access = Access {
            rules: Some(vec![
                Rule {
                    lus: lus(&[(0, true), (255, true)]),
                    ..Rule::default()
                },
                Rule {
                    initiator_name: Some("iqn.a".into()),
                    lus: lus(&[(0, false), (64, false)]),
                    ..Rule::default()
                },
            ]),
            ..Access::default()
        };
        let rights = |name: &str| access.authorize(name, [10, 0, 0, 1].into(), None).unwrap();
        let seen = |rights: Rights| {
            (0..=255)
                .filter(|lun| rights.sees(*lun))
                .collect::<Vec<u8>>()
        };
        let written = |rights: Rights| {
            (0..=255)
                .filter(|lun| rights.writes(*lun))
                .collect::<Vec<u8>>()
        };
        assert_eq!(
            (seen(rights("iqn.b")), written(rights("iqn.b"))),
            (vec![0, 255], vec![])
        );
        assert_eq!(
            (seen(rights("iqn.a")), written(rights("iqn.a"))),
            (vec![0, 64, 255], vec![0, 64])
        );
    }

    #[test]
    fn an_inconsistent_access_list_is_refused_with_the_reason() {
        let user = |name: &str, secret: &str| Credentials::new(name, secret).unwrap();
        let both = Access {
            users: vec![user("a", "one secret of two"), user("b", "another secret")],
            target: Some(user("t", "one secret of two")),
            ..Access::default()
        };
        assert_eq!(both.check(), Err(AccessError::Secret(SecretError::Same)));
        let twice = Access {
            users: vec![user("a", "one secret of two"); 2],
            ..Access::default()
        };
        assert_eq!(twice.check(), Err(AccessError::UserTwice("a".into())));
        let unknown = Access {
            rules: Some(vec![Rule {
                user: Some("c".into()),
                ..Rule::default()
            }]),
            ..Access::default()
        };
        assert_eq!(unknown.check(), Err(AccessError::UnknownUser("c".into())));
        let none = Access {
            users: vec![user("a", "one secret of two")],
            algorithms: Vec::new(),
            ..Access::default()
        };
        assert_eq!(none.check(), Err(AccessError::NoAlgorithm));
        assert_eq!(Access::default().check(), Ok(()));
    }
}
