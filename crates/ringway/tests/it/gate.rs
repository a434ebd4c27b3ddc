//! The gateway at a border of its own: a client inside, a server outside, real programs on both
//! sides.
//!
//! These need root, `ip`, `iptables` and Python. Where they are missing, each test says so on
//! stderr and passes without having tested.

mod accounts;
mod beginnings;
mod beside;
mod border;
mod both;
mod bridge;
mod changes;
mod checksums;
mod classes;
mod clients;
mod collectors;
mod denied;
mod directconnect;
mod edonkey;
mod ends;
mod evasions;
mod events;
mod fairness;
mod faults;
mod files;
mod firewalls;
mod forged;
mod howto;
mod irc;
mod kept;
mod kernel;
mod malware;
mod matrix;
mod observed;
mod parts;
mod policies;
mod privileges;
mod queues;
mod quotas;
mod reloads;
mod replays;
mod resets;
mod restarted;
mod retries;
mod reused;
mod scans;
mod shaped;
mod speakers;
mod swarms;
mod terminated;
mod torrents;
mod translated;
mod untracked;
mod web;
mod why;
mod xmpp;
mod yara;
