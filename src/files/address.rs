//! Addresses that a request for somebody else may not reach: everything but the public internet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The names of hosts that are never on the public internet.
const BLOCKED_NAMES: [&str; 5] = [
    "localhost",
    "localhost.localdomain",
    "metadata.google.internal",
    "instance-data",
    "instance-data.ec2.internal",
];

/// The endings of such names.
const BLOCKED_ENDINGS: [&str; 3] = [".localhost", ".local", ".internal"];

/// The hosts that a request for somebody else may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Hosts {
    /// The hosts of the public internet.
    #[default]
    Public,
    /// The hosts of the public internet, and this machine itself by its loopback addresses: for tests and for local work.
    PublicAndLoopback,
}

impl Hosts {
    /// Whether a connection to an address may be made. A client that asks a host checks every address that its name resolves to,
    /// and connects to one that was checked.
    pub fn may_connect(self, address: IpAddr) -> bool {
        is_public(address) || (self == Self::PublicAndLoopback && address.to_canonical().is_loopback())
    }

    /// Whether a host, in lower case and without brackets or a final dot, may be asked for at all.
    pub(super) fn may_name(self, host: &str) -> bool {
        let is_loopback = || match host.parse::<IpAddr>() {
            Ok(address) => self.may_connect(address),
            Err(_) => host == "localhost" || host.ends_with(".localhost"),
        };
        is_allowed_host(host) || (self == Self::PublicAndLoopback && is_loopback())
    }
}

/// Whether an address is on the public internet. A client that fetches a file checks every address that a name resolves to,
/// and connects to one that was checked.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => address.to_ipv4_mapped().map_or_else(|| is_public_v6(address), is_public_v4),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let blocked = match a {
        0 | 10 | 127 | 224.. => true,
        100 => (64..128).contains(&b),
        169 => b == 254,
        172 => (16..32).contains(&b),
        // The last one was for tunnels from version 6 to version 4.
        192 => b == 168 || (b == 0 && (c == 0 || c == 2)) || (b == 88 && c == 99),
        198 => (18..20).contains(&b) || (b == 51 && c == 100),
        203 => b == 0 && c == 113,
        _ => false,
    };
    !blocked
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    // 2000::/3 is what is routed; within it stand documentation, tunnels that embed an address of version 4, and
    // 2001::/23, which is for protocols: another tunnel, benchmarks, identifiers that look like addresses.
    let routed = (first & 0xe000) == 0x2000;
    let documentation = (first == 0x2001 && second == 0x0db8) || (first == 0x3fff && second < 0x1000);
    let tunnel = first == 0x2002;
    let protocols = first == 0x2001 && second < 0x0200;
    routed && !documentation && !tunnel && !protocols
}

/// Whether a host, in lower case and without brackets or a final dot, may be asked for at all.
fn is_allowed_host(host: &str) -> bool {
    if let Ok(address) = host.parse::<IpAddr>() {
        return is_public(address);
    }
    let blocked_name =
        BLOCKED_NAMES.contains(&host) || BLOCKED_ENDINGS.iter().any(|ending| host.ends_with(ending));
    // Resolvers read numbers in other forms as addresses: one number, hexadecimal, octal, fewer than four.
    let is_number = |label: &str| match label.strip_prefix("0x") {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_digit()),
    };
    // Some resolvers drop every dot at the end, not the last one alone: `127.0.0.1..` is an address to them.
    let has_empty_label = host.split('.').any(str::is_empty);
    !has_empty_label && !blocked_name && !host.contains(':') && !host.split('.').all(is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_public_internet_may_be_asked() {
        for host in [
            "example.com",
            "8.8.8.8",
            "2606:4700::1111",
            "2001:200::1",
            "192.88.98.1",
            "::ffff:8.8.8.8",
            "0x.example",
            "172.32.0.1",
        ] {
            assert!(is_allowed_host(host), "{host}");
        }
        for host in [
            "",
            "localhost",
            "a.localhost",
            "db.internal",
            "127.0.0.1",
            "10.1.2.3",
            "100.64.0.1",
            "169.254.169.254",
            "192.0.2.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fc00::1",
            "fe80::1",
            "::ffff:127.0.0.1",
            "192.88.99.1",
            "2001::7f00:1",
            "2001:2::1",
            "2001:20::1",
            "2001:2f::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "64:ff9b::7f00:1",
            "2130706433",
            "0x7f000001",
            "0177.0.0.1",
            "127.1",
            "0x7f.1",
            "127.0.0.1.",
            "127.0.0.1..",
            "localhost.",
            "a..example.com",
            ".example.com",
        ] {
            assert!(!is_allowed_host(host), "{host}");
        }
    }

    #[test]
    fn loopback_is_reached_only_where_it_is_allowed_and_nothing_else_is_reached_with_it() {
        for host in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "localhost", "a.localhost"] {
            assert!(Hosts::PublicAndLoopback.may_name(host) && !Hosts::Public.may_name(host), "{host}");
        }
        for host in [
            "10.1.2.3",
            "169.254.169.254",
            "::",
            "0.0.0.0",
            "fe80::1",
            "64:ff9b::7f00:1",
            "2130706433",
            "127.1",
        ] {
            assert!(!Hosts::PublicAndLoopback.may_name(host), "{host}");
        }
    }
}
