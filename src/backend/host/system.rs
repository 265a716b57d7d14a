//! What the system tells of itself in small files. Nothing here allocates: a process that has run out of
//! memory gets an answer, or none, where the standard library would end it.

use std::ffi::CStr;

/// The start of a file, as much as there is room for; None: it cannot be read, or is no text.
#[cfg(unix)]
pub fn read<'a>(path: &CStr, room: &'a mut [u8]) -> Option<&'a str> {
    let mut length = 0;
    // SAFETY: the path is a C string, the file is closed, and no more is read than there is room for.
    unsafe {
        let file = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if file < 0 {
            return None;
        }
        while length < room.len() {
            let rest = &mut room[length..];
            match libc::read(file, rest.as_mut_ptr().cast(), rest.len()) {
                0 => break,
                count if count > 0 => length += count as usize,
                _ if *libc::__errno_location() == libc::EINTR => {}
                _ => {
                    length = 0;
                    break;
                }
            }
        }
        libc::close(file);
    }
    let text = &room[..length];
    // What was cut off may have been half a character.
    let text = str::from_utf8(text).or_else(|error| str::from_utf8(&text[..error.valid_up_to()])).ok()?;
    (!text.is_empty()).then_some(text)
}

/// The start of a file; None: there are none that are known.
#[cfg(not(unix))]
pub fn read<'a>(_path: &CStr, _room: &'a mut [u8]) -> Option<&'a str> {
    None
}

/// How many processors' time the control group's quota amounts to, at least 1; very many: it has none.
pub fn quota() -> usize {
    #[cfg(target_os = "linux")]
    {
        let mut room = [0; 4096];
        let groups = read(c"/proc/self/cgroup", &mut room).unwrap_or_default();
        groups.lines().filter_map(group_quota).min().map_or(usize::MAX, |quota| quota.max(1))
    }
    #[cfg(not(target_os = "linux"))]
    {
        std::thread::available_parallelism().map_or(1, usize::from)
    }
}

/// The least quota of a line of /proc/self/cgroup and all that its group is part of.
#[cfg(target_os = "linux")]
fn group_quota(line: &str) -> Option<usize> {
    // "0::/path", or "4:cpu,cpuacct:/path" as before Linux 4.5.
    let (_, rest) = line.split_once(':')?;
    let (controllers, mut path) = rest.split_once(':')?;
    let unified = controllers.is_empty();
    if !unified && !controllers.split(',').any(|name| name == "cpu") {
        return None;
    }
    let mut least = None;
    loop {
        path = path.trim_end_matches('/');
        let found = if unified {
            let mut room = [0; 64];
            let text = read_in(format_args!("/sys/fs/cgroup{path}/cpu.max"), &mut room);
            text.and_then(|text| text.trim().split_once(' ')).and_then(|(limit, period)| whole(limit, period))
        } else {
            let number = |name: &str| {
                let mut room = [0; 64];
                let text = read_in(format_args!("/sys/fs/cgroup/cpu{path}/{name}"), &mut room)?;
                text.trim().parse::<usize>().ok()
            };
            number("cpu.cfs_quota_us").zip(number("cpu.cfs_period_us")).and_then(|(a, b)| a.checked_div(b))
        };
        least = [least, found].into_iter().flatten().min();
        match path.rfind('/') {
            Some(end) => path = &path[..end],
            None => return least,
        }
    }
}

#[cfg(target_os = "linux")]
fn whole(limit: &str, period: &str) -> Option<usize> {
    limit.parse::<usize>().ok()?.checked_div(period.parse().ok()?)
}

/// Reads a file whose path is put together here.
#[cfg(target_os = "linux")]
fn read_in<'a>(path: std::fmt::Arguments<'_>, room: &'a mut [u8]) -> Option<&'a str> {
    use std::io::Write;
    let mut name = [0u8; 1024];
    // The last byte stays 0.
    let end = name.len() - 1;
    (&mut name[..end]).write_fmt(path).ok()?;
    read(CStr::from_bytes_until_nul(&name).ok()?, room)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn reads_what_fits() {
        let mut room = [0; 8];
        assert_eq!(read(c"/proc/self/nothing", &mut room), None);
        assert_eq!(read(c"/proc/meminfo", &mut room), Some("MemTotal"));
        let mut room = [0; 4096];
        assert!(read(c"/proc/self/cgroup", &mut room).is_none_or(|text| text.contains(':')));
    }

    #[test]
    fn a_quota_is_what_the_standard_library_finds() {
        let expected = std::thread::available_parallelism().unwrap().get();
        assert_eq!(quota().min(processors()), expected);
    }

    fn processors() -> usize {
        // SAFETY: a set of bits, as large as is said, which the call fills.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::sched_getaffinity(0, size_of_val(&set), &mut set);
            libc::CPU_COUNT(&set) as usize
        }
    }

    #[test]
    fn lines_of_groups() {
        assert_eq!(group_quota("3:memory:/some"), None);
        assert_eq!(group_quota("nonsense"), None);
        assert_eq!(group_quota("0::/there/is/no/such/group").map(|_| ()), group_quota("0::/").map(|_| ()));
        assert_eq!(whole("max", "100000"), None);
        assert_eq!(whole("250000", "100000"), Some(2));
        assert_eq!(whole("50000", "100000"), Some(0));
        assert_eq!(whole("1", "0"), None);
    }
}
