//! Promises about values at the edge of their range: kept exactly, or not accepted at all.

use outlive_core::id::LENGTH_MAX;
use outlive_core::journal::Entry;
use outlive_core::message::Message;
use outlive_core::payload::Payload;
use outlive_core::status::Status;
use outlive_core::store::commit::{Answer, Commit, NewState, SendWrite, StartWrite};
use outlive_core::store::query::Wake;
use outlive_core::time::Timestamp;

use super::world::{Checked, World, asleep, at, in_words, json, name, of_run, released, same, step_done};

cases![
    payload_of_a_mebibyte_is_kept_everywhere,
    extreme_timestamps_are_kept_everywhere,
    wakes_at_extreme_times_are_in_order,
    ids_in_any_script_are_distinct,
    id_may_be_as_long_as_a_name,
    json_text_is_kept_as_written,
    notes_and_tags_hold_any_text,
    seeds_and_tokens_keep_all_bits,
    journal_may_have_thousands_of_entries,
];

fn big(letter: &str) -> Payload {
    json(&format!("\"{}\"", letter.repeat(1_048_574 / letter.len())))
}

async fn payload_of_a_mebibyte_is_kept_everywhere(w: &mut World) -> Checked {
    let start = StartWrite { input: big("a"), owner: w.epoch, ..w.new_start("a") };
    w.start(&start).await?;
    let num = w.held("a").await?.num;
    w.send(&w.new_send("a", Message::Signal { name: name("big"), payload: big("é") })).await?;
    let entry = Entry { payload: Some(big("c")), ..of_run(1) };
    w.commit(&Commit { entries: vec![entry.clone()], ..w.new_commit(num, 0, 0) }).await?;
    let message = w.inbox(num).await?.remove(0).message;
    same(&message, &Message::Signal { name: name("big"), payload: big("é") })?;
    w.commit(&w.new_state(num, 1, NewState { outcome: Some(big("d")), ..released(Status::Completed) })).await?;
    w.restart(at(2_000)).await?;
    let held = w.held("a").await?;
    same(&(held.input, held.outcome), &(big("a"), Some(big("d"))))?;
    same(&w.journal(num).await?, &vec![entry])
}

async fn extreme_timestamps_are_kept_everywhere(w: &mut World) -> Checked {
    for (id, end, other) in [("a", Timestamp::MIN, Timestamp::MAX), ("b", Timestamp::MAX, Timestamp::MIN)] {
        w.start(&StartWrite { at: end, due: other, ..w.new_start(id) }).await?;
        let held = w.held(id).await?;
        same(&(held.created_at, held.wake), &(end, Some(other)))?;
        w.send(&SendWrite { at: end, ..w.new_send(id, Message::Pause) }).await?;
        same(&w.inbox(held.num).await?[0].at, &end)?;
        let entry = Entry { at: end, started: Some(other), due: Some(end), ..of_run(1) };
        let status = Status::Sleeping { until: end };
        let state = Some(NewState { status, ..asleep(end) });
        w.commit(&Commit { entries: vec![entry.clone()], state, ..w.new_commit(held.num, 0, 0) }).await?;
        same(&w.journal(held.num).await?, &vec![entry])?;
        same(&(w.held(id).await?.status, w.held(id).await?.wake), &(status, Some(end)))?;
        w.commit(&w.new_state(held.num, 1, NewState { at: other, ..released(Status::Failed) })).await?;
        same(&w.held(id).await?.ended_at, &Some(other))?;
        w.reopen(id, end).await?;
        same(&w.held(id).await?.wake, &Some(end))?;
    }
    Ok(())
}

async fn wakes_at_extreme_times_are_in_order(w: &mut World) -> Checked {
    let mut want = Vec::new();
    for (id, due) in [("a", Timestamp::MAX), ("b", at(0)), ("c", Timestamp::MIN), ("d", at(-1))] {
        w.start(&StartWrite { due, ..w.new_start(id) }).await?;
        want.push(Wake { due, num: w.held(id).await?.num });
    }
    want.sort();
    same(&w.wakes().await?, &want)?;
    same(&in_words(w.store().wakes(Timestamp::MIN, 10).await)?, &want[..1].to_vec())
}

async fn ids_in_any_script_are_distinct(w: &mut World) -> Checked {
    let ids = [
        "a",
        "A",
        "a ",
        " a",
        "á",
        "a\u{301}",
        "ａ",
        "ß",
        "ss",
        "ﬁ",
        "fi",
        "İ",
        "i",
        "日本",
        "🦀",
        "\u{200b}",
        "👩‍👩‍👧",
        "'",
        "\"",
        "%",
        "\\",
        ";--",
        "null",
        "0",
        "00",
        "1e3",
        "\u{10ffff}",
    ];
    for id in ids {
        w.pending(id).await?;
    }
    for id in ids {
        same(&w.held(id).await?.id.as_str(), &id)?;
    }
    same(&w.all().await?.len(), &ids.len())
}

async fn id_may_be_as_long_as_a_name(w: &mut World) -> Checked {
    let (long, other) = ("x".repeat(LENGTH_MAX), format!("{}y", "x".repeat(LENGTH_MAX - 1)));
    let (first, second) = (w.pending(&long).await?, w.pending(&other).await?);
    same(&(w.held(&long).await?.num, w.held(&other).await?.num), &(first, second))
}

async fn json_text_is_kept_as_written(w: &mut World) -> Checked {
    let texts = [
        "null",
        "true",
        "\"\"",
        "{}",
        "[ 1 ,\t2 ]",
        "1.0",
        "1e400",
        "123456789012345678901234567890",
        "{\"b\":1,\"a\":2}",
        "{\"a\":1,\"a\":2}",
        "\"\\u0000\\ud83e\\udd80\"",
        "\"ü🦀\"",
    ];
    for (i, text) in texts.into_iter().enumerate() {
        let id = format!("run {i}");
        w.start(&StartWrite { input: json(text), ..w.new_start(&id) }).await?;
        let held = w.held(&id).await?;
        same(&held.input, &json(text))?;
        let entry = Entry { payload: Some(json(text)), ..of_run(1) };
        w.commit(&Commit { entries: vec![entry.clone()], ..w.new_commit(held.num, 0, 0) }).await?;
        same(&w.journal(held.num).await?, &vec![entry])?;
    }
    Ok(())
}

async fn notes_and_tags_hold_any_text(w: &mut World) -> Checked {
    let text = "line one\nline two\t\"quoted\" 'single' \\ % é 🦀 \u{7f}";
    let tags = [(text.to_owned(), text.to_owned()), ("plain".to_owned(), text.repeat(50))].into();
    let start = StartWrite { tags, owner: w.epoch, ..w.new_start("a") };
    w.start(&start).await?;
    let num = w.held("a").await?.num;
    let note = Some(text.repeat(100));
    w.commit(&w.new_state(num, 0, NewState { note: note.clone(), ..released(Status::Stuck) })).await?;
    let held = w.held("a").await?;
    same(&(held.tags, held.note), &(start.tags, note))
}

async fn seeds_and_tokens_keep_all_bits(w: &mut World) -> Checked {
    for (i, bits) in [0, 1, u64::MAX, i64::MAX as u64, 1 << 63].into_iter().enumerate() {
        let id = format!("run {i}");
        let start = StartWrite { seed: bits, token: bits, ..w.new_start(&id) };
        let first = w.start(&start).await?;
        let held = w.held(&id).await?;
        same(&held.seed, &bits)?;
        same(&w.start(&start).await?, &first)?;
        let send = SendWrite { token: bits, ..w.new_send(&id, Message::Pause) };
        let first = w.send(&send).await?;
        same(&w.send(&send).await?, &first)?;
        same(&w.inbox(held.num).await?.len(), &1)?;
    }
    Ok(())
}

async fn journal_may_have_thousands_of_entries(w: &mut World) -> Checked {
    let num = w.driven("a").await?;
    for seq_before in [0, 2_000] {
        same(&w.commit(&w.new_commit(num, seq_before, 2_000)).await?, &Answer::Done)?;
    }
    w.restart(at(2_000)).await?;
    let claimed = w.claim(&[num]).await?;
    same(&claimed[0].journal, &Ok((1..=4_000).map(step_done).collect()))
}
