//! Counters of a job.

/// Cumulative counters of one job (or a sum of several). Names and meanings are those of
/// `docs/reference/metrics.md`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Successful reads of the source.
    pub reads: u64,
    /// Successful writes of the destination.
    pub writes: u64,
    /// Bytes of successful reads.
    pub read_bytes: u64,
    /// Bytes of successful writes; with compression, of compressed data.
    pub written_bytes: u64,
    /// Sum of the latencies of all reads, including failed ones.
    pub read_latency_ns_sum: u64,
    /// Sum of the latencies of all writes, including failed ones.
    pub write_latency_ns_sum: u64,
    /// Reads and writes that failed.
    pub errors: u64,
    /// Bytes of the image that were read back and compared.
    pub verified_bytes: u64,
    /// Blocks of the copy that differ from the image.
    pub mismatches: u64,
    /// Filemarks written.
    pub filemarks: u64,
    /// Filemarks that waited until everything before them was on the tape.
    pub synchronisations: u64,
    /// Sum of the times that filemarks took.
    pub filemark_latency_ns_sum: u64,
    /// Writes and filemarks after which little space was left on the tape.
    pub early_warnings: u64,
    /// Jobs that are complete: everything written and on stable storage.
    pub done_now: u64,
    /// Reads and writes in flight.
    pub in_flight_now: u64,
}

impl Counters {
    /// Calls `visitor` with the name and value of every counter of the contract. Names that end in
    /// `_now` are gauges.
    pub fn visit(&self, visitor: &mut dyn FnMut(&'static str, f64)) {
        let all = [
            ("reads", self.reads),
            ("writes", self.writes),
            ("read_bytes", self.read_bytes),
            ("written_bytes", self.written_bytes),
            ("read_latency_ns_sum", self.read_latency_ns_sum),
            ("write_latency_ns_sum", self.write_latency_ns_sum),
            ("errors", self.errors),
            ("verified_bytes", self.verified_bytes),
            ("mismatches", self.mismatches),
            ("filemarks", self.filemarks),
            ("synchronisations", self.synchronisations),
            ("filemark_latency_ns_sum", self.filemark_latency_ns_sum),
            ("early_warnings", self.early_warnings),
            ("done_now", self.done_now),
            ("in_flight_now", self.in_flight_now),
        ];
        all.into_iter()
            .for_each(|(name, value)| visitor(name, value as f64));
    }

    /// Adds `other` to every counter.
    pub fn add(&mut self, other: &Counters) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.read_bytes += other.read_bytes;
        self.written_bytes += other.written_bytes;
        self.read_latency_ns_sum += other.read_latency_ns_sum;
        self.write_latency_ns_sum += other.write_latency_ns_sum;
        self.errors += other.errors;
        self.verified_bytes += other.verified_bytes;
        self.mismatches += other.mismatches;
        self.filemarks += other.filemarks;
        self.synchronisations += other.synchronisations;
        self.filemark_latency_ns_sum += other.filemark_latency_ns_sum;
        self.early_warnings += other.early_warnings;
        self.done_now += other.done_now;
        self.in_flight_now += other.in_flight_now;
    }
}
