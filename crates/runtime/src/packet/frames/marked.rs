//! Reception of test frames through the ring of a packet socket (TPACKET_V3).
use std::convert::Infallible;
use std::io;
use std::time::Duration;

use hakaru_units::Time;

use super::{FrameReceiver, MarkedFrames};
use crate::packet::Clocks;
use crate::packet::capture::{CaptureRing, RingOptions, Selection};

/// Frames with a mark that arrive at one interface.
pub struct RingFrames(CaptureRing);

impl RingFrames {
    /// Opens an interface for frames of up to `frame_bytes` bytes without FCS, with a ring of
    /// `ring_bytes` bytes.
    ///
    /// # Errors
    /// Those of [`CaptureRing::open`].
    pub fn open(
        interface: &str,
        frame_bytes: usize,
        frames: MarkedFrames,
        ring_bytes: usize,
    ) -> io::Result<RingFrames> {
        let options = RingOptions {
            ring_bytes,
            snap_bytes: frame_bytes as u32,
            selection: Selection::Word {
                at: frames.at,
                value: frames.value,
            },
            receives_all: true,
        };
        CaptureRing::open(interface, &options).map(RingFrames)
    }
}

impl FrameReceiver for RingFrames {
    fn wait(&mut self, at_most: Duration) -> io::Result<()> {
        self.0.wait(at_most)
    }

    fn take(&mut self, handle: &mut dyn FnMut(Time, &[u8])) -> io::Result<()> {
        let clocks = Clocks::read();
        let Ok(()) = self.0.take(&mut |frame| {
            let at = clocks.monotonic(frame.realtime_ns.into());
            handle(at.unwrap_or(Time::ZERO), frame.bytes);
            Ok::<(), Infallible>(())
        });
        Ok(())
    }

    fn dropped(&mut self) -> io::Result<u64> {
        let (_, dropped) = self.0.counts()?;
        Ok(dropped)
    }

    fn settle_time(&self) -> Duration {
        CaptureRing::SETTLE_TIME
    }
}
