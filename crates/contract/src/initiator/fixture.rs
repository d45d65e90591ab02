//! A valid configuration of two VMs, for tests.
use super::InitiatorConfig;

pub(super) fn config() -> InitiatorConfig {
    serde_json::from_value(serde_json::json!({
        "vms": [vm("vm1", 0), vm("vm2", 1 << 20)],
        "warmup_s": 1.0,
        "measure_s": 2.0,
    }))
    .unwrap()
}

fn vm(name: &str, offset_bytes: u64) -> serde_json::Value {
    serde_json::json!({
        "name": name,
        "destination": {"kind": "iscsi", "portal": "127.0.0.1:3260", "target_name": "iqn.2026-01.lab:a", "lun": 0,
            "initiator_name": "iqn.2026-01.lab:vm"},
        "region": {"offset_bytes": offset_bytes, "length_bytes": 1 << 20},
        "pattern": {"sizes": [{"bytes": 4096}], "read_percent": 70, "random_percent": 100},
        "load": {"kind": "closed", "queue_depth": 4},
        "seed": 1,
    })
}
