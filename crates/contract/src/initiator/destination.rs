//! Bounds of a destination: its address, names and path.
use super::Destination;
use crate::config_error::{ConfigError, refuse};

/// Maximum length of an iSCSI name (RFC 7143 section 4.2.7.1), bytes.
const ISCSI_NAME_MAX: usize = 223;

impl Destination {
    /// Returns a name for the volume that is the same in every VM and every run that uses the
    /// volume.
    #[must_use]
    pub fn volume_name(&self) -> String {
        match self {
            Destination::Iscsi {
                target_name, lun, ..
            } => format!("{target_name}/{lun}"),
            Destination::File { path, .. } => path.clone(),
        }
    }

    /// Returns a name for the session to an iSCSI target, the same for all VMs that may share it.
    #[must_use]
    pub fn session_name(&self) -> Option<(&str, &str, &str)> {
        match self {
            Destination::Iscsi {
                portal,
                target_name,
                initiator_name,
                ..
            } => Some((portal, target_name, initiator_name)),
            Destination::File { .. } => None,
        }
    }

    /// Checks addresses, names and paths; `field` is the path of the destination in the
    /// configuration, for the message.
    ///
    /// # Errors
    /// Returns an error for the first invalid field.
    pub fn validate(&self, field: &str) -> Result<(), ConfigError> {
        match self {
            Destination::Iscsi {
                portal,
                target_name,
                initiator_name,
                other_portals,
                ..
            } => {
                validate_portal(&format!("{field}.portal"), portal)?;
                for (index, portal) in other_portals.iter().enumerate() {
                    validate_portal(&format!("{field}.other_portals[{index}]"), portal)?;
                }
                validate_iscsi_name(&format!("{field}.target_name"), target_name)?;
                validate_iscsi_name(&format!("{field}.initiator_name"), initiator_name)
            }
            Destination::File { path, .. } if path.is_empty() || path.contains('\0') => refuse(
                format!("{field}.path"),
                "is empty or contains a NUL byte",
                "name a file or block device",
            ),
            Destination::File { .. } => Ok(()),
        }
    }
}

/// Checks that a portal is an address and a port.
fn validate_portal(field: &str, portal: &str) -> Result<(), ConfigError> {
    if portal.parse::<std::net::SocketAddr>().is_ok() {
        return Ok(());
    }
    let problem = format!("`{portal}` is not address:port");
    let hint = "write 192.0.2.1:3260 or [2001:db8::1]:3260";
    refuse(field, problem, hint)
}

/// Checks RFC 7143 section 4.2.7: at most 223 bytes, one of three types, no white space or control
/// characters.
fn validate_iscsi_name(field: &str, name: &str) -> Result<(), ConfigError> {
    let has_known_type = ["iqn.", "eui.", "naa."]
        .iter()
        .any(|prefix| name.starts_with(prefix));
    let is_clean = name
        .chars()
        .all(|c| !c.is_control() && !c.is_whitespace() && c != ',');
    if has_known_type && is_clean && name.len() <= ISCSI_NAME_MAX {
        return Ok(());
    }
    refuse(
        field,
        format!("`{}` is not an iSCSI name", name.escape_debug()),
        "names are iqn.YYYY-MM.DOMAIN:NAME, eui.… or naa.…, at most 223 bytes, without white space",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::initiator::fixture::config;

    #[test]
    fn names_and_portals_are_checked_before_anything_is_sent() {
        for name in [
            "",
            "disk",
            "iqn.a b",
            "iqn.a\n",
            &format!("iqn.{}", "x".repeat(220)),
        ] {
            let mut changed = config();
            let Destination::Iscsi { target_name, .. } = &mut changed.vms[0].destination else {
                unreachable!()
            };
            *target_name = name.to_owned();
            assert_eq!(
                changed.validate().unwrap_err().field,
                "vms[0].destination.target_name"
            );
        }
        for address in ["", "127.0.0.1", "::1:3260", "example.org:3260"] {
            let mut changed = config();
            let Destination::Iscsi { portal, .. } = &mut changed.vms[0].destination else {
                unreachable!()
            };
            *portal = address.to_owned();
            assert_eq!(
                changed.validate().unwrap_err().field,
                "vms[0].destination.portal"
            );
        }
    }
}
