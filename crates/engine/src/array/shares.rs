//! Shares of the accesses in flight, between caps and storage.
use std::collections::HashSet;

use hakaru_contract::SharesConfig;
use hakaru_iscsi_target::{Io, IoId, Target};
use hakaru_throttle::{Scope, Shares};
use hakaru_units::Time;

use super::caps::{counted_bytes, visit_named};

/// Entity of the accesses in no configured class.
const OTHERS: &str = "others";

/// The configured classes, if any, with the accesses that wait and those in flight.
pub struct FairQueue {
    configured: Option<Configured>,
}

struct Configured {
    /// Entities of the counters.
    entities: Vec<String>,
    shares: Shares<Io>,
    in_flight: HashSet<IoId>,
}

impl FairQueue {
    /// Creates the queue from a checked configuration.
    pub fn new(config: Option<&SharesConfig>) -> FairQueue {
        let configured = config.map(|config| {
            let names = config.classes.iter().map(|class| class.name.as_str());
            let entity = |name| format!("share/{name}");
            let classes = config.classes.iter().map(|class| {
                let scope = Scope {
                    lun: class.lun,
                    initiator: class.initiator_name.clone(),
                };
                (scope, class.share)
            });
            Configured {
                entities: names.chain([OTHERS]).map(entity).collect(),
                shares: Shares::new(config.in_flight, classes, config.others),
                in_flight: HashSet::new(),
            }
        });
        FairQueue { configured }
    }

    /// Returns an access to which shares do not apply. Queues any other;
    /// [`FairQueue::poll_dispatched`] returns it.
    pub fn admit(&mut self, now: Time, io: Io, target: &Target) -> Option<Io> {
        let (Some(configured), Some(bytes)) = (&mut self.configured, counted_bytes(&io.op)) else {
            return Some(io);
        };
        let shares = &mut configured.shares;
        let class = shares.class_of(io.lun, target.initiator_of(io.id));
        shares.handle_access(now, class, bytes, io);
        None
    }

    /// Returns the next access to pass to the storage.
    pub fn poll_dispatched(&mut self, now: Time) -> Option<Io> {
        let configured = self.configured.as_mut()?;
        let io = configured.shares.poll_dispatched(now)?;
        configured.in_flight.insert(io.id);
        Some(io)
    }

    /// Handles the end of an access in the storage.
    pub fn handle_done(&mut self, id: IoId) {
        if let Some(configured) = &mut self.configured
            && configured.in_flight.remove(&id)
        {
            configured.shares.handle_done();
        }
    }

    /// Removes a waiting access whose task was aborted. Returns `None` if it does not wait here.
    pub fn cancel(&mut self, id: IoId) -> Option<Io> {
        let configured = self.configured.as_mut()?;
        configured.shares.remove(|io| io.id == id)
    }

    /// Visits each counter, as entity, name and value.
    pub fn visit_counters(&self, visit: &mut dyn FnMut(&str, &str, f64)) {
        let Some(configured) = &self.configured else {
            return;
        };
        let counters = configured.shares.counters();
        for (entity, counters) in configured.entities.iter().zip(counters) {
            visit_named(entity, &counters, visit);
        }
    }
}
