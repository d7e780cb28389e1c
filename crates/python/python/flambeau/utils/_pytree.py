"""Nested containers as trees, whose leaves are flattened, mapped and put back: torch's `utils._pytree`."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass, field

from typing import Any, NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Context = Any
PyTree = Any
FlattenFunc = Any
UnflattenFunc = Any
FlattenWithKeysFunc = Any
ToDumpableContextFn = Any
FromDumpableContextFn = Any


@dataclass(frozen=True)
class MappingKey:
    """A step into a dict."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """The value under the key."""
        return mapping[self.key]


@dataclass(frozen=True)
class SequenceKey:
    """A step into a list or tuple."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        """The item at the index."""
        return sequence[self.idx]


@dataclass(frozen=True)
class GetAttrKey:
    """A step to an attribute."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """The attribute."""
        return getattr(obj, self.name)


class NodeDef(NamedTuple):
    """How containers of a type are taken apart and put together."""

    type: type[Any]
    flatten_fn: Any
    unflatten_fn: Any
    flatten_with_keys_fn: Any = None


SUPPORTED_NODES: dict[type[Any], NodeDef] = {}
CONSTANT_NODES: set[type[Any]] = set()
BUILTIN_TYPES: Any = frozenset((tuple, list, dict, namedtuple, OrderedDict, defaultdict, deque))


def register_pytree_node(
    cls: type[Any], flatten_fn: Any, unflatten_fn: Any, *, flatten_with_keys_fn: Any = None, **options: Any
) -> None:
    """Makes a type a container: `flatten_fn(x)` gives children and context, `unflatten_fn(children, context)` the container."""
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)


def _register_pytree_node(
    cls: type[Any], flatten_fn: Any, unflatten_fn: Any, to_str_fn: Any = None, maybe_from_str_fn: Any = None, **options: Any
) -> None:
    """The same; a type may be registered again."""
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, options.get("flatten_with_keys_fn"))


_private_register_pytree_node = _register_pytree_node


def _deregister_pytree_node(cls: type[Any]) -> None:
    SUPPORTED_NODES.pop(cls, None)


def register_dataclass(cls: type[Any], *, field_names: Any = None, drop_field_names: Any = None, **options: Any) -> None:
    """Makes a dataclass a container of its fields."""
    from dataclasses import fields

    dropped = set(drop_field_names or ())
    names = field_names or [f.name for f in fields(cls) if f.init and f.name not in dropped]

    def flatten(value: Any) -> Any:
        return [getattr(value, name) for name in names], list(names)

    def with_keys(value: Any) -> Any:
        return [(GetAttrKey(name), getattr(value, name)) for name in names], list(names)

    register_pytree_node(
        cls, flatten, lambda values, context: cls(**dict(zip(context, values))), flatten_with_keys_fn=with_keys
    )


def register_constant(cls: type[Any]) -> None:
    """Makes objects of a type containers without children."""
    CONSTANT_NODES.add(cls)
    register_pytree_node(cls, lambda value: ([], value), lambda _, context: context)


def is_constant_class(cls: type[Any]) -> bool:
    """Whether objects of the type are containers without children."""
    return cls in CONSTANT_NODES


def _list_flatten(d: list[Any]) -> tuple[list[Any], Context]:
    return list(d), None


def _list_unflatten(values: Iterable[Any], context: Context) -> list[Any]:
    return list(values)


def _tuple_flatten(d: tuple[Any, ...]) -> tuple[list[Any], Context]:
    return list(d), None


def _tuple_unflatten(values: Iterable[Any], context: Context) -> tuple[Any, ...]:
    return tuple(values)


def _items_with_keys(d: Any) -> tuple[list[Any], Context]:
    return [(SequenceKey(i), value) for i, value in enumerate(d)], None


_list_flatten_with_keys = _tuple_flatten_with_keys = _items_with_keys


def _dict_flatten(d: Mapping[Any, Any]) -> tuple[list[Any], Context]:
    return list(d.values()), list(d.keys())


def _dict_unflatten(values: Iterable[Any], context: Context) -> dict[Any, Any]:
    return dict(zip(context, values))


def _dict_flatten_with_keys(d: Mapping[Any, Any]) -> tuple[list[Any], Context]:
    return [(MappingKey(key), value) for key, value in d.items()], list(d.keys())


def _ordereddict_flatten(d: OrderedDict[Any, Any]) -> tuple[list[Any], Context]:
    return list(d.values()), list(d.keys())


def _ordereddict_unflatten(values: Iterable[Any], context: Context) -> OrderedDict[Any, Any]:
    return OrderedDict(zip(context, values))


def _defaultdict_flatten(d: defaultdict[Any, Any]) -> tuple[list[Any], Context]:
    return list(d.values()), [d.default_factory, list(d.keys())]


def _defaultdict_unflatten(values: Iterable[Any], context: Context) -> defaultdict[Any, Any]:
    factory, keys = context
    return defaultdict(factory, zip(keys, values))


def _namedtuple_flatten(d: Any) -> tuple[list[Any], Context]:
    return list(d), type(d)


def _namedtuple_unflatten(values: Iterable[Any], context: Context) -> Any:
    return context(*values)


def _namedtuple_flatten_with_keys(d: Any) -> tuple[list[Any], Context]:
    return [(GetAttrKey(name), value) for name, value in zip(d._fields, d)], type(d)


def _deque_flatten(d: deque[Any]) -> tuple[list[Any], Context]:
    return list(d), d.maxlen


def _deque_unflatten(values: Iterable[Any], context: Context) -> deque[Any]:
    return deque(values, maxlen=context)


register_pytree_node(tuple, _tuple_flatten, _tuple_unflatten, flatten_with_keys_fn=_items_with_keys)
register_pytree_node(list, _list_flatten, _list_unflatten, flatten_with_keys_fn=_items_with_keys)
register_pytree_node(dict, _dict_flatten, _dict_unflatten, flatten_with_keys_fn=_dict_flatten_with_keys)
register_pytree_node(OrderedDict, _ordereddict_flatten, _ordereddict_unflatten, flatten_with_keys_fn=_dict_flatten_with_keys)
_DEFAULT_DICT = dict(flatten_with_keys_fn=lambda d: (_dict_flatten_with_keys(d)[0], _defaultdict_flatten(d)[1]))
register_pytree_node(defaultdict, _defaultdict_flatten, _defaultdict_unflatten, **_DEFAULT_DICT)
register_pytree_node(
    namedtuple,  # type: ignore[arg-type]
    _namedtuple_flatten,
    _namedtuple_unflatten,
    flatten_with_keys_fn=_namedtuple_flatten_with_keys,
)
register_pytree_node(
    deque, _deque_flatten, _deque_unflatten, flatten_with_keys_fn=lambda d: (_items_with_keys(d)[0], d.maxlen)
)


def is_namedtuple(obj: Any) -> bool:
    """Whether it is a tuple with names, or a class of such."""
    cls = obj if isinstance(obj, type) else type(obj)
    return issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)


is_namedtuple_class = is_namedtuple_instance = _is_namedtuple_instance = is_namedtuple


def is_structseq(obj: Any) -> bool:
    """Whether it is one of C's tuples with names, or a class of such."""
    cls = obj if isinstance(obj, type) else type(obj)
    return issubclass(cls, tuple) and isinstance(getattr(cls, "n_sequence_fields", None), int)


is_structseq_class = is_structseq_instance = is_structseq


def _get_node_type(tree: Any) -> Any:
    cls = type(tree)
    return namedtuple if cls not in SUPPORTED_NODES and is_namedtuple(cls) else cls


def tree_is_leaf(tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None) -> bool:
    """Whether a value is no container."""
    return (is_leaf is not None and is_leaf(tree)) or _get_node_type(tree) not in SUPPORTED_NODES


_is_leaf = tree_is_leaf


def _all_leaves(iterable: Iterable[PyTree], is_leaf: Any = None) -> bool:
    return all(tree_is_leaf(x, is_leaf) for x in iterable)


tree_all_leaves = all_leaves = _all_leaves


@dataclass(init=True, eq=True)
class TreeSpec:
    """The structure of a tree, without its leaves."""

    type: Any
    context: Context
    children_specs: list[TreeSpec]
    num_nodes: int = field(init=False)
    num_leaves: int = field(init=False)
    num_children: int = field(init=False)

    def __post_init__(self) -> None:
        leaf = self.type is None
        self.num_nodes = 1 + sum(spec.num_nodes for spec in self.children_specs)
        self.num_leaves = 1 if leaf else sum(spec.num_leaves for spec in self.children_specs)
        self.num_children = len(self.children_specs)

    def __repr__(self, indent: int = 0) -> str:
        if self.is_leaf():
            return "*"
        children = f",\n{' ' * (indent + 2)}".join(spec.__repr__(indent + 2) for spec in self.children_specs)
        return f"TreeSpec({self.type.__name__}, {self.context}, [{children}])"

    def __hash__(self) -> int:
        return hash((self.type, repr(self.context), tuple(self.children_specs)))

    def is_leaf(self) -> bool:
        """Whether it is that of a leaf."""
        return self.type is None

    def children(self) -> list[TreeSpec]:
        """The structures of the children."""
        return list(self.children_specs)

    def child(self, index: int) -> TreeSpec:
        """The structure of a child."""
        return self.children_specs[index]

    def flatten_up_to(self, tree: PyTree) -> list[PyTree]:
        """The parts of a tree that begins with this structure, where the structure has leaves."""
        if self.is_leaf():
            return [tree]
        if _get_node_type(tree) != self.type:
            raise ValueError(f"Type mismatch; expected {self.type!r}, but got {type(tree)!r}.")
        values, context = SUPPORTED_NODES[self.type].flatten_fn(tree)
        if self.type in (dict, OrderedDict, defaultdict):
            keys = self.context[1] if self.type is defaultdict else self.context
            if set(tree) != set(keys):
                raise ValueError(f"Node keys mismatch; expected {list(keys)}, but got {list(tree)}.")
            values = [tree[key] for key in keys]
        elif context != self.context:
            raise ValueError(f"Node context mismatch for node type {self.type!r}: expected {self.context}, got {context}.")
        if len(values) != self.num_children:
            raise ValueError(f"Node arity mismatch; expected {self.num_children}, but got {len(values)}.")
        return [part for spec, value in zip(self.children_specs, values) for part in spec.flatten_up_to(value)]

    def unflatten(self, leaves: Iterable[Any]) -> PyTree:
        """The tree with these leaves."""
        leaves = list(leaves)
        if len(leaves) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(leaves)} but the spec refers to a pytree that holds "
                f"{self.num_leaves} items ({self})."
            )
        return self._built(iter(leaves))

    def _built(self, leaves: Any) -> PyTree:
        if self.is_leaf():
            return next(leaves)
        children = [spec._built(leaves) for spec in self.children_specs]
        return SUPPORTED_NODES[self.type].unflatten_fn(children, self.context)


PyTreeSpec = TreeSpec


class LeafSpec(TreeSpec):
    """The structure of a leaf."""

    def __init__(self) -> None:
        super().__init__(None, None, [])

    def __repr__(self, indent: int = 0) -> str:
        return "*"


def treespec_leaf() -> TreeSpec:
    """The structure of a leaf."""
    return LeafSpec()


def _flattened(tree: PyTree, leaves: list[Any], is_leaf: Any) -> TreeSpec:
    if tree_is_leaf(tree, is_leaf):
        leaves.append(tree)
        return LeafSpec()
    kind = _get_node_type(tree)
    children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    return TreeSpec(kind, context, [_flattened(child, leaves, is_leaf) for child in children])


def tree_flatten(tree: PyTree, is_leaf: Any = None) -> tuple[list[Any], TreeSpec]:
    """The leaves, in order, and the structure."""
    leaves: list[Any] = []
    spec = _flattened(tree, leaves, is_leaf)
    return leaves, spec


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> PyTree:
    """The tree of this structure with these leaves."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"tree_unflatten(leaves, treespec): Expected `treespec` to be instance of TreeSpec but got {type(treespec)}.")
    return treespec.unflatten(leaves)


def tree_iter(tree: PyTree, is_leaf: Any = None) -> Iterable[Any]:
    """The leaves, one by one."""
    return iter(tree_leaves(tree, is_leaf))


def tree_leaves(tree: PyTree, is_leaf: Any = None) -> list[Any]:
    """The leaves."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: PyTree, is_leaf: Any = None) -> TreeSpec:
    """The structure."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Any, tree: PyTree, *rests: PyTree, is_leaf: Any = None) -> PyTree:
    """The tree of `func` of each leaf, and of the parts of other trees that stand where it does."""
    leaves, spec = tree_flatten(tree, is_leaf)
    columns = [leaves, *(spec.flatten_up_to(rest) for rest in rests)]
    return spec.unflatten(func(*row) for row in zip(*columns))


def tree_map_(func: Any, tree: PyTree, *rests: PyTree, is_leaf: Any = None) -> PyTree:
    """Calls `func` for each leaf, and gives back the tree."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def map_only(type_or_types_or_pred: Any, /) -> Any:
    """A decorator: the function is called for values of these types only, or for those that a function accepts."""
    by_type = isinstance(type_or_types_or_pred, (type, tuple)) or not callable(type_or_types_or_pred)

    def decorate(func: Any) -> Any:
        def apply(x: Any) -> Any:
            fits = isinstance(x, type_or_types_or_pred) if by_type else type_or_types_or_pred(x)
            return func(x) if fits else x

        return apply

    return decorate


def tree_map_only(type_or_types_or_pred: Any, /, func: Any, tree: PyTree, is_leaf: Any = None) -> PyTree:
    """`tree_map` of the leaves of these types."""
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(type_or_types_or_pred: Any, /, func: Any, tree: PyTree, is_leaf: Any = None) -> PyTree:
    """`tree_map_` of the leaves of these types."""
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(pred: Any, tree: PyTree, is_leaf: Any = None) -> bool:
    """Whether `pred` holds for all leaves."""
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred: Any, tree: PyTree, is_leaf: Any = None) -> bool:
    """Whether `pred` holds for a leaf."""
    return any(map(pred, tree_leaves(tree, is_leaf)))


def tree_all_only(type_or_types: Any, /, pred: Any, tree: PyTree, is_leaf: Any = None) -> bool:
    """Whether `pred` holds for all leaves of these types."""
    return all(pred(x) for x in tree_leaves(tree, is_leaf) if isinstance(x, type_or_types))


def tree_any_only(type_or_types: Any, /, pred: Any, tree: PyTree, is_leaf: Any = None) -> bool:
    """Whether `pred` holds for a leaf of these types."""
    return any(pred(x) for x in tree_leaves(tree, is_leaf) if isinstance(x, type_or_types))


def _broadcast_to_and_flatten(tree: PyTree, treespec: TreeSpec, is_leaf: Any = None) -> list[Any] | None:
    """The leaves of a tree that is a prefix of the structure, each as often as the structure has leaves below it."""
    if tree_is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    if treespec.is_leaf() or _get_node_type(tree) != treespec.type:
        return None
    children, context = SUPPORTED_NODES[treespec.type].flatten_fn(tree)
    if len(children) != treespec.num_children or context != treespec.context:
        return None
    parts = [_broadcast_to_and_flatten(child, spec, is_leaf) for child, spec in zip(children, treespec.children_specs)]
    return None if None in parts else [x for part in parts for x in part or ()]


def _with_paths(path: tuple[Any, ...], tree: PyTree, is_leaf: Any) -> Iterable[tuple[tuple[Any, ...], Any]]:
    if tree_is_leaf(tree, is_leaf):
        yield path, tree
        return
    handler = SUPPORTED_NODES[_get_node_type(tree)].flatten_with_keys_fn
    if handler is None:
        raise ValueError(f"Did not find a flatten_with_keys_fn for type: {type(tree)}. Please pass one to register_pytree_node.")
    for key, child in handler(tree)[0]:
        yield from _with_paths((*path, key), child, is_leaf)


def tree_flatten_with_path(tree: PyTree, is_leaf: Any = None) -> tuple[list[tuple[tuple[Any, ...], Any]], TreeSpec]:
    """The leaves with the steps to each, and the structure."""
    return list(_with_paths((), tree, is_leaf)), tree_structure(tree, is_leaf)


def tree_leaves_with_path(tree: PyTree, is_leaf: Any = None) -> list[tuple[tuple[Any, ...], Any]]:
    """The leaves with the steps to each."""
    return list(_with_paths((), tree, is_leaf))


def tree_map_with_path(func: Any, tree: PyTree, *rests: PyTree, is_leaf: Any = None) -> PyTree:
    """`tree_map` of a function that gets the steps to each leaf as well."""
    found, spec = tree_flatten_with_path(tree, is_leaf)
    columns = [[path for path, _ in found], [leaf for _, leaf in found], *(spec.flatten_up_to(rest) for rest in rests)]
    return spec.unflatten(func(*row) for row in zip(*columns))


def keystr(kp: Iterable[Any]) -> str:
    """The steps as text."""
    return "".join(map(str, kp))


def key_get(obj: Any, kp: Iterable[Any]) -> Any:
    """What the steps lead to."""
    for key in kp:
        obj = key.get(obj)
    return obj


def arg_tree_leaves(*args: PyTree, **kwargs: PyTree) -> list[Any]:
    """The leaves of all arguments."""
    return [leaf for value in (*args, *kwargs.values()) for leaf in tree_leaves(value)]
