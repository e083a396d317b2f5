//! The parts of a message on the command line, whose order counts across their flags.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches, error::ErrorKind};

/// A part as it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GivenPart {
    /// The kind.
    pub(crate) kind: PartKind,
    /// The text, the path or the address.
    pub(crate) value: String,
    /// The media type, where one was given.
    pub(crate) media_type: Option<String>,
}

/// The kind of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PartKind {
    /// A text.
    Text,
    /// A file, or the address of one.
    File,
    /// A file with JSON, or stdin.
    Data,
}

/// The parts in the order in which they were given.
#[derive(Debug, Clone, Default)]
pub(crate) struct PartsArgs(pub(crate) Vec<GivenPart>);

/// The flags of parts.
const FLAGS: [(&str, PartKind); 4] = [
    ("message", PartKind::Text),
    ("text", PartKind::Text),
    ("file", PartKind::File),
    ("data", PartKind::Data),
];

/// The flag that says of what media type the part before it is.
const MEDIA_TYPE: &str = "media_type";

impl FromArgMatches for PartsArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut found: Vec<(usize, GivenPart)> = Vec::new();
        for (flag, kind) in FLAGS {
            let values = matches.get_many::<String>(flag).into_iter().flatten().cloned();
            let places = matches.indices_of(flag).into_iter().flatten();
            // A positional text stands first wherever it was typed.
            let first = |at| if flag == "message" { 0 } else { at };
            found.extend(places.map(first).zip(values.map(|value| GivenPart {
                kind,
                value,
                media_type: None,
            })));
        }
        found.sort_by_key(|(at, _)| *at);
        let types = matches.get_many::<String>(MEDIA_TYPE).into_iter().flatten();
        for (at, media_type) in matches.indices_of(MEDIA_TYPE).into_iter().flatten().zip(types) {
            let before = found.iter_mut().rfind(|(place, _)| *place > 0 && *place < at);
            match before {
                Some((_, part)) if part.media_type.is_none() => part.media_type = Some(media_type.clone()),
                Some(_) => {
                    return Err(wrong("a part has two media types: give --media-type once after each part"));
                }
                None => {
                    return Err(wrong(
                        "--media-type belongs to the --text, --file or --data before it, and there is none",
                    ));
                }
            }
        }
        Ok(Self(found.into_iter().map(|(_, part)| part).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn wrong(why: &str) -> Error {
    Error::raw(ErrorKind::MissingRequiredArgument, format!("{why}\n"))
}

impl Args for PartsArgs {
    fn augment_args(command: Command) -> Command {
        let flag = |name: &'static str, value: &'static str, help: &'static str| {
            Arg::new(name).long(name).value_name(value).help(help).action(ArgAction::Append)
        };
        command
            .arg(Arg::new("message").value_name("TEXT").help("Text of the message"))
            .arg(flag("text", "TEXT", "A part with this text").allow_hyphen_values(true))
            .arg(flag("file", "PATH", "A part with this file, or an address that the agent fetches"))
            .arg(flag("data", "PATH", "A part with the JSON of this file; `-` is stdin"))
            .arg(
                flag(
                    MEDIA_TYPE,
                    "TYPE",
                    "Media type of the part before it [default: by the ending of its name]",
                )
                .long("media-type"),
            )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &[&str]) -> Result<Vec<GivenPart>, Error> {
        let matches = PartsArgs::augment_args(Command::new("x")).try_get_matches_from(line)?;
        PartsArgs::from_arg_matches(&matches).map(|parts| parts.0)
    }

    #[test]
    fn parts_keep_their_order_and_a_media_type_belongs_to_the_part_before_it() {
        let line =
            ["x", "--data", "d", "hi", "--file", "f", "--media-type", "a/b", "--text", "t", "--data", "e"];
        let parts = of(&line).unwrap();
        let shown: Vec<_> = parts.iter().map(|part| (part.kind, part.value.as_str())).collect();
        let (text, file, data) = (PartKind::Text, PartKind::File, PartKind::Data);
        assert_eq!(shown, [(text, "hi"), (data, "d"), (file, "f"), (text, "t"), (data, "e")]);
        assert_eq!(parts[2].media_type.as_deref(), Some("a/b"));
        assert!(of(&["x", "--media-type", "a/b", "--text", "t"]).is_err());
        assert!(of(&["x", "hi", "--media-type", "a/b"]).is_err());
        assert!(of(&["x", "--text", "t", "--media-type", "a/b", "--media-type", "c/d"]).is_err());
    }
}
