"""`__flambeau_function__`: classes that override the functions of this library for arguments of theirs.

It is PyTorch's `__torch_function__`: a class method `(func, types, args, kwargs)` that returns a result or NotImplemented.
Subclasses of `Tensor` have one that runs the function and makes its results objects of the subclass; one that sets it to
None, as `nn.Parameter` does, is treated as a plain tensor. An override of an object
that is no tensor is called where a tensor is expected.
"""

import sys
from _thread import _local
from types import FunctionType

from . import _dispatch, _flambeau
from ._flambeau import Tensor

# Special methods, which Python looks up on the class, and methods that are not in the operator tables.
OPERATORS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "matmul")
METHODS = (
    *(f"__{name}__" for name in OPERATORS),
    *(f"__i{name}__" for name in OPERATORS if name != "matmul"),
    *(f"__{name}__" for name in ("neg", "pos", "abs", "invert", "eq", "ne", "lt", "le", "gt", "ge", "getitem", "setitem")),
    *(f"__{name}__" for name in ("len", "bool", "int", "float", "index", "contains")),
    *("float", "double", "half", "bfloat16", "bool", "byte", "char", "short", "int", "long", "cpu"),
    *("dim", "ndimension", "size", "stride", "numel", "nelement", "element_size", "storage_offset", "data_ptr", "is_contiguous"),
    *("item", "tolist", "numpy", "backward", "requires_grad_", "is_floating_point", "is_complex", "get_device"),
)
# The methods that operators call: overrides and modes see these.
_NAMES = {"add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "mod": "remainder", "pow": "pow"}
METHOD_OF = {
    **{f"__{name}__": method for name, method in _NAMES.items()},
    **{f"__i{name}__": f"{method}_" for name, method in (*_NAMES.items(), ("floordiv", "floor_divide"))},
    **{f"__{name}__": name for name in ("matmul", "neg", "abs", "ne", "lt", "le", "gt", "ge")},
    **{f"__r{name}__": name for name in ("add", "mul")},
    **{f"__r{name}__": f"bitwise_{name}" for name in ("and", "or", "xor")},
    "__pos__": "positive",
}


class DisableFlambeauFunction:
    """Inside it, objects of subclasses are treated as plain tensors."""

    def __enter__(self):
        self._before = _flambeau._set_overrides_enabled(False)

    def __exit__(self, *raised):
        _flambeau._set_overrides_enabled(self._before)


def _overloaded_args(args, kwargs):
    """The arguments with overrides: one of each class, subclasses before their bases, else in order."""
    found: list = []
    for value in (*args, *kwargs.values()):
        _collect(value, found)
    return found


# The depth to which lists are searched: an index is a tuple of lists of tensors. A list may contain itself.
DEPTH = 2


def _override_of(kind):
    """The override of a class, which one that is no tensor's may have under PyTorch's name only."""
    own = getattr(kind, "__flambeau_function__", None)
    return own if own is not None or issubclass(kind, Tensor) else getattr(kind, "__torch_function__", None)


def _collect(value, found, depth=DEPTH):
    answer = None if type(value) is Tensor else _override_of(type(value))
    if answer is None:
        if isinstance(value, (list, tuple)) and depth > 0:
            for item in value:
                _collect(item, found, depth - 1)
    elif not any(type(value) is type(other) for other in found):
        before = (i for i, other in enumerate(found) if issubclass(type(value), type(other)))
        found.insert(next(before, len(found)), value)


def call_override(func, args, kwargs):
    """Calls the overrides of the arguments' classes for `func`, until one does not return NotImplemented. Modes have precedence."""
    overloaded = _overloaded_args(args, kwargs)
    modes = sys.modules.get("flambeau._function_modes")
    if modes is not None and modes._active.modes:
        answer = modes.call(func, tuple(type(value) for value in overloaded), args, kwargs)
        if answer is NotImplemented:
            raise TypeError(f"no implementation found for '{getattr(func, '__name__', func)}': the mode returned NotImplemented")
        return answer
    if not overloaded:
        # A class between `Tensor` and one without overrides, such as a subclass of it and of `nn.Parameter`, has these methods too.
        return func(*args, **kwargs)
    types = tuple(type(value) for value in overloaded)
    for value in overloaded:
        answer = _answer(func, value, types, args, kwargs)
        if answer is not NotImplemented:
            return answer
    name = getattr(func, "__name__", repr(func))
    raise TypeError(f"no implementation found for '{name}' on types that implement __flambeau_function__: {list(types)}")


def _answer(func, value, types, args, kwargs):
    """The answer of an object's override. One that calls `func` with the same object again knows no tensors of this library: that of another
    library's tensors does so.
    """
    call = (func, id(value))
    if not isinstance(value, Tensor) and call in _calls.running:
        cls = f"{type(value).__module__}.{type(value).__qualname__}"
        raise TypeError(f"{getattr(func, '__name__', func)}: expected flambeau's tensors but got {cls}, which flambeau.as_tensor converts")
    _calls.running.append(call)
    try:
        return _override_of(type(value))(func, types, args, kwargs)
    finally:
        _calls.running.pop()


class _Calls(_local):
    """The calls that a thread is in: of overrides, by functions and the objects whose overrides were called, and of the default one."""

    def __init__(self):
        self.running = []
        self.defaults = []


_calls = _Calls()


def call_override_by_name(name, is_method, args, kwargs):
    """The same for a function or method of that name."""
    return call_override(getattr(Tensor, name) if is_method else _function(name), args, kwargs)


def _function(name):
    modules = (_flambeau, *(getattr(_flambeau, below) for below in ("_nn", "_linalg", "_fft", "_special") if hasattr(_flambeau, below)))
    return next(getattr(module, name) for module in modules if hasattr(module, name))


def _converted(result, cls):
    """Results as objects of a subclass, in tuples and lists too."""
    if isinstance(result, Tensor):
        return result if isinstance(result, cls) else _flambeau._make_subclass(cls, result)
    if isinstance(result, (tuple, list)):
        items = [_converted(item, cls) for item in result]
        # A tuple with names takes its items one by one.
        return type(result)(*items) if hasattr(result, "_fields") else type(result)(items)
    return result


def _default(cls, func, types, args=(), kwargs=None):
    """Runs `func` as on plain tensors, and makes its results objects of this class."""
    # Functions of this library do not come back while overrides are disabled; another library's, which shares the protocol, does.
    if not all(issubclass(cls, other) for other in types) or func in _calls.defaults:
        return NotImplemented
    _calls.defaults.append(func)
    try:
        with DisableFlambeauFunction():
            result = func(*args, **(kwargs or {}))
            return result if cls is Tensor else _converted(result, cls)
    finally:
        _calls.defaults.pop()


def _are_overrides_enabled():
    """Whether overrides are enabled on this thread."""
    before = _flambeau._set_overrides_enabled(True)
    _flambeau._set_overrides_enabled(before)
    return before


def _call(func, args, kwargs):
    return func(*args, **kwargs)


def call_special(function, args, kwargs):
    """Calls overrides for the method of an operator, which leaves an operand of another kind to that operand's class."""
    try:
        return call_override(function, args, kwargs)
    except TypeError:
        if all(isinstance(value, (Tensor, int, float, complex)) for value in args):
            raise
        return NotImplemented


def _method(name):
    """A method for subclasses that calls an override instead of `Tensor`'s method if there is one."""
    plain, function = getattr(Tensor, name), getattr(Tensor, METHOD_OF.get(name, name))
    call = call_special if name in METHOD_OF else call_override

    def method(self, *args, **kwargs):
        return call(function, (self, *args), kwargs) if _are_overrides_enabled() else plain(self, *args, **kwargs)

    method.__name__, method.__doc__ = name, plain.__doc__
    return method


def _reflected(name):
    """A reflected operator, by which a tensor on the left defers to an object of a subclass on the right."""
    special, reflected = f"__{name}__", f"__r{name}__"
    plain, forward = getattr(Tensor, reflected, None), getattr(Tensor, METHOD_OF.get(special, special))
    function = plain and getattr(Tensor, METHOD_OF.get(reflected, reflected))

    def method(self, other):
        enabled = _are_overrides_enabled()
        if isinstance(other, Tensor):
            return (call_override if enabled else _call)(forward, (other, self), {})
        if plain is None:
            return NotImplemented
        return call_special(function, (self, other), {}) if enabled else plain(self, other)

    method.__name__ = f"__r{name}__"
    return method


_enabled = False


def enable():
    """From now on functions that are written in Python look for overrides too; programs without them pay nothing for it."""
    global _enabled
    if _enabled:
        return
    _enabled = True
    _flambeau._enable_overrides()
    from . import _functions
    from .nn import functional

    for module in (functional, _functions):
        for name, function in list(vars(module).items()):
            is_function = type(function) is FunctionType and function.__module__.startswith(module.__name__)
            if is_function and not name.startswith("_") and any("Tensor" in str(a) for a in function.__annotations__.values()):
                _look_for_overrides(function)


def _look_for_overrides(function):
    """Lets a function look for overrides first. It stays the same object, since other modules have imported it."""
    if function.__closure__ or "__wrapped__" in vars(function):
        return
    plain = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__)
    plain.__kwdefaults__, plain.__annotations__ = function.__kwdefaults__, function.__annotations__

    def run(args, kwargs):
        return call_override(function, args, kwargs) if _flambeau._has_overrides(args, kwargs) else plain(*args, **kwargs)

    def call(*args, _run, **kwargs):
        return _run(args, kwargs)

    function.__wrapped__ = plain
    function.__code__, function.__defaults__, function.__kwdefaults__ = call.__code__, None, {"_run": run}


def _init_subclass(cls, **named):
    """Enables the overrides of a new subclass, for the special methods that Python looks up on the class too."""
    super(Tensor, cls).__init_subclass__(**named)
    _dispatch.init_subclass(cls)
    if "__torch_function__" in cls.__dict__ and "__flambeau_function__" not in cls.__dict__:
        # PyTorch's name for the same protocol.
        cls.__flambeau_function__ = cls.__dict__["__torch_function__"]
    if cls.__flambeau_function__ is None:
        return
    enable()
    for name in METHODS:
        if getattr(cls, name) is getattr(Tensor, name):
            setattr(cls, name, _method(name))
    for name in OPERATORS:
        if getattr(cls, f"__r{name}__", None) is getattr(Tensor, f"__r{name}__", None):
            setattr(cls, f"__r{name}__", _reflected(name))


def has_flambeau_function(args):
    """Whether a class among the arguments has an override."""
    return bool(_overloaded_args(tuple(args), {}))


def handle_flambeau_function(func, relevant_args, *args, **kwargs):
    """For functions written in Python: calls the overrides of the classes of `relevant_args` for `func`."""
    for value in _overloaded_args(tuple(relevant_args), {}):
        types = tuple(type(other) for other in _overloaded_args(tuple(relevant_args), {}))
        answer = _override_of(type(value))(func, types, args, kwargs)
        if answer is not NotImplemented:
            return answer
    raise TypeError(f"no implementation found for '{func.__name__}' on types that implement __flambeau_function__")


def install(tensor):
    """Puts the protocol on the class."""
    tensor.__flambeau_function__ = tensor.__torch_function__ = classmethod(_default)
    _dispatch.install(tensor)
    tensor.__init_subclass__ = classmethod(_init_subclass)  # type: ignore[arg-type]
