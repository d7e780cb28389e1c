"""x-transformers: language models with several of its options, and an encoder."""

from x_transformers import AutoregressiveWrapper, Decoder, Encoder, TransformerWrapper, ViTransformerWrapper

from harness import double, integers, tensor, train

TOLERANCE = 2e-5


def language_model(**options):
    return double(TransformerWrapper(num_tokens=40, max_seq_len=16, attn_layers=Decoder(dim=32, depth=2, heads=4, attn_dim_head=8, **options)))


def case_plain():
    return train(language_model(), integers(2, 10, below=40))


def case_rotary():
    return train(language_model(rotary_pos_emb=True, ff_glu=True, use_rmsnorm=True), integers(2, 10, below=40))


def case_alibi():
    return train(language_model(alibi_pos_bias=True, attn_kv_heads=2), integers(2, 10, below=40))


def case_relative():
    return train(language_model(rel_pos_bias=True, attn_qk_norm=True), integers(2, 10, below=40))


def case_autoregressive():
    return train(AutoregressiveWrapper(language_model()), integers(2, 10, below=40))


def case_images():
    model = ViTransformerWrapper(image_size=32, patch_size=8, num_classes=5, attn_layers=Encoder(dim=32, depth=2, heads=4))
    return train(double(model), tensor(2, 3, 32, 32))
