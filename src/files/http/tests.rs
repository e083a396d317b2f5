use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use super::*;

/// Serves each request with this function, in a thread of its own, until the program ends.
fn serve(answer: impl Fn(&str, &mut TcpStream) + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let (port, answer) = (listener.local_addr().unwrap().port(), Arc::new(answer));
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let answer = Arc::clone(&answer);
            std::thread::spawn(move || {
                let mut stream = stream;
                answer(&head(&mut stream), &mut stream);
            });
        }
    });
    port
}

/// Reads a request up to its empty line.
fn head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        match stream.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => break,
        }
    }
    String::from_utf8_lossy(&head).into_owned()
}

fn send(stream: &mut TcpStream, head: &str, body: &[u8]) {
    // The client may have gone: some tests are about that.
    let _ =
        write!(stream, "HTTP/1.1 {head}\r\nConnection: close\r\n\r\n").and_then(|()| stream.write_all(body));
}

/// A client for `http:`, to which the loopback address counts as public and every name is looked up by a function.
fn client(look_up: impl Fn(&str, u16) -> IpAddr + Send + Sync + 'static) -> HttpFetcher {
    HttpFetcher {
        look_up: Arc::new(move |host, port| Ok(vec![SocketAddr::new(look_up(host, port), port)])),
        may_connect: |address| address.is_loopback() || is_public(address),
        ..HttpFetcher::new().uri_schemes(schemes())
    }
}

fn schemes() -> UriSchemes {
    UriSchemes::new(["http:", "https:"]).unwrap()
}

fn local() -> HttpFetcher {
    client(|_, _| Ipv4Addr::LOCALHOST.into())
}

fn fetch(client: &HttpFetcher, uri: &str, max_bytes: u64) -> Result<Vec<u8>, FileError> {
    client.fetch(&RemoteUri::parse(uri, &schemes())?, max_bytes)
}

fn said(answer: Result<Vec<u8>, FileError>) -> String {
    answer.map_or_else(|error| error.to_string(), |bytes| format!("{} bytes", bytes.len()))
}

#[test]
fn a_file_is_fetched_up_to_the_limit_and_not_beyond() {
    let port = serve(|head, stream| match head.split(' ').nth(1) {
        Some("/chunked") => send(stream, "200 OK\r\nTransfer-Encoding: chunked", b"5\r\nhello\r\n0\r\n\r\n"),
        Some("/end") => send(stream, "200 OK", b"hello"),
        Some("/short" | "/short?key=secret") => send(stream, "200 OK\r\nContent-Length: 9", b"hello"),
        Some("/part") => send(stream, "206 Partial Content\r\nContent-Length: 5", b"hello"),
        Some("/none") => send(stream, "204 No Content", b""),
        Some("/gone") => send(stream, "404 Not Found\r\nContent-Length: 0", b""),
        _ => send(stream, "200 OK\r\nContent-Length: 5", b"hello"),
    });
    let uri = |path: &str| format!("http://files.example:{port}/{path}");
    for path in ["", "chunked", "end", "?query#fragment"] {
        assert_eq!(fetch(&local(), &uri(path), 5).unwrap(), b"hello", "{path}");
    }
    for path in ["", "chunked", "end"] {
        assert_eq!(
            said(fetch(&local(), &uri(path), 4)),
            "Remote file exceeds max_remote_bytes 4: 5 bytes",
            "{path}"
        );
    }
    assert!(
        said(fetch(&local(), &uri("short"), 100)).contains("was not fetched"),
        "an answer that breaks off"
    );
    assert_eq!(said(fetch(&local(), &uri("gone"), 100)), "HTTP 404: Not Found");
    assert_eq!(said(fetch(&local(), &uri("part"), 100)), "HTTP 206: Partial Content");
    assert_eq!(said(fetch(&local(), &uri("none"), 100)), "HTTP 204: No Content");
    let short = said(fetch(&local(), &uri("short?key=secret"), 100));
    assert!(short.contains("/short?...' was not fetched") && !short.contains("secret"), "{short}");
}

#[test]
fn without_a_choice_only_https_is_fetched() {
    let port = serve(|_, stream| send(stream, "200 OK\r\nContent-Length: 1", b"a"));
    let client = HttpFetcher { schemes: UriSchemes::default(), ..local() };
    let refused = fetch(&client, &format!("http://files.example:{port}/"), 10).unwrap_err();
    assert!(matches!(refused, FileError::SchemeNotAllowed(_)), "{refused}");
}

#[test]
fn a_private_address_is_refused_before_anything_is_sent() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let port = serve(move |_, _| {
        count.fetch_add(1, Ordering::SeqCst);
    });
    // The name looks public; its address is not. Neither is one of two.
    let both = |_: &str, port| -> io::Result<Vec<SocketAddr>> {
        Ok(vec![(Ipv4Addr::new(8, 8, 8, 8), port).into(), (Ipv4Addr::LOCALHOST, port).into()])
    };
    let one = client(|_, _| Ipv4Addr::LOCALHOST.into());
    assert_eq!(said(fetch(&one, "http://127。0。0。1/x", 10)), "Blocked remote file host: '127.0.0.1'");
    for client in [
        HttpFetcher { may_connect: is_public, ..one.clone() },
        HttpFetcher { may_connect: is_public, look_up: Arc::new(both), ..one },
    ] {
        let refused = fetch(&client, &format!("http://files.example:{port}/"), 10).unwrap_err();
        assert!(matches!(refused, FileError::BlockedHost(_)), "{refused}");
    }
    assert_eq!(asked.load(Ordering::SeqCst), 0);
}

#[test]
fn a_redirect_is_checked_like_the_first_address() {
    let port = serve(move |head, stream| {
        let to = head.split(' ').nth(1).unwrap_or_default().trim_start_matches("/to=");
        send(stream, &format!("302 Found\r\nContent-Length: 0\r\nLocation: {to}"), b"");
    });
    let client = client(|host, _| match host {
        "inside.example" => Ipv4Addr::new(10, 0, 0, 1).into(),
        _ => Ipv4Addr::LOCALHOST.into(),
    });
    let to = |place: &str| said(fetch(&client, &format!("http://files.example:{port}/to={place}"), 10));
    assert_eq!(to("http://10.0.0.1/x"), "Blocked remote file host: '10.0.0.1'");
    assert_eq!(to("http://169.254.169.254/latest"), "Blocked remote file host: '169.254.169.254'");
    assert_eq!(to("http://[::1]/x"), "Blocked remote file host: '::1'");
    assert_eq!(to("http://2130706433/x"), "Blocked remote file host: '127.0.0.1'");
    assert_eq!(to("http://127%E3%80%820%E3%80%820%E3%80%821/x"), "Blocked remote file host: '127.0.0.1'");
    assert_eq!(to("http://inside.example/x"), "Blocked remote file host: 'inside.example'");
    assert_eq!(to("http://user:word@files.example/x"), "Remote file URIs must not include credentials");
    assert_eq!(to("file:///etc/passwd"), "Invalid remote file URI: 'file:///etc/passwd'");
    assert_eq!(to("ftp://files.example/x"), "Disallowed remote file URI scheme: 'ftp:'");
    let https = Url::parse("https://files.example/").unwrap();
    assert!(next_uri(&https, "http://files.example/x", &schemes()).is_err(), "encryption is not given up");
    assert!(next_uri(&https, "/x", &schemes()).is_ok());
}

#[test]
fn redirects_end() {
    let port = serve(|head, stream| {
        let number = head.split(' ').nth(1).and_then(|path| path.trim_start_matches('/').parse::<u32>().ok());
        let next = number.map_or_else(|| "/loop".to_owned(), |number| format!("/{}", number + 1));
        let (head, body) = match number {
            Some(15) => ("200 OK\r\nContent-Length: 1".to_owned(), &b"a"[..]),
            _ => (format!("307 Temporary Redirect\r\nContent-Length: 0\r\nLocation: {next}"), &b""[..]),
        };
        send(stream, &head, body);
    });
    let from = |path: &str| said(fetch(&local(), &format!("http://files.example:{port}/{path}"), 10));
    assert_eq!(from("10"), "1 bytes");
    assert!(from("9").starts_with("Too many redirects while fetching"), "{}", from("9"));
    assert!(from("loop").starts_with("Redirect loop while fetching"), "{}", from("loop"));
}

#[test]
fn a_host_is_looked_up_once_and_the_connection_goes_to_what_was_found() {
    let port = serve(|head, stream| {
        let back = head.starts_with("GET /back ");
        let head = if back {
            "302 Found\r\nContent-Length: 0\r\nLocation: /x"
        } else {
            "200 OK\r\nContent-Length: 1"
        };
        send(stream, head, if back { b"" } else { b"a" });
    });
    // The second answer is another one, as from a server of names that serves an attacker.
    let changing = || {
        let asked = AtomicUsize::new(0);
        client(move |_, _| match asked.fetch_add(1, Ordering::SeqCst) {
            0 => Ipv4Addr::LOCALHOST.into(),
            _ => Ipv4Addr::new(192, 168, 0, 1).into(),
        })
    };
    assert_eq!(said(fetch(&changing(), &format!("http://files.example:{port}/x"), 10)), "1 bytes");
    let refused = fetch(&changing(), &format!("http://files.example:{port}/back"), 10).unwrap_err();
    assert!(
        matches!(refused, FileError::BlockedHost(_)),
        "each hop is checked with what it will use: {refused}"
    );
}

#[test]
fn content_that_grows_when_it_is_decompressed_is_bounded() {
    let packed = |bytes: &[u8]| {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        packer.write_all(bytes).unwrap();
        packer.finish().unwrap()
    };
    let (bomb, small) = (packed(&vec![0; 50_000_000]), packed(b"hello"));
    let twice = packed(&bomb);
    let members = [packed(b"hello"), packed(b" world")].concat();
    let rest = [&small[..], b"rest"].concat();
    let mut deflating = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    deflating.write_all(b"hello").unwrap();
    let zlib_rest = [&deflating.finish().unwrap()[..], b"rest"].concat();
    assert!(bomb.len() < 60_000 && twice.len() < 1_000, "{} {}", bomb.len(), twice.len());
    let port = serve(move |head, stream| {
        let (encoding, body) = match head.split(' ').nth(1) {
            Some("/bomb") => ("gzip", &bomb[..]),
            Some("/twice") => ("gzip, gzip", &twice[..]),
            Some("/small") => ("x-gzip", &small[..]),
            Some("/members") => ("gzip", &members[..]),
            Some("/empty") => ("gzip", &b""[..]),
            Some("/rest") => ("gzip", &rest[..]),
            Some("/zlib-rest") => ("deflate", &zlib_rest[..]),
            Some("/many") => ("gzip,gzip,gzip,gzip,gzip", &b""[..]),
            Some("/broken") => ("gzip", &small[..small.len() - 9]),
            _ => ("br", &b"x"[..]),
        };
        send(
            stream,
            &format!("200 OK\r\nContent-Encoding: {encoding}\r\nContent-Length: {}", body.len()),
            body,
        );
    });
    let get = |path: &str| said(fetch(&local(), &format!("http://files.example:{port}/{path}"), 100_000));
    assert_eq!(get("small"), "5 bytes");
    assert_eq!((get("members").as_str(), get("empty").as_str()), ("11 bytes", "0 bytes"));
    for rest in ["rest", "zlib-rest"] {
        assert!(get(rest).contains("cannot be decompressed"), "{rest}: {}", get(rest));
    }
    for bomb in ["bomb", "twice"] {
        assert_eq!(get(bomb), "Remote file exceeds max_remote_bytes 100000: 100001 bytes", "{bomb}");
    }
    assert!(get("broken").contains("cannot be decompressed"), "{}", get("broken"));
    assert!(get("many").contains("more than 4 content encodings"), "{}", get("many"));
    assert_eq!(get("brotli"), "Unsupported remote file content encoding: 'br'");
}

#[test]
fn a_length_that_is_too_large_is_refused_before_the_content_is_read() {
    let sent = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sent);
    let port = serve(move |_, stream| {
        send(stream, "200 OK\r\nContent-Length: 10737418240", b"");
        while count.load(Ordering::SeqCst) < 100_000_000 {
            match stream.write(&[0; 16_000]) {
                Ok(bytes) => count.fetch_add(bytes, Ordering::SeqCst),
                Err(_) => break,
            };
        }
    });
    let refused = said(fetch(&local(), &format!("http://files.example:{port}/"), 1_000));
    assert_eq!(refused, "Remote file exceeds max_remote_bytes 1000: 10737418240 bytes");
    assert!(sent.load(Ordering::SeqCst) < 50_000_000, "what fits into the buffers of a connection at most");
}

#[test]
fn a_slow_answer_ends_with_the_time_for_it() {
    let port = serve(|head, stream| match head.split(' ').nth(1) {
        // A byte now and then, so that no single read takes long.
        Some("/body") => {
            send(stream, "200 OK", b"");
            while stream.write_all(b"a").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        _ => drop(stream.read(&mut [0])),
    });
    let client = local().time_max(Duration::from_millis(300));
    for path in ["body", "silence"] {
        let (begun, said) =
            (Instant::now(), said(fetch(&client, &format!("http://files.example:{port}/{path}"), 1 << 30)));
        assert!(said.ends_with("was not fetched within 0.3 s"), "{said}");
        assert!(begun.elapsed() < Duration::from_secs(20), "{path}");
    }
    let stuck = HttpFetcher {
        look_up: Arc::new(|_, _| {
            loop {
                std::thread::park();
            }
        }),
        ..client
    };
    assert!(
        said(fetch(&stuck, "http://files.example/", 10)).ends_with("within 0.3 s"),
        "a look-up that never ends"
    );
}

#[tokio::test]
async fn a_caller_on_a_runtime_is_served_too() {
    let port = serve(|_, stream| send(stream, "200 OK\r\nContent-Length: 1", b"a"));
    assert_eq!(said(fetch(&local(), &format!("http://files.example:{port}/"), 10)), "1 bytes");
}

/// The address of the server in the process that has a proxy in its environment.
const PROXIED: &str = "TASKREEL_TEST_PROXIED_PORT";

/// The process with a proxy in its environment.
#[test]
#[ignore = "started by the test of proxies"]
fn child_with_a_proxy() {
    let Some(port) = std::env::var(PROXIED).ok() else { return };
    assert_eq!(said(fetch(&local(), &format!("http://files.example:{port}/"), 10)), "6 bytes");
}

#[test]
fn a_proxy_of_the_environment_is_not_asked() {
    let port = serve(|_, stream| send(stream, "200 OK\r\nContent-Length: 6", b"direct"));
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let proxy = serve(move |_, stream| {
        count.fetch_add(1, Ordering::SeqCst);
        send(stream, "200 OK\r\nContent-Length: 9", b"by proxy!");
    });
    let proxy = format!("http://127.0.0.1:{proxy}");
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "files::http::tests::child_with_a_proxy", "--ignored", "--nocapture"]);
    for name in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"] {
        child.env(name, &proxy);
    }
    let child = child.env_remove("no_proxy").env_remove("NO_PROXY").env(PROXIED, port.to_string());
    let output = child.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    assert_eq!(asked.load(Ordering::SeqCst), 0);
}
