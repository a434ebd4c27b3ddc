//! Bounds of backups of the authority, of its terms, and of what members report to it.

/// Bytes of a backup that is read.
///
/// Source: each member that ever was takes about 500 bytes; this is room for a million. A longer
/// one is refused.
pub const BACKUP_BYTES: usize = 512 << 20;

/// Characters of a passphrase that a backup is made with.
///
/// Source: NIST SP 800-63B-4 §3.1.1 for a password that is the only factor. A shorter one is
/// refused.
pub const PASSPHRASE_LEAST: usize = 15;

/// Work to make a key of a passphrase: the logarithm of scrypt's N; memory is 2^N KiB.
///
/// Source: the default of `age` itself: 256 MiB and about a second.
pub const SCRYPT_WORK: u8 = 18;

/// Most such work that is done for a backup that is opened.
///
/// Source: 1 GiB of memory, which machines have that hold a ring. One that asks for more is
/// refused.
pub const SCRYPT_MOST: u8 = 20;

/// Times that an authority can be promoted in the life of a ring.
///
/// Source: eleven bits of a statement's number, above the 52 of its time. Past it a promotion is
/// refused.
pub const TERMS: u64 = 2_047;

/// Pause between two attempts to tell the authority before that another was promoted.
///
/// Source: chosen: so long can one that comes back admit members whom the other learns of later.
pub const FORMER_RETRY: std::time::Duration = std::time::Duration::from_secs(5);

/// Pause between two reports of a member to the authority; half of it to all of it, at random.
///
/// Source: chosen; a day is what an owner wants to know, and 100 000 members make two connections a
/// second.
pub const REPORT_PAUSE: std::time::Duration = std::time::Duration::from_secs(86_400);

/// Time within which a member first reports after its start, at random.
///
/// Source: chosen; members that start at once, after a power cut, do not come at once.
pub const REPORT_FIRST: std::time::Duration = std::time::Duration::from_secs(60);

/// Characters of a version that a member reports.
///
/// Source: chosen; ours have six. Further ones are cut off.
pub const VERSION_CHARACTERS: usize = 40;
