"""torch.utils.benchmark: times statements, and compares the times. Instruction counts by Callgrind are not implemented."""

from __future__ import annotations

from flambeau.torch.shims.utils.benchmark.compare import Colorize as Colorize, Compare as Compare
from flambeau.torch.shims.utils.benchmark.fuzzer import Fuzzer as Fuzzer, FuzzedParameter as FuzzedParameter
from flambeau.torch.shims.utils.benchmark.fuzzer import FuzzedTensor as FuzzedTensor, ParameterAlias as ParameterAlias
from flambeau.torch.shims.utils.benchmark.measurement import Measurement as Measurement, TaskSpec as TaskSpec
from flambeau.torch.shims.utils.benchmark.measurement import ordered_unique as ordered_unique, select_unit as select_unit
from flambeau.torch.shims.utils.benchmark.measurement import set_torch_threads as set_torch_threads, trim_sigfig as trim_sigfig
from flambeau.torch.shims.utils.benchmark.measurement import unit_to_english as unit_to_english
from flambeau.torch.shims.utils.benchmark.timer import Language as Language, Timer as Timer, timer as timer
