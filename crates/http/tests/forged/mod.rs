//! Servers that misbehave: each answers with the bytes that a test gives it.
#![allow(dead_code, reason = "each test uses a part of it")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

/// Answers each connection with these bytes, whatever it is sent, and then leaves it open or ends it.
pub(crate) async fn answering(bytes: Vec<u8>, hold: bool) -> String {
    forged(move |_| (bytes.clone(), Vec::new()), hold).await
}

/// Opens each WebSocket, and answers its first frame with the bytes that `answer` makes of its text.
pub(crate) async fn opening(answer: impl Fn(&str) -> Vec<u8> + Clone + Send + 'static, hold: bool) -> String {
    opening_and(answer, hold, || {}).await
}

/// Does the same, and says when the answer is sent.
pub(crate) async fn opening_and(
    answer: impl Fn(&str) -> Vec<u8> + Clone + Send + 'static,
    hold: bool,
    sent: impl Fn() + Clone + Send + 'static,
) -> String {
    let accept = |request: &str| {
        let key = request.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("sec-websocket-key").then(|| value.trim().to_owned())
        });
        let accepted = derive_accept_key(key.unwrap_or_default().as_bytes());
        format!(
            "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-accept: {accepted}\r\n\r\n"
        )
        .into_bytes()
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let (answer, sent) = (answer.clone(), sent.clone());
            tokio::spawn(async move {
                let mut asked = vec![0; 64 * 1024];
                let count = socket.read(&mut asked).await.unwrap_or(0);
                let _sent = socket.write_all(&accept(&String::from_utf8_lossy(&asked[..count]))).await;
                let mut frames = 0;
                while let Ok(count) = socket.read(&mut asked).await {
                    if count == 0 {
                        break;
                    }
                    frames += 1;
                    if frames > 1 {
                        continue;
                    }
                    let _sent = socket.write_all(&answer(&unmasked(&asked[..count]))).await;
                    sent();
                    if !hold {
                        // What is still on its way would end the connection before the answer is read.
                        let _ended = socket.shutdown().await;
                        while socket.read(&mut asked).await.is_ok_and(|count| count > 0) {}
                        break;
                    }
                }
            });
        }
    });
    url
}

/// Answers each connection with the first bytes that `answer` makes of its request, and then with the others again and again.
pub(crate) async fn forged(
    answer: impl Fn(&str) -> (Vec<u8>, Vec<u8>) + Clone + Send + 'static,
    hold: bool,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let answer = answer.clone();
            tokio::spawn(async move {
                let mut asked = vec![0; 64 * 1024];
                let count = socket.read(&mut asked).await.unwrap_or(0);
                let (first, endless) = answer(&String::from_utf8_lossy(&asked[..count]));
                let _sent = socket.write_all(&first).await;
                while !endless.is_empty() && socket.write_all(&endless).await.is_ok() {}
                if hold {
                    std::future::pending::<()>().await;
                }
            });
        }
    });
    url
}

/// Returns the text of the first of a client's frames, which has fewer than 64 KiB.
fn unmasked(frame: &[u8]) -> String {
    let (mask, body) = match frame[1] & 0x7f {
        126 => {
            let length = usize::from(u16::from_be_bytes([frame[2], frame[3]]));
            (&frame[4..8], &frame[8..8 + length])
        }
        length => (&frame[2..6], &frame[6..6 + usize::from(length)]),
    };
    let bytes: Vec<u8> = body.iter().zip(mask.iter().cycle()).map(|(byte, key)| byte ^ key).collect();
    String::from_utf8(bytes).unwrap()
}

/// Returns a frame of a server.
pub(crate) fn frame(opcode: u8, body: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x80 | opcode];
    match u8::try_from(body.len()) {
        Ok(length) if length < 126 => frame.push(length),
        _ => {
            frame.push(126);
            frame.extend(u16::try_from(body.len()).unwrap().to_be_bytes());
        }
    }
    frame.extend(body);
    frame
}

/// Returns a frame of text.
pub(crate) fn text(body: &str) -> Vec<u8> {
    frame(1, body.as_bytes())
}
