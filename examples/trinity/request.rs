//! What counts of a request of Postfix: lines `name=value`.
//! <https://www.postfix.org/SMTPD_POLICY_README.html>

use std::net::IpAddr;

/// What counts of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Request {
    /// Who sends; none where Postfix does not know.
    pub(crate) client: Option<IpAddr>,
    /// Which mail it is: the same for all of its recipients. May be empty.
    pub(crate) instance: String,
}

/// Characters of an instance that are told apart; Postfix's have some 25.
const INSTANCE: usize = 64;

impl Request {
    /// Takes in one line, without its end. False if it is none of a request.
    pub(crate) fn take(&mut self, line: &[u8]) -> bool {
        // What is no UTF-8 is in values that do not count here.
        let line = String::from_utf8_lossy(line);
        match line.split_once('=') {
            Some(("client_address", address)) => self.client = address.parse().ok(),
            Some(("instance", instance)) => {
                self.instance = instance.chars().take(INSTANCE).collect();
            }
            Some(_) => {}
            None => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&[u8]]) -> Option<Request> {
        let mut request = Request::default();
        lines
            .iter()
            .all(|line| request.take(line))
            .then_some(request)
    }

    #[test]
    fn address_and_instance_count() {
        let lines: [&[u8]; 4] = [
            b"request=smtpd_access_policy",
            b"client_address=192.0.2.7",
            b"sender=\xff=\xff",
            b"instance=1f2e.5f.0",
        ];
        let found = read(&lines).unwrap();
        assert_eq!(found.client, "192.0.2.7".parse().ok());
        assert_eq!(found.instance, "1f2e.5f.0");
    }

    #[test]
    fn addresses_that_are_none_count_nothing() {
        assert_eq!(read(&[b"client_address=unknown"]).unwrap().client, None);
        assert_eq!(read(&[b"client_address="]).unwrap().client, None);
        assert!(read(&[b"no attribute"]).is_none());
        let long = [b"instance=".to_vec(), vec![b'x'; 9_999]].concat();
        assert_eq!(read(&[&long]).unwrap().instance.len(), INSTANCE);
    }
}
