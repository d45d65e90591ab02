//! Parameter lists, several ports, and unit attention conditions.

use hakaru_iscsi_target::ConnectionId;
use hakaru_wire::iscsi::Stage;
use hakaru_wire::scsi::{
    Cdb, ModeSelect, ModeSense, PageControl, PersistentReserveOut, ReserveOut,
    ReserveOutParameters, Sense, SenseKey,
};

use super::{Answer, Initiator, Pair, names};

/// Logs in a session on a portal.
pub fn log_in_at(pair: &mut Pair, portal: usize, name: &str, isid: u32) -> Initiator {
    let local = "10.0.0.1:3260".parse().unwrap();
    let peer = "10.0.0.9:40000".parse().unwrap();
    let connection: ConnectionId = pair
        .target
        .handle_connected(pair.time, portal, local, peer)
        .expect("a connection is accepted");
    let mut initiator = Initiator::new(connection, isid);
    let next = Some(Stage::FullFeaturePhase);
    let (answer, _) = initiator.login(pair, Stage::OperationalNegotiation, next, &names(name));
    initiator.tsih = answer.tsih;
    initiator
}

/// Executes a command with a parameter list.
pub fn with_list(
    initiator: &mut Initiator,
    pair: &mut Pair,
    lun: u8,
    cdb: Cdb,
    list: &[u8],
) -> Answer {
    let command = initiator.command(lun, &cdb.emit(), false, true, list.len() as u32);
    initiator.send_command(pair, &command, list);
    Answer::of(initiator.receive(pair), command.itt)
}

/// Switches the write cache of an LU off (WCE of the caching mode page).
pub fn switch_cache_off(initiator: &mut Initiator, pair: &mut Pair, lun: u8) {
    let sense = Cdb::ModeSense(ModeSense {
        ten: false,
        disable_block_descriptors: true,
        long_lba: false,
        control: PageControl::Current,
        page: 0x08,
        subpage: 0,
        allocation_length: 255,
    });
    let mut list = initiator.run_cdb(pair, lun, sense, 255).good();
    list[..4].fill(0);
    list[4 + 2] = 0;
    let select = Cdb::ModeSelect(ModeSelect {
        ten: false,
        page_format: true,
        save_pages: false,
        parameter_list_length: list.len() as u16,
    });
    with_list(initiator, pair, lun, select, &list).good();
}

/// Returns the CDB of PERSISTENT RESERVE OUT.
pub fn reserve_out(action: ReserveOut, kind: u8, length: usize) -> Cdb {
    Cdb::PersistentReserveOut(PersistentReserveOut {
        service_action: action as u8,
        scope: 0,
        kind,
        parameter_list_length: length as u32,
    })
}

/// Registers a key on LU 0, regardless of an existing registration.
pub fn register(initiator: &mut Initiator, pair: &mut Pair, key: u64) {
    let list = ReserveOutParameters {
        service_action_key: key,
        ..ReserveOutParameters::default()
    };
    let cdb = reserve_out(ReserveOut::RegisterAndIgnoreExistingKey, 0, 24);
    with_list(initiator, pair, 0, cdb, &list.emit()).good();
}

/// Executes PERSISTENT RESERVE OUT on LU 0 with a key and a service action key.
pub fn order(
    initiator: &mut Initiator,
    pair: &mut Pair,
    action: ReserveOut,
    kind: u8,
    keys: (u64, u64),
) -> Answer {
    order_on(0, initiator, pair, action, kind, keys)
}

/// Executes PERSISTENT RESERVE OUT on an LU with a key and a service action key.
pub fn order_on(
    lun: u8,
    initiator: &mut Initiator,
    pair: &mut Pair,
    action: ReserveOut,
    kind: u8,
    (key, service_action_key): (u64, u64),
) -> Answer {
    let list = ReserveOutParameters {
        key,
        service_action_key,
        ..ReserveOutParameters::default()
    };
    let cdb = reserve_out(action, kind, 24);
    with_list(initiator, pair, lun, cdb, &list.emit())
}

/// Returns the unit attention conditions of an LU in the order in which they are reported.
pub fn attentions(initiator: &mut Initiator, pair: &mut Pair, lun: u8) -> Vec<Sense> {
    let mut reported = Vec::new();
    loop {
        let answer = initiator.run_cdb(pair, lun, Cdb::TestUnitReady, 0);
        if answer.status != 2 || answer.sense().key != SenseKey::UnitAttention {
            return reported;
        }
        reported.push(answer.sense());
        assert!(reported.len() < 20, "{reported:?}");
    }
}
