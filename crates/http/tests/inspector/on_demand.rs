//! A payload of more than 64 KiB stands on no page: its beginning does, with an address where all of it is.

use std::collections::BTreeSet;

use taskreel::approval::CapabilityPolicy;
use taskreel::tool::{ToolContext, ToolError, ToolPolicy};
use taskreel::{Part, System};
use taskreel_http::InspectedLog;
use taskreel_log::views::streams;

use crate::asked::{PLACE, Pages, percent};
use crate::markup::{harmless, unescaped};
use crate::seeded::post;
use crate::support::{Text, builder, model};

/// The most bytes of a page, whatever its contents are: those for which it has room, the beginnings of others, and its frame.
const PAGE_MAX: usize = 1_000_000;

/// A text of 80 KB, which begins and ends with a word of its own.
fn long(word: &str) -> String {
    format!("<{word}>{}</{word}>", "0123456789".repeat(8_000))
}

/// Returns a system whose arguments, results, failures, questions, approvals, messages and prompts are all long.
async fn system() -> System {
    let asks = |context: ToolContext, args: Text| async move { context.ask(&args.text).await };
    let fails = |args: Text| async move { Err::<u8, _>(ToolError::failed(&args.text)) };
    let policy = ToolPolicy::manual().capabilities(["money.spend"]);
    let system = builder()
        .infer(model(&[long("answer").as_str(), "again"]))
        .capability_policy(CapabilityPolicy::new().require_approval("money.*"))
        .approvals_by_person()
        .tool_with("pay", "Pays", |args: Text| async move { Ok::<_, ToolError>(args.text) }, policy)
        .tool("choose", "Chooses", asks)
        .tool("fail", "Fails", fails)
        .start()
        .await
        .unwrap();
    for tool in ["echo", "fail", "choose", "pay"] {
        post(&system, &format!("{tool}-0001"), tool, &serde_json::json!({"text": long(tool)}).to_string())
            .await;
    }
    for prompt in [long("prompt").as_str(), "And now?"] {
        system.session("talk").send(Part::infer(prompt)).await.unwrap().finished().await.unwrap();
    }
    system
}

/// Returns the addresses on a page whose words are that all of something is there.
fn all_of_it(page: &str) -> Vec<String> {
    let links = page.split("<a href=\"").skip(1).filter_map(|rest| rest.split_once("</a>"));
    let address = |(link, _): (&str, _)| {
        link.strip_suffix(">all of it").map(|href| unescaped(href.trim_end_matches('"')))
    };
    links.filter_map(address).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_payload_is_on_no_page_and_each_beginning_leads_to_all_of_it() {
    let system = system().await;
    let pages = Pages::of(InspectedLog::of(&system));
    let mut paths: Vec<String> =
        ["/", "/inbox", "/live", "/tools", "/sessions", "/?text=0123"].map(str::to_owned).into();
    paths.push("/compare?l=echo-0001&r=fail-0001".to_owned());
    paths.push("/compare?l=fail-0001&lat=1&rat=5".to_owned());
    for info in streams(system.log().as_ref(), "").unwrap() {
        let (stream, name) = (&info.stream, percent(info.stream.as_str()));
        for at in 1..=info.version.0 {
            paths.push(format!("/e/{name}/{at}"));
            if stream.as_str().starts_with("task-") {
                let task = format!("/t/{}/{}?at={at}", stream.agent(), stream.id());
                let tabs = [
                    "event",
                    "call",
                    "prompt",
                    "state",
                    "diff",
                    "cause",
                    "recovery",
                    "artifacts",
                    "raw",
                    "sequence",
                    "graph",
                ];
                paths.extend(tabs.map(|tab| format!("{task}&tab={tab}&cmp=1")));
            }
        }
        if stream.as_str().starts_with("session-") {
            paths.push(format!("/s/{}/{}", stream.agent(), stream.id()));
        }
    }
    let (mut wholes, mut begun) = (BTreeSet::new(), 0);
    for path in &paths {
        let page = pages.page(path).await;
        harmless(path, &page);
        assert!(page.len() < PAGE_MAX, "{path} has {} bytes", page.len());
        let longest = page.split(['<', '>']).map(str::len).max().unwrap();
        assert!(longest < 150_000, "{path} holds a text of {longest} bytes");
        // Whatever is said to be a beginning has the whole somewhere; of a call's outcome the step leads to the call.
        let links = all_of_it(&page);
        begun += links.len();
        wholes.extend(links);
    }
    assert!(begun > 50, "{begun}");
    let mut words = BTreeSet::new();
    for address in &wholes {
        let path = address.strip_prefix(PLACE).unwrap_or_else(|| panic!("{address} is elsewhere"));
        let whole = pages.get(path).await;
        assert_eq!(whole.status, 200, "{path}: {}", whole.body);
        let text = unescaped(&whole.body);
        assert!(text.len() > 64 * 1024, "{path} has {} bytes", text.len());
        words.extend(["echo", "fail", "choose", "pay", "prompt", "answer"].into_iter().filter(|word| {
            text.contains(&format!("<{word}>0123")) && text.contains(&format!("789</{word}>"))
        }));
    }
    assert_eq!(words.len(), 6, "{words:?}");
    system.shutdown().await.unwrap();
}
