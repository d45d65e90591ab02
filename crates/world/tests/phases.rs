//! Calibration of the phases of a command. Over a wire of known delay and rate each phase must have
//! its computed length, and the sum of the phases must equal the latency.
use std::time::Duration;

use hakaru_contract::LoginKeys;
use hakaru_contract::initiator::{Destination, Load, Pattern, Region, SizeWeight, Vm};
use hakaru_iscsi_target::Limits;
use hakaru_load::CommandLimits;
use hakaru_units::MIB;
use hakaru_world::{LuSetup, Snapshot, Wire, World, WorldConfig};

const TARGET: &str = "iqn.2026-01.example.hakaru:array";
/// One-way delay; a round trip takes 20 ms.
const DELAY: Duration = Duration::from_millis(10);
const RATE: f64 = 125e6;
/// Longest segment of a sender, bytes.
const SEGMENT: u64 = 16 << 10;
const HEADER: u64 = 48;
/// Tolerance for rounding, nanoseconds.
const ROUNDING: u64 = 50;

fn config(read_percent: u8, bytes: u32, depth: u32) -> WorldConfig {
    let vm = Vm {
        name: "vm1".to_owned(),
        destination: Destination::Iscsi {
            portal: "10.0.0.1:3260".to_owned(),
            target_name: TARGET.to_owned(),
            lun: 0,
            initiator_name: "iqn.2026-01.example.hakaru:vm1".to_owned(),
            other_portals: Vec::new(),
        },
        region: Region {
            offset_bytes: 0,
            length_bytes: 64 * MIB,
        },
        pattern: Pattern {
            sizes: vec![SizeWeight { bytes, weight: 1 }],
            read_percent,
            random_percent: 0,
            align_bytes: None,
        },
        load: Load::Closed { queue_depth: depth },
        seed: 7,
        group: None,
    };
    WorldConfig {
        target_name: TARGET.to_owned(),
        lus: vec![LuSetup {
            lun: 0,
            size_bytes: 64 * MIB,
            block_bytes: 512,
            group: 0,
            group_offset_bytes: 0,
        }],
        model: None,
        vms: vec![vm],
        keys: LoginKeys::default(),
        commands: CommandLimits::default(),
        limits: Limits::default(),
        timeout: Duration::from_secs(30),
        wire: Wire {
            rate_bytes_per_s: RATE,
            delay: DELAY,
            segment_bytes: SEGMENT as usize,
        },
        verify_run: Some(1),
        seed: 1,
    }
}

/// Returns the counters of a load that ran for `seconds` and ended.
fn run(config: &WorldConfig, seconds: u64) -> Snapshot {
    let mut world = World::new(config).expect("the configuration is valid");
    world.log_in().expect("the VM logs in");
    world.begin();
    world
        .run_for(Duration::from_secs(seconds))
        .expect("no request fails");
    world.log_out().expect("the VM logs out");
    world.counters()
}

fn counter(counters: &Snapshot, name: &str) -> u64 {
    counters["vms"][name] as u64
}

/// Returns the time that `bytes` take on the wire, nanoseconds.
fn wire_ns(bytes: u64) -> u64 {
    (bytes as f64 * 1e9 / RATE) as u64
}

const RTT_NS: u64 = 2 * DELAY.as_nanos() as u64;

/// Checks that each counter divided by the number of commands has the expected value, nanoseconds.
fn assert_per_command(counters: &Snapshot, expected: &[(&str, u64)]) {
    let commands = counter(counters, "commands");
    assert!(commands > 5);
    for (name, ns) in expected {
        let measured_ns = counter(counters, name) / commands;
        // A line of the table that `make calibrate` prints.
        println!("calibration: {measured_ns} {ns} {ROUNDING}");
        assert!(
            measured_ns.abs_diff(*ns) <= ROUNDING,
            "{name}: {measured_ns} ns, not {ns}"
        );
    }
}

/// Returns the sum of all phases of reads and writes, and of the commands' times before they were
/// sent.
fn phases_ns(counters: &Snapshot) -> u64 {
    let names = [
        "command_wait_ns_sum",
        "wait_r2t_ns_sum",
        "r2t_to_data_ns_sum",
        "write_data_transfer_ns_sum",
        "write_data_to_response_ns_sum",
        "command_to_data_ns_sum",
        "read_data_transfer_ns_sum",
        "read_data_to_response_ns_sum",
    ];
    names.iter().map(|name| counter(counters, name)).sum()
}

fn latency_ns(counters: &Snapshot) -> u64 {
    counter(counters, "read_latency_ns_sum") + counter(counters, "write_latency_ns_sum")
}

/// Returns the limits of a target with the defaults of iSCSI Enterprise Target: every burst of
/// 256 KiB requires its own R2T.
fn r2t_for_every_burst() -> Limits {
    Limits {
        keys: LoginKeys {
            initial_r2t: true,
            immediate_data: false,
            max_burst_length: 256 << 10,
            max_outstanding_r2t: 1,
            ..LoginKeys::of_array()
        },
        ..Limits::default()
    }
}

#[test]
fn write_waits_a_round_trip_for_each_r2t_and_one_for_the_response() {
    let config = WorldConfig {
        limits: r2t_for_every_burst(),
        ..config(0, 512 << 10, 1)
    };
    let counters = run(&config, 2);
    let exchange = RTT_NS + 2 * wire_ns(HEADER);
    assert_eq!(
        counter(&counters, "r2ts"),
        2 * counter(&counters, "commands")
    );
    assert_per_command(
        &counters,
        &[
            ("command_wait_ns_sum", 0),
            ("wait_r2t_ns_sum", 2 * exchange),
            ("r2t_to_data_ns_sum", 0),
            // The last segment of a burst, its final 48 bytes, counts as sent when its transmission
            // starts.
            ("write_data_transfer_ns_sum", 2 * wire_ns(256 << 10)),
            ("write_data_to_response_ns_sum", exchange),
        ],
    );
    assert_eq!(phases_ns(&counters), latency_ns(&counters));
}

#[test]
fn write_without_r2t_waits_only_for_its_response() {
    let config = config(0, 64 << 10, 1);
    let counters = run(&config, 1);
    let exchange = RTT_NS + 2 * wire_ns(HEADER);
    assert_eq!(counter(&counters, "r2ts"), 0);
    assert_per_command(
        &counters,
        &[
            ("wait_r2t_ns_sum", 0),
            ("r2t_to_data_ns_sum", 0),
            ("write_data_transfer_ns_sum", wire_ns(64 << 10)),
            ("write_data_to_response_ns_sum", exchange),
        ],
    );
    assert_eq!(phases_ns(&counters), latency_ns(&counters));
}

#[test]
fn read_waits_a_round_trip_and_then_for_the_rest_of_its_data() {
    let counters = run(&config(100, 512 << 10, 1), 1);
    let parallel = (512 << 10) + 2 * HEADER;
    assert_per_command(
        &counters,
        &[
            ("command_wait_ns_sum", 0),
            (
                "command_to_data_ns_sum",
                RTT_NS + wire_ns(HEADER) + wire_ns(SEGMENT),
            ),
            ("read_data_transfer_ns_sum", wire_ns(parallel - SEGMENT)),
            // The status arrives with the last data.
            ("read_data_to_response_ns_sum", 0),
            ("wait_r2t_ns_sum", 0),
        ],
    );
    assert_eq!(phases_ns(&counters), latency_ns(&counters));
}

/// No time may be lost or counted twice with reads and writes of all sizes, many requests in
/// flight, several R2Ts outstanding, unsolicited and immediate data, and digests.
#[test]
fn phases_add_up_to_the_latency_under_every_negotiation() {
    for (initial_r2t, immediate_data, outstanding, segment) in [
        (false, true, 1, 8 << 10),
        (true, true, 4, 64 << 10),
        (false, false, 8, 512),
        (true, false, 2, 256 << 10),
    ] {
        let mut config = WorldConfig {
            limits: Limits {
                keys: LoginKeys {
                    initial_r2t,
                    immediate_data,
                    max_recv_data_segment_length: segment,
                    max_burst_length: 128 << 10,
                    ..LoginKeys::of_array()
                },
                ..Limits::default()
            },
            keys: LoginKeys {
                max_outstanding_r2t: outstanding,
                data_digest: initial_r2t,
                ..LoginKeys::default()
            },
            ..config(50, 4096, 8)
        };
        let pattern = &mut config.vms[0].pattern;
        pattern.random_percent = 80;
        pattern.sizes = [512, 4 << 10, 60 << 10, 1 << 20]
            .map(|bytes| SizeWeight { bytes, weight: 1 })
            .to_vec();
        let counters = run(&config, 3);
        assert!(counter(&counters, "commands") > 300);
        assert!(counter(&counters, "r2ts") > 0);
        assert_eq!(phases_ns(&counters), latency_ns(&counters));
    }
}

#[test]
fn blocks_split_into_serial_commands_take_the_sum_of_their_times() {
    let limits = r2t_for_every_burst();
    let unsplit = WorldConfig {
        limits: limits.clone(),
        ..config(0, 512 << 10, 1)
    };
    let serial = run(&unsplit, 1);
    let unsplit_ns = latency_ns(&serial) / counter(&serial, "writes");
    let split = WorldConfig {
        limits,
        commands: CommandLimits {
            bytes_max: Some(512 << 10),
            lu_outstanding_max: 1,
            ..CommandLimits::default()
        },
        ..config(0, 4 << 20, 1)
    };
    let counters = run(&split, 4);
    let writes = counter(&counters, "writes");
    assert!(writes > 3);
    assert_eq!(counter(&counters, "commands"), 8 * writes);
    let block = latency_ns(&counters) / writes;
    assert!(
        block.abs_diff(8 * unsplit_ns) <= 8 * ROUNDING,
        "{block} ns, not 8 times {unsplit_ns}"
    );
}

/// With all eight commands of a block outstanding at once, their waits overlap and the wire limits
/// the rate.
#[test]
fn commands_of_a_block_overlap_if_several_may_be_outstanding() {
    let split = |outstanding_max| WorldConfig {
        limits: r2t_for_every_burst(),
        commands: CommandLimits {
            bytes_max: Some(512 << 10),
            lu_outstanding_max: outstanding_max,
            ..CommandLimits::default()
        },
        ..config(0, 4 << 20, 1)
    };
    let (serial, parallel) = (run(&split(1), 4), run(&split(8), 4));
    let mean = |counters: &Snapshot| latency_ns(counters) / counter(counters, "writes");
    // Three round trips and the block's own 33.6 ms, of which all but the last 4 MiB of transfer
    // can overlap.
    assert!(
        mean(&parallel) < 3 * RTT_NS + wire_ns(4 << 20) + RTT_NS / 10,
        "{}",
        mean(&parallel)
    );
    assert!(mean(&serial) > 8 * 3 * RTT_NS, "{}", mean(&serial));
}

/// A request is stamped and checked as a unit, regardless of how it is split into commands.
#[test]
fn verification_holds_for_requests_that_are_split() {
    let mut config = WorldConfig {
        commands: CommandLimits {
            bytes_max: Some(4096),
            lu_outstanding_max: 3,
            ..CommandLimits::default()
        },
        ..config(50, 64 << 10, 4)
    };
    config.vms[0].region.length_bytes = 2 * MIB;
    config.vms[0].pattern.random_percent = 60;
    config.wire.delay = Duration::from_micros(50);
    let counters = run(&config, 2);
    assert!(counter(&counters, "reads") > 500);
    assert_eq!(
        counter(&counters, "commands"),
        16 * (counter(&counters, "reads") + counter(&counters, "writes"))
    );
    assert_eq!(counter(&counters, "errors"), 0);
}
