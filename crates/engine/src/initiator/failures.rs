//! Conversion of the errors of a VM into failures of the engine, each with class, message and hint.
//! The message names the VM and its destination.
use std::io;

use hakaru_contract::initiator::{Destination, Vm};
use hakaru_contract::{ConfigError, ErrorClass};
use hakaru_iscsi_session::TaskError;
use hakaru_load::{Corruption, Op, VmError};

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

/// Returns the failure of a portal that cannot be reached.
pub fn of_connect(vm: &Vm, error: &io::Error) -> Failure {
    nexus_failure::of_connect(&place_of(vm), error)
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
