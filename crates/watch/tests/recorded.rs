//! Tests of the parsers with files recorded on a machine (`tests/proc`), and with damaged files.
use std::collections::BTreeMap;

use hakaru_watch::{Visit, cpu, disk, interrupts, memory, net, tcp};

type Counters = BTreeMap<(String, String), f64>;

fn collect(parse: impl FnOnce(&mut Visit<'_>)) -> Counters {
    let mut counters = Counters::new();
    parse(&mut |entity, name, value| {
        let before = counters.insert((entity.to_owned(), name.to_owned()), value);
        assert_eq!(before, None, "{entity} {name} is reported once");
    });
    counters
}

fn get(counters: &Counters, entity: &str, name: &str) -> f64 {
    counters[&(entity.to_owned(), name.to_owned())]
}

#[test]
fn interfaces_give_bytes_packets_drops_and_errors() {
    let text = "Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 6103761110  608205    1    2    0     0          0         0 6103761110  608205    3    4    0     0       0          0
eth0:1:583150425   15595    0    0    0     0          0         0   923629    9669    0    0    0     0       0          0
";
    let counters = collect(|visit| net::parse_net_dev(text, visit));
    assert_eq!(counters.len(), 16);
    assert_eq!(get(&counters, "nic/lo", "rx_bytes"), 6_103_761_110.0);
    assert_eq!(get(&counters, "nic/lo", "rx_errors"), 1.0);
    assert_eq!(get(&counters, "nic/lo", "rx_dropped"), 2.0);
    assert_eq!(get(&counters, "nic/lo", "tx_errors"), 3.0);
    assert_eq!(get(&counters, "nic/lo", "tx_dropped"), 4.0);
    assert_eq!(get(&counters, "nic/eth0:1", "tx_packets"), 9669.0);
}

#[test]
fn tcp_is_read_by_name_from_both_files() {
    let counters = collect(|visit| {
        tcp::parse_snmp(include_str!("proc/net_snmp"), visit);
        tcp::parse_snmp(include_str!("proc/net_netstat"), visit);
    });
    let expected = [
        ("delivered_ce", 42.0),
        ("fast_retransmits", 21_392.0),
        ("loss_probes", 1270.0),
        ("out_of_order", 20_463.0),
        ("retransmits", 20_256.0),
        ("segments_out", 93_545_032.0),
        ("slow_start_retransmits", 9.0),
        ("spurious_timeouts", 11.0),
        ("timeouts", 3.0),
    ];
    let values: Vec<(&str, f64)> = counters
        .iter()
        .map(|((entity, name), value)| {
            assert_eq!(entity, "tcp");
            (name.as_str(), *value)
        })
        .collect();
    assert_eq!(values, expected);
}

#[test]
fn tcp_counters_that_an_old_kernel_lacks_are_not_reported() {
    // Linux 2.6.32 has neither loss probes nor a count of congestion marks, and another order of
    // fields.
    let text = "Ip: Forwarding DefaultTTL
Ip: 2 64
Tcp: RtoAlgorithm MaxConn OutSegs RetransSegs
Tcp: 1 -1 1000 7
TcpExt: TCPTimeouts TCPFastRetrans
TcpExt: 3 4
";
    let counters = collect(|visit| tcp::parse_snmp(text, visit));
    let names: Vec<&str> = counters.keys().map(|(_, name)| name.as_str()).collect();
    assert_eq!(
        names,
        [
            "fast_retransmits",
            "retransmits",
            "segments_out",
            "timeouts"
        ]
    );
    assert_eq!(get(&counters, "tcp", "segments_out"), 1000.0);
}

#[test]
fn tcp_lines_that_do_not_match_each_other_are_skipped() {
    for text in [
        "Tcp: OutSegs RetransSegs\nTcp: 1\n",
        "Tcp: OutSegs\nUdp: 1\n",
        "Tcp: OutSegs\n",
        "Tcp: OutSegs\nTcp: -1\n",
        "Tcp: OutSegs\nTcp: 99999999999999999999\n",
        "TcpExt: OutSegs\nTcpExt: 5\n",
        "OutSegs\n5\n",
    ] {
        let counters = collect(|visit| tcp::parse_snmp(text, visit));
        assert!(counters.is_empty(), "{text:?}: {counters:?}");
    }
}

#[test]
fn cpu_time_is_nanoseconds_and_the_machine_is_the_sum_of_its_cpus() {
    let counters = collect(|visit| cpu::parse_stat(include_str!("proc/stat"), 100, visit));
    assert_eq!(counters.len(), 3 * 7);
    for name in [
        "user_ns",
        "system_ns",
        "idle_ns",
        "iowait_ns",
        "softirq_ns",
        "steal_ns",
    ] {
        let parts = get(&counters, "cpu/0", name) + get(&counters, "cpu/1", name);
        let whole = get(&counters, "machine", name);
        // Each line of the file is rounded down to ticks separately.
        assert!((whole - parts).abs() <= 3e7, "{name}: {whole} {parts}");
    }
    let text = "cpu  1 2 3 4 5 6 7 8 0 0\nintr 5\n";
    let counters = collect(|visit| cpu::parse_stat(text, 100, visit));
    assert_eq!(get(&counters, "machine", "user_ns"), 3e7);
    assert_eq!(get(&counters, "machine", "steal_ns"), 8e7);
}

#[test]
fn interrupts_are_named_by_their_action_and_silent_ones_are_not_reported() {
    let counters =
        collect(|visit| interrupts::parse_interrupts(include_str!("proc/interrupts"), visit));
    assert!(get(&counters, "irq/virtio3-rx", "count") > 0.0);
    assert!(get(&counters, "irq/LOC", "count") > 0.0);
    assert!(counters.values().all(|count| *count > 0.0));
    assert!(!counters.contains_key(&("irq/SPU".into(), "count".into())));
    assert!(
        counters
            .keys()
            .all(|(entity, _)| !entity["irq/".len()..].bytes().all(|b| b.is_ascii_digit()))
    );
}

#[test]
fn interrupts_of_one_name_are_summed_and_shared_lines_keep_all_names() {
    let text = "            CPU0       CPU1
  1:          9          1   IO-APIC   1-edge      i8042
 16:          4          0   IO-APIC  16-fasteoi   ehci_hcd:usb1, nvme0q0
 30:          1          2  GICv3  27 Level     eth0
 31:          3          4  GICv3  28 Level     eth0
 32:          5          0   dummy   44
ERR:          7
";
    let counters = collect(|visit| interrupts::parse_interrupts(text, visit));
    assert_eq!(get(&counters, "irq/i8042", "count"), 10.0);
    assert_eq!(get(&counters, "irq/ehci_hcd:usb1, nvme0q0", "count"), 4.0);
    assert_eq!(get(&counters, "irq/eth0", "count"), 10.0);
    assert_eq!(get(&counters, "irq/32", "count"), 5.0);
    assert_eq!(get(&counters, "irq/ERR", "count"), 7.0);
}

#[test]
fn soft_interrupts_memory_and_pressure_are_read_from_recorded_files() {
    let counters =
        collect(|visit| interrupts::parse_softirqs(include_str!("proc/softirqs"), visit));
    assert!(get(&counters, "softirq/NET_RX", "count") > 0.0);
    assert!(!counters.contains_key(&("softirq/HI".into(), "count".into())));
    let counters = collect(|visit| memory::parse_meminfo(include_str!("proc/meminfo"), visit));
    let expected = [
        ("mem_total_bytes_now", 24_684_092.0),
        ("mem_available_bytes_now", 24_074_172.0),
        ("mem_free_bytes_now", 21_053_384.0),
        ("mem_cached_bytes_now", 3_075_796.0),
    ];
    for (name, kib) in expected {
        assert_eq!(get(&counters, "machine", name), kib * 1024.0, "{name}");
    }
    // Dirty and Writeback too, but not WritebackTmp, SwapCached and the like.
    assert_eq!(counters.len(), 6);
    let text = "some avg10=71.48 avg60=75.38 avg300=51.56 total=331988062\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=9\n";
    let counters = collect(|visit| memory::parse_pressure("cpu", text, visit));
    assert_eq!(get(&counters, "machine", "pressure_cpu_ns"), 331_988_062e3);
    assert_eq!(counters.len(), 1);
}

#[test]
fn disks_give_requests_times_and_queue_and_unused_ones_are_not_reported() {
    let counters = collect(|visit| disk::parse_diskstats(include_str!("proc/diskstats"), visit));
    // 36 discards were sent to a virtual disk of 96 MiB, and 137 flushes.
    let expected = [
        ("reads", 1157.0),
        ("read_bytes", 161_404.0 * 512.0),
        ("read_latency_ns_sum", 31_431e6),
        ("writes", 2197.0),
        ("write_bytes", 476_296.0 * 512.0),
        ("write_latency_ns_sum", 2_559_774e6),
        ("requests_now", 0.0),
        ("busy_ns", 82_800e6),
        ("queue_ns", 2_598_914e6),
        ("discards", 36.0),
        ("discard_bytes", 518_862.0 * 512.0),
        ("discard_latency_ns_sum", 423e6),
        ("flushes", 137.0),
        ("flush_latency_ns_sum", 7285e6),
    ];
    for (name, value) in expected {
        assert_eq!(get(&counters, "disk/nbd0", name), value, "{name}");
    }
    let of_all: Vec<&str> = counters.keys().map(|(entity, _)| entity.as_str()).collect();
    assert!(of_all.contains(&"disk/vda") && !of_all.contains(&"disk/loop0"));
}

#[test]
fn disks_of_an_old_kernel_have_no_discards_and_short_lines_are_skipped() {
    let text =
        " 8 0 sda 1 2 3 4 5 6 7 8 9 10 11\n 8 1 sda1 1 2 3 4\n 8 2 sda2 x 2 3 4 5 6 7 8 9 10 11\n";
    let counters = collect(|visit| disk::parse_diskstats(text, visit));
    assert_eq!(counters.len(), 9);
    assert_eq!(get(&counters, "disk/sda", "queue_ns"), 11e6);
}

/// Truncates every file at every byte and damages bytes of it. No parser may panic.
#[test]
fn files_truncated_or_damaged_anywhere_cause_no_panic() {
    let files = [
        include_str!("proc/stat"),
        include_str!("proc/net_dev"),
        include_str!("proc/interrupts"),
        include_str!("proc/softirqs"),
        include_str!("proc/meminfo"),
        include_str!("proc/diskstats"),
        include_str!("proc/pressure_io"),
        include_str!("proc/net_snmp"),
        include_str!("proc/net_netstat"),
    ];
    let parse_all = |text: &str| {
        let mut ignore = |_: &str, _: &str, value: f64| assert!(value.is_finite());
        cpu::parse_stat(text, 0, &mut ignore);
        net::parse_net_dev(text, &mut ignore);
        interrupts::parse_interrupts(text, &mut ignore);
        interrupts::parse_softirqs(text, &mut ignore);
        memory::parse_meminfo(text, &mut ignore);
        disk::parse_diskstats(text, &mut ignore);
        memory::parse_pressure("io", text, &mut ignore);
        tcp::parse_snmp(text, &mut ignore);
    };
    for file in files {
        for at in 0..file.len() {
            parse_all(&file[..at]);
            for damage in [":", " ", "\n", "-", "99999999999999999999"] {
                if at % 7 == 0 {
                    parse_all(&format!("{}{damage}{}", &file[..at], &file[at + 1..]));
                }
            }
        }
    }
}
