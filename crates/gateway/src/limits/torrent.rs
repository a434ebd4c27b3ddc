//! Bounds of the search for names of torrents.

/// Bytes of a torrent's metadata, and of a torrent's file, that are read for its name.
/// Source: chosen: the hashes of a hundred thousand pieces. Past it the torrent has no name.
pub const MAX_METADATA: usize = 2_097_152;

/// Bytes of a piece of metadata, but for the last.
/// Source: BEP 9. Pieces of other lengths are passed over.
pub const METADATA_PIECE: usize = 16_384;

/// Torrents whose metadata is put together at a time.
/// Source: chosen: clients begin some dozens at once. Past it the one that has waited for its next
/// piece for longest is given up.
pub const MAX_ASSEMBLIES: usize = 256;

/// Bytes of all metadata that is put together at a time.
/// Source: chosen: eight of the largest. Past it those that have waited for longest are given up.
pub const MAX_METADATA_HELD: usize = 16_777_216;

/// Bytes that one torrent's assembly costs beside its pieces, and for each of these.
/// Source: measured: tables and pointers. They count as held.
pub const ASSEMBLY_OVERHEAD: usize = 256;

/// Bytes of a torrent's name.
/// Source: POSIX: `NAME_MAX` of file systems, in which clients make a file or folder of it. Past it
/// the name is cut.
pub const MAX_TORRENT_NAME: usize = 255;

/// Torrents whose names are known without a look into the history.
/// Source: chosen: some 6 MB. Past it the older half is forgotten, and looked for again.
pub const MAX_KNOWN_NAMES: usize = 16_384;

/// Bytes of an extension's message between peers.
/// Source: BEP 9: a piece with its head, and BEP 10: handshakes have some hundreds. Longer ones are
/// passed over.
pub const MAX_EXTENSION_MESSAGE: usize = 17_408;

/// Packets with data of one connection that are read for a torrent's name.
/// Source: chosen: the largest metadata in small segments. Past it the connection is not read any
/// more, and the kernel carries it.
pub const MAX_NAMING_PACKETS: u32 = 4_096;

/// Bytes of the same.
/// Source: chosen: twice the largest metadata. Past it as above.
pub const MAX_NAMING_BYTES: usize = 4_194_304;

/// Connections by uTP between two ports that are read for names at a time.
/// Source: chosen: torrents that two peers begin to share at once. Past it the first is given up.
pub const MAX_NAMING_CONNECTIONS: usize = 8;

/// Bytes of one direction that wait behind a gap.
/// Source: chosen: four packets that the kernel has joined. Past it the connection is not read any
/// more.
pub const MAX_NAMING_AHEAD: usize = 262_144;

/// Parts of the same.
/// Source: chosen: a window of a home line. Past it as above.
pub const MAX_NAMING_PARTS: usize = 128;

/// Bytes that all connections hold which are read for names of torrents.
/// Source: chosen: a thousand peers with a message each. Past it a connection that needs more is
/// not read any more.
pub const MAX_NAMING_HELD: usize = 16_777_216;
