//! REPORT TARGET PORT GROUPS parameter data (SPC-4 section 6.37): the access state of ports (ALUA).
use crate::iscsi::WireError;
use crate::octets::{put_u16, put_u32, u16_at, u32_at};

/// ASYMMETRIC ACCESS STATE of a target port group (SPC-4 section 5.15.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum AccessState {
    /// Optimal access to the LU.
    #[default]
    ActiveOptimized = 0x0,
    /// Full access, but another port is faster.
    ActiveNonOptimized = 0x1,
    /// No access to the medium; commands about the LU itself are answered.
    Standby = 0x2,
    /// Only identification and port state are answered.
    Unavailable = 0x3,
    /// In transition from one state to another.
    Transitioning = 0xf,
}

impl AccessState {
    /// Every value.
    pub const ALL: [AccessState; 5] = [
        AccessState::ActiveOptimized,
        AccessState::ActiveNonOptimized,
        AccessState::Standby,
        AccessState::Unavailable,
        AccessState::Transitioning,
    ];

    /// Returns the state encoded in the low four bits. `None` for a state not listed here.
    pub fn from_code(code: u8) -> Option<AccessState> {
        AccessState::ALL
            .into_iter()
            .find(|state| *state as u8 == code & 0x0f)
    }
}

/// A target port group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortGroup {
    /// TARGET PORT GROUP.
    pub number: u16,
    /// Access state of the ports.
    pub state: AccessState,
    /// PREF: the preferred group.
    pub preferred: bool,
    /// STATUS CODE: 0 never changed, 1 by SET TARGET PORT GROUPS, 2 by the device itself.
    pub status: u8,
    /// RELATIVE TARGET PORT IDENTIFIERs, 255 at most.
    pub ports: Vec<u16>,
}

/// Supported states of a group: T_SUP, U_SUP, S_SUP, AN_SUP, AO_SUP.
const SUPPORTED: u8 = 0x80 | 0x08 | 0x04 | 0x02 | 0x01;

/// Writes the list. `transition_seconds` selects the extended header, with this IMPLICIT TRANSITION
/// TIME.
pub fn emit_port_groups(groups: &[PortGroup], transition_seconds: Option<u8>) -> Vec<u8> {
    let mut out = vec![0; 4];
    if let Some(seconds) = transition_seconds {
        out.extend_from_slice(&[0x10, seconds, 0, 0]);
    }
    for group in groups {
        let mut descriptor = [0; 8];
        descriptor[0] = u8::from(group.preferred) << 7 | group.state as u8;
        descriptor[1] = SUPPORTED;
        put_u16(&mut descriptor, 2, group.number);
        descriptor[5] = group.status;
        descriptor[7] = group.ports.len() as u8;
        out.extend_from_slice(&descriptor);
        for port in group.ports.iter().take(255) {
            out.extend_from_slice(&[0, 0]);
            out.extend_from_slice(&port.to_be_bytes());
        }
    }
    let length = (out.len() - 4) as u32;
    put_u32(&mut out, 0, length);
    out
}

/// Reads the received part of a list without extended header. A group whose state depends on the
/// block is active and non-optimized. One in another state that [`AccessState`] lacks, such as
/// offline, is unavailable.
///
/// # Errors
/// Fewer than four bytes, or a truncated group.
pub fn parse_port_groups(bytes: &[u8]) -> Result<Vec<PortGroup>, WireError> {
    const SHORT: WireError = WireError::Short("target port groups");
    let (head, mut rest) = bytes.split_at_checked(4).ok_or(SHORT)?;
    rest = &rest[..rest.len().min(u32_at(head, 0) as usize)];
    let mut groups = Vec::new();
    while !rest.is_empty() {
        let (descriptor, after) = rest.split_at_checked(8).ok_or(SHORT)?;
        let (ports, after) = after
            .split_at_checked(4 * usize::from(descriptor[7]))
            .ok_or(SHORT)?;
        let state = match descriptor[0] & 0x0f {
            // Logical block dependent.
            0x04 => AccessState::ActiveNonOptimized,
            code => AccessState::from_code(code).unwrap_or(AccessState::Unavailable),
        };
        groups.push(PortGroup {
            number: u16_at(descriptor, 2),
            state,
            preferred: descriptor[0] & 0x80 != 0,
            status: descriptor[5],
            ports: ports.chunks_exact(4).map(|port| u16_at(port, 2)).collect(),
        });
        rest = after;
    }
    Ok(groups)
}

/// Reads the parameter list of SET TARGET PORT GROUPS (SPC-4 section 6.45): the number of each
/// group and the code of its new state.
///
/// # Errors
/// Fewer than four bytes, or a truncated descriptor.
pub fn parse_port_states(list: &[u8]) -> Result<Vec<(u16, u8)>, WireError> {
    const SHORT: WireError = WireError::Short("target port group states");
    let (_, descriptors) = list.split_at_checked(4).ok_or(SHORT)?;
    if descriptors.len() % 4 != 0 {
        return Err(SHORT);
    }
    let descriptors = descriptors.chunks_exact(4);
    Ok(descriptors
        .map(|descriptor| (u16_at(descriptor, 2), descriptor[0] & 0x0f))
        .collect())
}

/// Writes the parameter list of SET TARGET PORT GROUPS.
pub fn emit_port_states(states: &[(u16, AccessState)]) -> Vec<u8> {
    let mut out = vec![0; 4];
    for (group, state) in states {
        let [high, low] = group.to_be_bytes();
        out.extend_from_slice(&[*state as u8, 0, high, low]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn groups_are_laid_out_as_in_spc() {
        let groups = [
            PortGroup {
                number: 1,
                preferred: true,
                ports: vec![1],
                ..PortGroup::default()
            },
            PortGroup {
                number: 2,
                state: AccessState::Standby,
                status: 2,
                ports: vec![2, 3],
                ..PortGroup::default()
            },
        ];
        let bytes = emit_port_groups(&groups, None);
        assert_eq!(
            bytes,
            [
                0, 0, 0, 28, 0x80, 0x8f, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0x02, 0x8f, 0, 2, 0, 2, 0,
                2, 0, 0, 0, 2, 0, 0, 0, 3
            ]
        );
        assert_eq!(parse_port_groups(&bytes), Ok(groups.to_vec()));
        let extended = emit_port_groups(&groups, Some(9));
        assert_eq!(extended[..8], [0, 0, 0, 32, 0x10, 9, 0, 0]);
    }

    #[test]
    fn a_group_that_is_offline_hides_no_other_group() {
        let group = |number, state| PortGroup {
            number,
            state,
            ..PortGroup::default()
        };
        let groups = [
            group(1, AccessState::Unavailable),
            group(2, AccessState::ActiveNonOptimized),
            group(3, AccessState::Standby),
        ];
        let mut bytes = emit_port_groups(&groups, None);
        (bytes[4], bytes[12]) = (0x0e, 0x04);
        assert_eq!(parse_port_groups(&bytes), Ok(groups.to_vec()));
    }

    #[test]
    fn requested_states_are_read_as_they_are_written() {
        let states = [
            (1, AccessState::Standby),
            (0x0203, AccessState::ActiveOptimized),
        ];
        let bytes = emit_port_states(&states);
        assert_eq!(bytes, [0, 0, 0, 0, 2, 0, 0, 1, 0, 0, 2, 3]);
        assert_eq!(parse_port_states(&bytes), Ok(vec![(1, 2), (0x0203, 0)]));
        assert!(parse_port_states(&bytes[..6]).is_err());
    }

    proptest! {
        #[test]
        fn no_group_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = parse_port_groups(&bytes);
            let _ = parse_port_states(&bytes);
        }
    }
}
