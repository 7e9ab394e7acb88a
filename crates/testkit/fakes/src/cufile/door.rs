//! Whether cuFile's driver is open.

use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard};

use crate::cells;
use crate::entry;
use crate::lock::lock;
use crate::status::Refusal;

/// Held while the driver opens or closes.
static DOOR: Mutex<()> = Mutex::new(());

pub(crate) fn hold() -> MutexGuard<'static, ()> {
    lock(&DOOR)
}

/// One more user; by whoever holds the door.
pub(crate) fn open() -> Result<(), Refusal> {
    let status = c_int::try_from(cells::DRIVER_OPEN_STATUS.get()).unwrap_or(-1);
    if status != 0 {
        return Err(if status < 5000 { Refusal::Cuda(status) } else { Refusal::CuFile(status) });
    }
    entry::initialise()?;
    cells::CUFILE_USE_COUNT.add(1);
    Ok(())
}

/// Opens the driver where nobody has, as registering a file or a buffer does.
pub(crate) fn open_if_closed() -> Result<(), Refusal> {
    let _held = hold();
    if cells::CUFILE_USE_COUNT.get() == 0 { open() } else { Ok(()) }
}
