//! Promises about what runs give out: values, streams, answers, and the ends of attempts that appended.

use outlive_core::id::{Epoch, InstanceNum};
use outlive_core::output::{AppendedBy, Output, OutputContent, OutputKey, OutputKind, OutputRead, OutputWrite};
use outlive_core::payload::Payload;
use outlive_core::status::Status;
use outlive_core::store::commit::{Answer, Commit, Refusal, Write};

use super::world::{Checked, NOW, World, at, ensure, in_words, name, released, same};

cases![
    output_is_stored_with_its_commit,
    value_replaces_the_last_one_of_its_name,
    items_are_numbered_from_0_in_each_stream,
    item_past_the_limit_refuses_the_whole_commit,
    repeated_commit_gives_out_once,
    output_of_an_attempt_is_fenced,
    outputs_are_read_in_pages,
    items_of_attempts_are_judged_by_how_they_ended,
    item_of_an_attempt_without_end_is_failed_once_nobody_drives_it,
    answers_are_found_by_their_question,
    purged_run_leaves_no_outputs,
];

fn value(version: u64, json: &str) -> OutputContent {
    OutputContent::Value { name: name("state"), version, payload: Payload::recorded(json) }
}

fn item(stream: &str, json: &str) -> OutputContent {
    OutputContent::Item { name: name(stream), payload: Payload::recorded(json), origin: None, max_items: 3 }
}

fn said(json: &str, attempt: u32) -> OutputContent {
    let (payload, origin) = (Payload::recorded(json), Some(AppendedBy { op: "step:say".into(), attempt }));
    OutputContent::Item { name: name("log"), payload, origin, max_items: 100 }
}

fn end(attempt: u32, is_kept: bool) -> OutputContent {
    OutputContent::AttemptEnd { origin: AppendedBy { op: "step:say".into(), attempt }, is_kept }
}

fn write(w: &World, num: InstanceNum, content: OutputContent) -> Write {
    Write::Output(OutputWrite { num, epoch: w.epoch, content, at: NOW, token: w.token() }.into())
}

/// Commits outputs with one entry.
async fn give(w: &World, num: InstanceNum, contents: Vec<OutputContent>) -> Checked<Answer> {
    let writes = contents.into_iter().map(|content| write(w, num, content)).collect();
    let seq = w.journal(num).await?.len() as u64;
    w.commit(&Commit { writes, ..w.new_commit(num, seq, 1) }).await
}

async fn read(w: &World, num: InstanceNum, kind: OutputKind, of: &str, from: u64) -> Checked<Vec<Output>> {
    let name = outlive_core::id::Name::recorded(of);
    in_words(w.store().outputs(num, OutputRead::Of { kind, name, from }, 100).await)
}

async fn shown(w: &World, num: InstanceNum, kind: OutputKind, of: &str) -> Checked<Vec<(u64, String)>> {
    let found = read(w, num, kind, of, 0).await?;
    Ok(found.into_iter().map(|output| (output.key.item, output.payload.to_string())).collect())
}

fn pairs(expected: &[(u64, &str)]) -> Vec<(u64, String)> {
    expected.iter().map(|(item, json)| (*item, (*json).to_owned())).collect()
}

async fn output_is_stored_with_its_commit(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    let answer = give(w, num, vec![value(1, "1"), item("log", "2")]).await?;
    let is_so = matches!(&answer, Answer::DoneWith(answers)
        if matches!(answers[..], [Answer::Given { item: 1, .. }, Answer::Given { item: 0, .. }]));
    ensure(is_so, || format!("{answer:?}"))?;
    w.restart(at(0)).await?;
    same(&shown(w, num, OutputKind::Value, "state").await?, &pairs(&[(1, "1")]))?;
    same(&shown(w, num, OutputKind::Item, "log").await?, &pairs(&[(0, "2")]))?;
    let found = read(w, num, OutputKind::Item, "log", 0).await?;
    same(&(found[0].at, found[0].origin.clone(), found[0].is_failed), &(NOW, None, false))
}

async fn value_replaces_the_last_one_of_its_name(w: &mut World) -> Checked {
    let (num, other) = (w.driven("a").await?, w.driven("b").await?);
    give(w, other, vec![value(1, "9")]).await?;
    for version in 1..=3 {
        give(w, num, vec![value(version, &version.to_string())]).await?;
    }
    same(&shown(w, num, OutputKind::Value, "state").await?, &pairs(&[(3, "3")]))?;
    same(&shown(w, other, OutputKind::Value, "state").await?, &pairs(&[(1, "9")]))?;
    same(&read(w, num, OutputKind::Value, "state", 4).await?, &Vec::new())
}

async fn items_are_numbered_from_0_in_each_stream(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    give(w, num, vec![item("one", "1"), item("two", "2"), item("one", "3")]).await?;
    give(w, num, vec![item("one", "4")]).await?;
    same(&shown(w, num, OutputKind::Item, "one").await?, &pairs(&[(0, "1"), (1, "3"), (2, "4")]))?;
    same(&shown(w, num, OutputKind::Item, "two").await?, &pairs(&[(0, "2")]))?;
    same(&read(w, num, OutputKind::Item, "one", 2).await?.len(), &1)
}

async fn item_past_the_limit_refuses_the_whole_commit(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    let three = vec![item("log", "1"), item("log", "2"), item("log", "3")];
    give(w, num, three.clone()).await?;
    let refusal = Refusal::Full { max_items: 3 };
    let answer = give(w, num, vec![value(2, "1"), item("log", "4")]).await?;
    same(&answer, &Answer::WriteRefused { index: 1, refusal: refusal.clone() })?;
    same(&(w.journal(num).await?.len(), shown(w, num, OutputKind::Value, "state").await?.len()), &(1, 0))?;
    same(&w.write(write(w, num, item("log", "4"))).await?, &Answer::Refused(refusal))?;
    same(&shown(w, num, OutputKind::Item, "log").await?.len(), &3)
}

async fn repeated_commit_gives_out_once(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    let contents = [value(1, "1"), item("log", "2"), item("log", "2"), end(1, true)];
    let writes = contents.map(|content| write(w, num, content)).to_vec();
    let commit = Commit { writes, ..w.new_commit(num, 0, 1) };
    let first = w.commit(&commit).await?;
    same(&w.commit(&commit).await?, &first)?;
    same(&shown(w, num, OutputKind::Item, "log").await?, &pairs(&[(0, "2"), (1, "2")]))
}

async fn output_of_an_attempt_is_fenced(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    let fine = w.write(write(w, num, said("1", 1))).await?;
    same(&fine, &Answer::Given { num, item: 0 })?;
    let stale = write(w, num, said("2", 1));
    w.restart(at(0)).await?;
    same(&w.write(stale).await?, &Answer::Fenced)?;
    same(&w.write(write(w, InstanceNum(99), said("3", 1))).await?, &Answer::Fenced)?;
    for status in [Status::Completed, Status::Stuck] {
        let ended = w.with_status(&format!("{status}"), status).await?;
        same(&w.write(write(w, ended, said("4", 1))).await?, &Answer::Fenced)?;
    }
    same(&shown(w, num, OutputKind::Item, "log").await?, &pairs(&[(0, "1")]))
}

async fn outputs_are_read_in_pages(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    give(w, num, vec![item("b", "1"), value(1, "2"), item("a", "3"), item("b", "4"), end(1, false)]).await?;
    let (mut keys, mut after) = (Vec::new(), None);
    loop {
        let page = in_words(w.store().outputs(num, OutputRead::All { after }, 2).await)?;
        ensure(page.len() <= 2, || format!("{} outputs on a page of 2", page.len()))?;
        let Some(last) = page.last() else { break };
        after = Some(last.key.clone());
        keys.extend(page.into_iter().map(|output| output.key));
    }
    let key = |kind, of: &str, item| OutputKey { kind, name: outlive_core::id::Name::recorded(of), item };
    let expected = [
        key(OutputKind::Value, "state", 1),
        key(OutputKind::Item, "a", 0),
        key(OutputKind::Item, "b", 0),
        key(OutputKind::Item, "b", 1),
        key(OutputKind::AttemptEnd, "step:say", 1),
    ];
    same(&keys, &expected.to_vec())?;
    same(&in_words(w.store().outputs(InstanceNum(99), OutputRead::All { after: None }, 9).await)?, &Vec::new())
}

async fn items_of_attempts_are_judged_by_how_they_ended(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    for attempt in 1..=3 {
        w.write(write(w, num, said(&attempt.to_string(), attempt))).await?;
    }
    give(w, num, vec![end(1, false)]).await?;
    give(w, num, vec![end(2, true)]).await?;
    let found = read(w, num, OutputKind::Item, "log", 0).await?;
    let seen: Vec<_> = found.iter().map(|output| output.is_failed).collect();
    same(&seen, &vec![true, false, false])?;
    same(&found[2].origin, &Some(AppendedBy { op: "step:say".into(), attempt: 3 }))
}

async fn item_of_an_attempt_without_end_is_failed_once_nobody_drives_it(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    w.write(write(w, num, said("1", 1))).await?;
    same(&read(w, num, OutputKind::Item, "log", 0).await?[0].is_failed, &false)?;
    let before: Epoch = w.epoch;
    w.restart(at(0)).await?;
    let found = read(w, num, OutputKind::Item, "log", 0).await?;
    same(&(found[0].is_failed, found[0].epoch), &(true, before))
}

async fn answers_are_found_by_their_question(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    let answer = |question, json| OutputContent::Answer { question, payload: Payload::recorded(json) };
    give(w, num, vec![answer(7, "1"), answer(4, "2")]).await?;
    same(&shown(w, num, OutputKind::Answer, "").await?, &pairs(&[(4, "2"), (7, "1")]))
}

async fn purged_run_leaves_no_outputs(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    give(w, num, vec![value(1, "1"), item("log", "2")]).await?;
    same(&w.commit(&w.new_state(num, 1, released(Status::Completed))).await?, &Answer::Done)?;
    same(&shown(w, num, OutputKind::Item, "log").await?.len(), &1)?;
    same(&w.write(Write::Purge(name("a"), None)).await?, &Answer::Done)?;
    same(&shown(w, num, OutputKind::Item, "log").await?.len(), &0)?;
    let again = w.driven("a").await?;
    same(&shown(w, again, OutputKind::Value, "state").await?.len(), &0)
}
