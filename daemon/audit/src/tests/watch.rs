//! Calls for those who watch.

use sqlx::{ConnectOptions, Connection};
use toolgate_api::usage::UsageBy;

use super::*;

/// Waits until everything is indexed, and returns the names of what is new.
async fn look(audit: &Audit, watch: &CallWatch) -> (Vec<String>, u64) {
    audit.search(&Query::default()).await.expect("the index answers");
    let new = audit.new_calls(watch).await.expect("the index answers");
    let name = |row: &Row| {
        let call = row.call.as_ref().expect("a call");
        format!("{} {:?}", call.call, row.status.expect("a status"))
    };
    (new.rows.iter().map(name).collect(), new.matching)
}

#[tokio::test]
async fn o6_a_watch_sees_each_call_that_begins_or_ends() {
    let log = TestLog::new();
    let audit = log.start().await;
    call(&audit, "before").await;
    audit.search(&Query::default()).await.expect("the index answers");
    let watch = audit.watch_calls(&Query { organization: Some("acme".into()), ..Query::default() }, 3);
    assert_eq!(look(&audit, &watch).await, (vec![], 0));

    let slow = audit.open(intent("slow")).expect("it is taken");
    slow.sync().await.expect("it is on disk");
    let foreign = CallIntent { organization: "globex".into(), ..intent("foreign") };
    let foreign = audit.open(foreign).expect("it is taken");
    audit.close(foreign, success()).await.expect("it is on disk");
    perform(&audit, "agent.put", None).await;
    assert_eq!(look(&audit, &watch).await, (vec!["slow Running".to_owned()], 1));

    call(&audit, "quick").await;
    audit.close(slow, failure("TOOL_FAILED")).await.expect("it is on disk");
    let both = vec!["quick Ok".to_owned(), "slow Error".to_owned()];
    assert_eq!(look(&audit, &watch).await, (both, 2));
    assert_eq!(look(&audit, &watch).await, (vec![], 0));
}

#[tokio::test]
async fn o6_a_watch_by_outcome_sees_a_call_that_ends_later_and_counts_what_it_leaves_out() {
    let log = TestLog::new();
    let audit = log.start().await;
    let query = Query { status: Some(Status::Error), ..Query::default() };
    let watch = audit.watch_calls(&query, 3);
    let slow = audit.open(intent("slow")).expect("it is taken");
    slow.sync().await.expect("it is on disk");
    call(&audit, "fine").await;
    assert_eq!(look(&audit, &watch).await, (vec![], 0));
    audit.close(slow, failure("TOOL_FAILED")).await.expect("it is on disk");
    assert_eq!(look(&audit, &watch).await, (vec!["slow Error".to_owned()], 1));

    for number in 0..5 {
        let entry = audit.open(intent(["a", "b", "c", "d", "e"][number])).expect("it is taken");
        audit.close(entry, failure("TOOL_FAILED")).await.expect("it is on disk");
    }
    let newest = ["e", "d", "c"].map(|name| format!("{name} Error")).to_vec();
    assert_eq!(look(&audit, &watch).await, (newest, 5));
    let count = async |query: &Query| audit.count_calls_after(query, 0).await.expect("the index answers");
    assert_eq!(count(&query).await, 6, "after a break");
    assert_eq!(count(&Query { organization: Some("globex".into()), ..query }).await, 0);
}

#[tokio::test]
async fn o6_a_call_that_begins_and_ends_between_two_looks_is_one() {
    let log = TestLog::new();
    let audit = log.start().await;
    let (all, ended) = (Query::default(), Query { status: Some(Status::Ok), ..Query::default() });
    let watches = [all, ended].map(|query| audit.watch_calls(&query, 3));
    let slow = audit.open(intent("slow")).expect("it is taken");
    slow.sync().await.expect("it is on disk");
    // A batch ends here, without a look.
    audit.search(&Query::default()).await.expect("the index answers");
    audit.close(slow, success()).await.expect("it is on disk");
    for watch in &watches {
        assert_eq!(look(&audit, watch).await, (vec!["slow Ok".to_owned()], 1));
    }
}

type Change = fn(&mut Query, Option<String>);

#[tokio::test]
async fn o6_a_watch_filters_by_every_column_as_a_search_does() {
    let log = TestLog::new();
    let audit = log.start().await;
    let own = intent("outer #1");
    let text = |text: &str| Some(text.to_owned());
    let query = |change: Change, value: &str| {
        let mut query = Query { kind: Some(Kind::Call), ..Query::default() };
        change(&mut query, text(value));
        query
    };
    let columns: [(Change, &str); 8] = [
        (|query, text| query.organization = text, &own.organization),
        (|query, text| query.agent = text, &own.agent),
        (|query, text| query.session = text, &own.session),
        (|query, text| query.call = text, &own.call),
        (|query, text| query.tool = text, &own.tool),
        (|query, text| query.user = text, "u1"),
        (|query, text| query.principal = text, &own.principal),
        (|query, text| query.parent = text, "outer"),
    ];
    let queries = columns.map(|(change, value)| [query(change, value), query(change, "other")]).concat();
    let watches: Vec<_> = queries.iter().map(|query| audit.watch_calls(query, 3)).collect();
    call(&audit, "outer #1").await;
    for (at, (query, watch)) in queries.iter().zip(&watches).enumerate() {
        let found = audit.search(query).await.expect("the index answers").rows.len();
        assert_eq!((found, look(&audit, watch).await.0.len()), (1 - at % 2, 1 - at % 2), "{query:?}");
    }
}

#[tokio::test]
async fn o6_an_index_without_rates_keeps_its_sums() {
    bring_up_to_date("DROP TABLE rates;").await;
}

#[tokio::test]
async fn o6_an_index_with_rates_of_an_earlier_time_begins_them_anew() {
    bring_up_to_date("").await;
}

/// Starts on an index of the version before, which this SQL makes of one that has rates.
async fn bring_up_to_date(earlier: &str) {
    let log = TestLog::new();
    let audit = log.start().await;
    let usage = Usage { fuel: 7, duration_us: 5, ..Usage::default() };
    let entry = audit.open(intent("before")).expect("it is taken");
    audit.close(entry, CallOutcome { usage, ..success() }).await.expect("it is on disk");
    audit.search(&Query::default()).await.expect("the index answers");
    drop(audit);
    let mut file = index::options(&log.settings().index).connect().await.expect("the index opens");
    // The sums are other ones than those of the log, as if its older part was cut.
    let earlier = format!(
        "{earlier} DROP INDEX rows_not_ok; DROP INDEX rows_of_acts; UPDATE usage SET fuel = 1000; PRAGMA user_version = 4;"
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(earlier))
        .execute(&mut file)
        .await
        .expect("the tables of the version before");
    file.close().await.expect("it closes");

    let audit = log.start().await;
    call(&audit, "after").await;
    let by = vec![UsageBy::Organization];
    let report = audit.usage(&UsageQuery { by, ..UsageQuery::default() }).await.expect("the index answers");
    assert_eq!(report.expect("a short report")[0].fuel, 1000, "the index was rebuilt");
    let query = RateQuery { span: RateSpan::Day, since_ms: 0, organization: None, tool: None };
    let rates = audit.rates(&query).await.expect("the index answers");
    assert_eq!(rates.iter().map(|(_, sums)| sums.calls).sum::<u64>(), 1);
}
