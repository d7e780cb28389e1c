"""Sizes: a tuple that prints as PyTorch's and counts its elements."""


class Size(tuple):
    """The sizes of a tensor."""

    __slots__ = ()

    def numel(self):
        """How many elements a tensor of these sizes has."""
        product = 1
        for size in self:
            product *= size
        return product

    def __repr__(self):
        return f"flambeau.Size([{', '.join(map(str, self))}])"

    def __add__(self, other):
        return Size(tuple.__add__(self, other))

    def __mul__(self, count):
        return Size(tuple.__mul__(self, count))

    __rmul__ = __mul__

    def __getitem__(self, index):
        found = tuple.__getitem__(self, index)
        return Size(found) if isinstance(index, slice) else found
