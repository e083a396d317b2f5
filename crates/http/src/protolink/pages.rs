//! The pages of an agent.

use taskreel::{System, TaskState};

use crate::error::Problem;
use crate::handler::respond::escaped;

/// The look of both pages.
const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:44rem;padding:0 1rem;\
                     color:#1b1f24;background:#fff}h1{font-size:1.4rem}table{border-collapse:collapse}\
                     th,td{text-align:left;padding:.2rem 1.2rem .2rem 0;vertical-align:top}th{font-weight:600}\
                     form{display:flex;gap:.5rem}input{flex:1;padding:.4rem;font:inherit}\
                     p.you{color:#57606a}p.error{color:#b42318}\
                     @media(prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}}";

/// The script of the page to talk with the agent. What is said is put into the page as text.
const CHAT_SCRIPT: &str = "const log=document.getElementById('log'),text=document.getElementById('text');\
    const say=(kind,words)=>{const p=document.createElement('p');p.className=kind;p.textContent=words;log.append(p)};\
    const session='chat_'+Math.random().toString(36).slice(2);\
    document.getElementById('ask').addEventListener('submit',async event=>{event.preventDefault();\
    const message=text.value;if(!message.trim())return;text.value='';say('you',message);\
    try{const answer=await fetch('chat',{method:'POST',headers:{'content-type':'application/json'},\
    body:JSON.stringify({message,session_id:session})});const said=await answer.json();\
    if(said.response!==undefined)say('agent',typeof said.response==='string'?said.response:JSON.stringify(said.response));\
    else say('error',said.error&&said.error.message||said.error)}catch(error){say('error',String(error))}});";

/// Returns the page about an agent: what it is, and what it does at the moment.
pub(crate) async fn status(system: &System) -> Result<String, Problem> {
    let metrics = system.metrics().await?;
    let mut rows = String::new();
    let mut row = |name: &str, value: &str| {
        for piece in ["<tr><th>", &escaped(name), "</th><td>", &escaped(value), "</td></tr>"] {
            rows.push_str(piece);
        }
    };
    row("state", if metrics.health.open { "accepts tasks" } else { "accepts no tasks" });
    if let Some(why) = &metrics.health.poisoned {
        row("log", why);
    }
    row("tasks at work", &metrics.live_tasks.to_string());
    let waiting = system.tasks().in_state(TaskState::InputRequired).page(1).await?;
    row("waits for a person", if waiting.tasks.is_empty() { "no task" } else { "at least one task" });
    row("library", concat!("taskreel ", env!("CARGO_PKG_VERSION")));
    let name = escaped(&metrics.agent);
    Ok(page(&format!("{name} · Agent Status"), &format!("<h1>{name}</h1><table>{rows}</table>")))
}

/// Returns the page to talk with an agent.
pub(crate) fn chat(name: &str) -> String {
    let name = escaped(name);
    let body = format!(
        "<h1>{name}</h1><div id=\"log\" aria-live=\"polite\"></div><form id=\"ask\"><input id=\"text\" \
         autocomplete=\"off\" aria-label=\"Message\" autofocus><button>Send</button></form>\
         <script>{CHAT_SCRIPT}</script>"
    );
    page(&format!("{name} · Chat"), &body)
}

/// Returns a page of an escaped title and a body of markup.
fn page(title: &str, body: &str) -> String {
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><title>{title}</title><style>{STYLE}</style></head><body>{body}</body></html>"
    )
}
