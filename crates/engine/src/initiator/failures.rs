//! What went wrong with a VM, as a failure of the engine: whose doing, which VM and portal, what to
//! do.
use std::io;

use hakaru_contract::initiator::{Destination, Vm};
use hakaru_contract::{ConfigError, ErrorClass};
use hakaru_iscsi_session::TaskError;
use hakaru_load::{Corruption, Op, VmError};

use crate::failure::Failure;
use crate::nexus_failure;

/// A configuration that cannot be.
pub fn usage_of(error: &ConfigError) -> Failure {
    Failure::usage(error, &error.hint)
}

/// `vm3 (iqn.… at 192.0.2.1:3260)`.
fn whom(vm: &Vm) -> String {
    match &vm.destination {
        Destination::Iscsi {
            portal,
            target_name,
            ..
        } => format!("{} ({target_name} at {portal})", vm.name),
        Destination::File { path, .. } => format!("{} ({path})", vm.name),
    }
}

/// The portal cannot be reached.
pub fn of_connect(vm: &Vm, error: &io::Error) -> Failure {
    nexus_failure::of_connect(&whom(vm), error)
}

/// The VM cannot go on.
pub fn of_vm(vm: &Vm, error: &VmError) -> Failure {
    match error {
        VmError::Config(error) => {
            Failure::usage(format_args!("{}: {error}", whom(vm)), &error.hint)
        }
        VmError::Survey(error) => nexus_failure::of_survey(&whom(vm), error),
        VmError::Session(error) => nexus_failure::of_session(&whom(vm), error),
    }
}

/// A read brought what cannot be.
pub fn of_corruption(vm: &Vm, corruption: &Corruption) -> Failure {
    Failure::new(
        ErrorClass::Verification,
        format!("{}: {corruption}", whom(vm)),
        "the storage lost or damaged data, or something else writes to the same blocks",
    )
}

/// A request failed and the load goes on.
pub fn of_request(vm: &Vm, op: Op, error: &TaskError) -> Failure {
    let op = if op == Op::Read { "read" } else { "write" };
    Failure::peer(
        format!("{}: a {op} failed: {error}", whom(vm)),
        "counted as `errors`; look at the array's own log",
    )
}

/// A request to a file failed and the load goes on.
pub fn of_file_request(vm: &Vm, op: Op, error: &io::Error) -> Failure {
    let op = if op == Op::Read { "read" } else { "write" };
    let hint = "counted as `errors`; is the device whole, and is there space?";
    Failure::environment(format!("{}: a {op} failed: {error}", whom(vm)), hint)
}
