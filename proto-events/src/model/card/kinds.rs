//! The open lists of names in an agent card: roles, transports, MIME types, security schemes. Protolink names some
//! and checks none, so every other name is kept as it came.

use serde::{Serialize, Serializer};

/// Defines an enum of names that are known by their texts; any other text is kept.
macro_rules! open_names {
    ($(#[$outer:meta])* $name:ident { $($(#[$inner:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$outer])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$inner])* $variant,)+
            /// A name that Protolink does not list, as it came.
            Other(String),
        }

        impl $name {
            /// The names that Protolink lists.
            pub const LISTED: &'static [&'static str] = &[$($text),+];

            /// Returns the kind of this name.
            pub fn of(name: &str) -> Self {
                match name {
                    $($text => Self::$variant,)+
                    other => Self::Other(other.to_owned()),
                }
            }

            /// Returns the name on the wire.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $text,)+
                    Self::Other(name) => name,
                }
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

open_names! {
    /// The place of an agent among others. On our wire it is written and read; Protolink loses it.
    AgentRole {
        /// The entrance to other agents.
        Gateway = "gateway",
        /// The side that people use.
        Interface = "interface",
        /// An agent that only watches.
        Observer = "observer",
        /// An agent that gives work to others.
        Orchestrator = "orchestrator",
        /// An agent that does work; the default.
        Worker = "worker",
    }
}

open_names! {
    /// The transport under which an agent is reached.
    TransportType {
        /// Requests and answers over HTTP; the default.
        Http = "http",
        /// Frames over a WebSocket.
        WebSocket = "websocket",
        /// HTTP with server-sent events.
        Sse = "sse",
        /// Another name of [`TransportType::Sse`].
        JsonRpc = "json-rpc",
        /// Another name of [`TransportType::Sse`].
        SseJsonRpc = "sse-json-rpc",
        /// gRPC.
        Grpc = "grpc",
        /// Calls within one process.
        Runtime = "runtime",
    }
}

open_names! {
    /// A format that an agent reads or writes.
    MimeType {
        /// Plain text; the default.
        TextPlain = "text/plain",
        /// Markdown.
        TextMarkdown = "text/markdown",
        /// HTML.
        TextHtml = "text/html",
        /// JSON.
        Json = "application/json",
        /// A PNG image.
        Png = "image/png",
        /// A JPEG image.
        Jpeg = "image/jpeg",
        /// A WebP image.
        Webp = "image/webp",
        /// WAV audio.
        Wav = "audio/wav",
        /// MPEG audio.
        Mpeg = "audio/mpeg",
        /// Ogg audio.
        Ogg = "audio/ogg",
        /// MP4 video.
        Mp4 = "video/mp4",
        /// `WebM` video.
        Webm = "video/webm",
        /// A PDF document.
        Pdf = "application/pdf",
    }
}

open_names! {
    /// A kind of authentication that a card names. A server enforces what it is set up with, whatever a card names.
    SecuritySchemeType {
        /// A key in a header or in the query.
        ApiKey = "apiKey",
        /// An HTTP scheme: bearer, basic, digest.
        Http = "http",
        /// OAuth 2.
        OAuth2 = "oauth2",
        /// Certificates on both sides.
        MutualTls = "mutualTLS",
        /// `OpenID` Connect.
        OpenIdConnect = "openIdConnect",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_name_is_its_own_kind_and_any_other_is_kept() {
        for name in MimeType::LISTED {
            assert!(!matches!(MimeType::of(name), MimeType::Other(_)), "{name}");
            assert_eq!(MimeType::of(name).as_str(), *name);
        }
        for name in SecuritySchemeType::LISTED {
            assert_eq!(SecuritySchemeType::of(name).to_string(), *name);
        }
        assert_eq!(TransportType::of("carrier-pigeon").as_str(), "carrier-pigeon");
        assert_eq!(AgentRole::of("Worker"), AgentRole::Other("Worker".to_owned()));
    }
}
