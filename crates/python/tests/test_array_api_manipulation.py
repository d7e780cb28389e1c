"""Functions of the Array API that change shapes and order, or select elements by indices, against NumPy."""

import numpy as np
import pytest

from array_api_samples import ALL, INTEGER, Draw, array, assert_same
from flambeau import array_api as xp

ROUNDS = 6


@pytest.fixture(params=ALL)
def draw(request):
    """Random arrays of a type."""
    made = Draw(request.param)
    made.type = request.param
    return made


def arrays(draw, fewest=0):
    for _ in range(ROUNDS):
        yield draw.pair(draw.type, draw.shape(fewest=fewest))


def test_broadcasting(draw):
    for _ in range(ROUNDS):
        one, other = draw.shapes()
        values, x = draw.pair(draw.type, one)
        others, y = draw.pair(draw.partner(draw.type), other)
        assert_same(xp.broadcast_arrays(x, y), [np.broadcast_to(part, np.broadcast_shapes(one, other)) for part in (values, others)])
        assert xp.broadcast_shapes(one, other) == np.broadcast_shapes(one, other) and type(xp.broadcast_shapes(one)) is tuple
        assert_same(xp.broadcast_to(x, np.broadcast_shapes(one, other)), np.broadcast_to(values, np.broadcast_shapes(one, other)))
    assert xp.broadcast_arrays() == () and xp.broadcast_shapes() == ()
    with pytest.raises(ValueError, match="broadcast_shapes"):
        xp.broadcast_shapes((2,), (3,))
    with pytest.raises(RuntimeError):
        xp.broadcast_to(xp.ones(2), (3,))


def test_concat_and_stack(draw):
    for values, x in arrays(draw, fewest=1):
        other = draw.partner(draw.type)
        common = str(np.promote_types(draw.type, other))
        more, y = draw.pair(other, values.shape)
        axis = draw.choice([None, draw.axis(values.ndim)])
        assert_same(xp.concat([x, y], axis=axis), np.concatenate([values, more], axis), common)
        axis = draw.axis(values.ndim + 1)
        assert_same(xp.stack((x, y), axis=axis), np.stack([values, more], axis), common)
    assert xp.concat([xp.ones((0, 2)), xp.ones((3, 2))]).shape == (3, 2)
    assert xp.concat([xp.ones(()), xp.ones((2, 2))], axis=None).shape == (5,)
    for wrong in ([], [xp.ones(2), xp.ones((2, 2))]):
        with pytest.raises(ValueError):
            xp.concat(wrong)
    with pytest.raises(IndexError):
        xp.concat([xp.ones(2)], axis=1)


def test_expand_dims_and_squeeze(draw):
    for values, x in arrays(draw):
        axis = draw.axis(values.ndim + 1)
        assert_same(xp.expand_dims(x, axis), np.expand_dims(values, axis))
        several = tuple(one - values.ndim - 2 if draw.random.random() < 0.3 else one for one in draw.random.sample(range(values.ndim + 2), 2))
        expanded = xp.expand_dims(x, several)
        assert_same(expanded, np.expand_dims(values, several), note=several)
        assert_same(xp.squeeze(expanded, several), values)
        assert_same(xp.squeeze(xp.expand_dims(x, 0), 0), values)
    assert xp.squeeze(xp.ones((1, 2)), ()).shape == (1, 2)
    with pytest.raises(IndexError, match="expand_dims"):
        xp.expand_dims(xp.ones(2), 2)
    with pytest.raises(ValueError, match="different axes"):
        xp.expand_dims(xp.ones(2), (0, -3))
    with pytest.raises(ValueError, match="expected size 1"):
        xp.squeeze(xp.ones((1, 2)), 1)


def test_order_of_elements_and_axes(draw):
    for values, x in arrays(draw):
        axes = draw.axes(values.ndim)
        assert_same(xp.flip(x, axis=axes), np.flip(values, axes), note=axes)
        shift = draw.random.randint(-9, 9)
        assert_same(xp.roll(x, shift, axis=axes), values if axes == () else np.roll(values, shift, axes), note=(shift, axes))
        if isinstance(axes, tuple) and axes:
            shifts = tuple(draw.random.randint(-9, 9) for _ in axes)
            assert_same(xp.roll(x, shifts, axis=axes), np.roll(values, shifts, axes), note=(shifts, axes))
        order = [one - values.ndim if draw.random.random() < 0.3 else one for one in draw.random.sample(range(values.ndim), values.ndim)]
        assert_same(xp.permute_dims(x, tuple(order)), np.transpose(values, order))
        if values.ndim:
            source, destination = draw.axis(values.ndim), draw.axis(values.ndim)
            assert_same(xp.moveaxis(x, source, destination), np.moveaxis(values, source, destination))
            assert_same(xp.unstack(x, axis=source), [part for part in np.moveaxis(values, source, 0)])
    x = xp.reshape(xp.arange(24), (2, 3, 4))
    assert_same(xp.moveaxis(x, (0, -1), (-1, 0)), np.moveaxis(np.arange(24).reshape(2, 3, 4), (0, -1), (-1, 0)))
    for call in (lambda: xp.flip(x, axis=3), lambda: xp.permute_dims(x, (0, 1, 3)), lambda: xp.roll(x, 1, axis=-4), lambda: xp.unstack(x, axis=5)):
        with pytest.raises(IndexError):
            call()
    for call in (lambda: xp.roll(x, (1, 2)), lambda: xp.roll(x, (1, 2), axis=0), lambda: xp.unstack(xp.ones(()))):
        with pytest.raises(ValueError):
            call()


def test_reshape(draw):
    for values, x in arrays(draw):
        assert_same(xp.reshape(x, (-1,)), values.reshape(-1))
        assert_same(xp.reshape(x, (1, *values.shape)), values[None])
        copy = xp.reshape(x, values.shape, copy=True)
        assert_same(copy, values)
    x = xp.reshape(xp.arange(6), (2, 3))
    xp.reshape(x, (6,), copy=False)[0] = 7
    assert x[0, 0].item() == 7
    xp.reshape(x, (6,), copy=True)[0] = 8
    assert x[0, 0].item() == 7
    with pytest.raises(ValueError, match="copy=False"):
        xp.reshape(x.mT, (6,), copy=False)
    with pytest.raises(RuntimeError):
        xp.reshape(x, (5,))


def test_repetition(draw):
    for values, x in arrays(draw, fewest=1):
        axis = draw.choice([None, draw.axis(values.ndim)])
        times = draw.random.randint(0, 3)
        assert_same(xp.repeat(x, times, axis=axis), np.repeat(values, times, axis))
        size = values.size if axis is None else values.shape[axis]
        counts = draw.numpy(draw.choice(INTEGER), (size,), low=0, high=2)
        assert_same(xp.repeat(x, array(counts), axis=axis), np.repeat(values, counts.astype("int64"), axis), note=(values.shape, counts, axis))
        assert_same(xp.repeat(x, xp.asarray([2]), axis=axis), np.repeat(values, 2, axis))
        repetitions = tuple(draw.random.randint(0, 2) for _ in range(draw.random.randint(0, 4)))
        assert_same(xp.tile(x, repetitions), np.tile(values, repetitions), note=(values.shape, repetitions))
    with pytest.raises(TypeError, match="integer dtype"):
        xp.repeat(xp.ones(2), xp.ones(2))


def test_take(draw):
    for values, x in arrays(draw, fewest=1):
        axis = draw.axis(values.ndim)
        size = values.shape[axis]
        if values.size == 0:
            continue
        indices = draw.numbers.integers(-size, size, size=3)
        assert_same(xp.take(x, array(indices), axis=axis), np.take(values, indices, axis))
        assert_same(xp.take(xp.reshape(x, (-1,)), array(indices)), np.take(values.reshape(-1), indices))
        shape = [1 if draw.random.random() < 0.3 else part for part in values.shape]
        shape[axis] = 2
        indices = draw.numbers.integers(-size, size, size=shape)
        full = np.broadcast_to(indices, [2 if one == axis % values.ndim else part for one, part in enumerate(values.shape)])
        assert_same(xp.take_along_axis(x, array(indices), axis=axis), np.take_along_axis(values, full, axis))
    matrix, index = xp.ones((2, 2)), xp.asarray([0])
    for call in (lambda: xp.take(matrix, index), lambda: xp.take(matrix, xp.asarray([[0]]), axis=0), lambda: xp.take_along_axis(matrix, index)):
        with pytest.raises(ValueError):
            call()
    with pytest.raises(IndexError):
        xp.take(matrix, xp.asarray([2]), axis=0)
    with pytest.raises(TypeError, match="integer dtype"):
        xp.take(matrix, xp.asarray([0.0]), axis=0)
