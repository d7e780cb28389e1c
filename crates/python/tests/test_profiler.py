"""The profiler from Python: what it sees, sums, tables, traces, and that it ends."""

import doctest
import json
import threading

import pytest

import flambeau as fl
from flambeau import nn, profiler
from flambeau.profiler import ProfilerActivity, profile, record_function


def counts(prof):
    return {average.key: average.count for average in prof.key_averages()}


def test_the_example_of_the_module_runs():
    failed, tried = doctest.testmod(profiler)
    assert failed == 0 and tried >= 5


def test_a_network_forward_and_backward():
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    x = fl.ones(4, 8)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, profile_memory=True) as prof:
        for _ in range(3):
            with record_function("step"):
                model(x).sum().backward()
    seen = counts(prof)
    assert seen["step"] == seen["ReluBackward0"] == seen["sum"] == 3
    assert [e.input_shapes for e in prof.events() if e.name == "linear"][:2] == [[[4, 8], [16, 8], [16]], [[4, 16], [1, 16], [1]]]
    steps = [event for event in prof.events() if event.name == "step"]
    assert all(event.kind == "range" and event.cpu_parent is None for event in steps)
    backward = [event for event in prof.events() if event.name == "ReluBackward0"]
    for event in backward:
        around = event.cpu_parent
        while around.cpu_parent is not None:
            around = around.cpu_parent
        assert around in steps and around.start <= event.start <= event.end <= around.end
    assert prof.peak_memory > 0


def test_sums_agree_with_the_events():
    x = fl.ones(32, 32)
    with profile(profile_memory=True) as prof:
        y = [(x @ x).exp() for _ in range(4)]
    averages = prof.key_averages()
    for average in averages:
        own = [event for event in prof.events() if event.name == average.key]
        assert average.count == len(own)
        assert average.self_cpu_memory_usage == sum(event.self_cpu_memory_usage for event in own)
        assert average.cpu_time == pytest.approx(average.cpu_time_total / average.count)
    exp = next(average for average in averages if average.key == "exp")
    assert exp.cpu_memory_usage == 4 * 4096 and len(y) == 4
    assert averages.self_cpu_time_total == pytest.approx(sum(average.self_cpu_time_total for average in averages))


def test_tables_are_sorted_and_cut():
    tensors = [fl.ones(size, size) for size in (2, 2, 3)]
    with profile(record_shapes=True) as prof:
        for x in tensors:
            x.exp()
    table = prof.key_averages(group_by_input_shape=True).table(sort_by="count", row_limit=1)
    assert "Input Shapes" in table and "[[2, 2]]" in table and "[[3, 3]]" not in table
    with pytest.raises(ValueError, match="self_cpu_time_total"):
        prof.key_averages().table(sort_by="beauty")


def test_the_trace_is_json(tmp_path):
    x = fl.ones(2, 2, requires_grad=True)
    with profile(record_shapes=True, profile_memory=True) as prof, record_function('a "name"'):
        (x @ x).sum().backward()
    prof.export_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    complete = [event for event in events if event["ph"] == "X"]
    assert len(complete) == len(prof.events()) and 'a "name"' in {event["name"] for event in complete}
    assert len([event for event in events if event["ph"] == "s"]) == 2
    mm = next(event for event in complete if event["name"] == "mm")
    assert mm["args"]["Input Dims"] == [[2, 2], [2, 2]]


def test_threads_and_decorated_functions():
    together = threading.Barrier(2)

    @record_function("work")
    def work():
        together.wait()
        fl.ones(3).exp()
        together.wait()

    threads = [threading.Thread(target=work) for _ in range(2)]
    with profile() as prof:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    work_events = [event for event in prof.events() if event.name == "work"]
    assert len({event.thread for event in work_events}) == 2
    exps = [event for event in prof.events() if event.name == "exp"]
    assert sorted(event.thread for event in exps) == sorted(event.cpu_parent.thread for event in exps)
    assert all(event.cpu_parent.name == "work" for event in exps)


def test_errors_leave_it_off_and_profilers_do_not_nest():
    with pytest.raises(ZeroDivisionError), profile() as prof:
        fl.ones(2).exp()
        raise ZeroDivisionError
    assert counts(prof)["exp"] == 1
    with profile() as outer:
        with pytest.raises(RuntimeError, match="do not nest"), profile():
            pass
        fl.ones(2).exp()
    assert counts(outer)["exp"] == 1
    with profile() as empty:
        pass
    assert empty.events() == [] and len(empty.key_averages()) == 0


def test_wrong_uses_are_told():
    with pytest.raises(RuntimeError, match="started and stopped"):
        profile().key_averages()
    with pytest.raises(ValueError, match="activities"):
        profile(activities=["gpu"])
    with record_function("outside of a profiler"):
        pass
