//! A command on a long task costs what one on a short task costs, whoever keeps answers and states.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the answer, in helpers too")]

use std::alloc::System as Machine;
use std::sync::Arc;

use proto_events::task::TaskCommand;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use taskreel::{Message, Part, System};
use taskreel_log::memory::MemoryStore;
use taskreel_log::ports::Ports;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<Machine> = &INSTRUMENTED_SYSTEM;

fn said(text: &str) -> TaskCommand {
    let mut message = Message::agent(text, &mut Ports::default());
    message.parts = vec![Part::text(text)];
    TaskCommand::AppendMessage(message)
}

/// Returns the allocations and the bytes of one command, of ten in a row, on a task that has this many messages. The caller
/// keeps all answers, and each state that it looked at.
async fn cost(messages: usize) -> (usize, usize) {
    let system = System::builder("-").store(Arc::new(MemoryStore::new())).start().await.unwrap();
    let task = system.submit(Part::text("hello")).await.unwrap();
    task.finished().await.unwrap();
    for _ in 1..messages {
        task.command(said("durable")).await.unwrap();
    }
    let (mut answers, mut states) = (Vec::new(), Vec::new());
    let commands: Vec<_> = (0..10).map(|_| said("durable")).collect();
    let before = ALLOCATOR.stats();
    for command in commands {
        answers.push(task.command(command).await.unwrap());
        states.push(task.snapshot().await.unwrap());
    }
    let after = ALLOCATOR.stats();
    assert_eq!(states.last().unwrap().version(), answers.last().unwrap().version);
    assert_eq!(
        states.last().unwrap().task().messages().len(),
        states.first().unwrap().task().messages().len() + 9
    );
    system.shutdown().await.unwrap();
    let fresh = after.allocations - before.allocations + after.reallocations - before.reallocations;
    (fresh / 10, (after.bytes_allocated - before.bytes_allocated) / 10)
}

#[test]
fn a_command_on_a_task_of_thousands_of_messages_allocates_as_on_one_of_a_few_with_kept_answers_and_states() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // Both leave the same number of messages in the newest piece of the list.
    let (few, many) = (runtime.block_on(cost(32)), runtime.block_on(cost(3_200)));
    assert!(many.0 <= few.0 + 5, "{many:?} allocations and bytes, {few:?} on a short task");
    assert!(many.1 <= few.1 + 2_048, "{many:?} allocations and bytes, {few:?} on a short task");
}
