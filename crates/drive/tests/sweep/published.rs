//! The published figures.

/// One row of the published table.
#[derive(Clone, Copy, Debug)]
pub struct Published {
    pub vms: usize,
    pub iops: f64,
    pub mean_latency_ms: f64,
    pub read_latency_ms: f64,
    pub write_latency_ms: f64,
}

/// Japan Data Storage Forum, iSCSI working group, 2011-10-17, table of graph 1: random 32 KiB, 70 %
/// reads, 32 requests outstanding per VM.
pub const PUBLISHED: [Published; 9] = [
    published(1, 1082.0, [30.0, 30.0, 30.0]),
    published(4, 2746.0, [47.0, 47.0, 47.0]),
    published(6, 3170.0, [60.0, 60.0, 60.0]),
    published(7, 3280.0, [68.0, 68.0, 69.0]),
    published(8, 2996.0, [85.0, 86.0, 84.0]),
    published(10, 2560.0, [125.0, 126.0, 124.0]),
    published(12, 2506.0, [153.0, 155.0, 151.0]),
    published(14, 2488.0, [181.0, 183.0, 176.0]),
    published(16, 2316.0, [222.0, 224.0, 215.0]),
];

/// Numbers of VMs of the sequential pattern, whose figures are drawn but not printed. Its peak is
/// at 7 VMs, and the array recorded at most 124 MB/s, reads and writes together.
pub const SEQUENTIAL_VMS: [usize; 8] = [1, 4, 6, 7, 9, 12, 14, 16];

const fn published(vms: usize, iops: f64, [mean, read, write]: [f64; 3]) -> Published {
    Published {
        vms,
        iops,
        mean_latency_ms: mean,
        read_latency_ms: read,
        write_latency_ms: write,
    }
}
