//! The line of a channel: delay, jitter, loss, duplication, corruption, reordering.
use core::time::Duration;

use hakaru_units::Time;
use rand::RngExt as _;
use rand_pcg::Pcg64;

use crate::train::Train;
use hakaru_contract::fabric::{Direction, Jitter, Loss};

/// Delay and impairments of a line.
#[derive(Debug)]
pub(crate) struct Line {
    delay_ns: u64,
    jitter: Jitter,
    loss: LossState,
    /// Probability that a frame is duplicated.
    duplicate: f64,
    /// Probability that a frame is corrupted.
    corrupt: f64,
    /// Probability that a frame is delayed by `reorder_ns`, so that others overtake it.
    reorder: f64,
    reorder_ns: u64,
    /// Earliest arrival of the next frame, which keeps frames in order despite jitter.
    last: Time,
    /// Whether any impairment besides the delay is configured, so that each frame is handled
    /// separately.
    frame_by_frame: bool,
}

#[derive(Debug)]
enum LossState {
    None,
    /// Independent losses.
    Random {
        probability: f64,
        /// Number of frames that pass before the next loss, drawn once per loss instead of once per
        /// frame.
        pass: u64,
    },
    /// A good state without losses and a bad state (Gilbert and Elliott).
    Bursts {
        bad: bool,
        enter: f64,
        leave: f64,
        bad_loss: f64,
    },
}

/// Number of frames of a train that were lost, duplicated or corrupted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Impairments {
    pub(crate) lost: u64,
    pub(crate) duplicated: u64,
    pub(crate) corrupted: u64,
}

impl Line {
    pub(crate) fn new(config: &Direction, rng: &mut Pcg64) -> Line {
        let share = |percent: f64| percent / 100.0;
        let loss = match config.loss {
            Loss::None => LossState::None,
            Loss::Random { percent: 0.0 } => LossState::None,
            Loss::Random { percent } => LossState::Random {
                probability: share(percent),
                pass: draw_pass(share(percent), rng),
            },
            Loss::Bursts {
                percent,
                burst_frames,
                bad_percent,
            } => {
                // In the long run a share `bad` of all frames finds the line in the bad state.
                let (leave, bad) = (1.0 / burst_frames, percent / bad_percent);
                LossState::Bursts {
                    bad: false,
                    enter: leave * bad / (1.0 - bad),
                    leave,
                    bad_loss: share(bad_percent),
                }
            }
        };
        Line {
            delay_ns: (config.delay_us * 1e3).round() as u64,
            frame_by_frame: config.jitter != Jitter::None
                || !matches!(loss, LossState::None)
                || config.duplicate_percent > 0.0
                || config.corrupt_percent > 0.0
                || config.reorder_percent > 0.0,
            jitter: config.jitter,
            loss,
            duplicate: share(config.duplicate_percent),
            corrupt: share(config.corrupt_percent),
            reorder: share(config.reorder_percent),
            reorder_ns: (config.reorder_us * 1e3).round() as u64,
            last: Time::ZERO,
        }
    }

    pub(crate) const fn delay_ns(&self) -> u64 {
        self.delay_ns
    }

    /// Whether a train arrives whole, or not at all, after the delay alone.
    pub(crate) fn passes_whole(&self, train: &Train) -> bool {
        let is_one = train.count == 1 && self.jitter == Jitter::None && self.reorder == 0.0;
        is_one || !self.frame_by_frame
    }

    /// Carries the frames of `train`, which were sent consecutively. The last byte of the first
    /// frame was sent at `first`, that of each further frame `each_ns` later, and that of the last
    /// frame at `last`. Calls `arrive` with the frames that arrive, and the instant.
    pub(crate) fn pass(
        &mut self,
        mut train: Train,
        first: Time,
        each_ns: u64,
        last: Time,
        rng: &mut Pcg64,
        arrive: &mut dyn FnMut(Time, Train),
    ) -> Impairments {
        let delay = Duration::from_nanos(self.delay_ns);
        if !self.frame_by_frame {
            arrive(last + delay, train);
            return Impairments::default();
        }
        let (count, mut impaired) = (train.count, Impairments::default());
        for index in 0..count {
            let mut frame = train.take_one();
            if self.loss.hits(rng) {
                impaired.lost += 1;
                continue;
            }
            let sent = if index + 1 == count {
                last
            } else {
                first + Duration::from_nanos(each_ns * u64::from(index))
            };
            let mut at = (sent + delay + draw_jitter(&self.jitter, rng)).max(self.last);
            self.last = at;
            if self.reorder > 0.0 && rng.random::<f64>() < self.reorder {
                at += Duration::from_nanos(self.reorder_ns);
            }
            if self.corrupt > 0.0 && rng.random::<f64>() < self.corrupt {
                frame.corrupt = Some(rng.random::<u32>());
                impaired.corrupted += 1;
            }
            if self.duplicate > 0.0 && rng.random::<f64>() < self.duplicate {
                impaired.duplicated += 1;
                arrive(at, frame.clone());
            }
            arrive(at, frame);
        }
        impaired
    }
}

impl LossState {
    /// Returns whether the next frame is lost.
    fn hits(&mut self, rng: &mut Pcg64) -> bool {
        match self {
            LossState::None => false,
            LossState::Random { probability, pass } => {
                if let Some(left) = pass.checked_sub(1) {
                    *pass = left;
                    return false;
                }
                *pass = draw_pass(*probability, rng);
                true
            }
            LossState::Bursts {
                bad,
                enter,
                leave,
                bad_loss,
            } => {
                let change = if *bad { *leave } else { *enter };
                if rng.random::<f64>() < change {
                    *bad = !*bad;
                }
                *bad && rng.random::<f64>() < *bad_loss
            }
        }
    }
}

/// Draws the number of frames that pass before the next loss, which is geometrically distributed.
fn draw_pass(probability: f64, rng: &mut Pcg64) -> u64 {
    if probability >= 1.0 {
        return 0;
    }
    let uniform = 1.0 - rng.random::<f64>();
    (uniform.ln() / (1.0 - probability).ln()) as u64
}

fn draw_jitter(jitter: &Jitter, rng: &mut Pcg64) -> Duration {
    let us = match *jitter {
        Jitter::None => return Duration::ZERO,
        Jitter::Uniform { max_us } => max_us * rng.random::<f64>(),
        Jitter::Exponential { mean_us } => -mean_us * (1.0 - rng.random::<f64>()).ln(),
        Jitter::Normal {
            mean_us,
            deviation_us,
        } => mean_us + deviation_us * standard_normal(rng),
    };
    Duration::from_nanos((us.max(0.0) * 1e3) as u64)
}

/// Draws from the standard normal distribution (Box and Muller 1958).
fn standard_normal(rng: &mut Pcg64) -> f64 {
    let radius = (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt();
    radius * (core::f64::consts::TAU * rng.random::<f64>()).cos()
}
