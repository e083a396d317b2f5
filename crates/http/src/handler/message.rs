//! Requests and responses, and the trait of what answers them.

use bytes::Bytes;
use futures_util::stream::BoxStream;
use http::Method;
use taskreel::BoxFuture;

use crate::handler::body::RequestBody;

/// A request with its body still to come.
pub type Request = http::Request<RequestBody>;

/// A response. Its `content-length` is set by the server that carries it.
pub type Response = http::Response<ResponseBody>;

/// The two directions of bytes of a connection after an upgrade (status 101).
pub type Socket = tokio::io::DuplexStream;

/// The body of a response.
pub enum ResponseBody {
    /// The whole body.
    Whole(Bytes),
    /// A body that is sent piece by piece, such as server-sent events. It is dropped when the client goes away.
    Pieces(BoxStream<'static, Bytes>),
    /// The code that follows an upgrade: called with the connection once the response with status 101 is sent. The future is dropped
    /// when the client goes away.
    Upgrade(Box<dyn FnOnce(Socket) -> BoxFuture<'static, ()> + Send>),
}

impl std::fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Whole(bytes) => f.debug_tuple("Whole").field(&bytes.len()).finish(),
            Self::Pieces(_) => f.write_str("Pieces"),
            Self::Upgrade(_) => f.write_str("Upgrade"),
        }
    }
}

/// Code that answers requests under some paths: one protocol. It knows no server, so that the same code is mounted in
/// actix-web and as a `tower` service.
pub trait HttpHandler: Send + Sync + 'static {
    /// Answers a request. The path is relative to the place where the handler is mounted.
    fn answer(&self, request: Request) -> BoxFuture<'static, Response>;

    /// Whether a path, relative to the place of the handler, is one of its own. Where several handlers are mounted over each
    /// other, a path that is not goes to the next one, as [`Mounted`](crate::Mounted) describes.
    fn serves(&self, path: &str) -> bool {
        path.starts_with('/')
    }

    /// Whether it asks every caller for a credential. Only then does [`Server`](crate::Server) listen for other machines.
    fn checks_callers(&self) -> bool {
        false
    }

    /// Whether the handler itself checks the scope of each message of such a request, which has it in its body.
    fn checks_scopes(&self, _method: &Method, _path: &str) -> bool {
        false
    }

    /// Whether a request with this method and path is for this handler: by default each with a path that it
    /// [serves](Self::serves). A handler that shares a path with another one takes its own methods only.
    fn takes(&self, method: &Method, path: &str) -> bool {
        let _ = method;
        self.serves(path)
    }
}
