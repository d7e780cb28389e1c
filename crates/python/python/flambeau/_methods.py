"""Methods of `Tensor` that are composed of others in a line of Python."""

from ._flambeau import _register


def __init__(self, *_data, **_named):
    """Registers the object that `Tensor.__new__` made: `grad` and hooks return this object for its tensor."""
    _register(self)


def get_device(self):
    """The number of the device; -1 stands for the CPU."""
    return -1 if self.device.index is None else self.device.index


def set_(self, source=None, storage_offset=0, size=None, stride=None):
    """Makes the tensor a view of other elements of its storage: those of `source`, or those that the arguments describe.

    A tensor never changes its storage, so the storage of `source` must be its own; without `source` the tensor becomes empty.
    """
    from ._flambeau import Tensor

    if isinstance(source, Tensor) and size is None:
        storage_offset, size, stride = source.storage_offset(), source.shape, source.stride()
    storage = source.untyped_storage() if isinstance(source, Tensor) else source
    if storage is not None and storage != self.untyped_storage():
        raise RuntimeError("set_: a tensor keeps its storage for life, but the source has another; use copy_ for its values")
    if size is None:
        whole = 0 if storage is None else storage.nbytes() // self.element_size() - storage_offset
        size = (whole,)
    if stride is None:
        stride = [1] * len(size)
        for dim in range(len(size) - 2, -1, -1):
            stride[dim] = stride[dim + 1] * max(size[dim + 1], 1)
    return self.as_strided_(size, stride, storage_offset)


def __rlshift__(self, other):
    """A number times two to the power of each element."""
    from . import _flambeau

    return _flambeau.bitwise_left_shift(other, self)


def __rrshift__(self, other):
    """A number divided by two to the power of each element, rounded down."""
    from . import _flambeau

    return _flambeau.bitwise_right_shift(other, self)


def __reversed__(self):
    return self.flip(0) if self.dim() else self


def new_tensor(self, data, *, dtype=None, device=None, requires_grad=False):
    """A new tensor with a copy of `data`, of this tensor's type and device unless others are given."""
    from ._flambeau import tensor

    dtype, device = dtype or self.dtype, device or self.device
    return tensor(data, dtype=dtype, device=device, requires_grad=requires_grad)


# The package's name in the names of types: PyTorch's where programs written for it run.
PACKAGE = "flambeau"


def cuda(self, device=None, non_blocking=False, memory_format=None):
    """On a CUDA device, of which there may be none."""
    from ._flambeau import device as device_class

    chosen = device_class("cuda") if device is None else device_class("cuda", device) if isinstance(device, int) else device
    return self.to(chosen, non_blocking=non_blocking)


def record_stream(self, s):
    """Notes that a stream uses the tensor, so that its memory is used again only after that. Uses by operators are noted without it."""
    from ._flambeau import _cuda_record_stream

    _cuda_record_stream(self, s.device_index, s.stream_id)


def pin_memory(self, device=None):
    """A copy in pinned memory, from which CUDA devices copy by themselves; the tensor itself where there is no device."""
    from . import cuda
    from ._flambeau import _cuda_pin_memory

    return _cuda_pin_memory(self) if cuda.is_available() else self


def is_pinned(self, device=None):
    """Whether the tensor is in pinned memory."""
    from ._flambeau import _cuda_is_pinned

    return _cuda_is_pinned(self)


def fill_diagonal_(self, fill_value, wrap=False):
    """Fills the main diagonal; with `wrap` that of a tall matrix begins again below its square part."""
    if self.dim() < 2:
        raise RuntimeError("dimensions must larger than 1")
    if self.dim() > 2 and len(set(self.shape)) > 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    rows, columns = self.shape[0], self.shape[1]
    if self.dim() == 2:
        step = columns + 1
        for start in range(0, rows if wrap else 1, step):
            self[start : start + columns].diagonal().fill_(fill_value)
        return self
    from ._flambeau import arange

    self[(arange(rows),) * self.dim()] = fill_value
    return self


def apply_(self, callable):
    """Replaces each element by a function of it."""
    from ._flambeau import tensor

    values = [callable(value) for value in self.reshape(-1).tolist()]
    return self.copy_(tensor(values, dtype=self.dtype).reshape(self.shape))


def map_(self, tensor, callable):
    """Replaces each element by a function of it and of another tensor's."""
    from ._flambeau import tensor as make

    pairs = zip(self.reshape(-1).tolist(), tensor.expand_as(self).reshape(-1).tolist())
    return self.copy_(make([callable(*pair) for pair in pairs], dtype=self.dtype).reshape(self.shape))


def new(self, *data, device=None):
    """A tensor of this type: of given sizes, not initialised, or with given elements."""
    from ._flambeau import Tensor, empty, tensor

    if not data or all(type(size) is int for size in data):
        return empty(data or (0,), dtype=self.dtype, device=device or self.device)
    if type(data[0]) is type(self.shape):
        return empty(data[0], dtype=self.dtype, device=device or self.device)
    return data[0].to(self.dtype).clone() if isinstance(data[0], Tensor) else tensor(data[0], dtype=self.dtype)


def storage(self):
    """The bytes below the tensor, which have no type of elements."""
    return self.untyped_storage()


def storage_type(self):
    """The class of the bytes below the tensor."""
    return type(self.untyped_storage())


def _false(self):
    """False: there are no such tensors."""
    return False


# The types of elements in the names that tensors of a type had before there were dtypes.
TYPE_NAMES = {
    "BoolTensor": "bool",
    "ByteTensor": "uint8",
    "CharTensor": "int8",
    "ShortTensor": "int16",
    "IntTensor": "int32",
    "LongTensor": "int64",
    "HalfTensor": "float16",
    "BFloat16Tensor": "bfloat16",
    "FloatTensor": "float32",
    "DoubleTensor": "float64",
}


def type_(self, dtype=None, non_blocking=False):
    """With elements of `dtype`; without one, the name of the type there is: `flambeau.FloatTensor`."""
    from . import _flambeau

    if dtype is None:
        names = {dtype: name for name, dtype in TYPE_NAMES.items()}
        return f"{PACKAGE}.{names[str(self.dtype).split('.')[-1]]}"
    if isinstance(dtype, str) and dtype.split(".")[-1] in TYPE_NAMES:
        dtype = getattr(_flambeau, TYPE_NAMES[dtype.split(".")[-1]])
    elif isinstance(dtype, type):
        # A class of tensors of one type, such as PyTorch's `FloatTensor`.
        dtype = vars(dtype)["dtype"]
    return self.to(dtype, non_blocking)


def H(self):
    """The conjugate of a matrix with rows and columns exchanged."""
    if self.dim() not in (0, 2):
        raise RuntimeError(f"tensor.H is only supported on matrices (2-D tensors). Got {self.dim()}-D tensor.")
    return self.conj().transpose(0, -1)


def mH(self):
    """The conjugate of each matrix with rows and columns exchanged."""
    return self.conj().mT


def real(self):
    """The real parts, as a view; the tensor itself if it is real."""
    from . import _flambeau

    return _flambeau.real(self)


def set_real(self, value):
    """Writes the real parts."""
    from . import _flambeau

    _flambeau.real(self).copy_(_flambeau.as_tensor(value))


def imag(self):
    """The imaginary parts, as a view."""
    from . import _flambeau

    return _flambeau.imag(self)


def set_imag(self, value):
    """Writes the imaginary parts."""
    from . import _flambeau

    _flambeau.imag(self).copy_(_flambeau.as_tensor(value))


def is_conj(self):
    """False: nothing is conjugated lazily."""
    return False


def is_neg(self):
    """False: nothing is negated lazily."""
    return False


def is_quantized(self):
    """False: there are no quantised tensors."""
    return False


def numbers_first(name, is_method, args, named):
    """A call with numbers before the tensors, as PyTorch had them before 1.0: `x.add_(0.5, y)`, `addmm(0.5, m, 2.0, a, b)`.

    None if the arguments are not those of such a call.
    """
    from . import _flambeau

    tensors = [value for value in args if isinstance(value, _flambeau.Tensor)]
    numbers = [value for value in args if isinstance(value, (int, float))]
    kind = name.rstrip("_")
    counts = {"add": (2, (1,)), "sub": (2, (1,)), "addcmul": (3, (1,)), "addcdiv": (3, (1,))}
    tensor_count, number_counts = counts.get(kind, (3, (1, 2)))
    shape = ["t" if isinstance(value, _flambeau.Tensor) else "n" for value in args]
    # A method has its tensor first; a function has the factor of the first tensor before it.
    expected = {"add": ["tnt"], "sub": ["tnt"], "addcmul": ["tntt"], "addcdiv": ["tntt"]}.get(
        kind, ["tntt", "tnntt"] if is_method else ["nttt", "ntntt"]
    )
    is_known = len(tensors) == tensor_count and len(numbers) in number_counts and len(tensors) + len(numbers) == len(args)
    if not is_known or "".join(shape) not in expected:
        return None
    import warnings

    warnings.warn(f"This overload of {name} is deprecated: give the numbers behind the tensors, by name", UserWarning, stacklevel=2)
    names = ("alpha",) if kind in ("add", "sub") else ("value",) if kind in ("addcmul", "addcdiv") else ("beta", "alpha")
    call = getattr(_flambeau.Tensor if is_method else _flambeau, name)
    return call(*tensors, **dict(zip(names, numbers)), **named)


# Other names, as NumPy has them.
ALIASES = {
    "absolute": "abs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "clip": "clamp",
    "divide": "div",
    "fix": "trunc",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "multiply": "mul",
    "negative": "neg",
    "not_equal": "ne",
    "subtract": "sub",
}


def install(tensor):
    """Puts the methods on the class."""
    for method in (cuda, record_stream, pin_memory, is_pinned, fill_diagonal_, apply_, map_, new, storage, storage_type):
        setattr(tensor, method.__name__, method)
    for name in ("is_xpu", "is_mps", "is_nested", "is_mkldnn", "is_mtia", "is_hpu", "is_xla", "is_ipu", "is_maia"):
        setattr(tensor, name, property(_false))
    for method in (__init__, __rlshift__, __rrshift__, __reversed__, get_device, new_tensor, set_, is_conj, is_neg):
        setattr(tensor, method.__name__, method)
    for attribute in (H, mH, is_quantized):
        setattr(tensor, attribute.__name__, property(attribute))
    tensor.real, tensor.imag = property(real, set_real), property(imag, set_imag)
    for alias, name in ALIASES.items():
        setattr(tensor, alias, getattr(tensor, name))
        if hasattr(tensor, name + "_"):
            setattr(tensor, alias + "_", getattr(tensor, name + "_"))
    tensor.type = type_
    tensor.__array_priority__ = 1000
