//! Decisions on the pages: only where they are allowed, only about what was shown whole, only by whoever may decide, only from a page
//! of the same server; and as those of any other caller.

use std::sync::Arc;

use http::StatusCode;
use proto_events::envelope::Principal;
use taskreel::approval::CapabilityPolicy;
use taskreel::{BoxFuture, System};
use taskreel_http::{
    Caller, HttpHandler, InspectedLog, Inspector, Mounted, Request, Response, Scope, Scopes,
};
use taskreel_log::ports::{Clock as _, SystemClock};
use taskreel_log::views::{LogUse, attention};

use crate::asked::{Got, PLACE, Pages};
use crate::markup::{Tag, harmless, unescaped};
use crate::seeded::{post, seeded};
use crate::support::{PATIENCE, builder};

/// The origin of the pages in these tests.
const OWN: [(&str, &str); 1] = [("origin", "http://localhost")];

/// A handler whose callers are this one.
struct As(Arc<dyn HttpHandler>, Caller);

impl HttpHandler for As {
    fn answer(&self, mut request: Request) -> BoxFuture<'static, Response> {
        request.extensions_mut().insert(self.1.clone());
        self.0.answer(request)
    }
}

fn caller(name: &str, scopes: Scopes) -> Caller {
    Caller { principal: Principal::authenticated(name), scopes }
}

/// Returns the pages of a system that let this caller decide.
fn pages(system: &System, by: Caller) -> Pages {
    let pages = Inspector::from_system(system).allow_control(Arc::new(system.clone()));
    Pages(Arc::new(As(Arc::new(Mounted::new().mount(PLACE, Arc::new(pages))), by)))
}

/// Returns the pages several times under one inspector, for several callers.
fn pages_for(system: &System, callers: &[Caller]) -> Vec<Pages> {
    let inspector = Inspector::from_system(system).allow_control(Arc::new(system.clone()));
    let handlers: Arc<dyn HttpHandler> = Arc::new(Mounted::new().mount(PLACE, Arc::new(inspector)));
    callers.iter().map(|by| Pages(Arc::new(As(Arc::clone(&handlers), by.clone())))).collect()
}

/// A form of a page: its hidden fields, and the values of its buttons.
#[derive(Debug, Clone)]
struct Form {
    fields: Vec<(String, String)>,
    decision: String,
}

impl Form {
    fn with(&self, more: &[(&str, &str)]) -> Vec<(String, String)> {
        let mut fields = self.fields.clone();
        fields.push(("decision".to_owned(), self.decision.clone()));
        fields.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        fields
    }
}

/// Returns the forms of a page that decide.
fn forms(tags: &[Tag]) -> Vec<Form> {
    let value = |tag: &Tag, name: &str| {
        tag.attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    };
    let mut forms: Vec<Form> = Vec::new();
    for tag in tags {
        match tag.name.as_str() {
            "form" if value(tag, "method").as_deref() == Some("post") => {
                assert_eq!(value(tag, "action").as_deref(), Some("/inspect/decide"));
                forms.push(Form { fields: Vec::new(), decision: String::new() });
            }
            "input" if value(tag, "type").as_deref() == Some("hidden") => {
                let field = (value(tag, "name").unwrap(), value(tag, "value").unwrap());
                if let Some(form) = forms.last_mut() {
                    form.fields.push(field);
                }
            }
            "button" if value(tag, "name").as_deref() == Some("decision") => {
                forms.last_mut().unwrap().decision = value(tag, "value").unwrap();
            }
            _ => {}
        }
    }
    forms
}

async fn sent(pages: &Pages, fields: &[(String, String)], headers: &[(&str, &str)]) -> Got {
    let fields: Vec<(&str, &str)> =
        fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    pages.post("/decide", &fields, headers).await
}

/// Returns the inbox once it holds this text.
async fn inbox_with(pages: &Pages, path: &str, text: &str) -> String {
    let looking = async {
        loop {
            let page = pages.page(path).await;
            if unescaped(&page).contains(text) {
                return page;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, looking).await.unwrap()
}

async fn state(system: &System, id: &str) -> String {
    let handle = system.task(id).unwrap();
    handle.snapshot().await.unwrap().state().as_str().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_permission_no_page_has_a_form_and_a_sent_one_is_refused() {
    let system = seeded().await;
    let plain = Pages::of(InspectedLog::of(&system));
    let page = inbox_with(&plain, "/inbox", "approve task-agent/pay-0001").await;
    assert!(forms(&harmless("/inbox", &page)).is_empty());
    assert!(page.contains("These pages read the log and change nothing."));
    let reader = pages(&system, caller("eve", Scopes::NONE.with(Scope::Read)));
    let page = inbox_with(&reader, "/inbox", "approve task-agent/pay-0001").await;
    assert!(forms(&harmless("/inbox", &page)).is_empty());
    let ada = pages(&system, caller("ada", Scopes::ALL));
    let page = inbox_with(&ada, "/inbox", "approve task-agent/pay-0001").await;
    let form = forms(&harmless("/inbox", &page)).into_iter().find(|form| form.decision == "approve").unwrap();
    for (pages, status) in [(&plain, StatusCode::METHOD_NOT_ALLOWED), (&reader, StatusCode::FORBIDDEN)] {
        assert_eq!(sent(pages, &form.with(&[]), &OWN).await.status, status);
    }
    assert_eq!(state(&system, "pay-0001").await, "input-required");
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn each_decision_is_made_once_and_the_log_names_who_made_it() {
    let system = seeded().await;
    post(&system, "pay-0002", "pay", "{}").await;
    post(&system, "hang-0002", "hang", "{}").await;
    post(&system, "hang-0003", "hang", "{}").await;
    post(&system, "ask-0002", "choose", "{}").await;
    post(&system, "ask-0003", "choose", "{}").await;
    let ada = pages(&system, caller("ada", Scopes::ALL));
    let page = inbox_with(&ada, "/inbox", ">ask-0003</a>").await;
    assert!(page.contains("Decisions are recorded as ada (authenticated)."), "{page}");
    let all = forms(&harmless("/inbox", &page));
    let form = |task: &str, decision: &str| {
        let of = |form: &&Form| {
            form.decision == decision
                && form
                    .fields
                    .iter()
                    .any(|(name, value)| name == "task" && value.ends_with(&format!("/{task}")))
        };
        all.iter().find(of).unwrap_or_else(|| panic!("{decision} of {task}: {all:?}")).clone()
    };
    for (task, decision, more, ends) in [
        ("pay-0001", "approve", vec![], "completed"),
        ("pay-0002", "deny", vec![("reason", "too much")], "failed"),
        ("hang-0001", "landed", vec![("landed", "\"R-17\"")], "completed"),
        ("hang-0002", "abandon", vec![("reason", "the account is closed")], "failed"),
        ("hang-0003", "did-not-happen", vec![], ""),
        ("ask-0001", "answer", vec![("answer", "the blue one & <b>")], "completed"),
        ("ask-0002", "decline", vec![("reason", "ask somebody else")], "failed"),
    ] {
        let fields = form(task, decision).with(&more);
        let got = sent(&ada, &fields, &OWN).await;
        assert_eq!(got.status, StatusCode::SEE_OTHER, "{task}: {}", got.body);
        assert_eq!(got.header("location"), format!("/inspect/t/agent/{task}"));
        let ended = async {
            while !ends.is_empty() && state(&system, task).await != ends {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, ended).await.unwrap_or_else(|_| panic!("{task} never {ends}"));
        let shown = ada.page(&format!("/t/agent/{task}?tab=event")).await;
        let events = taskreel_log::api::EventReader::read_stream(
            system.log().as_ref(),
            &proto_events::id::StreamId::task("agent", task).unwrap(),
            proto_events::id::Version(1),
            1_000,
        )
        .unwrap();
        let by_ada = events.iter().filter(|stored| stored.record.metadata.principal.name == "ada").count();
        assert!(by_ada >= 1, "{task}: {shown}");
        // The same decision once more adds nothing of its own.
        let again = sent(&ada, &fields, &OWN).await;
        assert!(again.status == StatusCode::SEE_OTHER || again.status.is_client_error(), "{task}: {again:?}");
    }
    // A task that waits is canceled by the form of its own page.
    let page = ada.page("/t/agent/ask-0003").await;
    let cancel =
        forms(&harmless("ask-0003", &page)).into_iter().find(|form| form.decision == "cancel").unwrap();
    assert_eq!(sent(&ada, &cancel.with(&[("reason", "")]), &OWN).await.status, StatusCode::SEE_OTHER);
    assert_eq!(state(&system, "ask-0003").await, "canceled");
    assert!(forms(&harmless("ask-0003", &ada.page("/t/agent/ask-0003").await)).is_empty());
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_of_another_page_caller_or_program_and_one_that_was_changed_decides_nothing() {
    let system = seeded().await;
    let callers = [caller("ada", Scopes::ALL), caller("eve", Scopes::ALL)];
    let shared = pages_for(&system, &callers);
    let [ada, eve] = shared.as_slice() else { panic!("two callers") };
    let page = inbox_with(ada, "/inbox", "approve task-agent/pay-0001").await;
    let form = forms(&harmless("/inbox", &page)).into_iter().find(|form| form.decision == "approve").unwrap();
    let fields = form.with(&[]);
    for headers in [
        &[][..],
        &[("origin", "null")],
        &[("origin", "http://evil.example")],
        &[("origin", "http://localhost:81")],
        &[("origin", "http://localhost"), ("sec-fetch-site", "cross-site")],
    ] {
        assert_eq!(sent(ada, &fields, headers).await.status, StatusCode::FORBIDDEN, "{headers:?}");
    }
    let changed = |name: &str, value: &str| {
        let mut fields = fields.clone();
        fields.iter_mut().filter(|(known, _)| known == name).for_each(|(_, old)| value.clone_into(old));
        fields
    };
    for (fields, status) in [
        (changed("task", "task-agent/ask-0001"), StatusCode::CONFLICT),
        (changed("about", "approval_other"), StatusCode::CONFLICT),
        (changed("shown", "00"), StatusCode::CONFLICT),
        (changed("token", "00"), StatusCode::CONFLICT),
        (changed("token", ""), StatusCode::BAD_REQUEST),
        (changed("task", "odd"), StatusCode::BAD_REQUEST),
        (changed("decision", "obey"), StatusCode::BAD_REQUEST),
        (changed("decision", "abandon"), StatusCode::BAD_REQUEST),
    ] {
        let got = sent(ada, &fields, &OWN).await;
        assert_eq!(got.status, status, "{fields:?}: {}", got.body);
        harmless("/decide", &got.body);
    }
    assert_eq!(sent(eve, &fields, &OWN).await.status, StatusCode::CONFLICT);
    let other_program = pages(&system, caller("ada", Scopes::ALL));
    assert_eq!(sent(&other_program, &fields, &OWN).await.status, StatusCode::CONFLICT);
    // Not a form, too long a form, and a page that is only read.
    let json = ada
        .post("/decide", &[], &[("origin", "http://localhost"), ("content-type", "application/json")])
        .await;
    assert!(json.status.is_client_error());
    let long = "x".repeat(2 * 1024 * 1024);
    let got = sent(ada, &form.with(&[("reason", &long)]), &OWN).await;
    assert_eq!(got.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(ada.post("/inbox", &[], &OWN).await.status, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(ada.get("/decide").await.status, StatusCode::NOT_FOUND);
    assert_eq!(state(&system, "pay-0001").await, "input-required");
    assert_eq!(sent(ada, &fields, &OWN).await.status, StatusCode::SEE_OTHER);
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_decided_about_arguments_that_were_not_shown_whole() {
    #[derive(serde::Deserialize, taskreel::JsonSchema)]
    struct Payment {
        to: String,
    }
    let pays = |payment: Payment| async move { Ok::<_, taskreel::tool::ToolError>(payment.to.len()) };
    let policy = taskreel::tool::ToolPolicy::manual().capabilities(["money.spend"]);
    let system = builder()
        .capability_policy(CapabilityPolicy::new().require_approval("money.*"))
        .approvals_by_person()
        .tool_with("pay", "Pays", pays, policy)
        .start()
        .await
        .unwrap();
    let long = format!("{}END", "\u{202e}<b>x".repeat(20_000));
    post(&system, "pay-long", "pay", &serde_json::json!({"to": long}).to_string()).await;
    let ada = pages(&system, caller("ada", Scopes::ALL));
    let page = inbox_with(&ada, "/inbox?task=pay-long", ">pay-long</a>").await;
    assert!(forms(&harmless("/inbox", &page)).is_empty());
    assert!(page.contains("Only the beginning of") && !page.contains("END"), "{}", page.len());
    let found = attention(system.log().as_ref(), LogUse::Open, SystemClock.now()).unwrap();
    let row =
        found.rows.iter().find(|row| row.task.as_ref().is_some_and(|task| task.id() == "pay-long")).unwrap();
    let about = row.about.clone().unwrap();
    let alone = ada.page(&format!("/inbox?task=task-agent%2Fpay-long&about={about}")).await;
    let tags = harmless("alone", &alone);
    assert!(alone.contains("⟨U+202E⟩&lt;b&gt;x") && alone.contains("END"));
    let form = forms(&tags).into_iter().find(|form| form.decision == "deny").unwrap();
    // The whole of it stands before the first button.
    assert!(alone.find("END").unwrap() < alone.find("value=\"approve\"").unwrap());
    assert_eq!(sent(&ada, &form.with(&[]), &OWN).await.status, StatusCode::SEE_OTHER);
    let gone = async {
        while ada.get(&format!("/inbox?task=pay-long&about={about}")).await.status != StatusCode::NOT_FOUND {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.unwrap();
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_with_forms_let_a_browser_name_them_and_no_other_site() {
    let system = seeded().await;
    let ada = pages(&system, caller("ada", Scopes::ALL));
    // With `no-referrer` a browser would name the origin of a form as `null`.
    assert_eq!(ada.get("/inbox").await.header("referrer-policy"), "same-origin");
    assert!(ada.get("/inbox").await.header("content-security-policy").contains("form-action 'self'"));
    system.shutdown().await.unwrap();
}
