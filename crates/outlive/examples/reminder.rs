//! A reminder that is sent up to three times, until somebody reports the task as done.

#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use outlive::prelude::*;

async fn reminder(ctx: Ctx, task: String) -> Result<String> {
    for time in 1..=3 {
        ctx.step("send mail", || mail(&task, time)).retry(3).await?;
        match ctx.wait::<String>("done").timeout("2 seconds").await {
            Ok(by) => return Ok(format!("{task}: done by {by} after {time} reminders")),
            Err(error) if error.is_timeout() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(format!("{task}: nobody did it"))
}

async fn mail(task: &str, time: u32) -> Result<()> {
    println!("reminder {time}: {task}");
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let engine = Engine::open("reminders.db").workflow("reminder", reminder).start().await?;
    let water = engine.start(reminder, &"water the plants".to_string()).await?;
    let rent = engine.start(reminder, &"pay the rent".to_string()).delay("1 second").await?;
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    water.signal("done", "ada").await?;
    println!("{}", water.result().await?);
    println!("{}", rent.result().await?);
    Ok(engine.shutdown().await?)
}
