//! Promises about pages: bounded by bytes as well as by number, and nothing is lost between two of them.

use outlive_core::event::Event;
use outlive_core::payload::Payload;
use outlive_core::store::commit::{StartWrite, Turn};
use outlive_core::store::page::{PAGE_BYTES, Weight};
use outlive_core::store::query::Filter;

use super::jobs::{MAIL, MAILS, letter, moved};
use super::world::{Checked, World, ensure, in_words, name, same};

cases![
    feed_page_is_bounded_by_bytes,
    journal_page_is_bounded_by_bytes,
    inbox_page_is_bounded_by_bytes,
    list_page_is_bounded_by_bytes,
    dead_letter_page_is_bounded_by_bytes,
    item_larger_than_a_page_gets_its_own_page,
];

/// Number of large items in a case: more than fit on a page.
const COUNT: u64 = 5;

fn large() -> Payload {
    Payload::recorded(&format!("\"{}\"", "x".repeat(PAGE_BYTES / 3)))
}

/// Checks that a page ends with the item that fills it.
fn is_bounded(page: &[impl Weight]) -> Checked {
    let weights: Vec<usize> = page.iter().map(Weight::weight).collect();
    let before_last: usize = weights.iter().rev().skip(1).sum();
    ensure(before_last < PAGE_BYTES, || format!("{} items weigh {weights:?}", page.len()))
}

/// Reads page after page, and returns how many items each has.
macro_rules! pages {
    (|$after:ident| $read:expr, $key:expr) => {{
        let (mut $after, mut lens) = (0, Vec::new());
        loop {
            let page = in_words($read.await)?;
            is_bounded(&page)?;
            let Some(last) = page.last() else { break lens };
            $after = $key(last);
            lens.push(page.len() as u64);
        }
    }};
}

async fn written(w: &World, payload: &Payload, count: u64) -> Checked<outlive_core::id::InstanceNum> {
    let num = w.driven("a").await?;
    for seq in 0..count {
        let mut commit = w.new_commit(num, seq, 1);
        commit.entries[0].payload = Some(payload.clone());
        w.commit(&commit).await?;
    }
    Ok(num)
}

async fn feed_page_is_bounded_by_bytes(w: &mut World) -> Checked {
    written(w, &large(), COUNT).await?;
    let lens = pages!(|after| w.store().feed(after, 1_000), |last: &outlive_core::store::query::FeedItem| last.pos);
    same(&(lens.iter().sum::<u64>(), lens.len()), &(COUNT + 1, 2))
}

async fn journal_page_is_bounded_by_bytes(w: &mut World) -> Checked {
    let num = written(w, &large(), COUNT).await?;
    let lens = pages!(|after| w.store().journal(num, after, 1_000), |last: &outlive_core::journal::Entry| last.seq);
    same(&(lens.iter().sum::<u64>(), lens.len()), &(COUNT, 2))
}

async fn inbox_page_is_bounded_by_bytes(w: &mut World) -> Checked {
    let num = w.pending("a").await?;
    for _ in 0..COUNT {
        let message = outlive_core::message::Message::Signal { name: name("paid"), payload: large() };
        w.send(&w.new_send("a", message)).await?;
    }
    let lens =
        pages!(|after| w.store().inbox(num, after, usize::MAX), |last: &outlive_core::message::Inbound| last.pos);
    same(&(lens.iter().sum::<u64>(), lens.len()), &(COUNT, 2))
}

async fn list_page_is_bounded_by_bytes(w: &mut World) -> Checked {
    for n in 0..COUNT {
        w.start(&StartWrite { input: large(), ..w.new_start(&format!("run {n}")) }).await?;
    }
    let (mut before, mut seen) = (None, Vec::new());
    loop {
        let page = in_words(w.store().list(&Filter::runs(), before, 1_000).await)?;
        is_bounded(&page.instances)?;
        seen.extend(page.instances.iter().map(|instance| instance.num.0));
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    ensure(seen.len() as u64 == COUNT && seen.is_sorted_by(|one, next| one > next), || format!("{seen:?}"))
}

async fn dead_letter_page_is_bounded_by_bytes(w: &mut World) -> Checked {
    let events: Vec<Event> = (0..COUNT).map(|_| Event::new(large())).collect();
    let pushed = w.pushed(&outlive_core::queue::PushWrite { events: events.clone(), ..w.new_push(MAIL, &[]) }).await?;
    w.claim(&[pushed.num]).await?;
    let of_each = || pushed.positions.iter().zip(&events);
    let dead = of_each().map(|(pos, event)| letter(MAIL, *pos, event)).collect();
    let queue = of_each().map(|(pos, event)| moved(*pos, event, None)).collect();
    let records = w.held(MAIL).await?.reported;
    w.turned(&Turn { queue, dead, ..w.new_turn(pushed.num, records) }).await?;
    let job = name(MAILS);
    let lens = pages!(|after| w.store().dead(&job, after, 1_000), |last: &outlive_core::queue::Dead| last.pos);
    same(&(lens.iter().sum::<u64>(), lens.len()), &(COUNT, 2))
}

async fn item_larger_than_a_page_gets_its_own_page(w: &mut World) -> Checked {
    let payload = Payload::recorded(&format!("\"{}\"", "x".repeat(PAGE_BYTES)));
    let num = written(w, &payload, 2).await?;
    let lens = pages!(|after| w.store().journal(num, after, 1_000), |last: &outlive_core::journal::Entry| last.seq);
    same(&lens, &vec![1, 1])
}
