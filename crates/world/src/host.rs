//! A host of a world, and its connection to the target.
use std::collections::VecDeque;
use std::sync::Arc;

use hakaru_iscsi_target::ConnectionId;
use hakaru_load::{CommandLimits, HostEvent, IscsiHost, Payload, Settings, hosts_of};
use hakaru_units::Time;

use crate::config::WorldConfig;
use crate::error::WorldError;
use crate::events::Timer;
use crate::wire::Segment;

/// A host, with one VM or several that share its session, and its connection.
#[derive(Debug)]
pub(crate) struct Host {
    pub iscsi: IscsiHost,
    /// The target's end of the connection; `None` once the target has closed it.
    pub connection: Option<ConnectionId>,
    /// Data that has arrived at the target but that it does not accept yet.
    pub inbox: VecDeque<Segment>,
    pub timer: Timer,
    pub is_ready: bool,
    pub is_logged_out: bool,
}

impl Host {
    /// Processes the host's events. Returns the first failure.
    pub fn handle_events(&mut self) -> Option<WorldError> {
        let mut failure = None;
        while let Some(event) = self.iscsi.poll_event() {
            let vm = match event {
                HostEvent::Ready(_) => {
                    self.is_ready = true;
                    continue;
                }
                HostEvent::LoggedOut => {
                    self.is_logged_out = true;
                    continue;
                }
                HostEvent::Redirected { .. } => 0,
                HostEvent::RequestFailed { vm, .. }
                | HostEvent::Corrupt { vm, .. }
                | HostEvent::Failed { vm, .. } => vm,
            };
            failure.get_or_insert(WorldError::Vm {
                name: self.iscsi.config(vm).name.clone(),
                event: Box::new(event),
            });
        }
        failure
    }

    /// Appends data that the host sends to `segment`, up to `length_max` bytes.
    pub fn fill_segment(&mut self, now: Time, segment: &mut Vec<u8>, length_max: usize) {
        let transmit = self.iscsi.transmit(0);
        for slice in transmit.slices() {
            let room = length_max - segment.len();
            segment.extend_from_slice(&slice[..slice.len().min(room)]);
            if segment.len() == length_max {
                break;
            }
        }
        transmit.advance(now, segment.len());
    }
}

/// Creates the hosts of a configuration, none of them connected.
pub(crate) fn hosts(config: &WorldConfig) -> Vec<Host> {
    let sizes = config.vms.iter().flat_map(|vm| &vm.pattern.sizes);
    let longest = sizes.map(|size| size.bytes).max().unwrap_or(512);
    let settings = Arc::new(Settings {
        chap: None,
        keys: config.keys,
        timeout: config.timeout,
        payload: Payload::new(longest, config.seed),
        verify_run: config.verify_run,
        commands: CommandLimits {
            sessions: 1,
            ..config.commands
        },
    });
    let host = |vms| Host {
        iscsi: IscsiHost::new(vms, Arc::clone(&settings)),
        connection: None,
        inbox: VecDeque::new(),
        timer: Timer::default(),
        is_ready: false,
        is_logged_out: false,
    };
    let groups = hosts_of(&config.vms, config.commands.share_sessions);
    groups.into_iter().map(host).collect()
}
