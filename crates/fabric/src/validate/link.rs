//! Checks of a link: MTU, and rate, delay, impairments and queue of each direction.
use hakaru_contract::fabric::{Direction, Discipline, Jitter, LinkConfig, Loss};

use super::error::{ConfigError, error, within};

/// Length of Ethernet header, tag and FCS.
const FRAME_OVERHEAD_BYTES: u64 = 22;

pub(super) fn check_link(place: &str, link: &LinkConfig) -> Result<(), ConfigError> {
    within(
        &format!("{place}: mtu_bytes"),
        link.mtu_bytes.into(),
        576.0,
        65_535.0,
    )?;
    for (name, direction) in [("a_to_b", &link.a_to_b), ("b_to_a", &link.b_to_a)] {
        check_direction(&format!("{place}: {name}"), link, direction)?;
    }
    Ok(())
}

fn check_direction(
    place: &str,
    link: &LinkConfig,
    direction: &Direction,
) -> Result<(), ConfigError> {
    if let Some(rate) = direction.rate_bits_per_s {
        within(&format!("{place}.rate_bits_per_s"), rate as f64, 1e3, 1e12)?;
    }
    within(&format!("{place}.delay_us"), direction.delay_us, 0.0, 1e7)?;
    within(
        &format!("{place}.duplicate_percent"),
        direction.duplicate_percent,
        0.0,
        100.0,
    )?;
    within(
        &format!("{place}.corrupt_percent"),
        direction.corrupt_percent,
        0.0,
        100.0,
    )?;
    within(
        &format!("{place}.reorder_percent"),
        direction.reorder_percent,
        0.0,
        100.0,
    )?;
    within(
        &format!("{place}.reorder_us"),
        direction.reorder_us,
        0.0,
        1e7,
    )?;
    check_jitter(place, direction.jitter)?;
    check_loss(place, direction.loss)?;
    check_queue(place, link, direction)
}

fn check_jitter(place: &str, jitter: Jitter) -> Result<(), ConfigError> {
    match jitter {
        Jitter::None => {}
        Jitter::Uniform { max_us: us } | Jitter::Exponential { mean_us: us } => {
            within(&format!("{place}.jitter"), us, 0.0, 1e7)?
        }
        Jitter::Normal {
            mean_us,
            deviation_us,
        } => {
            within(&format!("{place}.jitter.mean_us"), mean_us, 0.0, 1e7)?;
            within(
                &format!("{place}.jitter.deviation_us"),
                deviation_us,
                0.0,
                1e7,
            )?;
        }
    }
    Ok(())
}

fn check_loss(place: &str, loss: Loss) -> Result<(), ConfigError> {
    match loss {
        Loss::None => {}
        Loss::Random { percent } => within(&format!("{place}.loss.percent"), percent, 0.0, 100.0)?,
        Loss::Bursts {
            percent,
            burst_frames,
            bad_percent,
        } => {
            within(
                &format!("{place}.loss.bad_percent"),
                bad_percent,
                f64::MIN_POSITIVE,
                100.0,
            )?;
            within(
                &format!("{place}.loss.burst_frames"),
                burst_frames,
                1.0,
                1e9,
            )?;
            // At most every frame in the good state is followed by a burst.
            let bad_max = (burst_frames / (1.0 + burst_frames)).min(0.999);
            let percent_max = bad_percent * bad_max;
            within(&format!("{place}.loss.percent"), percent, 0.0, percent_max)?;
        }
    }
    Ok(())
}

fn check_queue(place: &str, link: &LinkConfig, direction: &Direction) -> Result<(), ConfigError> {
    let frame = u64::from(link.mtu_bytes) + FRAME_OVERHEAD_BYTES;
    if direction.queue.bytes < frame {
        let problem = format!(
            "a queue of {} bytes has no room for one frame",
            direction.queue.bytes
        );
        return Err(error(
            &format!("{place}.queue.bytes"),
            problem,
            &format!("it must be at least {frame} with this MTU"),
        ));
    }
    if let Discipline::Red {
        min_bytes,
        max_bytes,
        percent,
        weight,
        ..
    } = direction.queue.discipline
    {
        within(
            &format!("{place}.queue.discipline.percent"),
            percent,
            0.0,
            100.0,
        )?;
        within(
            &format!("{place}.queue.discipline.weight"),
            weight,
            f64::MIN_POSITIVE,
            1.0,
        )?;
        if min_bytes >= max_bytes {
            return Err(error(
                &format!("{place}.queue.discipline"),
                format!("min_bytes is {min_bytes}, and max_bytes is {max_bytes}"),
                "min_bytes must be below max_bytes",
            ));
        }
    }
    Ok(())
}
