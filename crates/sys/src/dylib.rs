//! Opens a shared library from a list of names, looks symbols up, and says exactly what was missing.
#![allow(unsafe_code)]

use std::error::Error as _;
use std::ffi::{CStr, OsString};
use std::path::{Path, PathBuf};

/// A shared library that stays loaded until the process ends.
///
/// Vendor libraries run threads and exit handlers of their own, so unloading one is never safe; the handle is leaked.
#[derive(Debug)]
pub struct Library {
    path: PathBuf,
    handle: &'static libloading::Library,
}

/// Why a library cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// No candidate could be opened; each with what the loader said.
    #[error("{}", describe_tried(.tried))]
    NotFound {
        /// The names and paths tried, in order, with the loader's words.
        tried: Vec<(PathBuf, String)>,
    },
    /// The library was opened but lacks a function that we cannot do without.
    #[error("{} has no symbol {symbol}", .library.display())]
    MissingSymbol {
        /// The library that was opened.
        library: PathBuf,
        /// The function it lacks.
        symbol: String,
    },
}

fn describe_tried(tried: &[(PathBuf, String)]) -> String {
    match tried.first() {
        None => "no library name to try".to_owned(),
        Some((_, why)) if tried.len() == 1 => why.clone(),
        Some((_, why)) => format!("{why} ({} other places tried)", tried.len() - 1),
    }
}

impl Library {
    /// Opens the first of `candidates` (bare names go through the loader's search path) that loads.
    ///
    /// # Errors
    /// [`LoadError::NotFound`] with the loader's words for each candidate.
    pub fn open<I, P>(candidates: I) -> Result<Self, LoadError>
    where
        I: IntoIterator<Item = P>,
        P: AsRef<Path>,
    {
        let mut tried = Vec::new();
        for candidate in candidates {
            let path = candidate.as_ref();
            // SAFETY: opening a library runs its initialisers; the candidates are NVIDIA's libraries (or test doubles
            // of them), whose initialisers may run on any thread. The caller of this crate vouches for the names.
            match unsafe { libloading::Library::new(OsString::from(path)) } {
                Ok(handle) => return Ok(Self { path: path.to_owned(), handle: Box::leak(Box::new(handle)) }),
                Err(error) => {
                    let why = error.source().map_or_else(|| error.to_string(), ToString::to_string);
                    tried.push((path.to_owned(), why));
                }
            }
        }
        Err(LoadError::NotFound { tried })
    }

    /// The name or path under which the library was opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The address of `symbol`, or `None` where the library has no such function.
    #[must_use]
    pub fn find(&self, symbol: &CStr) -> Option<*const ()> {
        // SAFETY: the address is only read as an address here; whoever turns it into a function states its type.
        let found = unsafe { self.handle.get::<*const ()>(symbol.to_bytes_with_nul()) };
        found.ok().map(|address| *address).filter(|address| !address.is_null())
    }

    /// The address of `symbol`.
    ///
    /// # Errors
    /// [`LoadError::MissingSymbol`] where the library has no such function.
    pub fn require(&self, symbol: &CStr) -> Result<*const (), LoadError> {
        self.find(symbol).ok_or_else(|| LoadError::MissingSymbol {
            library: self.path.clone(),
            symbol: symbol.to_string_lossy().into_owned(),
        })
    }
}

/// Declares a struct of foreign functions together with the code that fills it from a [`Library`].
macro_rules! table {
    (
        $(#[$meta:meta])* pub struct $name:ident;
        required { $( $field:ident = $symbol:literal : fn($($arg:ty),*) -> $ret:ty; )* }
        optional { $( $ofield:ident = $osymbol:literal : fn($($oarg:ty),*) -> $oret:ty; )* }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone)]
        pub struct $name {
            library: std::path::PathBuf,
            $( $field: unsafe extern "C" fn($($arg),*) -> $ret, )*
            $( $ofield: Option<unsafe extern "C" fn($($oarg),*) -> $oret>, )*
        }

        impl $name {
            /// Fills the table from an opened library.
            ///
            /// # Errors
            /// [`LoadError::MissingSymbol`](crate::dylib::LoadError) for the first required function that is absent.
            pub fn from_library(library: &crate::dylib::Library) -> Result<Self, crate::dylib::LoadError> {
                Ok(Self {
                    library: library.path().to_owned(),
                    $( $field: {
                        let address = library.require($symbol)?;
                        // SAFETY: the symbol has this C signature in NVIDIA's published header; the address is not null.
                        unsafe { std::mem::transmute::<*const (), unsafe extern "C" fn($($arg),*) -> $ret>(address) }
                    }, )*
                    $( $ofield: library.find($osymbol).map(|address| {
                        // SAFETY: as for the required functions.
                        unsafe { std::mem::transmute::<*const (), unsafe extern "C" fn($($oarg),*) -> $oret>(address) }
                    }), )*
                })
            }

            /// The name or path of the library behind the table.
            #[must_use]
            pub fn library(&self) -> &std::path::Path {
                &self.library
            }
        }
    };
}
pub(crate) use table;
