//! Switches: forwarding, full buffers, pauses.
use std::time::Duration;

use crate::net::*;
use hakaru_contract::fabric::{
    Discipline, End, FabricConfig, Forwarding, Jitter, LinkConfig, Queue, SharedBuffer,
};
use hakaru_fabric::{Fabric, Packet};
use hakaru_units::Time;
use proptest::prelude::*;

/// Returns hosts `1`, `2`, … on one switch. The link of the last one has `slow` bits per second,
/// and a queue of `bytes` from the switch. The other links have 10 Gbit/s.
fn star(hosts: u8, slow: u64, bytes: u64) -> FabricConfig {
    let fast = rate(10 * GIGABIT);
    let mut links: Vec<LinkConfig> = (1..hosts)
        .map(|n| host(&n.to_string(), "s", fast.clone(), fast.clone()))
        .collect();
    let mut down = rate(slow);
    down.queue = queue(bytes);
    links.push(host(&hosts.to_string(), "s", rate(slow), down));
    FabricConfig {
        switches: vec![switch("s")],
        links,
        seed: 3,
    }
}

/// Sends a frame from every host, so that the switch learns its port.
fn introduce(fabric: &mut Fabric, hosts: u8) {
    for n in 1..=hosts {
        fabric.handle_frame(Time::ZERO, usize::from(n) - 1, frame(n, 255, 64));
        run(fabric, hosts.into());
    }
}

#[test]
fn a_switch_floods_until_it_has_learnt_the_port() {
    let mut fabric = Fabric::new(&star(3, GIGABIT, 512 << 10)).unwrap();
    fabric.handle_frame(Time::ZERO, 0, frame(1, 2, 64));
    let to: Vec<usize> = run(&mut fabric, 3)
        .iter()
        .map(|(_, port, _)| *port)
        .collect();
    assert_eq!(to, [1, 2], "not to the ingress port");
    fabric.handle_frame(Time(1 << 30), 1, frame(2, 1, 64));
    let to: Vec<usize> = run(&mut fabric, 3)
        .iter()
        .map(|(_, port, _)| *port)
        .collect();
    assert_eq!(to, [0]);
    // An address ages out after 300 s without a frame.
    fabric.handle_frame(Time(400_000_000_000), 0, frame(1, 2, 64));
    assert_eq!(run(&mut fabric, 3).len(), 2);
}

#[test]
fn a_link_that_is_down_loses_frames_in_both_directions_until_it_is_up() {
    let mut fabric = Fabric::new(&star(2, GIGABIT, 512 << 10)).unwrap();
    introduce(&mut fabric, 2);
    let send = |fabric: &mut Fabric, at: u64| {
        fabric.handle_frame(Time(at << 20), 0, frame(1, 2, 64));
        fabric.handle_frame(Time(at << 20), 1, frame(2, 1, 64));
        run(fabric, 2).len()
    };
    assert_eq!(send(&mut fabric, 1), 2);
    assert!(!fabric.set_link("3", false), "there is no such link");
    assert!(fabric.set_link("2", false));
    assert_eq!(send(&mut fabric, 2), 0);
    for direction in ["2/a-b", "2/b-a"] {
        assert_eq!(counters(&mut fabric, direction).drops.down, 1);
    }
    // The other link carried the frame to the switch.
    assert_eq!(counters(&mut fabric, "1/a-b").drops.all(), 0);
    assert!(fabric.set_link("2", true));
    assert_eq!(send(&mut fabric, 3), 2);
    assert_conserved(&mut fabric);
}

#[test]
fn a_super_frame_loses_only_the_frames_that_find_no_room() {
    // The queue has room for ten frames. While 44 arrive at 10 Gbit/s, a tenth of them leaves at 1
    // Gbit/s.
    let mut fabric = Fabric::new(&star(2, GIGABIT, 10 * 1518 + 100)).unwrap();
    introduce(&mut fabric, 2);
    fabric.handle_frame(Time(1 << 20), 0, tcp(1, 2, 44 * SEGMENT_BYTES));
    let seen = run(&mut fabric, 2);
    let arrived: usize = seen.iter().map(|(_, _, out)| frames_of(out)).sum();
    let down = counters(&mut fabric, "2/b-a");
    assert_eq!(arrived as u64 + down.drops.buffer, 44);
    assert!(
        (13..=16).contains(&arrived),
        "{arrived} frames arrived; expected are ten, and one in ten of the others"
    );
    // The sequence number of each piece matches its part of the stream.
    let mut sequences = Vec::new();
    for (_, _, out) in &seen {
        let bytes = bytes_of(out);
        sequences
            .push(u32::from_be_bytes(bytes[38..42].try_into().unwrap()) as usize / SEGMENT_BYTES);
    }
    assert!(sequences.is_sorted() && sequences[0] == 0, "{sequences:?}");
    assert_conserved(&mut fabric);
}

#[test]
fn two_links_of_one_rate_need_no_buffer_between_them() {
    // The queues have room for three frames. On a wire each frame has left before the second one
    // after it arrives.
    let ten = rate(10 * GIGABIT);
    let mut short = ten.clone();
    short.queue = queue(3 * 1518 + 100);
    let mut config = star(2, 10 * GIGABIT, 3 * 1518 + 100);
    config.switches.push(switch("t"));
    config.links[1].b = End::Switch {
        name: "t".into(),
        vlan: Some(1),
        allowed: None,
    };
    let between = |name: &str| End::Switch {
        name: name.into(),
        vlan: Some(1),
        allowed: None,
    };
    config.links.push(LinkConfig {
        a: between("s"),
        b: between("t"),
        ..host("trunk", "t", short.clone(), short)
    });
    let mut fabric = Fabric::new(&config).unwrap();
    introduce(&mut fabric, 2);
    for n in 0..100 {
        fabric.handle_frame(Time((1 << 20) + n), 0, tcp(1, 2, 44 * SEGMENT_BYTES));
    }
    let arrived: usize = run(&mut fabric, 2)
        .iter()
        .map(|seen| frames_of(&seen.2))
        .sum();
    assert_eq!(arrived, 4400);
    assert_conserved(&mut fabric);
}

#[test]
fn cut_through_saves_the_time_that_a_frame_takes_to_arrive() {
    let mut took = [Forwarding::StoreAndForward, Forwarding::CutThrough].map(|forwarding| {
        let mut config = star(3, 10 * GIGABIT, 512 << 10);
        config.switches[0].forwarding = forwarding;
        let mut fabric = Fabric::new(&config).unwrap();
        introduce(&mut fabric, 3);
        let sent = Time(1 << 30);
        fabric.handle_frame(sent, 0, frame(1, 2, 1518));
        run(&mut fabric, 3)[0].0.ns_since(sent)
    });
    took.reverse();
    // Cut-through need not wait for 1454 bytes at 10 Gbit/s. Each hop rounds by 1 ns.
    assert!(
        took[1].abs_diff(took[0]).abs_diff(1454 * 8 / 10) <= 18,
        "{took:?}"
    );
    // A faster port starts only after the whole frame has arrived.
    let mut config = star(3, GIGABIT, 512 << 10);
    config.switches[0].forwarding = Forwarding::CutThrough;
    let mut fabric = Fabric::new(&config).unwrap();
    introduce(&mut fabric, 3);
    fabric.handle_frame(Time(1 << 30), 2, frame(3, 1, 1518));
    let took = run(&mut fabric, 3)[0].0.ns_since(Time(1 << 30));
    assert!(took >= 1518 * 8 + 1518 * 8 / 10, "{took} ns");
}

#[test]
fn jitter_before_a_cut_through_switch_delays_every_frame() {
    let mut config = star(3, 10 * GIGABIT, 512 << 10);
    config.switches[0].forwarding = Forwarding::CutThrough;
    config.links[0].a_to_b.jitter = Jitter::Uniform { max_us: 100.0 };
    let mut fabric = Fabric::new(&config).unwrap();
    introduce(&mut fabric, 3);
    let (frames, mut sum_us) = (2000, 0.0);
    for n in 0..frames {
        let sent = Time((1 << 30) + n * 10_000_000);
        fabric.handle_frame(sent, 0, frame(1, 2, 1518));
        sum_us += run(&mut fabric, 3)[0].0.ns_since(sent) as f64 / 1e3;
    }
    // Two transmissions take 1.2 µs each.
    let mean_us = sum_us / frames as f64;
    assert!((mean_us - 52.4).abs() < 3.0, "{mean_us} µs");
}

#[test]
fn with_pause_nothing_is_dropped_and_the_slow_port_never_idles() {
    for pause in [false, true] {
        let mut config = star(3, GIGABIT, 128 << 10);
        config
            .links
            .iter_mut()
            .for_each(|link| link.a_to_b.pause = pause);
        let mut fabric = Fabric::new(&config).unwrap();
        introduce(&mut fabric, 3);
        for n in 0..200_u64 {
            fabric.handle_frame(
                Time((1 << 20) + n),
                n as usize % 2,
                tcp(1 + (n % 2) as u8, 3, 44 * SEGMENT_BYTES),
            );
        }
        run(&mut fabric, 3);
        let down = counters(&mut fabric, "3/b-a");
        if pause {
            assert_eq!((down.drops.buffer, down.frames_out), (0, 200 * 44 + 2));
            assert!(counters(&mut fabric, "1/a-b").pauses > 10);
            let exact_ns = 200 * 44 * (1518 + 20) * 8;
            assert!(down.busy_ns.abs_diff(exact_ns) < 20_000);
        } else {
            assert!(down.drops.buffer > 5000, "{down:?}");
        }
        assert_conserved(&mut fabric);
    }
}

#[test]
fn a_shared_buffer_gives_each_queue_alpha_times_the_free_part() {
    // The queue of a single congested port settles at alpha / (1 + alpha) of the memory (Choudhury
    // and Hahne).
    for alpha in [0.5, 1.0, 2.0] {
        let mut config = star(3, GIGABIT, 1 << 30);
        config.switches[0].shared_buffer = Some(SharedBuffer {
            bytes: 300_000,
            alpha,
        });
        let mut fabric = Fabric::new(&config).unwrap();
        introduce(&mut fabric, 3);
        for n in 0..40_u64 {
            fabric.handle_frame(Time((1 << 20) + n), 0, tcp(1, 3, 44 * SEGMENT_BYTES));
        }
        let mut peak = 0;
        while let Some(at) = fabric.poll_timeout() {
            fabric.handle_timeout(at);
            peak = peak.max(counters(&mut fabric, "3/b-a").queue_bytes_now);
            while fabric.poll_frame(2, at).is_some() {}
        }
        let settled = 300_000.0 * alpha / (1.0 + alpha);
        assert!(
            (peak as f64 - settled).abs() < 2.0 * 1518.0,
            "alpha {alpha}: peak of {peak} bytes, expected {settled}"
        );
    }
}

#[test]
fn early_detection_drops_or_marks_before_the_queue_is_full() {
    let red = |ecn| Discipline::Red {
        min_bytes: 20_000,
        max_bytes: 60_000,
        percent: 10.0,
        weight: 0.02,
        ecn,
    };
    for (discipline, marks) in [
        (red(false), false),
        (red(true), true),
        (
            Discipline::Mark {
                above_bytes: 30_000,
            },
            true,
        ),
    ] {
        let mut config = star(2, GIGABIT, 1 << 20);
        config.links[1].b_to_a.queue = Queue {
            discipline,
            ..queue(1 << 20)
        };
        let mut fabric = Fabric::new(&config).unwrap();
        introduce(&mut fabric, 2);
        for n in 0..8_u64 {
            fabric.handle_frame(Time((1 << 20) + n), 0, tcp(1, 2, 44 * SEGMENT_BYTES));
        }
        let seen = run(&mut fabric, 2);
        let down = counters(&mut fabric, "2/b-a");
        assert_eq!(down.drops.buffer, 0);
        assert_eq!(
            (down.marked > 0, down.drops.early > 0),
            (marks, !marks),
            "{down:?}"
        );
        let marked: usize = seen
            .iter()
            .map(|(_, _, out)| {
                let bytes = bytes_of(out);
                if bytes[15] & 3 == 3 {
                    frames_of(out)
                } else {
                    0
                }
            })
            .sum();
        assert_eq!(
            marked as u64, down.marked,
            "every frame counted as marked leaves marked"
        );
        assert_conserved(&mut fabric);
    }
}

#[test]
fn early_detection_averages_frames_that_find_the_queue_full() {
    let mut config = star(2, GIGABIT, 1 << 20);
    config.links[1].b_to_a.queue = Queue {
        discipline: Discipline::Red {
            min_bytes: 20_000,
            max_bytes: 60_000,
            percent: 10.0,
            weight: 0.02,
            ecn: false,
        },
        // Little more than the upper bound of the average.
        ..queue(64_000)
    };
    let mut fabric = Fabric::new(&config).unwrap();
    introduce(&mut fabric, 2);
    for n in 0..8_u64 {
        fabric.handle_frame(Time((1 << 20) + n), 0, tcp(1, 2, 44 * SEGMENT_BYTES));
    }
    run(&mut fabric, 2);
    let down = counters(&mut fabric, "2/b-a");
    // The average passes the upper bound after about 140 frames of a full queue. All later ones are
    // dropped early.
    assert!(down.drops.early > 100, "{down:?}");
    assert_conserved(&mut fabric);
}

#[test]
fn vlans_are_isolated_and_trunks_carry_them() {
    let mut config = star(2, GIGABIT, 512 << 10);
    config.switches.push(switch("t"));
    let access = |name: &str, of: &str, vlan| LinkConfig {
        b: End::Switch {
            name: of.into(),
            vlan: Some(vlan),
            allowed: None,
        },
        ..host(name, of, rate(GIGABIT), rate(GIGABIT))
    };
    let trunk = |name: &str| End::Switch {
        name: name.into(),
        vlan: None,
        allowed: None,
    };
    config.links = vec![
        access("1", "s", 10),
        access("2", "s", 20),
        access("3", "t", 10),
        access("4", "t", 20),
    ];
    config.links.push(LinkConfig {
        name: "trunk".into(),
        a: trunk("s"),
        b: trunk("t"),
        ..access("x", "s", 1)
    });
    let mut fabric = Fabric::new(&config).unwrap();
    fabric.handle_frame(Time::ZERO, 0, frame(1, 255, 64));
    let seen = run(&mut fabric, 4);
    assert_eq!(seen.len(), 1, "only one other host is in the VLAN");
    assert_eq!(seen[0].1, 2);
    assert_eq!(
        bytes_of(&seen[0].2),
        frame(1, 255, 64).bytes(),
        "an access port sends the frame without a tag"
    );
    // The tag makes the frame four bytes longer.
    for (link, bytes) in [("1/a-b", 64), ("trunk/a-b", 68), ("3/b-a", 64)] {
        assert_eq!(counters(&mut fabric, link).bytes_out, bytes, "{link}");
    }
    // A tagged frame at an access port is refused.
    let mut bytes = frame(1, 255, 64).bytes().to_vec();
    bytes.splice(12..12, [0x81, 0, 0, 20]);
    fabric.handle_frame(Time(1), 0, Packet::new(bytes, None, None).unwrap());
    assert!(run(&mut fabric, 4).is_empty());
}

/// Returns hosts `1` and `3` in VLAN 10 and `2` and `4` in VLAN 20, two each on two switches. The
/// trunk between them allows only VLAN 10 at one end.
fn pruned() -> FabricConfig {
    let end = |name: &str, vlan, allowed| End::Switch {
        name: name.into(),
        vlan,
        allowed,
    };
    let access = |name: &str, of: &str, vlan| LinkConfig {
        b: end(of, Some(vlan), None),
        ..host(name, of, rate(GIGABIT), rate(GIGABIT))
    };
    let mut config = star(2, GIGABIT, 512 << 10);
    config.switches.push(switch("t"));
    config.links = vec![
        access("1", "s", 10),
        access("2", "s", 20),
        access("3", "t", 10),
        access("4", "t", 20),
        LinkConfig {
            name: "trunk".into(),
            a: end("s", None, Some(vec![10])),
            b: end("t", None, None),
            ..access("x", "s", 1)
        },
    ];
    config
}

#[test]
fn a_trunk_carries_the_vlans_it_allows_and_refuses_the_others() {
    let mut fabric = Fabric::new(&pruned()).unwrap();
    for (from, reached) in [(1, vec![2]), (2, vec![])] {
        fabric.handle_frame(Time::ZERO, from - 1, frame(from as u8, 255, 64));
        let ports: Vec<usize> = run(&mut fabric, 4).iter().map(|seen| seen.1).collect();
        assert_eq!(ports, reached, "from host {from}");
    }
    assert_eq!(
        counters(&mut fabric, "trunk/a-b").frames_in,
        1,
        "VLAN 20 does not leave"
    );
    // The other end allows all VLANs, so the frame crosses the trunk and is refused after it.
    fabric.handle_frame(Time(1), 3, frame(4, 255, 64));
    assert!(run(&mut fabric, 4).is_empty());
    assert_eq!(counters(&mut fabric, "trunk/b-a").frames_out, 1);
    let dropped: Vec<u64> = fabric
        .switch_counters()
        .map(|(_, counters)| counters.dropped_vlan)
        .collect();
    assert_eq!(dropped, [1, 0]);
    assert_conserved(&mut fabric);
}

#[test]
fn invalid_lists_of_allowed_vlans_are_refused() {
    let message = |vlan, allowed: &[u16]| {
        let mut config = pruned();
        config.links[4].a = End::Switch {
            name: "s".into(),
            vlan,
            allowed: Some(allowed.to_vec()),
        };
        Fabric::new(&config).map(|_| ()).unwrap_err().to_string()
    };
    assert!(message(None, &[]).contains("allows no VLAN"));
    assert!(message(None, &[10, 4095]).contains("1 to 4094"));
    assert!(message(Some(10), &[10]).contains("access port of VLAN 10"));
}

#[test]
fn invalid_values_are_refused_with_their_bounds() {
    let message = |change: &dyn Fn(&mut FabricConfig)| {
        let mut config = star(2, GIGABIT, 512 << 10);
        change(&mut config);
        Fabric::new(&config).map(|_| ()).unwrap_err().to_string()
    };
    assert!(message(&|c| c.links[1].b_to_a.queue.bytes = 1000).contains("no room for one frame"));
    assert!(
        message(&|c| c.links[0].a_to_b.rate_bits_per_s = Some(0)).contains("1000 to 1000000000000")
    );
    assert!(message(&|c| c.links[0].a_to_b.delay_us = f64::NAN).contains("delay_us"));
    assert!(message(&|c| c.links.clear()).contains("1 to 256"));
    assert!(message(&|c| c.switches.clear()).contains("there is no switch"));
    let closed = message(&|c| {
        c.switches.push(switch("t"));
        for name in ["x", "y"] {
            let ends = ["s", "t"].map(|name| End::Switch {
                name: name.into(),
                vlan: None,
                allowed: None,
            });
            let [a, b] = ends;
            c.links.push(LinkConfig {
                name: name.into(),
                a,
                b,
                ..c.links[0].clone()
            });
        }
    });
    assert!(closed.contains("loop"), "{closed}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 4))]
    /// For any frames and impairments, every frame is accounted for, and the seed determines the
    /// history.
    #[test]
    fn frames_are_conserved_and_histories_repeat(
        seed: u64,
        sends in prop::collection::vec((0..3_u8, 1..4_u8, 0..60_000_usize, 0..200_000_u64), 1..60),
        loss in 0.0..30.0_f64,
        duplicate in 0.0..10.0_f64,
        jitter_us in 0.0..300.0_f64,
        bytes in 2000..60_000_u64,
    ) {
        let history = || {
            let mut config = star(3, GIGABIT, bytes);
            config.seed = seed;
            let up = &mut config.links[0].a_to_b;
            up.loss = hakaru_contract::fabric::Loss::Random { percent: loss };
            up.duplicate_percent = duplicate;
            up.jitter = hakaru_contract::fabric::Jitter::Uniform { max_us: jitter_us };
            up.corrupt_percent = 5.0;
            let mut fabric = Fabric::new(&config).unwrap();
            let mut now = Time::ZERO;
            for (from, to, payload, gap) in &sends {
                now += Duration::from_nanos(*gap);
                fabric.handle_frame(now, usize::from(*from), tcp(from + 1, *to, *payload));
                assert_conserved(&mut fabric);
            }
            let seen: Vec<_> = run(&mut fabric, 3).into_iter().map(|(at, port, out)| {
                (at, port, bytes_of(&out))
            }).collect();
            assert_conserved(&mut fabric);
            for (name, c) in fabric.counters(Time::MAX) {
                assert_eq!((c.frames_now, c.queue_bytes_now), (0, 0), "{name}: every frame has left");
            }
            seen
        };
        prop_assert_eq!(history(), history());
    }
}
