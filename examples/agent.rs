//! A durable agent: a loop of model and tools that streams its tokens, asks a person before it acts, and survives a crash
//! in the middle of a sentence without calling a tool twice.

#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use outlive::prelude::*;
use outlive_testkit::TestEngine;
use serde::{Deserialize, Serialize};

/// What the model says next, and the tools it wants to use; none when it is done.
#[derive(Clone, Serialize, Deserialize)]
struct Turn {
    text: String,
    tools: Vec<String>,
}

/// Stands for the client of a model.
trait Model: Send + Sync {
    fn next(&self, history: &[String]) -> Turn;
}

/// Reads its lines from a script, so that the example runs offline.
struct Scripted;

impl Model for Scripted {
    fn next(&self, history: &[String]) -> Turn {
        let owned = |tools: &[&str]| tools.iter().map(|tool| (*tool).to_owned()).collect();
        let turn = |text: &str, tools: &[&str]| Turn { text: text.to_owned(), tools: owned(tools) };
        match history.len() {
            1 => turn("I look for flights and hotels first.", &["search flights", "search hotels"]),
            4 => turn("I found both, and book them now.", &["book"]),
            _ => turn("Your trip to Lisbon is booked.", &[]),
        }
    }
}

/// How often tools were called, and how many tokens the model says before the power fails.
#[derive(Default)]
struct World {
    calls: AtomicUsize,
    tokens_left: AtomicUsize,
}

async fn speak(ctx: &Ctx, attempt: Attempt, history: &[String]) -> Result<Turn> {
    let turn = ctx.get::<Arc<dyn Model>>().next(history);
    for token in turn.text.split_inclusive(' ') {
        attempt.append("tokens", token).await?;
        if ctx.get::<Arc<World>>().tokens_left.fetch_sub(1, Ordering::SeqCst) == 1 {
            std::future::pending::<()>().await; // the process dies here
        }
    }
    Ok(turn)
}

async fn use_tool(world: &World, tool: &str) -> Result<String> {
    world.calls.fetch_add(1, Ordering::SeqCst);
    Ok(format!("{tool}: done"))
}

async fn agent(ctx: Ctx, task: String) -> Result<String> {
    let mut history = vec![task];
    loop {
        let say = |attempt: Attempt| speak(&ctx, attempt, &history);
        let turn = ctx.step("model", say).key(history.len()).retry(3).await?;
        history.push(turn.text.clone());
        if turn.tools.is_empty() {
            return Ok(turn.text);
        }
        if turn.tools.iter().any(|tool| tool == "book") {
            ctx.publish("asks", "May I book?").await?;
            let (is_fine, reply) = ctx.wait_ask::<bool, String>("approve").await?;
            reply.send(if is_fine { "Thank you." } else { "Then I stop." }).await?;
            if !is_fine {
                return Ok("nothing is booked".to_owned());
            }
        }
        let world = ctx.get::<Arc<World>>();
        let tools = ctx.map(
            &turn.tools,
            |tool| tool.to_string(),
            |scope, tool| async move { scope.step("tool", || use_tool(world, tool)).retry(3).await },
        );
        history.extend(tools.await?); // in parallel, each recorded once
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let world = Arc::new(World { tokens_left: AtomicUsize::new(11), ..World::default() });
    let provided = world.clone();
    let mut test = TestEngine::new(move |engine| {
        engine.workflow("agent", agent).provide(Arc::new(Scripted) as Arc<dyn Model>).provide(provided.clone())
    })
    .await;
    test.start(agent, &"Book me a trip to Lisbon.".to_string()).id("trip").await?;
    while world.tokens_left.load(Ordering::SeqCst) > 0 {
        tokio::task::yield_now().await;
    }
    println!("the process dies in the middle of a sentence");
    test.crash().await;

    let run: Run<String> = test.get_run("trip").await?;
    println!("agent asks: {}", run.watch::<String>("asks").next().await?.unwrap_or_default());
    println!("agent says: {}", run.ask::<bool, String>("approve", &true).await?);
    println!("result: {}", test.result(&run).await?);
    let tokens = run.stream::<String>("tokens").read(1_000).await?;
    let (lost, said): (Vec<_>, Vec<_>) = tokens.into_iter().partition(|token| token.is_failed);
    let text: String = said.into_iter().map(|token| token.value).collect();
    println!("{text} ({} tokens were lost with the process, and said again)", lost.len());
    assert_eq!((lost.is_empty(), world.calls.load(Ordering::SeqCst)), (false, 3), "each tool was called once");

    let run = test.start(agent, &"Book me a trip to the moon.".to_string()).await?;
    run.watch::<String>("asks").next().await?;
    run.cancel("too far").await?;
    println!("the second trip: {:?}", test.result(&run).await);
    Ok(())
}
