"""torch.utils.model_zoo: another name for a function of torch.hub."""

from __future__ import annotations

from flambeau.torch.shims.hub import load_state_dict_from_url as load_state_dict_from_url

load_url = load_state_dict_from_url


class tqdm:
    """A bar of progress that shows nothing."""

    def __init__(self, iterable: object = None, **options: object) -> None:
        self.iterable = iterable

    def __iter__(self) -> object:
        return iter(self.iterable)  # type: ignore[call-overload]

    def update(self, n: int = 1) -> None:
        """Shows nothing."""

    def __enter__(self) -> tqdm:
        return self

    def __exit__(self, *raised: object) -> None:
        pass
