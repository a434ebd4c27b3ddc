//! Every bound of this crate: unit, source, and what happens past it.

/// Bytes of one line on the control socket.
///
/// Source: the longest reply is a status with 1024 links of about 300 bytes each. A longer line is
/// an error to its reader.
pub const CONTROL_LINE: usize = 1 << 20;

/// Messages of one batch.
///
/// Source: chosen: what one write to a disk is worth. More are refused; a client makes several.
pub const BATCHED_MESSAGES: usize = 1_000;

/// Bytes of all bodies of one batch.
///
/// Source: in base64, with a quote and a comma each, they fit into [`CONTROL_LINE`]. More are
/// refused; a client makes several.
pub const BATCHED_BYTES: usize = 512 * 1024;

/// Pause before messages are given again to a daemon that had no room for them.
///
/// Source: chosen: some round trips. A longer one lets a fast line wait.
pub const BATCH_PAUSE: std::time::Duration = std::time::Duration::from_millis(50);

/// Bytes of a release's name that another program or member has written.
///
/// Source: chosen: names such as `0.12.3-rc.1+deb1` have some dozen. Past it the rest is not shown.
pub const MAX_RELEASE: usize = 32;

/// Events that wait for a program.
///
/// Source: chosen: what one poll of a busy member brings. Past it polling waits for the program,
/// and changes in between become one event.
pub const EVENTS: usize = 256;

/// Pause between two looks at the transfers of a member.
///
/// Source: chosen: a person sees progress twice a second. A longer one shows changes later.
pub const EVENT_POLL: std::time::Duration = std::time::Duration::from_millis(500);
