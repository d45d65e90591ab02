//! A drive of any kind, as a group sees it: it takes commands, says when it wants to be called, and gives back what has ended.
use hakaru_units::Time;
use rand::RngExt;
use rand_pcg::Pcg64;

use crate::command::Command;
use crate::hdd::HddDrive;
use crate::ssd::SsdDrive;
use crate::usage::Usage;
use hakaru_contract::drive as config;

/// A drive.
#[derive(Clone, Debug)]
pub(crate) enum Drive {
    Hdd(Box<HddDrive>),
    Ssd(Box<SsdDrive>),
}

impl Drive {
    /// As many idle drives as asked for; presets have been resolved. Platters stand wherever; flash drives are alike.
    pub(crate) fn make(drive: &config::Drive, count: u32, rng: &mut Pcg64) -> Vec<Drive> {
        match drive {
            config::Drive::Hdd(hdd) => (0..count)
                .map(|_| Drive::Hdd(Box::new(HddDrive::new(hdd, rng.random::<f64>()))))
                .collect(),
            config::Drive::Ssd(ssd) => {
                vec![Drive::Ssd(Box::new(SsdDrive::new(ssd, rng))); count as usize]
            }
            config::Drive::Preset { .. } => unreachable!("presets have been resolved"),
        }
    }

    /// Commands present, waiting or in service.
    pub(crate) fn present(&self) -> usize {
        match self {
            Drive::Hdd(hdd) => hdd.present(),
            Drive::Ssd(ssd) => ssd.present(),
        }
    }

    /// Takes a command. Returns when the drive wants to be called because of it, if it was not going to be by then.
    pub(crate) fn submit(&mut self, now: Time, command: Command) -> Option<Time> {
        match self {
            Drive::Hdd(hdd) => hdd.submit(now, command),
            Drive::Ssd(ssd) => {
                ssd.submit(now, command);
                ssd.poll_wake()
            }
        }
    }

    /// Called at an instant that it asked for: pushes the commands that have ended, returns when it wants to be called next.
    pub(crate) fn handle_wake(&mut self, now: Time, ended: &mut Vec<Command>) -> Option<Time> {
        match self {
            Drive::Hdd(hdd) => {
                let (command, next) = hdd.end(now);
                ended.push(command);
                next
            }
            Drive::Ssd(ssd) => {
                ssd.handle_wake(now, ended);
                ssd.poll_wake()
            }
        }
    }

    /// Its counters as of `now`.
    pub(crate) fn usage(&mut self, now: Time) -> &Usage {
        match self {
            Drive::Hdd(hdd) => {
                hdd.usage.advance(now);
                &hdd.usage
            }
            Drive::Ssd(ssd) => ssd.usage(now),
        }
    }

    /// Calls `visit` for each of its counters.
    pub(crate) fn visit_counters(
        &mut self,
        now: Time,
        entity: &str,
        visit: &mut dyn FnMut(&str, &str, f64),
    ) {
        self.usage(now).visit(entity, visit);
        if let Drive::Ssd(ssd) = self {
            ssd.visit_flash(entity, visit);
        }
    }
}
