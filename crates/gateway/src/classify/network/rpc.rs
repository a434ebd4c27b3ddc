//! ONC RPC (RFC 5531 §9), by which NFS and its helpers are called.

use crate::classify::message::{Finding, Memory, Message};
use crate::reader::{Reader, index};

/// Of a fragment's length over TCP: it is the last one; RFC 5531 §11.
const LAST: u32 = 0x8000_0000;
/// Who assigns ports, and its procedure that tells one.
const PORTMAPPER: u32 = 100_000;
const GET_PORT: u32 = 3;
/// NFS, mounts, locks, status, access lists, quotas.
const NFS: [u32; 6] = [100_003, 100_005, 100_021, 100_024, 100_227, 100_011];
/// Numbers of programs: assigned ones, those of users, passing ones; RFC 5531 §8.2.
const LAST_ASSIGNED: u32 = 600_100;
const USERS: std::ops::Range<u32> = 0x2000_0000..0x6000_0000;
/// RFC 5531 §8.2.
const LONGEST_PROOF: usize = 400;

/// What is called.
struct Call {
    program: u32,
    procedure: u32,
    /// The first number of what is handed over.
    first: Option<u32>,
}

/// A call of version 2 with who calls and what proves it.
fn call(bytes: &[u8]) -> Option<Call> {
    let mut reader = Reader::new(bytes);
    reader.be32()?;
    let is_call = reader.be32()? == 0 && reader.be32()? == 2;
    let program = reader.be32()?;
    let version = reader.be32()?;
    let procedure = reader.be32()?;
    let assigned = (PORTMAPPER..=LAST_ASSIGNED).contains(&program) || USERS.contains(&program);
    if !is_call || !assigned || version > 16 || procedure > 255 {
        return None;
    }
    // Who calls, and what proves it, of the same form.
    for _ in 0..2 {
        let flavour = reader.be32()?;
        let length = index(reader.be32()?);
        let known = flavour <= 7 || (390_000..400_000).contains(&flavour);
        if !known || length > LONGEST_PROOF || !length.is_multiple_of(4) {
            return None;
        }
        reader.take(length)?;
    }
    Some(Call {
        program,
        procedure,
        first: reader.be32(),
    })
}

fn is_nfs(call: &Call) -> bool {
    let asks = call.program == PORTMAPPER && call.procedure == GET_PORT;
    let wanted = call.first.filter(|_| asks);
    NFS.contains(&call.program) || wanted.is_some_and(|program| NFS.contains(&program))
}

fn named(call: &Call) -> Finding {
    let (program, procedure) = (call.program, call.procedure);
    Finding::certain(format!(
        "a call of program {program}, procedure {procedure}"
    ))
}

/// What the first fragment of a stream holds.
fn fragment<'a>(message: &Message<'a>) -> Option<&'a [u8]> {
    let mut reader = Reader::new(message.bytes);
    let length = index(reader.be32()?.checked_sub(LAST)?);
    // Calls that write are long; what tells them stands at their beginning.
    (length >= 40).then(|| reader.rest())
}

pub(super) fn nfs(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    call(message.bytes).filter(is_nfs).as_ref().map(named)
}

pub(super) fn nfs_stream(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    call(fragment(message)?).filter(is_nfs).as_ref().map(named)
}

pub(super) fn any(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let call = call(message.bytes)?;
    (!is_nfs(&call)).then(|| named(&call))
}

pub(super) fn any_stream(message: &Message<'_>, _: &mut Memory) -> Option<Finding> {
    let call = call(fragment(message)?)?;
    (!is_nfs(&call)).then(|| named(&call))
}
