//! Persistent reservations: types, parameter lists, parameter data, and the TransportID of an iSCSI
//! initiator port (SPC-4 sections 5.12, 6.15, 6.16 and 7.6.4.6).
use super::{FieldPointer, Sense};
use crate::iscsi::Isid;
use crate::octets::{put_u16, put_u32, put_u64, u16_at, u32_at, u64_at};

/// Service actions of PERSISTENT RESERVE IN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ReserveIn {
    /// READ KEYS.
    ReadKeys = 0,
    /// READ RESERVATION.
    ReadReservation = 1,
    /// REPORT CAPABILITIES.
    ReportCapabilities = 2,
    /// READ FULL STATUS.
    ReadFullStatus = 3,
}

impl ReserveIn {
    /// Every value.
    pub const ALL: [ReserveIn; 4] = [
        ReserveIn::ReadKeys,
        ReserveIn::ReadReservation,
        ReserveIn::ReportCapabilities,
        ReserveIn::ReadFullStatus,
    ];

    /// Returns the value of SERVICE ACTION. `None` for a reserved code.
    pub fn from_code(code: u8) -> Option<ReserveIn> {
        ReserveIn::ALL
            .into_iter()
            .find(|action| *action as u8 == code)
    }
}

/// Service actions of PERSISTENT RESERVE OUT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ReserveOut {
    /// REGISTER.
    Register = 0,
    /// RESERVE.
    Reserve = 1,
    /// RELEASE.
    Release = 2,
    /// CLEAR.
    Clear = 3,
    /// PREEMPT.
    Preempt = 4,
    /// PREEMPT AND ABORT.
    PreemptAndAbort = 5,
    /// REGISTER AND IGNORE EXISTING KEY.
    RegisterAndIgnoreExistingKey = 6,
    /// REGISTER AND MOVE.
    RegisterAndMove = 7,
}

impl ReserveOut {
    /// Every value.
    pub const ALL: [ReserveOut; 8] = [
        ReserveOut::Register,
        ReserveOut::Reserve,
        ReserveOut::Release,
        ReserveOut::Clear,
        ReserveOut::Preempt,
        ReserveOut::PreemptAndAbort,
        ReserveOut::RegisterAndIgnoreExistingKey,
        ReserveOut::RegisterAndMove,
    ];

    /// Returns the value of SERVICE ACTION. `None` for a reserved code and for REPLACE LOST
    /// RESERVATION, which is not supported.
    pub fn from_code(code: u8) -> Option<ReserveOut> {
        ReserveOut::ALL
            .into_iter()
            .find(|action| *action as u8 == code)
    }
}

/// TYPE of a persistent reservation (SPC-4 table 65).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ReservationType {
    /// Only the holder may write.
    WriteExclusive = 1,
    /// Only the holder may read or write.
    ExclusiveAccess = 3,
    /// Only registrants may write.
    WriteExclusiveRegistrantsOnly = 5,
    /// Only registrants may read or write.
    ExclusiveAccessRegistrantsOnly = 6,
    /// Like 5, but every registrant is a holder.
    WriteExclusiveAllRegistrants = 7,
    /// Like 6, but every registrant is a holder.
    ExclusiveAccessAllRegistrants = 8,
}

impl ReservationType {
    /// Every value.
    pub const ALL: [ReservationType; 6] = [
        ReservationType::WriteExclusive,
        ReservationType::ExclusiveAccess,
        ReservationType::WriteExclusiveRegistrantsOnly,
        ReservationType::ExclusiveAccessRegistrantsOnly,
        ReservationType::WriteExclusiveAllRegistrants,
        ReservationType::ExclusiveAccessAllRegistrants,
    ];

    /// Returns the value of TYPE. `None` for a reserved or obsolete code.
    pub fn from_code(code: u8) -> Option<ReservationType> {
        ReservationType::ALL
            .into_iter()
            .find(|kind| *kind as u8 == code)
    }

    /// Returns whether every registered I_T nexus holds the reservation.
    pub fn all_registrants(self) -> bool {
        matches!(
            self,
            Self::WriteExclusiveAllRegistrants | Self::ExclusiveAccessAllRegistrants
        )
    }

    /// Returns whether every registrant has access.
    pub fn registrants_have_access(self) -> bool {
        !matches!(self, Self::WriteExclusive | Self::ExclusiveAccess)
    }

    /// Returns whether nexuses without access may read.
    pub fn others_may_read(self) -> bool {
        matches!(
            self,
            Self::WriteExclusive
                | Self::WriteExclusiveRegistrantsOnly
                | Self::WriteExclusiveAllRegistrants
        )
    }
}

/// Parameter list of PERSISTENT RESERVE OUT for all service actions other than REGISTER AND MOVE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReserveOutParameters {
    /// RESERVATION KEY: the key with which the sender is registered.
    pub key: u64,
    /// SERVICE ACTION RESERVATION KEY: the new key, or the key of the registration to preempt.
    pub service_action_key: u64,
    /// SPEC_I_PT: TransportIDs of further initiator ports follow.
    pub specify_initiator_ports: bool,
    /// ALL_TG_PT: for every target port.
    pub all_target_ports: bool,
    /// APTPL: the reservation persists across power cycles.
    pub persist_through_power_loss: bool,
}

fn invalid_field(byte: u16, bit: u8) -> Sense {
    Sense::INVALID_FIELD_IN_PARAMETER_LIST.with_field(FieldPointer {
        in_cdb: false,
        byte,
        bit: Some(bit),
    })
}

impl ReserveOutParameters {
    /// Length of a list without TransportIDs, bytes.
    pub const LENGTH: usize = 24;

    /// Reads a list without TransportIDs.
    ///
    /// # Errors
    /// The sense data of an invalid list: a length other than 24 bytes; SPEC_I_PT, which is not
    /// supported.
    pub fn parse(list: &[u8]) -> Result<ReserveOutParameters, Sense> {
        if list.len() < ReserveOutParameters::LENGTH {
            return Err(Sense::PARAMETER_LIST_LENGTH_ERROR);
        }
        let parameters = ReserveOutParameters {
            key: u64_at(list, 0),
            service_action_key: u64_at(list, 8),
            specify_initiator_ports: list[20] & 0x08 != 0,
            all_target_ports: list[20] & 0x04 != 0,
            persist_through_power_loss: list[20] & 0x01 != 0,
        };
        if parameters.specify_initiator_ports {
            return Err(invalid_field(20, 3));
        }
        if list.len() != ReserveOutParameters::LENGTH {
            return Err(Sense::PARAMETER_LIST_LENGTH_ERROR);
        }
        Ok(parameters)
    }

    /// Writes 24 bytes.
    pub fn emit(&self) -> [u8; ReserveOutParameters::LENGTH] {
        let mut out = [0; ReserveOutParameters::LENGTH];
        put_u64(&mut out, 0, self.key);
        put_u64(&mut out, 8, self.service_action_key);
        out[20] = u8::from(self.specify_initiator_ports) << 3
            | u8::from(self.all_target_ports) << 2
            | u8::from(self.persist_through_power_loss);
        out
    }
}

/// Parameter list of REGISTER AND MOVE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterAndMove {
    /// RESERVATION KEY: the holder's own.
    pub key: u64,
    /// SERVICE ACTION RESERVATION KEY: the key to register for the new holder, not 0.
    pub service_action_key: u64,
    /// UNREG: removes the old holder's registration.
    pub unregister: bool,
    /// APTPL: the reservation persists across power cycles.
    pub persist_through_power_loss: bool,
    /// RELATIVE TARGET PORT IDENTIFIER of the new holder's nexus.
    pub relative_target_port: u16,
    /// The new holder's initiator port.
    pub initiator_port: TransportId,
}

impl RegisterAndMove {
    /// Reads a list.
    ///
    /// # Errors
    /// The sense data of an invalid list: a length other than the stated length; a TransportID of
    /// another protocol.
    pub fn parse(list: &[u8]) -> Result<RegisterAndMove, Sense> {
        let (head, id) = list
            .split_at_checked(24)
            .ok_or(Sense::PARAMETER_LIST_LENGTH_ERROR)?;
        if u32_at(head, 20) as usize != id.len() {
            return Err(Sense::PARAMETER_LIST_LENGTH_ERROR);
        }
        Ok(RegisterAndMove {
            key: u64_at(head, 0),
            service_action_key: u64_at(head, 8),
            unregister: head[17] & 2 != 0,
            persist_through_power_loss: head[17] & 1 != 0,
            relative_target_port: u16_at(head, 18),
            initiator_port: TransportId::parse(id).ok_or(invalid_field(24, 7))?,
        })
    }

    /// Writes the list.
    pub fn emit(&self) -> Vec<u8> {
        let mut out = vec![0; 24];
        put_u64(&mut out, 0, self.key);
        put_u64(&mut out, 8, self.service_action_key);
        out[17] = u8::from(self.unregister) << 1 | u8::from(self.persist_through_power_loss);
        put_u16(&mut out, 18, self.relative_target_port);
        let id = self.initiator_port.emit();
        put_u32(&mut out, 20, id.len() as u32);
        out.extend_from_slice(&id);
        out
    }
}

/// TransportID of an iSCSI initiator port or initiator device.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TransportId {
    /// iSCSI name of the initiator, at most 223 bytes.
    pub name: String,
    /// ISID of the port. `None` means every port of the initiator (format 00b).
    pub isid: Option<Isid>,
}

impl TransportId {
    const ISCSI: u8 = 0x05;
    const SEPARATOR: &'static str = ",i,0x";

    /// Reads an entire TransportID. Returns `None` for another protocol, a name that is too long or
    /// not UTF-8, or inconsistent lengths.
    pub fn parse(bytes: &[u8]) -> Option<TransportId> {
        let (head, rest) = bytes.split_at_checked(4)?;
        let name = rest.get(..usize::from(u16_at(head, 2)))?;
        if head[0] & 0x0f != TransportId::ISCSI || rest.len() != name.len() {
            return None;
        }
        let end = name.iter().position(|byte| *byte == 0)?;
        let text = core::str::from_utf8(&name[..end]).ok()?;
        let (name, isid) = match head[0] >> 6 {
            0 => (text, None),
            1 => {
                let (name, isid) = text.split_once(TransportId::SEPARATOR)?;
                (name, Some(parse_isid(isid)?))
            }
            _ => return None,
        };
        (1..=223).contains(&name.len()).then(|| TransportId {
            name: name.to_owned(),
            isid,
        })
    }

    /// Writes the TransportID: a multiple of four bytes, at least 24.
    pub fn emit(&self) -> Vec<u8> {
        let format = u8::from(self.isid.is_some()) << 6;
        let mut out = vec![format | TransportId::ISCSI, 0, 0, 0];
        out.extend_from_slice(self.name.as_bytes());
        if let Some(Isid(isid)) = self.isid {
            out.extend_from_slice(TransportId::SEPARATOR.as_bytes());
            isid.iter()
                .for_each(|byte| out.extend_from_slice(format!("{byte:02x}").as_bytes()));
        }
        out.resize((out.len() + 1).next_multiple_of(4).max(24), 0);
        let length = (out.len() - 4) as u16;
        put_u16(&mut out, 2, length);
        out
    }
}

fn parse_isid(text: &str) -> Option<Isid> {
    let mut isid = [0; 6];
    if text.len() != 12 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    for (i, byte) in isid.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).ok()?;
    }
    Some(Isid(isid))
}

/// Writes the answer to READ KEYS.
pub fn emit_keys(generation: u32, keys: impl IntoIterator<Item = u64>) -> Vec<u8> {
    let mut out = header(generation);
    for key in keys {
        out.extend_from_slice(&key.to_be_bytes());
    }
    finish(out)
}

/// Writes the answer to READ RESERVATION. `reservation` is its key (0 if every registrant holds it)
/// and its type.
pub fn emit_reservation(generation: u32, reservation: Option<(u64, ReservationType)>) -> Vec<u8> {
    let mut out = header(generation);
    if let Some((key, kind)) = reservation {
        out.extend_from_slice(&key.to_be_bytes());
        out.extend_from_slice(&[0, 0, 0, 0, 0, kind as u8, 0, 0]);
    }
    finish(out)
}

/// Reservation capabilities of a device server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReserveCapabilities {
    /// CRH: RESERVE and RELEASE of a holder return GOOD and have no effect.
    pub compatible_reservation_handling: bool,
    /// ATP_C: ALL_TG_PT is supported.
    pub all_target_ports: bool,
    /// PTPL_C: APTPL is supported.
    pub persist_through_power_loss: bool,
    /// PTPL_A: reservations currently persist across power cycles.
    pub persistence_active: bool,
}

impl ReserveCapabilities {
    /// Writes eight bytes. Every type is supported; SPEC_I_PT and REPLACE LOST RESERVATION are not.
    pub fn emit(&self) -> [u8; 8] {
        let types = ReservationType::ALL
            .iter()
            .fold(0u16, |mask, kind| mask | 1 << *kind as u16);
        let capabilities = u8::from(self.compatible_reservation_handling) << 4
            | u8::from(self.all_target_ports) << 2
            | u8::from(self.persist_through_power_loss);
        // TMV: the following mask of types is valid. Type n is bit n; the low byte comes first.
        let active = 0x80 | u8::from(self.persistence_active);
        let [low, high] = types.to_le_bytes();
        [0, 8, capabilities, active, low, high, 0, 0]
    }
}

/// One registration of READ FULL STATUS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FullStatus {
    /// Key.
    pub key: u64,
    /// The reservation, if this nexus holds it.
    pub held: Option<ReservationType>,
    /// Target port of the nexus.
    pub relative_target_port: u16,
    /// Initiator port of the nexus.
    pub initiator_port: TransportId,
}

/// Writes the answer to READ FULL STATUS.
pub fn emit_full_status(
    generation: u32,
    registrations: impl IntoIterator<Item = FullStatus>,
) -> Vec<u8> {
    let mut out = header(generation);
    for registration in registrations {
        let mut descriptor = [0; 24];
        put_u64(&mut descriptor, 0, registration.key);
        descriptor[12] = u8::from(registration.held.is_some());
        descriptor[13] = registration.held.map_or(0, |kind| kind as u8);
        put_u16(&mut descriptor, 18, registration.relative_target_port);
        let id = registration.initiator_port.emit();
        put_u32(&mut descriptor, 20, id.len() as u32);
        out.extend_from_slice(&descriptor);
        out.extend_from_slice(&id);
    }
    finish(out)
}

/// Returns PRGENERATION, then four bytes for ADDITIONAL LENGTH.
fn header(generation: u32) -> Vec<u8> {
    let mut out = vec![0; 8];
    put_u32(&mut out, 0, generation);
    out
}

fn finish(mut out: Vec<u8>) -> Vec<u8> {
    let length = (out.len() - 8) as u32;
    put_u32(&mut out, 4, length);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn port() -> TransportId {
        TransportId {
            name: "iqn.1993-08.org.debian:01:a".into(),
            isid: Some(Isid([0x00, 0x02, 0x3d, 0x00, 0x00, 0x01])),
        }
    }

    #[test]
    fn transport_id_is_laid_out_as_in_spc() {
        let bytes = port().emit();
        assert_eq!(bytes[..4], [0x45, 0, 0, 48]);
        assert_eq!(
            &bytes[4..48],
            b"iqn.1993-08.org.debian:01:a,i,0x00023d000001"
        );
        assert_eq!(bytes[48..], [0; 4], "NUL, padded to four");
        assert_eq!(TransportId::parse(&bytes), Some(port()));
        let device = TransportId {
            name: "iqn.a".into(),
            isid: None,
        };
        assert_eq!(device.emit().len(), 24, "the minimum length of SPC");
        assert_eq!(TransportId::parse(&device.emit()), Some(device));
    }

    #[test]
    fn capabilities_report_every_type() {
        let capabilities = ReserveCapabilities {
            compatible_reservation_handling: true,
            all_target_ports: true,
            persist_through_power_loss: true,
            persistence_active: false,
        };
        assert_eq!(capabilities.emit(), [0, 8, 0x15, 0x80, 0xea, 0x01, 0, 0]);
    }

    #[test]
    fn lists_survive_a_round_trip() {
        let parameters = ReserveOutParameters {
            key: 1,
            service_action_key: 0xdead_beef_0000_0002,
            all_target_ports: true,
            persist_through_power_loss: true,
            ..ReserveOutParameters::default()
        };
        assert_eq!(
            ReserveOutParameters::parse(&parameters.emit()),
            Ok(parameters)
        );
        let list = RegisterAndMove {
            key: 3,
            service_action_key: 4,
            unregister: true,
            persist_through_power_loss: false,
            relative_target_port: 2,
            initiator_port: port(),
        };
        assert_eq!(RegisterAndMove::parse(&list.emit()), Ok(list));
    }

    #[test]
    fn a_reservation_of_all_registrants_has_no_key() {
        let kind = ReservationType::ExclusiveAccessAllRegistrants;
        assert_eq!(
            emit_reservation(7, Some((0, kind))),
            [
                0, 0, 0, 7, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0
            ]
        );
        assert_eq!(emit_reservation(7, None), [0, 0, 0, 7, 0, 0, 0, 0]);
    }

    proptest! {
        #[test]
        fn no_list_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), cut in 0usize..80) {
            let _ = ReserveOutParameters::parse(&bytes);
            let _ = RegisterAndMove::parse(&bytes);
            let _ = TransportId::parse(&bytes);
            let id = port().emit();
            prop_assert_eq!(TransportId::parse(&id[..cut.min(id.len() - 1)]), None);
        }
    }
}
