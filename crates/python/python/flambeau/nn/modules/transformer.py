"""Transformers: stacks of attention and small networks (Vaswani et al., 2017)."""

from __future__ import annotations

import math

import flambeau
from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.nn.module import Module
from flambeau.nn.modules.attention import MultiheadAttention
from flambeau.nn.modules.container import ModuleList
from flambeau.nn.modules.dropout import Dropout
from flambeau.nn.modules.linear import Linear
from flambeau.nn.modules.normalization import LayerNorm

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from flambeau import Tensor


def _activation(name: str | Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    if not isinstance(name, str):
        return name
    if name not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {name}")
    return F.relu if name == "relu" else F.gelu


def _copies(module: Module, count: int) -> ModuleList:
    import copy

    return ModuleList([copy.deepcopy(module) for _ in range(count)])


class _Layer(Module):
    """What both kinds of layers have: a small network after the attention, norms and dropout."""

    attentions: tuple[str, ...]

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: flambeau.device | str | None = None,
        dtype: flambeau.dtype | None = None,
    ) -> None:
        super().__init__()
        where: dict[str, Any] = {"device": device, "dtype": dtype}
        for name in self.attentions:
            made = MultiheadAttention(d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, **where)
            self.add_module(name, made)
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **where)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **where)
        self.norm_first = norm_first
        numbers = range(1, len(self.attentions) + 2)
        for number in numbers:
            self.add_module(f"norm{number}", LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **where))
        for number in numbers:
            self.add_module(f"dropout{number}", Dropout(dropout))
        self.activation = _activation(activation)

    def _attend(self, name: str, x: Tensor, source: Tensor | None, mask: Any, padding: Any, causal: bool) -> Tensor:
        """Attention of the positions of `x` to those of `source`, or to one another, then dropout."""
        number = self.attentions.index(name) + 1
        source = x if source is None else source
        found, _ = getattr(self, name)(
            x, source, source, attn_mask=mask, key_padding_mask=padding, is_causal=causal, need_weights=False
        )
        return getattr(self, f"dropout{number}")(found)

    def _feed_forward(self, x: Tensor) -> Tensor:
        last = len(self.attentions) + 1
        return getattr(self, f"dropout{last}")(self.linear2(self.dropout(self.activation(self.linear1(x)))))

    def _around(self, number: int, x: Tensor, part: Callable[[Tensor], Tensor]) -> Tensor:
        """The residual connection around a part, with the norm before the part or after the sum."""
        norm = getattr(self, f"norm{number}")
        return x + part(norm(x)) if self.norm_first else norm(x + part(x))


class TransformerEncoderLayer(_Layer):
    """Attention of a sequence to itself, then a small network."""

    attentions = ("self_attn",)

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        look = lambda x: self._attend("self_attn", x, None, src_mask, src_key_padding_mask, is_causal)  # noqa: E731
        return self._around(2, self._around(1, src, look), self._feed_forward)


class TransformerDecoderLayer(_Layer):
    """Attention of a sequence to itself, then to another one, then a small network."""

    attentions = ("self_attn", "multihead_attn")

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        own = (None, tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        other = (memory, memory_mask, memory_key_padding_mask, memory_is_causal)
        x = self._around(1, tgt, lambda x: self._attend("self_attn", x, *own))
        x = self._around(2, x, lambda x: self._attend("multihead_attn", x, *other))
        return self._around(3, x, self._feed_forward)


class TransformerEncoder(Module):
    """Copies of a layer, one after the other.

    `enable_nested_tensor` and `mask_check` are PyTorch's and change nothing: there are no nested tensors.
    """

    def __init__(
        self,
        encoder_layer: TransformerEncoderLayer,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _copies(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask, bool(is_causal))
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """Copies of a layer, one after the other."""

    def __init__(self, decoder_layer: TransformerDecoderLayer, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _copies(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        masks = (tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)
        for layer in self.layers:
            tgt = layer(tgt, memory, *masks, bool(tgt_is_causal), memory_is_causal)
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """An encoder, and a decoder that attends to its output."""

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = F.relu,
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: flambeau.device | str | None = None,
        dtype: flambeau.dtype | None = None,
    ) -> None:
        super().__init__()
        where: dict[str, Any] = {"device": device, "dtype": dtype}
        layer = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)
        norm = lambda: LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **where)  # noqa: E731
        self.encoder = custom_encoder or TransformerEncoder(
            TransformerEncoderLayer(*layer, **where), num_encoder_layers, norm()
        )
        self.decoder = custom_decoder or TransformerDecoder(
            TransformerDecoderLayer(*layer, **where), num_decoder_layers, norm()
        )
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first
        for param in self.parameters():
            if param.ndim > 1:
                init.xavier_uniform_(param)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        batch = 0 if self.batch_first else 1
        if src.ndim == 3 and src.shape[batch] != tgt.shape[batch]:
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        masks = (tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)
        return self.decoder(tgt, memory, *masks, tgt_is_causal, memory_is_causal)

    @staticmethod
    def generate_square_subsequent_mask(
        sz: int, device: flambeau.device | str | None = None, dtype: flambeau.dtype | None = None
    ) -> Tensor:
        """An additive mask that hides later positions from each position."""
        return flambeau.full((sz, sz), -math.inf, device=device, dtype=dtype).triu(1)
