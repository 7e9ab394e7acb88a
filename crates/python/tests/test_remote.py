"""Remote files: every byte right, whatever memory it goes to, and the arguments that are refused."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import kvikio
import kvikio.defaults
import kvikio.remote_file
import servers
from kvikio import RemoteEndpointType, RemoteFile, exceptions


def test_whole_objects_arrive_in_any_memory(faulty: servers.Faulty, xp: Any) -> None:
    for length in [1, 10, 1000, 4097, 3_000_001]:
        url = f"{faulty.url}/ok/{length}"
        array = xp.array(np.zeros(length, np.uint8))
        with RemoteFile.open_http(url) as file:
            assert file.nbytes() == length
            assert str(file) == f'<RemoteFile "{url}">'
            assert file.read(array) == length
        assert np.array_equal(xp.host(array), servers.content(length))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("task_size", [99, 999, 1 << 20])
@pytest.mark.parametrize("bounce", [101, 1001, 1 << 20])
def test_any_sizes_of_tasks_and_of_blocks(
    faulty: servers.Faulty, xp: Any, threads: int, task_size: int, bounce: int
) -> None:
    settings = {"num_threads": threads, "task_size": task_size, "bounce_buffer_size": bounce}
    length = 20_003
    array = xp.array(np.zeros(length, np.uint8))
    with kvikio.defaults.set(settings), RemoteFile.open_http(f"{faulty.url}/ok/{length}") as file:
        assert file.read(array) == length
    assert np.array_equal(xp.host(array), servers.content(length))


def test_parts_arrive_where_they_belong(faulty: servers.Faulty, xp: Any) -> None:
    length = 100_000
    array = xp.array(np.zeros(length, np.uint8))
    with RemoteFile.open_http(f"{faulty.url}/ok/{length}") as file:
        first = file.pread(array[:60_001])
        rest = file.pread(array[60_001:], file_offset=60_001)
        assert (first.get(), rest.get()) == (60_001, 39_999)
        assert np.array_equal(xp.host(array), servers.content(length))
        assert file.read(buf=array, size=7, file_offset=50_000) == 7
        expected = servers.content(length)
        expected[:7] = servers.content(7, 50_000)
        assert np.array_equal(xp.host(array), expected)


def test_host_buffers_of_any_kind_and_shape(faulty: servers.Faulty) -> None:
    with RemoteFile.open_http(f"{faulty.url}/ok/800") as file:
        block = bytearray(800)
        assert file.read(block) == 800
        assert bytes(block) == servers.content(800).tobytes()
        for array in [np.zeros((10, 10)), np.asfortranarray(np.zeros((10, 10)))]:
            assert file.read(array) == 800
            assert array.tobytes(order="A") == servers.content(800).tobytes()


def test_nothing_is_asked_that_need_not_be(faulty: servers.Faulty) -> None:
    with RemoteFile.open_http(f"{faulty.url}/ok/1000/asked") as file:
        assert faulty.log("/ok/1000/asked") == ["GET bytes=0-0"]
        assert file.read(bytearray(1000)) == 1000
    assert len(faulty.log("/ok/1000/asked")) == 2
    with RemoteFile.open_http(f"{faulty.url}/ok/1000/given", nbytes=1000) as file:
        assert file.nbytes() == 1000
        assert file.read(bytearray()) == 0
        assert file.read(bytearray(10), size=0, file_offset=2000) == 0
        assert faulty.log("/ok/1000/given") == []
        assert file.read(bytearray(1000)) == 1000
        assert faulty.log("/ok/1000/given") == ["GET bytes=0-999"]


def test_a_read_beyond_the_end_is_refused_before_it_is_sent(faulty: servers.Faulty) -> None:
    url = f"{faulty.url}/ok/10/beyond"
    with RemoteFile.open_http(url, nbytes=10) as file:
        for offset, size in [(0, 100), (100, 5), (6, 5)]:
            pattern = rf"cannot read {offset}\+{size} bytes into a 10 bytes file \({url}\)"
            with pytest.raises(ValueError, match=pattern) as caught:
                file.pread(bytearray(size), file_offset=offset)
            assert isinstance(caught.value, exceptions.OutOfRangeError)
            assert caught.value.range == (offset, offset + size)
            with pytest.raises(ValueError, match=pattern):
                file.read(np.zeros(size, np.uint8), file_offset=offset)
    assert faulty.log("/ok/10/beyond") == []


def test_only_the_beginning_of_an_object_may_be_wanted(faulty: servers.Faulty) -> None:
    with RemoteFile.open_http(f"{faulty.url}/ok/1000", nbytes=100) as file:
        block = bytearray(100)
        assert file.read(block) == 100
        assert bytes(block) == servers.content(100).tobytes()


def test_a_size_that_is_too_large_is_found_out(faulty: servers.Faulty) -> None:
    with (
        RemoteFile.open_http(f"{faulty.url}/ok/1000", nbytes=2000) as file,
        pytest.raises(exceptions.KvikIOError),
    ):
        file.read(bytearray(1000), file_offset=900)


def test_empty_objects(faulty: servers.Faulty) -> None:
    with RemoteFile.open_http(f"{faulty.url}/ok/0") as file:
        assert file.nbytes() == 0
        assert file.read(bytearray(10), size=0) == 0
        with pytest.raises(ValueError, match="cannot read"):
            file.read(bytearray(1))


def test_wrong_arguments_are_refused(faulty: servers.Faulty) -> None:
    url = f"{faulty.url}/ok/1000"
    for opener in [
        RemoteFile.open_http,
        RemoteFile.open_s3_url,
        RemoteFile.open_s3_public,
        RemoteFile.open_s3_presigned_url,
        RemoteFile.open_webhdfs,
        RemoteFile.open,
    ]:
        for wrong in (None, 1, b"http://host/x"):
            with pytest.raises(TypeError):
                opener(wrong)
        with pytest.raises(OverflowError, match="negative value"):
            opener(url, nbytes=-1)
    file = RemoteFile.open_http(url, nbytes=1000)
    with pytest.raises(ValueError, match="Size is greater than the size of the buffer"):
        file.read(bytearray(10), size=11)
    with pytest.raises(ValueError, match="Array must be contiguous"):
        file.read(np.zeros(100)[::2])
    for name in ("size", "file_offset"):
        with pytest.raises(OverflowError, match="negative value"):
            file.pread(bytearray(10), **{name: -1})
    with pytest.raises(TypeError, match="a bytes-like object is required, not 'str'"):
        file.read("text")
    with pytest.raises(TypeError):
        file.read(bytearray(10), 10, 0, 4096)


def test_read_only_memory_stays_as_it_is(faulty: servers.Faulty) -> None:
    file = RemoteFile.open_http(f"{faulty.url}/ok/10", nbytes=10)
    text = bytes(10)
    for call in (file.read, file.pread):
        with pytest.raises(BufferError, match="read-only") as caught:
            call(text)
        assert isinstance(caught.value, exceptions.ReadOnlyBufferError)
    assert text == bytes(10)


def test_only_a_remote_file_makes_a_remote_file(faulty: servers.Faulty) -> None:
    for wrong in (None, 1, "http://host/x", object()):
        with pytest.raises(AssertionError):
            RemoteFile(wrong)
    file = RemoteFile.open_http(f"{faulty.url}/ok/10")
    assert RemoteFile(file).nbytes() == 10

    class Mine(RemoteFile):
        pass

    mine = Mine.open_http(f"{faulty.url}/ok/10")
    assert type(mine) is Mine
    assert mine.read(bytearray(10)) == 10
    assert type(file) is RemoteFile


def test_close_does_nothing_and_there_is_no_write(faulty: servers.Faulty) -> None:
    file = RemoteFile.open_http(f"{faulty.url}/ok/10")
    assert file.close() is None
    with file as same:
        assert same is file
    assert file.read(bytearray(10)) == 10
    assert not {"write", "pwrite", "closed"} & set(dir(file))


def test_names_are_where_they_are_looked_for() -> None:
    assert kvikio.is_remote_file_available() is True
    assert kvikio.remote_file.RemoteFile is RemoteFile
    assert [(kind.name, kind.value) for kind in RemoteEndpointType] == [
        ("AUTO", 0),
        ("S3", 1),
        ("S3_PUBLIC", 2),
        ("S3_PRESIGNED_URL", 3),
        ("WEBHDFS", 4),
        ("HTTP", 5),
    ]
    assert not issubclass(RemoteEndpointType, int)


def test_what_is_in_flight_keeps_all_that_it_needs(faulty: servers.Faulty) -> None:
    length = 300_000
    file = RemoteFile.open_http(f"{faulty.url}/trickle/{length}")
    array = np.zeros(length, np.uint8)
    gone, view = weakref.ref(file), memoryview(array)
    future = file.pread(view)
    del file, view
    gc.collect()
    assert gone() is None
    assert not future.done()
    assert [future.get(), future.get()] == [length, length]
    assert future.done()
    assert np.array_equal(array, servers.content(length))


def test_futures_may_be_dropped(faulty: servers.Faulty) -> None:
    file = RemoteFile.open_http(f"{faulty.url}/trickle/30000")
    for _ in range(20):
        file.pread(bytearray(30_000))
    gc.collect()
    block = bytearray(30_000)
    assert file.read(block) == 30_000
    assert bytes(block) == servers.content(30_000).tobytes()


def test_many_threads_on_one_object(faulty: servers.Faulty) -> None:
    length, count = 100_000, 16
    file = RemoteFile.open_http(f"{faulty.url}/ok/{length}")
    wrong: list[int] = []

    def work(number: int) -> None:
        for turn in range(20):
            offset = (number * 7919 + turn * 104_729) % (length - 1000)
            block = np.zeros(1000, np.uint8)
            if file.read(block, file_offset=offset) != 1000 or not np.array_equal(
                block, servers.content(1000, offset)
            ):
                wrong.append(offset)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_settings_hold_for_the_next_call(faulty: servers.Faulty) -> None:
    file = RemoteFile.open_http(f"{faulty.url}/ok/10000/settings", nbytes=10_000)
    settings = {"remote_io_backend": kvikio.RemoteIOBackend.MULTI_POLL, "remote_io_num_reactors": 2}
    with kvikio.defaults.set({**settings, "remote_io_max_concurrent_requests": 1, "task_size": 5000}):
        block = bytearray(10_000)
        assert file.read(block) == 10_000
    assert bytes(block) == servers.content(10_000).tobytes()
    log = faulty.log("/ok/10000/settings")
    assert sorted(log) == ["GET bytes=0-4999", "GET bytes=5000-9999"]
    with kvikio.defaults.set("task_size", 10_000):
        assert file.read(block) == 10_000
    assert len(faulty.log("/ok/10000/settings")) == 3


def test_no_secret_is_shown(no_aws: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def show(action: Any) -> None:
        try:
            seen.extend([repr(action), str(action), repr(action.pread(bytearray(4)))])
        except exceptions.KvikIOError as error:
            seen.extend([str(error), repr(error), repr(error.__dict__)])

    with servers.Mock(lambda handler: (403, {}, b"")) as mock:
        user = mock.url.replace("http://", "http://user:planted@")
        query = (
            "?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=planted&X-Amz-Signature=planted&token=planted"
        )
        keys = {"aws_region_name": "r", "aws_access_key_id": "planted", "aws_secret_access_key": "planted"}
        for nbytes in (None, 4):
            for make in [
                lambda n=nbytes: RemoteFile.open_http(user + "/x", n),
                lambda n=nbytes: RemoteFile.open_http(mock.url + "/x" + query, n),
                lambda n=nbytes: RemoteFile.open_s3_presigned_url(mock.url + "/b/x" + query, n),
                lambda n=nbytes: RemoteFile.open_s3("b", "x", n, aws_endpoint_url=mock.url, **keys),
            ]:
                try:
                    file = make()
                except exceptions.KvikIOError as error:
                    seen.extend([str(error), repr(error), repr(error.__dict__)])
                    continue
                show(file)
                try:
                    file.read(bytearray(4))
                except exceptions.KvikIOError as error:
                    seen.extend([str(error), repr(error), repr(error.__dict__)])
    assert len(seen) > 20
    assert not [text for text in seen if "planted" in text]


def test_the_examples_of_the_guide(faulty: servers.Faulty, no_aws: pytest.MonkeyPatch) -> None:
    url = f"{faulty.url}/ok/4000/data.bin"
    with kvikio.RemoteFile.open_http(url) as f:
        size = f.nbytes()
        buf = np.empty(size // 4, dtype=np.float32)
        assert f.read(buf) == size
        half = f.read(buf[:100], size=400, file_offset=2000)
        assert half == 400
    with kvikio.RemoteFile.open(url) as f:
        assert f.remote_endpoint_type() is RemoteEndpointType.HTTP
        assert f.read(buf) == f.nbytes()
    assert os.environ.get("AWS_ACCESS_KEY_ID") is None
