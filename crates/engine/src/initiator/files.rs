//! VMs on files.
use std::collections::BTreeMap;
use std::sync::Arc;

use hakaru_contract::initiator::Vm;
use hakaru_initiator::{Counters, Settings};
use hakaru_runtime::{Event, Reactor};
use hakaru_units::Time;
use serde_json::Value;

use super::Ledger;
use crate::failure::Failure;

pub struct Files;

impl Files {
    pub fn new(_: &Reactor, _: Arc<Settings>) -> Result<Files, Failure> {
        Ok(Files)
    }
    pub fn add(&mut self, _: &Vm, index: usize) -> Result<(), Failure> {
        Err(Failure::usage(
            format_args!("vms[{index}].destination"),
            "files come with a later commit",
        ))
    }
    pub fn found(&self) -> BTreeMap<String, Value> {
        BTreeMap::new()
    }
    pub fn count(&self) -> usize {
        0
    }
    pub fn begin(&mut self, _: &mut Ledger) {}
    pub fn end(&mut self) {}
    pub fn in_flight(&self) -> usize {
        0
    }
    pub fn poll_timeout(&self) -> Time {
        Time::MAX
    }
    pub fn handle_event(&mut self, _: Event) -> bool {
        false
    }
    pub fn serve(&mut self, _: &mut Ledger) {}
    pub fn visit_counters(&mut self, _: Time, _: &mut dyn FnMut(&str, Counters)) {}
}
