//! `kvikio.RemoteFile`: an object of an HTTP server, of S3 or of WebHDFS, with the methods of KvikIO's class of that name.

use kvikio::{EndpointType, Error, ErrorKind, Options, Remote, S3Settings, Secret};
use pyo3::exceptions::{PyAssertionError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};

use crate::arguments::{Count, type_name};
use crate::buffer::{Loan, LoanMut};
use crate::errors::{Subject, remote_exception};
use crate::future::{Flight, IOFuture};
use crate::{defaults, gil, means};

/// The members of `kvikio.remote_file.RemoteEndpointType`, by their values.
const TYPES: [EndpointType; 6] = [
    EndpointType::Auto,
    EndpointType::S3,
    EndpointType::S3Public,
    EndpointType::S3PresignedUrl,
    EndpointType::WebHdfs,
    EndpointType::Http,
];

/// Looked up each time: tests purge and re-import the package.
fn enumeration(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    py.import("kvikio.remote_file")?.getattr("RemoteEndpointType")
}

fn present(py: Python<'_>, kind: EndpointType) -> PyResult<Bound<'_, PyAny>> {
    let number = TYPES.iter().position(|known| *known == kind).unwrap_or(0);
    enumeration(py)?.call1((number,))
}

/// A member of `RemoteEndpointType`.
struct Kind(EndpointType);

impl<'py> FromPyObject<'_, 'py> for Kind {
    type Error = PyErr;

    fn extract(obj: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let wrong =
            || PyTypeError::new_err(format!("a RemoteEndpointType is required, not {}", type_name(&obj)));
        if !obj.is_instance(&enumeration(obj.py())?)? {
            return Err(wrong());
        }
        let number: usize = obj.getattr("value")?.extract()?;
        TYPES.get(number).copied().map(Self).ok_or_else(wrong)
    }
}

/// An object of an HTTP server, of S3 or of WebHDFS, open for reads at offsets into host and device memory.
///
/// Open one with `open`, or with the class method for its service. Calls of many threads on one object may run side by
/// side. Raises classes of `kvikio.exceptions`, which carry the address, the range of bytes, the HTTP `status` and the
/// number of `attempts`.
#[pyclass(module = "kvikio.remote_file", frozen, subclass, weakref)]
pub(crate) struct RemoteFile {
    file: kvikio::RemoteFile,
}

/// How an object is opened, once the arguments are checked.
type Opening = Box<dyn FnOnce(&Remote, Options) -> kvikio::Result<kvikio::RemoteFile> + Send>;

impl RemoteFile {
    /// Opens an object, without the interpreter, and makes an instance of `class` of it.
    fn opened<'py>(class: &Bound<'py, PyType>, opening: Opening) -> PyResult<Bound<'py, PyAny>> {
        let py = class.py();
        let options = defaults::current(py)?;
        let remote = means::opener(py, &options)?;
        let opened = gil::aside(py, move || opening(&remote, Options::clone(&options)))?;
        let opened = opened.unwrap_or_else(|| {
            Err(Error::new(ErrorKind::Io, "open", "the thread that opens remote files failed").retryable())
        });
        let file = opened.map_err(|error| remote_exception(py, &error))?;
        let native = Bound::new(py, Self { file })?;
        if class.is(py.get_type::<Self>()) { Ok(native.into_any()) } else { class.call1((native,)) }
    }

    /// Checks the arguments of a read; answers the memory to fill.
    fn destination(&self, buf: &Bound<'_, PyAny>, size: Option<Count>, offset: Count) -> PyResult<LoanMut> {
        let py = buf.py();
        let loan = Loan::of(buf)?;
        let size = size.map_or(loan.len() as u64, |size| size.0);
        let refused = |kind, why: &str| {
            let error = Error::new(kind, "read", why).on(self.file.address()).at(offset.0, size);
            remote_exception(py, &error)
        };
        if !loan.is_contiguous() {
            return Err(refused(ErrorKind::InvalidInput, "Array must be contiguous"));
        }
        let Ok(loan) = loan.part(0, usize::try_from(size).unwrap_or(usize::MAX)) else {
            return Err(refused(ErrorKind::OutOfRange, "Size is greater than the size of the buffer"));
        };
        loan.writable().map_err(|loan| {
            loan.give_back(py);
            refused(ErrorKind::ReadOnlyBuffer, "the buffer is read-only: nothing can be read into it")
        })
    }

    /// Starts a read by the settings that hold now.
    fn start(&self, buf: &Bound<'_, PyAny>, size: Option<Count>, file_offset: Count) -> PyResult<IOFuture> {
        let py = buf.py();
        let loan = self.destination(buf, size, file_offset)?;
        let options = defaults::current(py)?;
        let file = self.file.with(&means::remote(py, &options)?, options);
        let subject = Subject::Remote(file.address());
        let transfer = gil::detached(py, move || file.read_exact_at(loan, file_offset.0));
        let future = IOFuture::new(Flight::Read(transfer), subject);
        future.raise_if_refused(py, false)?;
        Ok(future)
    }
}

/// The arguments by which S3 is told who asks.
fn s3_settings(
    region: Option<String>,
    access_key: Option<String>,
    secret_key: Option<String>,
    endpoint: Option<String>,
    session_token: Option<String>,
) -> S3Settings {
    S3Settings {
        region,
        access_key: access_key.map(Secret::new),
        secret_key: secret_key.map(Secret::new),
        session_token: session_token.map(Secret::new),
        endpoint,
        ..S3Settings::default()
    }
}

fn size(nbytes: Option<Count>) -> Option<u64> {
    nbytes.map(|nbytes| nbytes.0)
}

#[pymethods]
impl RemoteFile {
    #[new]
    fn new(handle: &Bound<'_, PyAny>) -> PyResult<Self> {
        match handle.cast::<Self>() {
            Ok(handle) => Ok(Self { file: handle.get().file.clone() }),
            Err(_) => {
                let text = "RemoteFile is not made of a handle: use RemoteFile.open, or the class method for the service";
                Err(PyAssertionError::new_err(text))
            }
        }
    }

    /// Opens the object at an http or https URL. With `nbytes`, its size, the server is not asked for it.
    #[classmethod]
    #[pyo3(signature = (url, nbytes=None))]
    fn open_http<'py>(
        cls: &Bound<'py, PyType>,
        url: String,
        nbytes: Option<Count>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let opening = move |remote: &Remote, options| remote.open_http(&url, size(nbytes), options);
        Self::opened(cls, Box::new(opening))
    }

    /// Opens the object `object_name`, taken to the letter, of a bucket.
    ///
    /// What is not given comes from the environment (`AWS_*`), the shared files of the AWS tools, or a service of the
    /// machine or container.
    #[classmethod]
    #[pyo3(signature = (bucket_name, object_name, nbytes=None, aws_region_name=None, aws_access_key_id=None,
                        aws_secret_access_key=None, aws_endpoint_url=None, aws_session_token=None))]
    #[allow(clippy::too_many_arguments)]
    fn open_s3<'py>(
        cls: &Bound<'py, PyType>,
        bucket_name: String,
        object_name: String,
        nbytes: Option<Count>,
        aws_region_name: Option<String>,
        aws_access_key_id: Option<String>,
        aws_secret_access_key: Option<String>,
        aws_endpoint_url: Option<String>,
        aws_session_token: Option<String>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let settings = s3_settings(
            aws_region_name,
            aws_access_key_id,
            aws_secret_access_key,
            aws_endpoint_url,
            aws_session_token,
        );
        let opening = move |remote: &Remote, options| {
            remote.open_s3(&bucket_name, &object_name, &settings, size(nbytes), options)
        };
        Self::opened(cls, Box::new(opening))
    }

    /// Opens an object of S3 by its URL: `s3://bucket/key`, or the http(s) URL at which a server has it. The other
    /// arguments are those of `open_s3`.
    #[classmethod]
    #[pyo3(signature = (url, nbytes=None, aws_region_name=None, aws_access_key_id=None,
                        aws_secret_access_key=None, aws_endpoint_url=None, aws_session_token=None))]
    #[allow(clippy::too_many_arguments)]
    fn open_s3_url<'py>(
        cls: &Bound<'py, PyType>,
        url: String,
        nbytes: Option<Count>,
        aws_region_name: Option<String>,
        aws_access_key_id: Option<String>,
        aws_secret_access_key: Option<String>,
        aws_endpoint_url: Option<String>,
        aws_session_token: Option<String>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let settings = s3_settings(
            aws_region_name,
            aws_access_key_id,
            aws_secret_access_key,
            aws_endpoint_url,
            aws_session_token,
        );
        let opening =
            move |remote: &Remote, options| remote.open_s3_url(&url, &settings, size(nbytes), options);
        Self::opened(cls, Box::new(opening))
    }

    /// Opens an object of S3 that anybody may read, by its URL, without credentials.
    #[classmethod]
    #[pyo3(signature = (url, nbytes=None))]
    fn open_s3_public<'py>(
        cls: &Bound<'py, PyType>,
        url: String,
        nbytes: Option<Count>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let opening = move |remote: &Remote, options| remote.open_s3_public(&url, size(nbytes), options);
        Self::opened(cls, Box::new(opening))
    }

    /// Opens an object of S3 by a URL that carries its signature.
    #[classmethod]
    #[pyo3(signature = (presigned_url, nbytes=None))]
    fn open_s3_presigned_url<'py>(
        cls: &Bound<'py, PyType>,
        presigned_url: String,
        nbytes: Option<Count>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let opening = move |remote: &Remote, options| {
            remote.open_s3_presigned_url(&presigned_url, size(nbytes), options)
        };
        Self::opened(cls, Box::new(opening))
    }

    /// Opens a file of Hadoop's file system over HTTP (WebHDFS).
    #[classmethod]
    #[pyo3(signature = (url, nbytes=None))]
    fn open_webhdfs<'py>(
        cls: &Bound<'py, PyType>,
        url: String,
        nbytes: Option<Count>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let opening = move |remote: &Remote, options| remote.open_webhdfs(&url, size(nbytes), options);
        Self::opened(cls, Box::new(opening))
    }

    /// Opens the object at `url` as what it looks like, or as what `remote_endpoint_type` says.
    ///
    /// `allow_list` names the types that it may be, in the order in which they are tried.
    #[classmethod]
    #[pyo3(signature = (url, remote_endpoint_type=None, allow_list=None, nbytes=None),
           text_signature = "(url, remote_endpoint_type=RemoteEndpointType.AUTO, allow_list=None, nbytes=None)")]
    fn open<'py>(
        cls: &Bound<'py, PyType>,
        url: String,
        remote_endpoint_type: Option<Kind>,
        allow_list: Option<Vec<Kind>>,
        nbytes: Option<Count>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let kind = remote_endpoint_type.map_or(EndpointType::Auto, |kind| kind.0);
        let allowed: Option<Vec<_>> = allow_list.map(|list| list.into_iter().map(|kind| kind.0).collect());
        let opening = move |remote: &Remote, options| {
            remote.open(&url, kind, allowed.as_deref(), size(nbytes), options)
        };
        Self::opened(cls, Box::new(opening))
    }

    /// Does nothing: connections belong to the process, and what is in flight keeps what it needs.
    #[allow(clippy::unused_self)]
    fn close(&self) {}

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exc))]
    #[allow(clippy::unused_self)]
    fn __exit__(&self, _exc: &Bound<'_, PyTuple>) {}

    fn __repr__(&self) -> String {
        format!("<RemoteFile \"{}\">", self.file.address())
    }

    /// The size in bytes, as it was told when the object was opened.
    fn nbytes(&self) -> u64 {
        self.file.size()
    }

    /// What the address was taken for.
    fn remote_endpoint_type<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        present(py, self.file.endpoint_type())
    }

    /// Fills `buf`, or its first `size` bytes, from `file_offset` on, and returns the number of bytes.
    ///
    /// Raises `OutOfRangeError` (also a `ValueError`) where the object ends before, without asking the server.
    #[pyo3(signature = (buf, size=None, file_offset=Count(0)), text_signature = "($self, buf, size=None, file_offset=0)")]
    fn read(&self, buf: &Bound<'_, PyAny>, size: Option<Count>, file_offset: Count) -> PyResult<usize> {
        self.start(buf, size, file_offset)?.get_or_stop(buf.py())
    }

    /// As `read`, but returns at once with an `IOFuture`, which keeps the buffer and the object until the read has ended.
    #[pyo3(signature = (buf, size=None, file_offset=Count(0)), text_signature = "($self, buf, size=None, file_offset=0)")]
    fn pread(&self, buf: &Bound<'_, PyAny>, size: Option<Count>, file_offset: Count) -> PyResult<IOFuture> {
        self.start(buf, size, file_offset)
    }
}

/// The type that `RemoteFile.open` takes `url` for. No server is asked.
#[pyfunction]
pub(crate) fn infer_remote_endpoint_type<'py>(py: Python<'py>, url: &str) -> PyResult<Bound<'py, PyAny>> {
    // Not detached: the environment is read, which other threads may change where they hold the interpreter.
    let kind = kvikio::infer_endpoint_type(url).map_err(|error| remote_exception(py, &error))?;
    present(py, kind)
}

/// True: remote files are always built in.
#[pyfunction]
pub(crate) fn is_remote_file_available() -> bool {
    true
}
