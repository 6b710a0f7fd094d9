//! Whether the consents of organizations begin from what they had enabled before (C6).

use toolgate_macros::boxed;

use super::{Store, StoreError};

#[boxed]
impl Store {
    /// Whether a start has accepted, for the organizations, what they had enabled before plugins needed their consent.
    pub async fn consents_are_carried_over(&self) -> Result<bool, StoreError> {
        let sql = "SELECT value FROM counters WHERE name = 'consents'";
        let value: i64 = sqlx::query_scalar(sql).fetch_one(&self.readers).await?;
        Ok(value != 0)
    }

    /// Records that it is done, so that no later start does it again.
    pub async fn set_consents_carried_over(&self) -> Result<(), StoreError> {
        let mut change = self.begin().await?;
        sqlx::query("UPDATE counters SET value = 1 WHERE name = 'consents'").execute(&mut *change).await?;
        change.commit().await?;
        Ok(())
    }
}
