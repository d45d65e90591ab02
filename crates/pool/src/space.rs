//! Space: is there enough, which page is next, and who is told when it gets short.

use crate::action::Event;
use crate::group::GroupId;
use crate::map::PageId;
use crate::pool::Pool;

/// Percent points below the soft threshold at which it is armed again.
const HYSTERESIS_PERCENT: u64 = 2;

/// Is there space for some pages?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    /// Take them.
    Here,
    /// When what was freed has come back, or after those who wait already.
    Coming,
    /// No, unless somebody gives pages back or adds some.
    Full,
}

impl Pool {
    pub(crate) fn space_for(&self, pages: u64) -> Space {
        if pages == 0 {
            return Space::Here;
        }
        if self.metadata_is_low {
            return Space::Full;
        }
        let free: u64 = self
            .groups
            .iter()
            .map(|group| u64::from(group.free_pages()))
            .sum();
        let freeing: u64 = self
            .groups
            .iter()
            .map(|group| u64::from(group.freeing_pages()))
            .sum();
        if pages > free + freeing {
            Space::Full
        } else if pages > free || self.space_is_wanted {
            Space::Coming
        } else {
            Space::Here
        }
    }

    /// The next page, of the groups in turn, so that the drives of all groups carry load. There is one: see [`Pool::space_for`].
    pub(crate) fn take_page(&mut self) -> PageId {
        for _ in 0..self.groups.len() {
            let index = self.group_next;
            self.group_next = (index + 1) % self.groups.len();
            if let Some(page) = self.groups[index].take() {
                return PageId {
                    group: GroupId(index as u16),
                    page,
                };
            }
        }
        unreachable!("space was found before a page is taken")
    }

    /// A map (or a copy that came to nothing) names the page no longer.
    pub(crate) fn drop_page(&mut self, page: PageId) {
        self.group(page.group).drop_reference(page.page);
        self.rounds.dropped.push(page);
        self.mark_metadata_changed();
        self.retry = true;
    }

    /// Pages that can hold data, and those that do.
    pub(crate) fn total_and_used_pages(&self) -> (u64, u64) {
        self.groups.iter().fold((0, 0), |(total, used), group| {
            (
                total + u64::from(group.data_pages()),
                used + u64::from(group.used_pages()),
            )
        })
    }

    /// Tells when use crosses the soft threshold, once each time.
    pub(crate) fn check_threshold(&mut self) {
        let (total, used) = self.total_and_used_pages();
        let threshold = u64::from(self.config.soft_threshold_percent);
        if !self.threshold_is_told && total > 0 && used * 100 >= total * threshold {
            self.threshold_is_told = true;
            self.tell(Event::ThresholdCrossed);
        } else if self.threshold_is_told
            && used * 100 < total * threshold.saturating_sub(HYSTERESIS_PERCENT)
        {
            self.threshold_is_told = false;
            self.tell(Event::ThresholdCleared);
        }
    }
}
