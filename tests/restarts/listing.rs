//! The rows of many tasks, read from the log in its order, are those that each task has alone.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the answer, in helpers too")]

use std::collections::BTreeMap;
use std::sync::Arc;

use proto_events::id::Category;
use proto_events::task::TaskCommand;
use taskreel::{Message, Part, System};
use taskreel_log::memory::MemoryStore;
use taskreel_log::ports::Ports;
use taskreel_log::views::{streams, task_row, task_rows};

#[tokio::test]
async fn rows_of_many_tasks_whose_events_are_mixed_in_the_log_are_those_of_each_task_alone() {
    let system = System::builder("-").store(Arc::new(MemoryStore::new())).start().await.unwrap();
    let mut tasks = Vec::new();
    for n in 0..620 {
        // Without a model an inference fails, so that rows have errors too.
        let part = if n % 3 == 1 { Part::infer("hello") } else { Part::text("hello") };
        let task = system.session(&format!("s{}", n % 7)).send(part).await.unwrap();
        task.finished().await.unwrap();
        tasks.push(task);
    }
    // The last ones end long after the first ones began, and some have most of their events then.
    for (n, task) in tasks.iter().enumerate().rev() {
        for _ in 0..n % 5 {
            task.command(TaskCommand::AppendMessage(Message::agent("more", &mut Ports::default())))
                .await
                .unwrap();
        }
    }
    let log = system.log();
    let rows = task_rows(log.as_ref()).unwrap();
    assert!(rows.newer.is_empty());
    let found: BTreeMap<_, _> = rows.rows.into_iter().map(|row| (row.stream.clone(), row)).collect();
    let infos = streams(log.as_ref(), Category::Task.prefix()).unwrap();
    assert_eq!((found.len(), infos.len()), (620, 620));
    assert!(found.values().any(|row| row.error.is_some() && row.session.is_some()));
    for info in infos {
        assert_eq!(found[&info.stream], task_row(log.as_ref(), &info).unwrap());
    }
    system.shutdown().await.unwrap();
}
