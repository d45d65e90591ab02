//! Conversion of the errors of a VM into failures of the engine, each with class, message and hint.
//! The message names the VM and its destination.
use std::io;
use std::net::SocketAddr;

use hakaru_contract::initiator::{Destination, Vm};
use hakaru_contract::{ConfigError, ErrorClass};
use hakaru_iscsi_session::{SessionError, TaskError};
use hakaru_load::{Corruption, Op, PathChange, Usability, VmError};
use hakaru_wire::scsi::AccessState;

use crate::failure::Failure;
use crate::nexus_failure;

/// Returns the failure of an invalid configuration.
pub fn usage_of(error: &ConfigError) -> Failure {
    Failure::usage(error, &error.hint)
}

/// Returns the VM and its destination, such as `vm3 (iqn.… at 192.0.2.1:3260)`.
fn place_of(vm: &Vm) -> String {
    match &vm.destination {
        Destination::Iscsi {
            portal,
            target_name,
            ..
        } => format!("{} ({target_name} at {portal})", vm.name),
        Destination::File { path, .. } => format!("{} ({path})", vm.name),
    }
}

/// Returns the failure of a portal that cannot be reached: that of the path `path`, from 0.
pub fn of_connect(vm: &Vm, path: usize, error: &io::Error) -> Failure {
    let place = match vm.destination.portals().nth(path) {
        Some(portal) if path > 0 => format!("{}, path over {portal}", place_of(vm)),
        _ => place_of(vm),
    };
    nexus_failure::of_connect(&place, error)
}

/// Returns the report of a path of a VM that has become usable or unusable. The load continues.
pub fn of_path(
    vm: &Vm,
    change: &PathChange,
    portal: SocketAddr,
    error: Option<&SessionError>,
) -> Failure {
    let path = format!("{}: path {} ({portal})", vm.name, change.path + 1);
    let message = match (change.usability, error) {
        (Usability::Usable, _) => format!("{path} is usable again"),
        (Usability::Lost, Some(error)) => format!("{path} was lost: {error}"),
        (Usability::Lost, None) => format!("{path} is not used yet"),
        (Usability::Refused(state), _) => {
            format!("{path} gives no access: its port is {}", name_of(state))
        }
    };
    Failure::peer(
        message,
        "the counters `paths/NAME` state how often and for how long paths failed",
    )
}

fn name_of(state: AccessState) -> &'static str {
    match state {
        AccessState::ActiveOptimized => "active/optimized",
        AccessState::ActiveNonOptimized => "active/non-optimized",
        AccessState::Standby => "standby",
        AccessState::Unavailable => "unavailable",
        AccessState::Transitioning => "in transition",
    }
}

/// Returns the failure of a VM.
pub fn of_vm(vm: &Vm, error: &VmError) -> Failure {
    match error {
        VmError::Config(error) => {
            Failure::usage(format_args!("{}: {error}", place_of(vm)), &error.hint)
        }
        VmError::Survey(error) => nexus_failure::of_survey(&place_of(vm), error),
        VmError::Session(error) => nexus_failure::of_session(&place_of(vm), error),
    }
}

/// Returns the failure of a read that returned data other than the VM had written.
pub fn of_corruption(vm: &Vm, corruption: &Corruption) -> Failure {
    Failure::new(
        ErrorClass::Verification,
        format!("{}: {corruption}", place_of(vm)),
        "the storage lost or damaged data, or something else writes to the same blocks",
    )
}

/// Returns the failure of an iSCSI request, after which the load continues.
pub fn of_request(vm: &Vm, op: Op, error: &TaskError) -> Failure {
    let op = if op == Op::Read { "read" } else { "write" };
    Failure::peer(
        format!("{}: a {op} failed: {error}", place_of(vm)),
        "see the array's own log; the counter `errors` counts failed requests",
    )
}

/// Returns the failure of a request to a file, after which the load continues.
pub fn of_file_request(vm: &Vm, op: Op, error: &io::Error) -> Failure {
    let op = if op == Op::Read { "read" } else { "write" };
    let hint = "check the device and its free space; the counter `errors` counts failed requests";
    Failure::environment(format!("{}: a {op} failed: {error}", place_of(vm)), hint)
}
