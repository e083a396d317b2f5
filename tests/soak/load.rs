//! The process of the soak: conversations whose users and persons act by chance, a log that is reopened every few
//! seconds, and pauses in which the memory is measured.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use proto_events::call::CallStatus;
use proto_events::json;
use proto_events::model::TaskState;
use taskreel::tool::Verdict;
use taskreel::{Error, Message, Part, System, TaskHandle, TaskSnapshot};
use tokio::sync::RwLock;

use crate::agent::{LEDGER, agent};
use crate::dice::Dice;

/// The number of conversations at the same time.
const SESSIONS: u64 = 200;
/// The number of turns after which a conversation is followed by a new one.
const TURNS: u64 = 20;
/// The longest pause of a user, in milliseconds.
const PAUSE_MAX: u64 = 6_000;
/// The maximum time for the system to come to rest.
const REST_WITHIN: Duration = Duration::from_secs(120);

/// The orders that a life of the process is given by its parent.
#[derive(Debug, Clone)]
pub(crate) struct Life {
    pub(crate) base: PathBuf,
    pub(crate) seed: u64,
    /// The time after which the process ends by itself.
    pub(crate) lasts: Duration,
    /// The time between two measurements.
    pub(crate) rests_every: Duration,
}

/// Writes a line to the parent, in one write. Without a parent there is nothing to do.
fn tell(line: &str) {
    let mut out = std::io::stdout().lock();
    if out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}

/// The things that all users share.
struct Shop {
    system: System,
    /// Held for reading by whoever acts, for writing during a pause.
    open: RwLock<()>,
    is_over: AtomicBool,
    ledger: PathBuf,
}

/// Works until its time is over, or the process is killed.
pub(crate) fn run(life: &Life, live_bytes: fn() -> usize) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let system = agent(&life.base).start().await.unwrap();
        tell("started");
        let shop = Arc::new(Shop {
            system: system.clone(),
            open: RwLock::new(()),
            is_over: AtomicBool::new(false),
            ledger: life.base.join(LEDGER),
        });
        let users: Vec<_> =
            (0..SESSIONS).map(|user| tokio::spawn(talk(Arc::clone(&shop), life.seed, user))).collect();
        let (until, mut dice) = (Instant::now() + life.lasts, Dice::new(life.seed));
        let mut next_rest = Instant::now() + life.rests_every;
        while Instant::now() < until {
            let pause = Duration::from_millis(500 + dice.below(4_000)).min(life.rests_every);
            tokio::time::sleep(pause).await;
            if Instant::now() >= next_rest {
                rest(&shop, live_bytes).await;
                next_rest = Instant::now() + life.rests_every;
            } else {
                reopen(&system).await;
            }
        }
        shop.is_over.store(true, Ordering::SeqCst);
        futures_util::future::join_all(users).await;
        let left = system.shutdown_within(Duration::from_secs(5)).await.unwrap().interrupted;
        tell(&format!("over {}", left.len()));
    });
}

async fn reopen(system: &System) {
    let reopened = system.reopen().await.unwrap();
    tell(&format!("reopened {} {}", reopened.epoch, reopened.resumed));
}

/// Lets all users pause, reopens the log, and measures the memory once no actor is left.
async fn rest(shop: &Shop, live_bytes: fn() -> usize) {
    let _nobody_acts = shop.open.write().await;
    reopen(&shop.system).await;
    let since = Instant::now();
    while shop.system.live_tasks().await.unwrap() + shop.system.live_sessions().await.unwrap() > 0 {
        assert!(since.elapsed() < REST_WITHIN, "actors do not come to rest");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let streams = shop.system.log().list_streams("", None, usize::MAX).unwrap().len();
    tell(&format!("rest {} {} {streams}", live_bytes(), resident_bytes()));
}

/// Returns the memory that the kernel counts for this process.
fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<usize>().ok());
    kilobytes.unwrap_or_default() * 1024
}

/// Lets one user talk, in one conversation after the other.
async fn talk(shop: Arc<Shop>, seed: u64, user: u64) {
    let mut dice = Dice::new(seed ^ (user << 32));
    for turn in 0_u64.. {
        tokio::time::sleep(Duration::from_millis(dice.below(PAUSE_MAX))).await;
        if shop.is_over.load(Ordering::SeqCst) {
            return;
        }
        let name = format!("{seed:x}-{user}-{turn}");
        let session = format!("table-{seed:x}-{user}-{}", turn / TURNS);
        if let Err(error) = one_turn(&shop, &session, &name, &mut dice).await {
            tell(&format!("error {name}: {error}"));
        }
    }
}

/// Sends a command again under its id for as long as a reopened log leaves its end in doubt.
async fn surely<T, F>(command: impl Fn() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    loop {
        match command().await {
            Err(Error::InDoubt { .. }) => tokio::task::yield_now().await,
            answer => return answer,
        }
    }
}

fn said(dice: &mut Dice, name: &str) -> Message {
    let call = |tool: &str, n: u64| Part::tool_call(tool, json!({ "n": n })).unwrap();
    let n = dice.below(1_000);
    let infer = |what: &str| Part::infer(format!("{what} {name}"));
    let parts = match dice.below(12) {
        0 => vec![call("pay", n)],
        1 => vec![call("look", n), call("pay", n + 1), call("reserve", n + 2), call("grind", n)],
        2 => vec![call("ship", n), infer("buy")],
        3 => {
            vec![call("count", n % 7), Part::text("large ".repeat(2_000 + usize::try_from(n).unwrap() * 20))]
        }
        4 => vec![infer("lend")],
        5 => vec![infer("ask")],
        6 => vec![infer("several"), infer("fail")],
        7 => vec![call("lend", n)],
        8 | 9 => vec![infer("buy")],
        _ => vec![infer("say")],
    };
    Message { id: None, role: Some("user".to_owned()), parts, timestamp: None }
}

async fn one_turn(shop: &Shop, session: &str, name: &str, dice: &mut Dice) -> Result<(), Error> {
    let at_work = shop.open.read().await;
    let command = format!("send-{name}");
    let message = said(dice, name);
    let conversation = shop.system.session(session).once(&command);
    let task = surely(|| conversation.send(message.clone())).await?;
    tell(&format!("ack {} 1", task.stream()));
    if dice.below(10) == 0 {
        let cancel = task.once(&format!("cancel-{name}"));
        match surely(|| cancel.cancel(Some("changed my mind"))).await {
            Ok(canceled) => tell(&format!("ack {} {}", task.stream(), canceled.version)),
            Err(Error::TaskNotCancelable { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    if dice.below(20) == 0 {
        // A caller that gives up. Somebody comes back for the task later.
        let _ = tokio::time::timeout(Duration::from_millis(dice.below(30)), task.finished()).await;
    }
    let mut end = surely(|| task.finished()).await?;
    drop(at_work);
    for visit in 0_u64.. {
        tell(&format!("ack {} {}", task.stream(), end.version()));
        if end.state() != TaskState::InputRequired || shop.is_over.load(Ordering::SeqCst) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(dice.below(PAUSE_MAX / 4))).await;
        let _at_work = shop.open.read().await;
        let command = format!("care-{visit}-{name}");
        let mood = dice.below(4);
        if !surely(|| look_after(shop, task.once(&command), end.clone(), mood)).await? {
            // Nobody ever comes back for it: it must not hold the conversation up.
            let cancel = task.once(&format!("drop-{name}"));
            return match surely(|| cancel.cancel(None)).await {
                Ok(_) | Err(Error::TaskNotCancelable { .. }) => Ok(()),
                Err(error) => Err(error),
            };
        }
        end = surely(|| task.finished()).await?;
    }
    Ok(())
}

/// Acts as the person for a task that waits. Returns whether anything was done about it.
async fn look_after(shop: &Shop, task: TaskHandle, end: TaskSnapshot, mood: u64) -> Result<bool, Error> {
    if let Some(approval) = end.task().awaited_approvals().next() {
        let id = &approval.request.approval_id;
        match mood {
            0 => return Ok(false),
            1 => drop(task.deny(id, Some("too dear"), "ada").await?),
            _ => drop(task.approve(id, "ada").await?),
        }
        return Ok(true);
    }
    if let Some(call) = end.task().open_questions().next() {
        let id = &call.question_id();
        match mood {
            0 => return Ok(false),
            1 => drop(task.decline(id, "none of your business", "ada").await?),
            _ => drop(task.answer(id, "to the harbour", "ada").await?),
        }
        return Ok(true);
    }
    let mut calls = end.task().calls().iter();
    let Some(call) = calls.find(|call| matches!(call.status, CallStatus::Unknown(_))) else {
        return Ok(false);
    };
    let id = &call.request.call_id;
    let mine = format!("{} {} {id} ", call.request.target, task.id());
    match mood {
        0 => return Ok(false),
        1 => task.abandon(id, "nobody knows", "ada").await?,
        // Whoever looks into the ledger finds the truth: no call of this process is in flight any more.
        _ if has_line(&shop.ledger, &mine) => {
            task.reconcile(id, Verdict::Landed(json!("found").into()), "ada").await?
        }
        _ => task.reconcile(id, Verdict::DidNotHappen, "ada").await?,
    };
    Ok(true)
}

fn has_line(ledger: &Path, start: &str) -> bool {
    std::fs::read_to_string(ledger).unwrap().lines().any(|line| line.starts_with(start))
}
