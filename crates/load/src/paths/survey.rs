//! Survey of a path after its login: the identity of the LU, so that portals of other LUs are
//! noticed, and the access state of the port (ALUA). It needs no access to the medium, so it also
//! succeeds on a standby port.
use hakaru_iscsi_session::{Done, Task, TaskData, TaskError};
use hakaru_wire::iscsi::Lun;
use hakaru_wire::scsi::{
    AccessState, Cdb, DesignatorKind, Inquiry, PortGroup, SenseKey, Vpd, page, parse_port_groups,
};

/// Tag of the tasks of surveys and checks. No [`super::AttemptId`] has it.
pub(super) const SURVEY_TAG: u32 = u32::MAX;
/// Allocation length of INQUIRY, bytes.
const INQUIRY_BYTES: u32 = 255;
/// Allocation length of VPD pages and port groups, bytes.
const PAGE_BYTES: u32 = 4096;

/// Properties of a path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PathFacts {
    /// Names of the LU, as VPD page 83h lists them. Empty if the target has no such page.
    pub identity: Vec<Vec<u8>>,
    /// Target port group of the port and its state. `None` if the target has no port groups.
    pub group: Option<PortGroup>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Inquiry,
    Identification,
    PortGroups,
}

/// A survey in progress. The caller submits [`PathSurvey::task`] and passes its end to
/// [`PathSurvey::handle_done`].
#[derive(Debug)]
pub(super) struct PathSurvey {
    lun: u8,
    step: Step,
    has_groups: bool,
    facts: PathFacts,
}

impl PathSurvey {
    pub(super) fn new(lun: u8) -> PathSurvey {
        PathSurvey {
            lun,
            step: Step::Inquiry,
            has_groups: false,
            facts: PathFacts::default(),
        }
    }

    /// Returns the command to submit now.
    pub(super) fn task(&self) -> Task {
        match self.step {
            Step::Inquiry => {
                let cdb = Cdb::Inquiry {
                    page: None,
                    allocation_length: INQUIRY_BYTES as u16,
                };
                task(self.lun, &cdb, INQUIRY_BYTES)
            }
            Step::Identification => {
                let cdb = Cdb::Inquiry {
                    page: Some(page::DEVICE_IDENTIFICATION),
                    allocation_length: PAGE_BYTES as u16,
                };
                task(self.lun, &cdb, PAGE_BYTES)
            }
            Step::PortGroups => check_task(self.lun),
        }
    }

    /// Processes the completed command. On `Ok(None)` the caller submits [`PathSurvey::task`], which
    /// is the next command.
    ///
    /// # Errors
    /// Name and error of a command without which the path cannot be used.
    pub(super) fn handle_done(
        &mut self,
        done: &Done,
    ) -> Result<Option<PathFacts>, (&'static str, TaskError)> {
        match (self.step, done.result) {
            (Step::Inquiry, Err(error)) => return Err(("INQUIRY", error)),
            (Step::Inquiry, Ok(_)) => {
                let inquiry = Inquiry::parse(&done.data);
                self.has_groups = inquiry.is_ok_and(|inquiry| inquiry.target_port_groups != 0);
                self.step = Step::Identification;
                return Ok(None);
            }
            // Old targets lack the page, so the paths cannot be compared.
            (Step::Identification, Err(error)) if is_unknown_command(&error) => {}
            (Step::Identification, Err(error)) => return Err(("INQUIRY of page 83h", error)),
            (Step::Identification, Ok(_)) => {
                self.take_identification(&done.data);
                if self.has_groups && self.facts.group.is_some() {
                    self.step = Step::PortGroups;
                    return Ok(None);
                }
            }
            (Step::PortGroups, Err(error)) if is_unknown_command(&error) => self.facts.group = None,
            (Step::PortGroups, Err(error)) => return Err(("REPORT TARGET PORT GROUPS", error)),
            (Step::PortGroups, Ok(_)) => {
                let mut groups = groups_of(&done.data).into_iter();
                if let Some(group) = &mut self.facts.group
                    && let Some(found) = groups.find(|found| found.number == group.number)
                {
                    *group = found;
                }
            }
        }
        Ok(Some(std::mem::take(&mut self.facts)))
    }

    fn take_identification(&mut self, data: &[u8]) {
        let Ok(Vpd::DeviceIdentification(designators)) = Vpd::parse(data) else {
            return;
        };
        for designator in designators {
            match (
                designator.association,
                designator.kind,
                &designator.bytes[..],
            ) {
                (1, DesignatorKind::TargetPortGroup, [_, _, high, low]) => {
                    self.facts.group = Some(PortGroup {
                        number: u16::from_be_bytes([*high, *low]),
                        ..PortGroup::default()
                    });
                }
                (0, ..) => self.facts.identity.push(designator.bytes),
                _ => {}
            }
        }
    }
}

/// Returns the command that reads the access states of all ports.
pub(super) fn check_task(lun: u8) -> Task {
    let cdb = Cdb::ReportTargetPortGroups {
        extended_header: false,
        allocation_length: PAGE_BYTES,
    };
    task(lun, &cdb, PAGE_BYTES)
}

/// Returns the groups and their states. Unreadable data counts as empty.
pub(super) fn groups_of(data: &[u8]) -> Vec<PortGroup> {
    parse_port_groups(data).unwrap_or_default()
}

/// Returns the access state that refused a command, if that is the reason for its error.
pub(super) fn refusing_state(error: &TaskError) -> Option<AccessState> {
    let TaskError::Check(sense) = error else {
        return None;
    };
    match (sense.key, sense.additional.code, sense.additional.qualifier) {
        (SenseKey::NotReady, 0x04, 0x0a) => Some(AccessState::Transitioning),
        (SenseKey::NotReady, 0x04, 0x0b) => Some(AccessState::Standby),
        (SenseKey::NotReady, 0x04, 0x0c) => Some(AccessState::Unavailable),
        _ => None,
    }
}

fn is_unknown_command(error: &TaskError) -> bool {
    matches!(error, TaskError::Check(sense) if sense.key == SenseKey::IllegalRequest)
}

fn task(lun: u8, cdb: &Cdb, length: u32) -> Task {
    Task {
        tag: SURVEY_TAG,
        lun: Lun::new(lun.into()),
        cdb: cdb.emit(),
        data: TaskData::In { length, keep: true },
    }
}
