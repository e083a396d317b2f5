//! Decisions on the pages of `serve` and of `inspect`, at the server itself, through its local socket and through its address.

use std::io::{Read as _, Write as _};

use crate::binary::Place;
use crate::served::{Served, task, until};

/// Sends a form as a browser does from a page of this server, and returns the status of the answer.
fn sent(served: &Served, fields: &[(String, String)]) -> u16 {
    let letter = |byte: u8| {
        if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    };
    let encoded = |text: &str| text.bytes().map(letter).collect::<String>();
    let body: Vec<String> = fields.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    let body = body.join("&");
    let mut stream = served.connect();
    let request = format!(
        "POST /inspect/decide HTTP/1.1\r\nhost: {0}\r\norigin: http://{0}\r\nconnection: close\r\n\
         content-type: application/x-www-form-urlencoded\r\ncontent-length: {1}\r\n\r\n{body}",
        served.address,
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

/// Returns the fields of the form by which a task's page cancels it.
fn cancel_form(page: &str) -> Option<Vec<(String, String)>> {
    let before = page.split("value=\"cancel\"").next().filter(|before| before.len() < page.len())?;
    let form = before.rsplit("<form method=\"post\"").next()?;
    let field = |rest: &str| {
        let value = rest.split("value=\"").nth(1)?.split('"').next()?;
        Some((rest.split('"').next()?.to_owned(), value.to_owned()))
    };
    let mut fields: Vec<(String, String)> =
        form.split("type=\"hidden\" name=\"").skip(1).filter_map(field).collect();
    fields.extend(
        [("reason", "ordered twice"), ("decision", "cancel")]
            .map(|(name, value)| (name.into(), value.into())),
    );
    Some(fields)
}

#[test]
fn a_task_is_canceled_on_the_pages_of_its_server_through_its_socket_and_through_its_address() {
    let place = Place::new();
    let served = Served::start(&place, "--listen 127.0.0.1:0 --allow-control", &[]);
    let inspect = |line: &str| Served::start_as(&place, ("inspect", "inspector"), line, &[]);
    let there = inspect(&format!("--allow-control --url http://{}", served.address));
    let by_socket = inspect("--allow-control");
    for (number, pages) in [&served, &by_socket, &there].into_iter().enumerate() {
        let id = format!("slow-{number}");
        let slow = task(&id, "slow", r#"{"ms":60000}"#);
        let (status, row) = served.send("POST", "/api/v1/tasks", "", &slow).unwrap();
        assert_eq!(status, 200, "{row}");
        let path = format!("/inspect/t/agent/{id}");
        let form = cancel_form(&pages.get(&path).1).unwrap_or_else(|| panic!("{}", pages.get(&path).1));
        assert_eq!(sent(pages, &form), 303, "{id}");
        until("the task is canceled", || pages.get(&path).1.contains("canceled</span>"));
        assert!(pages.get(&format!("{path}?tab=state")).1.contains("<dd>canceled</dd>"));
        assert!(cancel_form(&pages.get(&path).1).is_none());
    }
    // Without the option there is no form, and one of another page is refused.
    let reading = inspect("");
    let (status, page) = reading.get("/inspect/t/agent/slow-0");
    assert!(status == 200 && !page.contains("method=\"post\""), "{page}");
    assert_eq!(sent(&reading, &[("decision".into(), "cancel".into())]), 405);
    for pages in [there, by_socket, reading] {
        pages.signal("-TERM");
        pages.end().ended(0);
    }
    let left = task("slow-left", "slow", r#"{"ms":60000}"#);
    assert_eq!(served.send("POST", "/api/v1/tasks", "", &left).unwrap().0, 200);
    served.signal("-KILL");
    served.end();
    // Nobody has the log open: the decision is made in it, as `cancel` makes it.
    let stopped = inspect("--allow-control");
    let path = "/inspect/t/agent/slow-left";
    let form = cancel_form(&stopped.get(path).1).unwrap_or_else(|| panic!("{}", stopped.get(path).1));
    assert_eq!(sent(&stopped, &form), 303);
    until("the task is canceled", || stopped.get(path).1.contains("canceled</span>"));
    let again = sent(&stopped, &form);
    assert!(again == 303 || again == 409, "a decision is made once only: {again}");
    stopped.signal("-TERM");
    stopped.end().ended(0);
    let canceled = place.run("events slow-left --json").ended(0).out();
    assert_eq!(canceled.matches("\"kind\":\"CancelRequested\"").count(), 1, "{canceled}");
    place.run("inspect --allow-control --listen 127.0.0.1:0 --data-dir nowhere").ended(5);
    std::fs::write(place.path().join("log.ndjson"), place.run("export").ended(0).out()).unwrap();
    place.run("inspect --allow-control --file log.ndjson --listen 127.0.0.1:0").ended(2);
}

#[test]
fn runs_of_a_log_are_compared_with_those_of_an_export() {
    let place = Place::new();
    let served = Served::start(&place, "--listen 127.0.0.1:0", &[]);
    let sum = task("sum-0001", "add", r#"{"a":2,"b":3}"#);
    assert_eq!(served.send("POST", "/tasks/", "", &sum).unwrap().0, 200);
    std::fs::write(place.path().join("log.ndjson"), place.run("export").ended(0).out()).unwrap();
    let pages = Served::start_as(&place, ("inspect", "inspector"), "--with log.ndjson", &[]);
    let (status, page) = pages.get("/inspect/compare?l=sum-0001&r=sum-0001&with=1");
    assert!(status == 200 && page.contains("steps are the same."), "{page}");
    assert_eq!(pages.get("/inspect/with/t/agent/sum-0001").0, 200);
    pages.signal("-TERM");
    pages.end().ended(0);
    place.run("inspect --with nothing.ndjson --listen 127.0.0.1:0").ended(3);
    served.signal("-TERM");
    served.end().ended(0);
}
