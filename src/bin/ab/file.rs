//! Files: one that is read in place, and one that appears whole or not at all.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use arraybridge::dlpack::managed::Parts;
use arraybridge::dlpack::raw::{DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED, DLPACK_FLAG_BITMASK_READ_ONLY};
use arraybridge::{DLDataType, Tensor, backend::host, dtype::is_subbyte};
use memmap2::{Mmap, MmapMut, MmapOptions};
use tempfile::NamedTempFile;

use crate::Failure;
use crate::npy::Array;

/// A .npy file that is read in place.
pub struct Input {
    pub path: PathBuf,
    pub array: Array,
    /// Where the array starts in the file.
    pub data_offset: u64,
    /// Bytes behind the array.
    pub trailing_bytes: u64,
}

impl Input {
    /// Reads a file's header, checks it against the file, and maps the file; the array itself is not
    /// looked at.
    pub fn open(path: &Path, named: Option<DLDataType>) -> Result<(Input, Mmap), Failure> {
        let at = |error: io::Error| Failure::at(path, error);
        // Before it is opened: opening a pipe would wait for its other end.
        if !fs::metadata(path).map_err(at)?.is_file() {
            return Err(Failure::at(path, "is not a regular file"));
        }
        let mut file = File::open(path).map_err(at)?;
        let file_bytes = file.metadata().map_err(at)?.len();
        let (array, data_offset) =
            Array::read(&mut file, file_bytes, named).map_err(|problem| Failure::at(path, problem))?;
        let end = data_offset + array.num_bytes();
        let length = usize::try_from(end).map_err(|_| Failure::at(path, "does not fit the address space"))?;
        // SAFETY: the map is read through raw pointers only, and any bytes are elements: whoever changes
        // the file meanwhile changes values. Cutting it short ends this process, which leaves nothing.
        let map = unsafe { MmapOptions::new().len(length).map(&file) }.map_err(at)?;
        let trailing_bytes = file_bytes - end;
        Ok((Input { path: path.to_owned(), array, data_offset, trailing_bytes }, map))
    }

    /// The array in the map as a tensor, with its axes reordered.
    pub fn tensor(&self, map: Mmap, axes: &[usize]) -> Result<Tensor, Failure> {
        let (shape, strides) = (&self.array.shape, self.array.strides());
        let shape: Vec<i64> = axes.iter().map(|axis| shape[*axis]).collect();
        let strides: Vec<i64> = axes.iter().map(|axis| strides[*axis]).collect();
        let parts = Parts {
            data: map.as_ptr() as usize as u64,
            device: host::DEVICE,
            dtype: self.array.dtype,
            shape: &shape,
            strides: &strides,
            byte_offset: self.data_offset,
            flags: DLPACK_FLAG_BITMASK_READ_ONLY | padding(self.array.dtype),
        };
        // SAFETY: the header was checked against the file, and the owner is the map.
        Ok(unsafe { Tensor::wrap(parts, Box::new(map)) }?)
    }
}

/// The DLPack flag of elements as they lie in .npy files: of a byte at least.
pub fn padding(dtype: DLDataType) -> u64 {
    if is_subbyte(dtype) { DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED } else { 0 }
}

/// A file that is being written, which nobody sees until it is whole.
pub struct Draft {
    file: Unseen,
    /// What the user asked for.
    path: PathBuf,
    /// What it becomes: `path`, its symbolic links followed.
    target: PathBuf,
}

enum Unseen {
    /// It has no name yet: however this process ends, nothing is left behind.
    #[cfg(target_os = "linux")]
    Unnamed(File),
    /// Where the file system has no unnamed files. It is removed when this is dropped.
    Named(NamedTempFile),
}

const PREFIX: &str = ".ab-";

impl Draft {
    /// Starts a file that will be at `path`, and replace the one that is there.
    pub fn create(path: &Path) -> Result<Draft, Failure> {
        let at = |error: io::Error| Failure::at(path, error);
        let (target, permissions) = match fs::metadata(path) {
            Ok(there) if there.is_file() => {
                // It is replaced, not written to, but only where it could be written to.
                OpenOptions::new().write(true).open(path).map_err(at)?;
                (fs::canonicalize(path).map_err(at)?, Some(there.permissions()))
            }
            Ok(_) => return Err(Failure::at(path, "is not a regular file: it would be replaced")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => (path.to_owned(), None),
            Err(error) => return Err(at(error)),
        };
        let file = Unseen::create(folder(&target)).map_err(at)?;
        if let Some(permissions) = permissions {
            file.as_file().set_permissions(permissions).map_err(at)?;
        }
        Ok(Draft { file, path: path.to_owned(), target })
    }

    /// Writes the header and maps the whole file, with room for the array.
    pub fn map(&mut self, header: &[u8], array_bytes: u64) -> Result<MmapMut, Failure> {
        let at = |error: io::Error| Failure::at(&self.path, error);
        let bytes = header.len() as u64 + array_bytes;
        let length =
            usize::try_from(bytes).map_err(|_| Failure::at(&self.path, "does not fit the address space"))?;
        let mut file = self.file.as_file();
        file.write_all(header).map_err(at)?;
        reserve(file, bytes).map_err(at)?;
        // SAFETY: nobody else knows the file.
        unsafe { MmapOptions::new().len(length).map_mut(file) }.map_err(at)
    }

    /// Gives the file its name.
    pub fn publish(self) -> Result<(), Failure> {
        let at = |error: io::Error| Failure::at(&self.path, error);
        let named = match self.file {
            #[cfg(target_os = "linux")]
            Unseen::Unnamed(file) => {
                // A link cannot replace a file, a rename can.
                let mut builder = tempfile::Builder::new();
                builder
                    .prefix(PREFIX)
                    .make_in(folder(&self.target), |name| link(&file, name))
                    .map_err(|error| at(error.kind().into()))?
                    .into_temp_path()
            }
            Unseen::Named(file) => file.into_temp_path(),
        };
        named.persist(&self.target).map_err(|error| at(error.error))
    }
}

impl Unseen {
    fn create(folder: &Path) -> io::Result<Unseen> {
        #[cfg(target_os = "linux")]
        {
            use std::os::unix::fs::OpenOptionsExt;
            let mut options = OpenOptions::new();
            options.read(true).write(true).mode(0o666).custom_flags(libc::O_TMPFILE);
            match options.open(folder) {
                Ok(file) if Path::new(OPEN_FILES).exists() => return Ok(Unseen::Unnamed(file)),
                Ok(_) => {}
                // The file system, or the kernel, has no such files.
                Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR)) => {}
                Err(error) => return Err(error),
            }
        }
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // Less the umask, like any new file.
            builder.permissions(Permissions::from_mode(0o666));
        }
        builder.tempfile_in(folder).map(Unseen::Named).map_err(|error| error.kind().into())
    }

    fn as_file(&self) -> &File {
        match self {
            #[cfg(target_os = "linux")]
            Unseen::Unnamed(file) => file,
            Unseen::Named(file) => file.as_file(),
        }
    }
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Makes a file so long that every byte has its place: one that does not fit the disk must fail here,
/// where there is an error, not in a map, where there is a signal.
fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd;
        let length = i64::try_from(bytes).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))?;
        loop {
            // SAFETY: the descriptor is open.
            match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, length) } {
                0 => return Ok(()),
                libc::EINTR => {}
                // A file system that cannot: as elsewhere.
                libc::EOPNOTSUPP | libc::EINVAL => break,
                code => return Err(io::Error::from_raw_os_error(code)),
            }
        }
    }
    file.set_len(bytes)
}

#[cfg(target_os = "linux")]
const OPEN_FILES: &str = "/proc/self/fd";

/// Gives an unnamed file a name.
#[cfg(target_os = "linux")]
fn link(file: &File, name: &Path) -> io::Result<()> {
    use std::ffi::CString;
    use std::os::fd::AsRawFd;
    use std::os::unix::ffi::OsStrExt;
    let from = CString::new(format!("{OPEN_FILES}/{}", file.as_raw_fd()))?;
    let to = CString::new(name.as_os_str().as_bytes())?;
    // SAFETY: both are C strings.
    let linked = unsafe {
        libc::linkat(libc::AT_FDCWD, from.as_ptr(), libc::AT_FDCWD, to.as_ptr(), libc::AT_SYMLINK_FOLLOW)
    };
    if linked == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
