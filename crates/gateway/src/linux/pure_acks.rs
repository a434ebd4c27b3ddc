//! Pure ACKs: TCP segments that only acknowledge, without data, SYN, FIN and RST.
//!
//! While a file goes by that is not read they are all that its receiver sends, and the kernel
//! passes them on. It finds them by a program of the classic packet filter (`xt_bpf`), which sees
//! packets from the IP header on.

use std::fmt;

/// An instruction: code, jump if true, jump if false, operand; see `linux/filter.h`.
type Instruction = (u16, u8, u8, u32);

const LOAD_BYTE: u16 = 0x30;
const LOAD_HALF: u16 = 0x28;
const LOAD_BYTE_BEHIND_X: u16 = 0x50;
const X_IS_HEADER_LENGTH: u16 = 0xb1;
const X_IS_A: u16 = 0x07;
const ADD_X: u16 = 0x0c;
const SUBTRACT_X: u16 = 0x1c;
const LEFT: u16 = 0x64;
const RIGHT: u16 = 0x74;
const IF_EQUAL: u16 = 0x15;
const IF_ANY_BIT: u16 = 0x45;
const RETURN: u16 = 0x06;

/// FIN, SYN and RST.
const CONTROL: u32 = 0x07;
const TCP: u32 = 6;

/// Over IPv4: the packet's length is that of both headers. A fragment is none.
pub(super) const IPV4: Program = Program(&[
    (LOAD_BYTE, 0, 0, 9),
    (IF_EQUAL, 0, 13, TCP),
    (LOAD_HALF, 0, 0, 6),
    (IF_ANY_BIT, 11, 0, 0x3fff),
    (X_IS_HEADER_LENGTH, 0, 0, 0),
    (LOAD_BYTE_BEHIND_X, 0, 0, 13),
    (IF_ANY_BIT, 8, 0, CONTROL),
    (LOAD_BYTE_BEHIND_X, 0, 0, 12),
    (RIGHT, 0, 0, 4),
    (LEFT, 0, 0, 2),
    (ADD_X, 0, 0, 0),
    (X_IS_A, 0, 0, 0),
    (LOAD_HALF, 0, 0, 2),
    (SUBTRACT_X, 0, 0, 0),
    (IF_EQUAL, 1, 0, 0),
    (RETURN, 0, 0, 0),
    (RETURN, 0, 0, 0xffff),
]);

/// Over IPv6 without extension headers: the payload is the TCP header.
pub(super) const IPV6: Program = Program(&[
    (LOAD_BYTE, 0, 0, 6),
    (IF_EQUAL, 0, 9, TCP),
    (LOAD_BYTE, 0, 0, 53),
    (IF_ANY_BIT, 7, 0, CONTROL),
    (LOAD_BYTE, 0, 0, 52),
    (RIGHT, 0, 0, 4),
    (LEFT, 0, 0, 2),
    (X_IS_A, 0, 0, 0),
    (LOAD_HALF, 0, 0, 4),
    (SUBTRACT_X, 0, 0, 0),
    (IF_EQUAL, 1, 0, 0),
    (RETURN, 0, 0, 0),
    (RETURN, 0, 0, 0xffff),
]);

/// A program, written as iptables' match `bpf` takes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Program(&'static [Instruction]);

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.len())?;
        for (code, yes, no, operand) in self.0 {
            write!(f, ",{code} {yes} {no} {operand}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use etherparse::PacketBuilder;

    use super::{IPV4, IPV6, Program};

    /// Runs a program as the kernel does: a load from outside of the packet ends it without a
    /// match.
    #[expect(
        clippy::as_conversions,
        clippy::arithmetic_side_effects,
        reason = "small numbers"
    )]
    fn matches(program: Program, packet: &[u8]) -> bool {
        let (mut a, mut x, mut at) = (0_u32, 0_u32, 0_usize);
        let byte = |offset: usize| packet.get(offset).map(|&byte| u32::from(byte));
        loop {
            let (code, yes, no, operand) = program.0[at];
            let offset = operand as usize;
            at += 1;
            let loaded = match code {
                super::LOAD_BYTE => byte(offset),
                super::LOAD_HALF => {
                    byte(offset).and_then(|high| Some(high << 8 | byte(offset + 1)?))
                }
                super::LOAD_BYTE_BEHIND_X => byte(x as usize + offset),
                super::X_IS_HEADER_LENGTH => byte(offset).map(|first| {
                    x = (first & 0xf) * 4;
                    a
                }),
                super::X_IS_A => {
                    x = a;
                    Some(a)
                }
                super::ADD_X => Some(a.wrapping_add(x)),
                super::SUBTRACT_X => Some(a.wrapping_sub(x)),
                super::LEFT => Some(a << operand),
                super::RIGHT => Some(a >> operand),
                super::IF_EQUAL | super::IF_ANY_BIT => {
                    let holds = if code == super::IF_EQUAL {
                        a == operand
                    } else {
                        a & operand != 0
                    };
                    at += usize::from(if holds { yes } else { no });
                    Some(a)
                }
                super::RETURN => return operand != 0,
                other => panic!("{other:#x}"),
            };
            match loaded {
                Some(value) => a = value,
                None => return false,
            }
        }
    }

    fn segment(v6: bool, flags: &str, options: &[u8], payload: &[u8]) -> Vec<u8> {
        let builder = if v6 {
            PacketBuilder::ipv6([1; 16], [2; 16], 64)
        } else {
            PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
        };
        let mut tcp = builder.tcp(1, 2, 3, 4).ack(5).options_raw(options).unwrap();
        for flag in flags.chars() {
            tcp = match flag {
                's' => tcp.syn(),
                'f' => tcp.fin(),
                'r' => tcp.rst(),
                _ => tcp.psh(),
            };
        }
        let mut bytes = Vec::new();
        tcp.write(&mut bytes, payload).unwrap();
        bytes
    }

    #[test]
    fn only_segments_that_say_nothing_match() {
        let timestamps = [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2];
        for (v6, program) in [(false, IPV4), (true, IPV6)] {
            for options in [[].as_slice(), &timestamps] {
                assert!(matches(program, &segment(v6, "", options, b"")));
                assert!(matches(program, &segment(v6, "p", options, b"")));
                for flag in ["s", "f", "r"] {
                    assert!(
                        !matches(program, &segment(v6, flag, options, b"")),
                        "{flag}"
                    );
                }
                for length in [1, 12, 1_400] {
                    let bytes = segment(v6, "", options, &vec![0; length]);
                    assert!(!matches(program, &bytes), "{length}");
                }
            }
            let whole = segment(v6, "", &timestamps, b"");
            for end in 0..32 {
                assert!(!matches(program, &whole[..end]), "{end}");
            }
        }
    }

    #[test]
    fn only_pure_acks_match() {
        let mut options = segment(false, "", &[], &[0; 4]);
        // The payload becomes an option of IP, as far as the header's length says.
        options[0] = 0x46;
        assert!(!matches(IPV4, &options));
        for offset in [6, 7] {
            let mut fragment = segment(false, "", &[], b"");
            fragment[offset] |= 0x20;
            assert!(!matches(IPV4, &fragment));
        }
        let mut datagram = segment(false, "", &[], b"");
        datagram[9] = 17;
        assert!(!matches(IPV4, &datagram));
        let mut extended = segment(true, "", &[], b"");
        extended[6] = 0;
        assert!(!matches(IPV6, &extended));
    }

    #[test]
    fn a_program_is_written_as_iptables_reads_it() {
        assert!(
            IPV4.to_string()
                .starts_with("17,48 0 0 9,21 0 13 6,40 0 0 6,")
        );
        assert!(IPV6.to_string().ends_with(",6 0 0 0,6 0 0 65535"));
    }
}
