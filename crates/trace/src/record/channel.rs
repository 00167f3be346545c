//! The line to a recorded process: a socket, and memory that both share.
//!
//! `recorders/valgrind/stream.h` describes the protocol. The unsafe code of recording is here.

use std::fs::File;
use std::io::{self, Read};
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::ptr;
use std::time::Duration;

const GREETING_MAGIC: u32 = 0x316d_6d75;
const MAX_COMMAND_BYTES: usize = 1 << 20;
const CONTROL_BYTES: usize = 4096;
const SEGMENT_BYTES: usize = 1 << 20;
const SEGMENT_COUNT: usize = 16;

/// Where recorded processes announce themselves. The name is not in any file system, so nothing
/// is left behind however the recording ends.
pub(super) struct Listener {
    listener: UnixListener,
    name: String,
}

impl Listener {
    pub(super) fn new() -> io::Result<Self> {
        let mut random = [0; 8];
        File::open("/dev/urandom")?.read_exact(&mut random)?;
        let name = format!("mmulab-{}-{:016x}", std::process::id(), u64::from_le_bytes(random));
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, name })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Waits a while for the next process.
    pub(super) fn accept(&self, wait: Duration) -> Option<Newcomer> {
        if !is_readable(self.listener.as_raw_fd(), wait) {
            return None;
        }
        let (mut stream, _) = self.listener.accept().ok()?;
        if peer_user(&stream)? != own_user() {
            return None;
        }
        stream.set_nonblocking(false).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        let mut greeting = [0; 20];
        stream.read_exact(&mut greeting).ok()?;
        let field = |index: usize| {
            let mut bytes = [0; 4];
            bytes.copy_from_slice(&greeting[4 * index..][..4]);
            u32::from_le_bytes(bytes)
        };
        let command_bytes = field(4) as usize;
        if field(0) != GREETING_MAGIC || command_bytes > MAX_COMMAND_BYTES {
            return None;
        }
        let mut command = vec![0; command_bytes];
        stream.read_exact(&mut command).ok()?;
        stream.set_read_timeout(None).ok()?;
        let words = command.split_inclusive(|&byte| byte == 0);
        Some(Newcomer {
            stream,
            command: words
                .map(|word| String::from_utf8_lossy(&word[..word.len() - 1]).into_owned())
                .collect(),
            process: field(1),
            forked_from: field(2),
            fork_number: field(3),
        })
    }
}

/// A process that has greeted and waits for its memory.
pub(super) struct Newcomer {
    stream: UnixStream,
    pub(super) process: u32,
    /// The process that it was forked from; 0 for a program that was just loaded.
    pub(super) forked_from: u32,
    pub(super) fork_number: u32,
    /// The program that it runs, and its arguments.
    pub(super) command: Vec<String>,
}

impl Newcomer {
    /// Gives the process its memory, from which on it runs.
    pub(super) fn welcome(self, forks_made: u32) -> io::Result<Channel> {
        let memory = SharedMemory::new(CONTROL_BYTES + SEGMENT_BYTES * SEGMENT_COUNT)?;
        let mut welcome = Vec::with_capacity(16);
        for field in [SEGMENT_BYTES as u32, SEGMENT_COUNT as u32, forks_made, 0] {
            welcome.extend_from_slice(&field.to_le_bytes());
        }
        send_with_file(&self.stream, &welcome, &memory.file)?;
        Ok(Channel {
            stream: self.stream,
            memory,
            last_segment: SEGMENT_COUNT - 1,
            held: None,
            ended: false,
            process: self.process,
        })
    }
}

/// What waiting for a segment brought.
pub(super) enum Arrival {
    /// A segment; `Channel::segment` holds it.
    Segment,
    /// Nothing yet.
    Nothing,
    /// The process is gone or runs another program.
    End,
}

/// The stream of one process.
pub(super) struct Channel {
    stream: UnixStream,
    memory: SharedMemory,
    last_segment: usize,
    /// Offset and length of the segment that was received and not yet given back.
    held: Option<(usize, usize)>,
    ended: bool,
    process: u32,
}

impl Channel {
    pub(super) fn process(&self) -> u32 {
        self.process
    }

    /// Gives back the segment that is held and waits a while for the next.
    pub(super) fn receive(&mut self, wait: Duration) -> Arrival {
        if self.held.take().is_some() && !self.ended {
            send_byte(&self.stream);
        }
        if self.ended {
            return Arrival::End;
        }
        if !is_readable(self.stream.as_raw_fd(), wait) {
            return Arrival::Nothing;
        }
        let mut notice = [0; 8];
        if self.stream.read_exact(&mut notice).is_err() {
            self.ended = true;
            return self.take_unfinished();
        }
        let notice = u64::from_le_bytes(notice);
        let (segment, length) = ((notice & 0xffff_ffff) as usize, (notice >> 32) as usize);
        if segment >= SEGMENT_COUNT || length > SEGMENT_BYTES {
            self.ended = true;
            return Arrival::End;
        }
        self.last_segment = segment;
        self.held = Some((CONTROL_BYTES + segment * SEGMENT_BYTES, length));
        Arrival::Segment
    }

    /// What a killed process had written into the segment that it had not handed over.
    fn take_unfinished(&mut self) -> Arrival {
        let field = |index: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&self.memory.bytes()[8 * index..][..8]);
            u64::from_le_bytes(bytes)
        };
        let (cursor, start, segment) = (field(0), field(2), field(3));
        let length = cursor.wrapping_sub(start);
        let next = (self.last_segment + 1) % SEGMENT_COUNT;
        if segment != next as u64 || length == 0 || length > SEGMENT_BYTES as u64 {
            return Arrival::End;
        }
        self.held = Some((CONTROL_BYTES + next * SEGMENT_BYTES, length as usize));
        Arrival::Segment
    }

    /// The segment last received.
    pub(super) fn segment(&self) -> &[u8] {
        let (offset, length) = self.held.unwrap_or((0, 0));
        &self.memory.bytes()[offset..offset + length]
    }
}

struct SharedMemory {
    file: File,
    start: *mut u8,
    length: usize,
}

// SAFETY: the mapping belongs to this value alone and is not tied to a thread.
unsafe impl Send for SharedMemory {}

impl SharedMemory {
    fn new(length: usize) -> io::Result<Self> {
        // SAFETY: plain system calls; the name is a C string, and each result is checked.
        unsafe {
            let descriptor = libc::memfd_create(c"mmulab".as_ptr(), libc::MFD_CLOEXEC);
            if descriptor < 0 {
                return Err(io::Error::last_os_error());
            }
            let file = File::from_raw_fd(descriptor);
            file.set_len(length as u64)?;
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let start =
                libc::mmap(ptr::null_mut(), length, protection, libc::MAP_SHARED, descriptor, 0);
            if start == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            Ok(Self { file, start: start.cast(), length })
        }
    }

    /// The recorded process writes only where its protocol lets it: never into a segment that was
    /// handed over and not given back, and the control page is only read when the process is gone.
    fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is `length` long and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, and nothing refers to it any more.
        unsafe { libc::munmap(self.start.cast(), self.length) };
    }
}

fn is_readable(descriptor: i32, wait: Duration) -> bool {
    let mut poll = libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid entry. An interrupted wait counts as nothing to read.
    unsafe { libc::poll(&mut poll, 1, wait.as_millis() as i32) > 0 }
}

fn send_byte(stream: &UnixStream) {
    // A process that is gone needs no answer, and must not raise SIGPIPE.
    // SAFETY: one byte from a live array.
    unsafe { libc::send(stream.as_raw_fd(), [0u8].as_ptr().cast(), 1, libc::MSG_NOSIGNAL) };
}

fn own_user() -> u32 {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::geteuid() }
}

fn peer_user(stream: &UnixStream) -> Option<u32> {
    let mut credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as u32;
    // SAFETY: the buffer is as long as is said.
    let result = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut credentials).cast(),
            &mut length,
        )
    };
    (result == 0).then_some(credentials.uid)
}

/// Sends bytes and, beside them, a file's descriptor.
fn send_with_file(stream: &UnixStream, bytes: &[u8], file: &File) -> io::Result<()> {
    #[repr(C, align(8))]
    struct Ancillary([u8; 24]);
    let mut ancillary = Ancillary([0; 24]);
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // SAFETY: all pointers are to live locals; the ancillary buffer holds one descriptor, which
    // CMSG_SPACE makes 24 bytes on 64-bit Linux; sendmsg does not write through `iov_base`.
    let sent = unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &mut part;
        message.msg_iovlen = 1;
        message.msg_control = (&raw mut ancillary).cast();
        message.msg_controllen = size_of::<Ancillary>();
        let header = libc::CMSG_FIRSTHDR(&message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(4) as usize;
        libc::CMSG_DATA(header).cast::<i32>().write_unaligned(file.as_raw_fd());
        libc::sendmsg(stream.as_raw_fd(), &message, libc::MSG_NOSIGNAL)
    };
    if sent == bytes.len() as isize { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sends a signal to a process.
pub(super) fn signal(process: u32, signal: i32) {
    // SAFETY: no memory is involved.
    unsafe { libc::kill(process as i32, signal) };
}

/// Whether a process exists.
pub(super) fn exists(process: u32) -> bool {
    // SAFETY: no memory is involved; signal 0 is not delivered.
    unsafe { libc::kill(process as i32, 0) == 0 }
}

/// A path by which other processes of this user can open an open file while this one lives.
pub(super) fn path_of(file: &File) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd())
}

/// A file in memory, and its path for other processes.
pub(super) fn memory_file() -> io::Result<(File, String)> {
    // SAFETY: a plain system call, and its result is checked.
    let file = unsafe {
        let descriptor = libc::memfd_create(c"mmulab-log".as_ptr(), libc::MFD_CLOEXEC);
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        File::from_raw_fd(descriptor)
    };
    let path = path_of(&file);
    Ok((file, path))
}
