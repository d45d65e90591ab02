//! Orders of the operator: looked at, done by target and pools, answered.
//!
//! What changes a pool is answered when the pool has it on stable storage; what comes after that ([`Then`]) is done
//! when the pool tells so. The array serves on meanwhile.
use std::collections::BTreeMap;

use hakaru_contract::{LuConfig, ManageAction, PortState, StoreConfig};
use hakaru_pool::{Failure as Refusal, Outcome, Request, VolumeId};
use hakaru_units::Time;
use hakaru_wire::scsi::AccessState;
use serde_json::{Value, json};

use super::storage::{Lu, Store};
use super::{Shell, pools, setup};
use crate::control::Control;
use crate::failure::Failure;

/// What an order comes to.
pub type Answer = Result<BTreeMap<String, Value>, Failure>;

/// Orders under way, by the number that the pools know them by. 0 is not given out: that is `pools.rs`'s.
#[derive(Default)]
pub struct Orders {
    under_way: BTreeMap<u64, Pending>,
    given_out: u64,
}

impl Orders {
    /// Whether an LU of that number is being created.
    fn creates(&self, lun: u8) -> bool {
        let mut pending = self.under_way.values();
        pending.any(|order| matches!(&order.then, Then::Serve(lu) if lu.lun == lun))
    }
}

struct Pending {
    /// The operator's number.
    id: u64,
    pool: usize,
    /// What it is about, for a refusal.
    what: String,
    then: Then,
}

/// What is done when the pool has done its part.
enum Then {
    /// Nothing more: the volume's figures are the answer.
    Tell,
    /// The pool's figures are.
    TellPool,
    /// The LUs of the volume are withdrawn: it is gone.
    Withdraw(VolumeId),
    /// Every LU that the volume is gets the size.
    SetCapacity(VolumeId, u64),
    /// The LU is served, after its volume was given the size and quota that it is to have.
    Serve(Box<LuConfig>),
}

/// An order that is over, or one that a pool works on.
enum Begun {
    Over(Answer),
    Asked {
        pool: usize,
        what: String,
        request: Request,
        then: Then,
    },
}

impl Shell<'_> {
    /// Takes the operator's orders, and what pools tell of those before.
    /// Whether there was anything.
    pub(super) fn manage(&mut self, now: Time, control: &mut Control) -> bool {
        let mut moved = false;
        while let Some((id, action)) = control.poll_managing() {
            moved = true;
            let begun = self
                .begin_order(now, action)
                .unwrap_or_else(|failure| Begun::Over(Err(failure)));
            self.carry_on(now, id, begun, control);
        }
        for pool in 0..self.storage.pools().len() {
            while let Some((number, outcome)) = self.storage.pool(now, pool).0.poll_ordered() {
                moved = true;
                let Some(pending) = self.orders.under_way.remove(&number) else {
                    continue;
                };
                let id = pending.id;
                let begun = self.go_on(now, pending, outcome);
                self.carry_on(now, id, begun, control);
            }
        }
        moved
    }

    /// Orders whose pools have not answered yet.
    pub(super) fn orders_under_way(&self) -> bool {
        !self.orders.under_way.is_empty()
    }

    fn carry_on(&mut self, now: Time, id: u64, begun: Begun, control: &Control) {
        match begun {
            Begun::Over(answer) => control.reply(id, answer),
            Begun::Asked {
                pool,
                what,
                request,
                then,
            } => {
                self.orders.given_out += 1;
                let number = self.orders.given_out;
                let pending = Pending {
                    id,
                    pool,
                    what,
                    then,
                };
                self.orders.under_way.insert(number, pending);
                let (store, way) = self.storage.pool(now, pool);
                store.order(number, request, way);
            }
        }
    }

    fn begin_order(&mut self, now: Time, action: ManageAction) -> Result<Begun, Failure> {
        let asked = |pool, what: String, request, then| {
            Ok(Begun::Asked {
                pool,
                what,
                request,
                then,
            })
        };
        match action {
            ManageAction::Status => Ok(Begun::Over(Ok(self.status()))),
            ManageAction::Grow { pool: name, group } => {
                let pool = self.pool_named(&name)?;
                pools::check_group(&name, &group, self.storage.model())?;
                if self.storage.pools()[pool]
                    .core()
                    .groups()
                    .any(|g| g.name == group.name)
                {
                    let what = format!("group {:?}", group.name);
                    return Err(pools::refused(&name, &what, Refusal::NameTaken));
                }
                let request = pools::prepare(&mut self.storage, pool, &group)?;
                let what = format!("group {:?}", group.name);
                asked(pool, what, request, Then::TellPool)
            }
            ManageAction::Create { lu } => self.begin_create(lu),
            ManageAction::Snapshot { pool, volume, name } => {
                self.begin_copy((&pool, &volume), name, true, None)
            }
            ManageAction::Clone {
                pool,
                volume,
                name,
                quota_bytes,
            } => self.begin_copy((&pool, &volume), name, false, quota_bytes),
            ManageAction::Resize {
                pool,
                volume: name,
                size_bytes,
            } => {
                let (pool, volume) = self.volume_named(&pool, &name)?;
                self.check_blocks(pool, volume, size_bytes)?;
                let then = Then::SetCapacity(volume, size_bytes);
                let request = Request::Resize { volume, size_bytes };
                asked(pool, format!("volume {name:?}"), request, then)
            }
            ManageAction::SetQuota {
                pool,
                volume: name,
                quota_bytes,
            } => {
                let (pool, volume) = self.volume_named(&pool, &name)?;
                let request = Request::SetQuota {
                    volume,
                    quota_bytes,
                };
                asked(pool, format!("volume {name:?}"), request, Then::Tell)
            }
            ManageAction::Delete { pool, volume: name } => {
                let (pool, volume) = self.volume_named(&pool, &name)?;
                let request = Request::Delete { volume };
                let then = Then::Withdraw(volume);
                asked(pool, format!("volume {name:?}"), request, then)
            }
            ManageAction::Withdraw { lun } => {
                if !self.storage.is_thin(lun) {
                    let message = format!("there is no thin LU {lun}");
                    return Err(Failure::usage(
                        message,
                        "only thin LUs are withdrawn while the array serves",
                    ));
                }
                self.withdraw(now, lun);
                Ok(Begun::Over(Ok(BTreeMap::new())))
            }
            ManageAction::SetPortState { portal, state } => {
                let portal = usize::from(portal);
                if portal >= self.listeners.len() {
                    let message = format!("there is no portal {portal}");
                    return Err(Failure::usage(message, "portals count from 0"));
                }
                self.target.set_port_state(portal, access_state(state));
                Ok(Begun::Over(Ok(BTreeMap::new())))
            }
        }
    }

    fn begin_create(&mut self, lu: LuConfig) -> Result<Begun, Failure> {
        setup::check_lu(&lu, self.storage.model())?;
        let StoreConfig::Thin { pool, volume, .. } = &lu.store else {
            return Err(Failure::usage(
                format_args!("LUN {} is not thin", lu.lun),
                "only thin LUs are made while the array serves",
            ));
        };
        // An order under way has its LUN to itself: a second one would leave a volume that no LU shows.
        if self.storage.has(lu.lun) || self.orders.creates(lu.lun) {
            let message = format!("there is an LU {} already", lu.lun);
            return Err(Failure::usage(message, "choose another LUN"));
        }
        let number = self.pool_named(pool)?;
        self.next_of_create(number, volume.clone(), lu)
    }

    /// What the volume of a new LU still lacks, or the LU served.
    fn next_of_create(
        &mut self,
        pool: usize,
        name: String,
        lu: LuConfig,
    ) -> Result<Begun, Failure> {
        match pools::next_step(&self.storage, pool, &name, &lu)? {
            Some(request) => Ok(Begun::Asked {
                pool,
                what: format!("volume {name:?}"),
                request,
                then: Then::Serve(Box::new(lu)),
            }),
            None => Ok(Begun::Over(self.serve_volume(pool, &name, &lu))),
        }
    }

    fn begin_copy(
        &mut self,
        (pool, volume): (&str, &str),
        name: String,
        read_only: bool,
        quota_bytes: Option<u64>,
    ) -> Result<Begun, Failure> {
        let (pool, volume) = self.volume_named(pool, volume)?;
        Ok(Begun::Asked {
            pool,
            what: format!("volume {name:?}"),
            request: Request::Snapshot {
                volume,
                name,
                read_only,
                quota_bytes,
            },
            then: Then::Tell,
        })
    }

    /// A pool has done its part of an order, or refused.
    fn go_on(&mut self, now: Time, pending: Pending, outcome: Result<Outcome, Refusal>) -> Begun {
        let Pending {
            pool, what, then, ..
        } = pending;
        let name = self.storage.pools()[pool].name().to_owned();
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(refusal) => {
                self.storage.pool(now, pool).0.forget_prepared_group();
                return Begun::Over(Err(pools::refused(&name, &what, refusal)));
            }
        };
        Begun::Over(match (then, outcome) {
            (Then::Serve(lu), _) => {
                let StoreConfig::Thin { volume, .. } = &lu.store else {
                    unreachable!("only thin LUs come here");
                };
                let volume = volume.clone();
                return self
                    .next_of_create(pool, volume, *lu)
                    .unwrap_or_else(|failure| Begun::Over(Err(failure)));
            }
            (Then::SetCapacity(volume, size_bytes), _) => {
                let luns: Vec<u8> = self.storage.luns_of(pool, volume).collect();
                for lun in luns {
                    self.storage.set_size(lun, size_bytes);
                    self.target.set_capacity(lun, size_bytes);
                }
                Ok(self.told_volume(pool, volume))
            }
            (Then::Tell, Outcome::Created(volume)) => Ok(self.told_volume(pool, volume)),
            (Then::TellPool, _) => {
                let figures = pools::figures(&self.storage, pool);
                Ok(BTreeMap::from([("pool".to_owned(), figures)]))
            }
            (Then::Withdraw(volume), _) => {
                let luns: Vec<u8> = self.storage.luns_of(pool, volume).collect();
                for lun in luns {
                    self.withdraw(now, lun);
                }
                Ok(BTreeMap::new())
            }
            (Then::Tell, _) => Ok(BTreeMap::new()),
        })
    }

    /// Serves a volume that has the LU's size.
    fn serve_volume(&mut self, pool: usize, name: &str, lu: &LuConfig) -> Answer {
        let volume = self.storage.pools()[pool]
            .volume_named(name)
            .expect("it was found just now");
        let identity = self.storage.volume_identity(pool, volume);
        let opened = Lu::new(
            Store::Thin { pool, volume },
            (lu.size_bytes, lu.block_bytes),
            (0, 0),
            Some(identity),
        );
        let traits = self.storage.volume_traits(&opened);
        let reservations = self.storage.start_reservations(lu.lun, &opened);
        let description = setup::describe(lu, None, reservations, traits)?;
        self.storage.attach(lu.lun, opened);
        self.target.add_lu(description);
        self.tell_space(pool);
        Ok(self.told_volume(pool, volume))
    }

    fn withdraw(&mut self, now: Time, lun: u8) {
        self.target.remove_lu(now, lun);
        self.storage.detach(lun);
        self.storage.forget_reservations(lun);
    }

    fn check_blocks(&self, pool: usize, volume: VolumeId, size_bytes: u64) -> Result<(), Failure> {
        for lun in self.storage.luns_of(pool, volume) {
            let block = self.storage.block_bytes(lun);
            if !size_bytes.is_multiple_of(u64::from(block)) {
                return Err(Failure::usage(
                    format_args!("{size_bytes} bytes are no whole number of LUN {lun}'s blocks"),
                    format_args!("give a multiple of {block}"),
                ));
            }
        }
        Ok(())
    }

    fn pool_named(&self, name: &str) -> Result<usize, Failure> {
        self.storage.pool_named(name).ok_or_else(|| {
            let names: Vec<&str> = self.storage.pools().iter().map(|p| p.name()).collect();
            Failure::usage(
                format_args!("there is no pool {name:?}"),
                format_args!("pools of this array: {}", names.join(", ")),
            )
        })
    }

    fn volume_named(&self, pool: &str, name: &str) -> Result<(usize, VolumeId), Failure> {
        let number = self.pool_named(pool)?;
        match self.storage.pools()[number].volume_named(name) {
            Some(volume) => Ok((number, volume)),
            None => Err(pools::refused(
                pool,
                &format!("volume {name:?}"),
                Refusal::NoVolume,
            )),
        }
    }

    fn told_volume(&self, pool: usize, volume: VolumeId) -> BTreeMap<String, Value> {
        let figures = pools::volume_figures(&self.storage, pool, volume);
        BTreeMap::from([("volume".to_owned(), figures)])
    }

    /// What `status` answers.
    fn status(&self) -> BTreeMap<String, Value> {
        let pools: Vec<Value> = (0..self.storage.pools().len())
            .map(|pool| pools::figures(&self.storage, pool))
            .collect();
        let portals: Vec<Value> = (0..self.listeners.len())
            .map(|portal| {
                let address = self.listeners[portal].local_address().ok();
                let state = port_state(self.target.port_state(portal));
                json!({"address": address.map(|a| a.to_string()), "state": state})
            })
            .collect();
        BTreeMap::from([
            ("pools".to_owned(), json!(pools)),
            ("lus".to_owned(), json!(self.storage.figures())),
            ("portals".to_owned(), json!(portals)),
            ("sessions_now".to_owned(), json!(self.target.sessions_now())),
        ])
    }
}

fn access_state(state: PortState) -> AccessState {
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
        // Ports change at once.
        AccessState::Transitioning => None,
    }
}
