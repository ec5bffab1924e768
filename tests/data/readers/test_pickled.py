"""The restricted unpickler: honest arrays come through, no gadget runs, damage is noticed."""

import builtins
import functools
import os
import pickle
import struct

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sigmax.data.readers import pickled
from sigmax.data.readers.pickled import read_pickle
from sigmax.errors import RequestError

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)
ROWS = np.arange(12, dtype=np.uint8).reshape(3, 4)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tmp_path_factory.mktemp("pickles") / "batch"


def refusal(file, content):
    file.write_bytes(content)
    with pytest.raises(RequestError) as refused:
        read_pickle(file)
    assert str(file) in str(refused.value)
    return str(refused.value)


@given(hnp.arrays(np.uint8, hnp.array_shapes()), st.sampled_from(PROTOCOLS), st.sampled_from("CF"), st.booleans())
def test_honest_arrays_come_through(file, array, protocol, order, old_numpy):
    content = {b"data": np.asarray(array, order=order), b"labels": [1, 2, 3], "more": [(1.5, None, True)]}
    written = pickle.dumps(content, protocol=protocol)
    if old_numpy and protocol < 4:  # later protocols state the length of a name
        written = written.replace(b"numpy._core.", b"numpy.core.")
    file.write_bytes(written)
    read = read_pickle(file)
    np.testing.assert_array_equal(read.pop(b"data"), array)
    assert read == {b"labels": [1, 2, 3], "more": [(1.5, None, True)]}


class Call:
    """Pickles as an instruction to call `function` with `args`."""

    def __init__(self, function, *args):
        self.function, self.args = function, args

    def __reduce__(self):
        return self.function, self.args


GADGETS = {
    "os.system": lambda mark: Call(os.system, f"touch {mark}"),
    "builtins.exec": lambda mark: Call(exec, f"open({str(mark)!r}, 'w').close()"),
    "builtins.map": lambda mark: Call(list, Call(map, os.mkdir, [str(mark)])),
    "functools.partial": lambda mark: Call(functools.partial(os.mkdir, str(mark))),
    "numpy.ndarray.tofile": lambda mark: Call(np.ndarray.tofile, ROWS, str(mark)),
}


@pytest.mark.parametrize("gadget", GADGETS)
def test_no_gadget_runs_wherever_it_hides(gadget, tmp_path):
    mark = tmp_path / "mark"
    call = GADGETS[gadget](mark)
    places = ({b"data": ROWS, b"labels": [1, call]}, [call, {b"data": ROWS}], {b"data": np.array([call], object)})
    for protocol in PROTOCOLS:
        for place in places:
            message = refusal(tmp_path / "batch", pickle.dumps(place, protocol=protocol))
            assert "nothing of it was run" in message
    assert not mark.exists()
    pickle.loads(pickle.dumps(call))
    assert mark.exists(), "the gadget works where it is allowed to"


def name(module, attribute):
    """The instruction that pushes module.attribute, protocol 4 style: dots in the attribute are followed."""
    text = b"".join(b"\x8c" + struct.pack("B", len(part)) + part.encode() for part in (module, attribute))
    return text + b"\x93"


DTYPE = b"cnumpy\ndtype\nX\x02\0\0\0u1\x85R"
ARRAY = b"cnumpy.core.multiarray\n_reconstruct\n)R"


@pytest.mark.parametrize(
    ("words", "content"),
    [
        ("asks for posix.system", b"(S'true'\niposix\nsystem\n."),
        ("asks for posix.system", b"(cposix\nsystem\nS'true'\no."),
        ("asks for numpy.dtype.__init__.__globals__", b"\x80\x04" + name("numpy", "dtype.__init__.__globals__") + b"."),
        ("asks for _codecs.encode.__class__", b"\x80\x04" + name("_codecs", "encode.__class__") + b"."),
        (
            "asks for sigmax.data.readers.pickled.pickle",
            b"\x80\x04" + name("sigmax.data.readers.pickled", "pickle") + b".",
        ),
        ("outside the file", b"P12\n."),
        ("array of type 'O8'", b"\x80\x02cnumpy\ndtype\nX\x02\0\0\0O8\x85R."),
        ("array of type 'numpy.ndarray'", b"cnumpy.core.numeric\n_frombuffer\n(C\1acnumpy\nndarray\n(I1\ntS'C'\ntR."),
        ("not a whole", b"\x80\x03cnumpy\nndarray\nJ\xff\xff\xff\x7f\x85R."),  # calls the array type itself
        ("not a whole", b"\x80\x03" + ARRAY + b"(K\x01J\xff\xff\xff\x7f\x85" + DTYPE + b"\x89C\x02abtb."),  # too large
        ("not a whole", b"\x80\x03" + ARRAY + b"K\x01b."),  # a state of another shape
        ("not a whole", b"\x80\x03\x82\xf0."),  # an extension code nobody registered
        ("not a whole", b"\x80\x03c_codecs\nencode\nX\x01\0\0\0aX\x04\0\0\0nope\x86R."),
        ("not a whole", b"<html>not found</html>"),
    ],
)
def test_handwritten_pickles_are_refused(words, content, file):
    assert words in refusal(file, content)


@given(st.integers(0, 10_000), st.sampled_from(PROTOCOLS))
@example(0, 2)
def test_every_truncation_is_noticed(file, length, protocol):
    whole = pickle.dumps({b"data": ROWS, b"labels": [1, 2, 3]}, protocol=protocol)
    refusal(file, whole[: length % len(whole)])


@pytest.mark.parametrize("key", sorted(pickled._STAND_INS))
def test_a_pickle_cannot_tamper_with_the_stand_ins(key, file):
    target = pickled._STAND_INS[key]
    for attribute in ("__init__", "__setstate__", "__new__", "__call__", "values"):
        before = getattr(target, attribute, None)
        slots = b"N}X" + struct.pack("<I", len(attribute)) + attribute.encode() + b"K\x01s\x86b."
        plain = b"}X" + struct.pack("<I", len(attribute)) + attribute.encode() + b"K\x01sb."
        for state in (slots, plain):
            refusal(file, b"\x80\x03c" + "\n".join(key).encode() + b"\n" + state)
            assert getattr(target, attribute, None) == before


def test_nothing_admitted_is_a_real_function_of_numpy_or_builtins():
    admitted = [value for value in pickled._STAND_INS.values() if callable(value)]
    assert all(value is str.encode or value.__module__ == pickled.__name__ for value in admitted)
    assert not {id(value) for value in admitted} & {id(value) for value in vars(builtins).values()}
