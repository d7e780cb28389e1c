"""Results with names, as `torch.return_types` has them: `x.max(0).values`."""

_made: dict[tuple[str, tuple[str, ...]], type] = {}


def make(name, fields):
    """The class of a tuple with these fields."""
    from collections import namedtuple

    if (name, fields) not in _made:
        _made[name, fields] = namedtuple(name, fields, module="flambeau.return_types")
    return _made[name, fields]
