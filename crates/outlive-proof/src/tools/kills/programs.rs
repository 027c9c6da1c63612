//! The workflows that are killed. Each writes a line to the ledger whenever a body begins.

use std::time::Duration;

use outlive::prelude::*;
use outlive::{Builder, Error as RunError};

use super::effects::Effects;
use super::plan::{Input, mix};

/// Limit on failed attempts of a step of a chain.
const FAILURES: u64 = 3;

pub(super) fn register(engine: Builder, effects: Effects) -> Builder {
    engine
        .workflow("chain", chain)
        .workflow("collect", collect)
        .workflow("spread", spread)
        .workflow("race", race)
        .workflow("once", once)
        .workflow("doomed", doomed)
        .provide(effects)
}

/// A step body: an effect, a short delay, a value.
async fn work(ctx: &Ctx, attempt: Attempt, value: u64) -> Result<u64> {
    ctx.get::<Effects>().write(&attempt)?;
    tokio::time::sleep(Duration::from_millis(value % 4)).await;
    Ok(value)
}

async fn chain(ctx: Ctx, input: Input) -> Result<u64> {
    let mut sum = 0;
    for i in 0..input.n {
        let failures = mix(input.salt ^ i) % FAILURES;
        let body = |attempt: Attempt| {
            let ctx = &ctx;
            async move {
                let number = u64::from(attempt.number);
                let value = work(ctx, attempt, input.value(i)).await?;
                if number <= failures { Err(BoxError::from("not yet")) } else { Ok(value) }
            }
        };
        sum += ctx.step("add", body).key(i).retry(Retry::times(5).constant("2 ms")).await?;
        if input.value(i).is_multiple_of(2) {
            ctx.sleep("3 ms").await?;
        }
    }
    Ok(sum)
}

async fn collect(ctx: Ctx, input: Input) -> Result<Vec<u64>> {
    let mut values = Vec::new();
    for i in 0..input.n {
        let value: u64 = ctx.wait("item").await?;
        values.push(ctx.step("keep", |attempt: Attempt| work(&ctx, attempt, value)).key(i).await?);
    }
    Ok(values)
}

async fn spread(ctx: Ctx, input: Input) -> Result<u64> {
    let left = async {
        let left = ctx.scope("left");
        let first = left.step("add", |attempt: Attempt| work(&left, attempt, input.value(100))).await?;
        left.sleep("4 ms").await?;
        let second =
            left.step("add", |attempt: Attempt| work(&left, attempt, input.value(101))).timeout("1 hour").await?;
        Ok::<u64, BoxError>(first + second)
    };
    let right = async {
        let value: u64 = ctx.wait("item").timeout("1 hour").await?;
        Ok::<u64, BoxError>(ctx.step("keep", |attempt: Attempt| work(&ctx, attempt, value)).await?)
    };
    let items: Vec<u64> = (200..200 + input.n).collect();
    let map = ctx.map(
        items,
        |i| *i,
        |scope, i| async move {
            Ok::<u64, BoxError>(scope.step("add", |attempt: Attempt| work(&scope, attempt, input.value(i))).await?)
        },
    );
    let (left, right, map) = tokio::join!(left, right, map.concurrency(3));
    Ok(left? + right? + map?.into_iter().sum::<u64>())
}

async fn race(ctx: Ctx, input: Input) -> Result<u64> {
    let first = tokio::select! {
        value = ctx.wait::<u64>("item") => Some(value?),
        slept = ctx.sleep(Duration::from_millis(1 + input.n)) => { slept?; None }
    };
    ctx.step("between", |attempt: Attempt| work(&ctx, attempt, 1)).await?;
    match first {
        Some(value) => Ok(value),
        None => Ok(ctx.wait("item").await?),
    }
}

/// Returns whether it was paid.
async fn once(ctx: Ctx, input: Input) -> Result<bool> {
    let pay = ctx.step("pay", |attempt: Attempt| work(&ctx, attempt, input.value(0))).at_most_once();
    let is_paid = match pay.await {
        Ok(_) => true,
        Err(RunError::Interrupted { .. }) => false,
        Err(other) => return Err(other.into()),
    };
    ctx.step("after", |attempt: Attempt| work(&ctx, attempt, 2)).await?;
    Ok(is_paid)
}

async fn doomed(ctx: Ctx, input: Input) -> Result<()> {
    ctx.step("do", |attempt: Attempt| work(&ctx, attempt, input.value(0))).await?;
    match ctx.wait::<()>("never").await {
        Err(error) if error.is_cancelled() => {
            ctx.step("undo", |attempt: Attempt| work(&ctx, attempt, input.value(0))).await?;
            Ok(())
        }
        other => Ok(other?),
    }
}
