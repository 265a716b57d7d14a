//! What calls share: limits of threads and staging memory, and the backends.

use crate::backend::job::most_axes;
use crate::backend::{self, Backend, Errand, Place, PointerInfo, Streams};
use crate::convert;
use crate::dlpack::raw::{DLDevice, device_type};
use crate::dlpack::view::{TensorView, is_host_readable};
use crate::error::{Error, Result};
use crate::layout::{Axis, MAX_NDIM};
use crate::plan::{ConvertOptions, Plan};
use crate::report::Route;

/// Limits of a context; the default sets none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContextOptions {
    /// Host copies use at most this many threads; 0: as many as the process may run on.
    pub num_threads: u32,
    /// Upper bound of pinned staging memory a device, in bytes; 0: the default.
    pub staging_bytes: u64,
}

/// What calls share. Safe to use from many threads at once; results do not need it any more.
#[derive(Debug, Default)]
pub struct Context {
    options: ContextOptions,
}

impl Context {
    /// A context with limits of its own.
    pub const fn new(options: ContextOptions) -> Context {
        Context { options }
    }

    /// The process-wide one.
    pub fn global() -> &'static Context {
        static GLOBAL: Context = Context::new(ContextOptions { num_threads: 0, staging_bytes: 0 });
        &GLOBAL
    }

    /// Its limits.
    pub fn options(&self) -> ContextOptions {
        self.options
    }

    /// Every backend there is, available or not.
    pub fn backends(&self) -> &'static [&'static dyn Backend] {
        backend::all()
    }

    /// What the drivers that already run in this process say of an address; none is started.
    pub fn detect_pointer(&self, address: u64) -> Option<PointerInfo> {
        // Devices first: the host knows only that a page is there.
        self.backends().iter().rev().find_map(|backend| backend.detect_pointer(address))
    }

    /// Whether the backends that a plan needs are there and can do it and, where that was asked for,
    /// whether the source is where its tensor says. Returns what only drivers know: the route, and what memory
    /// it takes besides. `destination` is None where it is yet to be made.
    #[inline(always)]
    pub(crate) fn admit(
        &self,
        plan: &Plan,
        options: &ConvertOptions,
        source: &TensorView<'_>,
        destination: Option<&TensorView<'_>>,
    ) -> Result<(Route, u64)> {
        if options.verify_pointer {
            let source = *source;
            self.verify_pointer(plan.from, &source)?;
        }
        if plan.route == Route::ZeroCopy {
            return Ok((Route::ZeroCopy, 0));
        }
        if matches!(plan.route, Route::Download | Route::Device | Route::Peer | Route::Staged) {
            backend::for_device(plan.from)?;
        }
        if matches!(plan.route, Route::Upload | Route::Peer | Route::Staged) {
            backend::for_device(plan.target.device)?;
        }
        // Memory that is not there is made; pinned memory a caller's allocator makes without us.
        if destination.is_none() && options.allocator.is_none() {
            backend::for_device(plan.target.device)?;
        }
        if plan.route == Route::Host || source.facts.is_empty() {
            return Ok((plan.route, plan.scratch_bytes));
        }
        // Of copies, so that those that need not be in memory are not.
        let (plan, source, destination) = (*plan, *source, destination.copied());
        self.admit_errand(&plan, options, &source, destination.as_ref())
    }

    /// Asks the device's backend.
    #[cold]
    fn admit_errand(
        &self,
        plan: &Plan,
        options: &ConvertOptions,
        source: &TensorView<'_>,
        destination: Option<&TensorView<'_>>,
    ) -> Result<(Route, u64)> {
        let place = destination.map(|view| view.place());
        let errand = Errand {
            source: &source.place(),
            destination: place.as_ref(),
            target: plan.target.device,
            streams: Streams::of(options),
        };
        let backend = self.transferring(plan)?;
        let Some(receiver) = self.receiving(plan)? else {
            let route = backend.admit(&errand, plan.route)?;
            let mut room = [Axis::default(); most_axes(MAX_NDIM)];
            let job = convert::foreseen(self, plan, options, source, destination, &mut room);
            return Ok((route, plan.scratch_bytes + backend.scratch(&errand, &job)?));
        };
        let (before, after) = errand.streams.through_host();
        let host = backend::host::DEVICE;
        let there = Errand { destination: None, target: host, streams: before, ..errand };
        backend.admit(&there, Route::Download)?;
        let middle =
            Place { device: host, data: 0, byte_offset: 0, begin: 0, end: 0, dense: true, fresh: false };
        let here = Errand { source: &middle, streams: after, ..errand };
        receiver.admit(&here, Route::Upload)?;
        let mut rooms = [[Axis::default(); most_axes(MAX_NDIM)]; 2];
        let scratch = convert::foreseen_halves(
            self,
            plan,
            options,
            source,
            destination,
            &mut rooms,
            |first, second| Ok(backend.scratch(&there, first)? + receiver.scratch(&here, second)?),
        )?;
        Ok((Route::Staged, plan.scratch_bytes + scratch))
    }

    /// The backend that takes over on the host what the one of [`Context::transferring`] has brought there.
    /// None: that one does it all.
    pub(crate) fn receiving(&self, plan: &Plan) -> Result<Option<&'static dyn Backend>> {
        let to = plan.target.device;
        if plan.route == Route::Staged && plan.from.device_type != to.device_type {
            return backend::for_device(to).map(Some);
        }
        Ok(None)
    }

    /// The backend that does a plan's transfer.
    pub(crate) fn transferring(&self, plan: &Plan) -> Result<&'static dyn Backend> {
        match plan.route {
            // A device may be at work there.
            Route::Host if is_shared(plan.from) || is_shared(plan.target.device) => {
                let shared = if is_shared(plan.from) { plan.from } else { plan.target.device };
                Ok(backend::for_device(shared).unwrap_or(&backend::host::Host))
            }
            Route::ZeroCopy | Route::Host => Ok(&backend::host::Host),
            Route::Upload => backend::for_device(plan.target.device),
            _ => backend::for_device(plan.from),
        }
    }

    #[cold]
    fn verify_pointer(&self, declared: DLDevice, source: &TensorView<'_>) -> Result<()> {
        if !is_host_readable(declared) || is_shared(declared) {
            let backend = backend::for_device(declared)?;
            if !source.facts.is_empty() {
                backend.verify(&source.place())?;
            }
        }
        let info = source.address().and_then(|address| self.detect_pointer(address));
        let is_there = |found: DLDevice| match declared.device_type {
            // The host and every device reach it.
            device_type::CPU => is_shared(found),
            device_type::CUDA => found.device_type == device_type::CUDA_MANAGED,
            _ => false,
        };
        match info.and_then(|info| info.device) {
            Some(found) if found != declared && !is_there(found) => {
                Err(Error::DeclaredDevice { declared, found })
            }
            _ => Ok(()),
        }
    }
}

/// Whether memory is the host's and a CUDA device's.
fn is_shared(device: DLDevice) -> bool {
    matches!(device.device_type, device_type::CUDA_HOST | device_type::CUDA_MANAGED)
}
