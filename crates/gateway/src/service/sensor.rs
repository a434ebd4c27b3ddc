//! Who writes events, and what interfaces are called.

use std::collections::HashMap;
use std::sync::Arc;

use rustix::net::netdevice::index_to_name;
use rustix::net::{AddressFamily, SocketType, socket};

use crate::eve::Sensor;
use crate::limits::MAX_INTERFACE_NAMES;

/// The sensor, with the names of interfaces as far as they were asked for.
#[derive(Debug)]
pub(super) struct Sensors {
    host: Option<Arc<str>>,
    names: HashMap<u32, Option<Arc<str>>>,
}

impl Sensors {
    /// Of the sensor of this name.
    pub(super) fn new(host: Option<String>) -> Sensors {
        Sensors {
            host: host.map(Arc::from),
            names: HashMap::new(),
        }
    }

    /// The sensor, where a packet came by the interface of this number; 0: that is not known.
    pub(super) fn of(&mut self, interface: u32) -> Sensor {
        if self.names.len() >= MAX_INTERFACE_NAMES {
            self.names.clear();
        }
        let name = (interface > 0).then(|| {
            let known = self.names.entry(interface);
            known.or_insert_with(|| name_of(interface)).clone()
        });
        Sensor {
            host: self.host.clone(),
            in_iface: name.flatten(),
        }
    }
}

fn name_of(interface: u32) -> Option<Arc<str>> {
    let any = socket(AddressFamily::UNIX, SocketType::DGRAM, None).ok()?;
    index_to_name(any, interface).ok().map(Arc::from)
}

#[cfg(test)]
mod tests {
    use super::Sensors;

    #[test]
    fn interfaces_are_called_by_their_names() {
        let mut sensors = Sensors::new(Some("gate-1".to_owned()));
        let sensor = sensors.of(1);
        assert_eq!(sensor.in_iface.as_deref(), Some("lo"));
        assert_eq!(sensor.host.as_deref(), Some("gate-1"));
        assert_eq!(sensors.of(0).in_iface, None);
    }
}
