//! Promises about lists and counts: pages add up to the whole list, and counts agree with it.

use outlive_core::id::InstanceNum;
use outlive_core::status::{Status, StatusKind};
use outlive_core::store::commit::{OnConflict, StartWrite, Write};
use outlive_core::store::query::{Counts, Filter, Page};

use super::world::{Checked, WAITING, World, at, cancel, ensure, in_words, json, name, released, same};

cases![
    empty_store_lists_and_counts_nothing,
    list_is_newest_first,
    pages_add_up_to_the_whole_list,
    last_page_is_marked_as_last,
    page_is_filled_with_matches,
    pages_stay_consistent_while_others_start_and_purge,
    page_before_a_removed_number_continues_below_it,
    counts_follow_every_change_of_status,
    counts_follow_purges_and_replacements,
    counts_are_correct_after_a_crash,
];

async fn page(w: &World, filter: &Filter, before: Option<InstanceNum>, limit: usize) -> Checked<Page> {
    in_words(w.store().list(filter, before, limit).await)
}

async fn count(w: &World, filter: &Filter) -> Checked<Counts> {
    in_words(w.store().count(filter).await)
}

/// Returns the ids on all pages of this size.
async fn ids_by_page(w: &World, filter: &Filter, limit: usize) -> Checked<Vec<String>> {
    let (mut ids, mut before) = (Vec::new(), None);
    loop {
        let page = page(w, filter, before, limit).await?;
        ensure(page.instances.len() <= limit, || format!("{} on a page of {limit}", page.instances.len()))?;
        ids.extend(page.instances.iter().map(|instance| instance.id.to_string()));
        before = page.next;
        if before.is_none() {
            return Ok(ids);
        }
        ensure(ids.len() < 10_000, || "the pages never end".to_owned())?;
    }
}

fn numbered(range: impl Iterator<Item = usize>) -> Vec<String> {
    range.map(|i| format!("run {i}")).collect()
}

async fn start_numbered(w: &World, count: usize) -> Checked {
    let starts = numbered(0..count).iter().map(|id| Write::Start(w.new_start(id))).collect();
    w.batch(starts).await?;
    Ok(())
}

async fn empty_store_lists_and_counts_nothing(w: &mut World) -> Checked {
    same(&page(w, &Filter::runs(), None, 10).await?, &Page { instances: Vec::new(), next: None })?;
    same(&count(w, &Filter::runs()).await?.total(), &0)
}

async fn list_is_newest_first(w: &mut World) -> Checked {
    // By number, not by the time on the sender's clock.
    for (id, millis) in [("a", 30), ("b", 10), ("c", 20)] {
        w.start(&StartWrite { at: at(millis), ..w.new_start(id) }).await?;
    }
    same(&ids_by_page(w, &Filter::runs(), 10).await?, &["c", "b", "a"].map(str::to_owned).to_vec())?;
    same(&page(w, &Filter::runs(), None, 10).await?.instances[0], &w.held("c").await?)
}

async fn pages_add_up_to_the_whole_list(w: &mut World) -> Checked {
    start_numbered(w, 23).await?;
    for limit in [1, 2, 7, 22, 23, 24, 1_000] {
        same(&ids_by_page(w, &Filter::runs(), limit).await?, &numbered((0..23).rev()))?;
    }
    Ok(())
}

async fn last_page_is_marked_as_last(w: &mut World) -> Checked {
    start_numbered(w, 4).await?;
    let first = page(w, &Filter::runs(), None, 2).await?;
    same(&first.next, &first.instances.last().map(|instance| instance.num))?;
    let second = page(w, &Filter::runs(), first.next, 2).await?;
    same(&(second.instances.len(), second.next), &(2, None))
}

async fn page_is_filled_with_matches(w: &mut World) -> Checked {
    for i in 0..40 {
        let workflow = name(if i % 10 == 0 { "rare" } else { "common" });
        w.start(&StartWrite { workflow, ..w.new_start(&format!("run {i}")) }).await?;
    }
    let rare = Filter::runs().workflow("rare");
    same(&page(w, &rare, None, 3).await?.instances.len(), &3)?;
    same(&ids_by_page(w, &rare, 3).await?, &numbered((0..40).step_by(10).rev()))
}

async fn pages_stay_consistent_while_others_start_and_purge(w: &mut World) -> Checked {
    for id in numbered(0..10) {
        w.with_status(&id, Status::Completed).await?;
    }
    let first = page(w, &Filter::runs(), None, 4).await?;
    w.pending("new").await?;
    for id in ["run 9", "run 6", "run 5", "run 0"] {
        w.purge(id).await?;
    }
    let second = page(w, &Filter::runs(), first.next, 4).await?;
    let ids: Vec<String> = second.instances.iter().map(|instance| instance.id.to_string()).collect();
    same(&ids, &["run 4", "run 3", "run 2", "run 1"].map(str::to_owned).to_vec())?;
    same(&second.next, &None)
}

async fn page_before_a_removed_number_continues_below_it(w: &mut World) -> Checked {
    for id in numbered(0..6) {
        w.with_status(&id, Status::Failed).await?;
    }
    let gone = w.held("run 3").await?.num;
    w.purge("run 3").await?;
    let rest = page(w, &Filter::runs(), Some(gone), 10).await?;
    same(&rest.instances.iter().map(|instance| instance.id.to_string()).collect(), &numbered((0..3).rev()))
}

/// Checks that the counts by status are these and no others.
async fn counts(w: &World, want: &[(StatusKind, u64)]) -> Checked {
    let found = count(w, &Filter::runs()).await?;
    for kind in StatusKind::ALL {
        let wanted = want.iter().find(|(of, _)| *of == kind).map_or(0, |(_, count)| *count);
        same(&(kind, found.of(kind)), &(kind, wanted))?;
    }
    same(&found.total(), &want.iter().map(|(_, count)| count).sum())
}

async fn counts_follow_every_change_of_status(w: &mut World) -> Checked {
    let num = w.pending("a").await?;
    w.pending("b").await?;
    counts(w, &[(StatusKind::Pending, 2)]).await?;
    w.claim(&[num]).await?;
    counts(w, &[(StatusKind::Pending, 1), (StatusKind::Running, 1)]).await?;
    w.commit(&w.new_state(num, 0, released(WAITING))).await?;
    counts(w, &[(StatusKind::Pending, 1), (StatusKind::Waiting, 1)]).await?;
    w.commit(&w.new_state(num, 0, released(Status::Failed))).await?;
    counts(w, &[(StatusKind::Pending, 1), (StatusKind::Failed, 1)]).await?;
    w.reopen("a", at(5)).await?;
    counts(w, &[(StatusKind::Pending, 2)]).await?;
    w.commit(&w.new_state(num, 1, released(Status::Stuck))).await?;
    counts(w, &[(StatusKind::Pending, 1), (StatusKind::Stuck, 1)]).await?;
    w.send(&w.new_send("a", cancel("enough"))).await?;
    counts(w, &[(StatusKind::Pending, 1), (StatusKind::Cancelled, 1)]).await
}

async fn counts_follow_purges_and_replacements(w: &mut World) -> Checked {
    w.with_status("a", Status::Completed).await?;
    w.with_status("b", Status::Completed).await?;
    w.driven("c").await?;
    w.purge("a").await?;
    counts(w, &[(StatusKind::Completed, 1), (StatusKind::Running, 1)]).await?;
    for id in ["b", "c"] {
        let start = StartWrite { on_conflict: OnConflict::Replace, input: json("2"), ..w.new_start(id) };
        w.start(&start).await?;
    }
    counts(w, &[(StatusKind::Pending, 2)]).await
}

async fn counts_are_correct_after_a_crash(w: &mut World) -> Checked {
    start_numbered(w, 5).await?;
    w.with_status("a", Status::Completed).await?;
    w.driven("b").await?;
    w.restart(at(2_000)).await?;
    counts(w, &[(StatusKind::Pending, 5), (StatusKind::Completed, 1), (StatusKind::Running, 1)]).await
}
