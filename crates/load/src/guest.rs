//! One VM of a host: its configuration, and its work once its LU was surveyed.
use std::sync::Arc;

use hakaru_contract::initiator::{Destination, Vm};
use hakaru_contract::{ConfigError, refuse};
use hakaru_iscsi_session::{LuFacts, Volume};
use hakaru_stats::Latencies;
use hakaru_units::Time;

use crate::counters::Counters;
use crate::load::Load;
use crate::region::resolve_region;
use crate::ring::Ring;
use crate::settings::Settings;
use crate::verify::{Verifier, volume_id};
use crate::work::Work;

#[derive(Debug)]
enum Stage {
    Survey,
    Load(Box<Work>),
    Failed,
}

/// A VM of a host.
#[derive(Debug)]
pub(crate) struct Guest {
    config: Arc<Vm>,
    /// Position in the configuration of the engine, for messages.
    index: usize,
    lun: u8,
    /// Index of the LU among the LUs of the host.
    pub lu: usize,
    stage: Stage,
    /// Whether the VM is due to issue commands.
    pub is_due: bool,
    /// Final counters of a failed VM.
    final_counters: Counters,
}

impl Guest {
    /// Creates the VM that `config` describes, on an LU that was not surveyed yet.
    ///
    /// # Panics
    /// Panics if the VM's destination is not iSCSI.
    pub(crate) fn new(config: Arc<Vm>, index: usize) -> Guest {
        let Destination::Iscsi { lun, .. } = config.destination else {
            panic!("{} has no iSCSI destination", config.name);
        };
        Guest {
            config,
            index,
            lun,
            lu: 0,
            stage: Stage::Survey,
            is_due: false,
            final_counters: Counters::default(),
        }
    }

    pub(crate) fn config(&self) -> &Vm {
        &self.config
    }

    pub(crate) fn lun(&self) -> u8 {
        self.lun
    }

    /// Returns the work of the VM. `None` before its LU was surveyed and after a failure.
    #[inline]
    pub(crate) fn work(&mut self) -> Option<&mut Work> {
        match &mut self.stage {
            Stage::Load(work) => Some(work),
            _ => None,
        }
    }

    /// Returns when the load must issue its next request.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        match &self.stage {
            Stage::Load(work) => work.load.poll_timeout(),
            _ => None,
        }
    }

    /// Returns the number of requests in flight.
    pub(crate) fn in_flight(&self) -> usize {
        match &self.stage {
            Stage::Load(work) => work.load.in_flight(),
            _ => 0,
        }
    }

    /// Returns the counters, complete until `now`.
    pub(crate) fn counters(&mut self, now: Time) -> Counters {
        match &mut self.stage {
            Stage::Load(work) => work.counters(now),
            _ => self.final_counters,
        }
    }

    /// Creates the load for the LU that was surveyed.
    ///
    /// # Errors
    /// The LU does not fit the configuration.
    pub(crate) fn become_ready(
        &mut self,
        facts: &LuFacts,
        settings: &Settings,
    ) -> Result<(), ConfigError> {
        let (config, volume, limits) = (&self.config, &facts.volume, &settings.commands);
        let field = format!("vms[{}]", self.index);
        let extent = resolve_region(&field, &config.region, &config.pattern, volume)?;
        check_command("command_bytes_max", limits.bytes_max, volume)?;
        let of_queue = limits.guest_queue.map(|queue| queue.request_bytes_max());
        check_command("guest_queue.segments_max", of_queue, volume)?;
        let mut load = Load::new(config, extent);
        if let Some(run) = settings.verify_run {
            let id = volume_id(&config.destination.volume_name());
            let payload = Arc::clone(settings.payload.bytes());
            load = load.with_verifier(Verifier::new(id, run, volume.block_bytes, payload));
        }
        let work = Work::new(
            load,
            limits.bytes_max,
            limits.guest_queue.map(Ring::new),
            self.lun,
            volume.block_bytes,
            settings.payload.clone(),
        );
        self.stage = Stage::Load(Box::new(work));
        Ok(())
    }

    /// Ends the VM and counts its requests in flight as errors. Returns whether it had not failed
    /// before.
    pub(crate) fn fail(&mut self, now: Time, latencies: &mut Latencies) -> bool {
        if let Stage::Load(work) = &mut self.stage {
            work.load.handle_lost(now, latencies);
            self.final_counters = work.counters(now);
        }
        !matches!(
            std::mem::replace(&mut self.stage, Stage::Failed),
            Stage::Failed
        )
    }
}

/// Checks that commands end at block boundaries.
fn check_command(field: &str, longest: Option<u32>, volume: &Volume) -> Result<(), ConfigError> {
    let block_bytes = volume.block_bytes;
    match longest {
        Some(bytes) if bytes % block_bytes != 0 => refuse(
            field,
            format!("commands of {bytes} bytes are no multiple of the LU's block, {block_bytes}"),
            format!("let them be a multiple of {block_bytes} bytes"),
        ),
        _ => Ok(()),
    }
}
