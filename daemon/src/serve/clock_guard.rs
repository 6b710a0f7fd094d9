//! Holds old data for a while if the clock has jumped ahead, since a clock that is wrong at a start would end every session and
//! cut the audit log at once.
//!
//! A jump is told from the time at which a daemon last ran. After a long stop the clock is right, and the hold only delays the
//! cleanup. Data that was used since the jump is never held.

use toolgate_state::store::{ClockMarks, Store};

/// A smaller jump ends only what was about to end.
const JUMP_MS: u64 = 24 * 3_600_000;

/// A clock that is behind by less is being adjusted.
const BEHIND_MS: u64 = 3_600_000;

/// The time for which an operator can set the clock before old data is removed.
const HOLD_MS: u64 = 7 * 24 * 3_600_000;

/// Advance of the clock after which it is stored again.
const STORED_EVERY_MS: u64 = 3_600_000;

/// The guard, with the marks of the last run.
pub(super) struct ClockGuard {
    store: Store,
    marks: ClockMarks,
    stored: ClockMarks,
    /// Whether it was told that the clock is behind.
    is_behind: bool,
}

impl ClockGuard {
    pub(super) async fn load(store: Store) -> Self {
        let read = store.clock_marks().await;
        let marks =
            read.inspect_err(|error| tracing::warn!(%error, "the time of the last run cannot be read"));
        let marks = marks.unwrap_or_default();
        Self { store, marks, stored: marks, is_behind: false }
    }

    /// Takes the present time, tells of a jump, and stores the time now and then.
    pub(super) async fn note(&mut self, now_ms: u64) {
        let before = self.marks;
        self.marks = after(before, now_ms);
        tell(before, self.marks);
        let behind_ms = self.marks.seen_ms.saturating_sub(now_ms);
        if behind_ms > BEHIND_MS && !self.is_behind {
            tracing::warn!(
                event = "clock_behind",
                hours = behind_ms / 3_600_000,
                "the clock is behind the time at which a daemon last ran here: set it. Until then tokens, approvals and credentials end later than they should, and records have times before those of earlier ones"
            );
        }
        self.is_behind = behind_ms > BEHIND_MS;
        let is_old = self.marks.seen_ms.abs_diff(self.stored.seen_ms) >= STORED_EVERY_MS;
        if !is_old && self.marks.held_since_ms == self.stored.held_since_ms {
            return;
        }
        match self.store.put_clock_marks(self.marks).await {
            Ok(()) => self.stored = self.marks,
            Err(error) => tracing::warn!(%error, "the time cannot be written down"),
        }
    }

    /// The time of the jump, while data from before it is held.
    pub(super) fn held_since_ms(&self) -> Option<u64> {
        (self.marks.held_since_ms > 0).then_some(self.marks.held_since_ms)
    }
}

/// The marks at `now_ms`, from those before.
fn after(before: ClockMarks, now_ms: u64) -> ClockMarks {
    let ClockMarks { seen_ms, held_since_ms } = before;
    let is_held = held_since_ms > 0;
    // During a hold, only a long jump begins it anew: a machine that is off every weekend would keep old data for ever.
    let jump_ms = if is_held { HOLD_MS } else { JUMP_MS };
    if seen_ms > 0 && now_ms.saturating_sub(seen_ms) > jump_ms {
        return ClockMarks { seen_ms: now_ms, held_since_ms: now_ms };
    }
    // Set back behind the jump: the time that was seen since was wrong.
    if is_held && now_ms < held_since_ms {
        return ClockMarks { seen_ms: now_ms, held_since_ms: 0 };
    }
    let is_over = is_held && now_ms - held_since_ms >= HOLD_MS;
    // A clock that is behind, as one without a battery is until it is set, changes nothing.
    ClockMarks { seen_ms: seen_ms.max(now_ms), held_since_ms: if is_over { 0 } else { held_since_ms } }
}

fn tell(before: ClockMarks, now: ClockMarks) {
    if now.held_since_ms == before.held_since_ms {
        return;
    }
    if now.held_since_ms == 0 {
        return tracing::info!(
            event = "clock_hold_ended",
            "idle sessions end again, and old records and messages are removed"
        );
    }
    tracing::warn!(
        event = "clock_ahead",
        hours = (now.seen_ms - before.seen_ms) / 3_600_000,
        "the clock is ahead of the time at which a daemon last ran here: if it is wrong, set it now. For 7 days no session ends that was not used since, and no record or message is removed for its age. If the daemon was stopped for so long, nothing is to be done"
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolgate_state::store::testing::empty_store;

    const NOW_MS: u64 = 1_800_000_000_000;
    const DAY_MS: u64 = 24 * 3_600_000;

    /// The times of holds, as the clock shows these times one after the other.
    fn holds(times: &[u64]) -> Vec<u64> {
        let mut marks = ClockMarks::default();
        let note = |now_ms: &u64| {
            marks = after(marks, *now_ms);
            marks.held_since_ms
        };
        times.iter().map(note).collect()
    }

    #[test]
    fn a_clock_that_goes_on_or_is_behind_holds_nothing() {
        assert_eq!(holds(&[NOW_MS, NOW_MS + DAY_MS, NOW_MS + 2 * DAY_MS]), [0; 3]);
        assert_eq!(holds(&[NOW_MS, 1_000, NOW_MS + 5_000]), [0; 3], "a clock without a battery");
    }

    #[test]
    fn a_jump_holds_until_the_clock_is_set_back_or_a_week_is_over() {
        let later = NOW_MS + 3_650 * DAY_MS;
        assert_eq!(
            holds(&[NOW_MS, later, later + 1, NOW_MS + 60_000, NOW_MS + DAY_MS]),
            [0, later, later, 0, 0]
        );
        let mut week: Vec<u64> = (0..8).map(|day| later + day * DAY_MS).collect();
        week.insert(0, NOW_MS);
        let held = holds(&week);
        assert_eq!((held[0], held[7], held[8]), (0, later, 0), "{held:?}");
        // A wrong clock that jumps again does not use up the week.
        let again = later + 30 * DAY_MS;
        assert_eq!(holds(&[NOW_MS, later, again]), [0, later, again]);
        // A daemon that is stopped for some days of each week removes old data now and then.
        assert_eq!(holds(&[NOW_MS, later, later + 5 * DAY_MS, later + 8 * DAY_MS]), [0, later, later, 0]);
    }

    #[tokio::test]
    async fn a_hold_lasts_over_a_restart() {
        let (_folder, store) = empty_store().await;
        let later = NOW_MS + 90 * DAY_MS;
        for (now_ms, held) in
            [(NOW_MS, None), (later, Some(later)), (later + 9_000, Some(later)), (NOW_MS, None)]
        {
            let mut guard = ClockGuard::load(store.clone()).await;
            guard.note(now_ms).await;
            assert_eq!(guard.held_since_ms(), held, "{now_ms}");
        }
    }
}
