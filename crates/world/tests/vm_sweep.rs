//! The study `vm-sweep` in virtual time: real PDUs over a modelled 1 GbE path to the modelled
//! array.
use std::time::Duration;

use hakaru_contract::LoginKeys;
use hakaru_contract::drive::Model;
use hakaru_contract::initiator::{Destination, GuestQueue, Load, Pattern, Region, SizeWeight, Vm};
use hakaru_iscsi_target::Limits;
use hakaru_load::CommandLimits;
use hakaru_units::GIB;
use hakaru_world::{LuSetup, Snapshot, Wire, World, WorldConfig};

const TARGET: &str = "iqn.2011-10.example.hakaru:array";

/// Returns a pattern of the study: random 32 KiB or sequential 1 MiB, both with 70 % reads.
fn pattern(bytes: u32, random_percent: u8) -> Pattern {
    Pattern {
        sizes: vec![SizeWeight { bytes, weight: 1 }],
        read_percent: 70,
        random_percent,
        align_bytes: None,
    }
}

/// The path of the study's preset `kvm-83`: a ring of 128 descriptors per guest disk, and sessions
/// that belong to the hosts, with 32 commands per LU and 128 per session.
const KVM_83: CommandLimits = CommandLimits {
    guest_queue: Some(GuestQueue {
        ring_descriptors: 128,
        segments_max: 126,
        indirect: false,
        in_flight_max: None,
    }),
    bytes_max: None,
    share_sessions: true,
    sessions: 1,
    lu_outstanding_max: 32,
    session_outstanding_max: 128,
};

/// Returns VM `i` on LU `i mod 2` and host `i mod 4`. The LU holds adjacent images of 64 GiB, each
/// accessed as a whole. 32 requests are outstanding.
fn vm(i: u64, pattern: &Pattern, seed: u64) -> Vm {
    Vm {
        name: format!("vm{}", i + 1),
        destination: Destination::Iscsi {
            portal: "10.0.0.1:3260".to_owned(),
            target_name: TARGET.to_owned(),
            lun: (i % 2) as u8,
            initiator_name: format!("iqn.2011-10.example.hakaru:host-{}", i % 4 + 1),
            other_portals: Vec::new(),
        },
        region: Region {
            offset_bytes: i / 2 * 64 * GIB,
            length_bytes: 64 * GIB,
        },
        pattern: pattern.clone(),
        load: Load::Closed { queue_depth: 32 },
        seed: seed * 1000 + i,
        group: None,
    }
}

fn study(vms: u64, pattern: &Pattern, seed: u64, commands: CommandLimits) -> WorldConfig {
    let lu = |lun: u8| LuSetup {
        lun,
        size_bytes: 512 * GIB,
        block_bytes: 512,
        group: lun.into(),
        group_offset_bytes: 0,
    };
    WorldConfig {
        target_name: TARGET.to_owned(),
        lus: vec![lu(0), lu(1)],
        model: hakaru_drive::resolve(&Model::Preset {
            name: "jdsf-2011".to_owned(),
        })
        .expect("a preset is valid"),
        vms: (0..vms).map(|i| vm(i, pattern, seed)).collect(),
        keys: LoginKeys::default(),
        commands,
        limits: Limits::default(),
        timeout: Duration::from_secs(30),
        wire: Wire::gigabit_ethernet(),
        verify_run: None,
        seed,
    }
}

/// Returns the increase of the counters during the measurement.
fn measure(config: &WorldConfig, warmup: Duration, measure: Duration) -> Snapshot {
    let mut world = World::new(config).expect("the configuration is valid");
    world.log_in().expect("every VM logs in");
    world.begin();
    world.run_for(warmup).expect("no request fails");
    let before = world.counters();
    world.run_for(measure).expect("no request fails");
    let mut grown = world.counters();
    for (entity, counters) in &mut grown {
        for (name, value) in counters {
            *value -= before[entity][name];
        }
    }
    world.log_out().expect("every VM logs out");
    grown
}

fn row(vms: u64, grown: &Snapshot, seconds: f64) -> String {
    let all = &grown["vms"];
    let (reads, writes) = (all["reads"], all["writes"]);
    let busy = |entity: &str| 100.0 * grown[entity]["busy_ns"] / seconds / 1e9;
    let drives = grown.keys().filter(|entity| entity.starts_with("drive/"));
    format!(
        "{vms:>3} {:>6.0} {:>8.0} {:>8.1} {:>8.1} {:>9.1} {:>7.1} {:>8.1} {:>8.1} {:>7.1} {:>9.1} {:>7.1} \
         {:>6.1}\n",
        (reads + writes) / seconds,
        reads / seconds,
        (all["read_latency_ns_sum"] + all["write_latency_ns_sum"]) / (reads + writes) / 1e6,
        all["read_latency_ns_sum"] / reads / 1e6,
        all["write_latency_ns_sum"] / writes / 1e6,
        (all["read_bytes"] + all["write_bytes"]) / seconds / 1e6,
        drives.map(|entity| busy(entity)).fold(0.0, f64::max),
        busy("controller"),
        busy("link/up"),
        busy("link/down"),
        all["guest_queued_ns"] / seconds / 1e9,
        all["host_queued_ns"] / seconds / 1e9,
    )
}

fn table(
    pattern: &Pattern,
    commands: CommandLimits,
    counts: &[u64],
    warmup_s: u64,
    measure_s: u64,
) -> String {
    let mut table = String::from(
        "VMs   IOPS  reads/s  mean ms  read ms  write ms    MB/s  drive %   ctrl %    up %    down %  \
         guests  hosts\n",
    );
    for &vms in counts {
        let config = study(vms, pattern, 1, commands);
        let grown = measure(
            &config,
            Duration::from_secs(warmup_s),
            Duration::from_secs(measure_s),
        );
        table += &row(vms, &grown, measure_s as f64);
    }
    table
}

#[test]
fn random_32k_over_gigabit_ethernet() {
    let table = table(
        &pattern(32 << 10, 100),
        CommandLimits::default(),
        &[1, 4, 6, 7, 8, 10, 12, 14, 16],
        2,
        4,
    );
    insta::assert_snapshot!(table);
}

#[test]
fn sequential_1m_over_gigabit_ethernet() {
    let table = table(
        &pattern(1 << 20, 0),
        CommandLimits::default(),
        &[1, 4, 16],
        1,
        2,
    );
    insta::assert_snapshot!(table);
}

/// Twelve requests of a VM and 32 per host and LU reach the array; the others wait in the guests,
/// and from three VMs per host on also in the hosts.
#[test]
fn random_32k_through_the_hypervisors() {
    let table = table(
        &pattern(32 << 10, 100),
        KVM_83,
        &[1, 4, 6, 7, 8, 10, 12, 14, 16],
        2,
        4,
    );
    insta::assert_snapshot!(table);
}

/// One piece of at most 504 KiB of each VM is in flight.
#[test]
fn sequential_1m_through_the_hypervisors() {
    let table = table(&pattern(1 << 20, 0), KVM_83, &[1, 4, 7, 9, 16], 1, 2);
    insta::assert_snapshot!(table);
}

#[test]
fn the_same_seed_gives_the_same_world_and_another_seed_does_not() {
    let run = |seed| {
        measure(
            &study(4, &pattern(32 << 10, 100), seed, KVM_83),
            Duration::ZERO,
            Duration::from_secs(1),
        )
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}
