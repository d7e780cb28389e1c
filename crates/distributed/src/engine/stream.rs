//! Connections between two ranks: over TCP, and over a local socket where both are on one machine, which costs the system half as much.

use flambeau_core::Result;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

#[cfg(target_os = "linux")]
mod local {
    //! Sockets with abstract names, which leave no files behind.

    use std::fs;
    use std::io;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

    /// What is the same for processes that can reach each other's local sockets: the boot of the system, and the network namespace.
    pub(super) fn machine() -> io::Result<String> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
        let network = fs::read_link("/proc/self/ns/net")?;
        Ok(format!("{}/{}", boot.trim(), network.display()))
    }

    pub(super) fn listen(name: &str) -> io::Result<UnixListener> {
        UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)
    }

    pub(super) fn connect(name: &str) -> io::Result<UnixStream> {
        UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)
    }
}

/// A connection.
pub(super) enum Stream {
    Tcp(TcpStream),
    #[cfg(target_os = "linux")]
    Local(std::os::unix::net::UnixStream),
}

/// Calls a method that both kinds of sockets have.
macro_rules! either {
    ($stream:expr, $socket:ident => $call:expr) => {
        match $stream {
            Stream::Tcp($socket) => $call,
            #[cfg(target_os = "linux")]
            Stream::Local($socket) => $call,
        }
    };
}

impl Stream {
    pub(super) fn try_clone(&self) -> io::Result<Stream> {
        Ok(match self {
            Stream::Tcp(socket) => Stream::Tcp(socket.try_clone()?),
            #[cfg(target_os = "linux")]
            Stream::Local(socket) => Stream::Local(socket.try_clone()?),
        })
    }

    pub(super) fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        either!(self, socket => socket.set_read_timeout(timeout))
    }

    pub(super) fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        either!(self, socket => socket.set_write_timeout(timeout))
    }

    pub(super) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        either!(self, socket => socket.shutdown(how))
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        either!(self, socket => socket.read(buffer))
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        either!(self, socket => socket.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        either!(self, socket => socket.flush())
    }
}

/// Where a rank can be reached: by TCP from everywhere, and by the name of a local socket from processes of one machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    tcp: SocketAddr,
    /// The machine, and the name of the socket there.
    local: Option<(String, String)>,
}

impl Address {
    /// `10.0.0.1:4000`, or `10.0.0.1:4000 machine name`.
    pub(super) fn text(&self) -> String {
        match &self.local {
            None => self.tcp.to_string(),
            Some((machine, name)) => format!("{} {machine} {name}", self.tcp),
        }
    }

    pub(super) fn parse(text: &str) -> Option<Address> {
        let mut words = text.split(' ');
        let tcp = words.next()?.parse().ok()?;
        let local = words.next().zip(words.next());
        Some(Address { tcp, local: local.map(|(machine, name)| (machine.to_owned(), name.to_owned())) })
    }

    /// Connects, by the local socket if there is one that can be reached.
    pub(super) fn connect(&self, timeout: Duration) -> io::Result<Stream> {
        #[cfg(target_os = "linux")]
        if let Some((machine, name)) = &self.local
            && local::machine().is_ok_and(|own| own == *machine)
            && let Ok(socket) = local::connect(name)
        {
            return Ok(Stream::Local(socket));
        }
        let socket = TcpStream::connect_timeout(&self.tcp, timeout)?;
        socket.set_nodelay(true)?;
        Ok(Stream::Tcp(socket))
    }
}

/// Accepts connections of both kinds.
pub(super) struct Listener {
    tcp: TcpListener,
    #[cfg(target_os = "linux")]
    local: Option<std::os::unix::net::UnixListener>,
    pub(super) address: Address,
}

impl Listener {
    /// Listens at a free port of an interface, and at a local socket that `name` distinguishes from others.
    ///
    /// # Errors
    /// `Io` where there is no port.
    pub(super) fn new(host: IpAddr, name: &str) -> Result<Listener> {
        let tcp = TcpListener::bind((host, 0))?;
        tcp.set_nonblocking(true)?;
        let address = SocketAddr::new(host, tcp.local_addr()?.port());
        #[cfg(target_os = "linux")]
        {
            let name = format!("flambeau-{}-{}-{name}", std::process::id(), address.port());
            let open = || {
                let listener = local::listen(&name)?;
                listener.set_nonblocking(true)?;
                Ok::<_, io::Error>((local::machine()?, listener))
            };
            // Without local sockets there is TCP.
            let (machine, local) = open().ok().unzip();
            let local_address = machine.map(|machine| (machine, name.clone()));
            Ok(Listener { tcp, local, address: Address { tcp: address, local: local_address } })
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = name;
            Ok(Listener { tcp, address: Address { tcp: address, local: None } })
        }
    }

    /// A connection that has arrived, if there is one.
    ///
    /// # Errors
    /// `Io` where the system refuses.
    pub(super) fn accept(&self) -> Result<Option<Stream>> {
        #[cfg(target_os = "linux")]
        if let Some(local) = &self.local {
            match local.accept() {
                Ok((socket, _)) => {
                    socket.set_nonblocking(false)?;
                    return Ok(Some(Stream::Local(socket)));
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                Err(e) => return Err(e.into()),
            }
        }
        match self.tcp.accept() {
            Ok((socket, _)) => {
                socket.set_nonblocking(false)?;
                socket.set_nodelay(true)?;
                Ok(Some(Stream::Tcp(socket)))
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(e) => Err(e.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_it_was_written() {
        let local = Some(("boot/net:[1]".to_owned(), "flambeau-1-2-3".to_owned()));
        for local in [None, local] {
            let address = Address { tcp: "127.0.0.1:5".parse().unwrap(), local };
            assert_eq!(Address::parse(&address.text()), Some(address));
        }
        assert_eq!(Address::parse("nobody"), None);
    }

    #[test]
    fn ranks_of_one_machine_meet_at_a_local_socket_and_others_by_tcp() {
        let listener = Listener::new("127.0.0.1".parse().unwrap(), "test").unwrap();
        let elsewhere = Address { local: None, ..listener.address.clone() };
        for (address, is_local) in [(&listener.address, cfg!(target_os = "linux")), (&elsewhere, false)] {
            let mut sender = address.connect(Duration::from_secs(5)).unwrap();
            assert_eq!(!matches!(sender, Stream::Tcp(_)), is_local);
            let mut receiver = loop {
                if let Some(stream) = listener.accept().unwrap() {
                    break stream;
                }
            };
            sender.write_all(b"abc").unwrap();
            let mut found = [0; 3];
            receiver.read_exact(&mut found).unwrap();
            assert_eq!(&found, b"abc");
        }
    }
}
