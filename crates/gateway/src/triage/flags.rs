//! Flags of the automaton's states. The build takes them from here for the kernel's program, so
//! this file needs no other.

/// The payload may be a message of an application that the policy cares about. It stays so.
pub const ASK: u8 = 1;
/// The payload opens as an application that the policy does not care about. It stays so, but for
/// [`ASK`].
pub const KNOWN: u8 = 2;
/// If the payload ends here, the bytes that follow in the stream may still lead to [`ASK`].
pub const OPEN: u8 = 4;
/// Nothing that follows changes anything.
pub const DEAD: u8 = 8;
