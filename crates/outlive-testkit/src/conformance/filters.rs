//! Promises about filters: they match exactly what [`Filter::matches`] says.

use std::collections::BTreeMap;

use outlive_core::origin::RunOrigin;
use outlive_core::status::{Status, StatusKind};
use outlive_core::store::commit::StartWrite;
use outlive_core::store::query::{Filter, Instance};
use outlive_core::time::Timestamp;

use super::world::{Checked, World, at, in_words, name, released, same};
use crate::random::Random;

cases![
    workflow_filter_matches_the_whole_name,
    filters_match_runs_unless_jobs_are_requested,
    any_of_the_statuses_matches,
    prefix_is_taken_literally,
    prefix_is_case_sensitive,
    prefix_may_end_anywhere_in_unicode_text,
    empty_prefix_matches_everything,
    all_tags_must_match,
    tags_are_compared_literally,
    version_filter_matches_the_whole_version,
    time_range_includes_its_start_and_excludes_its_end,
    time_range_may_span_all_of_time,
    lists_and_counts_agree_with_a_scan_for_random_filters,
];

/// Returns the ids that match, sorted; list and count must agree.
async fn matching(w: &World, filter: &Filter) -> Checked<Vec<String>> {
    let page = in_words(w.store().list(filter, None, 100_000).await)?;
    let counts = in_words(w.store().count(filter).await)?;
    for kind in StatusKind::ALL {
        let listed = page.instances.iter().filter(|instance| instance.status.kind() == kind).count() as u64;
        same(&(kind, counts.of(kind)), &(kind, listed))?;
    }
    let mut ids: Vec<String> = page.instances.iter().map(|instance| instance.id.to_string()).collect();
    ids.sort();
    Ok(ids)
}

async fn means(w: &World, filter: &Filter, want: &[&str]) -> Checked {
    let mut want: Vec<String> = want.iter().map(|id| (*id).to_owned()).collect();
    want.sort();
    same(&matching(w, filter).await?, &want)
}

async fn start_all(w: &World, ids: &[&str]) -> Checked {
    for id in ids {
        w.pending(id).await?;
    }
    Ok(())
}

async fn workflow_filter_matches_the_whole_name(w: &mut World) -> Checked {
    for (id, workflow) in [("a", "check"), ("b", "checkout"), ("c", "Checkout"), ("d", "check%")] {
        w.start(&StartWrite { workflow: name(workflow), ..w.new_start(id) }).await?;
    }
    means(w, &Filter::runs().workflow("check"), &["a"]).await?;
    means(w, &Filter::runs().workflow("checkout"), &["b"]).await?;
    means(w, &Filter::runs().workflow("check%"), &["d"]).await?;
    means(w, &Filter::runs().workflow(""), &[]).await
}

async fn filters_match_runs_unless_jobs_are_requested(w: &mut World) -> Checked {
    let runs = ["checkout", "task", "taskorders", "Task:orders", "tasks:orders", "_ask:orders", "a task:orders"];
    let jobs = ["task:orders", "continuous:beat", "debounce:hooks", "pool:mail", "pool::"];
    for workflow in runs.into_iter().chain(jobs) {
        w.start(&StartWrite { workflow: name(workflow), ..w.new_start(workflow) }).await?;
    }
    let all: Vec<&str> = runs.into_iter().chain(jobs).collect();
    means(w, &Filter::runs(), &runs).await?;
    means(w, &Filter::jobs(), &jobs).await?;
    means(w, &Filter::all(), &all).await?;
    let names: Vec<String> = in_words(w.store().jobs().await)?.iter().map(ToString::to_string).collect();
    same(
        &names,
        &["continuous:beat", "debounce:hooks", "pool::", "pool:mail", "task:orders"].map(str::to_owned).to_vec(),
    )?;
    means(w, &Filter::jobs().workflow("task:orders"), &["task:orders"]).await?;
    means(w, &Filter::runs().workflow("task:orders"), &[]).await?;
    means(w, &Filter::jobs().id_prefix("pool:"), &["pool:mail", "pool::"]).await?;
    means(w, &Filter::jobs().status(StatusKind::Pending), &jobs).await?;
    means(w, &Filter::runs().status(StatusKind::Pending).id_prefix("task"), &["task", "taskorders", "tasks:orders"])
        .await
}

async fn any_of_the_statuses_matches(w: &mut World) -> Checked {
    w.pending("pending").await?;
    w.with_status("completed", Status::Completed).await?;
    w.with_status("stuck", Status::Stuck).await?;
    means(w, &Filter::runs().status(StatusKind::Stuck), &["stuck"]).await?;
    let two = Filter::runs().status(StatusKind::Stuck).status(StatusKind::Pending).status(StatusKind::Stuck);
    means(w, &two, &["stuck", "pending"]).await?;
    means(w, &Filter::runs().status(StatusKind::Sleeping), &[]).await
}

async fn prefix_is_taken_literally(w: &mut World) -> Checked {
    start_all(w, &["a%b", "a_b", "axb", "a\\b", "a*b", "a?b", "a[b", "a'b", "a\"b", "%", "_"]).await?;
    means(w, &Filter::runs().id_prefix("a%"), &["a%b"]).await?;
    means(w, &Filter::runs().id_prefix("a_"), &["a_b"]).await?;
    means(w, &Filter::runs().id_prefix("a\\"), &["a\\b"]).await?;
    means(w, &Filter::runs().id_prefix("a*"), &["a*b"]).await?;
    means(w, &Filter::runs().id_prefix("a?"), &["a?b"]).await?;
    means(w, &Filter::runs().id_prefix("a["), &["a[b"]).await?;
    means(w, &Filter::runs().id_prefix("a'"), &["a'b"]).await?;
    means(w, &Filter::runs().id_prefix("%"), &["%"]).await?;
    means(w, &Filter::runs().id_prefix("a%b and more"), &[]).await
}

async fn prefix_is_case_sensitive(w: &mut World) -> Checked {
    start_all(w, &["Order-1", "order-2", "ORDER-3", "ÄB", "äb"]).await?;
    means(w, &Filter::runs().id_prefix("order"), &["order-2"]).await?;
    means(w, &Filter::runs().id_prefix("Order"), &["Order-1"]).await?;
    means(w, &Filter::runs().id_prefix("ä"), &["äb"]).await
}

async fn prefix_may_end_anywhere_in_unicode_text(w: &mut World) -> Checked {
    let ids = ["ü", "ü1", "üü", "u\u{308}1", "\u{10ffff}", "\u{10ffff}\u{10ffff}", "\u{ffff}x", "🦀", "🦀1", "🦁"];
    start_all(w, &ids).await?;
    means(w, &Filter::runs().id_prefix("ü"), &["ü", "ü1", "üü"]).await?;
    means(w, &Filter::runs().id_prefix("u"), &["u\u{308}1"]).await?;
    means(w, &Filter::runs().id_prefix("🦀"), &["🦀", "🦀1"]).await?;
    means(w, &Filter::runs().id_prefix("\u{ffff}"), &["\u{ffff}x"]).await?;
    means(w, &Filter::runs().id_prefix("\u{10ffff}"), &["\u{10ffff}", "\u{10ffff}\u{10ffff}"]).await?;
    means(w, &Filter::runs().id_prefix("\u{d7ff}"), &[]).await
}

async fn empty_prefix_matches_everything(w: &mut World) -> Checked {
    start_all(w, &["a", "🦀"]).await?;
    means(w, &Filter::runs().id_prefix(""), &["a", "🦀"]).await
}

async fn start_tagged(w: &World, id: &str, tags: &[(&str, &str)]) -> Checked {
    let tags = tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    w.start(&StartWrite { tags, ..w.new_start(id) }).await?;
    Ok(())
}

async fn all_tags_must_match(w: &mut World) -> Checked {
    start_tagged(w, "a", &[("shop", "paris"), ("size", "big")]).await?;
    start_tagged(w, "b", &[("shop", "paris")]).await?;
    start_tagged(w, "c", &[("shop", "rome"), ("size", "big")]).await?;
    start_tagged(w, "d", &[]).await?;
    means(w, &Filter::runs().tag("shop", "paris"), &["a", "b"]).await?;
    means(w, &Filter::runs().tag("shop", "paris").tag("size", "big"), &["a"]).await?;
    means(w, &Filter::runs().tag("shop", "paris").tag("size", "small"), &[]).await?;
    means(w, &Filter::runs().tag("colour", "red"), &[]).await
}

async fn tags_are_compared_literally(w: &mut World) -> Checked {
    start_tagged(w, "a", &[("a.b", "x\"y"), ("$", "%"), ("", "no key")]).await?;
    start_tagged(w, "b", &[("a", "b"), ("é'", ""), ("%", "_"), ("n", "1")]).await?;
    means(w, &Filter::runs().tag("a.b", "x\"y"), &["a"]).await?;
    means(w, &Filter::runs().tag("$", "%"), &["a"]).await?;
    means(w, &Filter::runs().tag("", "no key"), &["a"]).await?;
    means(w, &Filter::runs().tag("é'", ""), &["b"]).await?;
    means(w, &Filter::runs().tag("n", "1"), &["b"]).await?;
    means(w, &Filter::runs().tag("n", "1.0"), &[]).await?;
    means(w, &Filter::runs().tag("A", "b"), &[]).await?;
    means(w, &Filter::runs().tag("b", "a"), &[]).await?;
    means(w, &Filter::runs().tag("%", "%"), &[]).await
}

async fn version_filter_matches_the_whole_version(w: &mut World) -> Checked {
    for (id, version) in [("a", "1"), ("b", "1.0"), ("c", "1%"), ("d", "1")] {
        let origin = RunOrigin::new(Some(name(version)), None);
        w.start(&StartWrite { origin, ..w.new_start(id) }).await?;
    }
    start_all(w, &["e"]).await?;
    means(w, &Filter::runs().version("1"), &["a", "d"]).await?;
    means(w, &Filter::runs().version("1.0"), &["b"]).await?;
    means(w, &Filter::runs().version("1%"), &["c"]).await?;
    means(w, &Filter::runs().version("1").id_prefix("d"), &["d"]).await?;
    means(w, &Filter::runs().version(""), &[]).await
}

async fn start_at(w: &World, id: &str, moment: Timestamp) -> Checked {
    w.start(&StartWrite { at: moment, ..w.new_start(id) }).await?;
    Ok(())
}

async fn time_range_includes_its_start_and_excludes_its_end(w: &mut World) -> Checked {
    for (id, millis) in [("a", -10), ("b", 0), ("c", 10), ("d", 20)] {
        start_at(w, id, at(millis)).await?;
    }
    means(w, &Filter::runs().created_from(at(0)), &["b", "c", "d"]).await?;
    means(w, &Filter::runs().created_before(at(10)), &["a", "b"]).await?;
    means(w, &Filter::runs().created_from(at(0)).created_before(at(20)), &["b", "c"]).await?;
    means(w, &Filter::runs().created_from(at(10)).created_before(at(10)), &[]).await
}

async fn time_range_may_span_all_of_time(w: &mut World) -> Checked {
    for (id, moment) in [("first", Timestamp::MIN), ("now", at(0)), ("last", Timestamp::MAX)] {
        start_at(w, id, moment).await?;
    }
    means(w, &Filter::runs().created_from(Timestamp::MIN), &["first", "now", "last"]).await?;
    means(w, &Filter::runs().created_from(Timestamp::MAX), &["last"]).await?;
    means(w, &Filter::runs().created_before(Timestamp::MAX), &["first", "now"]).await?;
    means(w, &Filter::runs().created_before(Timestamp::MIN), &[]).await
}

async fn lists_and_counts_agree_with_a_scan_for_random_filters(w: &mut World) -> Checked {
    let mut random = Random::new(11);
    for i in 0..80 {
        let tags: BTreeMap<String, String> = random.tags();
        let workflow = name(random.pick(&["checkout", "refund", "task:refund"]));
        let origin = random.origin();
        let start = StartWrite { tags, origin, workflow, at: at(random.below(20)), ..w.new_start(&random.id(i)) };
        w.start(&start).await?;
        let status = random.pick(&[Status::Completed, Status::Failed, Status::Stuck, Status::Running]);
        if random.is(2) {
            let num = w.held(start.id.as_str()).await?.num;
            w.commit(&w.new_state(num, 0, released(status))).await?;
        }
    }
    let all: Vec<Instance> = w.all().await?;
    for _ in 0..150 {
        let filter = random.filter();
        let mut want: Vec<String> =
            all.iter().filter(|instance| filter.matches(instance)).map(|instance| instance.id.to_string()).collect();
        want.sort();
        same(&(&filter, matching(w, &filter).await?), &(&filter, want))?;
    }
    Ok(())
}
