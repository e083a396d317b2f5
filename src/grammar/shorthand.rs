//! The parser of a call in Python's notation, `agent.tool(city='Oslo', days=3)`: keyword arguments whose
//! values are literals, or one dict literal. Anything that would have to be evaluated is refused.

use proto_events::json::{JsonMap, JsonValue as Value};

use crate::grammar::literal::Reader;

/// A parsed call.
#[derive(Debug, PartialEq)]
pub(crate) struct Shorthand {
    /// The name before the only dot, if there is one.
    pub(crate) agent: Option<String>,
    /// The tool's name, which is the last one.
    pub(crate) tool: String,
    /// The arguments by name.
    pub(crate) args: JsonMap,
}

/// The reserved words of Python.
const KEYWORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def",
    "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is",
    "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
];

/// Parses a whole text as one call; models put it in backticks at times.
pub(crate) fn parse_call(text: &str) -> Option<Shorthand> {
    let text = text.trim().trim_matches('`');
    if is_indented(text) {
        return None;
    }
    let mut reader = Reader::new(text);
    let mut names = vec![name(&mut reader)?];
    while reader.eat('.') {
        names.push(name(&mut reader)?);
    }
    let args = arguments(&mut reader)?;
    if !reader.is_done() {
        return None;
    }
    let tool = names.pop()?;
    let agent = if names.len() == 1 { names.pop() } else { None };
    Some(Shorthand { agent, tool, args })
}

/// Whether the first line with code begins with space, which Python refuses.
fn is_indented(text: &str) -> bool {
    let code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    text.lines().find(code).is_some_and(|line| line.starts_with([' ', '\t']))
}

fn name(reader: &mut Reader<'_>) -> Option<String> {
    let name = reader.word();
    let begins = name.chars().next()?;
    let usable = (begins.is_alphabetic() || begins == '_') && !KEYWORDS.contains(&name.as_str());
    usable.then_some(name)
}

fn arguments(reader: &mut Reader<'_>) -> Option<JsonMap> {
    if !reader.eat('(') {
        return None;
    }
    if reader.peek() == Some('{') {
        let Value::Object(args) = reader.literal(0)? else {
            return None;
        };
        reader.eat(',');
        return reader.eat(')').then_some(args);
    }
    let mut args = JsonMap::new();
    while !reader.eat(')') {
        let name = name(reader)?;
        if !reader.eat('=') {
            return None;
        }
        args.insert(name, reader.literal(0)?);
        if !reader.eat(',') {
            return reader.eat(')').then_some(args);
        }
    }
    Some(args)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(text: &str) -> Option<String> {
        parse_call(text).map(|call| Value::Object(call.args).to_string())
    }

    #[test]
    fn literals_are_read_as_python_reads_them() {
        for (text, json) in [
            ("add()", "{}"),
            (" add ( a = 1 , ) ", r#"{"a":1}"#),
            ("add(a=-1.5,b=+1,c=- 2)", r#"{"a":-1.5,"b":1,"c":-2}"#),
            ("add(a=True,b=None,c=False)", r#"{"a":true,"b":null,"c":false}"#),
            (r"add(a='it\'s', b='\u00e9\x41\n\101\q')", r#"{"a":"it's","b":"éA\nA\\q"}"#),
            (
                "add(a=[1,'x',{'k':(1,2)}],b=(1,),c=(1),d=(),e={1,2})",
                r#"{"a":[1,"x",{"k":[1,2]}],"b":[1],"c":1,"d":[],"e":[1,2]}"#,
            ),
            ("add(a='x' \"y\",b=r'\\n',c='''t\nx''',d='')", r#"{"a":"xy","b":"\\n","c":"t\nx","d":""}"#),
            (
                "add(a=1_000,b=0x10,c=1_0e5,d=1180591620717411303424,e=.5,f=5.)",
                r#"{"a":1000,"b":16,"c":1000000.0,"d":1180591620717411303424,"e":0.5,"f":5.0}"#,
            ),
            (
                "add(a=1E5,b=3.0e0,c=-1e-7,d=1.50,e=-0.0)",
                r#"{"a":1E5,"b":3.0e0,"c":-1e-7,"d":1.50,"e":-0.0}"#,
            ),
            ("`add(a=1)`", r#"{"a":1}"#),
            (" ``add(a='`') `` ", r#"{"a":"`"}"#),
            ("`\n# why\nadd(a=1)\n`", r#"{"a":1}"#),
            ("add(a=1,a=2)", r#"{"a":2}"#),
            ("add({'a': [True, None]})", r#"{"a":[true,null]}"#),
            ("add(a=1 # why\n)", r#"{"a":1}"#),
        ] {
            assert_eq!(args(text).as_deref(), Some(json), "{text}");
        }
    }

    #[test]
    fn what_would_have_to_be_run_is_not_read() {
        for text in [
            "add(1,2)",
            "add(a=1+2)",
            "add(a=x)",
            "add(a=f(1))",
            "add(**{'a':1})",
            "add({'a':1},b=2)",
            "add([1])",
            "add('x')",
            "add",
            "add(a=1) more",
            "call add(a=1)",
            "add(a=1);",
            "add(a=true)",
            "add(a=--1)",
            "add(a=f'x')",
            "add(a=b'x')",
            "1add(a=1)",
            "add(a=1)(b=2)",
            "add(a=007)",
            "add(a=1e400)",
            "add(a:=1)",
            "add(a=-'x')",
            "add(a='x'.upper())",
            "add[a](b=1)",
            "add(class=1)",
            "add({1:2})",
            "add(a='",
            "add(a=",
            "add(a=1__0)",
            "add(a=0x)",
            "(",
            "",
            ".",
            "é",
            "add(a={'a':1,2})",
            "add(a=1j)",
            "add(a=e5)",
            "add(a=inf)",
            "` add(a=1)`",
            "`\n  add(a=1)`",
            "```python\nadd(a=1)\n```",
            "add(a=`1`)",
            "``",
        ] {
            assert_eq!(args(text), None, "{text}");
        }
        assert_eq!(args(&format!("add(a={}1{})", "[".repeat(100), "]".repeat(100))), None);
    }

    #[test]
    fn the_name_before_the_only_dot_is_the_agent() {
        let call = parse_call("w.get_weather(q='x')").unwrap();
        assert_eq!((call.agent.as_deref(), call.tool.as_str()), (Some("w"), "get_weather"));
        let call = parse_call("a.b.c(q=1)").unwrap();
        assert_eq!((call.agent, call.tool.as_str()), (None, "c"));
    }
}
