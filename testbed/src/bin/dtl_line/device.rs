//! An end of the line: a packet socket on a device.

use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::time::{Duration, SystemTime};

use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockProtocol, SockType,
    SockaddrLike as _, bind, recvmsg, send, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeSpec;

/// Bytes of frames that wait for the next look at a device, with what the kernel counts for each
/// (about 2.3 kB a packet): 7 000 packets, of which 5 ms at 10 Gbit/s have 4 200. More are lost
/// before the line sees them.
const BUFFER: usize = 16 << 20;

/// All frames that a device receives, and a way to send from it. Not blocking.
#[derive(Debug)]
pub(crate) struct Device {
    socket: OwnedFd,
    /// Room for the time stamp of a frame.
    control: Vec<u8>,
}

impl Device {
    /// Opens a device of this thread's namespace. It stays there whichever thread uses it. The
    /// device should be down, so that nothing passes before all is ready.
    pub(crate) fn open(interface: &str) -> io::Result<Device> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(
            AddressFamily::Packet,
            SockType::Raw,
            flags,
            SockProtocol::EthAll,
        )?;
        let mut addresses = getifaddrs()?.filter(|address| address.interface_name == interface);
        // Its address of the link layer carries its number.
        let address = addresses.find_map(|address| {
            address
                .address
                .filter(|address| address.family() == Some(AddressFamily::Packet))
        });
        let link = address.as_ref().and_then(|address| address.as_link_addr());
        bind(socket.as_raw_fd(), link.ok_or(Errno::ENODEV)?)?;
        setsockopt(&socket, sockopt::RcvBufForce, &BUFFER)?;
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
        Ok(Device {
            socket,
            control: nix::cmsg_space!(TimeSpec),
        })
    }

    /// The next frame's length and when it came; `None` if there is none now. A longer frame than
    /// the buffer is cut.
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<(usize, SystemTime)>> {
        let mut slices = [IoSliceMut::new(buffer)];
        let socket = self.socket.as_raw_fd();
        let received = match recvmsg::<()>(
            socket,
            &mut slices,
            Some(&mut self.control),
            MsgFlags::empty(),
        ) {
            Ok(received) => received,
            // The device was down when the socket was bound to it, or is now: said once, and no end
            // of the line.
            Err(Errno::EAGAIN | Errno::EINTR | Errno::ENETDOWN) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let stamp = received.cmsgs()?.find_map(|message| match message {
            ControlMessageOwned::ScmTimestampns(stamp) => Some(Duration::from(stamp)),
            _ => None,
        });
        let came = stamp.map_or_else(SystemTime::now, |stamp| SystemTime::UNIX_EPOCH + stamp);
        Ok(Some((received.bytes, came)))
    }

    /// Sends a frame. A device that is down or full drops it, as a real one does.
    pub(crate) fn send(&self, frame: &[u8]) {
        send(self.socket.as_raw_fd(), frame, MsgFlags::empty()).ok();
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
