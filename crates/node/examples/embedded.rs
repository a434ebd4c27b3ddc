//! Runs a member within this program, and says who is in its ring: `embedded HOME`.

#![allow(
    clippy::print_stdout,
    reason = "an example for people, which prints what it does"
)]

use ringway_node::Member;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let home = std::env::args().nth(1).ok_or("usage: embedded HOME")?;
    let member = Member::start(home).await?;
    println!("this is {} of {}", member.name(), member.ring());
    for known in member.members().await? {
        println!("{}", known.name);
    }
    member.stop().await?;
    Ok(())
}
