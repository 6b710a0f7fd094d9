//! The columns of the index that searches filter by.

use std::sync::Arc;

use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;

use super::inner_calls::inner_ids;
use super::query::Query;
use super::record::{AdminRecord, CallIntent};

/// The action of the act that deletes an organization.
pub const ORGANIZATION_DELETE: &str = "organization.delete";

/// Organization or tool of a row that sums all of them.
pub(crate) const ALL: &str = "";

macro_rules! row_keys {
    ($($column:ident)+) => {
        /// The columns that searches filter by, which an effect takes from its call.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub(crate) struct RowKeys {
            $(pub(crate) $column: Option<Arc<str>>,)+
        }

        impl RowKeys {
            /// The columns of a row.
            pub(crate) fn from_row(row: &SqliteRow) -> Self {
                let text = |column: &str| row.get::<Option<&str>, _>(column).map(Arc::from);
                Self { $($column: text(stringify!($column)),)+ }
            }

            fn columns_fit(&self, query: &Query) -> bool {
                true $(&& (query.$column.is_none() || query.$column.as_deref() == self.$column.as_deref()))+
            }
        }
    };
}

row_keys!(organization agent session call tool user principal action);

impl From<&CallIntent<'_>> for RowKeys {
    fn from(intent: &CallIntent<'_>) -> Self {
        let text = |text: &str| Some(Arc::from(text));
        Self {
            organization: text(&intent.organization),
            agent: text(&intent.agent),
            session: text(&intent.session),
            call: text(&intent.call),
            tool: text(&intent.tool),
            user: intent.user.as_deref().and_then(text),
            principal: text(&intent.principal),
            action: None,
        }
    }
}

impl From<&AdminRecord<'_>> for RowKeys {
    fn from(act: &AdminRecord<'_>) -> Self {
        Self {
            organization: act.organization.as_deref().map(Arc::from),
            principal: Some(Arc::from(&*act.principal)),
            action: Some(Arc::from(&*act.action)),
            ..Self::default()
        }
    }
}

impl RowKeys {
    /// Organization, agent and tool of a call.
    pub(crate) fn of_call(&self) -> Option<(Arc<str>, Arc<str>, Arc<str>)> {
        Some((self.organization.clone()?, self.agent.clone()?, self.tool.clone()?))
    }

    /// Keys of the same call that name no organization.
    pub(crate) fn of_platform(&self) -> Self {
        Self { organization: Some(ALL.into()), ..self.clone() }
    }

    /// The organization that an act deletes.
    pub(crate) fn deleted_organization(&self) -> Option<&Arc<str>> {
        self.organization.as_ref().filter(|_| self.action.as_deref() == Some(ORGANIZATION_DELETE))
    }

    /// Whether they fit a query, but for its outcome, kind and times.
    pub(crate) fn fit(&self, query: &Query) -> bool {
        self.columns_fit(query)
            && query.parent.as_deref().is_none_or(|parent| {
                let (first, after) = inner_ids(parent);
                self.call.as_deref().is_some_and(|call| first.as_str() <= call && call < after.as_str())
            })
    }

    /// The user of the call.
    pub(crate) fn user(&self) -> Option<&Arc<str>> {
        self.user.as_ref()
    }
}
