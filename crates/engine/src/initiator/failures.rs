//! What went wrong with a VM, as a failure of the engine: whose doing, which VM and portal, what to do.
use std::io;

use hakaru_contract::ErrorClass;
use hakaru_contract::initiator::{Destination, Vm};
use hakaru_initiator::{
    ConfigError, Corruption, Op, SessionError, SurveyError, TaskError, VmError,
};

use crate::failure::Failure;

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
    let message = format!("{}: cannot connect: {error}", whom(vm));
    match error.kind() {
        io::ErrorKind::ConnectionRefused
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::TimedOut => Failure::peer(
            message,
            "is the array running, and is the portal's address right?",
        ),
        _ => Failure::environment(message, "is there a route to the portal from this node?"),
    }
}

/// The VM cannot go on.
pub fn of_vm(vm: &Vm, error: &VmError) -> Failure {
    let message = format!("{}: {error}", whom(vm));
    match error {
        VmError::Config(error) => Failure::usage(message, &error.hint),
        VmError::Survey(SurveyError::NoDisk { .. }) => {
            Failure::usage(message, "name a LUN that is a disk")
        }
        VmError::Survey(_) => Failure::peer(message, "look at the array's own log"),
        VmError::Session(error) => Failure::peer(message, hint_of(error)),
    }
}

fn hint_of(error: &SessionError) -> &'static str {
    match error {
        SessionError::Authentication(_) => {
            "compare names, secrets and algorithms of CHAP with those that the target has"
        }
        SessionError::Refused(status) => match (status.class(), status.detail()) {
            (2, 1) => {
                "the target wants CHAP, or another name or secret: `chap` in the configuration has them"
            }
            (2, 2) => "let the target's access list admit this initiator name and address",
            (2, 3) => "ask the portal for its targets: `iscsi-ls iscsi://ADDRESS`",
            (3, _) => "the target is busy or out of resources: use fewer VMs, or try later",
            _ => "look at the target's own log",
        },
        SessionError::Redirects(_) | SessionError::RedirectAddress(_) => {
            "name the portal that serves the target itself"
        }
        SessionError::Timeout { .. } => {
            "is the array overloaded, or the network cut? `command_timeout_s` is the limit"
        }
        SessionError::Closed(_) | SessionError::Dropped(_) => {
            "did the array stop, or restart, during the run?"
        }
        SessionError::DataDigest | SessionError::Frame(_) => {
            "the network or the target damages data"
        }
        SessionError::Protocol(_)
        | SessionError::Negotiation(_)
        | SessionError::Wire(_)
        | SessionError::Rejected(_) => {
            "the target and RFC 7143 disagree: capture the traffic to see where"
        }
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
