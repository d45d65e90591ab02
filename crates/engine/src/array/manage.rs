//! Execution of the operator's orders: checks an order, applies it to target and pools, and answers
//! it.
//!
//! An order that changes a pool is answered when the change is on stable storage. [`Completion`] is
//! its last part. A refused order has no effect. Initiators are served at the same time.
use std::collections::BTreeMap;
use std::time::Duration;

use hakaru_contract::{GroupConfig, LuConfig, ManageAction, PortState, StoreConfig};
use hakaru_iscsi_target::Target;
use hakaru_pool::{Failure as Refusal, Outcome, Request, VolumeId};
use hakaru_store::{Lu, Place, Store};
use hakaru_units::Time;
use serde_json::Value;

use super::connections::Connections;
use super::descriptors::Descriptors;
use super::figures::{pool_figures, volume_figures};
use super::lookup::{
    VolumePath, check_blocks, check_no_part, pool_named, volume_named, volume_object,
};
use super::orders::{Answer, Completion, Orders, Pending, PoolPart};
use super::reports::report_space;
use super::status::{access_state, status};
use super::storage::{Ordered, Storage};
use super::{pools, setup, validate};
use crate::control::Control;
use crate::failure::Failure;

/// Longest transition of a port, which REPORT TARGET PORT GROUPS reports in one byte of seconds.
const TRANSITION_MS_MAX: u32 = 255_000;

/// Progress of an order.
enum Progress {
    Answered(Answer),
    /// A pool carries out the request next.
    Ask(Request, PoolPart),
}

/// A requested copy of a volume.
struct CopyOrder {
    name: String,
    read_only: bool,
    quota_bytes: Option<u64>,
}

/// The parts of the array that orders of the operator read and change.
pub struct OrderExecutor<'a, 'r> {
    pub target: &'a mut Target,
    pub storage: &'a mut Storage,
    /// Orders that pools work on.
    pub orders: &'a mut Orders,
    pub connections: &'a mut Connections<'r>,
    /// Bounds on connections, sessions and pipes at start.
    pub descriptors: Descriptors,
}

impl OrderExecutor<'_, '_> {
    /// Begins the operator's new orders, and continues the orders that a pool has answered. Returns
    /// whether there were any.
    pub fn execute(&mut self, now: Time, control: &mut Control) -> bool {
        let mut moved = false;
        while let Some((id, action)) = control.poll_operator_order() {
            moved = true;
            let progress = self
                .begin_order(now, action)
                .unwrap_or_else(|failure| Progress::Answered(Err(failure)));
            self.advance_order(now, id, progress, control);
        }
        for pool in 0..self.storage.core.pools().len() {
            while let Some((number, outcome)) = self.storage.core.poll_ordered(pool) {
                moved = true;
                let Some(pending) = self.orders.remove(number) else {
                    continue;
                };
                let progress = self
                    .complete_order(now, pending.part, outcome)
                    .unwrap_or_else(|failure| Progress::Answered(Err(failure)));
                self.advance_order(now, pending.id, progress, control);
            }
        }
        moved
    }

    fn advance_order(&mut self, now: Time, id: u64, progress: Progress, control: &Control) {
        match progress {
            Progress::Answered(answer) => control.reply(id, answer),
            Progress::Ask(request, part) => {
                let pool = part.pool;
                let number = self.orders.insert(Pending { id, part });
                self.storage.order(now, pool, number, request);
            }
        }
    }

    fn begin_order(&mut self, now: Time, action: ManageAction) -> Result<Progress, Failure> {
        match action {
            ManageAction::Status => Ok(Progress::Answered(Ok(status(
                self.target,
                self.storage,
                self.connections.acceptor(),
            )))),
            ManageAction::Grow { pool, group } => self.begin_grow(&pool, &group),
            ManageAction::Create { lu } => self.begin_create(lu),
            ManageAction::Snapshot { pool, volume, name } => {
                let copy = CopyOrder {
                    name,
                    read_only: true,
                    quota_bytes: None,
                };
                self.begin_copy(&VolumePath { pool, volume }, copy)
            }
            ManageAction::Clone {
                pool,
                volume,
                name,
                quota_bytes,
            } => {
                let copy = CopyOrder {
                    name,
                    read_only: false,
                    quota_bytes,
                };
                self.begin_copy(&VolumePath { pool, volume }, copy)
            }
            ManageAction::Resize {
                pool,
                volume,
                size_bytes,
            } => self.begin_resize(&VolumePath { pool, volume }, size_bytes),
            ManageAction::SetQuota {
                pool,
                volume,
                quota_bytes,
            } => self.change_volume(&VolumePath { pool, volume }, |volume| {
                let request = Request::SetQuota {
                    volume,
                    quota_bytes,
                };
                (request, Completion::AnswerVolume)
            }),
            ManageAction::Delete { pool, volume } => self
                .change_volume(&VolumePath { pool, volume }, |volume| {
                    (Request::Delete { volume }, Completion::Withdraw(volume))
                }),
            ManageAction::Withdraw { lun } => self.withdraw_thin(now, lun),
            ManageAction::SetPortState {
                portal,
                state,
                transition_ms,
            } => self.set_port_state(now, usize::from(portal), state, transition_ms),
            ManageAction::EmptyCache => {
                let emptied = self.storage.core.empty_cache(now);
                let figures = [
                    ("dropped_bytes", emptied.dropped_bytes),
                    ("write_pending_bytes", emptied.write_pending_bytes),
                ];
                let figures = figures.map(|(name, bytes)| (name.to_owned(), bytes.into()));
                Ok(Progress::Answered(Ok(BTreeMap::from(figures))))
            }
            ManageAction::SetPortal { portal, accepts } => {
                self.set_portal(now, usize::from(portal), accepts)
            }
        }
    }

    fn begin_grow(&mut self, name: &str, group: &GroupConfig) -> Result<Progress, Failure> {
        let pool = pool_named(self.storage, name)?;
        validate::check_group(name, group, self.storage.core.model())?;
        let object = format!("group {:?}", group.name);
        let mut groups = self.storage.core.pools()[pool].core().groups();
        if groups.any(|present| present.name == group.name) {
            return Err(pools::refused(name, &object, Refusal::NameTaken));
        }
        drop(groups);
        let request = pools::prepare(self.storage, pool, group)?;
        if !self.reserve_descriptors() {
            self.forget_group(pool);
            return Err(Failure::environment(
                format_args!(
                    "pool {name:?}: {object}: no open file is left for it, because sessions use them all"
                ),
                "raise the limit of open files (ulimit -n) and restart the array, or end sessions",
            ));
        }
        let part = PoolPart {
            pool,
            object,
            completion: Completion::AnswerPool,
        };
        Ok(Progress::Ask(request, part))
    }

    /// Adjusts the bounds on connections and sessions, because group files use descriptors too.
    /// Returns `false` if more connections or sessions are open than the new bounds permit.
    fn reserve_descriptors(&mut self) -> bool {
        let open = self.connections.open();
        let lending = self.connections.lending();
        let bounds = self.descriptors.divided_again(open, lending);
        self.target
            .set_connections_max(bounds.connections_max.max(1), bounds.sessions_max.max(1));
        let sessions = self.target.sessions_now();
        sessions <= bounds.sessions_max as usize && open <= bounds.connections_max as usize
    }

    /// Closes the file of a prepared group that is not added.
    fn forget_group(&mut self, pool: usize) {
        self.storage.forget_prepared_group(pool);
        self.reserve_descriptors();
    }

    fn begin_create(&mut self, lu: LuConfig) -> Result<Progress, Failure> {
        validate::check_lu(&lu, self.storage.core.model())?;
        let StoreConfig::Thin { pool, volume, .. } = &lu.store else {
            return Err(Failure::usage(
                format_args!("LUN {} is not thin", lu.lun),
                "only thin LUs can be created while the array serves",
            ));
        };
        // Refuses a second order in progress for the LUN, which would leave a volume without an LU.
        if self.target.has_lu(lu.lun) || self.orders.is_creating(lu.lun) {
            let message = format!("LUN {} is already in use", lu.lun);
            return Err(Failure::usage(message, "choose another LUN"));
        }
        // An access to the LU that had this LUN would end at the new one: the storage and the
        // stored reservations know it by its LUN.
        if self.target.is_in_use(lu.lun) {
            let message = format!(
                "LUN {} still has commands in progress on the LU that was withdrawn",
                lu.lun
            );
            return Err(Failure::environment(message, "try again in a moment"));
        }
        let pool = pool_named(self.storage, pool)?;
        check_no_part(self.storage, pool, volume)?;
        self.advance_create(pool, lu)
    }

    /// Requests the next change that the volume of a new LU needs, or serves the LU.
    fn advance_create(&mut self, pool: usize, lu: LuConfig) -> Result<Progress, Failure> {
        let StoreConfig::Thin { volume: name, .. } = &lu.store else {
            unreachable!("only thin LUs are created");
        };
        let object = volume_object(name);
        match pools::next_step(self.storage, pool, &lu)? {
            Some(request) => {
                let part = PoolPart {
                    pool,
                    object,
                    completion: Completion::Serve(Box::new(lu)),
                };
                Ok(Progress::Ask(request, part))
            }
            None => {
                let volume = self.storage.core.pools()[pool].volume_named(name);
                let volume = volume.expect("a volume that needs no change exists");
                Ok(Progress::Answered(self.serve_volume(pool, volume, &lu)))
            }
        }
    }

    fn begin_copy(&mut self, origin: &VolumePath, copy: CopyOrder) -> Result<Progress, Failure> {
        let (pool, volume) = volume_named(self.storage, origin)?;
        let part = PoolPart {
            pool,
            object: volume_object(&copy.name),
            completion: Completion::AnswerVolume,
        };
        let request = Request::Snapshot {
            volume,
            name: copy.name,
            read_only: copy.read_only,
            quota_bytes: copy.quota_bytes,
        };
        Ok(Progress::Ask(request, part))
    }

    fn begin_resize(&mut self, path: &VolumePath, size_bytes: u64) -> Result<Progress, Failure> {
        let (pool, volume) = volume_named(self.storage, path)?;
        check_blocks(self.storage, pool, volume, size_bytes)?;
        self.change_volume(path, |volume| {
            let request = Request::Resize { volume, size_bytes };
            (request, Completion::SetCapacity(volume, size_bytes))
        })
    }

    fn change_volume(
        &self,
        path: &VolumePath,
        change: impl FnOnce(VolumeId) -> (Request, Completion),
    ) -> Result<Progress, Failure> {
        let (pool, volume) = volume_named(self.storage, path)?;
        check_no_part(self.storage, pool, &path.volume)?;
        let (request, completion) = change(volume);
        let part = PoolPart {
            pool,
            object: path.object(),
            completion,
        };
        Ok(Progress::Ask(request, part))
    }

    fn withdraw_thin(&mut self, now: Time, lun: u8) -> Result<Progress, Failure> {
        if !self.storage.core.is_thin(lun) {
            return Err(Failure::usage(
                format_args!("there is no thin LU {lun}"),
                "only thin LUs can be withdrawn while the array serves",
            ));
        }
        self.withdraw(now, lun);
        Ok(Progress::Answered(Ok(BTreeMap::new())))
    }

    fn set_port_state(
        &mut self,
        now: Time,
        portal: usize,
        state: PortState,
        transition_ms: u32,
    ) -> Result<Progress, Failure> {
        self.check_portal(portal)?;
        if transition_ms > TRANSITION_MS_MAX {
            let message = format!("transition_ms is {transition_ms}");
            let hint = format!("it must be at most {TRANSITION_MS_MAX}");
            return Err(Failure::usage(message, hint));
        }
        let state = access_state(state);
        if transition_ms == 0 {
            self.target.set_port_state(portal, state);
        } else {
            let duration = Duration::from_millis(transition_ms.into());
            self.target
                .begin_port_transition(now, portal, state, duration);
        }
        Ok(Progress::Answered(Ok(BTreeMap::new())))
    }

    fn set_portal(&mut self, now: Time, portal: usize, accepts: bool) -> Result<Progress, Failure> {
        self.check_portal(portal)?;
        if accepts {
            self.connections.accept_portal(portal)?;
        } else {
            self.connections.refuse_portal(now, portal, self.target);
        }
        Ok(Progress::Answered(Ok(BTreeMap::new())))
    }

    fn check_portal(&self, portal: usize) -> Result<(), Failure> {
        if portal < self.connections.acceptor().listeners() {
            return Ok(());
        }
        let message = format!("there is no portal {portal}");
        Err(Failure::usage(message, "portals are numbered from 0"))
    }

    /// Continues an order after a pool has completed or refused its part.
    fn complete_order(
        &mut self,
        now: Time,
        part: PoolPart,
        outcome: Ordered,
    ) -> Result<Progress, Failure> {
        let PoolPart {
            pool,
            object,
            completion,
        } = part;
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(refusal) => {
                self.forget_group(pool);
                let name = self.storage.core.pools()[pool].name();
                return Err(pools::refused(name, &object, refusal));
            }
        };
        let answer = match (completion, outcome) {
            (Completion::Serve(lu), _) => return self.advance_create(pool, *lu),
            (Completion::SetCapacity(volume, size_bytes), _) => {
                for lun in self.luns_of(pool, volume) {
                    self.storage.core.set_size(lun, size_bytes);
                    self.target.set_capacity(lun, size_bytes);
                }
                self.volume_answer(pool, volume)
            }
            (Completion::AnswerVolume, Outcome::Created(volume)) => {
                self.volume_answer(pool, volume)
            }
            (Completion::AnswerVolume, _) => BTreeMap::new(),
            (Completion::AnswerPool, _) => {
                let figures = pool_figures(self.storage, pool);
                BTreeMap::from([("pool".to_owned(), figures)])
            }
            (Completion::Withdraw(volume), _) => {
                for lun in self.luns_of(pool, volume) {
                    self.withdraw(now, lun);
                }
                BTreeMap::new()
            }
        };
        Ok(Progress::Answered(Ok(answer)))
    }

    /// Serves a volume as an LU. The volume has the LU's size.
    fn serve_volume(&mut self, pool: usize, volume: VolumeId, lu: &LuConfig) -> Answer {
        let opened = Lu {
            store: Store::Thin { pool, volume },
            size_bytes: lu.size_bytes,
            block_bytes: lu.block_bytes,
            place: Place::default(),
            identity: Some(self.storage.core.volume_identity(pool, volume)),
            unmaps: 0,
        };
        let traits = setup::traits(self.storage, &opened);
        let reservations = self.storage.start_reservations(lu.lun, &opened);
        let description = setup::describe(lu, None, reservations, traits)?;
        self.storage.core.attach(lu.lun, opened);
        self.target.add_lu(description);
        report_space(pool, self.storage, self.target);
        Ok(self.volume_answer(pool, volume))
    }

    fn withdraw(&mut self, now: Time, lun: u8) {
        self.target.remove_lu(now, lun);
        self.storage.detach(lun);
    }

    fn luns_of(&self, pool: usize, volume: VolumeId) -> Vec<u8> {
        self.storage.core.luns_of(pool, volume).collect()
    }

    fn volume_answer(&self, pool: usize, volume: VolumeId) -> BTreeMap<String, Value> {
        let figures = volume_figures(self.storage, pool, volume);
        BTreeMap::from([("volume".to_owned(), figures)])
    }
}
