//! Resumes commands that wait for a range or for write budget, on any connection.

use hakaru_units::Time;

use crate::endpoint::{Target, owner_of};
use crate::shared::Core;
use crate::task::program::{hold, may_hold, request_access};
use crate::task::write::{advance_write, request_write};
use crate::task::{Access, Stage};

impl Target {
    /// Resumes commands that wait for a range, in order, then writes that wait for budget.
    pub(super) fn resume_waiting(&mut self, now: Time) {
        if self.core.ranges.has_waiting() {
            self.resume_ranged();
        }
        if !self.core.budget_queue.is_empty() {
            self.resume_budgeted(now);
        }
    }

    fn resume_budgeted(&mut self, now: Time) {
        let core = &mut self.core;
        core.budget_queue.is_short = false;
        let mut place = 0;
        while let Some(key) = core.budget_queue.first_at(place) {
            let waits = |core: &Core| {
                let task = core.tasks.get(key);
                task.is_some_and(|task| task.stage == Stage::Budget)
            };
            let conn = owner_of(&mut self.connections, core, key);
            if let Some(mut conn) = conn.filter(|_| waits(core)) {
                advance_write(&mut conn, core, now, key);
                if waits(core) {
                    if core.budget_queue.is_short {
                        return;
                    }
                    // This session's own share is used up. Others need not wait for it.
                    place += 1;
                    continue;
                }
                conn.link.announce(&mut core.outbox);
            }
            core.budget_queue.leave(place);
        }
    }

    fn resume_ranged(&mut self) {
        let core = &mut self.core;
        let mut place = 0;
        while let Some((key, claim)) = core.ranges.waiting_at(place) {
            let task = core.tasks.get_mut(key);
            let Some(task) = task.filter(|task| task.stage == Stage::Range) else {
                core.ranges.leave(place);
                continue;
            };
            let pending = task.job.as_mut().and_then(|job| job.pending.take());
            let writes = matches!(task.access, Access::Write { .. }) || pending.is_some();
            let may_start = if writes {
                core.ranges.is_free(&claim, place)
            } else {
                may_hold(core, &claim, place)
            };
            if !may_start {
                if let Some(job) = core.tasks.get_mut(key).and_then(|task| task.job.as_mut()) {
                    job.pending = pending;
                }
                place += 1;
                continue;
            }
            core.ranges.leave(place);
            let mut conn = owner_of(&mut self.connections, core, key);
            match (pending, conn.as_mut()) {
                (Some((lu, op)), conn) => request_access(conn, core, key, lu, op),
                (None, Some(conn)) if writes => request_write(conn, core, key),
                (None, conn) => hold(conn, core, key, claim),
            }
            if let Some(conn) = &mut conn {
                conn.link.announce(&mut core.outbox);
            }
        }
    }
}
