//! State that all connections share.

pub(crate) mod accesses;
pub(crate) mod barriers;
pub(crate) mod budget_queue;
pub(crate) mod outbox;
pub(crate) mod remains;
pub(crate) mod sessions;
pub(crate) mod transitions;

use hakaru_scsi_device::{Buffers, DeviceServer, Ranges, TargetPorts};
use hakaru_send_queue::Slab;

use self::accesses::Accesses;
use self::barriers::Barriers;
use self::budget_queue::BudgetQueue;
use self::outbox::Outbox;
use self::remains::Remains;
use self::sessions::Sessions;
use self::transitions::Transition;
use crate::config::TargetConfig;
use crate::counters::Counters;
use crate::login::authentication::Entropy;
use crate::login::budget::LoginBudget;
use crate::login::refusal::Refusals;
use crate::task::Task;

/// State that all connections share. Functions that serve one connection take that connection and
/// this state; effects on other connections go through [`Outbox`].
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) config: TargetConfig,
    pub(crate) device: DeviceServer,
    pub(crate) tasks: Slab<Task>,
    /// Buffer pool and write budget.
    pub(crate) buffers: Buffers,
    pub(crate) budget_queue: BudgetQueue,
    /// Ranges that commands hold exclusively, and commands that wait for one.
    pub(crate) ranges: Ranges,
    pub(crate) accesses: Accesses,
    pub(crate) barriers: Barriers,
    pub(crate) sessions: Sessions,
    pub(crate) remains: Remains,
    pub(crate) transitions: Vec<Transition>,
    pub(crate) logins: LoginBudget,
    pub(crate) refusals: Refusals,
    pub(crate) counters: Counters,
    pub(crate) outbox: Outbox,
    /// The target shuts down and accepts no login.
    pub(crate) shutting_down: bool,
    pub(crate) entropy: Generator,
}

impl Core {
    /// Creates the state of a target without connections.
    pub(crate) fn new(config: TargetConfig, entropy: Entropy) -> Self {
        let limits = &config.limits;
        let portals = config.portals.len();
        Self {
            device: DeviceServer::new(
                &config.target_name,
                &config.lus,
                TargetPorts::new(portals, &config.port_groups),
                limits.transfer_bytes_max,
            ),
            tasks: Slab::default(),
            buffers: Buffers::new(limits.write_buffer_bytes_max),
            budget_queue: BudgetQueue::default(),
            ranges: Ranges::default(),
            accesses: Accesses::default(),
            barriers: Barriers::default(),
            sessions: Sessions::default(),
            remains: Remains::default(),
            transitions: Vec::new(),
            logins: LoginBudget::default(),
            refusals: Refusals::default(),
            counters: Counters::new(portals),
            outbox: Outbox::default(),
            shutting_down: false,
            entropy: Generator(entropy),
            config,
        }
    }
}

/// The shell's generator of random bytes.
pub(crate) struct Generator(pub(crate) Entropy);

impl core::fmt::Debug for Generator {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Generator")
    }
}
