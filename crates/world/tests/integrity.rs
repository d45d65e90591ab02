//! Many VMs against one target in virtual time. Every byte and every counter is checked.
use std::time::Duration;

use hakaru_contract::LoginKeys;
use hakaru_contract::drive::Model;
use hakaru_contract::initiator::{Destination, GuestQueue, Load, Pattern, Region, SizeWeight, Vm};
use hakaru_iscsi_target::Limits;
use hakaru_load::CommandLimits;
use hakaru_units::{GIB, MIB};
use hakaru_world::{LuSetup, Snapshot, Wire, World, WorldConfig, WorldError};

const TARGET: &str = "iqn.2026-01.example.hakaru:array";

/// Returns a world whose regions are small, so that blocks are written and read repeatedly, and
/// whose request sizes cross segments, bursts and chunks.
fn config(vms: u64, keys: LoginKeys) -> WorldConfig {
    let vm = |i: u64| Vm {
        name: format!("vm{i}"),
        destination: Destination::Iscsi {
            portal: "10.0.0.1:3260".to_owned(),
            target_name: TARGET.to_owned(),
            lun: 0,
            initiator_name: format!("iqn.2026-01.example.hakaru:vm{i}"),
            other_portals: Vec::new(),
        },
        region: Region {
            offset_bytes: i * 4 * MIB,
            length_bytes: 4 * MIB,
        },
        pattern: Pattern {
            sizes: [512, 4 << 10, 60 << 10, 1 << 20]
                .map(|bytes| SizeWeight { bytes, weight: 1 })
                .to_vec(),
            read_percent: 50,
            random_percent: 80,
            align_bytes: Some(512),
        },
        load: Load::Closed { queue_depth: 8 },
        seed: i,
        group: None,
    };
    WorldConfig {
        target_name: TARGET.to_owned(),
        lus: vec![LuSetup {
            lun: 0,
            size_bytes: GIB,
            block_bytes: 512,
            group: 0,
            group_offset_bytes: 0,
        }],
        model: None,
        vms: (0..vms).map(vm).collect(),
        keys,
        commands: CommandLimits::default(),
        limits: Limits::default(),
        timeout: Duration::from_secs(30),
        wire: Wire::gigabit_ethernet(),
        verify_run: Some(1),
        seed: 1,
    }
}

fn run(config: &WorldConfig, duration: Duration) -> Snapshot {
    let mut world = World::new(config).expect("the configuration is valid");
    world.log_in().expect("every VM logs in");
    world.begin();
    world
        .run_for(duration)
        .expect("no request fails and every block read is intact");
    world.log_out().expect("every VM logs out");
    world.counters()
}

#[test]
fn every_block_read_is_intact_under_every_kind_of_data_transfer() {
    let open_iscsi = LoginKeys::default();
    let everything_solicited = LoginKeys {
        initial_r2t: true,
        immediate_data: false,
        ..LoginKeys::default()
    };
    let small_bursts = LoginKeys {
        max_recv_data_segment_length: 8192,
        max_burst_length: 16_384,
        first_burst_length: 4096,
        max_outstanding_r2t: 4,
        ..LoginKeys::default()
    };
    let digests = LoginKeys {
        header_digest: true,
        data_digest: true,
        ..LoginKeys::default()
    };
    for keys in [open_iscsi, everything_solicited, small_bursts, digests] {
        let counters = run(&config(4, keys), Duration::from_secs(2));
        assert!(counters["vms"]["reads"] > 100.0, "{keys:?}");
        assert_eq!(counters["vms"]["errors"], 0.0, "{keys:?}");
    }
}

/// Shares one session of each of two hosts among the VMs, which use two LUs, with limits that make
/// most commands wait.
fn shared(vms: u64) -> WorldConfig {
    let mut config = config(vms, LoginKeys::default());
    let lu = config.lus[0];
    config.lus.push(LuSetup { lun: 1, ..lu });
    for (i, vm) in config.vms.iter_mut().enumerate() {
        let Destination::Iscsi {
            lun,
            initiator_name,
            ..
        } = &mut vm.destination
        else {
            unreachable!()
        };
        *lun = (i % 2) as u8;
        *initiator_name = format!("iqn.2026-01.example.hakaru:host{}", i / 2 % 2);
    }
    config.commands = CommandLimits {
        guest_queue: Some(GuestQueue {
            ring_descriptors: 64,
            segments_max: 62,
            indirect: false,
            in_flight_max: Some(4),
        }),
        share_sessions: true,
        lu_outstanding_max: 3,
        session_outstanding_max: 5,
        ..CommandLimits::default()
    };
    config
}

#[test]
fn vms_that_share_a_session_read_the_blocks_that_they_wrote() {
    let counters = run(&shared(8), Duration::from_secs(2));
    assert_eq!(counters["sessions"]["logins"], 2.0);
    assert_eq!(counters["vms"]["errors"], 0.0);
    for vm in 0..8 {
        let of_vm = &counters[&format!("vm/vm{vm}")];
        assert!(of_vm["reads"] > 20.0 && of_vm["writes"] > 20.0, "{vm}");
        assert!(of_vm["guest_queued_ns"] > 0.0 && of_vm["host_queued_ns"] > 0.0);
    }
}

/// First come, first served: VMs with equal loads receive equal shares, although two of the LU's VMs
/// share the session of one host and the other two that of another.
#[test]
fn equal_vms_that_share_sessions_receive_equal_shares() {
    let mut config = shared(8);
    for vm in &mut config.vms {
        vm.pattern.sizes = vec![SizeWeight {
            bytes: 16 << 10,
            weight: 1,
        }];
    }
    let counters = run(&config, Duration::from_secs(2));
    let rates: Vec<f64> = (0..8)
        .map(|vm| counters[&format!("vm/vm{vm}")]["commands"])
        .collect();
    let mean = rates.iter().sum::<f64>() / 8.0;
    for rate in &rates {
        assert!((rate / mean - 1.0).abs() < 0.03, "{rates:?}");
    }
}

#[test]
fn the_counters_of_the_vms_equal_those_of_the_lu() {
    let counters = run(&config(8, LoginKeys::default()), Duration::from_secs(1));
    for name in ["reads", "writes", "read_bytes", "write_bytes"] {
        assert_eq!(counters["vms"][name], counters["lu/0"][name], "{name}");
    }
    assert_eq!(counters["vms"]["in_flight_now"], 0.0);
    assert_eq!(
        (
            counters["sessions"]["logins"],
            counters["sessions"]["logouts"]
        ),
        (8.0, 8.0)
    );
    assert_eq!(counters["sessions"]["protocol_errors"], 0.0);
}

#[test]
fn every_request_is_in_the_latency_histograms_once() {
    let mut world =
        World::new(&config(2, LoginKeys::default())).expect("the configuration is valid");
    world.log_in().expect("every VM logs in");
    world.begin();
    world
        .run_for(Duration::from_secs(1))
        .expect("no request fails");
    let counters = world.counters();
    let (reads, sum_ns) = world
        .latencies()
        .read
        .take_interval(true, |h| (h.count() as f64, h.mean_ns() * h.count() as f64));
    assert_eq!(reads, counters["vms"]["reads"]);
    let counted_ns = counters["vms"]["read_latency_ns_sum"];
    assert!(
        (sum_ns / counted_ns - 1.0).abs() < 0.001,
        "the histogram has three significant digits: {sum_ns} {counted_ns}"
    );
}

#[test]
fn bytes_on_the_wire_equal_bytes_received_by_the_port() {
    let counters = run(&config(3, LoginKeys::default()), Duration::from_secs(1));
    assert_eq!(counters["link/up"]["bytes"], counters["port/0"]["rx_bytes"]);
    assert_eq!(
        counters["link/down"]["bytes"],
        counters["port/0"]["tx_bytes"]
    );
}

#[test]
fn time_in_the_array_is_part_of_the_vms_latency() {
    let mut config = config(2, LoginKeys::default());
    config.model = hakaru_drive::resolve(&Model::Preset {
        name: "jdsf-2011".to_owned(),
    })
    .expect("a preset is valid");
    let counters = run(&config, Duration::from_secs(2));
    let in_array: f64 = ["controller", "port/0", "cache"]
        .iter()
        .map(|entity| counters[*entity]["queue_ns"])
        .sum();
    let latency_ns =
        counters["vms"]["read_latency_ns_sum"] + counters["vms"]["write_latency_ns_sum"];
    assert!(in_array < latency_ns, "{in_array} {latency_ns}");
    assert!(in_array > 0.5 * latency_ns, "{in_array} {latency_ns}");
}

#[test]
fn a_thousand_vms_log_in_work_and_log_out() {
    let mut config = config(1000, LoginKeys::default());
    config.lus[0].size_bytes = 8 * GIB;
    for vm in &mut config.vms {
        vm.load = Load::Closed { queue_depth: 1 };
        vm.pattern.sizes = vec![SizeWeight {
            bytes: 4096,
            weight: 1,
        }];
    }
    let counters = run(&config, Duration::from_millis(500));
    assert_eq!(counters["sessions"]["logins"], 1000.0);
    assert!(counters["vms"]["reads"] > 1000.0);
}

#[test]
fn an_lu_beyond_its_group_is_refused() {
    let mut config = config(1, LoginKeys::default());
    config.model = hakaru_drive::resolve(&Model::Preset {
        name: "jdsf-2011".to_owned(),
    })
    .expect("a preset is valid");
    config.lus[0].group_offset_bytes = 600 * GIB;
    assert!(matches!(
        World::new(&config),
        Err(WorldError::Misplaced { lun: 0, group: 0 })
    ));
}

#[test]
fn a_vm_with_an_unknown_target_fails_by_name() {
    let mut config = config(2, LoginKeys::default());
    if let Destination::Iscsi { target_name, .. } = &mut config.vms[1].destination {
        *target_name = "iqn.2026-01.example.hakaru:nowhere".to_owned();
    }
    let mut world = World::new(&config).expect("the configuration is valid");
    assert!(matches!(world.log_in(), Err(WorldError::Vm { name, .. }) if name == "vm1"));
}
