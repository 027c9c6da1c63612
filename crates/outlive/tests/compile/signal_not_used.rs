//! A signal whose value is not used has no type.
use outlive::prelude::*;

async fn gate(ctx: Ctx, _: ()) -> Result<()> {
    ctx.wait("open").await?;
    Ok(())
}

fn main() {
    let _ = Engine::open("memory:").workflow("gate", gate);
}
