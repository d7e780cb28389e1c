"""Data sets, samplers, batches and the loader without workers."""

from __future__ import annotations

from collections import Counter, namedtuple

import numpy as np
import pytest

import flambeau
from flambeau.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    StackDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    default_convert,
    random_split,
)

Point = namedtuple("Point", "x y")


def generator(seed):
    made = flambeau.Generator()
    made.manual_seed(seed)
    return made


class Stream(IterableDataset):
    def __init__(self, count):
        self.count = count

    def __iter__(self):
        return iter(range(self.count))


def test_tensor_data_sets():
    data = TensorDataset(flambeau.arange(6).reshape(3, 2), flambeau.tensor([5, 6, 7]))
    assert len(data) == 3 and [part.tolist() for part in data[1]] == [[2, 3], 6]
    with pytest.raises(AssertionError, match="Size mismatch"):
        TensorDataset(flambeau.ones(2), flambeau.ones(3))


def test_data_sets_of_data_sets():
    data = ConcatDataset([range(3), range(10, 12)])
    assert [data[i] for i in range(len(data))] == [0, 1, 2, 10, 11] and data[-1] == 11
    with pytest.raises(ValueError, match="should not exceed"):
        data[-6]
    with pytest.raises(IndexError):
        data[5]
    with pytest.raises(AssertionError, match="empty iterable"):
        ConcatDataset([])
    assert list(Subset(data, [4, 0])) == [11, 0] and Subset(data, [4, 0]).__getitems__([1, 0]) == [0, 11]
    assert StackDataset(range(3), range(3, 6))[1] == (1, 4) and StackDataset(a=range(3))[2] == {"a": 2}
    joined = TensorDataset(flambeau.ones(2)) + TensorDataset(flambeau.zeros(1))
    assert [joined[i][0].item() for i in range(3)] == [1.0, 1.0, 0.0]


def test_random_splits():
    parts = random_split(range(10), [7, 3], generator=generator(1))
    assert [len(part) for part in parts] == [7, 3]
    assert sorted(value for part in parts for value in part) == list(range(10))
    again = random_split(range(10), [7, 3], generator=generator(1))
    assert [list(part) for part in parts] == [list(part) for part in again]
    assert [len(part) for part in random_split(range(11), [0.5, 0.3, 0.2])] == [6, 3, 2]
    with pytest.raises(ValueError, match="does not equal the length"):
        random_split(range(10), [5, 4])


def test_samplers():
    assert list(SequentialSampler(range(4))) == [0, 1, 2, 3]
    order = list(RandomSampler(range(50), generator=generator(2)))
    assert sorted(order) == list(range(50)) and order != list(range(50))
    assert order == list(RandomSampler(range(50), generator=generator(2)))
    longer = list(RandomSampler(range(5), num_samples=12))
    assert len(longer) == 12 and sorted(longer[:5]) == sorted(longer[5:10]) == list(range(5))
    drawn = Counter(RandomSampler(range(4), replacement=True, num_samples=4000, generator=generator(3)))
    # Five standard deviations of a count of 4,000 draws with a chance of a quarter.
    assert all(abs(count - 1000) < 137 for count in drawn.values())
    assert sorted(SubsetRandomSampler([3, 5, 9])) == [3, 5, 9]
    with pytest.raises(ValueError, match="positive integer"):
        RandomSampler([])
    flambeau.manual_seed(4)
    first = list(RandomSampler(range(20)))
    flambeau.manual_seed(4)
    assert list(RandomSampler(range(20))) == first


def test_weighted_sampler():
    sampler = WeightedRandomSampler([1.0, 0.0, 3.0], 4000, generator=generator(5))
    drawn = Counter(sampler)
    assert len(sampler) == 4000 and drawn[1] == 0 and abs(drawn[2] - 3000) < 137
    assert sorted(WeightedRandomSampler([1.0, 2.0, 3.0], 3, replacement=False)) == [0, 1, 2]
    with pytest.raises(ValueError, match="1d sequence"):
        WeightedRandomSampler([[1.0]], 1)


def test_batch_sampler():
    assert list(BatchSampler(range(7), 3, False)) == [[0, 1, 2], [3, 4, 5], [6]]
    assert list(BatchSampler(range(7), 3, True)) == [[0, 1, 2], [3, 4, 5]]
    assert len(BatchSampler(range(7), 3, False)) == 3 and len(BatchSampler(range(7), 3, True)) == 2
    with pytest.raises(ValueError, match="batch_size"):
        BatchSampler(range(7), 0, False)


def test_collating():
    batch = default_collate([(flambeau.ones(2), 1, 2.0, "a"), (flambeau.zeros(2), 3, 4.0, "b")])
    assert isinstance(batch, list)
    assert batch[0].tolist() == [[1.0, 1.0], [0.0, 0.0]]
    assert batch[1].tolist() == [1, 3] and batch[1].dtype == flambeau.int64
    assert batch[2].tolist() == [2.0, 4.0] and batch[2].dtype == flambeau.float64
    assert batch[3] == ("a", "b")
    named = default_collate([Point(1, {"k": 2}), Point(3, {"k": 4})])
    assert isinstance(named, Point) and named.x.tolist() == [1, 3] and named.y["k"].tolist() == [2, 4]
    assert [part.tolist() for part in default_collate([[1, 2], [3, 4]])] == [[1, 3], [2, 4]]
    with pytest.raises(RuntimeError, match="equal size"):
        default_collate([[1], [2, 3]])
    with pytest.raises(TypeError, match="must contain tensors"):
        default_collate([object()])
    assert default_convert({"a": (1, "x")}) == {"a": [1, "x"]}


def test_arrays_become_tensors():
    batch = default_collate([np.full(2, i, dtype=np.float32) for i in range(3)])
    assert batch.tolist() == [[0, 0], [1, 1], [2, 2]] and batch.dtype == flambeau.float32
    assert default_collate([np.float64(1.5), np.float64(2.5)]).dtype == flambeau.float64
    with pytest.raises(TypeError, match="an array of"):
        default_collate([np.array(["a"])])


def test_batches():
    data = TensorDataset(flambeau.arange(10.0), flambeau.arange(10))
    batches = [(x.tolist(), y.tolist()) for x, y in DataLoader(data, batch_size=4)]
    assert batches == [([0, 1, 2, 3],) * 2, ([4, 5, 6, 7],) * 2, ([8, 9],) * 2]
    assert len(DataLoader(data, batch_size=4, drop_last=True)) == 2 == len(list(DataLoader(data, batch_size=4, drop_last=True)))
    single = list(DataLoader(range(3), batch_size=None))
    assert single == [0, 1, 2]
    assert list(DataLoader(range(4), batch_size=2, collate_fn=sum)) == [1, 5]
    assert list(DataLoader(range(4), batch_sampler=[[3, 0], [2]], collate_fn=list)) == [[3, 0], [2]]
    assert list(DataLoader(range(4), sampler=[2, 1], collate_fn=list)) == [[2], [1]]


def test_shuffled_batches():
    loader = DataLoader(range(30), batch_size=7, shuffle=True, generator=generator(6), collate_fn=list)
    first, second = list(loader), list(loader)
    assert sorted(sum(first, [])) == list(range(30)) and first != second
    again = DataLoader(range(30), batch_size=7, shuffle=True, generator=generator(6), collate_fn=list)
    assert list(again) == first


def test_whole_batches_at_once():
    class Whole(Dataset):
        def __len__(self):
            return 5

        def __getitems__(self, indices):
            return [10 * index for index in indices]

    assert [batch.tolist() for batch in DataLoader(Whole(), batch_size=3)] == [[0, 10, 20], [30, 40]]


def test_iterable_data_sets():
    assert [batch.tolist() for batch in DataLoader(Stream(5), batch_size=2)] == [[0, 1], [2, 3], [4]]
    assert [batch.tolist() for batch in DataLoader(Stream(5), batch_size=2, drop_last=True)] == [[0, 1], [2, 3]]
    assert [batch.tolist() for batch in DataLoader(Stream(4), batch_size=2)] == [[0, 1], [2, 3]]
    assert list(DataLoader(Stream(3), batch_size=None)) == [0, 1, 2]
    assert list(Stream(2) + Stream(3)) == [0, 1, 0, 1, 2]
    with pytest.raises(ValueError, match="expected unspecified shuffle option"):
        DataLoader(Stream(3), shuffle=True)


def test_what_does_not_go_together():
    for options, message in (
        ({"sampler": [0], "shuffle": True}, "mutually exclusive with shuffle"),
        ({"batch_sampler": [[0]], "batch_size": 2}, "mutually exclusive with batch_size"),
        ({"batch_size": None, "drop_last": True}, "mutually exclusive with drop_last"),
        ({"num_workers": -1}, "non-negative"),
        ({"timeout": -1}, "non-negative"),
        ({"prefetch_factor": 2}, "prefetch_factor"),
        ({"persistent_workers": True}, "num_workers > 0"),
        ({"batch_size": 0}, "positive integer"),
    ):
        with pytest.raises(ValueError, match=message):
            DataLoader(range(3), **options)
    with pytest.warns(UserWarning, match="pin_memory"):
        DataLoader(range(3), pin_memory=True)
    loader = DataLoader(range(3))
    with pytest.raises(ValueError, match="should not be set"):
        loader.batch_size = 4
