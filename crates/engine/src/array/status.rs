//! The answer to the operator's `status`, and conversion between port states of the contract and of
//! SCSI.
use std::collections::BTreeMap;

use hakaru_contract::PortState;
use hakaru_iscsi_target::Target;
use hakaru_wire::scsi::AccessState;
use serde_json::{Value, json};

use super::figures::{lus_figures, pools_figures};
use super::storage::Storage;
use crate::accept::Acceptor;

/// Returns the answer to `status`: pools, LUs, portals, and the number of sessions.
pub fn status(
    target: &Target,
    storage: &Storage,
    acceptor: &Acceptor<'_>,
) -> BTreeMap<String, Value> {
    let portals: Vec<Value> = (0..)
        .zip(acceptor.addresses())
        .map(|(portal, address)| {
            let state = port_state(target.port_state(portal));
            let state = state.map_or(json!("transitioning"), |state| json!(state));
            json!({
                "address": address.to_string(),
                "state": state,
                "group": target.port_group(portal) + 1,
                "preferred": target.is_preferred(portal),
                "accepts": acceptor.accepts(portal),
            })
        })
        .collect();
    BTreeMap::from([
        ("pools".to_owned(), json!(pools_figures(storage))),
        ("lus".to_owned(), json!(lus_figures(storage))),
        ("portals".to_owned(), json!(portals)),
        ("sessions_now".to_owned(), json!(target.sessions_now())),
    ])
}

/// Returns the SCSI access state of a configured port state.
pub fn access_state(state: PortState) -> AccessState {
    match state {
        PortState::Optimized => AccessState::ActiveOptimized,
        PortState::NonOptimized => AccessState::ActiveNonOptimized,
        PortState::Standby => AccessState::Standby,
        PortState::Unavailable => AccessState::Unavailable,
    }
}

fn port_state(state: AccessState) -> Option<PortState> {
    match state {
        AccessState::ActiveOptimized => Some(PortState::Optimized),
        AccessState::ActiveNonOptimized => Some(PortState::NonOptimized),
        AccessState::Standby => Some(PortState::Standby),
        AccessState::Unavailable => Some(PortState::Unavailable),
        AccessState::Transitioning => None,
    }
}
